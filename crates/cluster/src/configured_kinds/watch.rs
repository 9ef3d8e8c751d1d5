//! The two watches that say when something about the configuration may have changed: on the one object that it is, and on the
//! metadata of definitions. Concludes nothing.

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

/// What the watches have to say.
#[derive(Debug)]
pub(super) enum Event {
    /// The configuration is this; `None` when there is none.
    Configuration(Option<Arc<DynamicObject>>),
    /// The configuration may not be read; the text is the API server's.
    ConfigurationRefused(String),
    /// These are all definitions: name and uid. Those that are being deleted are left out.
    Definitions(BTreeMap<String, String>),
    /// A definition is there, with this uid.
    Definition(String, String),
    /// A definition is gone, or going.
    DefinitionGone(String),
    /// Definitions may not be listed.
    DefinitionsRefused,
}

/// Starts both.
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
        // Nobody listens when the process ends.
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

/// Its name, and its uid unless it is being deleted.
fn identity(definition: Definition) -> (String, Option<String>) {
    let metadata = definition.metadata;
    let uid = metadata.uid.filter(|_| metadata.deletion_timestamp.is_none());
    (metadata.name.unwrap_or_default(), uid)
}
