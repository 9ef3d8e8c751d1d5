//! The product's manifests: read from files, given the webhook's port, applied. Registrations and policies are what the code makes of
//! the default settings, since the manifests contain none.

use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};
use hns_api::accurate::GROUP;
use hns_api::names;
use hns_cluster::settings::accurate;
use hns_controller::registrations::{RegistrationSettings, admission, followed};
use k8s_openapi::api::rbac::v1::ClusterRole;
use k8s_openapi::{ByteString, Resource};
use kube::Api;
use serde_json::{Value, json};

use super::Options;
use crate::cluster::{Cluster, Kubectl};

/// The kinds of the two service accounts and their rights.
pub(super) const RIGHTS: [&str; 6] =
    ["Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"];

const DEFINITIONS: [&str; 1] = ["CustomResourceDefinition"];

/// Every object of a YAML file.
pub(super) fn read(path: &Path) -> anyhow::Result<Vec<Value>> {
    let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(&text).with_context(|| format!("parsing {}", path.display()))?;
    Ok(documents.into_iter().filter(|document| !document.is_null()).collect())
}

/// The objects for an installation in another namespace.
pub(super) fn moved(documents: Vec<Value>, namespace: &str) -> anyhow::Result<Vec<Value>> {
    if namespace == super::NAMESPACE {
        return Ok(documents);
    }
    // Rules and expressions name it as well, for example in a service account's user name.
    let text = serde_json::to_string(&documents)?.replace(super::NAMESPACE, namespace);
    Ok(serde_json::from_str(&text)?)
}

/// The objects of these kinds, namespaces first.
///
/// Fails if there are none: an installation without, say, its CRDs would fail much later.
pub(super) fn of_kinds(documents: &[Value], kinds: &[&str]) -> anyhow::Result<Vec<Value>> {
    let is_one = |document: &&Value| kinds.iter().any(|kind| document["kind"] == *kind);
    let mut chosen: Vec<Value> = documents.iter().filter(is_one).cloned().collect();
    ensure!(!chosen.is_empty(), "no manifests of {kinds:?}");
    chosen.sort_by_key(|document| document["kind"] != "Namespace");
    Ok(chosen)
}

/// The objects of this name.
pub(super) fn of_name(documents: &[Value], name: &str) -> Vec<Value> {
    documents.iter().filter(|document| document["metadata"]["name"] == name).cloned().collect()
}

/// The rights of these documents under other names, so that they add to those of other manifests; but not those on the propagated
/// kinds, which tests take away.
pub(super) fn further_rights(documents: &[Value], suffix: &str) -> anyhow::Result<Vec<Value>> {
    let mut rights = of_kinds(documents, &["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"])?;
    for right in &mut rights {
        if let Some(Value::Array(rules)) = right.get_mut("rules") {
            rules.retain(|rule| rule["apiGroups"] == json!([GROUP]) || !rule["resourceNames"].is_null());
        }
        for pointer in ["/metadata/name", "/roleRef/name"] {
            if let Some(Value::String(name)) = right.pointer_mut(pointer) {
                *name = format!("{name}-{suffix}");
            }
        }
    }
    Ok(rights)
}

/// The default settings for an API server, but for these options.
fn settings(cluster: &Cluster, options: &Options) -> anyhow::Result<RegistrationSettings> {
    let Options { policies, quotas, .. } = *options;
    let mutating_policy = policies && cluster.kubernetes().has_mutating_policies();
    let rules = options.accurate.as_ref().map(accurate::Settings::rules).transpose()?;
    Ok(RegistrationSettings {
        policies,
        mutating_policy,
        quotas,
        accurate: rules.is_some(),
        followed: rules.as_ref().map(followed).unwrap_or_default(),
        ..RegistrationSettings::default()
    })
}

/// The webhook configurations, with the Service.
pub(super) fn registrations(cluster: &Cluster, options: &Options) -> anyhow::Result<Vec<Value>> {
    let all = admission(&settings(cluster, options)?);
    [serde_json::to_value(all.validating), serde_json::to_value(all.mutating)]
        .into_iter()
        .map(|object| Ok(object?))
        .collect()
}

/// The policies and their bindings.
pub(super) fn policies(cluster: &Cluster, options: &Options) -> anyhow::Result<Vec<Value>> {
    let all = admission(&settings(cluster, options)?);
    let validating = all.policies.iter().map(serde_json::to_value);
    let validating = validating.chain(all.bindings.iter().map(serde_json::to_value));
    let mutating = all.mutating_policy.into_iter().flatten().map(Ok);
    validating.chain(mutating).map(|object| Ok(object?)).collect()
}

/// Applies objects, and takes their fields over from other managers.
pub(super) async fn apply(cluster: &Cluster, documents: &[Value]) -> anyhow::Result<()> {
    let apply = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
    with_list(cluster, &apply, documents).ok().await.map(drop)
}

/// Applies registrations or policies as the controller does, with their owner: it then has nothing to correct.
pub(super) async fn apply_owned(cluster: &Cluster, mut documents: Vec<Value>) -> anyhow::Result<()> {
    let roles: Api<ClusterRole> = Api::all(cluster.admin());
    let uid = roles.get(names::CONTROLLER_CLUSTER_ROLE).await?.metadata.uid;
    for document in &mut documents {
        document["metadata"]["ownerReferences"] = json!([{
            "apiVersion": ClusterRole::API_VERSION, "kind": ClusterRole::KIND, "name": names::CONTROLLER_CLUSTER_ROLE, "uid": uid,
        }]);
    }
    apply(cluster, &documents).await
}

/// Deletes objects; those that are not there are no error.
pub(super) async fn delete(cluster: &Cluster, documents: &[Value]) -> anyhow::Result<()> {
    let delete = ["delete", "--ignore-not-found", "-f", "-"];
    with_list(cluster, &delete, documents).ok().await.map(drop)
}

/// Applies the CRDs among the objects and waits until the API server serves them.
pub(super) async fn apply_crds(cluster: &Cluster, manifests: &[Value]) -> anyhow::Result<()> {
    let documents = of_kinds(manifests, &DEFINITIONS)?;
    apply(cluster, &documents).await?;
    with_list(cluster, &[], &documents).established(["-f", "-"]).await.map(drop)
}

fn with_list(cluster: &Cluster, args: &[&str], documents: &[Value]) -> Kubectl {
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": documents });
    cluster.kubectl().args(args).stdin(list.to_string())
}

/// Sets another port of the Service in every webhook of a webhook configuration, and in the converter of a definition, and the
/// authority of its certificate if there is one; leaves other objects as they are.
pub(super) fn through_service(
    document: &mut Value,
    port: u16,
    authority: Option<&str>,
) -> anyhow::Result<()> {
    let webhooks = document.get("webhooks").and_then(Value::as_array).map_or(0, Vec::len);
    let webhooks = (0..webhooks).map(|at| format!("/webhooks/{at}/clientConfig"));
    let clients = webhooks.chain(["/spec/conversion/webhook/clientConfig".to_owned()]);
    for pointer in clients {
        let Some(client) = document.pointer_mut(&pointer) else { continue };
        client["service"]["port"] = port.into();
        if let Some(authority) = authority {
            client["caBundle"] = base64(authority)?.into();
        }
    }
    Ok(())
}

/// The text as base64, which the API wants for bytes.
pub(super) fn base64(text: &str) -> anyhow::Result<String> {
    Ok(serde_json::from_value(serde_json::to_value(ByteString(text.as_bytes().to_vec()))?)?)
}

/// The Service in front of the webhook, as a name for loopback, since nothing forwards to endpoints.
///
/// The name is an address: the API server uses it as it is and asks no DNS.
pub(super) fn service(namespace: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": { "name": names::WEBHOOK_SERVICE, "namespace": namespace },
        "spec": { "type": "ExternalName", "externalName": "127.0.0.1" },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_come_first_and_other_kinds_not_at_all() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("all.yaml");
        fs::write(&path, "kind: Role\n---\n# nothing\n---\nkind: Namespace\n---\nkind: Note\n").unwrap();
        let documents = read(&path).unwrap();
        assert_eq!(documents.len(), 3);
        let chosen = of_kinds(&documents, &RIGHTS).unwrap();
        assert_eq!(chosen, [json!({ "kind": "Namespace" }), json!({ "kind": "Role" })]);
        assert!(of_kinds(&documents, &DEFINITIONS).is_err());
    }

    #[test]
    fn a_webhook_is_called_through_the_service() {
        let service = json!({ "name": "hns-webhook", "namespace": "hnc-system", "path": "/validate" });
        let registration =
            json!({ "webhooks": [{ "name": "objects", "clientConfig": { "service": service } }] });
        let called = |authority| {
            let mut document = registration.clone();
            through_service(&mut document, 4711, authority).unwrap();
            document["webhooks"][0]["clientConfig"].clone()
        };
        let mut service = service.clone();
        service["port"] = 4711.into();
        assert_eq!(called(Some("PEM")), json!({ "service": service, "caBundle": "UEVN" }));
        assert_eq!(called(None), json!({ "service": service }));

        let mut other = json!({ "kind": "Service" });
        through_service(&mut other, 4711, Some("PEM")).unwrap();
        assert_eq!(other, json!({ "kind": "Service" }));
    }
}
