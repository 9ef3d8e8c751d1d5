//! While the quota controller does not run, new limits are not in force. The condition says so, and new rights wait.

use std::time::Duration;

use anyhow::{Result, ensure};
use hns_api::conditions::ENFORCED;
use hns_cluster::settings::FailurePolicy;
use hns_e2e::steps::PATIENCE;
use hns_e2e::{Signal, eventually, stays};
use kube::api::PostParams;
use serde_json::json;

use super::scene::{condition, service};
use super::workshop::workshop;

#[tokio::test]
async fn a_quota_is_enforced_and_rights_arrive_only_when_all_derived_quotas_are_in_force() -> Result<()> {
    let workshop = workshop().await?;
    let running = workshop.run(Some(FailurePolicy::Fail)).await?;
    let (scene, steps) = (&workshop.scene, workshop.steps());
    steps.plant(&[("f-root", ""), ("f-child", "f-root")]).await?;
    steps.create_binding("f-root", "editors", ("ClusterRole", "edit"), "edith").await?;
    steps.binding_arrives(&["f-child"], "editors", "f-root", "edith").await?;
    scene.limit("f-root", "budget", json!({ "services": "1" })).await?;
    let enforced = |status: &hns_api::HierarchicalResourceQuotaStatus| condition(status, ENFORCED);

    let manager = workshop.cluster.controller_manager();
    manager.signal(Signal::STOP)?;
    scene.set("f-root", "budget", json!({ "services": "2" })).await?;
    let quota = scene
        .quota_is("f-root", "budget", "is not enforced", |quota| {
            enforced(&quota.status.clone().unwrap_or_default()).is_some_and(|(holds, _, _)| !holds)
        })
        .await?;
    assert_eq!(
        enforced(&quota.status.unwrap_or_default()),
        Some((
            false,
            "LimitsNotInForce".into(),
            "The ResourceQuota hrq.hnc.x-k8s.io is not in force (status.hard equals spec.hard) in \"f-child\", \"f-root\"; if this \
             does not change, check that kube-controller-manager runs its resourcequota controller"
                .into()
        ))
    );
    // A new subnamespace: its binding waits for its quota, as the first objects of its editor would not be counted.
    steps.create_anchor("f-root", "f-new").await?;
    steps.labelled(&["f-new", "f-root"]).await?;
    stays("no binding arrives in f-new", Duration::from_secs(3), async || {
        match steps.bindings("f-new").get_opt("editors").await {
            Ok(None) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await?;
    let edith = workshop.cluster.client_as("edith", &[]);
    let services: kube::Api<_> = kube::Api::namespaced(edith, "f-new");
    let status = hns_e2e::refusal(services.create(&PostParams::default(), &service("early")).await);
    ensure!(status.code == 403 && status.message.contains("cannot create resource"), "{}", status.message);
    manager.signal(Signal::CONT)?;

    steps.binding_arrives(&["f-new"], "editors", "f-root", "edith").await?;
    scene.enforced("f-root", "budget").await?;
    for namespace in ["f-root", "f-child", "f-new"] {
        scene.derived(namespace, &[("services", "2")]).await?;
    }
    eventually("the editor creates a Service", PATIENCE, async || {
        services
            .create(&PostParams::default(), &service("one"))
            .await
            .map(drop)
            .map_err(|error| error.to_string())
    })
    .await?;
    steps.create_anchor("f-root", "f-later").await?;
    eventually("its creator becomes the admin of f-later", PATIENCE, async || {
        let binding = steps.bindings("f-later").get_opt("hns-initial-admin-f-later").await;
        if binding.map_err(|error| error.to_string())?.is_some() { Ok(()) } else { Err("not yet".to_owned()) }
    })
    .await?;
    scene.serve_all("f-child", &["two"]).await?;
    scene.refused("f-root", "three").await?;
    running.end().await
}
