//! Installing with Helm, upgrading in every way there is, and uninstalling.

use std::time::Instant;

use hns_e2e::{Cluster, Deployed, Steps, eventually};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use serde_json::{Value, json};

use super::helm::Helm;
use super::owned::{Tinkerer, is_whole, owned};
use super::works::{PATIENCE, alice, namespace, turn, works};

const RELEASE: &str = "trees";
const NAMESPACE: &str = "tenancy";

#[tokio::test]
async fn a_release_is_installed_upgraded_and_uninstalled_and_users_keep_what_is_theirs() {
    let (_turn, cluster) = turn().await;
    let helm = Helm::on(cluster).await;
    let port = Deployed::free_port().unwrap();
    let port_value = format!("webhook.servicePort={port}");
    let began = Instant::now();
    let install =
        ["install", RELEASE, "charts/hns", "-n", NAMESPACE, "--create-namespace", "--set", &port_value];
    helm.ok(&install).await.unwrap();
    println!("  installed into {NAMESPACE} in {:.1} s", began.elapsed().as_secs_f32());
    let mut deployed = Deployed::new(cluster, NAMESPACE, port).unwrap();
    let took = works(cluster, &mut deployed, "acme", began).await.unwrap();
    println!("  it worked {:.1} s after the start of helm install", took.as_secs_f32());

    secrets_are_propagated(cluster).await;
    upgrades_leave_what_the_controller_owns(cluster, &helm, &mut deployed, &port_value).await;
    an_uninstallation_leaves_what_is_the_users(cluster, &helm, &mut deployed).await;
}

/// A kind that no manifest names, so that a manifest which says something of kinds is noticed.
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
    eventually("registrations and policies know of secrets", PATIENCE, async || {
        let owned = owned(cluster).await;
        if is_whole(&owned, "secrets") { Ok(()) } else { Err(owned.to_string()) }
    })
    .await
    .unwrap();
}

async fn upgrades_leave_what_the_controller_owns(
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
    let upgrade = |value: &'static str, more: &[&'static str]| {
        let words = ["upgrade", RELEASE, "charts/hns", "-n", NAMESPACE, "--set", port, "--set", value];
        let words: Vec<String> = words.iter().chain(more).map(|&word| word.to_owned()).collect();
        words
    };
    // The second of each pair changes the same fields once more: the controller has had its say meanwhile.
    for (how, words) in [
        ("server-side", upgrade("excludedNamespaces={one}", &[])),
        ("server-side, again", upgrade("excludedNamespaces={one,two}", &[])),
        ("client-side", upgrade("excludedNamespaces={three}", &["--server-side=false"])),
        (
            "server-side after client-side",
            upgrade("excludedNamespaces={four}", &["--server-side=true", "--force-conflicts"]),
        ),
    ] {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        helm.ok(&words).await.unwrap_or_else(|error| panic!("{how}: {error:#}"));
        assert_eq!(owned(cluster).await, before, "right after an upgrade, {how}");
        deployed.follow().await.unwrap();
        deployed.wait_ready().await.unwrap();
        flags_are_known(cluster, words[8]).await;
        assert_eq!(owned(cluster).await, before, "after an upgrade, {how}");
        println!("  helm upgrade, {how}: authorities and kinds stayed");
    }
    applying_what_helm_renders(cluster, helm, port, &before).await;
    let attempts = tinkerer.end().await;
    println!("  each of {attempts} edits of copies meanwhile was refused");
}

/// The registrations say what the flags of the moment say.
async fn flags_are_known(cluster: &Cluster, value: &str) {
    let last = value.trim_end_matches('}').rsplit(['{', ',']).next().unwrap();
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

/// As Argo CD and others do.
async fn applying_what_helm_renders(cluster: &Cluster, helm: &Helm, port: &str, before: &Value) {
    let set = ["--set", port, "--set", "excludedNamespaces={four}"];
    let template = [&["template", RELEASE, "charts/hns", "-n", NAMESPACE, "--no-hooks"][..], &set].concat();
    let manifests = helm.ok(&template).await.unwrap();
    for how in [&["apply", "-f", "-"][..], &["apply", "--server-side", "--force-conflicts", "-f", "-"]] {
        cluster.kubectl().args(how).stdin(manifests.clone()).ok().await.unwrap();
        assert_eq!(&owned(cluster).await, before, "after kubectl {how:?}");
        println!("  kubectl {}: authorities and kinds stayed", how[..how.len() - 2].join(" "));
    }
}

/// As it goes without a Job, for which there is no node here: the definitions first, while the controller takes its finalizers
/// off; then the rest.
async fn an_uninstallation_leaves_what_is_the_users(
    cluster: &Cluster,
    helm: &Helm,
    deployed: &mut Deployed<'_>,
) {
    let began = Instant::now();
    let definitions = ["delete", "--wait", "--timeout=120s", "-f", "config/crds.yaml"];
    let file = super::helm::checkout().join(definitions[4]);
    let file = file.to_str().unwrap();
    cluster.kubectl().args(&definitions[..4]).args([file]).ok().await.unwrap();
    helm.ok(&["uninstall", RELEASE, "-n", NAMESPACE, "--no-hooks"]).await.unwrap();
    deployed.follow().await.unwrap();
    println!("  uninstalled in {:.1} s", began.elapsed().as_secs_f32());

    for name in ["acme", "acme-child"] {
        let found = namespace(cluster, name).await.unwrap();
        assert!(found.metadata.deletion_timestamp.is_none(), "{name} is going");
    }
    let roles = ["get", "roles/reader", "secrets/token", "-n", "acme-child", "-o", "name"];
    assert_eq!(cluster.kubectl().args(roles).ok().await.unwrap().lines().count(), 2);
    let left = [
        "get",
        "validatingwebhookconfigurations,mutatingwebhookconfigurations,validatingadmissionpolicies,\
         validatingadmissionpolicybindings,clusterroles,clusterrolebindings",
        "-o",
        "name",
    ];
    let left = cluster.kubectl().args(left).ok().await.unwrap();
    let left: Vec<&str> =
        left.lines().filter(|line| line.contains("/hns-") || line.contains("/hnc-")).collect();
    assert_eq!(left, [""; 0], "left behind");

    // Nothing holds anything that anybody wants to be rid of now.
    let steps = Steps::of(cluster.admin());
    for name in ["acme", "acme-child", NAMESPACE] {
        steps.namespaces().delete(name, &kube::api::DeleteParams::default()).await.unwrap();
    }
    for name in ["acme", "acme-child", NAMESPACE] {
        steps.gone(name).await.unwrap();
    }
    println!("  namespaces and copies stayed, and went when they were deleted; nothing else was left");
}
