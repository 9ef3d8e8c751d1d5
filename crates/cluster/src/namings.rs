//! How the list of [namings](forest::hnc::naming) is stored, and the anchors to compare it with.

use forest::accurate::keys::FINALIZER;
use forest::hnc::naming::{Naming, Namings};
use forest::{Name, keys};
use hns_api::accurate::SubNamespace;
use hns_api::names::MISSING_PARENTS;
use hns_api::{SubnamespaceAnchor, anchor_states};
use kube::api::ListParams;
use kube::core::{ObjectMeta, PartialObjectMeta};
use kube::{Client, Result};
use serde::{Deserialize, Serialize};

use crate::api::Api;
use crate::stored::{Content, Store, Stored};

impl Content for Namings {
    const NAME: &'static str = MISSING_PARENTS;
    const KEY: &'static str = "namings.json";

    fn to_text(&self) -> serde_json::Result<String> {
        let entry = |it: &Naming| Entry {
            parent: it.parent.to_string(),
            child: it.child.to_string(),
            consent_to: it.holders.iter().map(ToString::to_string).collect(),
            review: it.review.to_string(),
            since: it.since.to_string(),
        };
        serde_json::to_string(&self.0.iter().map(entry).collect::<Vec<_>>())
    }

    fn of_text(text: &str) -> serde_json::Result<Self> {
        let entries: Vec<Entry> = if text.is_empty() { Vec::new() } else { serde_json::from_str(text)? };
        let naming = |it: Entry| Naming {
            parent: it.parent.as_str().into(),
            child: it.child.as_str().into(),
            holders: it.consent_to.iter().map(|it| it.as_str().into()).collect(),
            review: it.review.into(),
            since: it.since.into(),
        };
        Ok(Self(entries.into_iter().map(naming).collect()))
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    parent: String,
    child: String,
    consent_to: Vec<String>,
    review: String,
    since: String,
}

/// Reads the list. Without the object it is empty: no webhook has added anything.
///
/// # Errors
/// It cannot be read or understood.
pub async fn read(store: &Store) -> Result<Stored<Namings>> {
    match store.read().await {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(Stored::default()),
        read => read,
    }
}

/// The namespaces with an anchor of this name that may still create its namespace, read live.
///
/// # Errors
/// They cannot be listed.
pub async fn holders_of_waiting(client: &Client, name: &str) -> Result<Vec<Name>> {
    let named = ListParams::default().fields(&format!("metadata.name={name}"));
    let anchors = Api::<SubnamespaceAnchor>::all(client.clone()).list(&named).await?.items;
    let waiting = anchors.into_iter().filter(may_create);
    Ok(waiting.filter_map(|it| it.metadata.namespace).map(|it| it.as_str().into()).collect())
}

/// The namespaces with a `SubNamespace` of this name that may still create its namespace, read live.
///
/// # Errors
/// They cannot be listed.
pub async fn holders_of_sub_namespaces(client: &Client, name: &str) -> Result<Vec<Name>> {
    let named = ListParams::default().fields(&format!("metadata.name={name}"));
    let all = Api::<PartialObjectMeta<SubNamespace>>::all(client.clone());
    let waiting = all.list_metadata_in_pages(&named, |form| {
        let creates_nothing = is_released(&form, FINALIZER);
        form.namespace.filter(|_| !creates_nothing).map(|it| it.as_str().into())
    });
    waiting.await
}

/// An anchor that shows `Conflict` creates nothing.
fn may_create(anchor: &SubnamespaceAnchor) -> bool {
    anchor.state() != Some(anchor_states::CONFLICT) && !is_released(&anchor.metadata, keys::ANCHOR_FINALIZER)
}

/// Whether the object is being deleted, and the controller has removed its finalizer: no creation is under way.
fn is_released(metadata: &ObjectMeta, finalizer: &str) -> bool {
    metadata.deletion_timestamp.is_some() && !metadata.finalizers.iter().flatten().any(|it| it == finalizer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_anchor_waits_until_it_shows_a_conflict_or_is_released_at_its_end() {
        let waits = |metadata: serde_json::Value, state: &str| {
            let object =
                serde_json::json!({ "metadata": metadata, "spec": {}, "status": { "status": state } });
            may_create(&serde_json::from_value(object).unwrap())
        };
        let ends = |finalizers: &[&str]| serde_json::json!({ "name": "p", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": finalizers });
        assert!(waits(serde_json::json!({ "name": "p" }), "Missing"));
        assert!(!waits(serde_json::json!({ "name": "p" }), "Conflict"));
        assert!(waits(ends(&["x.y/z", "hnc.x-k8s.io"]), "Ok"));
        assert!(!waits(ends(&["x.y/z"]), "Ok"));
    }

    #[test]
    fn a_list_is_read_as_it_was_written_and_no_text_is_an_empty_one() {
        let naming = Naming {
            parent: "p".into(),
            child: "y".into(),
            holders: vec!["x".into()],
            review: "1".into(),
            since: "2026-01-01T00:00:00Z".into(),
        };
        let list = Namings(vec![naming]);
        assert_eq!(Namings::of_text(&list.to_text().unwrap()).unwrap(), list);
        assert_eq!(Namings::of_text("").unwrap(), Namings::default());
        Namings::of_text("{}").unwrap_err();
    }
}
