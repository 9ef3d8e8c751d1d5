//! A Pod with a finalizer holds up the deletion of its namespace for as long as its user likes.

use anyhow::{Result, bail, ensure};
use hns_e2e::steps::{PATIENCE, binding};
use hns_e2e::{Steps, eventually};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;

use super::scene::scene;

async fn hold_up(steps: &Steps, namespace: &str) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(steps.client.clone(), namespace);
    let pod: Pod = serde_json::from_value(json!({
        "metadata": { "name": "held", "finalizers": ["example.com/keep"] },
        "spec": { "containers": [{ "name": "c", "image": "example.com/none" }] },
    }))?;
    // Until the service account of the namespace exists, the API server refuses pods.
    eventually(&format!("a pod comes to {namespace}"), PATIENCE, async || {
        pods.create(&PostParams::default(), &pod).await.map(drop).map_err(|error| error.to_string())
    })
    .await
}

/// Deletes a copy so that the garbage collector keeps it until a dependent is gone, which has a finalizer. In a namespace that is being
/// deleted, a user may delete copies.
async fn delete_and_hold(user: &Steps, namespace: &str, copy: &str) -> Result<()> {
    let copies = user.bindings(namespace);
    let uid = copies.get(copy).await?.metadata.uid;
    let config_maps: Api<ConfigMap> = Api::namespaced(user.client.clone(), namespace);
    config_maps.patch("dependent", &PatchParams::default(), &Patch::Merge(json!({ "metadata": { "ownerReferences": [{
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "name": copy, "uid": uid, "blockOwnerDeletion": true,
    }] } }))).await?;
    eventually(&format!("{copy} may be deleted, because {namespace} is"), PATIENCE, async || {
        let deleted = copies.delete(copy, &DeleteParams::foreground()).await;
        deleted.map(drop).map_err(|error| error.to_string())
    })
    .await?;
    let held = copies.get(copy).await?.metadata;
    ensure!(held.deletion_timestamp.is_some() && held.finalizers.is_some(), "{held:?}");
    Ok(())
}

/// A right that is withdrawn above is withdrawn there too. Otherwise its user could bind themselves there, and the copies of that binding
/// would give the right back in the namespaces below, which live on.
#[tokio::test]
async fn who_holds_up_a_deletion_keeps_no_right() -> Result<()> {
    let scene = scene().await?;
    let steps = &scene.steps;
    let grace = Steps::of(scene.cluster().client_as("en-grace", &[]));
    steps.plant(&[("en-top", ""), ("en-mid", "en-top"), ("en-leaf", "en-mid")]).await?;
    steps.create_anchor("en-top", "en-sub").await?;
    let all = ["en-mid", "en-leaf", "en-sub"];
    for name in ["admins", "admins-again", "admins-held"] {
        steps.create_binding("en-top", name, ("ClusterRole", "admin"), "en-grace").await?;
        steps.binding_arrives(&all, name, "en-top", "en-grace").await?;
    }
    grace
        .bindings("en-mid")
        .create(&PostParams::default(), &binding("sleeper", ("ClusterRole", "admin"), "nobody"))
        .await?;
    steps.binding_arrives(&["en-leaf"], "sleeper", "en-mid", "nobody").await?;

    for name in ["en-mid", "en-sub"] {
        hold_up(&grace, name).await?;
    }
    let kept = json!({ "metadata": { "name": "dependent", "finalizers": ["example.com/keep"] } });
    let config_maps: Api<ConfigMap> = Api::namespaced(grace.client.clone(), "en-mid");
    config_maps.create(&PostParams::default(), &serde_json::from_value(kept)?).await?;
    steps.namespaces().delete("en-mid", &DeleteParams::default()).await?;
    steps.anchors("en-top").delete("en-sub", &DeleteParams::default()).await?;
    for name in ["en-mid", "en-sub"] {
        eventually(&format!("{name} is being deleted"), PATIENCE, async || {
            let found = steps.namespaces().get(name).await.map_err(|error| error.to_string())?;
            found.metadata.deletion_timestamp.map(drop).ok_or_else(|| "not yet".to_owned())
        })
        .await?;
    }
    delete_and_hold(&grace, "en-mid", "admins-held").await?;
    for name in ["admins", "admins-held"] {
        steps.bindings("en-top").delete(name, &DeleteParams::default()).await?;
        steps.binding_leaves(&all, name).await?;
    }
    // With another role, it is deleted and created again, where anything can be created.
    steps.bindings("en-top").delete("admins-again", &DeleteParams::default()).await?;
    steps.create_binding("en-top", "admins-again", ("ClusterRole", "view"), "en-other").await?;
    steps.binding_arrives(&["en-leaf"], "admins-again", "en-top", "en-other").await?;
    steps.binding_leaves(&["en-mid", "en-sub"], "admins-again").await?;

    // The API server's authorizer follows RBAC objects with a delay.
    eventually("grace has lost her rights", PATIENCE, async || {
        match grace.bindings("en-mid").get_opt("sleeper").await {
            Err(kube::Error::Api(status)) if status.code == 403 => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await?;
    let herself = json!({ "subjects": binding("sleeper", ("ClusterRole", "admin"), "en-grace").subjects });
    match grace.bindings("en-mid").patch("sleeper", &PatchParams::default(), &Patch::Merge(herself)).await {
        Err(kube::Error::Api(status)) => ensure!(status.code == 403, "{status:?}"),
        other => bail!("grace binds herself: {other:?}"),
    }
    let release = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    let config_maps: Api<ConfigMap> = Api::namespaced(steps.client.clone(), "en-mid");
    config_maps.patch("dependent", &PatchParams::default(), &release).await?;
    for name in ["en-mid", "en-sub"] {
        let pods: Api<Pod> = Api::namespaced(steps.client.clone(), name);
        pods.patch("held", &PatchParams::default(), &release).await?;
        steps.gone(name).await?;
    }
    Ok(())
}
