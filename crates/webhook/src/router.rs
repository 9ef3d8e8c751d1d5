//! The HTTP side: which path is which webhook, and how a request becomes an answer.
//!
//! Every request gets an answer in words: a review an `AdmissionReview`, anything else a 4xx. A log line is written for
//! each refusal.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Request as HttpRequest, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Json, Response};
use axum::routing::post;
use forest::Settings;
use forest::configuration::Served;
use forest::rules::Denial;
use hns_api::names::{paths, webhooks as names};
use hns_runtime::configuration::{Configuration, discover};
use hns_runtime::handle::ForestHandle;
use hns_runtime::ingest;
use json_patch::Patch;
use kube::Client;
use kube::core::DynamicObject;
use kube::core::admission::{AdmissionRequest, AdmissionReview};
use tokio::sync::watch::Receiver;
use tracing::Instrument as _;

use crate::body;
use crate::decode::{self, Unreadable};
use crate::judge::{Decision, Envelope, Rule, judge};
use crate::metrics::AdmissionMetrics;
use crate::pending::Pending;
use crate::questions::Asker;
use crate::respond::{self, Subject};
use crate::webhooks;

/// The longest that a judgement waits to learn what the API server serves.
const DISCOVERY: Duration = Duration::from_secs(3);

/// What every request is judged with.
#[derive(Clone)]
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
        .with_state(app)
}

async fn hierarchy_configurations(State(app): State<App>, http: HttpRequest) -> Response {
    app.answer(names::HIERARCHY_CONFIGURATIONS, http, async |app, asked| {
        let read = webhooks::hierarchy::read(&asked.request);
        (Subject::hierarchy(), app.decide(asked, read).await)
    })
    .await
}

async fn subnamespace_anchors(State(app): State<App>, http: HttpRequest) -> Response {
    app.answer(names::SUBNAMESPACE_ANCHORS, http, async |app, asked| {
        let read = webhooks::anchor::read(&asked.request);
        let name =
            read.as_ref().map_or_else(|_| asked.request.name.clone(), |request| request.child.to_string());
        (Subject::anchor(&name), app.decide(asked, read).await)
    })
    .await
}

async fn namespaces(State(app): State<App>, http: HttpRequest) -> Response {
    app.answer(names::NAMESPACES, http, async |app, asked| {
        let read = webhooks::namespace::read(&asked.request);
        let name =
            read.as_ref().map_or_else(|_| asked.request.name.clone(), |request| request.name.to_string());
        (Subject::namespace(&name), app.decide(asked, read).await)
    })
    .await
}

/// Serves all entries of the registration that are about objects; they differ only in when the API server asks.
async fn objects(State(app): State<App>, http: HttpRequest) -> Response {
    app.answer(names::OBJECTS, http, async |app, asked| {
        let read = webhooks::object::read(&asked.request);
        let name =
            read.as_ref().map_or_else(|_| asked.request.name.clone(), |request| request.name.to_string());
        let namespace = asked.request.namespace.as_deref().unwrap_or_default();
        (Subject::object(&asked.request, namespace, &name), app.decide(asked, read).await)
    })
    .await
}

async fn hnc_configurations(State(app): State<App>, http: HttpRequest) -> Response {
    app.answer(names::HNC_CONFIGURATIONS, http, async |app, asked| {
        let served = app.served(asked.deadline).await;
        (
            Subject::configuration(),
            app.decide(asked, webhooks::configuration::read(&asked.request, served)).await,
        )
    })
    .await
}

async fn namespace_label(State(app): State<App>, http: HttpRequest) -> Response {
    app.mutate(names::NAMESPACE_LABEL, http, |settings, request| {
        webhooks::mutate::included_label(settings, request.object.as_ref()?)
    })
    .await
}

async fn initial_admin(State(app): State<App>, http: HttpRequest) -> Response {
    app.mutate(names::INITIAL_ADMIN, http, |settings, request| {
        let user = request.user_info.username.as_deref()?;
        webhooks::mutate::initial_admin(settings, request.object.as_ref()?, user)
    })
    .await
}

async fn no_webhook(State(app): State<App>) -> Response {
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

async fn not_by_post(State(app): State<App>) -> Response {
    let message = "an AdmissionReview is expected by POST";
    app.refuse(NO_WEBHOOK, Unreadable::new(StatusCode::METHOD_NOT_ALLOWED, message))
}

/// In the log, in place of a webhook's name.
const NO_WEBHOOK: &str = "none";

/// A review, and until when it must be answered.
struct Asked {
    request: AdmissionRequest<DynamicObject>,
    deadline: tokio::time::Instant,
}

impl Asked {
    fn envelope(&self) -> Envelope {
        let old = self.request.old_object.as_ref();
        Envelope { dry_run: self.request.dry_run, over: old.map(|old| ingest::version(&old.metadata)) }
    }
}

impl App {
    /// Reads the review, has it judged unless it is the controller's, and puts the answer into words.
    async fn answer(
        &self,
        webhook: &'static str,
        http: HttpRequest,
        judge: impl AsyncFnOnce(&Self, &Asked) -> (Subject, Decision),
    ) -> Response {
        let started = Instant::now();
        let asked = match read(http).await {
            Ok(asked) => asked,
            Err(unreadable) => return self.refuse(webhook, unreadable),
        };
        let review = if asked.request.user_info.username.as_deref() == Some(&self.controller) {
            self.metrics.reviewed(webhook, "exempt", started.elapsed());
            respond::allow(&asked.request, vec![])
        } else {
            // Whatever is logged on the way says whose review it is.
            let span = tracing::info_span!("review", webhook, uid = asked.request.uid);
            let judged = async {
                let (subject, decision) = judge(self, &asked).await;
                self.conclude(webhook, &asked.request, &subject, decision, started)
            };
            judged.instrument(span).await
        };
        Json(review).into_response()
    }

    /// Never refuses: what is wrong with an object is for the validating webhooks to say. The controller's own objects are
    /// as they should be.
    async fn mutate(
        &self,
        webhook: &'static str,
        http: HttpRequest,
        patch: impl FnOnce(&Settings, &AdmissionRequest<DynamicObject>) -> Option<Patch>,
    ) -> Response {
        let started = Instant::now();
        let request = match read(http).await {
            Ok(asked) => asked.request,
            Err(unreadable) => return self.refuse(webhook, unreadable),
        };
        let is_controller = request.user_info.username.as_deref() == Some(&self.controller);
        let patch = self.forest.read(|forest| patch(forest.settings(), &request)).filter(|_| !is_controller);
        let verdict = if patch.is_some() { "patched" } else { "allowed" };
        self.metrics.reviewed(webhook, verdict, started.elapsed());
        Json(match patch {
            Some(patch) => respond::patch(&request, patch),
            None => respond::allow(&request, vec![]),
        })
        .into_response()
    }

    /// Has the rule of what was read judge it.
    async fn decide(&self, asked: &Asked, read: Result<impl Rule, Denial>) -> Decision {
        match read {
            Ok(rule) => judge(&self.asker(asked), &self.pending, &asked.envelope(), &rule).await,
            Err(denial) => Decision::Deny(denial),
        }
    }

    fn conclude(
        &self,
        webhook: &str,
        request: &AdmissionRequest<DynamicObject>,
        subject: &Subject,
        decision: Decision,
        started: Instant,
    ) -> AdmissionReview<DynamicObject> {
        let verdict = match &decision {
            Decision::Allow { .. } => "allowed",
            Decision::Deny(denial) => denial.kind.code_and_reason().1,
        };
        self.metrics.reviewed(webhook, verdict, started.elapsed());
        match decision {
            Decision::Allow { warnings } => respond::allow(request, warnings),
            Decision::Deny(denial) => {
                log_denial(request, subject, verdict, &denial);
                respond::deny(request, subject, &denial)
            }
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

    fn asker<'a>(&'a self, asked: &'a Asked) -> Asker<'a> {
        Asker {
            client: &self.client,
            forest: &self.forest,
            user: &asked.request.user_info,
            accounts: [&self.webhook, &self.controller],
            deadline: asked.deadline,
            metrics: &self.metrics,
        }
    }
}

fn log_denial(request: &AdmissionRequest<DynamicObject>, subject: &Subject, verdict: &str, denial: &Denial) {
    tracing::info!(
        verdict,
        user = request.user_info.username,
        operation = ?request.operation,
        namespace = request.namespace,
        name = subject.name,
        reason = denial.message,
        "denied"
    );
}

/// Reads a review within the time that the API server gives, a tenth of it kept for the way back.
async fn read(http: HttpRequest) -> Result<Asked, Unreadable> {
    let timeout = decode::timeout(http.uri());
    let deadline = tokio::time::Instant::now() + timeout.mul_f32(0.9);
    let headers = http.headers().clone();
    let body = tokio::time::timeout_at(deadline, body::read(http.into_body()))
        .await
        .map_err(|_| Unreadable::new(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time"))??;
    let request = decode::review(&headers, &body)?;
    Ok(Asked { request, deadline })
}
