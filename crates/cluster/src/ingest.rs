//! Converts API objects to facts.
//!
//! Every object gives a fact. An invalid object gives a fact that says so: if it were skipped, the forest would keep
//! its former state or would treat it as deleted at the next list.

pub mod accurate;
pub mod quotas;
pub mod request_object;

use std::collections::{BTreeMap, BTreeSet};

use forest::exceptions::Exceptions;
use forest::exclusion::{TOO_DEEP, Traits, exclusion};
use forest::hnc;
use forest::{
    AnchorFact, Canonical, Condition, Fact, Foreign, HierarchyFact, HierarchyStatus, Kind, KnownContent,
    Labels, Name, NamespaceFact, ObjectFact, Settings, Version, keys,
};
use hns_api::names::{FIELD_MANAGER, HNC_FIELD_MANAGER};
use hns_api::{
    HierarchyConfigurationSpec, HierarchyConfigurationStatus, KeyValue, SubnamespaceAnchorSpec, annotations,
    labels,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};
use kube::core::DynamicObject;
use serde_json::{Map, Value};

use crate::api_object::ApiObject;

/// The fact for a namespace, from its metadata.
pub fn namespace(metadata: &ObjectMeta) -> NamespaceFact {
    NamespaceFact {
        name: name(metadata),
        version: version(metadata),
        labels: pairs(metadata.labels.as_ref()),
        annotations: pairs(metadata.annotations.as_ref()),
        foreign: Foreign {
            labels: foreign(metadata, metadata.labels.as_ref(), "f:labels"),
            annotations: foreign(metadata, metadata.annotations.as_ref(), "f:annotations"),
        },
        applied: accurate::applied(metadata),
        terminating: metadata.deletion_timestamp.is_some(),
    }
}

/// The keys that have an owner other than HNC and this controller. Keys of the product's own group are not checked.
fn foreign(metadata: &ObjectMeta, map: Option<&BTreeMap<String, String>>, field: &str) -> BTreeSet<Box<str>> {
    let is_ours = |entry: &ManagedFieldsEntry| {
        matches!(entry.manager.as_deref(), Some(FIELD_MANAGER | HNC_FIELD_MANAGER))
    };
    let is_foreign = |key: &&String| {
        let mut writers =
            metadata.managed_fields.iter().flatten().filter(|it| writes(it, field, key)).peekable();
        writers.peek().is_none() || !writers.all(is_ours)
    };
    let keys = map.into_iter().flat_map(BTreeMap::keys).filter(|key| !key.contains(hns_api::GROUP));
    keys.filter(is_foreign).map(|key| key.as_str().into()).collect()
}

/// The labels or the annotations that an entry of `managedFields` is about, with their prefix `f:`.
fn written<'a>(entry: &'a ManagedFieldsEntry, field: &str) -> Option<&'a Map<String, Value>> {
    entry.fields_v1.as_ref()?.0["f:metadata"][field].as_object()
}

/// Whether an entry of `managedFields` is about this label or annotation.
fn writes(entry: &ManagedFieldsEntry, field: &str, key: &str) -> bool {
    written(entry, field).is_some_and(|fields| fields.contains_key(&format!("f:{key}")))
}

/// Labels or annotations.
pub fn pairs(map: Option<&BTreeMap<String, String>>) -> Labels {
    map.into_iter().flatten().map(|(key, value)| (key.as_str(), value.as_str())).collect()
}

fn listed(pairs: Option<Vec<KeyValue>>) -> Labels {
    pairs.into_iter().flatten().map(|pair| (pair.key, pair.value)).collect()
}

fn finalizers(metadata: &ObjectMeta) -> Vec<Box<str>> {
    metadata.finalizers.iter().flatten().map(|it| it.as_str().into()).collect()
}

/// The fact for a `HierarchyConfiguration`, with its namespace. An invalid spec gives a fact that is marked as
/// unreadable; an invalid status gives a fact without status, so that the status is written again.
pub fn hierarchy(object: DynamicObject) -> (Name, HierarchyFact) {
    let DynamicObject { metadata, mut data, .. } = object;
    let namespace = namespace_of(&metadata);
    let status: Option<HierarchyConfigurationStatus> =
        serde_json::from_value(data["status"].take()).unwrap_or_default();
    let mut fact = parse_hierarchy(data).unwrap_or_else(|error| {
        tracing::warn!(%namespace, %error, "invalid HierarchyConfiguration; its namespace is frozen");
        HierarchyFact { unreadable: Some(error.to_string().into()), ..HierarchyFact::default() }
    });
    fact.status = hierarchy_status(&status.unwrap_or_default());
    fact.version = version(&metadata);
    fact.finalizers = finalizers(&metadata);
    fact.terminating = metadata.deletion_timestamp.is_some();
    (namespace, fact)
}

fn parse_hierarchy(mut data: Value) -> Result<HierarchyFact, serde_json::Error> {
    let spec: Option<HierarchyConfigurationSpec> = serde_json::from_value(data["spec"].take())?;
    let spec = spec.unwrap_or_default();
    Ok(HierarchyFact {
        parent: spec.parent.filter(|parent| !parent.is_empty()).map(Name::from),
        allow_cascading_deletion: spec.allow_cascading_deletion.unwrap_or(false),
        labels: listed(spec.labels),
        annotations: listed(spec.annotations),
        ..HierarchyFact::default()
    })
}

/// The fact for a `SubnamespaceAnchor`, with its namespace. Of an invalid anchor only the metadata is used: its
/// subnamespace gets no labels or annotations from it.
pub fn anchor(object: DynamicObject) -> (Name, AnchorFact) {
    let DynamicObject { metadata, mut data, .. } = object;
    let namespace = namespace_of(&metadata);
    let spec: Result<Option<SubnamespaceAnchorSpec>, _> = serde_json::from_value(data["spec"].take());
    let spec = spec.unwrap_or_else(|error| {
        let name = metadata.name.as_deref();
        tracing::warn!(%namespace, name, %error, "invalid SubnamespaceAnchor; its labels are not used");
        None
    });
    let SubnamespaceAnchorSpec { labels, annotations } = spec.unwrap_or_default();
    let fact = AnchorFact {
        name: name(&metadata),
        version: version(&metadata),
        labels: listed(labels),
        annotations: listed(annotations),
        initial_admin: metadata
            .annotations
            .as_ref()
            .and_then(|it| it.get(annotations::INITIAL_ADMIN))
            .map(|user| user.as_str().into()),
        state: data["status"]["status"].as_str().map(Into::into),
        finalizers: finalizers(&metadata),
        terminating: metadata.deletion_timestamp.is_some(),
    };
    (namespace, fact)
}

/// The fact for a deleted anchor, from its last state.
pub fn anchor_gone(object: DynamicObject) -> Fact {
    let metadata = object.metadata;
    Fact::Hnc(hnc::Fact::AnchorGone(namespace_of(&metadata), name(&metadata), version(&metadata).uid))
}

/// The fact for a deleted anchor on the leading controller. The API server deletes an anchor in spite of its finalizer
/// if the deletion request had read the anchor before the finalizer was added. Such an anchor is treated as one that is
/// being deleted, so that its subnamespace is deleted as well. [`hnc::Fact::AnchorGone`] follows when the finalizer is
/// removed.
pub fn deleted_anchor_with_finalizer(object: DynamicObject) -> Fact {
    let is_held = finalizers(&object.metadata).iter().any(|it| **it == *keys::ANCHOR_FINALIZER);
    if !is_held || object.metadata.deletion_timestamp.is_some() {
        return anchor_gone(object);
    }
    let (namespace, seen) = anchor(object);
    Fact::Hnc(hnc::Fact::Anchor(namespace, AnchorFact { terminating: true, ..seen }))
}

fn hierarchy_status(status: &HierarchyConfigurationStatus) -> HierarchyStatus {
    HierarchyStatus {
        children: status.children.iter().map(|child| Name::from(child.as_str())).collect(),
        conditions: status.conditions.iter().map(condition).collect(),
    }
}

fn condition(condition: &hns_api::Condition) -> Condition {
    Condition {
        type_: condition.type_.as_str().into(),
        reason: condition.reason.as_str().into(),
        message: condition.message.as_str().into(),
        since: Some(condition.last_transition_time.0.to_string().into()),
    }
}

/// The fact for an object of a propagated kind, from its metadata and, if the stream delivers it, its content. What the object
/// says about its propagation in Accurate's way is read if that API is enabled. An object that is nested too deeply is not
/// propagated at all.
pub fn api_object(
    kind: &Kind,
    (settings, accurate): (&Settings, Option<&forest::accurate::Settings>),
    seen: ApiObject,
) -> ObjectFact {
    let (content, too_deep) = seen.content.map(|content| content.parse()).unzip();
    let too_deep = too_deep.unwrap_or_default();
    let accurate = accurate.filter(|_| !too_deep);
    let fact = parts(kind, (settings, accurate), seen.metadata, content);
    let excluded = too_deep.then(|| TOO_DEEP.into()).or(fact.excluded);
    ObjectFact { excluded, ..fact }
}

/// The same for parts of an object.
pub fn parts(
    kind: &Kind,
    (settings, accurate): (&Settings, Option<&forest::accurate::Settings>),
    metadata: ObjectMeta,
    content: Option<Map<String, Value>>,
) -> ObjectFact {
    let hop = accurate.and_then(|accurate| accurate::hop(kind, accurate, &metadata, content.as_ref()));
    ObjectFact { hop, ..object(kind, settings, metadata, content) }
}

/// The same without what the object says in Accurate's way.
pub fn object(
    kind: &Kind,
    settings: &Settings,
    metadata: ObjectMeta,
    mut content: Option<Map<String, Value>>,
) -> ObjectFact {
    if let Some(content) = content.as_mut().filter(|_| kind.binds_subjects()) {
        name_namespaces_of_subjects(content, metadata.namespace.as_deref().unwrap_or_default());
    }
    let label = |key: &str| metadata.labels.as_ref()?.get(key).map(String::as_str);
    let annotation = |key: &str| metadata.annotations.as_ref()?.get(key).map(String::as_str);
    let traits = Traits {
        kind,
        name: metadata.name.as_deref().unwrap_or_default(),
        secret_type: content.as_ref().and_then(|content| content.get("type")).and_then(Value::as_str),
        is_terminating: metadata.deletion_timestamp.is_some(),
        has_finalizers: metadata.finalizers.as_ref().is_some_and(|finalizers| !finalizers.is_empty()),
        label: &label,
        annotation: &annotation,
    };
    let pairs = metadata.annotations.iter().flatten().map(|(key, value)| (key.as_str(), value.as_str()));
    let mut fact = ObjectFact {
        namespace: namespace_of(&metadata),
        name: name(&metadata),
        version: version(&metadata),
        terminating: metadata.deletion_timestamp.is_some(),
        excluded: exclusion(settings, &traits).map(Into::into),
        exceptions: Exceptions::of(pairs).map(Box::new),
        inherited_from: label(labels::INHERITED_FROM).map(Name::from),
        role: content.as_ref().filter(|_| kind.binds_subjects()).and_then(role_bound),
        hop: None,
        content: None,
    };
    let is_copy = fact.inherited_from.is_some();
    fact.content = content.map(|body| {
        let in_force = in_force(kind, &body);
        KnownContent { in_force, ..KnownContent::whole(canonical(settings, metadata, body, is_copy)) }
    });
    fact
}

/// A `ServiceAccount` without a namespace is one of the binding's namespace. In a copy of the binding it would be another one,
/// which users below could create.
fn name_namespaces_of_subjects(content: &mut Map<String, Value>, namespace: &str) {
    let subjects = content.get_mut("subjects").and_then(Value::as_array_mut);
    for subject in subjects.into_iter().flatten().filter_map(Value::as_object_mut) {
        let is_account = subject.get("kind").is_some_and(|kind| kind == "ServiceAccount");
        if is_account && subject.get("namespace").is_none_or(|it| it.as_str().is_none_or(str::is_empty)) {
            subject.insert("namespace".to_owned(), namespace.into());
        }
    }
}

/// The name of the Role that a `RoleBinding` refers to; `None` for a `ClusterRole`.
fn role_bound(content: &Map<String, Value>) -> Option<Name> {
    let role = content.get("roleRef").filter(|role| role["kind"] != "ClusterRole")?;
    role["name"].as_str().map(Name::from)
}

/// Whether a quota is in force, which its status shows.
fn in_force(kind: &Kind, body: &Map<String, Value>) -> bool {
    let hard = |field: &str| body.get(field)?.get("hard")?.as_object().filter(|hard| !hard.is_empty());
    !kind.is_quota() || hard("spec") == hard("status")
}

/// The fields that are copied and compared. Fields that copies do not have are removed from sources, so that a copy
/// that has them is corrected; fields that propagation ignores are removed from both.
fn canonical(
    settings: &Settings,
    metadata: ObjectMeta,
    body: Map<String, Value>,
    is_copy: bool,
) -> Canonical {
    let mut labels = metadata.labels.unwrap_or_default();
    let mut annotations = metadata.annotations.unwrap_or_default();
    labels.retain(|key, _| !settings.is_ignored_key(key));
    annotations.retain(|key, _| !settings.is_ignored_key(key));
    if is_copy {
        return Canonical::new(labels, annotations, body);
    }
    annotations.retain(|key, _| !settings.unpropagated_annotations.matches(key));
    Canonical::new(labels, annotations, body)
        .as_copy()
        .without_labels(|key| settings.unpropagated_labels.matches(key))
}

/// The version of an object.
pub fn version(metadata: &ObjectMeta) -> Version {
    let text = |value: &Option<String>| value.as_deref().unwrap_or_default().into();
    Version { uid: text(&metadata.uid), resource_version: text(&metadata.resource_version) }
}

/// The name of an object.
pub fn name(metadata: &ObjectMeta) -> Name {
    metadata.name.as_deref().unwrap_or_default().into()
}

/// The namespace of an object; empty for cluster-scoped objects.
pub fn namespace_of(metadata: &ObjectMeta) -> Name {
    metadata.namespace.as_deref().unwrap_or_default().into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(spec: &Value, status: &Value) -> HierarchyFact {
        let object = json!({
            "metadata": { "name": "hierarchy", "namespace": "a", "uid": "1", "resourceVersion": "2" },
            "spec": spec, "status": status,
        });
        hierarchy(serde_json::from_value(object).unwrap()).1
    }

    #[test]
    fn a_quota_is_in_force_when_its_status_says_so() {
        let kind = |kind: &str, resource: &str| Kind {
            group: String::new(),
            version: "v1".into(),
            kind: kind.into(),
            resource: resource.into(),
        };
        let settings = Settings::new("hnc-system", [""; 0], ".*").unwrap();
        let seen = |kind: &Kind, body: Value| {
            let body = body.as_object().cloned();
            object(kind, &settings, ObjectMeta::default(), body).content.unwrap()
        };
        let quota = kind("ResourceQuota", "resourcequotas");
        let one = json!({ "hard": { "pods": "1" } });
        for (spec, status, in_force) in [
            (one.clone(), one.clone(), true),
            (one.clone(), json!({ "hard": { "pods": "2" } }), false),
            (one.clone(), json!({}), false),
            (json!({ "hard": {} }), json!({}), true),
            (json!({}), json!({}), true),
        ] {
            let body = json!({ "spec": spec, "status": status });
            assert_eq!(seen(&quota, body.clone()).in_force, in_force, "{body}");
            assert_eq!(seen(&quota, body).digest, seen(&quota, json!({ "spec": spec })).digest, "no content");
        }
        let limits = json!({ "spec": one });
        assert!(seen(&kind("LimitRange", "limitranges"), limits).in_force);
    }

    #[test]
    fn an_anchor_deleted_in_spite_of_its_finalizer_is_being_deleted() {
        let ends = |finalizers: &[&str], deleted: Value| {
            let metadata = json!({ "namespace": "a", "name": "b", "uid": "7", "finalizers": finalizers, "deletionTimestamp": deleted });
            let object = json!({ "apiVersion": hns_api::API_VERSION, "kind": "SubnamespaceAnchor", "metadata": metadata });
            deleted_anchor_with_finalizer(serde_json::from_value(object).unwrap())
        };
        let held = &[keys::ANCHOR_FINALIZER][..];
        let fact = ends(held, Value::Null);
        assert!(matches!(&fact, Fact::Hnc(hnc::Fact::Anchor(_, seen)) if seen.terminating), "{fact:?}");
        for (finalizers, deleted) in
            [(held, json!("2026-01-01T00:00:00Z")), (&[], Value::Null), (&["other"], Value::Null)]
        {
            let fact = ends(finalizers, deleted);
            assert!(
                matches!(&fact, Fact::Hnc(hnc::Fact::AnchorGone(_, _, uid)) if **uid == *"7"),
                "{fact:?}"
            );
        }
    }

    #[test]
    fn keys_are_ours_unless_another_manager_owns_them() {
        let wrote = |manager: &str, labels: &[&str], annotations: &[&str]| {
            let set = |keys: &[&str]| -> Value {
                keys.iter().map(|key| (format!("f:{key}"), json!({}))).collect::<Map<_, _>>().into()
            };
            let fields =
                json!({ "f:metadata": { "f:labels": set(labels), "f:annotations": set(annotations) } });
            json!({ "manager": manager, "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": fields })
        };
        let metadata = json!({
            "name": "a",
            "labels": { "x/ours": "", "x/hncs": "", "x/both": "", "x/theirs": "", "x/lost": "", "hnc.x-k8s.io/a": "" },
            "annotations": { "x/ours": "", "x/theirs": "" },
            "managedFields": [
                wrote("hns-controller", &["x/ours", "x/both"], &["x/ours"]),
                wrote("manager", &["x/hncs"], &[]),
                wrote("kubectl-label", &["x/both", "x/theirs"], &["x/theirs"]),
                { "manager": "kubelet", "operation": "Update" },
            ],
        });
        let seen = namespace(&serde_json::from_value(metadata).unwrap()).foreign;
        assert_eq!(seen.labels, ["x/both", "x/lost", "x/theirs"].map(Box::from).into());
        assert_eq!(seen.annotations, [Box::from("x/theirs")].into());
    }

    #[test]
    fn the_status_of_an_invalid_spec_is_read() {
        let status = json!({ "conditions": [{
            "type": "ActivitiesHalted", "status": "True", "reason": "Unreadable", "message": "no",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]});
        for spec in [json!("b"), json!({ "parent": 5 }), json!({ "labels": 7 })] {
            let fact = read(&spec, &status);
            assert!(fact.unreadable.is_some() && fact.parent.is_none(), "{spec}");
            assert_eq!(fact.status, read(&json!({}), &status).status, "{spec}");
            assert_eq!(fact.status.conditions.len(), 1, "{spec}");
        }
    }

    #[test]
    fn the_role_of_a_binding_is_read_from_its_content() {
        let role = |kind: &Kind, content: Option<Value>| {
            let settings = Settings::new("hnc-system", [""; 0], ".*").unwrap();
            let content = content.map(|content| content.as_object().cloned().unwrap());
            object(kind, &settings, ObjectMeta::default(), content).role
        };
        let binds = |kind: &str| json!({ "roleRef": { "kind": kind, "name": "r" }, "subjects": [] });
        let (bindings, roles) = (Kind::role_binding(), Kind::role());
        assert_eq!(role(&bindings, Some(binds("Role"))).as_deref(), Some("r"));
        assert_eq!(role(&bindings, Some(binds("ClusterRole"))), None);
        assert_eq!(role(&bindings, Some(json!({}))), None);
        assert_eq!(role(&bindings, None), None);
        assert_eq!(role(&roles, Some(binds("Role"))), None);
    }

    #[test]
    fn a_service_account_without_a_namespace_is_of_the_sources_namespace() {
        let settings = Settings::new("hnc-system", [""; 0], ".*").unwrap();
        let digest = |namespace: &str, subject: Value| {
            let metadata = ObjectMeta { namespace: Some(namespace.into()), ..ObjectMeta::default() };
            let content = json!({ "subjects": [subject] }).as_object().cloned();
            object(&Kind::role_binding(), &settings, metadata, content).content.unwrap().digest
        };
        let account =
            |namespace: Value| json!({ "kind": "ServiceAccount", "name": "ci", "namespace": namespace });
        let here = digest("a", json!({ "kind": "ServiceAccount", "name": "ci" }));
        assert_eq!([digest("a", account(json!("a"))), digest("b", account(json!("a")))], [here; 2]);
        assert_eq!(digest("a", account(json!(""))), here);
        assert_ne!(
            digest("b", json!({ "kind": "ServiceAccount", "name": "ci" })),
            here,
            "a copy as HNC writes it"
        );
        let user = json!({ "kind": "User", "name": "ann" });
        assert_eq!(digest("a", user.clone()), digest("b", user), "users have no namespace");
    }

    #[test]
    fn an_invalid_status_is_ignored() {
        for status in [json!(5), json!({ "conditions": "?" }), json!({ "children": [1] })] {
            let fact = read(&json!({ "parent": "b" }), &status);
            assert_eq!((fact.unreadable, fact.parent.as_deref()), (None, Some("b")), "{status}");
            assert_eq!(fact.status, HierarchyStatus::default());
        }
    }
}
