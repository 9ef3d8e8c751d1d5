//! Which fields of an object this program is on record for, as server-side apply sees it. Pure.
//!
//! Manifests say nothing of some fields, and those stay this program's. All others are the manifests': what was put right there
//! must not stay on record as this program's, or whoever applies the manifests with another value next is told of a conflict.

use serde_json::Value;

use super::FIELD_MANAGER;

/// The fields that no manifest has: the authority, the propagated kinds, those of the copies that are guarded, and the entry of the
/// awaited names.
const OURS: [&str; 4] =
    ["f:caBundle", "f:rules", "f:matchResources", r#"k:{"name":"awaited-namespaces.hnc.x-k8s.io"}"#];

/// The object with this program taken off the record, if it is on record for a field that is the manifests'.
pub(super) fn released(object: &Value) -> Option<Value> {
    let entries = object["metadata"]["managedFields"].as_array()?;
    let is_ours = |entry: &Value| entry["manager"] == FIELD_MANAGER;
    if !entries.iter().any(|entry| is_ours(entry) && says_more(&entry["fieldsV1"])) {
        return None;
    }
    let others: Vec<Value> = entries.iter().filter(|entry| !is_ours(entry)).cloned().collect();
    // An empty list would have the API server begin a new record.
    if others.is_empty() {
        return None;
    }
    let mut object = object.clone();
    object["metadata"]["managedFields"] = Value::Array(others);
    Some(object)
}

/// Whether these fields, as a tree, are others than [`OURS`].
fn says_more(fields: &Value) -> bool {
    fields.as_object().is_none_or(|fields| {
        fields.is_empty()
            || fields.iter().any(|(field, below)| !OURS.contains(&field.as_str()) && says_more(below))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(manager: &str, fields: &Value) -> Value {
        json!({ "metadata": { "managedFields": [
            { "manager": "helm", "operation": "Apply", "fieldsV1": { "f:webhooks": {} } },
            { "manager": manager, "operation": "Update", "fieldsV1": fields },
        ] } })
    }

    #[test]
    fn only_what_manifests_do_not_say_stays_on_record() {
        let entry = |fields: Value| json!({ "f:webhooks": { "k:{\"name\":\"a\"}": fields } });
        let authority = json!({ "f:caBundle": {} });
        let ours = [
            entry(json!({ "f:clientConfig": authority, "f:rules": {} })),
            json!({ "f:spec": { "f:matchResources": {} } }),
        ];
        for fields in ours {
            assert_eq!(released(&object("hns-controller", &fields)), None);
        }
        let conditions = json!({ "k:{\"name\":\"b\"}": { "f:expression": {} } });
        let others = [
            entry(json!({ "f:clientConfig": authority, "f:matchConditions": conditions })),
            entry(json!({ ".": {}, "f:name": {}, "f:rules": {} })),
            json!({ "f:spec": { "f:matchResources": {}, "f:validationActions": {} } }),
            json!({}),
        ];
        for fields in others {
            assert_eq!(released(&object("somebody", &fields)), None);
            let released = released(&object("hns-controller", &fields)).unwrap();
            assert_eq!(released["metadata"]["managedFields"].as_array().unwrap().len(), 1);
        }
        assert_eq!(released(&json!({ "metadata": {} })), None);
    }
}
