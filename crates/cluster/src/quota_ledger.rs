//! How the ledger of hierarchical quotas ([`forest::hnc::quota::ledger`]) is stored.

use forest::hnc::quota::Resources;
use forest::hnc::quota::ledger::{Ledger, Reservation};
use hns_api::names::QUOTA_LEDGER;
use serde::{Deserialize, Serialize};

use crate::stored::Content;

/// Without data there is none: the controller has not begun it.
impl Content for Ledger {
    const NAME: &'static str = QUOTA_LEDGER;
    const KEY: &'static str = "ledger.json";

    fn to_text(&self) -> serde_json::Result<String> {
        serde_json::to_string(&Document::from(self))
    }

    fn of_text(text: &str) -> serde_json::Result<Self> {
        serde_json::from_str::<Document>(text).map(Self::from)
    }
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
        let reservations = ledger.reservations.iter().map(|it| Entry {
            namespace: it.namespace.to_string(),
            uid: it.uid.to_string(),
            version: it.version,
            increase: it
                .increase
                .iter()
                .map(|(name, amount)| (name.to_string(), amount.to_string()))
                .collect(),
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
    use k8s_openapi::api::core::v1::ConfigMap;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

    use super::*;
    use crate::stored::{object, parse};

    #[test]
    fn a_ledger_is_read_as_it_was_written() {
        let increase =
            [("pods".into(), "1".parse().unwrap()), ("cpu".into(), "1500m".parse().unwrap())].into();
        let reservation = Reservation { namespace: "a".into(), uid: "u".into(), version: 7, increase };
        let ledger = Ledger { floor: 5, reservations: vec![reservation] };
        // Helm deletes with a release what has its label and its annotations.
        let metadata = ObjectMeta {
            name: Some(QUOTA_LEDGER.into()),
            labels: Some([("app.kubernetes.io/managed-by".into(), "Helm".into())].into()),
            annotations: Some([("meta.helm.sh/release-name".into(), "hns".into())].into()),
            ..ObjectMeta::default()
        };
        let written = object(metadata.clone(), &ledger).unwrap();
        let read = parse::<Ledger>(written.clone()).unwrap();
        assert_eq!(read.content, ledger);
        assert_eq!(object(read.metadata, &ledger).unwrap(), written);
        parse::<Ledger>(ConfigMap::default()).unwrap_err();
    }
}
