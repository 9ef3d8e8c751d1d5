//! Saying in the `ConfigMap` `hnc-settings` what a binary runs with. A failure is logged and tried again, and never anybody
//! else's affair.
//!
//! The controller that leads keeps its entries as they should be: there is one leader. Of the webhook there are many replicas,
//! in a roll-out with different settings, and none of them knows which will stay; if each kept its own there, they would write
//! against each other for as long as it takes. So a webhook says once what it runs with, when it has become ready, and then
//! only where nothing is said, or what somebody else has written. The replica that started last is the one that is heard.

use std::collections::BTreeMap;
use std::time::Duration;

use hns_api::names::SETTINGS_CONFIG_MAP;
use hns_cluster::api::Api;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::sync::watch::Receiver;
use tokio::time::sleep;

use super::{Component, Document, Seen};
use crate::shutdown::Shutdown;

/// So long at least between two writes, whoever else writes there.
const PACE: Duration = Duration::from_secs(1);
const LONGEST_DELAY: Duration = Duration::from_secs(60);

/// How firmly the entries are held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// By this process alone, for as long as it may write.
    Sole,
    /// By each replica once; after that the youngest is right.
    Shared,
}

/// Publishes `own` as `component`'s until the process ends, whenever `may_write` says so.
pub async fn publish(
    (client, namespace): (Client, String),
    (component, own, claim): (Component, Document, Claim),
    mut seen: Receiver<Seen>,
    may_write: impl Fn() -> bool,
    shutdown: Shutdown,
) {
    let api = Api::<ConfigMap>::namespaced(client, &namespace);
    let mut place = Place::new(component, own, claim);
    let mut delay = PACE;
    loop {
        let is_due = seen.borrow_and_update().as_deref().is_some_and(|data| place.is_to_be_written(data));
        let mut failed = false;
        if is_due && may_write() {
            match write(&api, component, &place.data).await {
                Ok(()) => {
                    (place.is_said, delay) = (true, PACE);
                    tracing::info!("the settings in force are published");
                }
                Err(error) => {
                    tracing::warn!(%error, "the settings cannot be published; trying again");
                    failed = true;
                    delay = (delay * 2).min(LONGEST_DELAY);
                }
            }
        }
        tokio::select! {
            changed = next(&mut seen, is_due) => if changed.is_err() { return },
            () = sleep(delay), if failed => {}
            () = shutdown.begun() => return,
        }
    }
}

/// The next change; after a write not at once.
async fn next(seen: &mut Receiver<Seen>, wrote: bool) -> Result<(), tokio::sync::watch::error::RecvError> {
    if wrote {
        sleep(PACE).await;
    }
    seen.changed().await
}

async fn write(
    api: &Api<ConfigMap>,
    component: Component,
    data: &BTreeMap<String, String>,
) -> kube::Result<()> {
    let object = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": SETTINGS_CONFIG_MAP },
        "data": data,
    });
    // Each binary applies its own entries, so neither takes away the other's; by force, as an entry is nobody else's.
    let params = PatchParams::apply(&component.to_string()).force();
    api.patch(SETTINGS_CONFIG_MAP, &params, &Patch::Apply(object)).await.map(drop)
}

/// A component's entries, and what has become of them.
#[derive(Debug)]
pub(super) struct Place {
    component: Component,
    own: Document,
    /// What says it.
    data: BTreeMap<String, String>,
    claim: Claim,
    /// Whether it has been there since this process began.
    pub(super) is_said: bool,
    /// Whether another replica has said otherwise since.
    pub(super) is_contradicted: bool,
}

impl Place {
    pub(super) fn new(component: Component, own: Document, claim: Claim) -> Self {
        let data = own.data(component);
        Self { component, own, data, claim, is_said: false, is_contradicted: false }
    }

    /// Whether this process is to write, now that this is in the `ConfigMap`.
    pub(super) fn is_to_be_written(&mut self, data: &BTreeMap<String, String>) -> bool {
        if self.data.iter().all(|(key, value)| data.get(key) == Some(value)) {
            (self.is_said, self.is_contradicted) = (true, false);
            return false;
        }
        let Some(other) = Document::read(data, self.component).filter(|_| self.is_said) else { return true };
        if self.claim == Claim::Sole {
            return true;
        }
        let differs = other.common != self.own.common;
        if differs && !self.is_contradicted {
            tracing::warn!("another replica has published other settings than this one runs with");
        }
        self.is_contradicted = differs;
        false
    }
}
