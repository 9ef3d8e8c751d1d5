//! The definition of Accurate's kind equals, field by field, the one that Accurate's clients were written for.

use hns_api::accurate::{SubNamespace, crd};
use serde_json::{Value, json};

fn definition() -> Value {
    serde_json::to_value(crd("a-namespace")).expect("definitions are plain data")
}

fn at<'a>(value: &'a Value, pointer: &str) -> &'a Value {
    value.pointer(pointer).unwrap_or(&Value::Null)
}

#[test]
fn of_accurate() {
    let definition = definition();
    for (pointer, expected) in [
        ("/metadata", json!({ "name": "subnamespaces.accurate.cybozu.com" })),
        ("/spec/group", json!("accurate.cybozu.com")),
        ("/spec/scope", json!("Namespaced")),
        (
            "/spec/names",
            json!({
                "kind": "SubNamespace",
                "listKind": "SubNamespaceList",
                "plural": "subnamespaces",
                "singular": "subnamespace",
            }),
        ),
        (
            "/spec/conversion",
            json!({
                "strategy": "Webhook",
                "webhook": {
                    "clientConfig": {
                        "service": {
                            "name": "hnc-webhook-service",
                            "namespace": "a-namespace",
                            "path": "/convert",
                            "port": 443,
                        },
                    },
                    "conversionReviewVersions": ["v1"],
                },
            }),
        ),
        ("/spec/versions/3", Value::Null),
    ] {
        assert_eq!(at(&definition, pointer), &expected, "{pointer}");
    }
}

#[test]
fn each_version_has_its_fields() {
    let definition = definition();
    let texts = json!({ "type": "object", "additionalProperties": { "type": "string" } });
    let v1_status = json!({ "type": "string", "enum": ["ok", "conflict"] });
    let conditions = json!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["lastTransitionTime", "message", "reason", "status", "type"],
            "properties": {
                "lastTransitionTime": { "type": "string", "format": "date-time" },
                "message": { "type": "string", "maxLength": 32768 },
                "observedGeneration": { "type": "integer", "format": "int64", "minimum": 0.0 },
                "reason": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 1024,
                    "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                },
                "status": { "type": "string", "enum": ["True", "False", "Unknown"] },
                "type": {
                    "type": "string",
                    "maxLength": 316,
                    "pattern": r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
                },
            },
        },
    });
    let status = json!({
        "type": "object",
        "properties": {
            "observedGeneration": { "type": "integer", "format": "int64" },
            "conditions": conditions,
        },
    });
    let subresources = json!({ "status": {} });
    for (index, (name, is_v2, subresources, status)) in [
        ("v1", false, &Value::Null, &v1_status),
        ("v2", true, &subresources, &status),
        ("v2alpha1", false, &subresources, &status),
    ]
    .into_iter()
    .enumerate()
    {
        let version = at(&definition, &format!("/spec/versions/{index}"));
        assert_eq!(version["name"], name);
        assert_eq!((&version["served"], &version["storage"]), (&json!(is_v2), &json!(is_v2)), "{name}");
        assert_eq!(at(version, "/subresources"), subresources, "{name}");
        assert_eq!(at(version, "/additionalPrinterColumns"), &Value::Null, "{name}");
        let mut schema = version["schema"]["openAPIV3Schema"].clone();
        take_descriptions(name, &mut schema);
        let expected = json!({
            "type": "object",
            "properties": {
                "apiVersion": { "type": "string" },
                "kind": { "type": "string" },
                "metadata": { "type": "object" },
                "spec": { "type": "object", "properties": { "annotations": texts, "labels": texts } },
                "status": status,
            },
        });
        assert_eq!(schema, expected, "{name}");
    }
}

/// Removes the descriptions of the fields. Each is at most 220 characters long, and only metadata and what is below a list or a
/// map has none.
fn take_descriptions(path: &str, schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else { return };
    if let Some(description) = fields.remove("description") {
        let length = description.as_str().expect("descriptions are texts").chars().count();
        assert!((1..=220).contains(&length), "{path}: {length}");
    } else {
        let is_open = path.ends_with("metadata") || path.ends_with('*');
        assert!(is_open, "{path} has no description");
    }
    for (name, property) in fields.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten()
    {
        take_descriptions(&format!("{path}.{name}"), property);
    }
    for below in ["items", "additionalProperties"] {
        if let Some(below) = fields.get_mut(below) {
            take_descriptions(&format!("{path}.*"), below);
        }
    }
}

#[test]
fn an_object_is_written_back_as_it_was_read() {
    for rest in [json!({}), json!({ "labels": {}, "annotations": { "example.com/a": "" } })] {
        let read = json!({
            "apiVersion": "accurate.cybozu.com/v2",
            "kind": "SubNamespace",
            "metadata": { "name": "team", "namespace": "root", "generation": 3 },
            "spec": rest,
            "status": {
                "observedGeneration": 3,
                "conditions": [{
                    "lastTransitionTime": "1970-01-01T00:00:00Z",
                    "message": "m",
                    "observedGeneration": 3,
                    "reason": "Conflict",
                    "status": "True",
                    "type": "Stalled",
                }],
            },
        });
        let object: SubNamespace = serde_json::from_value(read.clone()).unwrap();
        assert_eq!(serde_json::to_value(object).unwrap(), read);
    }
    let bare = json!({ "apiVersion": "accurate.cybozu.com/v2", "kind": "SubNamespace", "metadata": {} });
    let object: SubNamespace = serde_json::from_value(bare).unwrap();
    assert_eq!(object.status, None);
}
