//! Installing with Helm, upgrading, uninstalling, and installing again.

use std::time::Instant;

use hns_api::names::webhooks::COPIES;
use hns_e2e::programs::Kubernetes;
use hns_e2e::{Cluster, Deployed, Steps, eventually};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use serde_json::{Value, json};

use super::helm::Helm;
use super::owned::{Tinkerer, is_whole, owned};
use super::takeover::commands;
use super::works::{PATIENCE, alice, collected, namespace, turn, works};

const RELEASE: &str = "trees";
const NAMESPACE: &str = "tenancy";

#[tokio::test]
async fn a_release_is_installed_upgraded_uninstalled_and_installed_again_and_users_keep_what_is_theirs() {
    let (_turn, cluster) = turn().await;
    let helm = Helm::on(cluster).await;
    let port = Deployed::free_port().unwrap();
    let mut deployed = Deployed::new(cluster, NAMESPACE, port).unwrap();
    let port = format!("webhook.servicePort={port}");
    install(cluster, &helm, &mut deployed, &port, "acme").await;
    secrets_are_propagated(cluster).await;
    an_upgrade_leaves_registrations_as_they_are(cluster, &helm, &mut deployed, &port).await;
    an_uninstallation_leaves_what_is_the_users(cluster, &helm, &mut deployed, "acme").await;
    install(cluster, &helm, &mut deployed, &port, "again").await;
    an_uninstallation_leaves_what_is_the_users(cluster, &helm, &mut deployed, "again").await;
}

async fn install(cluster: &Cluster, helm: &Helm, deployed: &mut Deployed<'_>, port: &str, root: &str) {
    let began = Instant::now();
    let install = ["install", RELEASE, "charts/hns", "-n", NAMESPACE, "--create-namespace", "--set", port];
    let notes = helm.ok(&install).await.unwrap();
    assert!(notes.contains(&format!("rollout status deployment --namespace {NAMESPACE}")), "{notes}");
    println!("  installed into {NAMESPACE} in {:.1} s", began.elapsed().as_secs_f32());
    let took = works(cluster, deployed, root, began).await.unwrap();
    println!("  it worked {:.1} s after the start of helm install", took.as_secs_f32());
}

/// A kind that is not propagated by default.
async fn secrets_are_propagated(cluster: &Cluster) {
    let configuration = json!({
        "apiVersion": "hnc.x-k8s.io/v1alpha2", "kind": "HNCConfiguration", "metadata": { "name": "config" },
        "spec": { "resources": [{ "resource": "secrets", "mode": "Propagate" }] },
    });
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "token", "namespace": "acme" },
        "stringData": { "key": "value" },
    });
    for object in [configuration, secret] {
        let apply = cluster.kubectl().args(["apply", "--server-side", "--force-conflicts", "-f", "-"]);
        apply.stdin(object.to_string()).ok().await.unwrap();
    }
    let copies: Api<Secret> = Api::namespaced(cluster.admin(), "acme-child");
    eventually("the secret is copied", PATIENCE, async || {
        let found = copies.get_opt("token").await.map_err(|error| error.to_string())?;
        found.map(drop).ok_or_else(|| "not yet".to_owned())
    })
    .await
    .unwrap();
    // Until the policies are enforced, the webhook judges copies, too, and changes new namespaces.
    let mutates = !Kubernetes::wanted().unwrap().has_mutating_policies();
    eventually("registrations and policies know of secrets", PATIENCE, async || {
        let owned = owned(cluster).await;
        let is_enforced = owned["validating"].get(COPIES).is_none()
            && (mutates || owned["mutating"].as_object().is_some_and(serde_json::Map::is_empty));
        if is_enforced && is_whole(&owned, "secrets") { Ok(()) } else { Err(owned.to_string()) }
    })
    .await
    .unwrap();
}

/// While the controller is replaced and the settings change, certificates and kinds stay, and copies are protected.
async fn an_upgrade_leaves_registrations_as_they_are(
    cluster: &Cluster,
    helm: &Helm,
    deployed: &mut Deployed<'_>,
    port: &str,
) {
    let before = owned(cluster).await;
    let copies = [
        "/apis/rbac.authorization.k8s.io/v1/namespaces/acme-child/roles/reader",
        "/api/v1/namespaces/acme-child/secrets/token",
    ];
    let tinkerer = Tinkerer::start(alice(cluster), copies.map(str::to_owned).to_vec());
    let upgrade = ["upgrade", RELEASE, "charts/hns", "-n", NAMESPACE, "--set", port, "--set"];
    for set in ["excludedNamespaces={one}", "excludedNamespaces={one,two},apiserverQpsThrottle=1000"] {
        helm.ok(&[&upgrade[..], &[set]].concat()).await.unwrap();
        assert_eq!(owned(cluster).await, before, "right after an upgrade with {set}");
        deployed.follow().await.unwrap();
        deployed.wait_ready().await.unwrap();
        settings_are_known(cluster, set).await;
        assert_eq!(owned(cluster).await, before, "after an upgrade with {set}");
    }
    let attempts = tinkerer.end().await;
    println!("  certificates and kinds stayed; each of {attempts} edits of copies meanwhile was refused");
}

/// The registrations name the last excluded namespace of these values.
async fn settings_are_known(cluster: &Cluster, values: &str) {
    let last = values.split('}').next().unwrap().rsplit(['{', ',']).next().unwrap();
    eventually(&format!("{last} is excluded everywhere"), PATIENCE, async || {
        let get = ["get", "validatingwebhookconfigurations,validatingadmissionpolicies", "-o", "json"];
        let text = cluster.kubectl().args(get).ok().await.map_err(|error| format!("{error:#}"))?;
        let all: Value = serde_json::from_str(&text).unwrap();
        let items = all["items"].as_array().unwrap();
        let say = |name: &str| {
            let item = items.iter().find(|item| item["metadata"]["name"] == name).unwrap();
            item.to_string().contains(&format!("'{last}'"))
        };
        let all = ["hnc-validating-webhook-configuration", "hns-namespace-keys", "hns-namespace-anchors"];
        if all.into_iter().all(say) { Ok(()) } else { Err("not yet".to_owned()) }
    })
    .await
    .unwrap();
}

/// As it goes without a Job, for which there is no node here: the definitions first, while the controller removes its finalizers; then
/// the rest. The garbage collector deletes registrations and policies.
async fn an_uninstallation_leaves_what_is_the_users(
    cluster: &Cluster,
    helm: &Helm,
    deployed: &mut Deployed<'_>,
    root: &str,
) {
    let began = Instant::now();
    let definitions = ["delete", "--wait", "--timeout=120s", "-f", "config/crds.yaml"];
    let file = super::helm::checkout().join(definitions[4]);
    let file = file.to_str().unwrap();
    cluster.kubectl().args(&definitions[..4]).args([file]).ok().await.unwrap();
    helm.ok(&["uninstall", RELEASE, "-n", NAMESPACE, "--no-hooks"]).await.unwrap();
    // Before the processes end: a controller without its ClusterRole creates nothing.
    for command in commands("collected") {
        cluster.kubectl().args(command.split_whitespace().skip(1)).ok().await.unwrap();
    }
    collected(cluster).await;
    deployed.follow().await.unwrap();
    println!("  uninstalled in {:.1} s", began.elapsed().as_secs_f32());

    let child = format!("{root}-child");
    for name in [root, &child] {
        let found = namespace(cluster, name).await.unwrap();
        assert!(found.metadata.deletion_timestamp.is_none(), "{name} is going");
    }
    let copy = ["get", "roles/reader", "-n", &child, "-o", "name"];
    assert_eq!(cluster.kubectl().args(copy).ok().await.unwrap().lines().count(), 1);
    let left = cluster.kubectl().args(["get", "clusterroles,clusterrolebindings", "-o", "name"]);
    let left = left.ok().await.unwrap();
    let left: Vec<&str> =
        left.lines().filter(|line| line.contains("/hns-") || line.contains("/hnc-")).collect();
    assert_eq!(left, [""; 0], "left behind");
    collected(cluster).await;

    // Nothing keeps users from deleting their namespaces now.
    let steps = Steps::of(cluster.admin());
    for name in [root, &child, NAMESPACE] {
        steps.namespaces().delete(name, &kube::api::DeleteParams::default()).await.unwrap();
    }
    for name in [root, &child, NAMESPACE] {
        steps.gone(name).await.unwrap();
    }
    println!("  namespaces and copies stayed, and went when they were deleted; nothing else was left");
}
