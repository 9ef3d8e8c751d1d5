//! Removes our finalizers at the end of an uninstallation that keeps the CRDs: no controller is left to remove them.
//!
//! It does nothing while a controller is installed, because the controller would add them again.

use std::fmt::Debug;

use anyhow::{Context, bail};
use forest::keys::{ANCHOR_FINALIZER, HIERARCHY_FINALIZER};
use futures::{StreamExt, TryStreamExt, stream};
use hns_api::accurate::SubNamespace;
use hns_api::{HierarchyConfiguration, SubnamespaceAnchor, names};
use hns_cluster::api::Api;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Client, Error, Resource};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The number of concurrent writes.
const CONCURRENT_WRITES: usize = 16;

/// The number of times that all objects are listed, because others may change them in between.
const PASSES: usize = 5;

/// Removes our finalizers from all anchors, `HierarchyConfigurations` and `SubNamespaces`.
///
/// # Errors
/// The API server refuses a request, or another client adds the finalizers again. The next call continues.
pub(crate) async fn run(client: &Client, namespace: &str) -> anyhow::Result<()> {
    if is_installed(client, namespace).await? {
        tracing::warn!("kept all finalizers: a controller is installed in this namespace and needs them");
        return Ok(());
    }
    let anchors = remove_from_all::<SubnamespaceAnchor>(client, ANCHOR_FINALIZER);
    let hierarchies = remove_from_all::<HierarchyConfiguration>(client, HIERARCHY_FINALIZER);
    let (anchors, hierarchies) = tokio::try_join!(anchors, hierarchies)?;
    let sub_namespaces = match remove_from_all::<SubNamespace>(client, forest::accurate::keys::FINALIZER)
        .await
    {
        // The right exists only while Accurate's API is enabled.
        Err(error) if is_forbidden(&error) => {
            tracing::warn!(%error, "the finalizers of SubNamespaces stay, because this account may not list or patch them; remove them by hand (docs/repair.md), so that \
                     their namespaces can be deleted");
            0
        }
        removed => removed?,
    };
    tracing::info!(anchors, hierarchies, sub_namespaces, "removed the finalizers");
    Ok(())
}

fn is_forbidden(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(Error::Api(status)) if status.code == 403)
}

/// A Deployment that is being deleted does not count.
async fn is_installed(client: &Client, namespace: &str) -> anyhow::Result<bool> {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let found = deployments.get_metadata_opt(names::CONTROLLER_DEPLOYMENT).await;
    let found = found.context("reading the Deployment of the controller")?;
    Ok(found.is_some_and(|found| found.metadata.deletion_timestamp.is_none()))
}

/// Returns the number of changed objects. Without the CRD there are none.
async fn remove_from_all<K>(client: &Client, finalizer: &str) -> anyhow::Result<usize>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
{
    let kind = K::kind(&());
    let mut removed = 0;
    for _ in 0..PASSES {
        let held = |it: ObjectMeta| removal(&it, finalizer).map(|patch| (it.namespace, it.name, patch));
        let all = Api::<K>::all(client.clone());
        let held = match all.list_metadata_in_pages(&ListParams::default(), held).await {
            // Where no kind of the group was ever defined, the response is no Status.
            Err(Error::Api(status)) if status.code == 404 => return Ok(removed),
            listed => listed.with_context(|| format!("listing every {kind}"))?,
        };
        if held.is_empty() {
            return Ok(removed);
        }
        let writes =
            held.into_iter().map(|(namespace, name, body)| patch::<K>(client, (namespace, name), body));
        let written: Vec<bool> =
            stream::iter(writes).buffer_unordered(CONCURRENT_WRITES).try_collect().await?;
        removed += written.into_iter().filter(|&written| written).count();
    }
    bail!(
        "removed the finalizer {finalizer} from every {kind} {PASSES} times, but another client adds it again"
    )
}

/// The patch that removes a finalizer, with the version as a precondition. `None` if the object does not have the finalizer.
fn removal(metadata: &ObjectMeta, finalizer: &str) -> Option<Value> {
    let mut finalizers = metadata.finalizers.clone().filter(|all| all.iter().any(|it| it == finalizer))?;
    finalizers.retain(|it| it != finalizer);
    let (uid, version) = (&metadata.uid, &metadata.resource_version);
    Some(json!({ "metadata": { "uid": uid, "resourceVersion": version, "finalizers": finalizers } }))
}

/// Returns whether the object was patched. It is not if it was changed or deleted after it was listed.
async fn patch<K>(
    client: &Client,
    place: (Option<String>, Option<String>),
    patch: Value,
) -> anyhow::Result<bool>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
{
    let (Some(namespace), Some(name)) = place else { return Ok(false) };
    let objects: Api<K> = Api::namespaced(client.clone(), &namespace);
    match objects.patch_metadata(&name, &PatchParams::default(), &Patch::Merge(patch)).await {
        Ok(_) => Ok(true),
        Err(Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(false),
        Err(error) => Err(error)
            .with_context(|| format!("removing a finalizer from {} {namespace}/{name}", K::kind(&()))),
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
    async fn only_our_finalizer_is_removed_and_all_objects_are_listed_again() {
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

    /// Users decide how large the objects are.
    #[tokio::test]
    async fn objects_are_listed_in_pages() {
        let mut first = list(&[anchor("a", &[])]);
        first["metadata"] = json!({ "continue": "next" });
        let server =
            Server::answering([first, list(&[anchor("b", &[ANCHOR_FINALIZER])]), list(&[]), list(&[])]);
        remove_from_all::<SubnamespaceAnchor>(&server.client(), ANCHOR_FINALIZER).await.unwrap();
        let asked: Vec<_> =
            server.asked().into_iter().map(|(method, path, _)| format!("{method} {path}")).collect();
        assert!(asked[0].contains("limit=50") && !asked[0].contains("continue"), "{asked:?}");
        assert!(asked[1].contains("limit=50") && asked[1].contains("continue=next"), "{asked:?}");
        assert!(asked[2].contains("PATCH") && asked[2].contains("/b"), "{asked:?}");
        assert!(!asked[3].contains("continue"), "{asked:?}");
    }

    #[tokio::test]
    async fn without_crds_nothing_is_removed() {
        for reason in ["NotFound", "Failed to parse error data"] {
            let server = Server::answering([failure(404, reason, "404 page not found")]);
            let released = remove_from_all::<SubnamespaceAnchor>(&server.client(), ANCHOR_FINALIZER).await;
            assert_eq!(released.unwrap(), 0);
        }
    }

    #[tokio::test]
    async fn while_a_controller_is_installed_nothing_is_removed() {
        let found = |metadata: Value| json!({ "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": metadata });
        let server = Server::answering([found(json!({ "name": names::CONTROLLER_DEPLOYMENT }))]);
        run(&server.client(), "hnc-system").await.unwrap();
        assert_eq!(server.asked().len(), 1, "{:?}", server.asked());

        let terminating =
            json!({ "name": names::CONTROLLER_DEPLOYMENT, "deletionTimestamp": "2026-01-01T00:00:00Z" });
        // Without the right, SubNamespaces are left alone.
        let forbidden = failure(403, "Forbidden", "subnamespaces.accurate.cybozu.com is forbidden");
        let server = Server::answering([found(terminating), list(&[]), list(&[]), forbidden]);
        run(&server.client(), "hnc-system").await.unwrap();
        assert_eq!(server.asked().len(), 4, "{:?}", server.asked());
    }

    #[tokio::test]
    async fn it_fails_when_another_client_keeps_adding_the_finalizer() {
        let held = list(&[anchor("web", &[ANCHOR_FINALIZER])]);
        let conflict = failure(409, "Conflict", "the object has been modified");
        let answers = [held, conflict].into_iter().cycle().take(2 * PASSES);
        let server = Server::answering(answers);
        let released = remove_from_all::<SubnamespaceAnchor>(&server.client(), ANCHOR_FINALIZER).await;
        assert!(format!("{:#}", released.unwrap_err()).contains("adds it again"));
        assert_eq!(server.asked().len(), 2 * PASSES);
    }
}
