//! The HTTP side: the path of each webhook, and from a request to a response.
//!
//! Every request gets a response with a reason: a review an `AdmissionReview`, anything else a 4xx. Each denial is logged.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Request as HttpRequest, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::post;
use forest::configuration::Served;
use forest::rules::Denial;
use hns_api::accurate::{conversion, names::paths};
use hns_cluster::configured_kinds::{Configuration, discover};
use hns_cluster::handle::ForestHandle;
use hns_cluster::stored::Store;
use hns_runtime::serve::Peer;
use kube::Client;
use kube::core::conversion::ConversionReview;
use kube::core::response::StatusSummary;
use tokio::sync::watch::Receiver;
use tracing::Instrument as _;

use crate::body::{self, Bodies, Whole};
use crate::decode::{self, Request, Unreadable};
use crate::in_flight::{InFlight, Origin};
use crate::judge::{Decision, judge};
use crate::metrics::AdmissionMetrics;
use crate::questions::{Asker, Calls};
use crate::respond::{self, Subject};
use crate::usage_ledger::UsageLedger;
use crate::webhooks::{Context, ReadRequest, WEBHOOKS, Webhook};

/// The longest that a review waits for discovery.
const DISCOVERY: Duration = Duration::from_secs(3);

/// What every request is judged with.
pub struct App {
    /// The hierarchy.
    pub forest: ForestHandle,
    /// Sends questions to the API server.
    pub client: Client,
    /// The user name of the controller's service account, whose requests are not judged.
    pub controller: String,
    /// The user name of the webhook's own service account.
    pub webhook: String,
    /// The configured kinds, and what the API server serves.
    pub configuration: Receiver<Configuration>,
    /// The changes of parent that this replica has allowed and not yet observed.
    pub in_flight: Arc<InFlight>,
    /// Where the namings of missing parents are.
    pub(crate) store: Store,
    /// Decides on increases of usage.
    pub(crate) usage: UsageLedger,
    /// The bodies of all requests in flight.
    pub bodies: Arc<Bodies>,
    /// The calls to the API server in flight.
    pub(crate) calls: Calls,
    /// The metrics.
    pub metrics: AdmissionMetrics,
}

/// All webhooks.
pub fn router(app: App) -> Router {
    let route = |router: Router<Arc<App>>, webhook: &'static dyn Webhook| {
        let answer =
            async move |State(app): State<Arc<App>>, http: HttpRequest| app.answer(webhook, http).await;
        router.route(webhook.path(), post(answer))
    };
    WEBHOOKS
        .into_iter()
        .fold(Router::new(), route)
        .route(paths::CONVERT, post(async |State(app): State<Arc<App>>, http| app.convert(http).await))
        .fallback(no_webhook)
        .method_not_allowed_fallback(not_by_post)
        .with_state(Arc::new(app))
}

async fn no_webhook(State(app): State<Arc<App>>) -> Response {
    let all = WEBHOOKS.map(Webhook::path).join(", ");
    let message = format!("there is no webhook at this path; there are {all}, {}", paths::CONVERT);
    app.refuse(NO_WEBHOOK, Unreadable::new(StatusCode::NOT_FOUND, message))
}

async fn not_by_post(State(app): State<Arc<App>>) -> Response {
    let message = "a review is expected by POST";
    app.refuse(NO_WEBHOOK, Unreadable::new(StatusCode::METHOD_NOT_ALLOWED, message))
}

/// Replaces the webhook's name in the log.
const NO_WEBHOOK: &str = "none";

/// The same for the conversion of `SubNamespaces`, and in metrics.
const CONVERSION: &str = "conversion";

/// A complete HTTP request.
struct Arrived {
    headers: HeaderMap,
    body: Whole,
    /// The address of its sender.
    source: IpAddr,
    /// The time by which it must be answered.
    deadline: tokio::time::Instant,
}

/// A review without a response.
struct Review<'a> {
    webhook: &'static dyn Webhook,
    request: Request<'a>,
    source: IpAddr,
    deadline: tokio::time::Instant,
}

impl Review<'_> {
    fn origin(&self) -> Origin {
        let Request { dry_run, old_object, user_info, .. } = &self.request;
        Origin {
            changes_nothing: *dry_run,
            user: user_info.username.clone().unwrap_or_default(),
            over: old_object.as_ref().map(|old| old.metadata.version()),
            source: self.source,
        }
    }
}

impl App {
    /// Responds to a review, or with an error to anything else.
    async fn answer(&self, webhook: &'static dyn Webhook, http: HttpRequest) -> Response {
        let started = Instant::now();
        let answered = async {
            let Arrived { headers, body, source, deadline } = arrived(http, &self.bodies).await?;
            let request = decode::review(&headers, &body)?;
            let review = Review { webhook, request, source, deadline };
            let (verdict, response) = self.review(&review).await;
            self.metrics.reviewed(webhook.name(), verdict, started.elapsed());
            Ok(response)
        };
        answered.await.unwrap_or_else(|unreadable| self.refuse(webhook.name(), unreadable))
    }

    /// Converts `SubNamespaces` between versions. It needs no forest: what is stored in an old version must be read for one.
    async fn convert(&self, http: HttpRequest) -> Response {
        let started = Instant::now();
        let answered = async {
            let Arrived { body, .. } = arrived(http, &self.bodies).await?;
            let bad = |message| Unreadable::new(StatusCode::BAD_REQUEST, message);
            let review = conversion::answer(&body).map_err(bad)?;
            let verdict = if is_converted(&review) { "converted" } else { "refused" };
            self.metrics.reviewed(CONVERSION, verdict, started.elapsed());
            Ok(Json(review).into_response())
        };
        answered.await.unwrap_or_else(|unreadable| self.refuse(CONVERSION, unreadable))
    }

    /// The verdict as one word, and the response. The controller's own requests are not judged.
    async fn review(&self, review: &Review<'_>) -> (&'static str, Response) {
        let Review { webhook, request, .. } = review;
        if self.is_controller(request) && !request.is_probe() {
            return ("exempt", Json(respond::allow(request, vec![])).into_response());
        }
        let asker = self.asker(review);
        let context = self.context(review).instrument(asker.span()).await;
        let decision = match webhook.read(request, context) {
            Ok(ReadRequest::Patch(None)) => Decision::Allow { warnings: vec![] },
            Ok(ReadRequest::Patch(Some(patch))) => {
                return ("patched", Json(respond::patch(request, &patch)).into_response());
            }
            Ok(ReadRequest::Increase(increase)) => {
                match self.usage.decide(&increase, request.dry_run, review.deadline).await {
                    Ok(()) => Decision::Allow { warnings: vec![] },
                    Err(denial) => Decision::Deny(denial),
                }
            }
            Ok(ReadRequest::Rule(rule)) => judge(&asker, &self.in_flight, &review.origin(), &rule).await,
            Err(denial) => Decision::Deny(denial),
        };
        match decision {
            Decision::Allow { warnings } => {
                ("allowed", Json(respond::allow(request, warnings)).into_response())
            }
            Decision::Deny(denial) => {
                let verdict = denial.kind.code_and_reason().1;
                let subject = webhook.subject(request);
                log_denial(review, &subject, verdict, &denial);
                (verdict, Json(respond::deny(request, &subject, &denial)).into_response())
            }
        }
    }

    async fn context(&self, review: &Review<'_>) -> Context {
        let settings = self.forest.read(forest::Forest::shared_settings);
        let served =
            if review.webhook.needs_discovery() { Some(self.served(review.deadline).await) } else { None };
        Context { settings, served }
    }

    fn is_controller(&self, request: &Request<'_>) -> bool {
        request.user_info.username.as_deref() == Some(&self.controller)
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

    /// What the API server serves, read live: a CRD that was just created is not known here yet. For groups that
    /// cannot be read, the last known answer counts.
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

    fn asker<'a>(&'a self, review: &'a Review<'_>) -> Asker<'a> {
        Asker {
            client: &self.client,
            forest: &self.forest,
            calls: &self.calls,
            user: &review.request.user_info,
            accounts: [&self.webhook, &self.controller],
            deadline: review.deadline,
            webhook: review.webhook.name(),
            uid: &review.request.uid,
            metrics: &self.metrics,
            store: &self.store,
        }
    }
}

fn log_denial(review: &Review<'_>, subject: &Subject, verdict: &str, denial: &Denial) {
    let request = &review.request;
    tracing::info!(
        webhook = review.webhook.name(),
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

/// Whether everything is converted; logs why not.
fn is_converted(review: &ConversionReview) -> bool {
    let Some(response) = &review.response else { return false };
    let is_failed = response.result.status == Some(StatusSummary::Failure);
    if is_failed {
        let (uid, reason) = (&*response.uid, &*response.result.message);
        tracing::warn!(webhook = CONVERSION, uid, reason, "SubNamespaces were not converted");
    }
    !is_failed
}

/// The longest that a body may take to arrive.
const ARRIVAL: Duration = Duration::from_secs(10);

/// Reads a body within the timeout of the API server, minus a tenth for the response.
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
