//! Reviews as the API server sends them: one that must be allowed, one that must be denied, one that takes long.

use anyhow::{Context, Result, ensure};
use hns_api::names::paths;
use serde_json::{Value, json};

use super::client::{Client, Sent};

/// A namespace that does not exist.
pub(super) const UNHEARD: &str = "never-heard-of";

/// The creation of a namespace with these labels.
pub(super) fn creation(uid: &str, labels: &Value) -> Value {
    json!({
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": uid,
            "kind": { "group": "", "version": "v1", "kind": "Namespace" },
            "resource": { "group": "", "version": "v1", "resource": "namespaces" },
            "name": "honest",
            "namespace": "honest",
            "operation": "CREATE",
            "userInfo": { "username": "alice", "groups": ["system:authenticated"] },
            "object": {
                "kind": "Namespace", "apiVersion": "v1",
                "metadata": { "name": "honest", "uid": "1", "labels": labels },
                "spec": { "finalizers": ["kubernetes"] },
            },
            "oldObject": null,
            "dryRun": false,
        },
    })
}

/// A parent for a namespace that the forest does not know: it is looked up before it is answered.
pub(super) fn placement(uid: &str) -> Value {
    json!({
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": uid,
            "kind": { "group": hns_api::GROUP, "version": "v1alpha2", "kind": "HierarchyConfiguration" },
            "resource": { "group": hns_api::GROUP, "version": "v1alpha2", "resource": "hierarchyconfigurations" },
            "name": "hierarchy",
            "namespace": UNHEARD,
            "operation": "CREATE",
            "userInfo": { "username": "alice", "groups": ["system:authenticated"] },
            "object": {
                "kind": "HierarchyConfiguration", "apiVersion": hns_api::API_VERSION,
                "metadata": { "name": "hierarchy", "namespace": UNHEARD },
                "spec": { "parent": "default" },
            },
            "oldObject": null,
            "dryRun": false,
        },
    })
}

/// A review is allowed and another denied, as they should be.
pub(super) async fn honest(client: &Client) -> Result<()> {
    let ask = async |labels: Value| -> Result<Value> {
        let sent =
            Sent::json(&format!("{}?timeout=5s", paths::NAMESPACES), creation("u-1", &labels).to_string());
        let (status, body) = client.ask(sent).await.context("an honest review")?;
        ensure!(status.is_success(), "{status} {body}");
        let review: Value = serde_json::from_str(&body)?;
        ensure!(review["response"]["uid"] == "u-1" && review["kind"] == "AdmissionReview", "{review}");
        Ok(review["response"].clone())
    };
    let allowed = ask(json!({ "team": "a" })).await?;
    ensure!(allowed["allowed"] == true, "{allowed}");
    let denied = ask(json!({ "forged.tree.hnc.x-k8s.io/depth": "1" })).await?;
    let status = &denied["status"];
    ensure!(
        denied["allowed"] == false && status["code"] == 403 && status["reason"] == "Forbidden",
        "{denied}"
    );
    let message = status["message"].as_str().unwrap_or_default();
    ensure!(message.contains("honest") && message.contains("forged.tree.hnc.x-k8s.io/depth"), "{message}");
    Ok(())
}
