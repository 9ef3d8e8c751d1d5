//! The product's manifests: read from files, pointed at loopback, applied. It adds nothing to them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use hns_api::names;
use k8s_openapi::ByteString;
use serde_json::{Value, json};

use crate::cluster::{Cluster, Kubectl};

/// Every object of the YAML files in a directory (not below it), by file name, namespaces first.
///
/// An error when there are none: an installation without, say, its CRDs would fail much later.
pub(super) fn read(directory: &Path) -> anyhow::Result<Vec<Value>> {
    let mut documents = Vec::new();
    for path in files(directory)? {
        let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let parsed: Vec<Value> =
            serde_saphyr::from_multiple(&text).with_context(|| format!("parsing {}", path.display()))?;
        documents.extend(parsed);
    }
    anyhow::ensure!(!documents.is_empty(), "no manifests in {}", directory.display());
    documents.sort_by_key(|document| document["kind"] != "Namespace");
    Ok(documents)
}

fn files(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory).with_context(|| format!("reading {}", directory.display()))?;
    let mut files = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
    // A kustomization lists the files; it is no object of the cluster.
    files.retain(|path| {
        path.extension().is_some_and(|extension| extension == "yaml")
            && path.file_stem().is_some_and(|name| name != "kustomization")
    });
    files.sort();
    Ok(files)
}

/// Applies objects, taking fields over from whoever else applied them.
pub(super) async fn apply(cluster: &Cluster, documents: &[Value]) -> anyhow::Result<()> {
    let apply = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
    with_list(cluster, &apply, documents).ok().await.map(drop)
}

/// Deletes objects; those that are not there are no error.
pub(super) async fn delete(cluster: &Cluster, documents: &[Value]) -> anyhow::Result<()> {
    let delete = ["delete", "--ignore-not-found", "-f", "-"];
    with_list(cluster, &delete, documents).ok().await.map(drop)
}

/// Applies the CRDs of a directory and waits until the API server serves them.
pub(super) async fn apply_crds(cluster: &Cluster, directory: &Path) -> anyhow::Result<()> {
    let documents = read(directory)?;
    apply(cluster, &documents).await?;
    let wait = ["wait", "--for=condition=Established", "--timeout=60s", "-f", "-"];
    with_list(cluster, &wait, &documents).ok().await.map(drop)
}

fn with_list(cluster: &Cluster, args: &[&str], documents: &[Value]) -> Kubectl {
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": documents });
    cluster.kubectl().args(args).stdin(list.to_string())
}

/// Whether the object is a webhook configuration.
pub(super) fn is_registration(document: &Value) -> bool {
    document["webhooks"].is_array()
}

/// Replaces the Service in every webhook of a webhook configuration by a port on loopback; leaves other objects alone.
pub(super) fn redirect(document: &mut Value, port: u16, ca_pem: &str) -> anyhow::Result<()> {
    let Some(webhooks) = document["webhooks"].as_array_mut() else {
        return Ok(());
    };
    // ByteString writes itself as base64, which is how the API wants it.
    let bundle = serde_json::to_value(ByteString(ca_pem.as_bytes().to_vec()))?;
    for webhook in webhooks {
        let path = webhook["clientConfig"]["service"]["path"].as_str();
        let path = path.with_context(|| format!("the webhook {} names no Service path", webhook["name"]))?;
        webhook["clientConfig"] = json!({
            "url": format!("https://127.0.0.1:{port}{path}"),
            "caBundle": bundle,
        });
    }
    Ok(())
}

/// Names another port of the Service in every webhook of a webhook configuration; leaves other objects alone.
pub(super) fn through_service(document: &mut Value, port: u16) {
    for webhook in document["webhooks"].as_array_mut().into_iter().flatten() {
        webhook["clientConfig"]["service"]["port"] = port.into();
    }
}

/// The Service in front of the webhook, as a name for loopback: there is nobody who would forward to endpoints.
pub(super) fn service() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": { "name": names::WEBHOOK_SERVICE, "namespace": super::NAMESPACE },
        "spec": { "type": "ExternalName", "externalName": "localhost" },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_come_first_and_kustomizations_not_at_all() {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in [
            ("a.yaml", "kind: Role\n---\n# nothing\n---\nkind: ServiceAccount\n"),
            ("b.yaml", "kind: Namespace\n"),
            ("kustomization.yaml", "kind: Kustomization\n"),
            ("notes.md", "kind: Note\n"),
        ] {
            fs::write(directory.path().join(name), text).unwrap();
        }
        let kinds: Vec<Value> =
            read(directory.path()).unwrap().iter().map(|document| document["kind"].clone()).collect();
        assert_eq!(kinds, ["Namespace", "Role", "ServiceAccount"]);
        let empty = tempfile::tempdir().unwrap();
        assert!(read(empty.path()).is_err());
    }

    #[test]
    fn a_service_becomes_an_address() {
        let mut document = json!({ "webhooks": [{
            "name": "objects",
            "clientConfig": { "service": { "name": "hns-webhook", "namespace": "hnc-system", "path": "/validate" } },
        }] });
        redirect(&mut document, 4711, "PEM").unwrap();
        let expected = json!({ "url": "https://127.0.0.1:4711/validate", "caBundle": "UEVN" });
        assert_eq!(document["webhooks"][0]["clientConfig"], expected);
        assert!(is_registration(&document));

        let mut other = json!({ "kind": "Service" });
        redirect(&mut other, 4711, "PEM").unwrap();
        assert!(!is_registration(&other));
    }
}
