//! Asks the owners of objects whether these are propagated, and notes the answer on the object
//! ([`forest::accurate::generated`]). Runs while this replica leads and the feature gate is set. It is deprecated, so it has its own
//! watches, and nothing else knows of it.

use std::collections::BTreeMap;
use std::mem::take;
use std::time::Duration;

use forest::accurate::generated::{decision, is_undecided};
use forest::{Forest, Kind};
use futures::{TryStreamExt, pin_mut};
use hns_api::accurate::names::FIELD_MANAGER;
use hns_api::labels::INHERITED_FROM;
use hns_cluster::api::Api;
use hns_cluster::error_text::error_text;
use hns_cluster::feed::{api_resource, metadata_of};
use hns_cluster::handle::ForestHandle;
use hns_runtime::shutdown::Shutdown;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::{Patch, PatchParams};
use kube::core::{DynamicObject, GroupVersionKind};
use kube::discovery::{Scope, pinned_kind};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::Event;
use kube::{Client, Error};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::interval;

use crate::accurate_rights::watched;
use crate::permission::Permission;

/// The delay after a request that failed. A missing right for the kind of the owner concerns many objects.
const RETRY: Duration = Duration::from_secs(60);

/// Asks about the objects of all watched kinds, until the end.
pub(crate) async fn keep(client: Client, mut forest: ForestHandle, may_write: Permission, end: Shutdown) {
    loop {
        let kinds = forest.read(watched);
        let mut tasks = JoinSet::new();
        for kind in kinds.clone() {
            let (client, forest) = (client.clone(), forest.clone());
            tasks.spawn(Asker { client, forest, kind, may_write: may_write.clone() }.follow());
        }
        while forest.read(watched) == kinds {
            let goes_on = tokio::select! {
                progressed = forest.progressed() => progressed,
                () = end.begun() => false,
            };
            if !goes_on {
                return;
            }
        }
    }
}

/// The namespace and the name of an object.
type Place = (Option<String>, Option<String>);

fn place(object: &ObjectMeta) -> Place {
    (object.namespace.clone(), object.name.clone())
}

/// Asks about the objects of one kind, one after the other.
struct Asker {
    client: Client,
    forest: ForestHandle,
    kind: Kind,
    may_write: Permission,
}

impl Asker {
    /// Of what could not be asked, only the last state of each object is kept: users decide how often it changes.
    async fn follow(self) {
        let events = metadata_of(&self.client, &self.kind).default_backoff();
        pin_mut!(events);
        let mut failed = BTreeMap::new();
        let mut retry = interval(RETRY);
        loop {
            tokio::select! {
                event = events.try_next() => match event {
                    Ok(Some(Event::Apply(it) | Event::InitApply(it))) => self.ask(it.metadata, &mut failed).await,
                    Ok(Some(Event::Delete(it))) => drop(failed.remove(&place(&it.metadata))),
                    Ok(Some(Event::Init)) => failed.clear(),
                    Ok(Some(Event::InitDone)) | Err(_) => {}
                    Ok(None) => return,
                },
                _ = retry.tick(), if !failed.is_empty() => {
                    for object in take(&mut failed).into_values() {
                        self.ask(object, &mut failed).await;
                    }
                }
            }
        }
    }

    async fn ask(&self, object: ObjectMeta, failed: &mut BTreeMap<Place, ObjectMeta>) {
        let place = place(&object);
        match self.settle(&object).await {
            Ok(()) => drop(failed.remove(&place)),
            Err(error) => {
                let (resource, error) = (self.kind.group_resource(), error_text(&error));
                tracing::warn!(namespace = ?place.0, name = ?place.1, resource, %error, "its owner could not be asked whether it is propagated; trying again");
                failed.insert(place, object);
            }
        }
    }

    /// An object that has changed since, or is gone, is left alone: the watch says so.
    async fn settle(&self, object: &ObjectMeta) -> Result<(), Error> {
        let (Some(namespace), Some(name)) = (&object.namespace, &object.name) else { return Ok(()) };
        let is_managed = |forest: &Forest| forest.settings().is_managed(namespace);
        let Some(owner) = undecided(object).filter(|_| self.forest.read(is_managed)) else { return Ok(()) };
        let Some(owner) = self.owner(namespace, owner).await? else { return Ok(()) };
        if !(self.may_write)() {
            return Ok(());
        }
        let (key, value) = decision(&owner.annotations.unwrap_or_default());
        let version = &object.resource_version;
        let patch = json!({ "metadata": { "uid": object.uid, "resourceVersion": version, "annotations": { key: value } } });
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..PatchParams::default() };
        let objects =
            Api::<DynamicObject>::namespaced_with(self.client.clone(), namespace, &api_resource(&self.kind));
        match objects.patch_metadata(name, &params, &Patch::Merge(patch)).await {
            Err(Error::Api(status)) if [404, 409].contains(&status.code) => Ok(()),
            answer => answer.map(drop),
        }
    }

    /// The owner as the API server has it now; `None` if it does not exist.
    async fn owner(&self, namespace: &str, owner: &OwnerReference) -> Result<Option<ObjectMeta>, Error> {
        let (group, version) = owner.api_version.split_once('/').unwrap_or(("", &owner.api_version));
        let kind = GroupVersionKind::gvk(group, version, &owner.kind);
        let (resource, capabilities) = match pinned_kind(&self.client, &kind).await {
            Ok(found) => found,
            Err(Error::Discovery(_)) => return Ok(None),
            Err(Error::Api(status)) if status.code == 404 => return Ok(None),
            Err(error) => return Err(error),
        };
        let client = self.client.clone();
        let api: Api<DynamicObject> = match capabilities.scope {
            Scope::Cluster => Api::all_with(client, &resource),
            Scope::Namespaced => Api::namespaced_with(client, namespace, &resource),
        };
        let found = api.get_metadata_opt(&owner.name).await?.map(|it| it.metadata);
        Ok(found.filter(|it| it.uid.as_ref() == Some(&owner.uid)))
    }
}

/// The owner that decides about this object, if one does. A copy of HNC's is left alone.
fn undecided(object: &ObjectMeta) -> Option<&OwnerReference> {
    let is_copy = object.labels.as_ref().is_some_and(|labels| labels.contains_key(INHERITED_FROM));
    let is_open = object.annotations.as_ref().is_none_or(is_undecided);
    let owners = object.owner_references.iter().flatten();
    owners.into_iter().find(|it| it.controller == Some(true)).filter(|_| !is_copy && is_open)
}
