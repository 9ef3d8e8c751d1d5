//! What quotas need beside the plans of namespaces: the ledger, and the end of increases that are never stored. Where quotas are
//! disabled, removes what they left.

use std::collections::HashMap;
use std::time::Duration;

use forest::hnc::quota::ledger::{Known, Ledger, Reservation};
use forest::{Forest, Name, Version, keys};
use hns_api::names::{FIELD_MANAGER, QUOTA_LEDGER};
use hns_api::{HierarchicalResourceQuota, annotations, labels};
use hns_cluster::api::Api;
use hns_cluster::error_text::error_text;
use hns_cluster::handle::ForestHandle;
use hns_cluster::stored::{Store, Stored};
use hns_runtime::shutdown::Shutdown;
use k8s_openapi::api::core::v1::ResourceQuota;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, Preconditions};
use kube::core::DynamicObject;
use kube::{Client, CustomResourceExt};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::stored::{self, RETRY};

/// After this time the controller changes the quota of a pending increase, so that the API server cannot store the increase any
/// more. The API server usually stores it within milliseconds.
const PENDING: Duration = Duration::from_secs(10);

/// How often the removal of what quotas left is tried.
const TRIES: u32 = 10;

/// Works until `may_write` returns false or the shutdown begins.
pub(crate) async fn keep(
    client: Client,
    forest: ForestHandle,
    store: Store,
    may_write: impl Fn() -> bool,
    shutdown: Shutdown,
) {
    let works = async {
        if forest.read(|forest| forest.settings().hierarchical_quotas) {
            let keeper =
                Keeper { client: client.clone(), forest, store: store.clone(), pending: HashMap::new() };
            stored::follow((client, store), keeper, &may_write).await;
        } else {
            remove_what_is_left(&client, &store, &may_write).await;
        }
    };
    tokio::select! {
        () = works => {}
        () = shutdown.begun() => {}
    }
}

/// A pending increase: the namespace, the uid of its derived quota, and the version.
type Place = (Name, Box<str>, u64);

struct Keeper {
    client: Client,
    forest: ForestHandle,
    store: Store,
    /// When each was first seen.
    pending: HashMap<Place, Instant>,
}

impl stored::Keeper for Keeper {
    type Content = Ledger;

    /// A new ledger. While there was none, no replica allowed an increase; those that were allowed before cannot be stored any more.
    async fn first(&self) -> kube::Result<Ledger> {
        for (namespace, version) in self.list().await?.1 {
            self.change(&namespace, &version).await?;
        }
        Ok(Ledger { floor: newest(&self.list().await?.1), reservations: Vec::new() })
    }

    async fn show(&mut self, stored: Stored<Ledger>) -> kube::Result<()> {
        self.note(&stored.content.reservations);
        self.correct(stored).await
    }

    fn due(&self) -> Option<Instant> {
        self.pending.values().min().map(|since| *since + PENDING)
    }

    /// Changes the quotas whose increases have been pending for too long.
    async fn end(&mut self) -> kube::Result<()> {
        let now = Instant::now();
        let due = self.pending.iter().filter(|(_, since)| **since + PENDING <= now);
        let due: Vec<Place> = due.map(|(place, _)| place.clone()).collect();
        let mut failed = Ok(());
        for place in due {
            match self.forest.read(|forest| pending(forest, &place)) {
                Some(version) => {
                    // One that cannot be changed stays pending, and must not keep the others.
                    if let Err(error) = self.change(&place.0, &version).await {
                        failed = Err(error);
                        continue;
                    }
                }
                // Its version may not be known here yet.
                None if self.forest.read(|forest| forest.reported() < place.2) => {
                    self.pending.insert(place, now);
                    continue;
                }
                None => {}
            }
            self.pending.remove(&place);
        }
        failed
    }
}

impl Keeper {
    /// Removes versions that the API server has not reached: a backup of another cluster contains such. No replica would decide
    /// before it knows them.
    async fn correct(&self, stored: Stored<Ledger>) -> kube::Result<()> {
        let Ledger { floor, reservations } = &stored.content;
        let last = reservations.iter().map(|it| it.version).max().unwrap_or_default().max(*floor);
        if last <= self.forest.read(Known::reported) {
            return Ok(());
        }
        let (reached, quotas) = self.list().await?;
        if last <= reached {
            return Ok(());
        }
        tracing::warn!("the ConfigMap {QUOTA_LEDGER} is of another cluster; correcting it");
        let mut ledger = stored.content.clone();
        ledger.floor = ledger.floor.min(newest(&quotas));
        ledger.reservations.retain(|it| it.version <= reached);
        self.store.replace(&stored, &ledger).await.map(drop)
    }

    /// The resource version that the API server has reached, and the derived quotas.
    async fn list(&self) -> kube::Result<(u64, Vec<(Name, Version)>)> {
        let named = ListParams::default().fields(&format!("metadata.name={}", keys::DERIVED_QUOTA));
        let list = Api::<ResourceQuota>::all(self.client.clone()).list_metadata(&named).await?;
        let reached = list.metadata.resource_version.and_then(|version| version.parse().ok());
        let quotas = list.items.into_iter().filter_map(|quota| identity(quota.metadata));
        Ok((reached.unwrap_or_default(), quotas.collect()))
    }

    fn note(&mut self, reservations: &[Reservation]) {
        let place = |it: &Reservation| (it.namespace.clone(), it.uid.clone(), it.version);
        let now = Instant::now();
        let before = std::mem::take(&mut self.pending);
        self.pending = reservations
            .iter()
            .map(place)
            .map(|place| {
                let since = before.get(&place).copied().unwrap_or(now);
                (place, since)
            })
            .collect();
    }

    async fn change(&self, namespace: &Name, version: &Version) -> kube::Result<()> {
        tracing::info!(%namespace, "an allowed increase of usage was not stored; ending it");
        let api = Api::<ResourceQuota>::namespaced(self.client.clone(), namespace);
        let patch = json!({ "metadata": {
            "uid": version.uid,
            "resourceVersion": version.resource_version,
            "annotations": { annotations::HRQ_RELEASED: version.resource_version },
        }});
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..PatchParams::default() };
        match api.patch_metadata(keys::DERIVED_QUOTA, &params, &Patch::Merge(patch)).await {
            // It has another version, or is gone.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
            changed => changed.map(drop),
        }
    }
}

/// The version of the derived quota, if it is still that of the reservation.
fn pending(forest: &Forest, (namespace, uid, version): &Place) -> Option<Version> {
    let state = forest.state(namespace).filter(|state| *state.uid == **uid && state.version == *version)?;
    Some(Version { uid: state.uid.into(), resource_version: state.version.to_string().into() })
}

/// The newest version. A replica that knows it knows everything before.
fn newest(quotas: &[(Name, Version)]) -> u64 {
    let versions = quotas.iter().filter_map(|(_, version)| version.resource_version.parse().ok());
    versions.max().unwrap_or_default()
}

fn identity(metadata: ObjectMeta) -> Option<(Name, Version)> {
    let version = Version { uid: metadata.uid?.into(), resource_version: metadata.resource_version?.into() };
    Some((metadata.namespace?.into(), version))
}

/// Removes derived quotas of this controller, what hierarchical quotas show beside the usage, and the ledger. Those of HNC stay.
async fn remove_what_is_left(client: &Client, store: &Store, may_write: &impl Fn() -> bool) {
    for _ in 0..TRIES {
        if !may_write() {
            return;
        }
        let removed = tokio::try_join!(remove_derived(client), remove_statuses(client), remove_ledger(store));
        match removed {
            Ok(_) => return,
            Err(error) => {
                tracing::warn!(
                    error = error_text(&error),
                    "what hierarchical quotas left cannot be removed; trying again"
                );
                sleep(RETRY).await;
            }
        }
    }
}

async fn remove_derived(client: &Client) -> kube::Result<()> {
    let all = Api::<ResourceQuota>::all(client.clone());
    let marked = ListParams::default().labels(&format!("{}={}", labels::HRQ, labels::TRUE));
    let ours = |it: ObjectMeta| {
        let is_ours = it.name.as_deref() == Some(keys::DERIVED_QUOTA)
            && it.annotations.is_some_and(|all| all.contains_key(annotations::HRQ_SOURCES));
        is_ours.then_some((it.namespace.unwrap_or_default(), it.uid))
    };
    for (namespace, uid) in all.list_metadata_in_pages(&marked, ours).await? {
        let params = DeleteParams::background().preconditions(Preconditions { uid, resource_version: None });
        let api = Api::<ResourceQuota>::namespaced(client.clone(), &namespace);
        absent_is_fine(api.delete(keys::DERIVED_QUOTA, &params).await.map(drop))?;
        tracing::info!(namespace, "deleted the derived quota: hierarchical quotas are disabled");
    }
    Ok(())
}

/// The usage stays; without limits it does not look enforced.
async fn remove_statuses(client: &Client) -> kube::Result<()> {
    let resource = HierarchicalResourceQuota::api_resource();
    let all = Api::<DynamicObject>::all_with(client.clone(), &resource);
    let ours = |it: DynamicObject| {
        let place = (it.metadata.namespace.unwrap_or_default(), it.metadata.name.unwrap_or_default());
        it.data["status"]["conditions"].is_array().then_some(place)
    };
    // The definition may be missing.
    let quotas = match all.list_in_pages(&ListParams::default(), ours).await {
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(()),
        listed => listed?,
    };
    for (namespace, name) in quotas {
        let api = Api::<DynamicObject>::namespaced_with(client.clone(), &namespace, &resource);
        let patch = Patch::Merge(json!({ "status": {
            "conditions": null, "hard": null, "requestsSummary": null, "limitsSummary": null,
        } }));
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..PatchParams::default() };
        absent_is_fine(api.patch(&name, &params, &patch).await.map(drop))?;
    }
    Ok(())
}

async fn remove_ledger(store: &Store) -> kube::Result<()> {
    // Without quotas there is none; then nothing is written.
    if store.api().get_metadata_opt(QUOTA_LEDGER).await?.is_none() {
        return Ok(());
    }
    absent_is_fine(store.api().delete(QUOTA_LEDGER, &DeleteParams::default()).await.map(drop))
}

fn absent_is_fine(removed: kube::Result<()>) -> kube::Result<()> {
    match removed {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        removed => removed,
    }
}
