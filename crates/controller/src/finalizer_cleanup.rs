//! The end of an installation whose definitions stay: what our finalizers hold is let go, since no controller will do it.
//!
//! Takes off finalizers and changes nothing else. Does nothing while a controller is installed, which would put them back.

use std::fmt::Debug;

use anyhow::{Context, bail};
use forest::keys::{ANCHOR_FINALIZER, HIERARCHY_FINALIZER};
use futures::{StreamExt, TryStreamExt, stream};
use hns_api::{HierarchyConfiguration, SubnamespaceAnchor, names};
use hns_cluster::api::Api;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Client, Error, Resource};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// How many objects are let go at a time.
const AT_A_TIME: usize = 16;

/// How often everything is looked at, for what others change meanwhile.
const PASSES: usize = 5;

/// Takes our finalizers off every anchor and every hierarchy of the cluster.
///
/// # Errors
/// The API server refuses, or somebody puts them back. Another call goes on where this one ended.
pub(crate) async fn run(client: &Client, namespace: &str) -> anyhow::Result<()> {
    if is_installed(client, namespace).await? {
        tracing::warn!(
            "nothing is let go: there is a controller in this namespace, which needs its finalizers"
        );
        return Ok(());
    }
    let anchors = remove_from_all::<SubnamespaceAnchor>(client, ANCHOR_FINALIZER);
    let hierarchies = remove_from_all::<HierarchyConfiguration>(client, HIERARCHY_FINALIZER);
    let (anchors, hierarchies) = tokio::try_join!(anchors, hierarchies)?;
    tracing::info!(anchors, hierarchies, "nothing is held by a finalizer any more");
    Ok(())
}

/// A Deployment that is going counts as gone.
async fn is_installed(client: &Client, namespace: &str) -> anyhow::Result<bool> {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let found = deployments.get_metadata_opt(names::CONTROLLER_DEPLOYMENT).await;
    let found = found.context("looking for a controller")?;
    Ok(found.is_some_and(|found| found.metadata.deletion_timestamp.is_none()))
}

/// Says how many objects were let go. Without a definition there are none.
async fn remove_from_all<K>(client: &Client, finalizer: &str) -> anyhow::Result<usize>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
{
    let kind = K::kind(&());
    let mut released = 0;
    for _ in 0..PASSES {
        let listed = match Api::<K>::all(client.clone()).list_metadata(&ListParams::default()).await {
            Err(Error::Api(status)) if status.is_not_found() => return Ok(released),
            listed => listed.with_context(|| format!("listing every {kind}"))?,
        };
        let held: Vec<_> = listed
            .items
            .iter()
            .filter_map(|it| Some((&it.metadata, without(&it.metadata, finalizer)?)))
            .collect();
        if held.is_empty() {
            return Ok(released);
        }
        let writes = held.into_iter().map(|(metadata, patch)| write::<K>(client, metadata, patch));
        let written: Vec<bool> = stream::iter(writes).buffer_unordered(AT_A_TIME).try_collect().await?;
        released += written.into_iter().filter(|&written| written).count();
    }
    bail!("the finalizer {finalizer} of every {kind} was taken off {PASSES} times, and somebody puts it back")
}

/// The patch that takes a finalizer off an object, in the state that was seen; none if the object does not have it.
fn without(metadata: &ObjectMeta, finalizer: &str) -> Option<Value> {
    let mut finalizers = metadata.finalizers.clone().filter(|all| all.iter().any(|it| it == finalizer))?;
    finalizers.retain(|it| it != finalizer);
    let (uid, version) = (&metadata.uid, &metadata.resource_version);
    Some(json!({ "metadata": { "uid": uid, "resourceVersion": version, "finalizers": finalizers } }))
}

/// Whether it was written; not when the object has changed or gone meanwhile.
async fn write<K>(client: &Client, metadata: &ObjectMeta, patch: Value) -> anyhow::Result<bool>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
{
    let (Some(namespace), Some(name)) = (&metadata.namespace, &metadata.name) else { return Ok(false) };
    let objects: Api<K> = Api::namespaced(client.clone(), namespace);
    match objects.patch_metadata(name, &PatchParams::default(), &Patch::Merge(patch)).await {
        Ok(_) => Ok(true),
        Err(Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(false),
        Err(error) => Err(error).with_context(|| format!("letting {} {namespace}/{name} go", K::kind(&()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{Server, failure};

    fn anchor(name: &str, finalizers: &[&str]) -> Value {
        json!({ "metadata": {
            "name": name, "namespace": "acme", "uid": name, "resourceVersion": "7", "finalizers": finalizers,
        }})
    }

    fn list(items: &[Value]) -> Value {
        json!({
            "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList", "metadata": {}, "items": items,
        })
    }

    #[tokio::test]
    async fn only_ours_is_taken_off_and_everything_is_looked_at_again() {
        let patched = json!({
            "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": { "name": "web" },
        });
        let server = Server::answering([
            list(&[
                anchor("web", &["example.com/other", ANCHOR_FINALIZER]),
                anchor("free", &[]),
                anchor("others", &["example.com/other"]),
            ]),
            failure(409, "Conflict", "the object has been modified"),
            list(&[anchor("web", &["example.com/other", ANCHOR_FINALIZER])]),
            patched,
            list(&[anchor("web", &["example.com/other"])]),
        ]);
        let released = remove_from_all::<SubnamespaceAnchor>(&server.client(), ANCHOR_FINALIZER).await;
        assert_eq!(released.unwrap(), 1);
        let asked = server.asked();
        let writes: Vec<_> = asked.iter().filter(|(method, ..)| method == "PATCH").collect();
        assert_eq!((asked.len(), writes.len()), (5, 2), "{asked:?}");
        for (_, path, body) in writes {
            assert!(path.contains("/namespaces/acme/subnamespaceanchors/web"), "{path}");
            assert_eq!(
                *body,
                json!({ "metadata": { "uid": "web", "resourceVersion": "7", "finalizers": ["example.com/other"] } })
            );
        }
    }

    #[tokio::test]
    async fn without_definitions_there_is_nothing_to_let_go() {
        let server = Server::answering([failure(404, "NotFound", "the server could not find the resource")]);
        let released = remove_from_all::<SubnamespaceAnchor>(&server.client(), ANCHOR_FINALIZER).await;
        assert_eq!(released.unwrap(), 0);
    }

    #[tokio::test]
    async fn while_a_controller_is_installed_nothing_is_touched() {
        let found = |metadata: Value| json!({ "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": metadata });
        let server = Server::answering([found(json!({ "name": names::CONTROLLER_DEPLOYMENT }))]);
        run(&server.client(), "hnc-system").await.unwrap();
        assert_eq!(server.asked().len(), 1, "{:?}", server.asked());

        let going =
            json!({ "name": names::CONTROLLER_DEPLOYMENT, "deletionTimestamp": "2026-01-01T00:00:00Z" });
        let server = Server::answering([found(going), list(&[]), list(&[])]);
        run(&server.client(), "hnc-system").await.unwrap();
        assert_eq!(server.asked().len(), 3, "{:?}", server.asked());
    }

    #[tokio::test]
    async fn whoever_puts_it_back_is_not_fought_for_ever() {
        let held = list(&[anchor("web", &[ANCHOR_FINALIZER])]);
        let conflict = failure(409, "Conflict", "the object has been modified");
        let answers = [held, conflict].into_iter().cycle().take(2 * PASSES);
        let server = Server::answering(answers);
        let released = remove_from_all::<SubnamespaceAnchor>(&server.client(), ANCHOR_FINALIZER).await;
        assert!(format!("{:#}", released.unwrap_err()).contains("puts it back"));
        assert_eq!(server.asked().len(), 2 * PASSES);
    }
}
