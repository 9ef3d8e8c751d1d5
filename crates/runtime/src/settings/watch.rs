//! The `ConfigMap` `hnc-settings` as it is seen, for as long as the process lives. Writes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use hns_api::names::SETTINGS_CONFIG_MAP;
use hns_cluster::api::Api;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::runtime::watcher::{Config, watcher};
use prometheus::Registry;
use tokio::sync::watch::{Receiver, channel};

use super::metrics::SettingsMetrics;
use super::{Component, Document};
use hns_cluster::feed::stream::{WatchEvent, watch};
use hns_cluster::metrics::StreamMetrics;

/// What is in the `ConfigMap`, or that there is none; `None` before that is known.
pub type Seen = Option<Arc<BTreeMap<String, String>>>;

/// Follows it from now on in `namespace`, and shows in `registry` whether what is published fits `own`.
///
/// # Errors
/// When that is shown there already.
pub fn follow(
    client: &Client,
    namespace: &str,
    own: &Document,
    streams: &StreamMetrics,
    registry: &Registry,
) -> prometheus::Result<Receiver<Seen>> {
    let metrics = SettingsMetrics::register(registry, own)?;
    let (sender, receiver) = channel(None);
    let api = Api::<ConfigMap>::namespaced(client.clone(), namespace);
    let (streams, own) = (streams.clone(), own.clone());
    tokio::spawn(async move {
        let only = Config::default().fields(&format!("metadata.name={SETTINGS_CONFIG_MAP}"));
        let open = move || watcher(api.clone().into(), only.clone());
        let data = |object: ConfigMap| object.data.unwrap_or_default();
        let tell = move |told: WatchEvent<BTreeMap<String, String>, ConfigMap>| {
            let data = match told {
                WatchEvent::Listed(all) => all.into_iter().next().unwrap_or_default(),
                WatchEvent::Applied(data) => data,
                WatchEvent::Deleted(_) => BTreeMap::new(),
                // What was seen last stands.
                WatchEvent::Refused(_) => return,
            };
            for component in [Component::Controller, Component::Webhook] {
                metrics.seen(component, &own, Document::read(&data, component).as_ref());
            }
            sender.send_replace(Some(Arc::new(data)));
        };
        watch("configmaps/hnc-settings", &streams, open, data, tell).await;
    });
    Ok(receiver)
}
