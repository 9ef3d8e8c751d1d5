//! Which hierarchical quotas can be written: what is refused, with the field and the reason, and what is allowed with a warning.

use anyhow::{Context, Result, ensure};
use hns_e2e::steps::PATIENCE;
use hns_e2e::{Output, eventually, refusal};
use kube::api::{DynamicObject, PostParams};
use kube::core::Status;
use serde_json::{Value, json};

use super::scene::{Scene, persistently, scene};

async fn refused(scene: &Scene<'_>, namespace: &str, spec: Value) -> Result<Status> {
    let resource = kube::core::ApiResource::erase::<hns_api::HierarchicalResourceQuota>(&());
    let api = hns_cluster::api::Api::<DynamicObject>::namespaced_with(
        scene.steps.client.clone(),
        namespace,
        &resource,
    );
    let object = json!({ "apiVersion": hns_api::API_VERSION, "kind": "HierarchicalResourceQuota", "metadata": { "name": "wrong" }, "spec": spec });
    let object: DynamicObject = serde_json::from_value(object)?;
    let answer =
        persistently("a wrong quota is answered", async || api.create(&PostParams::default(), &object).await)
            .await?;
    Ok(refusal(answer))
}

/// Applies a quota as a user does, and returns what kubectl shows.
async fn apply(scene: &Scene<'_>, namespace: &str, name: &str, hard: &str) -> Result<Output> {
    let manifest = format!(
        "{{apiVersion: hnc.x-k8s.io/v1alpha2, kind: HierarchicalResourceQuota, metadata: {{name: {name}}}, spec: {{hard: {hard}}}}}"
    );
    let output =
        scene.cluster.kubectl().args(["apply", "-n", namespace, "-f", "-"]).stdin(manifest).run().await?;
    ensure!(output.success(), "{output}");
    Ok(output)
}

#[tokio::test]
async fn a_limit_that_no_core_quota_accepts_is_refused_with_its_field_and_the_reason() -> Result<()> {
    let scene = scene().await?;
    scene.steps.plant(&[("r-root", "")]).await?;
    for (name, limit, why) in [
        ("pods", "1500m", "must be an integer"),
        ("pods", "7Ei", "must be at most 9223372036854775"),
        ("pods", "-1", "must be greater than or equal to 0"),
        (
            "podz",
            "1",
            "is no resource that a quota can limit; for objects of other kinds use count/RESOURCE.GROUP",
        ),
        ("count/pods/x", "1", "the name must be at most 63 letters"),
    ] {
        let status = refused(&scene, "r-root", json!({ "hard": { name: limit, "services": "1" } })).await?;
        println!("{}", status.message);
        assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"), "{}", status.message);
        let details = status.details.clone().context("a refusal has details")?;
        let causes: Vec<_> =
            details.causes.iter().map(|it| (it.field.as_str(), it.message.as_str())).collect();
        ensure!(causes.len() == 1, "{causes:?}");
        assert_eq!(causes[0].0, format!("spec.hard[{name}]"));
        ensure!(causes[0].1.contains(why) || status.message.contains(why), "{causes:?}: {}", status.message);
        ensure!(
            status.message.starts_with(
                "admission webhook \"hrq.hnc.x-k8s.io\" denied the request: HierarchicalResourceQuota.hnc.x-k8s.io \"wrong\" is invalid: "
            ),
            "{}",
            status.message
        );
    }
    // The core quota of the API server accepts and refuses the same.
    for (hard, is_right) in [
        (json!({ "pods": "1500m" }), false),
        (json!({ "pods": "7Ei" }), false),
        (json!({ "count/configmaps": "9223372036854776" }), false),
        (json!({ "count/configmaps": "9223372036854775", "requests.example.com/gpu": "7Ei" }), true),
        (json!({ "podz": "1" }), false),
        (json!({ "count/pods/x": "1" }), false),
        (
            json!({ "requests.example.com/gpu": "1", "gold.storageclass.storage.k8s.io/requests.storage": "1Gi" }),
            true,
        ),
    ] {
        let quota = json!({ "metadata": { "name": "core" }, "spec": { "hard": hard } });
        let dry = PostParams { dry_run: true, ..PostParams::default() };
        let created = scene.core("r-root").create(&dry, &serde_json::from_value(quota)?).await;
        assert_eq!(created.is_ok(), is_right, "{hard}: {created:?}");
        if is_right {
            scene.limit("r-root", "right", hard).await?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn scopes_are_refused_with_a_sentence() -> Result<()> {
    let scene = scene().await?;
    scene.steps.plant(&[("sc-root", "")]).await?;
    let selector = json!({ "matchExpressions": [{ "scopeName": "PriorityClass", "operator": "Exists" }] });
    for (field, value) in [("scopes", json!(["BestEffort"])), ("scopeSelector", selector)] {
        let status = refused(&scene, "sc-root", json!({ "hard": { "pods": "1" }, field: value })).await?;
        assert_eq!(status.code, 422, "{}", status.message);
        let sentence = format!("a hierarchical quota has no {field}: it limits the usage of all objects");
        ensure!(status.message.contains(&sentence), "{}", status.message);
    }
    Ok(())
}

#[tokio::test]
async fn a_namespace_has_room_for_a_number_of_quotas() -> Result<()> {
    let scene = scene().await?;
    scene.steps.plant(&[("many-root", "")]).await?;
    for quota in 0..64 {
        scene.set("many-root", &format!("q{quota}"), json!({ "services": "1" })).await?;
    }
    let one_more = json!({ "metadata": { "name": "wrong" }, "spec": { "hard": { "services": "1" } } });
    let one_more = serde_json::from_value(one_more)?;
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    // The webhook may not know the last ones yet.
    eventually("one more is refused", PATIENCE, async || {
        let created = scene.hierarchical("many-root").create(&dry, &one_more).await;
        let message = created.err().map_or_else(|| "it is admitted".to_owned(), |error| error.to_string());
        let is_refused = message.contains("would have too many quotas (at most 64) or limits");
        if is_refused { Ok(()) } else { Err(message) }
    })
    .await
}

#[tokio::test]
async fn plain_numbers_are_accepted_and_limit() -> Result<()> {
    let scene = scene().await?;
    scene.steps.plant(&[("pn-root", "")]).await?;
    apply(&scene, "pn-root", "budget", "{services: 1, requests.cpu: 1.5, requests.memory: 1e3}").await?;
    let derived = [("services", "1"), ("requests.cpu", "1500m"), ("requests.memory", "1000")];
    scene.derived("pn-root", &derived).await?;
    eventually("the quota is enforced", PATIENCE, async || {
        let shown = scene.cluster.kubectl().args([
            "get",
            "hrq",
            "budget",
            "-n",
            "pn-root",
            "-o",
            "jsonpath={.status.conditions[?(@.type=='Enforced')].status} {.status.requestsSummary}",
        ]);
        let shown = shown.ok().await.map_err(|error| error.to_string())?;
        if shown == "True requests.cpu: 0/1500m, requests.memory: 0/1k, services: 0/1" {
            Ok(())
        } else {
            Err(shown)
        }
    })
    .await?;
    scene.serve_all("pn-root", &["one"]).await?;
    scene.refused("pn-root", "two").await?;
    Ok(())
}

#[tokio::test]
async fn a_limit_that_has_no_effect_and_one_that_is_exceeded_are_allowed_with_a_warning() -> Result<()> {
    let scene = scene().await?;
    scene.steps.plant(&[("wa-root", ""), ("wa-child", "wa-root")]).await?;
    let output = apply(&scene, "wa-root", "budget", "{services: '3', pods: '5'}").await?;
    ensure!(output.stderr.is_empty(), "{output}");
    scene.enforced("wa-root", "budget").await?;
    scene.serve_all("wa-root", &["one"]).await?;
    scene.serve_all("wa-child", &["two"]).await?;
    scene.uses("wa-root", "budget", &[("services", "2"), ("pods", "0")]).await?;
    let output = apply(&scene, "wa-child", "own", "{services: '4', pods: '5'}").await?;
    assert_eq!(
        output.stderr.trim(),
        "Warning: the limit services=4 has no effect: the quota wa-root/budget allows 3"
    );
    let output = apply(&scene, "wa-root", "budget", "{services: '1', pods: '5'}").await?;
    assert_eq!(
        output.stderr.trim(),
        "Warning: services: 2 used already, more than the limit of 1; nothing is removed, but no more is allowed"
    );
    let output = apply(&scene, "wa-child", "own", "{services: '1', pods: '5'}").await?;
    ensure!(output.stderr.is_empty(), "{output}");
    Ok(())
}
