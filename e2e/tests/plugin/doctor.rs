//! `doctor`: on an installation that works but for what a test cluster cannot have, and on one that is missing.

use hns_e2e::eventually;
use hns_e2e::steps::PATIENCE;
use serde_json::{Value, json};

use super::fixture::{Output, hierarchy, live, namespace, still};

/// The levels of all findings about a subject.
fn levels(output: &Output, subject: &str) -> Vec<String> {
    let findings = output.json()["findings"].as_array().cloned().unwrap_or_default();
    let about = findings.iter().filter(|it| it["subject"] == subject);
    about.map(|it: &Value| it["level"].as_str().unwrap_or_default().to_owned()).collect()
}

#[tokio::test]
async fn what_works_is_ok_and_what_is_missing_is_named() {
    let live = live().await;
    let output = eventually("both binaries have said their settings", PATIENCE, async || {
        let output = live.hns("doctor -o json").await;
        if levels(&output, "settings") == ["ok"] { Ok(output) } else { Err(format!("{output:?}")) }
    })
    .await
    .unwrap();
    for subject in [
        "definitions",
        "registration hnc-validating-webhook-configuration",
        "registration hnc-mutating-webhook-configuration",
        "policies",
        "webhook",
        "lease",
        "rights of hns-controller",
        "rights of hns-webhook",
    ] {
        assert_eq!(levels(&output, subject), ["ok"], "{subject}: {output:?}");
    }
    // The binaries run as processes here, with a certificate from a directory.
    for subject in ["deployment hnc-webhook", "deployment hnc-controller-manager", "certificate"] {
        assert_eq!(levels(&output, subject), ["note"], "they work without: {subject}: {output:?}");
    }
    // Other tests make trees with conditions.
    let is_wrong = output.stdout.contains("\"level\": \"wrong\"");
    assert_eq!((output.code, output.stderr.is_empty()), (Some(i32::from(is_wrong)), !is_wrong), "{output:?}");
    let versions = live.hns("version").await;
    let own = env!("CARGO_PKG_VERSION");
    let wanted = format!("kubectl-hns version {own}\nController version: {own}\nKubernetes version: v1.");
    assert!(versions.stdout.starts_with(&wanted) && versions.stderr.is_empty(), "{versions:?}");
    let text = live.hns("doctor").await;
    assert!(text.stdout.starts_with("ok     definitions: all exist and are served\n"), "{text:?}");
    assert!(
        text.stdout.contains(
            "note   certificate: there is no Secret hnc-webhook-server-cert; the webhook has one from elsewhere\n"
        ),
        "{text:?}"
    );
    let flags =
        "ok     settings: those of the controller's flags are in force (there is no ConfigMap hns-config)\n";
    assert!(text.stdout.contains(flags), "{text:?}");
}

#[tokio::test]
async fn a_cluster_without_controllers_is_told_so() {
    let still = still().await;
    let unreachable = still.hns("doctor -s https://127.0.0.1:1").await;
    let found =
        "WRONG  API server: nothing was checked: https://127.0.0.1:1 does not answer: Connection refused\n";
    assert!(unreachable.stdout.starts_with(found), "{unreachable:?}");
    assert_eq!(unreachable.stderr, "Error: 1 thing is wrong\n");
    let output = still.hns("doctor -o json").await;
    assert_eq!(levels(&output, "definitions"), ["ok"]);
    for subject in ["registration hnc-validating-webhook-configuration", "lease", "rights of hns-controller"]
    {
        assert_eq!(levels(&output, subject), ["wrong"], "{subject}: {output:?}");
    }
    assert_eq!(levels(&output, "policies"), ["note"], "they can be switched off");
    assert_eq!(levels(&output, "deployment hnc-webhook"), ["wrong"], "{output:?}");
    assert_eq!(levels(&output, "certificate"), ["note"], "it may be from elsewhere: {output:?}");
}

/// What a controller that knows this rule will remove is named before it is installed.
#[tokio::test]
async fn a_copied_binding_that_finds_another_role_is_named() {
    let still = still().await;
    let (top, mid) = ("a-bound-top", "a-bound-mid");
    still.apply(&[namespace(top, ""), namespace(mid, ""), hierarchy(mid, top, &[], &[])]).await;
    let object = |kind: &str, namespace: &str| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
            "metadata": { "namespace": namespace, "name": "reader" },
        })
    };
    let mut role = object("Role", top);
    role["metadata"]["annotations"] = json!({ "propagate.hnc.x-k8s.io/none": "true" });
    let binding = |namespace: &str| {
        let mut binding = object("RoleBinding", namespace);
        binding["roleRef"] =
            json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader" });
        binding
    };
    let mut copy = binding(mid);
    copy["metadata"]["labels"] = json!({ "hnc.x-k8s.io/inherited-from": top });
    still.apply(&[role, object("Role", mid), binding(top), copy]).await;
    let why = format!(
        "it refers to the Role \"reader\" of namespace {top:?}, and the Role of that name here is the one of namespace {mid:?}"
    );
    let found = still.hns("doctor").await;
    let line = format!("rolebindings.rbac.authorization.k8s.io reader should not be in {mid}: {why}");
    assert!(found.stdout.contains(&line), "{found:?}");
    let said = still.hns(&format!("explain rolebinding/reader -n {mid}")).await;
    let line = format!("to be removed\n  Why: the one in {top} is not copied here, because {why}");
    assert!(said.stdout.contains(&line), "{said:?}");
}
