//! Keeps the CRD of `SubNamespace` right while this replica leads: the authority of the webhook that converts its objects, and the
//! stored versions.
//!
//! Objects that Accurate has stored in an older version are stored again as v2. Then the CRD says that no other version is stored,
//! so that no object needs to be converted any more.

use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use hns_api::accurate::{SubNamespace, Version, names};
use hns_api::names::FIELD_MANAGER;
use hns_cluster::api::Api;
use hns_cluster::error_text::error_text;
use hns_cluster::objects;
use hns_runtime::shutdown::Shutdown;
use k8s_openapi::ByteString;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, ServiceReference, WebhookClientConfig,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{ListParams, Patch, PatchParams};
use kube::core::DynamicObject;
use kube::{Client, CustomResourceExt};
use serde_json::{Value, json};
use tokio::sync::watch::Receiver;
use tokio::time::sleep;

use crate::certificates::Bundle;

/// The delay after a request that failed.
const RETRY: Duration = Duration::from_secs(5);

/// The number of objects that are stored again at a time.
const AT_A_TIME: usize = 16;

/// What the CRD needs.
#[derive(Debug, PartialEq)]
enum Need {
    Nothing,
    /// This authority of its converter.
    Authority(Value),
    /// That all objects are stored as v2.
    Migration,
    /// A converter that is in this installation; the present one is at this address.
    Converter(String),
}

/// Corrects the CRD whenever it or the certificates in `bundle` change, until the end.
pub(crate) async fn keep(
    client: Client,
    namespace: String,
    mut bundle: Receiver<Bundle>,
    may_write: impl Fn() -> bool,
    end: Shutdown,
) {
    let api = Api::<CustomResourceDefinition>::all(client.clone());
    let mut states = objects::watch(api.clone(), SubNamespace::crd_name());
    let (mut crd, mut told) = (None, None);
    // Without an own certificate, nobody sends another bundle.
    let (mut is_sent, mut retry) = (true, None);
    loop {
        tokio::select! {
            state = states.next() => match state {
                Some(Ok(found)) => crd = found,
                Some(Err(_)) => continue,
                None => return,
            },
            sent = bundle.changed(), if is_sent => is_sent = sent.is_ok(),
            () = sleep(RETRY), if retry.is_some() => {}
            () = end.begun() => return,
        }
        retry = None;
        let Some(seen) = crd.as_ref().filter(|_| may_write()) else { continue };
        let trusted = bundle.borrow().clone();
        let corrected = match need(seen, &namespace, trusted.as_deref()) {
            Need::Nothing => Ok(()),
            Need::Authority(patch) => {
                api.patch(SubNamespace::crd_name(), &params(), &Patch::Merge(patch)).await.map(drop)
            }
            Need::Migration => migrate(&client, &api, seen).await,
            Need::Converter(other) => {
                if told.as_ref() != Some(&other) {
                    tracing::warn!(
                        converter = other,
                        "the CRD of SubNamespace names another converter; apply the definition of this installation"
                    );
                }
                told = Some(other);
                Ok(())
            }
        };
        if let Err(error) = corrected {
            tracing::warn!(
                error = error_text(&error),
                "could not correct the CRD of SubNamespace; trying again"
            );
            retry = Some(());
        }
    }
}

fn params() -> PatchParams {
    PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..PatchParams::default() }
}

/// What this CRD needs, in the order of urgency. Without `trusted`, another program writes the authority.
fn need(crd: &CustomResourceDefinition, namespace: &str, trusted: Option<&[u8]>) -> Need {
    if crd.metadata.deletion_timestamp.is_some() {
        return Need::Nothing;
    }
    let converter = crd.spec.conversion.as_ref().and_then(|it| it.webhook.as_ref());
    let client = converter.and_then(|it| it.client_config.as_ref());
    if let Some(client) = client {
        let service = client.service.as_ref();
        let is_ours = |it: &&_| is_webhook(it, namespace);
        let Some(_) = service.filter(is_ours) else { return Need::Converter(address(client)) };
        let is_trusted = |trusted: &[u8]| client.ca_bundle.as_ref().is_some_and(|it| it.0 == trusted);
        if let Some(trusted) = trusted.filter(|trusted| !is_trusted(trusted)) {
            let bundle = json!(ByteString(trusted.to_vec()));
            let webhook = json!({ "clientConfig": { "caBundle": bundle } });
            let metadata = json!({ "resourceVersion": crd.metadata.resource_version });
            return Need::Authority(
                json!({ "metadata": metadata, "spec": { "conversion": { "webhook": webhook } } }),
            );
        }
    }
    let stored = crd.status.as_ref().and_then(|it| it.stored_versions.as_deref()).unwrap_or_default();
    let is_v2 = |it: &str| it == Version::V2.name();
    let stores_v2 = crd.spec.versions.iter().any(|it| it.storage && is_v2(&it.name));
    if stores_v2 && stored.iter().any(|it| !is_v2(it)) { Need::Migration } else { Need::Nothing }
}

fn is_webhook(service: &ServiceReference, namespace: &str) -> bool {
    service.name == hns_api::names::WEBHOOK_SERVICE
        && service.namespace == namespace
        && service.path.as_deref() == Some(names::paths::CONVERT)
}

fn address(client: &WebhookClientConfig) -> String {
    match &client.service {
        Some(service) => {
            let path = service.path.as_deref().unwrap_or_default();
            format!("Service {}/{}, path {path:?}", service.namespace, service.name)
        }
        None => client.url.clone().unwrap_or_default(),
    }
}

/// Stores every object again. The API server writes an object that does not change if it is stored in another version.
async fn migrate(
    client: &Client,
    api: &Api<CustomResourceDefinition>,
    crd: &CustomResourceDefinition,
) -> Result<(), kube::Error> {
    let resource = SubNamespace::api_resource();
    let all = Api::<DynamicObject>::all_with(client.clone(), &resource);
    let place = |it: ObjectMeta| it.namespace.zip(it.name);
    let listed = all.list_metadata_in_pages(&ListParams::default(), place).await?;
    let count = listed.len();
    let writes = listed.into_iter().map(|(namespace, name)| {
        let api = Api::<DynamicObject>::namespaced_with(client.clone(), &namespace, &resource);
        async move { store_again(&api, &name).await }
    });
    stream::iter(writes).buffer_unordered(AT_A_TIME).try_collect::<()>().await?;
    let version = &crd.metadata.resource_version;
    let status = json!({ "storedVersions": [Version::V2.name()] });
    let patch = Patch::Merge(json!({ "metadata": { "resourceVersion": version }, "status": status }));
    api.patch_status(SubNamespace::crd_name(), &params(), &patch).await?;
    tracing::info!(objects = count, "all SubNamespaces are stored in version v2");
    Ok(())
}

/// A deleted object needs nothing, and one that another client has changed is stored.
async fn store_again(api: &Api<DynamicObject>, name: &str) -> Result<(), kube::Error> {
    match api.patch_metadata(name, &params(), &Patch::Merge(json!({}))).await {
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        written => written.map(drop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crd(change: impl FnOnce(&mut CustomResourceDefinition)) -> CustomResourceDefinition {
        let mut crd = hns_api::accurate::crd("here");
        crd.metadata.resource_version = Some("7".into());
        let status = json!({ "storedVersions": ["v2"], "acceptedNames": { "kind": "", "plural": "" } });
        crd.status = Some(serde_json::from_value(status).unwrap());
        change(&mut crd);
        crd
    }

    fn client(crd: &mut CustomResourceDefinition) -> &mut WebhookClientConfig {
        let conversion = crd.spec.conversion.as_mut().unwrap();
        conversion.webhook.as_mut().unwrap().client_config.as_mut().unwrap()
    }

    #[test]
    fn the_authority_comes_first_then_the_stored_versions() {
        let old = |crd: &mut CustomResourceDefinition| {
            crd.status.as_mut().unwrap().stored_versions = Some(vec!["v1".into(), "v2".into()]);
        };
        let authority = json!({ "metadata": { "resourceVersion": "7" }, "spec": { "conversion": { "webhook": {
            "clientConfig": { "caBundle": "UEVN" } } } } });
        let trusting = |crd: &mut CustomResourceDefinition| {
            client(crd).ca_bundle = Some(ByteString(b"PEM".to_vec()));
        };
        let pem = Some(&b"PEM"[..]);
        assert_eq!(need(&crd(old), "here", pem), Need::Authority(authority));
        let both = crd(|crd| {
            old(crd);
            trusting(crd);
        });
        assert_eq!(need(&both, "here", pem), Need::Migration);
        assert_eq!(need(&crd(trusting), "here", pem), Need::Nothing);
        assert_eq!(need(&crd(|_| {}), "here", None), Need::Nothing, "another program writes it");
        assert!(
            matches!(need(&both, "elsewhere", pem), Need::Converter(at) if at.starts_with("Service here/"))
        );
        let goes = crd(|crd| {
            old(crd);
            crd.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        });
        assert_eq!(need(&goes, "here", pem), Need::Nothing);
        let stores_v1 = crd(|crd| {
            old(crd);
            trusting(crd);
            crd.spec.versions.iter_mut().for_each(|it| it.storage = it.name == "v1");
        });
        assert_eq!(need(&stores_v1, "here", pem), Need::Nothing);
    }
}
