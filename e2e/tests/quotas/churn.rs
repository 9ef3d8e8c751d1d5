//! An editor who changes quotas all the time harms nobody else.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hns_api::HierarchicalResourceQuota;
use hns_cluster::settings::FailurePolicy;
use hns_e2e::eventually;
use hns_e2e::steps::PATIENCE;
use k8s_openapi::api::core::v1::Service;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, Client, CustomResourceExt};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::scene::{Scene, scene, service};
use super::workshop::workshop;

const NAMES: [&str; 3] = ["one", "two", "three"];

/// Creates quotas in a namespace, and changes them all the time.
async fn change_quotas(client: &Client, namespace: &str, tasks: &mut JoinSet<()>) -> Result<()> {
    let quotas = Api::<HierarchicalResourceQuota>::namespaced(client.clone(), namespace);
    for name in NAMES {
        let quota = json!({ "metadata": { "name": name }, "spec": { "hard": { "services": 1_000 } } });
        quotas.create(&PostParams::default(), &serde_json::from_value(quota)?).await?;
        let quotas = quotas.clone();
        tasks.spawn(async move {
            for limit in (1_000..2_000).cycle() {
                let patch = Patch::Merge(json!({ "spec": { "hard": { "services": limit } } }));
                // Some are refused, when another request was faster.
                let _ = quotas.patch(name, &PatchParams::default(), &patch).await;
            }
        });
    }
    Ok(())
}

/// Creates Services in these namespaces all the time.
fn create_services(client: &Client, namespaces: &[String], tasks: &mut JoinSet<()>) {
    for namespace in namespaces {
        for worker in 0..3 {
            let services = Api::<Service>::namespaced(client.clone(), namespace);
            tasks.spawn(async move {
                for number in 0_u32.. {
                    // Many are refused while limits change.
                    let name = format!("s-{worker}-{number}");
                    let _ = services.create(&PostParams::default(), &service(&name)).await;
                }
            });
        }
    }
}

/// The median time of creations in a namespace without hierarchical quotas.
async fn median_elsewhere(scene: &Scene<'_>, namespace: &str, phase: &str) -> Result<Duration> {
    let mut times = Vec::new();
    for number in 0..15 {
        let began = Instant::now();
        let name = format!("{phase}-{number}");
        scene.services(namespace).create(&PostParams::default(), &service(&name)).await.context(name)?;
        times.push(began.elapsed());
        sleep(Duration::from_millis(100)).await;
    }
    times.sort_unstable();
    Ok(times[times.len() / 2])
}

#[tokio::test]
async fn changing_limits_do_not_delay_others() -> Result<()> {
    let workshop = workshop().await?;
    let running = workshop.run(Some(FailurePolicy::Fail)).await?;
    let scene = &workshop.scene;
    let children: Vec<String> = (0..6).map(|at| format!("cl-child-{at}")).collect();
    let edges: Vec<(&str, &str)> = children.iter().map(|child| (child.as_str(), "cl-team")).collect();
    scene.steps.plant(&[("cl-root", ""), ("cl-team", "cl-root"), ("cl-other", "")]).await?;
    scene.steps.plant(&edges).await?;
    scene.limit("cl-root", "budget", json!({ "services": "100000" })).await?;
    scene.steps.create_binding("cl-team", "editors", ("ClusterRole", "edit"), "ed").await?;
    scene.steps.binding_arrives(&["cl-child-5"], "editors", "cl-team", "ed").await?;
    let editor = scene.cluster.client_as("ed", &[]);
    let mut tasks = JoinSet::new();
    create_services(&editor, &children, &mut tasks);
    let before = median_elsewhere(scene, "cl-other", "before").await?;
    change_quotas(&editor, "cl-team", &mut tasks).await?;
    let during = median_elsewhere(scene, "cl-other", "during").await?;
    println!("creations in a namespace without quotas: {before:.1?}; while limits change: {during:.1?}");
    ensure!(during < before * 3 + Duration::from_millis(500), "{before:?}, then {during:?}");
    tasks.shutdown().await;
    running.end().await
}

#[tokio::test]
async fn rights_from_above_arrive_while_an_editor_changes_quotas() -> Result<()> {
    let scene = scene().await?;
    scene.steps.plant(&[("cr-root", ""), ("cr-team", "cr-root"), ("cr-child", "cr-team")]).await?;
    scene.limit("cr-root", "budget", json!({ "services": "5" })).await?;
    scene.steps.create_binding("cr-team", "editors", ("ClusterRole", "edit"), "eddy").await?;
    scene.steps.binding_arrives(&["cr-child"], "editors", "cr-team", "eddy").await?;
    let mut tasks = JoinSet::new();
    change_quotas(&scene.cluster.client_as("eddy", &[]), "cr-team", &mut tasks).await?;
    scene.steps.create_binding("cr-root", "auditors", ("ClusterRole", "view"), "audrey").await?;
    scene.steps.binding_arrives(&["cr-team", "cr-child"], "auditors", "cr-root", "audrey").await?;
    tasks.shutdown().await;
    Ok(())
}

/// The status of a quota says that its limits are enforced before they are. So users must not decide about limits from above with the
/// status of their own quotas.
#[tokio::test]
async fn an_editor_who_keeps_forging_statuses_escapes_no_limit_from_above() -> Result<()> {
    let scene = scene().await?;
    scene.steps.plant(&[("cf-root", ""), ("cf-child", "cf-root")]).await?;
    scene.steps.create_binding("cf-child", "editors", ("ClusterRole", "edit"), "finn").await?;
    scene.serve_all("cf-child", &["one"]).await?;
    scene.limit("cf-child", "first", json!({ "services": "1000" })).await?;
    let finn = scene.cluster.client_as("finn", &[]);
    let quotas: Api<DynamicObject> =
        Api::namespaced_with(finn.clone(), "cf-child", &HierarchicalResourceQuota::api_resource());
    let mut tasks = JoinSet::new();
    for at in 0..4 {
        let (name, quotas) = (format!("forged-{at}"), quotas.clone());
        let conditions = json!([{ "type": "Enforced", "status": "True", "reason": "Forged", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z" }]);
        let quota = json!({
            "apiVersion": hns_api::API_VERSION, "kind": "HierarchicalResourceQuota", "metadata": { "name": name },
            "spec": { "hard": { "services": "999" } }, "status": { "hard": { "services": "999" }, "conditions": conditions },
        });
        let quota = serde_json::from_value(quota)?;
        eventually("finn may write quotas", PATIENCE, async || {
            quotas.create(&PostParams::default(), &quota).await.map(drop).map_err(|error| error.to_string())
        })
        .await?;
        tasks.spawn(async move {
            loop {
                let forged = Patch::Merge(json!({ "status": { "conditions": conditions } }));
                let _ = quotas.patch(&name, &PatchParams::default(), &forged).await;
            }
        });
    }
    scene.set("cf-root", "budget", json!({ "services": "2" })).await?;
    let began = Instant::now();
    let mut created = 1;
    while began.elapsed() < Duration::from_secs(6) {
        let name = format!("more-{created}");
        if Api::namespaced(finn.clone(), "cf-child")
            .create(&PostParams::default(), &service(&name))
            .await
            .is_ok()
        {
            created += 1;
        }
        sleep(Duration::from_millis(100)).await;
    }
    println!("{created} services in 6 s, with a limit of 2");
    ensure!(created <= 10, "{created} services were created with a limit of 2");
    tasks.shutdown().await;
    scene.enforced("cf-root", "budget").await.map(drop)
}
