//! Objects whose `managedFields` are nested more deeply than JSON is parsed, with a time that the type of times cannot represent. Every
//! user who may change an object can write them.

use anyhow::{Result, ensure};
use hns_e2e::steps::PATIENCE;
use hns_e2e::{Cluster, eventually};
use tokio::sync::OnceCell;

use super::fixture::{Fixture, start};

const DEPTH: usize = 130;

#[tokio::test]
async fn deep_managed_fields_stop_no_command_and_no_write() -> Result<()> {
    // The tests' own client cannot read these objects, so they are in a cluster of their own.
    static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
    let mut fixture = start(CLUSTER.get_or_try_init(Cluster::start).await?).await?;
    let steps = fixture.steps();
    for name in ["root", "top", "other"] {
        steps.create_namespace(name).await?;
    }
    steps.create_anchor("root", "sub").await?;
    steps.labelled(&["sub", "root"]).await?;
    steps.create_binding("root", "reader", ("ClusterRole", "view"), "alice").await?;
    steps.binding_arrives(&["sub"], "reader", "root", "alice").await?;
    for (namespace, object) in [
        ("root", "namespaces/root"),
        ("root", "hierarchyconfigurations.hnc.x-k8s.io/hierarchy"),
        ("root", "subnamespaceanchors.hnc.x-k8s.io/sub"),
        ("root", "rolebindings/reader"),
        ("sub", "namespaces/sub"),
        ("sub", "hierarchyconfigurations.hnc.x-k8s.io/hierarchy"),
    ] {
        deepen(&fixture, namespace, object).await?;
    }
    for replica in &mut fixture.replicas {
        replica.restart().await?;
    }

    for words in [
        "tree -A",
        "tree root --show-copies rolebindings/reader",
        "describe root",
        "plan set other --parent root",
        "doctor",
        "set other --parent root",
        "set root --parent top",
        "set sub --allowCascadingDeletion",
    ] {
        let output = fixture.hns(words).await;
        let is_read = !output.stderr.contains("recursion limit");
        ensure!(is_read && (output.code == Some(0) || words == "doctor"), "{words}: {output:?}");
    }
    let labels = r"jsonpath={.metadata.labels.top\.tree\.hnc\.x-k8s\.io/depth}";
    shows(&fixture, &["namespaces/root", "-o", labels], "1").await?;
    shows(&fixture, &["namespaces/sub", "-o", labels], "2").await?;
    shows(&fixture, &["rolebindings/reader", "-n", "other", "-o", "name"], "rolebinding").await?;

    let output = fixture.hns("delete sub -n root --yes --wait").await;
    ensure!(output.code == Some(0), "{output:?}");
    shows(&fixture, &["subnamespaceanchors.hnc.x-k8s.io", "-n", "root", "-o", "name"], "").await
}

/// Nests the `managedFields` of the object.
async fn deepen(fixture: &Fixture, namespace: &str, object: &str) -> Result<()> {
    let version = if object.contains("hnc") { hns_api::API_VERSION } else { "v1" };
    let version = if object.starts_with("role") { "rbac.authorization.k8s.io/v1" } else { version };
    let (open, close) = ("{\"f:x\":".repeat(DEPTH), "}".repeat(DEPTH));
    let entry = format!(
        r#"{{"manager":"m","operation":"Update","time":"9999-12-31T23:59:59Z","apiVersion":"{version}","fieldsType":"FieldsV1","fieldsV1":{open}{{}}{close}}}"#
    );
    let patch = format!(r#"{{"metadata":{{"managedFields":[{entry}]}}}}"#);
    let args = ["patch", object, "-n", namespace, "--type=merge", "--patch", &patch];
    fixture.cluster.kubectl().args(args).ok().await?;
    let args = ["get", object, "-n", namespace, "-o", "json", "--show-managed-fields"];
    let stored = fixture.cluster.kubectl().args(args).ok().await?;
    ensure!(stored.matches("\"f:x\"").count() >= DEPTH, "{object}: the API server has not kept it: {stored}");
    Ok(())
}

/// Waits until `kubectl get` prints this.
async fn shows(fixture: &Fixture, args: &[&str], wanted: &str) -> Result<()> {
    eventually(&format!("{args:?} shows {wanted:?}"), PATIENCE, async || {
        let said = fixture.cluster.kubectl().args(["get", "--ignore-not-found"]).args(args).ok().await;
        let said = said.map_err(|error| format!("{error:#}"))?;
        let shown = if wanted.is_empty() { said.trim().is_empty() } else { said.starts_with(wanted) };
        shown.then_some(()).ok_or(said)
    })
    .await
}
