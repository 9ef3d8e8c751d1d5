//! What happens while no webhook runs, with each failure policy.

use anyhow::{Result, ensure};
use hns_api::conditions::EXCEEDED;
use hns_cluster::settings::FailurePolicy;
use hns_e2e::steps::PATIENCE;
use hns_e2e::{eventually, refusal};
use kube::api::PostParams;
use serde_json::json;

use super::scene::{condition, service};
use super::workshop::{Running, workshop};

#[tokio::test]
async fn with_the_policy_fail_an_outage_stops_creation_where_it_is_limited_and_nowhere_else() -> Result<()> {
    let workshop = workshop().await?;
    let running = workshop.run(Some(FailurePolicy::Fail)).await?;
    let scene = &workshop.scene;
    scene.steps.plant(&[("fa-root", ""), ("fa-child", "fa-root"), ("fa-free", "")]).await?;
    scene.limit("fa-root", "budget", json!({ "services": "3" })).await?;
    scene.serve_all("fa-child", &["one"]).await?;
    running.webhook.kill().await?;
    let mut config = workshop.cluster.config();
    // A client would repeat it.
    config.default_retry = false;
    let services = |namespace: &str| {
        let client = kube::Client::try_from(config.clone()).expect("it was used before");
        hns_cluster::api::Api::<k8s_openapi::api::core::v1::Service>::namespaced(client, namespace)
    };
    let status = refusal(services("fa-child").create(&PostParams::default(), &service("two")).await);
    assert_eq!((status.code, status.reason.as_str()), (500, "InternalError"), "{}", status.message);
    ensure!(
        status.message.contains("failed calling webhook \"resourcesquotasstatus.hnc.x-k8s.io\""),
        "{}",
        status.message
    );
    println!("{}", status.message);
    // What is not counted, what grows nothing, and what no quota limits goes on.
    let config_map =
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "not-counted" } });
    let apply =
        workshop.cluster.kubectl().args(["apply", "-n", "fa-child", "-f", "-"]).stdin(config_map.to_string());
    apply.ok().await?;
    services("fa-free").create(&PostParams::default(), &service("one")).await?;
    scene.remove("fa-child", "one").await?;
    scene.uses("fa-root", "budget", &[("services", "0")]).await?;
    let Running { mut webhook, controller } = running;
    webhook.restart().await?;
    scene.serve_all("fa-child", &["two", "three", "four"]).await?;
    scene.refused("fa-root", "five").await?;
    Running { webhook, controller }.end().await
}

#[tokio::test]
async fn with_the_policy_ignore_what_slipped_through_is_shown_and_blocks_growth() -> Result<()> {
    let workshop = workshop().await?;
    let mut running = workshop.run(Some(FailurePolicy::Ignore)).await?;
    let scene = &workshop.scene;
    scene.steps.plant(&[("ig-root", ""), ("ig-child", "ig-root")]).await?;
    scene.limit("ig-root", "budget", json!({ "services": "2" })).await?;
    scene.serve_all("ig-root", &["one"]).await?;
    scene.serve_all("ig-child", &["two"]).await?;
    scene.refused("ig-root", "three").await?;
    running.webhook.kill().await?;
    // The derived quota alone limits each namespace.
    scene.serve_all("ig-root", &["three"]).await?;
    scene.serve_all("ig-child", &["four"]).await?;
    let status = scene.refused("ig-child", "five").await?;
    ensure!(status.message.contains("exceeded quota: hrq.hnc.x-k8s.io"), "{}", status.message);
    // The controller shows it also meanwhile.
    scene.uses("ig-root", "budget", &[("services", "4")]).await?;
    scene
        .quota_is("ig-root", "budget", "is exceeded", |quota| {
            condition(&quota.status.clone().unwrap_or_default(), EXCEEDED).is_some_and(|(holds, _, _)| holds)
        })
        .await?;
    running.webhook.restart().await?;
    eventually("the webhook refuses again", PATIENCE, async || {
        let dry = PostParams { dry_run: true, ..PostParams::default() };
        match scene.services("ig-child").create(&dry, &service("five")).await {
            Err(kube::Error::Api(status)) if status.code == 403 => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await?;
    for (namespace, name) in [("ig-root", "one"), ("ig-child", "two")] {
        scene.refused(namespace, "five").await?;
        scene.remove(namespace, name).await?;
    }
    scene.uses("ig-root", "budget", &[("services", "2")]).await?;
    let status = scene.refused("ig-root", "five").await?;
    ensure!(status.message.contains("exceeded hierarchical quota"), "{}", status.message);
    scene.remove("ig-child", "four").await?;
    scene.uses("ig-root", "budget", &[("services", "1")]).await?;
    scene.serve_all("ig-root", &["five"]).await?;
    running.end().await
}
