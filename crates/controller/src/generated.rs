//! Asks the owners of objects whether these are propagated, and notes the answer on the object
//! ([`forest::accurate::generated`]). Runs while this replica leads and the feature gate is set. It is deprecated, so it has its own
//! watches, and nothing else knows of it.

use std::collections::BTreeSet;
use std::time::Duration;

use forest::accurate::generated::{decision, is_asked_for, is_undecided};
use forest::{Forest, Kind};
use futures::stream::FuturesUnordered;
use futures::{StreamExt, TryStreamExt, pin_mut};
use hns_api::accurate::names::FIELD_MANAGER;
use hns_api::labels::INHERITED_FROM;
use hns_cluster::api::Api;
use hns_cluster::configured_kinds::Configuration;
use hns_cluster::error_text::error_text;
use hns_cluster::feed::{api_resource, metadata_of};
use hns_cluster::handle::ForestHandle;
use hns_runtime::shutdown::Shutdown;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::{Patch, PatchParams};
use kube::core::DynamicObject;
use kube::error::DiscoveryError;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::Event;
use kube::{Client, Error};
use serde_json::json;
use tokio::sync::watch::Receiver;
use tokio::task::JoinSet;
use tokio::time::{interval, timeout};

use crate::accurate_rights::watched;
use crate::permission::Permission;

/// The delay after a request that failed. A missing right for the kind of the owner concerns many objects.
const RETRY: Duration = Duration::from_secs(60);

/// How many objects of a kind are asked about at a time: one whose owner's server does not answer delays no other.
const AT_A_TIME: usize = 16;

/// The longest time for one object.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Asks about the objects of all watched kinds, until the end.
pub(crate) async fn keep(
    client: Client,
    mut forest: ForestHandle,
    configuration: Receiver<Configuration>,
    may_write: Permission,
    end: Shutdown,
) {
    loop {
        let kinds = forest.read(watched);
        let mut tasks = JoinSet::new();
        for kind in kinds.iter().filter(|kind| is_asked_for(kind)).cloned() {
            let (client, forest) = (client.clone(), forest.clone());
            let (configuration, may_write) = (configuration.clone(), may_write.clone());
            tasks.spawn(Asker { client, forest, configuration, kind, may_write }.follow());
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
type Place = (String, String);

/// Asks about the objects of one kind.
struct Asker {
    client: Client,
    forest: ForestHandle,
    configuration: Receiver<Configuration>,
    kind: Kind,
    may_write: Permission,
}

impl Asker {
    /// Of what could not be asked, only the names are kept: users decide how large an object is, and how often it changes.
    async fn follow(self) {
        let events = metadata_of(&self.client, &self.kind).default_backoff();
        pin_mut!(events);
        let (mut asked, mut failed, mut again) = (FuturesUnordered::new(), BTreeSet::new(), BTreeSet::new());
        let mut retry = interval(RETRY);
        loop {
            let has_room = asked.len() < AT_A_TIME;
            // Half of the room is for what is new.
            if asked.len() < AT_A_TIME / 2
                && let Some(place) = again.pop_first()
            {
                asked.push(self.ask(place, None));
                continue;
            }
            tokio::select! {
                event = events.try_next(), if has_room => match event {
                    Ok(Some(Event::Apply(it) | Event::InitApply(it))) => {
                        let ObjectMeta { namespace, name, .. } = &it.metadata;
                        let place = namespace.clone().zip(name.clone());
                        asked.extend(place.map(|place| self.ask(place, Some(it.metadata))));
                    }
                    Ok(Some(Event::Delete(_) | Event::Init | Event::InitDone)) | Err(_) => {}
                    Ok(None) => return,
                },
                Some(unanswered) = asked.next() => {
                    if let Some((place, error, is_first)) = unanswered && failed.insert(place.clone()) && is_first {
                        self.report(&place, &error);
                    }
                }
                _ = retry.tick() => again.append(&mut failed),
            }
        }
    }

    /// Returns the object if it must be asked about again, the reason, and whether this is the first time; the next time it is read
    /// first. An owner whose kind is still not served then does not exist.
    async fn ask(&self, place: Place, seen: Option<ObjectMeta>) -> Option<(Place, String, bool)> {
        let is_first = seen.is_some();
        let error = match timeout(TIMEOUT, self.settle(&place, seen)).await {
            Ok(Ok(())) => return None,
            Ok(Err(Error::Discovery(_))) if !is_first => return None,
            Ok(Err(error)) => error_text(&error),
            Err(_) => "the API server did not answer in time".into(),
        };
        Some((place, error, is_first))
    }

    fn report(&self, (namespace, name): &Place, error: &str) {
        let resource = self.kind.group_resource();
        tracing::warn!(
            namespace,
            name,
            resource,
            error,
            "its owner could not be asked whether it is propagated; trying again"
        );
    }

    /// An object that has changed since, or is gone, is left alone: the watch says so.
    async fn settle(&self, (namespace, name): &Place, seen: Option<ObjectMeta>) -> Result<(), Error> {
        if !self.forest.read(|forest: &Forest| forest.settings().is_managed(namespace)) {
            return Ok(());
        }
        let kind = api_resource(&self.kind);
        let objects = Api::<DynamicObject>::namespaced_with(self.client.clone(), namespace, &kind);
        let object = match seen {
            Some(object) => Some(object),
            None => objects.get_metadata_opt(name).await?.map(|it| it.metadata),
        };
        let Some((object, owner)) = object.as_ref().and_then(|it| Some((it, undecided(it)?))) else {
            return Ok(());
        };
        let Some(owner) = self.owner(namespace, owner).await? else { return Ok(()) };
        if !(self.may_write)() {
            return Ok(());
        }
        let (key, value) = decision(&owner.annotations.unwrap_or_default());
        let version = &object.resource_version;
        let patch = json!({ "metadata": { "uid": object.uid, "resourceVersion": version, "annotations": { key: value } } });
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..PatchParams::default() };
        match objects.patch_metadata(name, &params, &Patch::Merge(patch)).await {
            Err(Error::Api(status)) if [404, 409].contains(&status.code) => Ok(()),
            answer => answer.map(drop),
        }
    }

    /// The owner as the API server has it now; `None` if it does not exist. Users write these references: what they name becomes a
    /// path only if the API server serves it.
    async fn owner(&self, namespace: &str, owner: &OwnerReference) -> Result<Option<ObjectMeta>, Error> {
        let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
        let served = self.configuration.borrow().served.clone();
        // It may be served in a moment.
        let unserved = || Error::Discovery(DiscoveryError::MissingKind("that of the owner".into()));
        let found = served.as_ref().and_then(|it| it.of_kind(group, &owner.kind)).ok_or_else(unserved)?;
        let (client, resource) = (self.client.clone(), api_resource(&found.kind));
        let api: Api<DynamicObject> = if found.namespaced {
            Api::namespaced_with(client, namespace, &resource)
        } else {
            Api::all_with(client, &resource)
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

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::Arc;

    use forest::configuration::{Served, ServedKind};
    use http::{Request, Response};
    use kube::client::Body;
    use parking_lot::Mutex;
    use serde_json::Value;
    use tower::{BoxError, service_fn};

    use super::*;
    use crate::fake::{Server, World, failure};

    fn asker(client: Client) -> Asker {
        let served = |group: &str, kind: &str, resource: &str| ServedKind {
            kind: Kind {
                group: group.into(),
                version: "v1".into(),
                kind: kind.into(),
                resource: resource.into(),
            },
            singular: String::new(),
            short_names: Vec::new(),
            namespaced: kind != "Node",
            verbs: Vec::from(if kind == "Binding" { ["create"] } else { ["get"] }.map(Into::into)),
        };
        let kinds = vec![
            served("", "Binding", "bindings"),
            served("", "ConfigMap", "configmaps"),
            served("", "Node", "nodes"),
            served("apps", "Deployment", "deployments"),
        ];
        let served = Some(Arc::new(Served { kinds, ..Served::default() }));
        let (_, configuration) =
            tokio::sync::watch::channel(Configuration { served, ..Configuration::default() });
        let World { forest, key, .. } = World::of(&[]);
        let kind = forest.read(|forest| forest.kind(key.kind).clone());
        Asker { client, forest, configuration, kind, may_write: Arc::new(|| true) }
    }

    fn owned(name: &str, api_version: &str, kind: &str, owner: &str) -> Value {
        let owner =
            json!({ "apiVersion": api_version, "kind": kind, "name": owner, "uid": "u", "controller": true });
        json!({ "name": name, "namespace": "leaf", "uid": name, "resourceVersion": "1", "ownerReferences": [owner] })
    }

    /// The API server decodes `%2F`: the first one would be a watch, which does not end.
    #[tokio::test]
    async fn of_an_owner_reference_only_the_name_becomes_a_part_of_a_path() {
        let leaf = "/namespaces/leaf";
        for (api_version, kind, name, wanted) in [
            ("v1%2Fwatch%2Fsecrets", "ConfigMap", "o", Some(format!("/api/v1{leaf}/configmaps/o"))),
            ("v1%2Fwatch/v1", "ConfigMap", "o", None),
            ("batch%2Fv1/v1", "Job", "o", None),
            ("v1", "Secret?watch=true", "o", None),
            ("v1", "Binding", "o", None),
            (
                "v1",
                "ConfigMap",
                "../secrets/o",
                Some(format!("/api/v1{leaf}/configmaps/..%252Fsecrets%252Fo")),
            ),
            ("v1", "Node", "o", Some("/api/v1/nodes/o".into())),
            ("apps/v1%2Fwatch", "Deployment", "o", Some(format!("/apis/apps/v1{leaf}/deployments/o"))),
        ] {
            let server = Server::answering([failure(404, "NotFound", "no")]);
            let object = serde_json::from_value(owned("s", api_version, kind, name)).unwrap();
            asker(server.client()).ask(("leaf".into(), "s".into()), Some(object)).await;
            let asked: Vec<String> = server.asked().into_iter().map(|(_, path, _)| path).collect();
            assert_eq!(asked, wanted.into_iter().collect::<Vec<_>>(), "{api_version} {kind} {name}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_owner_that_is_not_answered_delays_no_other() {
        let patched = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&patched);
        let service = service_fn(move |request: Request<Body>| {
            let (path, noted) = (request.uri().to_string(), Arc::clone(&noted));
            async move {
                let list = |items: &[Value]| json!({ "apiVersion": "v1", "kind": "SecretList", "metadata": { "resourceVersion": "1" }, "items": items });
                let item = |name: &str| json!({ "metadata": owned(name, "v1", "ConfigMap", name) });
                let answer = match &*path {
                    _ if path.contains("watch=true") || path.contains("configmaps/slow") => pending().await,
                    _ if request.method() == "PATCH" => {
                        noted.lock().push(path);
                        json!({ "metadata": {} })
                    }
                    _ if path.starts_with("/api/v1/secrets") => list(&["slow", "x"].map(item)),
                    _ => json!({ "metadata": { "name": "x", "uid": "u" } }),
                };
                Ok::<_, BoxError>(Response::new(Body::from(answer.to_string().into_bytes())))
            }
        });
        let following = asker(Client::new(service, "default")).follow();
        assert!(timeout(TIMEOUT / 2, following).await.is_err(), "it goes on");
        let patched = patched.lock();
        assert!(
            matches!(&patched[..], [path] if path.starts_with("/api/v1/namespaces/leaf/secrets/x")),
            "{patched:?}"
        );
    }
}
