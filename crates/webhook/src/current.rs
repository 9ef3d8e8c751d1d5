//! The forest in use, with the settings in force. When the settings change, the webhook reads the cluster into a second forest,
//! and switches to it once it is complete. No request waits or is refused because of that.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use hns_cluster::configured_kinds;
use hns_cluster::feed::{self, Detail};
use hns_cluster::handle::{ForestHandle, ForestWriter};
use hns_cluster::metrics::{ForestMetrics, StreamMetrics};
use hns_cluster::settings::{Follower, InForce};
use hns_cluster::stored::Store;
use hns_runtime::process::{Part, Process};
use kube::Client;
use tokio::sync::watch::{Receiver, Sender};
use tokio::task::JoinSet;
use tower::ServiceExt as _;

use crate::body::Bodies;
use crate::in_flight::InFlight;
use crate::metrics::{AdmissionMetrics, UsageMetrics};
use crate::questions::Calls;
use crate::router::{App, router};
use crate::usage_ledger::UsageLedger;

/// How long a forest that is no longer in use is kept up to date, for requests in flight: longer than any of them takes.
const LAST_REQUESTS: Duration = Duration::from_secs(35);

/// The forest and the settings in use.
#[derive(Clone, Debug)]
pub(crate) struct Current {
    router: Router,
    forest: ForestHandle,
}

/// Reads the cluster with the settings in force.
pub(crate) struct Reader {
    pub(crate) client: Client,
    /// The user names of the two service accounts.
    pub(crate) controller: String,
    pub(crate) webhook: String,
    /// Shared by all forests: each must know the changes that another one allowed.
    pub(crate) in_flight: Arc<InFlight>,
    pub(crate) bodies: Arc<Bodies>,
    pub(crate) metrics: AdmissionMetrics,
    pub(crate) usage: UsageMetrics,
    /// The namespace of the installation.
    pub(crate) namespace: String,
    pub(crate) streams: StreamMetrics,
    pub(crate) process: Process,
    pub(crate) current: Sender<Option<Current>>,
}

/// A forest with its feed, which ends with it.
struct FedForest {
    current: Current,
    part: Part,
    tasks: JoinSet<()>,
}

impl Reader {
    /// Puts one forest after the other into use, until the process ends.
    pub(crate) async fn follow(self, mut settings: Follower) -> anyhow::Result<()> {
        let mut used: Option<JoinSet<()>> = None;
        while let Some(in_force) = settings.next().await {
            let FedForest { current, part, tasks } = self.read(&in_force)?;
            if used.is_some() {
                tracing::info!("settings have changed; the cluster is read under the new ones");
                tokio::select! {
                    () = part.readiness.ready() => {}
                    Ok(()) = settings.in_force.changed() => continue,
                    () = self.process.shutdown.begun() => break,
                }
                tracing::info!("requests are judged by the new settings");
            }
            self.process.current.store(Arc::new(part));
            self.current.send_replace(Some(current));
            if let Some(former) = used.replace(tasks) {
                tokio::spawn(async move {
                    tokio::time::sleep(LAST_REQUESTS).await;
                    drop(former);
                });
            }
            if settings.in_force.changed().await.is_err() {
                break;
            }
        }
        std::future::pending().await
    }

    fn read(&self, in_force: &InForce) -> anyhow::Result<FedForest> {
        let (part, mut tasks) = (Part::default(), JoinSet::new());
        let (writer, forest) = ForestWriter::new(in_force.forest(), self.listener());
        ForestMetrics::register(&part.registry, forest.clone())?;
        let streams = feed::start(&self.client, (&writer, &forest), &self.streams, || false);
        tasks.spawn(async move { drop(streams.join_all().await) });
        tasks.spawn(feed::show(part.readiness.clone(), forest.clone()));
        let both = (&writer, &forest);
        let configuration = configured_kinds::start(
            &self.client,
            both,
            Detail::Metadata,
            &self.streams,
            &part.readiness,
            &mut tasks,
        );
        let store = Store::new(self.client.clone(), &self.namespace);
        let app = App {
            usage: UsageLedger::start(store.clone(), &forest, self.usage.clone(), &mut tasks),
            store,
            forest: forest.clone(),
            client: self.client.clone(),
            controller: self.controller.clone(),
            webhook: self.webhook.clone(),
            configuration,
            in_flight: self.in_flight.clone(),
            bodies: self.bodies.clone(),
            calls: Calls::default(),
            metrics: self.metrics.clone(),
        };
        Ok(FedForest { current: Current { router: router(app), forest }, part, tasks })
    }

    /// An allowed change counts until the forest in use has seen it.
    fn listener(&self) -> hns_cluster::handle::Listener {
        let (current, in_flight) = (self.current.subscribe(), self.in_flight.clone());
        Box::new(move |_| {
            let forest = current.borrow().as_ref().map(|it| it.forest.clone());
            if let Some(forest) = forest {
                forest.read(|forest| in_flight.settle(forest));
            }
        })
    }
}

/// Answers each request with the forest that is in use when it arrives.
pub(crate) fn router_in_use(current: Receiver<Option<Current>>) -> Router {
    Router::new().fallback(move |request: Request| {
        let router = current.borrow().as_ref().map(|it| it.router.clone());
        async move {
            match router {
                // A router answers everything.
                Some(router) => router.oneshot(request).await.into_response(),
                None => StatusCode::SERVICE_UNAVAILABLE.into_response(),
            }
        }
    })
}
