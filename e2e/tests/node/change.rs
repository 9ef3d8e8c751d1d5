//! What changes while requests go on: pods, settings, certificates, the API server.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hns_e2e::eventually;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::DeleteParams;

use super::load::Load;
use super::world::{CONTROLLER, NAMESPACE, PATIENCE, RELEASE, WEBHOOK, World, chart};

const CERTIFICATE: &str = "hnc-webhook-server-cert";

/// Right answers in a row that count as recovered.
const RECOVERED: usize = 20;

/// `kubectl rollout restart` of everything, without one refused request.
pub(crate) async fn restart(world: &World<'_>) -> Result<String> {
    let before = world.all_ready().await?;
    let load = Load::start(world.cluster);
    world.kubectl(["rollout", "restart", WEBHOOK, CONTROLLER, "--namespace", NAMESPACE]).ok().await?;
    let after = replaced(world, &before).await?;
    let said = load.stop().await?;
    Ok(format!("{} pods replaced; {said}", after.len()))
}

/// `helm upgrade` with another flag of both programs, without one refused request.
pub(crate) async fn upgrade(world: &World<'_>) -> Result<String> {
    let before = world.all_ready().await?;
    let load = Load::start(world.cluster);
    let setting = "apiserverQpsThrottle=1000";
    world.helm(["upgrade", RELEASE, &chart(), "--reuse-values", "--set", setting]).ok().await?;
    let after = replaced(world, &before).await?;
    let said = load.stop().await?;
    Ok(format!("{} pods replaced; {said}", after.len()))
}

/// Waits until all pods are other ones than before.
async fn replaced(world: &World<'_>, before: &[String]) -> Result<Vec<String>> {
    for deployment in [WEBHOOK, CONTROLLER] {
        world.rolled_out(deployment).await?;
    }
    eventually("the old pods are gone", PATIENCE, async || {
        let pods = world.pods().await.map_err(|error| error.to_string())?;
        let old: Vec<_> = pods.iter().filter(|(name, _)| before.contains(name)).collect();
        if old.is_empty() { Ok(()) } else { Err(format!("{old:?}")) }
    })
    .await?;
    world.all_ready().await
}

/// The certificate is lost and made anew, without one refused request.
pub(crate) async fn certificate(world: &World<'_>) -> Result<String> {
    let secrets: Api<Secret> = Api::namespaced(world.cluster.admin(), NAMESPACE);
    let served = async || -> Result<Vec<u8>> {
        let data = secrets.get(CERTIFICATE).await?.data.unwrap_or_default();
        Ok(data.get("tls.crt").context("the Secret has no tls.crt")?.0.clone())
    };
    let before = served().await?;
    let load = Load::start(world.cluster);
    let began = Instant::now();
    secrets.delete(CERTIFICATE, &DeleteParams::default()).await?;
    eventually("there is another certificate", PATIENCE, async || match served().await {
        Ok(now) if now != before => Ok(()),
        Ok(_) => Err("it is still the old one".to_owned()),
        Err(error) => Err(format!("{error:#}")),
    })
    .await?;
    let took = began.elapsed().as_secs_f32();
    // A change that replicas take up late would be noticed only now.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let said = load.stop().await?;
    Ok(format!("made anew after {took:.1} s; {said}"))
}

/// The API server is killed and started again; everything recovers by itself.
pub(crate) async fn api_server(world: &World<'_>) -> Result<String> {
    let load = Load::start(world.cluster);
    world.cluster.restart_api_server().await?;
    let back = Instant::now();
    eventually("requests are answered again", PATIENCE, async || match load.right_in_a_row() {
        right if right >= RECOVERED => Ok(()),
        right => Err(format!("{right} right answers in a row")),
    })
    .await?;
    let recovered = Instant::now();
    let pods = world.all_ready().await?;
    ensure!(pods.len() >= 2, "{pods:?}");
    let steps = world.steps();
    steps.create_anchor("acme", "acme-later").await?;
    steps.labelled(&["acme-later", "acme"]).await?;
    let said = load.stop_since(recovered).await?;
    let took = recovered.duration_since(back).as_secs_f32();
    Ok(format!("{RECOVERED} right answers in a row {took:.1} s after it was back; {said}"))
}
