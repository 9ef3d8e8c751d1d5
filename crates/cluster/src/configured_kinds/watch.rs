//! The two watches that the configuration depends on: the `HNCConfiguration`, and the metadata of CRDs.

use std::collections::BTreeMap;
use std::sync::Arc;

use hns_api::HNCConfiguration;
use hns_api::names::HNC_CONFIGURATION;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::{DynamicObject, PartialObjectMeta};
use kube::runtime::watcher::{Config, watcher};
use kube::{Api, Client, CustomResourceExt};
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinSet;

use crate::feed::stream::{WatchEvent, watch};
use crate::metrics::StreamMetrics;

/// An event of one of the watches.
#[derive(Debug)]
pub(super) enum Event {
    /// The current configuration; `None` if there is none.
    Configuration(Option<Arc<DynamicObject>>),
    /// The configuration cannot be read, with the message of the API server.
    ConfigurationRefused(String),
    /// The names and uids of all CRDs that are not being deleted.
    Crds(BTreeMap<String, String>),
    /// A CRD exists, with this uid.
    Crd(String, String),
    /// A CRD is deleted or is being deleted.
    CrdGone(String),
    /// CRDs cannot be listed.
    CrdsRefused,
}

/// Starts both watches.
pub(super) fn start(
    client: &Client,
    metrics: &StreamMetrics,
    events: &UnboundedSender<Event>,
) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    tasks.spawn(configuration(client.clone(), metrics.clone(), events.clone()));
    tasks.spawn(crds(client.clone(), metrics.clone(), events.clone()));
    tasks
}

async fn configuration(client: Client, metrics: StreamMetrics, events: UnboundedSender<Event>) {
    let api = Api::<DynamicObject>::all_with(client, &HNCConfiguration::api_resource());
    let only = Config::default().fields(&format!("metadata.name={HNC_CONFIGURATION}"));
    let open = move || watcher(api.clone(), only.clone());
    let tell = move |told: WatchEvent<DynamicObject, DynamicObject>| {
        let event = match told {
            WatchEvent::Listed(all) => Event::Configuration(all.into_iter().next().map(Arc::new)),
            WatchEvent::Applied(seen) => Event::Configuration(Some(Arc::new(seen))),
            WatchEvent::Deleted(_) => Event::Configuration(None),
            WatchEvent::Refused(_, why) => Event::ConfigurationRefused(why),
        };
        // The receiver is dropped when the process ends.
        let _ = events.send(event);
    };
    watch(HNCConfiguration::crd_name(), &metrics, open, |object| object, tell).await;
}

type Crd = PartialObjectMeta<CustomResourceDefinition>;

async fn crds(client: Client, metrics: StreamMetrics, events: UnboundedSender<Event>) {
    let api = Api::<Crd>::all(client);
    let open = move || watcher(api.clone(), Config::default());
    let tell = move |told: WatchEvent<(String, Option<String>), Crd>| {
        let event = match told {
            WatchEvent::Listed(all) => {
                let live = all.into_iter().filter_map(|(name, uid)| Some((name, uid?)));
                Event::Crds(live.collect())
            }
            WatchEvent::Applied((name, Some(uid))) => Event::Crd(name, uid),
            WatchEvent::Applied((name, None)) => Event::CrdGone(name),
            WatchEvent::Deleted(object) => Event::CrdGone(identity(object).0),
            WatchEvent::Refused(..) => Event::CrdsRefused,
        };
        let _ = events.send(event);
    };
    watch("customresourcedefinitions.apiextensions.k8s.io", &metrics, open, identity, tell).await;
}

/// The name, and the uid unless the CRD is being deleted.
fn identity(crd: Crd) -> (String, Option<String>) {
    let metadata = crd.metadata;
    let uid = metadata.uid.filter(|_| metadata.deletion_timestamp.is_none());
    (metadata.name.unwrap_or_default(), uid)
}
