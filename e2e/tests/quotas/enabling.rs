//! Quotas are enabled where HNC had them, and disabled.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use hns_api::names::{DERIVED_QUOTA, QUOTA_LEDGER, SETTINGS_CONFIG_MAP};
use hns_api::{HierarchicalResourceQuota, annotations, labels};
use hns_cluster::api::Api;
use hns_cluster::settings::{FailurePolicy, REFUSED};
use hns_e2e::product::NAMESPACE;
use hns_e2e::steps::PATIENCE;
use hns_e2e::{Options, Product, eventually};
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;
use k8s_openapi::api::core::v1::{ConfigMap, ResourceQuota};
use k8s_openapi::api::rbac::v1::Role;
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};

use super::scene::{Scene, numbers, service};
use super::workshop::{usage_policy, workshop};

/// A derived quota as HNC writes it.
fn of_hnc(labels: &Value, limit: &str) -> Result<ResourceQuota> {
    Ok(serde_json::from_value(json!({
        "metadata": {
            "name": DERIVED_QUOTA, "labels": labels, "annotations": { "propagate.hnc.x-k8s.io/none": "true" },
        },
        "spec": { "hard": { "services": limit } },
    }))?)
}

async fn uid(scene: &Scene<'_>, namespace: &str) -> Result<Option<String>> {
    Ok(scene.core(namespace).get(DERIVED_QUOTA).await?.metadata.uid)
}

#[tokio::test]
async fn what_hnc_left_is_taken_over_in_place_and_disabling_removes_what_is_ours() -> Result<()> {
    let workshop = workshop().await?;
    let scene = &workshop.scene;
    // The tree, and what HNC leaves in it, before anything of ours knows quotas.
    let running = workshop.run(None).await?;
    scene.steps.plant(&[("hn-root", ""), ("hn-child", "hn-root"), ("hn-other", "")]).await?;
    let quota: HierarchicalResourceQuota = serde_json::from_value(json!({
        "metadata": { "name": "budget" }, "spec": { "hard": { "services": "3", "limits.cpu": "2" } },
        "status": {
            "hard": { "services": "3", "limits.cpu": "2" }, "used": { "services": "1", "limits.cpu": "0" },
            "requestsSummary": "services: 1/3", "limitsSummary": "limits.cpu: 0/2",
        },
    }))?;
    let made = scene.hierarchical("hn-root").create(&PostParams::default(), &quota).await?;
    let marked = json!({ labels::HRQ: "true" });
    // HNC sets the label only when it creates one.
    for (namespace, labels) in [("hn-root", &marked), ("hn-child", &json!({})), ("hn-other", &marked)] {
        scene.core(namespace).create(&PostParams::default(), &of_hnc(labels, "7")?).await?;
    }
    scene.serve_all("hn-child", &["one", "two"]).await?;
    let before = [uid(scene, "hn-root").await?, uid(scene, "hn-child").await?];
    running.end().await?;

    let running = workshop.run(Some(FailurePolicy::Fail)).await?;
    let shown = scene.enforced("hn-root", "budget").await?;
    assert_eq!(shown.metadata.uid, made.metadata.uid);
    scene.uses("hn-root", "budget", &[("services", "2"), ("limits.cpu", "0")]).await?;
    for (namespace, before) in ["hn-root", "hn-child"].into_iter().zip(&before) {
        let quota = scene.derived(namespace, &[("services", "3"), ("limits.cpu", "2")]).await?;
        assert_eq!(&quota.metadata.uid, before, "{namespace}");
        let all = quota.metadata.labels.unwrap_or_default();
        assert_eq!(all.get(labels::HRQ).map(String::as_str), Some("true"), "{namespace}");
        let all = quota.metadata.annotations.unwrap_or_default();
        ensure!(
            all.contains_key(annotations::HRQ_SOURCES) && all.contains_key(annotations::HRQ_LIMITS),
            "{all:?}"
        );
    }
    // Where no quota applies, none is left, as with HNC.
    scene.not_derived("hn-other").await?;
    scene.serve_all("hn-root", &["three"]).await?;
    scene.refused("hn-child", "four").await?;
    ledger(scene, true).await?;
    running.end().await?;

    // One that HNC leaves: without our annotations.
    scene.core("hn-other").create(&PostParams::default(), &of_hnc(&marked, "7")?).await?;
    let before = uid(scene, "hn-other").await?;
    let running = workshop.run(None).await?;
    for namespace in ["hn-root", "hn-child"] {
        scene.not_derived(namespace).await?;
    }
    let quota = scene
        .quota_is("hn-root", "budget", "has no conditions", |quota| {
            quota.status.as_ref().is_some_and(|it| it.conditions.is_none())
        })
        .await?;
    let status = quota.status.unwrap_or_default();
    assert_eq!((status.hard, status.requests_summary, status.limits_summary), (None, None, None));
    ensure!(numbers(status.used.as_ref()).contains_key("services"), "{:?}", status.used);
    ledger(scene, false).await?;
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(workshop.cluster.admin());
    eventually("the policy of quotas is gone", PATIENCE, async || {
        match policies.get_opt(hns_api::names::policies::QUOTAS).await {
            Ok(None) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await?;
    assert_eq!(uid(scene, "hn-other").await?, before);
    scene.serve_all("hn-child", &["four", "five"]).await?;
    running.end().await?;

    // And again: nothing was lost.
    let running = workshop.run(Some(FailurePolicy::Fail)).await?;
    scene.enforced("hn-root", "budget").await?;
    scene.uses("hn-root", "budget", &[("services", "5"), ("limits.cpu", "0")]).await?;
    scene.refused("hn-child", "six").await?;
    scene.not_derived("hn-other").await?;
    running.end().await
}

async fn ledger(scene: &Scene<'_>, exists: bool) -> Result<()> {
    let api: Api<ConfigMap> = Api::namespaced(scene.steps.client.clone(), NAMESPACE);
    eventually(&format!("whether there is a ledger: {exists}"), PATIENCE, async || {
        let found = api.get_opt(QUOTA_LEDGER).await.map_err(|error| error.to_string())?;
        if found.is_some() == exists { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await
}

#[tokio::test]
async fn without_the_rights_quotas_stay_disabled_until_they_are_granted() -> Result<()> {
    let cluster = super::scene::cluster().await?;
    // The rights of config/default.yaml, with quotas enabled.
    let enabled = Options::with_quotas(FailurePolicy::Fail);
    let options = Options { controller_args: enabled.controller_args, ..Options::default() };
    let product = Product::install(&cluster, options).await?;
    let (_webhook, _controller) = tokio::try_join!(product.start_webhook(), product.start_controller())?;
    let scene = Scene::of(&cluster);
    let settings: Api<ConfigMap> = Api::namespaced(cluster.admin(), NAMESPACE);
    let refused = async |wanted: &[&str]| {
        eventually(&format!("the refusal of the settings has {wanted:?}"), PATIENCE, async || {
            let found = settings.get(SETTINGS_CONFIG_MAP).await.map_err(|error| error.to_string())?;
            let why = found.data.unwrap_or_default().remove(REFUSED).ok_or("not written yet")?;
            let is_it =
                if wanted.is_empty() { why.is_empty() } else { wanted.iter().all(|it| why.contains(it)) };
            if is_it { Ok(()) } else { Err(why) }
        })
        .await
    };
    refused(&[
        "hierarchicalQuotas.enabled: quotas stay disabled, because the service account hns-controller may not patch resourcequotas",
        "hns-webhook may not get, update configmaps/hnc-quota-ledger",
        "config/hrq.yaml",
    ])
    .await?;
    let doctor = std::env::current_exe()?.with_file_name("../kubectl-hns");
    let doctor = async || {
        let mut command = tokio::process::Command::new(&doctor);
        command.arg("doctor").env("KUBECONFIG", cluster.kubeconfig());
        anyhow::Ok(String::from_utf8(command.kill_on_drop(true).output().await?.stdout)?)
    };
    let shown = doctor().await?;
    ensure!(
        shown.contains("WRONG  settings: a part of the settings is refused")
            && shown.contains("hns-webhook may not"),
        "{shown}"
    );
    // No half of an installation refuses anything.
    scene.steps.plant(&[("mr-root", "")]).await?;
    let quota = json!({
        "apiVersion": "hnc.x-k8s.io/v1alpha2", "kind": "HierarchicalResourceQuota",
        "metadata": { "name": "budget", "namespace": "mr-root" }, "spec": { "hard": { "services": "1" } },
    });
    let apply = cluster.kubectl().args(["apply", "-f", "-"]).stdin(quota.to_string());
    let said = apply.run().await?.stderr;
    ensure!(
        said.contains("hierarchical quotas are disabled in this installation, so this quota is not enforced"),
        "{said}"
    );
    scene.serve_all("mr-root", &["one", "two"]).await?;
    scene.not_derived("mr-root").await?;

    product.grant_rights_of(&enabled.manifests).await?;
    refused(&[]).await?;
    scene.enforced("mr-root", "budget").await?;
    let policy = usage_policy(&cluster).await?;
    ensure!(
        policy.as_deref() == Some("Fail"),
        "shown as enforced before the webhook is registered: {policy:?}"
    );
    scene.refused("mr-root", "three").await?;
    let shown = doctor().await?;
    ensure!(shown.contains("ok     rights for hierarchical quotas: sufficient"), "{shown}");

    // A right is lost later.
    let roles: Api<Role> = Api::namespaced(cluster.admin(), NAMESPACE);
    roles.delete("hns-webhook", &DeleteParams::default()).await?;
    let missing = "WRONG  rights for hierarchical quotas: the service account hns-webhook may not get, update configmaps/hnc-quota-ledger";
    eventually("the doctor finds the lost right", PATIENCE, async || {
        let shown = doctor().await.map_err(|error| format!("{error:#}"))?;
        if shown.contains(missing) { Ok(()) } else { Err(shown) }
    })
    .await?;
    scene.steps.plant(&[("mr-child", "mr-root")]).await?;
    scene.derived("mr-child", &[("services", "1")]).await?;
    let denied =
        hns_e2e::refusal(scene.services("mr-child").create(&PostParams::default(), &service("four")).await);
    ensure!(
        denied.message.contains("cannot be used: configmaps \"hnc-quota-ledger\" is forbidden"),
        "{denied:?}"
    );
    ensure!(
        denied.message.ends_with("apply config/hrq.yaml") && !denied.message.contains("Status {"),
        "{denied:?}"
    );
    Ok(())
}

#[tokio::test]
async fn an_export_is_restored_as_it_was() -> Result<()> {
    let scene = super::scene::scene().await?;
    let tree = [("re-root", ""), ("re-mid", "re-root"), ("re-leaf", "re-mid")];
    scene.steps.plant(&tree).await?;
    scene.limit("re-root", "budget", json!({ "services": "4" })).await?;
    scene.limit("re-mid", "budget", json!({ "services": "2", "pods": "3" })).await?;
    scene.serve_all("re-root", &["one"]).await?;
    scene.serve_all("re-leaf", &["two"]).await?;
    scene.uses("re-root", "budget", &[("services", "2")]).await?;
    scene.uses("re-mid", "budget", &[("services", "1"), ("pods", "0")]).await?;
    let mut export = Vec::new();
    for (namespace, _) in tree {
        let objects = scene.cluster.kubectl().args([
            "get",
            "hrq,resourcequotas,services",
            "-n",
            namespace,
            "-o",
            "json",
        ]);
        let list: Value = serde_json::from_str(&objects.ok().await?)?;
        export.extend(list["items"].as_array().cloned().unwrap_or_default());
    }
    // As backups do it: without what the API server assigns, but with the status in quotas.
    for object in &mut export {
        for key in ["uid", "resourceVersion", "creationTimestamp", "managedFields"] {
            object["metadata"].as_object_mut().map(|it| it.remove(key));
        }
    }
    let kinds: BTreeMap<String, usize> = export.iter().fold(BTreeMap::new(), |mut kinds, object| {
        *kinds.entry(object["kind"].as_str().unwrap_or_default().to_owned()).or_default() += 1;
        kinds
    });
    assert_eq!(kinds.len(), 3, "{kinds:?}");
    for (namespace, _) in tree.iter().rev() {
        scene.steps.set_parent(namespace, "").await?;
        scene.steps.delete_namespace(namespace).await?;
    }
    scene.steps.plant(&tree).await?;
    // In an order that a restore may have: derived quotas first, then objects, then hierarchical quotas.
    export.sort_by_key(|object| match object["kind"].as_str() {
        Some("ResourceQuota") => 0,
        Some("Service") => 1,
        _ => 2,
    });
    for object in export {
        let apply = scene.cluster.kubectl().args(["apply", "-f", "-"]).stdin(object.to_string());
        eventually("an object is restored", PATIENCE, async || {
            apply.clone().ok().await.map(drop).map_err(|error| error.to_string())
        })
        .await?;
    }
    scene.enforced("re-root", "budget").await?;
    scene.enforced("re-mid", "budget").await?;
    scene.uses("re-root", "budget", &[("services", "2")]).await?;
    scene.uses("re-mid", "budget", &[("services", "1"), ("pods", "0")]).await?;
    scene.derived("re-leaf", &[("services", "2"), ("pods", "3")]).await?;
    scene.serve_all("re-mid", &["three"]).await?;
    scene.refused("re-leaf", "four").await?;
    scene.serve_all("re-root", &["four"]).await?;
    scene.refused("re-root", "five").await?;
    Ok(())
}
