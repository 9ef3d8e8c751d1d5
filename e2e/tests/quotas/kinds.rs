//! Everything that a core quota can count.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hns_api::conditions::ENFORCED;
use hns_api::names::DERIVED_QUOTA;
use hns_cluster::api::Api;
use hns_e2e::steps::PATIENCE;
use hns_e2e::{eventually, refusal, stays};
use kube::api::{DeleteParams, DynamicObject, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

use super::scene::{NEW_KIND, Scene, condition, persistently, scene};

/// Creates an object of any kind; tries again as long as the answer says that this may help.
async fn create(scene: &Scene<'_>, namespace: &str, object: Value) -> Result<kube::Result<DynamicObject>> {
    let api = api(scene, namespace, &object)?;
    let object: DynamicObject = serde_json::from_value(object)?;
    let what = format!("creating {:?} in {namespace}", object.metadata.name);
    persistently(&what, async || api.create(&PostParams::default(), &object).await).await
}

fn api(scene: &Scene<'_>, namespace: &str, object: &Value) -> Result<Api<DynamicObject>> {
    let text = |key: &str| object[key].as_str().context("an object has a kind");
    let (group, version) = text("apiVersion")?.rsplit_once('/').unwrap_or(("", text("apiVersion")?));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, text("kind")?));
    Ok(Api::namespaced_with(scene.steps.client.clone(), namespace, &resource))
}

async fn created(scene: &Scene<'_>, namespace: &str, object: Value) -> Result<()> {
    let shown = object.to_string();
    create(scene, namespace, object).await?.with_context(|| shown)?;
    Ok(())
}

/// Fails unless the hierarchical quota of `root` refuses it with this text.
async fn denied(scene: &Scene<'_>, root: &str, namespace: &str, object: Value, amounts: &str) -> Result<()> {
    let status = refusal(create(scene, namespace, object).await?);
    let wanted = format!(
        "admission webhook \"resourcesquotasstatus.hnc.x-k8s.io\" denied the request: exceeded hierarchical quota in namespace \
         \"{root}\": \"budget\", {amounts}"
    );
    ensure!(
        (status.code, &status.message) == (403, &wanted),
        "{} {}\nwanted: {wanted}",
        status.code,
        status.message
    );
    Ok(())
}

fn pod(name: &str, requests: &Value, limits: &Value) -> Value {
    let resources = json!({ "requests": requests, "limits": limits });
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
        "spec": { "containers": [{ "name": "main", "image": "none", "resources": resources }] },
    })
}

fn claim(name: &str, class: &str, storage: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": name },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": class,
            "resources": { "requests": { "storage": storage } },
        },
    })
}

fn plain(kind: &str, name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": kind, "metadata": { "name": name } })
}

/// Plants a root with a child under a quota.
async fn family(scene: &Scene<'_>, root: &str, child: &str, hard: Value) -> Result<()> {
    scene.steps.plant(&[(root, ""), (child, root)]).await?;
    // The control plane creates these, and they count.
    for namespace in [root, child] {
        eventually(&format!("{namespace} has what the control plane creates"), PATIENCE, async || {
            let there = scene.cluster.kubectl().args([
                "get",
                "-n",
                namespace,
                "sa/default",
                "cm/kube-root-ca.crt",
                "-o",
                "name",
            ]);
            there.ok().await.map(drop).map_err(|error| error.to_string())
        })
        .await?;
    }
    scene.limit(root, "budget", hard).await
}

#[tokio::test]
async fn pods_are_limited_by_number_cpu_memory_and_extended_resources() -> Result<()> {
    let scene = scene().await?;
    let hard = json!({
        "pods": "4", "requests.cpu": "1", "requests.memory": "1Gi", "limits.cpu": "2", "limits.memory": "2Gi",
        "requests.example.com/gpu": "2",
    });
    family(&scene, "p-root", "p-child", hard).await?;
    let small = |name: &str, cpu: &str| {
        pod(
            name,
            &json!({ "cpu": cpu, "memory": "256Mi", "example.com/gpu": "1" }),
            &json!({ "cpu": "500m", "memory": "512Mi", "example.com/gpu": "1" }),
        )
    };
    created(&scene, "p-root", small("one", "300m")).await?;
    created(&scene, "p-child", small("two", "0.5")).await?;
    let used = [
        ("pods", "2"),
        ("requests.cpu", "800m"),
        ("requests.memory", "512Mi"),
        ("limits.cpu", "1"),
        ("limits.memory", "1Gi"),
        ("requests.example.com/gpu", "2"),
    ];
    scene.uses("p-root", "budget", &used).await?;
    let quota = scene.hierarchical("p-root").get("budget").await?.status.unwrap_or_default();
    assert_eq!(quota.limits_summary.as_deref(), Some("limits.cpu: 1/2, limits.memory: 1Gi/2Gi"));
    let plain = |name: &str, cpu: &str, memory: &str| {
        pod(name, &json!({ "cpu": cpu, "memory": memory }), &json!({ "cpu": "500m", "memory": "512Mi" }))
    };
    denied(
        &scene,
        "p-root",
        "p-child",
        plain("three", "300m", "1Mi"),
        "requested: requests.cpu=300m, used: requests.cpu=800m, limited: requests.cpu=1",
    )
    .await?;
    denied(
        &scene,
        "p-root",
        "p-child",
        pod("three", &json!({ "cpu": "201m", "memory": "768Mi" }), &json!({ "cpu": "500m", "memory": "768Mi" }),
        ),
        "requested: requests.cpu=201m, used: requests.cpu=800m, limited: requests.cpu=1, requested: requests.memory=768Mi, used: \
         requests.memory=512Mi, limited: requests.memory=1Gi",
    )
    .await?;
    denied(
        &scene,
        "p-root",
        "p-root",
        small("three", "100m"),
        "requested: requests.example.com/gpu=1, used: requests.example.com/gpu=2, limited: requests.example.com/gpu=2",
    )
    .await?;
    created(&scene, "p-child", plain("three", "200m", "512Mi")).await?;
    denied(
        &scene,
        "p-root",
        "p-root",
        pod("four", &json!({ "cpu": "1m", "memory": "1Mi" }), &json!({ "cpu": "1m", "memory": "1Mi" })),
        "requested: requests.cpu=1m, used: requests.cpu=1, limited: requests.cpu=1, requested: requests.memory=1Mi, used: \
         requests.memory=1Gi, limited: requests.memory=1Gi",
    )
    .await?;
    // As with any core quota, pods must say what they need.
    let status = refusal(create(&scene, "p-child", pod("five", &json!({}), &json!({}))).await?);
    ensure!(
        status.code == 403
            && status.message.contains("failed quota: hrq.hnc.x-k8s.io: must specify limits.cpu"),
        "{}",
        status.message
    );
    Ok(())
}

#[tokio::test]
async fn a_limit_that_kubernetes_does_not_count_is_named() -> Result<()> {
    let scene = scene().await?;
    scene.steps.plant(&[("k-root", "")]).await?;
    let quota = json!({
        "apiVersion": "hnc.x-k8s.io/v1alpha2", "kind": "HierarchicalResourceQuota",
        "metadata": { "name": "budget", "namespace": "k-root" },
        "spec": { "hard": { "pods": "1", "example.com/gpu": "2", "count/foos.bar.test": "3" } },
    });
    let apply = scene.cluster.kubectl().args(["apply", "-f", "-"]).stdin(quota.to_string());
    let said = apply.run().await?.stderr;
    let warning = "the limit of example.com/gpu has no effect: an extended resource is counted as requests.example.com/gpu only";
    ensure!(said.contains(warning), "{said}");
    let quota = scene
        .quota_is("k-root", "budget", "shows what is not counted", |quota| {
            condition(&quota.status.clone().unwrap_or_default(), ENFORCED)
                .is_some_and(|(_, reason, _)| reason == "LimitsNotCounted")
        })
        .await?;
    let (holds, _, message) =
        condition(&quota.status.unwrap_or_default(), ENFORCED).context("a condition")?;
    ensure!(!holds && message.contains("count/foos.bar.test (check"), "{message}");
    // The other limit is in force.
    created(&scene, "k-root", pod("one", &json!({}), &json!({}))).await?;
    let status = refusal(create(&scene, "k-root", pod("two", &json!({}), &json!({}))).await?);
    ensure!(status.message.contains("exceeded quota"), "{}", status.message);
    Ok(())
}

#[tokio::test]
async fn a_pod_counts_until_it_is_gone() -> Result<()> {
    let scene = scene().await?;
    family(&scene, "t-root", "t-child", json!({ "pods": "1" })).await?;
    // On a node, so that it is not deleted at once.
    let mut running = pod("one", &json!({}), &json!({}));
    running["spec"]["nodeName"] = json!("nowhere");
    running["metadata"]["finalizers"] = json!(["quota.test/held"]);
    let pods = api(&scene, "t-child", &running)?;
    created(&scene, "t-child", running.clone()).await?;
    scene.uses("t-root", "budget", &[("pods", "1")]).await?;
    pods.delete("one", &DeleteParams { grace_period_seconds: Some(600), ..DeleteParams::default() }).await?;
    stays("a pod that is being ended counts", Duration::from_secs(7), async || {
        let quota = scene.core("t-child").get(DERIVED_QUOTA).await.map_err(|error| error.to_string())?;
        let used = quota.status.and_then(|it| it.used).and_then(|it| it.get("pods").cloned());
        if used.as_ref().is_some_and(|it| it.0 == "1") { Ok(()) } else { Err(format!("{used:?}")) }
    })
    .await?;
    denied(
        &scene,
        "t-root",
        "t-root",
        pod("two", &json!({}), &json!({})),
        "requested: pods=1, used: pods=1, limited: pods=1",
    )
    .await?;
    let patch = kube::api::Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    pods.patch("one", &kube::api::PatchParams::default(), &patch).await?;
    let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
    pods.delete("one", &now).await.map(drop)?;
    scene.uses("t-root", "budget", &[("pods", "0")]).await?;
    created(&scene, "t-root", pod("two", &json!({}), &json!({}))).await
}

#[tokio::test]
async fn services_secrets_configmaps_and_node_ports_are_counted() -> Result<()> {
    let scene = scene().await?;
    // Each namespace has one ConfigMap from the control plane.
    let hard = json!({ "services": "3", "services.nodeports": "1", "secrets": "2", "configmaps": "4" });
    family(&scene, "c-root", "c-child", hard).await?;
    scene
        .uses(
            "c-root",
            "budget",
            &[("services", "0"), ("services.nodeports", "0"), ("secrets", "0"), ("configmaps", "2")],
        )
        .await?;
    let open = |name: &str| {
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": { "name": name },
            "spec": { "type": "NodePort", "ports": [{ "port": 80 }], "selector": { "app": "none" } },
        })
    };
    created(&scene, "c-root", open("open")).await?;
    denied(
        &scene,
        "c-root",
        "c-child",
        open("open"),
        "requested: services.nodeports=1, used: services.nodeports=1, limited: services.nodeports=1",
    )
    .await?;
    scene.serve_all("c-child", &["one", "two"]).await?;
    for (kind, resource, limit) in [("Secret", "secrets", 2), ("ConfigMap", "configmaps", 4)] {
        created(&scene, "c-root", plain(kind, "one")).await?;
        created(&scene, "c-child", plain(kind, "two")).await?;
        let amounts =
            format!("requested: {resource}=1, used: {resource}={limit}, limited: {resource}={limit}");
        denied(&scene, "c-root", "c-child", plain(kind, "three"), &amounts).await?;
    }
    scene
        .uses(
            "c-root",
            "budget",
            &[("services", "3"), ("services.nodeports", "1"), ("secrets", "2"), ("configmaps", "4")],
        )
        .await
}

#[tokio::test]
async fn claims_are_limited_by_number_and_storage_and_for_each_class() -> Result<()> {
    let scene = scene().await?;
    let gold = "gold.storageclass.storage.k8s.io/requests.storage";
    let hard = json!({ "persistentvolumeclaims": "3", "requests.storage": "10Gi", gold: "4Gi" });
    family(&scene, "v-root", "v-child", hard).await?;
    created(&scene, "v-root", claim("one", "gold", "3Gi")).await?;
    created(&scene, "v-child", claim("two", "silver", "3Gi")).await?;
    scene
        .uses(
            "v-root",
            "budget",
            &[("persistentvolumeclaims", "2"), ("requests.storage", "6Gi"), (gold, "3Gi")],
        )
        .await?;
    let amounts = format!("requested: {gold}=2Gi, used: {gold}=3Gi, limited: {gold}=4Gi");
    denied(&scene, "v-root", "v-child", claim("three", "gold", "2Gi"), &amounts).await?;
    denied(
        &scene,
        "v-root",
        "v-child",
        claim("three", "silver", "5Gi"),
        "requested: requests.storage=5Gi, used: requests.storage=6Gi, limited: requests.storage=10Gi",
    )
    .await?;
    created(&scene, "v-child", claim("three", "silver", "3Gi")).await?;
    denied(
        &scene,
        "v-root",
        "v-root",
        claim("four", "silver", "1Gi"),
        "requested: persistentvolumeclaims=1, used: persistentvolumeclaims=3, limited: persistentvolumeclaims=3",
    )
    .await
}

#[tokio::test]
async fn objects_of_a_custom_kind_are_counted() -> Result<()> {
    let scene = scene().await?;
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "things.quota.test" },
        "spec": {
            "group": "quota.test", "scope": "Namespaced",
            "names": { "plural": "things", "singular": "thing", "kind": "Thing" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
            }],
        },
    });
    let kubectl = scene.cluster.kubectl();
    kubectl.clone().args(["apply", "-f", "-"]).stdin(definition.to_string()).ok().await?;
    kubectl.established(["crd/things.quota.test"]).await?;
    let (count, apps) = ("count/things.quota.test", "count/deployments.apps");
    scene.steps.plant(&[("y-root", ""), ("y-child", "y-root")]).await?;
    let thing =
        |name: &str| json!({ "apiVersion": "quota.test/v1", "kind": "Thing", "metadata": { "name": name } });
    // The control plane looks for new kinds every half minute. It counts for a limit from before in the next period, or when it changes.
    let mut limit = 2;
    scene.set("y-root", "budget", json!({ count: limit.to_string(), apps: "1" })).await?;
    scene
        .quota_is("y-root", "budget", "shows what is not counted", |quota| {
            condition(&quota.status.clone().unwrap_or_default(), ENFORCED).is_some_and(
                |(_, reason, message)| {
                    reason == "LimitsNotCounted"
                        && message.contains("its objects are refused until Kubernetes counts them")
                },
            )
        })
        .await?;
    let status = refusal(create(&scene, "y-child", thing("early")).await?);
    ensure!(
        status.code == 403 && status.message.contains("status unknown for quota: hrq.hnc.x-k8s.io"),
        "{status:?}"
    );
    eventually("a change of the limit is enforced", NEW_KIND, async || {
        limit += 1;
        let changed = scene.set("y-root", "budget", json!({ count: limit.to_string(), apps: "1" })).await;
        changed.map_err(|error| error.to_string())?;
        scene.enforced("y-root", "budget").await.map_err(|error| error.to_string())
    })
    .await?;
    scene.limit("y-root", "budget", json!({ count: "2", apps: "1" })).await?;
    created(&scene, "y-root", thing("one")).await?;
    created(&scene, "y-child", thing("two")).await?;
    let amounts = format!("requested: {count}=1, used: {count}=2, limited: {count}=2");
    denied(&scene, "y-root", "y-child", thing("three"), &amounts).await?;
    scene.uses("y-root", "budget", &[(count, "2"), (apps, "0")]).await?;
    let deployment = |name: &str| {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": name },
            "spec": {
                "replicas": 0, "selector": { "matchLabels": { "app": "none" } },
                "template": {
                    "metadata": { "labels": { "app": "none" } },
                    "spec": { "containers": [{ "name": "main", "image": "none" }] },
                },
            },
        })
    };
    created(&scene, "y-root", deployment("one")).await?;
    let amounts = format!("requested: {apps}=1, used: {apps}=1, limited: {apps}=1");
    denied(&scene, "y-root", "y-child", deployment("two"), &amounts).await?;
    api(&scene, "y-root", &thing("one"))?.delete("one", &DeleteParams::default()).await.map(drop)?;
    scene.uses("y-root", "budget", &[(count, "1"), (apps, "1")]).await?;
    created(&scene, "y-child", thing("three")).await
}
