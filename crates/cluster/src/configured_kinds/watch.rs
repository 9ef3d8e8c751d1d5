//! The two watches that the configuration depends on: the `HNCConfiguration`, and the metadata of definitions.

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
    /// The names and uids of all definitions that are not being deleted.
    Definitions(BTreeMap<String, String>),
    /// A definition exists, with this uid.
    Definition(String, String),
    /// A definition is deleted or is being deleted.
    DefinitionGone(String),
    /// Definitions cannot be listed.
    DefinitionsRefused,
}

/// Starts both watches.
pub(super) fn start(
    client: &Client,
    metrics: &StreamMetrics,
    events: &UnboundedSender<Event>,
) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    tasks.spawn(configuration(client.clone(), metrics.clone(), events.clone()));
    tasks.spawn(definitions(client.clone(), metrics.clone(), events.clone()));
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
            WatchEvent::Refused(why) => Event::ConfigurationRefused(why),
        };
        // The receiver is dropped when the process ends.
        let _ = events.send(event);
    };
    watch(HNCConfiguration::crd_name(), &metrics, open, |object| object, tell).await;
}

type Definition = PartialObjectMeta<CustomResourceDefinition>;

async fn definitions(client: Client, metrics: StreamMetrics, events: UnboundedSender<Event>) {
    let api = Api::<Definition>::all(client);
    let open = move || watcher(api.clone(), Config::default());
    let tell = move |told: WatchEvent<(String, Option<String>), Definition>| {
        let event = match told {
            WatchEvent::Listed(all) => {
                let live = all.into_iter().filter_map(|(name, uid)| Some((name, uid?)));
                Event::Definitions(live.collect())
            }
            WatchEvent::Applied((name, Some(uid))) => Event::Definition(name, uid),
            WatchEvent::Applied((name, None)) => Event::DefinitionGone(name),
            WatchEvent::Deleted(object) => Event::DefinitionGone(identity(object).0),
            WatchEvent::Refused(_) => Event::DefinitionsRefused,
        };
        let _ = events.send(event);
    };
    watch("customresourcedefinitions.apiextensions.k8s.io", &metrics, open, identity, tell).await;
}

/// The name, and the uid unless the definition is being deleted.
fn identity(definition: Definition) -> (String, Option<String>) {
    let metadata = definition.metadata;
    let uid = metadata.uid.filter(|_| metadata.deletion_timestamp.is_none());
    (metadata.name.unwrap_or_default(), uid)
}
