//! Converts API objects to facts about Accurate's API.

use std::collections::{BTreeMap, BTreeSet};

use forest::accurate::{self, Fact, Settings, Stalled, SubNamespaceFact, SubNamespaceStatus};
use forest::{Applied, Hop, Kind, Name};
use hns_api::accurate::annotations::FROM;
use hns_api::accurate::labels::CREATED_BY;
use hns_api::accurate::{SubNamespaceSpec, conditions, names};
use hns_api::conditions::STATUS_TRUE;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};
use kube::core::DynamicObject;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::{finalizers, name, name_namespaces_of_subjects, namespace_of, pairs, version, writes, written};

/// The fact for a `SubNamespace`, with its namespace. Of an invalid one only the metadata is used, as of an invalid anchor.
pub fn sub_namespace(object: DynamicObject) -> (Name, SubNamespaceFact) {
    let DynamicObject { metadata, mut data, .. } = object;
    let spec: SubNamespaceSpec = read(&metadata, "spec", data["spec"].take());
    let status: hns_api::accurate::SubNamespaceStatus = read(&metadata, "status", data["status"].take());
    let fact = SubNamespaceFact {
        name: name(&metadata),
        version: version(&metadata),
        generation: metadata.generation.unwrap_or_default(),
        labels: pairs(spec.labels.as_ref()),
        annotations: pairs(spec.annotations.as_ref()),
        finalizers: finalizers(&metadata),
        terminating: metadata.deletion_timestamp.is_some(),
        status: shown(status),
    };
    (namespace_of(&metadata), fact)
}

/// The fact for a deleted `SubNamespace`, from its last state.
pub fn sub_namespace_gone(metadata: &ObjectMeta) -> Fact {
    Fact::SubNamespaceGone(namespace_of(metadata), name(metadata), version(metadata).uid)
}

fn read<T: DeserializeOwned + Default>(metadata: &ObjectMeta, field: &str, value: Value) -> T {
    let read: Result<Option<T>, _> = serde_json::from_value(value);
    read.unwrap_or_else(|error| {
        let (namespace, name) = (metadata.namespace.as_deref(), metadata.name.as_deref());
        tracing::warn!(namespace, name, field, %error, "invalid SubNamespace; this part of it is not used");
        None
    })
    .unwrap_or_default()
}

fn shown(status: hns_api::accurate::SubNamespaceStatus) -> SubNamespaceStatus {
    let is_stalled = |type_: &str, status: &str| type_ == conditions::STALLED && status == STATUS_TRUE;
    let stalled = status.conditions.into_iter().flatten().find(|it| is_stalled(&it.type_, &it.status));
    SubNamespaceStatus {
        observed_generation: status.observed_generation.unwrap_or_default(),
        stalled: stalled.map(|it| Stalled {
            reason: it.reason.into(),
            message: it.message.into(),
            observed_generation: it.observed_generation.unwrap_or_default(),
        }),
    }
}

/// The labels and annotations of a namespace that Accurate's field manager has applied. Those that it has created stay with the
/// namespace, whatever is applied later: it shares them with itself.
pub(super) fn applied(metadata: &ObjectMeta) -> Applied {
    let is_applied = |entry: &&ManagedFieldsEntry| {
        entry.manager.as_deref() == Some(names::FIELD_MANAGER) && entry.operation.as_deref() == Some("Apply")
    };
    let keys = |field: &str| -> [BTreeSet<Box<str>>; 2] {
        let (ours, others): (Vec<_>, Vec<_>) = metadata.managed_fields.iter().flatten().partition(is_applied);
        let keys = ours.into_iter().filter_map(|entry| written(entry, field)).flat_map(Map::keys);
        let applied: BTreeSet<Box<str>> =
            keys.filter_map(|key| key.strip_prefix("f:").map(Into::into)).collect();
        let is_set_too = |key: &str| others.iter().any(|entry| writes(entry, field, key));
        let shared = applied.iter().filter(|key| is_set_too(key)).cloned().collect();
        [applied, shared]
    };
    let [labels, shared_labels] = keys("f:labels");
    let [annotations, shared_annotations] = keys("f:annotations");
    Applied { labels, annotations, shared_labels, shared_annotations }
}

/// What an object says about its propagation.
pub(super) fn hop(
    kind: &Kind,
    settings: &Settings,
    metadata: &ObjectMeta,
    content: Option<&Map<String, Value>>,
) -> Option<Box<Hop>> {
    static NONE: BTreeMap<String, String> = BTreeMap::new();
    let mut named = content.filter(|_| kind.binds_subjects()).cloned();
    if let Some(content) = &mut named {
        name_namespaces_of_subjects(content, metadata.namespace.as_deref().unwrap_or_default());
    }
    let (labels, content) = (metadata.labels.as_ref().unwrap_or(&NONE), named.as_ref().or(content));
    let mut hop = accurate::content::hop(settings, kind, labels, metadata.annotations.as_ref()?, content)?;
    hop.bare = is_bare(settings, metadata);
    Some(hop)
}

/// Whether others have set nothing in the metadata that updates of a copy leave alone.
fn is_bare(settings: &Settings, metadata: &ObjectMeta) -> bool {
    let is_left = |key: &String| *key != *CREATED_BY && settings.label_excludes.matches(key);
    let is_noted = |key: &String| *key != *FROM && settings.annotation_excludes.matches(key);
    metadata.finalizers.iter().flatten().next().is_none()
        && metadata.owner_references.iter().flatten().next().is_none()
        && !metadata.labels.iter().flatten().any(|(key, _)| is_left(key))
        && !metadata.annotations.iter().flatten().any(|(key, _)| is_noted(key))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_sub_namespace_is_read_and_an_invalid_part_is_left_out() {
        let object = |spec: Value, status: Value| {
            let metadata = json!({
                "name": "child", "namespace": "root", "uid": "1", "resourceVersion": "2", "generation": 3,
                "finalizers": ["a/b"],
            });
            let object = json!({ "metadata": metadata, "spec": spec, "status": status });
            sub_namespace(serde_json::from_value(object).unwrap())
        };
        let condition = |type_: &str, status: &str| {
            json!({
                "type": type_, "status": status, "reason": "Conflict", "message": "m", "observedGeneration": 2,
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            })
        };
        let stalled = json!([condition("Other", "True"), condition("Stalled", "True")]);
        let (namespace, fact) = object(
            json!({ "labels": { "a": "b" } }),
            json!({ "observedGeneration": 2, "conditions": stalled }),
        );
        assert_eq!((&*namespace, &*fact.name, fact.generation), ("root", "child", 3));
        assert_eq!(fact.labels.iter().collect::<Vec<_>>(), [("a", "b")]);
        assert_eq!(fact.finalizers, [Box::from("a/b")]);
        let expected = Stalled { reason: "Conflict".into(), message: "m".into(), observed_generation: 2 };
        assert_eq!(fact.status, SubNamespaceStatus { observed_generation: 2, stalled: Some(expected) });

        let over = json!({ "conditions": [condition("Stalled", "False")] });
        let (_, fact) = object(json!({ "labels": 7 }), over);
        assert_eq!((fact.labels.iter().count(), fact.status), (0, SubNamespaceStatus::default()));
        assert_eq!(object(Value::Null, Value::Null).1.status, SubNamespaceStatus::default());
    }

    #[test]
    fn the_metadata_alone_says_that_an_object_is_a_copy() {
        let watches = vec![Kind::role()];
        let accurate = Settings { watches, ..Settings::default() };
        let settings = forest::Settings::new("hnc-system", [""; 0], ".*").unwrap();
        let metadata = ObjectMeta {
            annotations: Some([(FROM.to_owned(), "root".to_owned())].into()),
            ..ObjectMeta::default()
        };
        for (kind, accurate, from) in [
            (Kind::role(), Some(&accurate), Some("root")),
            (Kind::role(), None, None),
            (Kind::role_binding(), Some(&accurate), None),
        ] {
            let fact = crate::ingest::parts(&kind, (&settings, accurate), metadata.clone(), None);
            assert_eq!(fact.hop.and_then(|it| it.from).as_deref(), from);
        }
    }

    #[test]
    fn a_copy_is_bare_without_what_updates_leave_alone() {
        let keys = |pattern: &str| accurate::glob::Keys::new([pattern]).unwrap();
        let settings = Settings {
            label_excludes: keys("*kubernetes.io/*"),
            annotation_excludes: keys("*/*"),
            ..Settings::default()
        };
        let owner = json!({ "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "1" });
        for (metadata, expected) in [
            (
                json!({ "labels": { CREATED_BY: "accurate", "a": "b" }, "annotations": { FROM: "r", "n": "" } }),
                true,
            ),
            (json!({ "labels": { "kubernetes.io/x": "y" } }), false),
            (json!({ "annotations": { "x/y": "z" } }), false),
            (json!({ "finalizers": ["a/b"] }), false),
            (json!({ "ownerReferences": [owner] }), false),
        ] {
            let read: crate::api_object::ApiObject =
                serde_json::from_value(json!({ "metadata": metadata })).unwrap();
            assert_eq!(is_bare(&settings, &read.metadata), expected, "{metadata}");
        }
    }

    #[test]
    fn only_keys_that_were_applied_are_applied_again() {
        let entry = |manager: &str, operation: &str, key: &str| {
            json!({ "manager": manager, "operation": operation, "fieldsV1": { "f:metadata": {
                "f:labels": { key: {} }, "f:annotations": { ".": {}, "f:n": {} },
            } } })
        };
        let metadata = json!({ "managedFields": [
            entry("accurate-controller", "Apply", "f:a"),
            entry("accurate-controller", "Update", "f:b"),
            entry("kubectl", "Apply", "f:c"),
        ] });
        let applied = |metadata: &Value| applied(&serde_json::from_value(metadata.clone()).unwrap());
        let keys = |keys: &[&str]| keys.iter().map(|&key| key.into()).collect();
        let mut wanted = Applied {
            labels: keys(&["a"]),
            annotations: keys(&["n"]),
            shared_labels: keys(&[]),
            shared_annotations: keys(&["n"]),
        };
        assert_eq!(applied(&metadata), wanted);
        let mut shared = metadata;
        shared["managedFields"][1]["fieldsV1"]["f:metadata"]["f:labels"]["f:a"] = json!({});
        wanted.shared_labels = keys(&["a"]);
        assert_eq!(applied(&shared), wanted);
    }
}
