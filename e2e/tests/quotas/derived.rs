//! The derived quota of a namespace: its shape, its limits, and who keeps it.

use anyhow::{Result, ensure};
use hns_api::names::DERIVED_QUOTA;
use hns_api::{annotations, labels};
use kube::api::{DeleteParams, PostParams};
use serde_json::json;

use super::scene::{amounts, numbers, scene};

#[tokio::test]
async fn a_derived_quota_has_the_least_limit_of_all_quotas_of_the_ancestry() -> Result<()> {
    let scene = scene().await?;
    scene.steps.plant(&[("d-root", ""), ("d-mid", "d-root"), ("d-leaf", "d-mid")]).await?;
    scene.set("d-root", "first", json!({ "services": "5", "pods": "10" })).await?;
    scene.set("d-root", "second", json!({ "services": "3" })).await?;
    scene.set("d-mid", "third", json!({ "pods": "4", "requests.cpu": "1500m" })).await?;
    for (namespace, name) in [("d-root", "first"), ("d-root", "second"), ("d-mid", "third")] {
        scene.enforced(namespace, name).await?;
    }
    scene.derived("d-root", &[("services", "3"), ("pods", "10")]).await?;
    for namespace in ["d-mid", "d-leaf"] {
        let quota =
            scene.derived(namespace, &[("services", "3"), ("pods", "4"), ("requests.cpu", "1500m")]).await?;
        let metadata = quota.metadata;
        let label = metadata.labels.unwrap_or_default();
        let annotation = metadata.annotations.unwrap_or_default();
        assert_eq!(label.get(labels::HRQ).map(String::as_str), Some("true"), "{label:?}");
        assert_eq!(annotation.get("propagate.hnc.x-k8s.io/none").map(String::as_str), Some("true"));
        assert_eq!(
            annotation.get(annotations::HRQ_LIMITS).map(String::as_str),
            Some(
                "pods: d-mid/third, 100% of 4 left; requests.cpu: d-mid/third, 100% of 1500m left; services: d-root/second, \
                 100% of 3 left"
            )
        );
        ensure!(metadata.owner_references.is_none(), "{:?}", metadata.owner_references);
    }
    scene.limit("d-root", "second", json!({ "services": "7" })).await?;
    scene.derived("d-leaf", &[("services", "5"), ("pods", "4"), ("requests.cpu", "1500m")]).await?;
    scene.hierarchical("d-mid").delete("third", &DeleteParams::default()).await?;
    scene.derived("d-leaf", &[("services", "5"), ("pods", "10")]).await?;
    for name in ["first", "second"] {
        scene.hierarchical("d-root").delete(name, &DeleteParams::default()).await?;
    }
    for namespace in ["d-root", "d-mid", "d-leaf"] {
        scene.not_derived(namespace).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_derived_quota_that_a_user_deletes_or_changes_is_as_it_was_soon() -> Result<()> {
    let scene = scene().await?;
    scene.steps.plant(&[("e-root", ""), ("e-child", "e-root")]).await?;
    scene.limit("e-root", "budget", json!({ "services": "2" })).await?;
    scene.serve_all("e-child", &["one"]).await?;
    let uid = scene.derived("e-child", &[("services", "2")]).await?.metadata.uid;
    scene.core("e-child").delete(DERIVED_QUOTA, &DeleteParams::default()).await?;
    let new = scene.derived("e-child", &[("services", "2")]).await?;
    ensure!(new.metadata.uid != uid, "it was not deleted");
    // It counts what exists.
    scene.uses("e-root", "budget", &[("services", "1")]).await?;
    scene.serve_all("e-root", &["two"]).await?;
    scene.refused("e-child", "three").await?;

    let patch = json!({
        "metadata": { "labels": { labels::HRQ: null }, "annotations": { annotations::HRQ_SOURCES: "none", annotations::HRQ_LIMITS: null } },
        "spec": { "hard": { "services": "9", "pods": "9" } },
    });
    let changed = scene.patch_derived("e-child", patch).await?;
    assert_eq!(numbers(changed.spec.unwrap_or_default().hard.as_ref()).len(), 2);
    let repaired = scene.derived("e-child", &[("services", "2")]).await?;
    assert_eq!(
        repaired.metadata.labels.unwrap_or_default().get(labels::HRQ).map(String::as_str),
        Some("true")
    );
    let shown = repaired.metadata.annotations.unwrap_or_default();
    ensure!(
        shown.get(annotations::HRQ_SOURCES).is_some_and(|it| it.starts_with("e-root/budget@")),
        "{shown:?}"
    );
    scene.refused("e-child", "three").await?;
    Ok(())
}

/// It would count only some objects.
#[tokio::test]
async fn a_quota_with_scopes_of_a_user_does_not_stay() -> Result<()> {
    let scene = scene().await?;
    scene.steps.plant(&[("scoped-root", "")]).await?;
    let scoped = json!({ "metadata": { "name": DERIVED_QUOTA }, "spec": { "hard": { "pods": "9" }, "scopes": ["Terminating"] } });
    let scoped =
        scene.core("scoped-root").create(&PostParams::default(), &serde_json::from_value(scoped)?).await?;
    scene.limit("scoped-root", "budget", json!({ "pods": "1" })).await?;
    let derived = scene.derived("scoped-root", &[("pods", "1")]).await?;
    ensure!(derived.metadata.uid != scoped.metadata.uid, "it is the same object");
    ensure!(derived.spec.is_some_and(|it| it.scopes.is_none()), "it has scopes");
    Ok(())
}

#[tokio::test]
async fn a_quota_in_an_excluded_namespace_limits_that_namespace() -> Result<()> {
    let scene = scene().await?;
    scene.limit("kube-public", "budget", json!({ "services": "1" })).await?;
    scene.derived("kube-public", &[("services", "1")]).await?;
    scene.serve_all("kube-public", &["one"]).await?;
    scene.uses("kube-public", "budget", &[("services", "1")]).await?;
    let status = scene.refused("kube-public", "two").await?;
    ensure!(status.message.contains("quota"), "{}", status.message);
    scene.hierarchical("kube-public").delete("budget", &DeleteParams::default()).await?;
    scene.not_derived("kube-public").await
}

#[tokio::test]
async fn the_quota_of_a_namespace_that_is_being_deleted_is_not_written_again() -> Result<()> {
    let scene = scene().await?;
    scene.steps.plant(&[("z-root", ""), ("z-child", "z-root")]).await?;
    scene.limit("z-root", "budget", json!({ "services": "2" })).await?;
    scene.serve_all("z-child", &["one", "two"]).await?;
    scene.uses("z-root", "budget", &[("services", "2")]).await?;
    // A Service that stays until its finalizer is removed holds the namespace.
    let held = |finalizers: serde_json::Value| json!({ "metadata": { "finalizers": finalizers } });
    scene.patch_service("z-child", "one", held(json!(["quota.test/held"]))).await?;
    scene.steps.namespaces().delete("z-child", &DeleteParams::default()).await?;
    scene.not_derived("z-child").await?;
    // Nothing waits for a quota there.
    let mark = scene.cluster.audit().mark()?;
    scene.limit("z-root", "budget", json!({ "services": "3" })).await?;
    scene.serve_all("z-root", &["one"]).await?;
    let writes = scene.cluster.audit().mutating_by(hns_e2e::product::CONTROLLER_USER, mark)?;
    let there: Vec<_> = writes.iter().filter(|it| it.namespace == "z-child").collect();
    ensure!(there.is_empty(), "{there:?}");
    scene.patch_service("z-child", "one", held(json!(null))).await?;
    scene.steps.gone("z-child").await
}

#[tokio::test]
async fn a_namespace_that_goes_takes_its_usage_with_it() -> Result<()> {
    let scene = scene().await?;
    scene.steps.plant(&[("g-root", ""), ("g-child", "g-root")]).await?;
    scene.limit("g-root", "budget", json!({ "services": "2" })).await?;
    scene.serve_all("g-child", &["one", "two"]).await?;
    scene.uses("g-root", "budget", &[("services", "2")]).await?;
    scene.refused("g-root", "three").await?;
    scene.steps.delete_namespace("g-child").await?;
    scene.uses("g-root", "budget", &[("services", "0")]).await?;
    scene.serve_all("g-root", &["three", "four"]).await?;
    // The same name again: its usage counts from nothing.
    scene.steps.plant(&[("g-child", "g-root")]).await?;
    scene.derived("g-child", &[("services", "2")]).await?;
    scene.enforced("g-root", "budget").await?;
    scene.refused("g-child", "one").await?;
    assert_eq!(
        numbers(scene.core("g-child").get(DERIVED_QUOTA).await?.status.unwrap_or_default().used.as_ref()),
        numbers(Some(&amounts(&[("services", "0")])))
    );
    Ok(())
}
