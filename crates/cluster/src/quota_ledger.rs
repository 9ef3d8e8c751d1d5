//! The ledger of hierarchical quotas ([`forest::hnc::quota::ledger`]) as a `ConfigMap` in the namespace of the installation.
//!
//! The webhook's replicas and the leading controller replace it by compare-and-swap: a write carries the version that it changes.

use forest::hnc::quota::Resources;
use forest::hnc::quota::ledger::{Ledger, Reservation};
use hns_api::names::{FIELD_MANAGER, QUOTA_LEDGER};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use kube::api::{Patch, PatchParams, PostParams};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::api::Api;

/// The key of the data.
const KEY: &str = "ledger.json";

/// A ledger, and the object that it was read from.
#[derive(Debug, Clone, Default)]
pub struct Stored {
    /// The ledger.
    pub ledger: Ledger,
    /// `uid` and `resourceVersion` of the object.
    metadata: ObjectMeta,
}

impl Stored {
    /// An object whose content is not known, to replace it.
    pub fn of(metadata: ObjectMeta) -> Self {
        Self { ledger: Ledger::default(), metadata: precondition(metadata) }
    }
}

/// The ledger in the cluster.
#[derive(Clone)]
pub struct LedgerStore(Api<ConfigMap>);

impl LedgerStore {
    /// The ledger of the installation in `namespace`.
    pub fn new(client: Client, namespace: &str) -> Self {
        Self(Api::namespaced(client, namespace))
    }

    /// The `ConfigMaps` in its namespace.
    pub fn api(&self) -> &Api<ConfigMap> {
        &self.0
    }

    /// Reads it.
    ///
    /// # Errors
    /// It cannot be read or understood.
    pub async fn read(&self) -> kube::Result<Stored> {
        parse(self.0.get(QUOTA_LEDGER).await?)
    }

    /// Replaces `stored`. Returns `None` if it has changed in the meantime.
    ///
    /// # Errors
    /// It cannot be written.
    pub async fn replace(&self, stored: &Stored, ledger: &Ledger) -> kube::Result<Option<Stored>> {
        let object = object(stored.metadata.clone(), ledger)?;
        match self.0.replace(QUOTA_LEDGER, &PostParams::default(), &object).await {
            Ok(written) => {
                let metadata = written.metadata;
                Ok(Some(Stored { ledger: ledger.clone(), metadata: precondition(metadata) }))
            }
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Creates it. An existing one stays as it is.
    ///
    /// # Errors
    /// It cannot be created.
    pub async fn create(&self, ledger: &Ledger) -> kube::Result<()> {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": QUOTA_LEDGER },
            "data": object(ObjectMeta::default(), ledger)?.data,
        });
        // Applied, because RBAC cannot limit the right to create objects to a name. A conflict means that another client has
        // written it.
        match self.0.patch(QUOTA_LEDGER, &PatchParams::apply(FIELD_MANAGER), &Patch::Apply(object)).await {
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            created => created.map(drop),
        }
    }
}

/// The ledger in an object. One without data contains none: the controller has not begun it.
///
/// # Errors
/// It cannot be understood.
pub fn parse(object: ConfigMap) -> kube::Result<Stored> {
    let text = object.data.as_ref().and_then(|data| data.get(KEY)).map_or("", String::as_str);
    let document: Document = serde_json::from_str(text).map_err(kube::Error::SerdeError)?;
    Ok(Stored { ledger: document.into(), metadata: precondition(object.metadata) })
}

fn object(metadata: ObjectMeta, ledger: &Ledger) -> kube::Result<ConfigMap> {
    let text = serde_json::to_string(&Document::from(ledger)).map_err(kube::Error::SerdeError)?;
    let metadata = ObjectMeta { name: Some(QUOTA_LEDGER.to_owned()), ..metadata };
    Ok(ConfigMap { metadata, data: Some([(KEY.to_owned(), text)].into()), ..ConfigMap::default() })
}

fn precondition(metadata: ObjectMeta) -> ObjectMeta {
    let ObjectMeta { uid, resource_version, labels, .. } = metadata;
    ObjectMeta { uid, resource_version, labels, ..ObjectMeta::default() }
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Document {
    floor: u64,
    reservations: Vec<Entry>,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    namespace: String,
    uid: String,
    version: u64,
    increase: std::collections::BTreeMap<String, String>,
}

impl From<&Ledger> for Document {
    fn from(ledger: &Ledger) -> Self {
        let text = |(name, amount): (&Box<str>, &forest::Quantity)| (name.to_string(), amount.to_string());
        let reservations = ledger.reservations.iter().map(|it| Entry {
            namespace: it.namespace.to_string(),
            uid: it.uid.to_string(),
            version: it.version,
            increase: it.increase.iter().map(text).collect(),
        });
        Self { floor: ledger.floor, reservations: reservations.collect() }
    }
}

impl From<Document> for Ledger {
    fn from(document: Document) -> Self {
        let amounts = |all: std::collections::BTreeMap<String, String>| -> Resources {
            all.into_iter().filter_map(|(name, text)| Some((name.into(), text.parse().ok()?))).collect()
        };
        let reservations = document.reservations.into_iter().map(|it| Reservation {
            namespace: it.namespace.as_str().into(),
            uid: it.uid.into(),
            version: it.version,
            increase: amounts(it.increase),
        });
        Self { floor: document.floor, reservations: reservations.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ledger_is_read_as_it_was_written() {
        let increase =
            [("pods".into(), "1".parse().unwrap()), ("cpu".into(), "1500m".parse().unwrap())].into();
        let reservation = Reservation { namespace: "a".into(), uid: "u".into(), version: 7, increase };
        let ledger = Ledger { floor: 5, reservations: vec![reservation] };
        let written = object(ObjectMeta::default(), &ledger).unwrap();
        assert_eq!(parse(written).unwrap().ledger, ledger);
        parse(ConfigMap::default()).unwrap_err();
    }
}
