//! From HNC to here with one `kubectl apply`, and back again as the documentation says.
//!
//! HNC's installation and tree are in `hnc/`, as section 14 of docs/compatibility.md has them; its programs are
//! not there. What its manager writes into its registrations and Secret while it runs is added by hand.

use std::time::{Duration, Instant};

use hns_e2e::product::CONTROLLER_USER;
use hns_e2e::programs::Kubernetes;
use hns_e2e::{Cluster, Deployed, Steps, eventually, stays};
use serde_json::{Value, json};

use super::helm::checkout;
use super::works::{PATIENCE, collected, turn, works};

const INSTALLATION: &str = include_str!("hnc/installation.yaml");
const DEFINITIONS: &str = include_str!("hnc/definitions.yaml");
const TREE: &str = include_str!("hnc/tree.yaml");
const GUIDE: &str = include_str!("../../../docs/upgrade-from-hnc.md");

/// What nobody may touch: copies, and everything of quotas.
const UNTOUCHED: [&str; 5] =
    ["roles", "rolebindings", "secrets", "resourcequotas", "hierarchicalresourcequotas"];

#[tokio::test]
async fn hnc_is_taken_over_without_one_write_to_a_copy_and_can_come_back() {
    let (_turn, cluster) = turn().await;
    let port = Deployed::free_port().unwrap();
    let manifest = manifest(port);
    let mut deployed = Deployed::new(cluster, "hnc-system", port).unwrap();
    hnc_lives(cluster, &mut deployed).await;
    let copies = copies(cluster).await;
    assert_eq!(copies.len(), 6);
    let before = registration(cluster).await;

    let mark = cluster.audit().mark().unwrap();
    let took = insist(cluster, &mut deployed, &manifest, "fresh").await;
    println!("  HNC was taken over {:.1} s after kubectl apply began", took.as_secs_f32());
    let after = registration(cluster).await;
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"], "requests got through");
    assert_eq!(after["metadata"]["ownerReferences"][0]["name"], "hns-controller");
    tree_is_kept(cluster).await;
    assert_eq!(self::copies(cluster).await, copies, "a copy was written");
    let written = cluster.audit().mutating_by(CONTROLLER_USER, mark).unwrap();
    let corp = |namespace: &str| namespace.starts_with("corp");
    let touched: Vec<_> = written
        .iter()
        .filter(|it| UNTOUCHED.contains(&it.resource.as_str()) && corp(&it.namespace) && it.name != "new")
        .collect();
    assert!(touched.is_empty(), "{touched:#?}");
    println!("  of {} writes of the controller, none was to a copy or a quota in HNC's tree", written.len());
    nothing_of_hnc_runs(cluster).await;
    for command in commands("leftovers") {
        let words = command.split_whitespace().skip(1);
        cluster.kubectl().args(words).ok().await.unwrap_or_else(|error| panic!("{command}: {error:#}"));
    }

    what_is_missing_comes_back(cluster, &mut deployed, &manifest, &DEPLOYMENTS).await;
    back_to_hnc(cluster, &mut deployed).await;

    let took = insist(cluster, &mut deployed, &manifest, "once-more").await;
    println!("  and was taken over once more in {:.1} s", took.as_secs_f32());
    what_is_missing_comes_back(cluster, &mut deployed, &manifest, &OUR_DEFINITIONS).await;
    clear(cluster, &mut deployed, &manifest).await;
}

/// The plain manifests as they are shipped, but for the port, which others may have taken.
pub(crate) fn manifest(port: u16) -> String {
    let text = std::fs::read_to_string(checkout().join("config/default.yaml")).unwrap();
    let flag = "--webhook-service-port=443\n";
    assert_eq!((text.matches("port: 443\n").count(), text.matches(flag).count()), (1, 1));
    text.replace("port: 443\n", &format!("port: {port}\n"))
        .replace(flag, &format!("--webhook-service-port={port}\n"))
}

async fn apply(cluster: &Cluster, manifest: &str) {
    cluster.kubectl().args(["apply", "-f", "-"]).stdin(manifest).ok().await.unwrap();
}

/// As the guide says: HNC does not answer here, and its webhook fails closed, so it refuses the one change of a namespace. All
/// else is applied, and once the new webhook runs, nothing is refused. Returns how long it took until everything worked.
async fn insist(cluster: &Cluster, deployed: &mut Deployed<'_>, manifest: &str, root: &str) -> Duration {
    let began = Instant::now();
    let first = cluster.kubectl().args(["apply", "-f", "-"]).stdin(manifest).run().await.unwrap();
    let errors: Vec<&str> = first.stderr.lines().filter(|it| it.contains("failed calling webhook")).collect();
    assert!(!first.success() && errors.len() == 1, "{first}");
    assert!(errors[0].contains("namespaces.hnc.x-k8s.io"), "{first}");
    let took = works(cluster, deployed, root, began).await.unwrap();
    apply(cluster, manifest).await;
    took
}

/// HNC's manifest. Its Service leads to loopback before anything may be sent there.
async fn apply_hncs(cluster: &Cluster, deployed: &mut Deployed<'_>) {
    let is_registration = |it: &&str| it.contains("WebhookConfiguration");
    let (registrations, rest): (Vec<&str>, Vec<&str>) =
        INSTALLATION.split("---\n").partition(is_registration);
    apply(cluster, &rest.join("---\n")).await;
    deployed.follow().await.unwrap();
    apply(cluster, &registrations.join("---\n")).await;
}

/// Its definitions, what it made, and its manifest; then what it writes itself: the authority, and the kinds.
async fn hnc_lives(cluster: &Cluster, deployed: &mut Deployed<'_>) {
    apply(cluster, DEFINITIONS).await;
    cluster.kubectl().established(["crd", "--all"]).await.unwrap();
    cluster.kubectl().args(["create", "-f", "-"]).stdin(TREE).ok().await.unwrap();
    apply_hncs(cluster, deployed).await;
    let secret = json!({ "data": {
        "ca.crt": "Y2E=", "ca.key": "a2V5", "tls.crt": "Y3J0", "tls.key": "a2V5",
    } });
    let patch = |words: &[&str], kind: &str, patch: &Value| {
        let kubectl =
            cluster.kubectl().args(["patch"]).args(words).args(["--type", kind, "-p", &patch.to_string()]);
        async move { kubectl.ok().await.unwrap() }
    };
    patch(&["secret", "hnc-webhook-server-cert", "-n", "hnc-system"], "merge", &secret).await;
    let rule = |group: &str, resources: Value| {
        json!({
            "apiGroups": [group], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE", "DELETE"],
            "resources": resources, "scope": "Namespaced",
        })
    };
    let rules = json!([
        rule("", json!(["secrets"])),
        rule("rbac.authorization.k8s.io", json!(["roles", "rolebindings"]))
    ]);
    let authority = json!(k8s_openapi::ByteString(cluster.ca_pem().as_bytes().to_vec()));
    let mut changes: Vec<Value> = (0..5)
        .map(|entry| json!({ "op": "add", "path": format!("/webhooks/{entry}/clientConfig/caBundle"), "value": authority }))
        .collect();
    let of_mutating = json!([changes[0]]);
    changes.push(json!({ "op": "add", "path": "/webhooks/2/rules", "value": rules }));
    let validating = ["validatingwebhookconfiguration", "hnc-validating-webhook-configuration"];
    let mutating = ["mutatingwebhookconfiguration", "hnc-mutating-webhook-configuration"];
    patch(&validating, "json", &json!(changes)).await;
    patch(&mutating, "json", &of_mutating).await;
}

/// Every copy in HNC's tree, with its version.
async fn copies(cluster: &Cluster) -> Vec<String> {
    let get = [
        "get",
        "roles,rolebindings,secrets",
        "-A",
        "-l",
        "hnc.x-k8s.io/inherited-from=corp",
        "-o",
        "jsonpath={range .items[*]}{.metadata.namespace}/{.kind}/{.metadata.name} {.metadata.uid} {.metadata.resourceVersion}{\"\\n\"}{end}",
    ];
    let text = cluster.kubectl().args(get).ok().await.unwrap();
    text.lines().map(str::to_owned).collect()
}

/// The validating webhook configuration.
async fn registration(cluster: &Cluster) -> Value {
    let get = ["get", "-o", "json", "validatingwebhookconfiguration/hnc-validating-webhook-configuration"];
    serde_json::from_str(&cluster.kubectl().args(get).ok().await.unwrap()).unwrap()
}

/// The controller knows the tree, and a new source reaches it.
async fn tree_is_kept(cluster: &Cluster) {
    let steps = Steps::of(cluster.admin());
    eventually("the root bears the mark of a tree", PATIENCE, async || {
        let found = steps.namespaces().get("corp").await.map_err(|error| error.to_string())?;
        let labels = found.metadata.labels.unwrap_or_default();
        if labels.contains_key("hnc.x-k8s.io/has-children") { Ok(()) } else { Err(format!("{labels:?}")) }
    })
    .await
    .unwrap();
    let source =
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "new", "namespace": "corp" } });
    apply(cluster, &source.to_string()).await;
    for namespace in ["corp-web", "corp-ops"] {
        eventually(&format!("a new secret reaches {namespace}"), PATIENCE, async || {
            let get = cluster.kubectl().args(["get", "secret", "new", "-n", namespace]);
            get.ok().await.map(drop).map_err(|error| format!("{error:#}"))
        })
        .await
        .unwrap();
    }
    cluster.kubectl().args(["delete", "secret", "new", "-n", "corp"]).ok().await.unwrap();
    eventually("the copies of the new secret go", PATIENCE, async || {
        let get = cluster.kubectl().args(["get", "secrets", "-A", "-o", "name"]);
        let names = get.ok().await.map_err(|error| format!("{error:#}"))?;
        if names.lines().any(|name| name == "secret/new") { Err(names) } else { Ok(()) }
    })
    .await
    .unwrap();
}

/// The Deployment is another program's now, without anything of HNC's pod.
async fn nothing_of_hnc_runs(cluster: &Cluster) {
    let get = ["get", "deployment", "hnc-controller-manager", "-n", "hnc-system", "-o", "json"];
    let text = cluster.kubectl().args(get).ok().await.unwrap();
    let pod = &serde_json::from_str::<Value>(&text).unwrap()["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    assert_eq!(pod["containers"].as_array().unwrap().len(), 1);
    assert!(container["command"].is_null() && pod["volumes"].is_null(), "{pod}");
    assert!(!container["args"].to_string().contains("max-reconciles"), "{container}");
    assert_eq!(pod["serviceAccountName"], "hns-controller");
}

/// What is lost, and the command that loses it.
type Loss = (&'static str, &'static [&'static str]);

const DEPLOYMENTS: Loss = ("deployments", &["delete", "deployment", "--all", "-n", "hnc-system"]);
const OUR_DEFINITIONS: Loss = (
    "definitions",
    &[
        "delete",
        "--wait",
        "--timeout=90s",
        "crd",
        "hierarchyconfigurations.hnc.x-k8s.io",
        "subnamespaceanchors.hnc.x-k8s.io",
        "hncconfigurations.hnc.x-k8s.io",
        "hierarchicalresourcequotas.hnc.x-k8s.io",
    ],
);

/// Applied again, the manifest repairs an installation that has lost something.
async fn what_is_missing_comes_back(
    cluster: &Cluster,
    deployed: &mut Deployed<'_>,
    manifest: &str,
    (what, words): &Loss,
) {
    cluster.kubectl().args(*words).ok().await.unwrap();
    deployed.follow().await.unwrap();
    let began = Instant::now();
    apply(cluster, manifest).await;
    let took = works(cluster, deployed, &format!("without-{what}"), began).await.unwrap();
    println!("  without {what}, it worked {:.1} s after kubectl apply began", took.as_secs_f32());
}

/// The commands of the guide, one by one.
async fn back_to_hnc(cluster: &Cluster, deployed: &mut Deployed<'_>) {
    let commands = commands("back");
    assert!(commands.len() > 3, "{commands:?}");
    let copies = copies(cluster).await;
    for command in &commands {
        let (command, needs) = command.split_once('#').unwrap_or((command, ""));
        if needs.contains("1.36") && !Kubernetes::wanted().unwrap().has_mutating_policies() {
            continue;
        }
        let words: Vec<&str> = command.split_whitespace().collect();
        let [program, rest @ ..] = words.as_slice() else { panic!("{command}") };
        assert_eq!(*program, "kubectl", "{command}");
        if rest.contains(&"HNC.yaml") {
            // From here on HNC's own manifest is what is applied.
            apply_hncs(cluster, deployed).await;
            continue;
        }
        cluster.kubectl().args(rest).ok().await.unwrap_or_else(|error| panic!("{command}: {error:#}"));
        deployed.follow().await.unwrap();
    }
    let found = registration(cluster).await;
    assert!(found["metadata"]["ownerReferences"].is_null(), "{found}");
    stays("the garbage collector leaves HNC's registrations alone", Duration::from_secs(3), async || {
        let now = registration(cluster).await;
        if now["metadata"]["uid"] == found["metadata"]["uid"] { Ok(()) } else { Err(now.to_string()) }
    })
    .await
    .unwrap();
    let entries = found["webhooks"].as_array().unwrap();
    assert_eq!(entries.len(), 5, "entries of HNC's alone");
    for entry in entries {
        assert!(entry["matchConditions"].is_null() && entry["clientConfig"]["caBundle"].is_null(), "{entry}");
    }
    let get = ["get", "deployment", "hnc-controller-manager", "-n", "hnc-system", "-o", "json"];
    let pod: Value = serde_json::from_str(&cluster.kubectl().args(get).ok().await.unwrap()).unwrap();
    let pod = &pod["spec"]["template"]["spec"];
    assert_eq!(pod["containers"][0]["command"], json!(["/manager"]));
    assert!(pod["serviceAccountName"].is_null() || pod["serviceAccountName"] == "default", "{pod}");
    assert!(pod["topologySpreadConstraints"].is_null());
    let kinds =
        "deployments,serviceaccounts,services,poddisruptionbudgets,secrets,configmaps,roles,rolebindings";
    let left = cluster.kubectl().args(["get", kinds, "-n", "hnc-system", "-o", "name"]).ok().await.unwrap();
    let global =
        "validatingadmissionpolicies,validatingadmissionpolicybindings,clusterroles,clusterrolebindings";
    let global = cluster.kubectl().args(["get", global, "-o", "name"]).ok().await.unwrap();
    let ours =
        ["/hns-", "/hnc-webhook\n", "/hnc-webhook-metrics", "/hnc-settings", "/hnc-edit", "/hnc-admin"];
    let all = format!("{left}\n{global}\n");
    for name in ours {
        assert!(!all.contains(name), "{name} is left in\n{all}");
    }
    assert_eq!(self::copies(cluster).await, copies, "a copy was written on the way back");
    println!("  {} commands later the cluster was HNC's again; no copy was written", commands.len());
}

/// The commands of the guide's block with this name.
pub(crate) fn commands(name: &str) -> Vec<String> {
    let text = block(GUIDE, name).replace("\\\n", " ");
    text.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect()
}

/// The block of a guide with this name.
pub(crate) fn block<'a>(guide: &'a str, name: &str) -> &'a str {
    let (_, rest) = guide.split_once(&format!("<!-- tested: {name} -->")).unwrap();
    let (_, rest) = rest.split_once("```sh\n").unwrap();
    rest.split("```").next().unwrap()
}

/// Leaves nothing to whoever is next.
pub(crate) async fn clear(cluster: &Cluster, deployed: &mut Deployed<'_>, manifest: &str) {
    let crds = checkout().join("config/crds.yaml");
    let delete = ["delete", "--ignore-not-found", "--wait=false", "-f", crds.to_str().unwrap()];
    cluster.kubectl().args(delete).ok().await.unwrap();
    // Right after a start of its storage the API server cannot list the objects of a definition ("storage is (re)initializing").
    // It tries again after minutes, or when the definition changes.
    let get = ["get", "--ignore-not-found", "-o", "yaml", "-f", crds.to_str().unwrap()];
    let change = ["annotate", "--overwrite", "customresourcedefinitions", "--all"];
    let mut count = 0;
    eventually("the definitions are deleted", PATIENCE, async || {
        let left = cluster.kubectl().args(get).ok().await.map_err(|error| format!("{error:#}"))?;
        if left.trim().is_empty() {
            return Ok(());
        }
        count += 1;
        let value = format!("example.com/count={count}");
        cluster.kubectl().args(change).args([&*value]).run().await.map_err(|error| format!("{error:#}"))?;
        Err(left)
    })
    .await
    .unwrap();
    let rest = ["delete", "--ignore-not-found", "--wait=false", "-f", "-"];
    cluster.kubectl().args(rest).stdin(manifest).ok().await.unwrap();
    cluster.kubectl().args(rest).stdin(INSTALLATION).ok().await.unwrap();
    deployed.follow().await.unwrap();
    collected(cluster).await;
    Steps::of(cluster.admin()).gone("hnc-system").await.unwrap();
}
