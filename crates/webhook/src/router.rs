//! The HTTP side: which path is which webhook, and how a request becomes an answer.
//!
//! Every request gets an answer in words: a review an `AdmissionReview`, anything else a 4xx. A log line is written for
//! each refusal.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Request as HttpRequest, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::post;
use forest::Settings;
use forest::configuration::Served;
use forest::rules::Denial;
use hns_api::names::{paths, webhooks as names};
use hns_cluster::configured_kinds::{Configuration, discover};
use hns_cluster::handle::ForestHandle;
use hns_runtime::serve::Peer;
use json_patch::Patch;
use kube::Client;
use tokio::sync::watch::Receiver;
use tracing::Instrument as _;

use crate::body::{self, Bodies, Whole};
use crate::decode::{self, Request, Unreadable};
use crate::judge::{Decision, Envelope, Rule, judge};
use crate::metrics::AdmissionMetrics;
use crate::pending::Pending;
use crate::questions::{Asker, Looks};
use crate::respond::{self, Subject};
use crate::webhooks;

/// The longest that a judgement waits to learn what the API server serves.
const DISCOVERY: Duration = Duration::from_secs(3);

/// What every request is judged with.
pub struct App {
    /// What is known of the hierarchy.
    pub forest: ForestHandle,
    /// Where questions go.
    pub client: Client,
    /// Whose requests are not judged: the user name of the controller's service account.
    pub controller: String,
    /// The user name of the webhook's own service account.
    pub webhook: String,
    /// Which kinds are configured, and what the API server serves.
    pub configuration: Receiver<Configuration>,
    /// What this replica has let through and not seen yet.
    pub pending: Arc<Pending>,
    /// The bodies of all requests under way.
    pub bodies: Arc<Bodies>,
    /// What is being asked.
    pub(crate) looks: Looks,
    /// What is counted.
    pub metrics: AdmissionMetrics,
}

/// All webhooks.
pub fn router(app: App) -> Router {
    Router::new()
        .route(paths::HIERARCHY_CONFIGURATIONS, post(hierarchy_configurations))
        .route(paths::SUBNAMESPACE_ANCHORS, post(subnamespace_anchors))
        .route(paths::NAMESPACES, post(namespaces))
        .route(paths::OBJECTS, post(objects))
        .route(paths::HNC_CONFIGURATIONS, post(hnc_configurations))
        .route(paths::NAMESPACE_LABEL, post(namespace_label))
        .route(paths::INITIAL_ADMIN, post(initial_admin))
        .fallback(no_webhook)
        .method_not_allowed_fallback(not_by_post)
        .with_state(Arc::new(app))
}

async fn hierarchy_configurations(State(app): State<Arc<App>>, http: HttpRequest) -> Response {
    let judge = async |app: &App, asked: &Asked<'_>| {
        app.decide(asked, webhooks::hierarchy::read(&asked.request)).await
    };
    app.answer(names::HIERARCHY_CONFIGURATIONS, http, |_| Subject::hierarchy(), judge).await
}

async fn subnamespace_anchors(State(app): State<Arc<App>>, http: HttpRequest) -> Response {
    let subject = |request: &Request<'_>| Subject::anchor(&webhooks::name(request));
    let judge =
        async |app: &App, asked: &Asked<'_>| app.decide(asked, webhooks::anchor::read(&asked.request)).await;
    app.answer(names::SUBNAMESPACE_ANCHORS, http, subject, judge).await
}

async fn namespaces(State(app): State<Arc<App>>, http: HttpRequest) -> Response {
    let subject = |request: &Request<'_>| Subject::namespace(&webhooks::name(request));
    let judge = async |app: &App, asked: &Asked<'_>| {
        app.decide(asked, webhooks::namespace::read(&asked.request)).await
    };
    app.answer(names::NAMESPACES, http, subject, judge).await
}

/// Serves all entries of the registration that are about objects; they differ only in when the API server asks.
async fn objects(State(app): State<Arc<App>>, http: HttpRequest) -> Response {
    let subject = |request: &Request<'_>| {
        let namespace = request.namespace.as_deref().unwrap_or_default();
        Subject::object(request, namespace, &webhooks::name(request))
    };
    let judge =
        async |app: &App, asked: &Asked<'_>| app.decide(asked, webhooks::object::read(&asked.request)).await;
    app.answer(names::OBJECTS, http, subject, judge).await
}

async fn hnc_configurations(State(app): State<Arc<App>>, http: HttpRequest) -> Response {
    let judge = async |app: &App, asked: &Asked<'_>| {
        let served = app.served(asked.deadline).instrument(app.asker(asked).span()).await;
        app.decide(asked, webhooks::configuration::read(&asked.request, served)).await
    };
    app.answer(names::HNC_CONFIGURATIONS, http, |_| Subject::configuration(), judge).await
}

async fn namespace_label(State(app): State<Arc<App>>, http: HttpRequest) -> Response {
    app.mutate(names::NAMESPACE_LABEL, http, |settings, request| {
        webhooks::mutate::included_label(settings, &request.object.as_ref()?.metadata)
    })
    .await
}

async fn initial_admin(State(app): State<Arc<App>>, http: HttpRequest) -> Response {
    app.mutate(names::INITIAL_ADMIN, http, |settings, request| {
        let user = request.user_info.username.as_deref()?;
        webhooks::mutate::initial_admin(settings, &request.object.as_ref()?.metadata, user)
    })
    .await
}

async fn no_webhook(State(app): State<Arc<App>>) -> Response {
    let all = [
        paths::HIERARCHY_CONFIGURATIONS,
        paths::SUBNAMESPACE_ANCHORS,
        paths::NAMESPACES,
        paths::OBJECTS,
        paths::HNC_CONFIGURATIONS,
        paths::NAMESPACE_LABEL,
        paths::INITIAL_ADMIN,
    ]
    .join(", ");
    let message = format!("there is no webhook at this path; there are {all}");
    app.refuse(NO_WEBHOOK, Unreadable::new(StatusCode::NOT_FOUND, message))
}

async fn not_by_post(State(app): State<Arc<App>>) -> Response {
    let message = "an AdmissionReview is expected by POST";
    app.refuse(NO_WEBHOOK, Unreadable::new(StatusCode::METHOD_NOT_ALLOWED, message))
}

/// In the log, in place of a webhook's name.
const NO_WEBHOOK: &str = "none";

/// An HTTP request that has arrived as a whole.
struct Arrived {
    headers: HeaderMap,
    body: Whole,
    /// Where it comes from.
    source: IpAddr,
    /// Until when it must be answered.
    deadline: tokio::time::Instant,
}

/// A review to be judged.
struct Asked<'a> {
    webhook: &'static str,
    request: Request<'a>,
    source: IpAddr,
    deadline: tokio::time::Instant,
}

impl Asked<'_> {
    fn envelope(&self) -> Envelope {
        let old = self.request.old_object.as_ref();
        Envelope {
            dry_run: self.request.dry_run,
            over: old.map(|old| old.metadata.version()),
            source: self.source,
        }
    }
}

impl App {
    /// Reads the review, has it judged unless it is the controller's, and puts the answer into words.
    async fn answer(
        &self,
        webhook: &'static str,
        http: HttpRequest,
        subject: impl FnOnce(&Request<'_>) -> Subject,
        judge: impl AsyncFnOnce(&Self, &Asked<'_>) -> Decision,
    ) -> Response {
        self.read(webhook, http, async |asked, started| {
            if self.is_controller(&asked.request) && !asked.request.is_probe() {
                self.metrics.reviewed(webhook, "exempt", started.elapsed());
                return Json(respond::allow(&asked.request, vec![])).into_response();
            }
            match judge(self, &asked).await {
                Decision::Allow { warnings } => {
                    self.metrics.reviewed(webhook, "allowed", started.elapsed());
                    Json(respond::allow(&asked.request, warnings)).into_response()
                }
                Decision::Deny(denial) => {
                    let verdict = denial.kind.code_and_reason().1;
                    self.metrics.reviewed(webhook, verdict, started.elapsed());
                    let subject = subject(&asked.request);
                    log_denial(&asked, &subject, verdict, &denial);
                    Json(respond::deny(&asked.request, &subject, &denial)).into_response()
                }
            }
        })
        .await
    }

    /// Never refuses: what is wrong with an object is for the validating webhooks to say. The controller's own objects are
    /// as they should be.
    async fn mutate(
        &self,
        webhook: &'static str,
        http: HttpRequest,
        patch: impl FnOnce(&Settings, &Request<'_>) -> Option<Patch>,
    ) -> Response {
        self.read(webhook, http, async |Asked { request, .. }, started| {
            let patch = if self.is_controller(&request) {
                None
            } else {
                self.forest.read(|forest| patch(forest.settings(), &request))
            };
            let verdict = if patch.is_some() { "patched" } else { "allowed" };
            self.metrics.reviewed(webhook, verdict, started.elapsed());
            Json(match patch {
                Some(patch) => respond::patch(&request, &patch),
                None => respond::allow(&request, vec![]),
            })
            .into_response()
        })
        .await
    }

    /// Has a review answered, or refuses what is none.
    async fn read(
        &self,
        webhook: &'static str,
        http: HttpRequest,
        answer: impl AsyncFnOnce(Asked<'_>, Instant) -> Response,
    ) -> Response {
        let started = Instant::now();
        let answered = async {
            let Arrived { headers, body, source, deadline } = arrived(http, &self.bodies).await?;
            let request = decode::review(&headers, &body)?;
            Ok(answer(Asked { webhook, request, source, deadline }, started).await)
        };
        answered.await.unwrap_or_else(|unreadable| self.refuse(webhook, unreadable))
    }

    fn is_controller(&self, request: &Request<'_>) -> bool {
        request.user_info.username.as_deref() == Some(&self.controller)
    }

    /// Has the rule of what was read judge it.
    async fn decide(&self, asked: &Asked<'_>, read: Result<impl Rule, Denial>) -> Decision {
        match read {
            Ok(rule) => judge(&self.asker(asked), &self.pending, &asked.envelope(), &rule).await,
            Err(denial) => Decision::Deny(denial),
        }
    }

    fn refuse(&self, webhook: &str, Unreadable { status, message }: Unreadable) -> Response {
        tracing::warn!(
            webhook,
            status = status.as_u16(),
            reason = message,
            "a request that is no admission review was refused"
        );
        self.metrics.unreadable(status.as_u16());
        (status, message + "\n").into_response()
    }

    /// What the API server serves, asked past every cache: a definition that was just created is not known here yet. What it
    /// cannot say is as it was before.
    async fn served(&self, deadline: tokio::time::Instant) -> Result<Served, String> {
        let deadline = deadline.min(tokio::time::Instant::now() + DISCOVERY);
        let asked = tokio::time::timeout_at(deadline, discover(&self.client)).await;
        let asked = asked.unwrap_or_else(|_| Err("the API server did not answer in time".into()));
        let known = self.configuration.borrow();
        match (asked, &known.served) {
            (Ok(served), _) => Ok(known.completed(served)),
            (Err(_), Some(served)) => Ok(Served::clone(served)),
            (Err(why), None) => Err(why),
        }
    }

    fn asker<'a>(&'a self, asked: &'a Asked<'_>) -> Asker<'a> {
        Asker {
            client: &self.client,
            forest: &self.forest,
            looks: &self.looks,
            user: &asked.request.user_info,
            accounts: [&self.webhook, &self.controller],
            deadline: asked.deadline,
            webhook: asked.webhook,
            uid: &asked.request.uid,
            metrics: &self.metrics,
        }
    }
}

fn log_denial(asked: &Asked<'_>, subject: &Subject, verdict: &str, denial: &Denial) {
    let request = &asked.request;
    tracing::info!(
        webhook = asked.webhook,
        uid = &*request.uid,
        verdict,
        user = request.user_info.username,
        operation = ?request.operation,
        namespace = request.namespace,
        name = subject.name,
        reason = denial.message,
        "denied"
    );
}

/// The longest that a body may take to arrive.
const ARRIVAL: Duration = Duration::from_secs(10);

/// Reads a body within the time that the API server gives, a tenth of it kept for the way back.
async fn arrived(http: HttpRequest, bodies: &Arc<Bodies>) -> Result<Arrived, Unreadable> {
    let (head, body) = http.into_parts();
    let source = head.extensions.get().map_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED), |Peer(address)| *address);
    let now = tokio::time::Instant::now();
    let deadline = now + decode::timeout(&head.uri).mul_f32(0.9);
    let body = tokio::time::timeout_at(deadline.min(now + ARRIVAL), body::read(body, source, bodies))
        .await
        .map_err(|_| Unreadable::new(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time"))??;
    Ok(Arrived { headers: head.headers, body, source, deadline })
}
