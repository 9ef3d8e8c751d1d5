//! An object of any kind, parsed without the fields that the product does not use.
//!
//! `managedFields` are half the size of many objects, and `status` changes often. Both are skipped during parsing,
//! except for the times of writes and the enforced limits of a quota, which saves memory and time.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    FieldsV1, ManagedFieldsEntry, ObjectMeta, OwnerReference, Time,
};
use kube::Resource;
use kube::core::{ApiResource, DynamicObject, DynamicResourceScope};
use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

/// The kind of an object whose metadata alone was requested.
const METADATA_ONLY: &str = "PartialObjectMetadata";

/// An object with its content, or only its metadata if only that was requested.
///
/// The metadata has the fields of [`Metadata`]; the others are empty.
#[derive(Debug, Clone)]
pub struct ApiObject {
    /// The metadata.
    pub metadata: ObjectMeta,
    /// `None` if only the metadata was requested.
    pub content: Option<RawContent>,
}

/// All top-level fields of an object except `apiVersion`, `kind` and the metadata, as text; of `status` only the object `hard`.
///
/// A value takes up to ten times the memory of its text, and a list can have many large objects. So each one is parsed when it is
/// used, and not before.
#[derive(Debug, Clone, Default)]
pub struct RawContent(BTreeMap<String, Box<RawValue>>);

impl RawContent {
    /// The fields, and whether one was nested too deeply to be parsed. It is left out.
    pub fn parse(&self) -> (Map<String, Value>, bool) {
        let parsed = self.0.iter().map(|(name, text)| (name, serde_json::from_str(text.get())));
        // It is JSON, or the object would not be.
        let fields: Map<String, Value> =
            parsed.filter_map(|(name, value)| Some((name.clone(), value.ok()?))).collect();
        let too_deep = fields.len() < self.0.len();
        (fields, too_deep)
    }
}

/// The fields of the metadata that are read.
#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<W> {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    generation: Option<i64>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
    finalizers: Option<Vec<String>>,
    owner_references: Option<Vec<OwnerReference>>,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
    deletion_grace_period_seconds: Option<i64>,
    managed_fields: Option<Vec<W>>,
}

/// The time of a write.
#[derive(serde::Deserialize)]
struct Written {
    #[serde(default, deserialize_with = "time_or_none")]
    time: Option<Time>,
}

/// A user can write times into `managedFields` that the API server accepts and `Time` cannot represent, such as those of the last
/// hours of the year 9999. They count as absent.
fn time_or_none<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Time>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    Ok(text.and_then(|text| text.parse().ok()).map(Time))
}

/// The fields of a status that are read.
#[derive(serde::Deserialize)]
#[serde(untagged)]
enum Status {
    Quota { hard: Map<String, Value> },
    Other(IgnoredAny),
}

impl<W: Into<ManagedFieldsEntry>> From<Metadata<W>> for ObjectMeta {
    fn from(read: Metadata<W>) -> Self {
        Self {
            name: read.name,
            namespace: read.namespace,
            uid: read.uid,
            resource_version: read.resource_version,
            generation: read.generation,
            labels: read.labels,
            annotations: read.annotations,
            finalizers: read.finalizers,
            owner_references: read.owner_references,
            creation_timestamp: read.creation_timestamp,
            deletion_timestamp: read.deletion_timestamp,
            deletion_grace_period_seconds: read.deletion_grace_period_seconds,
            managed_fields: read.managed_fields.map(|all| all.into_iter().map(Into::into).collect()),
            ..Self::default()
        }
    }
}

impl From<Written> for ManagedFieldsEntry {
    fn from(Written { time }: Written) -> Self {
        Self { time, ..Self::default() }
    }
}

/// The writes of labels and annotations. `fieldsV1` can be nested more deeply than a JSON value is parsed, so only these fields of
/// it are parsed.
#[derive(serde::Deserialize)]
struct LabelWrites {
    manager: Option<String>,
    operation: Option<String>,
    #[serde(default, deserialize_with = "time_or_none")]
    time: Option<Time>,
    #[serde(rename = "fieldsV1")]
    fields: Option<WrittenFields>,
}

#[derive(serde::Deserialize)]
struct WrittenFields {
    #[serde(rename = "f:metadata")]
    metadata: Option<WrittenMetadata>,
}

#[expect(clippy::zero_sized_map_values, reason = "only the keys of these objects are needed")]
#[derive(serde::Deserialize)]
struct WrittenMetadata {
    #[serde(rename = "f:labels", default)]
    labels: BTreeMap<String, IgnoredAny>,
    #[serde(rename = "f:annotations", default)]
    annotations: BTreeMap<String, IgnoredAny>,
}

impl From<LabelWrites> for ManagedFieldsEntry {
    fn from(LabelWrites { manager, operation, time, fields }: LabelWrites) -> Self {
        let named = |keys: BTreeMap<String, IgnoredAny>| -> Map<String, Value> {
            keys.into_keys().map(|key| (key, json!({}))).collect()
        };
        let fields = fields.and_then(|fields| fields.metadata).map(|WrittenMetadata { labels, annotations }| {
            FieldsV1(json!({ "f:metadata": { "f:labels": named(labels), "f:annotations": named(annotations) } }))
        });
        Self { manager, operation, time, fields_v1: fields, ..Self::default() }
    }
}

/// Parses an object or a list. If it is nested too deeply to be parsed, only the writes of labels and annotations are left of its
/// `managedFields`.
///
/// # Errors
/// It is not a `T`, or another field is nested too deeply.
pub(crate) fn parse<T: DeserializeOwned>(text: &str) -> serde_json::Result<T> {
    serde_json::from_str(text).or_else(|error| {
        let reduced: Reduced = serde_json::from_str(text).map_err(|_| error)?;
        serde_json::from_value(serde_json::to_value(reduced)?)
    })
}

/// An object with fewer `managedFields`, or a list of such objects.
#[derive(serde::Serialize, serde::Deserialize)]
struct Reduced {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    metadata: Option<ReducedMetadata>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    items: Option<Vec<Self>>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

#[derive(serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReducedMetadata {
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "label_writes")]
    managed_fields: Vec<ManagedFieldsEntry>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

fn label_writes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<ManagedFieldsEntry>, D::Error> {
    let writes = Option::<Vec<LabelWrites>>::deserialize(deserializer)?;
    Ok(writes.into_iter().flatten().map(Into::into).collect())
}

/// A namespace, hierarchy or anchor. A user can write any text into `managedFields`, so these objects are read at any depth.
#[derive(Debug, Clone)]
pub struct StructureObject {
    /// The metadata, with the writes of labels and annotations.
    pub metadata: ObjectMeta,
    /// `spec` and `status`.
    pub data: Value,
}

impl<'de> Deserialize<'de> for StructureObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(serde::Deserialize)]
        struct Object {
            metadata: Option<Metadata<LabelWrites>>,
            #[serde(default)]
            spec: Value,
            #[serde(default)]
            status: Value,
        }
        let Object { metadata, spec, status } = Object::deserialize(deserializer)?;
        let metadata = metadata.map(ObjectMeta::from).unwrap_or_default();
        Ok(Self { metadata, data: json!({ "spec": spec, "status": status }) })
    }
}

impl From<StructureObject> for DynamicObject {
    fn from(StructureObject { metadata, data }: StructureObject) -> Self {
        Self { types: None, metadata, data }
    }
}

impl<'de> Deserialize<'de> for ApiObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Fields)
    }
}

struct Fields;

impl<'de> Visitor<'de> for Fields {
    type Value = ApiObject;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a Kubernetes object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<ApiObject, A::Error> {
        let mut metadata = None;
        let mut content = RawContent::default();
        let mut only_metadata = false;
        while let Some(key) = fields.next_key::<String>()? {
            match key.as_str() {
                "metadata" => metadata = fields.next_value::<Option<Metadata<Written>>>()?,
                "kind" => only_metadata = fields.next_value::<Value>()? == METADATA_ONLY,
                "apiVersion" => drop(fields.next_value::<IgnoredAny>()?),
                "status" => {
                    let status: Box<RawValue> = fields.next_value()?;
                    if let Ok(Status::Quota { hard }) = serde_json::from_str(status.get()) {
                        let hard = to_raw_value(&json!({ "hard": hard })).map_err(A::Error::custom)?;
                        content.0.insert(key, hard);
                    }
                }
                _ => drop(content.0.insert(key, fields.next_value()?)),
            }
        }
        let metadata = metadata.map(ObjectMeta::from).unwrap_or_default();
        Ok(ApiObject { metadata, content: (!only_metadata).then_some(content) })
    }
}

/// The resource is known at run time only.
macro_rules! dynamic_resource {
    ($object:ty) => {
        impl Resource for $object {
            type DynamicType = ApiResource;
            type Scope = DynamicResourceScope;

            fn kind(resource: &ApiResource) -> Cow<'_, str> {
                resource.kind.as_str().into()
            }

            fn group(resource: &ApiResource) -> Cow<'_, str> {
                resource.group.as_str().into()
            }

            fn version(resource: &ApiResource) -> Cow<'_, str> {
                resource.version.as_str().into()
            }

            fn plural(resource: &ApiResource) -> Cow<'_, str> {
                resource.plural.as_str().into()
            }

            fn api_version(resource: &ApiResource) -> Cow<'_, str> {
                resource.api_version.as_str().into()
            }

            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

dynamic_resource!(ApiObject);
dynamic_resource!(StructureObject);

#[cfg(test)]
mod tests {
    use kube::core::ObjectList;
    use serde_json::json;

    use super::*;

    /// The API server accepts nesting that serde does not parse, and times that `Time` cannot represent. One such object must not
    /// end a list.
    #[test]
    fn deep_nesting_and_late_times_are_read() {
        let (open, close) = ("{\"f:x\":".repeat(500), "}".repeat(500));
        let text = format!(
            r#"{{"metadata":{{"name":"a","labels":{{"x":"","y":""}},"managedFields":[
                {{"manager":"m","time":"2026-01-01T00:00:00Z","fieldsV1":{open}{{}}{close}}},
                {{"manager":"n","time":"9999-12-31T23:59:59-23:59","fieldsV1":{{"f:metadata":{{"f:labels":{{"f:x":{open}{{}}{close}}}}}}}}}]}},
                "spec":{{"parent":"p"}}}}"#
        );
        let object: StructureObject = serde_json::from_str(&text).unwrap();
        assert_eq!(object.data["spec"], json!({ "parent": "p" }));
        let seen = crate::ingest::namespace(&object.metadata);
        assert_eq!(seen.foreign.labels, ["x", "y"].map(Box::from).into());

        let list =
            format!(r#"{{"kind":"NamespaceList","metadata":{{"continue":"x"}},"items":[{text},{text}]}}"#);
        let list: ObjectList<DynamicObject> = parse(&list).unwrap();
        assert_eq!((list.items.len(), list.metadata.continue_.as_deref()), (2, Some("x")));
        let read: DynamicObject = parse(&text).unwrap();
        assert_eq!(list.items[1], read);
        assert_eq!(read.data, json!({ "spec": { "parent": "p" } }));
        assert_eq!(crate::ingest::namespace(&read.metadata), seen);
        let text = format!(
            r#"{{"metadata":{{"name":"a"}},"status":{open}{{}}{close},"data":{{"k":"v"}},"spec":{open}{{}}{close}}}"#
        );
        let object: ApiObject = serde_json::from_str(&text).unwrap();
        let expected = json!({ "data": { "k": "v" } }).as_object().cloned().unwrap();
        assert_eq!(object.content.unwrap().parse(), (expected, true));
    }

    fn parsed(object: ApiObject) -> Option<Value> {
        object.content.map(|content| content.parse().0.into())
    }

    #[test]
    fn only_copied_and_compared_fields_are_read() {
        let object: ApiObject = serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "Secret", "type": "Opaque", "data": { "a": "Yg==" }, "immutable": true,
            "status": { "phase": "x" },
            "metadata": {
                "name": "s", "namespace": "a", "uid": "1", "resourceVersion": "7", "labels": { "l": "1" },
                "annotations": { "n": "2" }, "finalizers": ["f/g"], "deletionTimestamp": "2026-01-01T00:00:00Z",
                "managedFields": [
                    { "manager": "kubectl", "time": "2026-01-01T00:00:00Z", "fieldsV1": { "f:data": {} } },
                    { "time": "9999-12-31T23:59:59-23:59" }, { "time": null }, {},
                ],
                "generation": 4,
            },
        }))
        .unwrap();
        let metadata = &object.metadata;
        assert_eq!((metadata.name.as_deref(), metadata.namespace.as_deref()), (Some("s"), Some("a")));
        assert_eq!((metadata.uid.as_deref(), metadata.resource_version.as_deref()), (Some("1"), Some("7")));
        assert_eq!(
            (
                metadata.labels.as_ref().unwrap()["l"].as_str(),
                metadata.annotations.as_ref().unwrap()["n"].as_str()
            ),
            ("1", "2")
        );
        assert_eq!(metadata.finalizers, Some(vec!["f/g".to_owned()]));
        assert!(metadata.deletion_timestamp.is_some());
        let all = metadata.managed_fields.as_ref().unwrap();
        assert!(all[1..].iter().all(|it| it.time.is_none()));
        let written = &all[0];
        assert!(
            written.time == metadata.deletion_timestamp
                && written.fields_v1.is_none()
                && written.manager.is_none()
        );
        let content = json!({ "type": "Opaque", "data": { "a": "Yg==" }, "immutable": true });
        assert_eq!(parsed(object), Some(content));
    }

    #[test]
    fn the_enforced_limits_of_a_status_are_read() {
        let read = |status: Value| {
            let object = json!({ "kind": "ResourceQuota", "spec": {}, "status": status });
            parsed(serde_json::from_value(object).unwrap()).unwrap().get("status").cloned()
        };
        let hard = json!({ "hard": { "pods": "1" } });
        assert_eq!(read(json!({ "hard": { "pods": "1" }, "used": { "pods": "0" } })), Some(hard));
        for other in [json!({}), json!(null), json!("x"), json!([1]), json!({ "hard": "x" }), json!(7.5)] {
            assert_eq!(read(other.clone()), None, "{other}");
        }
    }

    #[test]
    fn metadata_alone_has_no_content() {
        let read = |kind| {
            let object = json!({ "kind": kind, "apiVersion": "meta.k8s.io/v1", "metadata": { "name": "s" } });
            parsed(serde_json::from_value(object).unwrap())
        };
        assert_eq!((read("PartialObjectMetadata"), read("Role")), (None, Some(json!({}))));
        // Items of a list have no kind.
        let item: ApiObject = serde_json::from_value(json!({ "metadata": null })).unwrap();
        assert_eq!((item.metadata.clone(), parsed(item)), (ObjectMeta::default(), Some(json!({}))));
    }
}
