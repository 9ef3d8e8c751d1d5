//! The ledger of allowed increases: an increase that is never stored, and a ledger that is gone or makes no sense.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hns_api::annotations::HRQ_RELEASED;
use hns_api::names::{DERIVED_QUOTA, QUOTA_LEDGER};
use hns_cluster::api::Api;
use hns_cluster::settings::FailurePolicy;
use hns_e2e::product::NAMESPACE;
use hns_e2e::{eventually, refusal};
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::scene::{Scene, service};
use super::workshop::{Workshop, workshop};

/// The controller ends an increase after ten seconds.
const ENDED: Duration = Duration::from_secs(20);

fn ledger(scene: &Scene<'_>) -> Api<ConfigMap> {
    Api::namespaced(scene.steps.client.clone(), NAMESPACE)
}

async fn stored(scene: &Scene<'_>) -> Result<Value> {
    let object = ledger(scene).get(QUOTA_LEDGER).await?;
    let text = object.data.and_then(|data| data.get("ledger.json").cloned()).context("a ledger has data")?;
    Ok(serde_json::from_str(&text)?)
}

async fn write(scene: &Scene<'_>, text: &str) -> Result<()> {
    let patch = Patch::Merge(json!({ "data": { "ledger.json": text } }));
    ledger(scene).patch(QUOTA_LEDGER, &PatchParams::default(), &patch).await?;
    Ok(())
}

/// A client that repeats nothing by itself.
fn services(workshop: &Workshop, namespace: &str) -> Result<Api<Service>> {
    let mut config = workshop.cluster.config();
    config.default_retry = false;
    Ok(Api::namespaced(kube::Client::try_from(config)?, namespace))
}

#[tokio::test]
async fn an_increase_that_is_never_stored_ends_after_ten_seconds() -> Result<()> {
    let workshop = workshop().await?;
    let running = workshop.run(Some(FailurePolicy::Fail)).await?;
    let scene = &workshop.scene;
    scene.steps.plant(&[("le-root", ""), ("le-a", "le-root"), ("le-b", "le-root")]).await?;
    scene.limit("le-root", "budget", json!({ "services": "2" })).await?;
    scene.serve_all("le-a", &["one"]).await?;
    let quota = scene.core("le-b").get(DERIVED_QUOTA).await?.metadata;
    let version: u64 = quota.resource_version.context("a version")?.parse()?;
    // As a replica leaves it that dies after it has allowed an increase, when the API server dies too.
    let mut pending = stored(scene).await?;
    pending["reservations"] = json!([
        { "namespace": "le-b", "uid": quota.uid, "version": version, "increase": { "services": "1" } }
    ]);
    write(scene, &pending.to_string()).await?;
    let began = Instant::now();
    let status = refusal(services(&workshop, "le-a")?.create(&PostParams::default(), &service("two")).await);
    assert_eq!((status.code, status.reason.as_str()), (503, "ServiceUnavailable"), "{}", status.message);
    ensure!(
        status.message.contains(
            "the hierarchical quota of namespace \"le-a\" could not be checked: other increases are being stored, and may leave no room; \
             try again in a moment"
        ),
        "{}",
        status.message
    );
    eventually("the increase ends", ENDED, async || {
        let created = services(&workshop, "le-a").map_err(|error| error.to_string())?;
        created
            .create(&PostParams::default(), &service("two"))
            .await
            .map(drop)
            .map_err(|error| error.to_string())
    })
    .await?;
    let took = began.elapsed();
    ensure!(took > Duration::from_secs(8), "it ended after {took:?}, by something else");
    let released = scene.core("le-b").get(DERIVED_QUOTA).await?.metadata.annotations.unwrap_or_default();
    assert_eq!(released.get(HRQ_RELEASED), Some(&version.to_string()));
    scene.refused("le-b", "three").await?;
    running.end().await
}

#[tokio::test]
async fn a_ledger_that_is_gone_or_makes_no_sense_is_written_anew() -> Result<()> {
    let workshop = workshop().await?;
    let running = workshop.run(Some(FailurePolicy::Fail)).await?;
    let scene = &workshop.scene;
    scene.steps.plant(&[("ln-root", ""), ("ln-child", "ln-root")]).await?;
    scene.limit("ln-root", "budget", json!({ "services": "5" })).await?;
    // A ledger of another cluster, as a backup brings it: its versions are far ahead.
    let foreign = |namespace: &str| {
        json!({
            "floor": 900_000_000,
            "reservations": [{
                "namespace": namespace, "uid": "00000000-0000-0000-0000-000000000000", "version": 900_000_000,
                "increase": { "services": "5" },
            }],
        })
    };
    let wrong = [
        None,
        Some("{".to_owned()),
        Some("{\"floor\": \"x\"}".to_owned()),
        Some(foreign("ln-child").to_string()),
        Some(json!({ "floor": 0, "reservations": foreign("ln-root")["reservations"] }).to_string()),
    ];
    for (number, text) in wrong.into_iter().enumerate() {
        match &text {
            None => drop(ledger(scene).delete(QUOTA_LEDGER, &DeleteParams::default()).await?),
            Some(text) => write(scene, text).await?,
        }
        let name = format!("service-{number}");
        scene.serve_all("ln-child", &[&name]).await.with_context(|| format!("with the ledger {text:?}"))?;
        let now = stored(scene).await?;
        ensure!(now["floor"].as_u64().is_some_and(|it| it < 900_000_000), "{now}");
    }
    scene.uses("ln-root", "budget", &[("services", "5")]).await?;
    scene.refused("ln-root", "more").await?;
    running.end().await
}
