//! The generated definitions equal, field by field, the definitions that HNC's clients were written for. Printer columns and short
//! names are additions.

use hns_api::{Condition, crd};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

const SCHEMA: &str = "/spec/versions/0/schema/openAPIV3Schema";

/// Compares the definition with a table of JSON pointers and expected values; `null` means that the value
/// is absent. A pointer that starts with `~` is relative to the schema.
fn check(definition: &CustomResourceDefinition, table: &[(&str, Value)]) {
    let name = definition.metadata.name.clone().unwrap_or_default();
    let value = serde_json::to_value(definition).expect("definitions are plain data");
    for (pointer, expected) in table {
        let pointer = pointer.replacen('~', SCHEMA, 1);
        let found = value.pointer(&pointer).unwrap_or(&Value::Null);
        assert_eq!(found, expected, "{name} at {pointer}");
    }
}

/// Checks what all four definitions have in common: one version, no conversion, no status subresource, no
/// required top-level field.
fn check_common(definition: &CustomResourceDefinition, names: Value, scope: &str) {
    check(
        definition,
        &[
            ("/apiVersion", json!("apiextensions.k8s.io/v1")),
            ("/kind", json!("CustomResourceDefinition")),
            ("/spec/group", json!("hnc.x-k8s.io")),
            ("/spec/names", names),
            ("/spec/scope", json!(scope)),
            ("/spec/conversion", Value::Null),
            ("/spec/preserveUnknownFields", Value::Null),
            ("/spec/versions/1", Value::Null),
            ("/spec/versions/0/name", json!("v1alpha2")),
            ("/spec/versions/0/served", json!(true)),
            ("/spec/versions/0/storage", json!(true)),
            ("/spec/versions/0/subresources/status", Value::Null),
            ("~/type", json!("object")),
            ("~/required", Value::Null),
            ("~/properties/apiVersion/type", json!("string")),
            ("~/properties/kind/type", json!("string")),
            ("~/properties/metadata/type", json!("object")),
            ("~/properties/spec/type", json!("object")),
            ("~/properties/spec/required", Value::Null),
            ("~/properties/status/type", json!("object")),
            ("~/properties/status/required", Value::Null),
        ],
    );
}

/// The properties of the schema at `pointer`, by name.
fn properties(definition: &CustomResourceDefinition, pointer: &str) -> Vec<String> {
    let value = serde_json::to_value(definition).expect("definitions are plain data");
    value
        .pointer(&format!("{SCHEMA}{pointer}/properties"))
        .and_then(Value::as_object)
        .map(|properties| properties.keys().cloned().collect())
        .unwrap_or_default()
}

fn check_key_values(definition: &CustomResourceDefinition) {
    for field in ["labels", "annotations"] {
        let at = |rest: &str| format!("~/properties/spec/properties/{field}{rest}");
        check(
            definition,
            &[
                (at("/type").as_str(), json!("array")),
                (at("/items/type").as_str(), json!("object")),
                (at("/items/required").as_str(), json!(["key", "value"])),
                (at("/items/properties/key/type").as_str(), json!("string")),
                (at("/items/properties/value/type").as_str(), json!("string")),
            ],
        );
    }
}

fn check_conditions(definition: &CustomResourceDefinition) {
    let at = |rest: &str| format!("~/properties/status/properties/conditions{rest}");
    let property = |rest: &str| at(&format!("/items/properties/{rest}"));
    let required = json!(["lastTransitionTime", "message", "reason", "status", "type"]);
    let type_pattern = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";
    check(
        definition,
        &[
            (at("/type").as_str(), json!("array")),
            (at("/items/type").as_str(), json!("object")),
            (at("/items/required").as_str(), required),
            (property("lastTransitionTime/type").as_str(), json!("string")),
            (property("lastTransitionTime/format").as_str(), json!("date-time")),
            (property("message/type").as_str(), json!("string")),
            (property("message/maxLength").as_str(), json!(32768)),
            (property("message/minLength").as_str(), Value::Null),
            (property("observedGeneration/type").as_str(), json!("integer")),
            (property("observedGeneration/format").as_str(), json!("int64")),
            (property("observedGeneration/minimum").as_str(), json!(0.0)),
            (property("reason/type").as_str(), json!("string")),
            (property("reason/minLength").as_str(), json!(1)),
            (property("reason/maxLength").as_str(), json!(1024)),
            (property("reason/pattern").as_str(), json!("^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")),
            (property("status/type").as_str(), json!("string")),
            (property("status/enum").as_str(), json!(["True", "False", "Unknown"])),
            (property("type/type").as_str(), json!("string")),
            (property("type/maxLength").as_str(), json!(316)),
            (property("type/pattern").as_str(), json!(type_pattern)),
        ],
    );
}

#[test]
fn hierarchy_configurations() {
    let definition = crd::hierarchy_configurations();
    check_common(
        &definition,
        json!({
            "kind": "HierarchyConfiguration",
            "listKind": "HierarchyConfigurationList",
            "plural": "hierarchyconfigurations",
            "shortNames": ["hc"],
            "singular": "hierarchyconfiguration",
        }),
        "Namespaced",
    );
    check(
        &definition,
        &[
            ("/metadata", json!({ "name": "hierarchyconfigurations.hnc.x-k8s.io" })),
            ("/spec/versions/0/subresources", Value::Null),
            ("~/properties/metadata/properties/name", json!({ "type": "string", "enum": ["hierarchy"] })),
            ("~/properties/spec/properties/parent/type", json!("string")),
            ("~/properties/spec/properties/allowCascadingDeletion/type", json!("boolean")),
            ("~/properties/status/properties/children/type", json!("array")),
            ("~/properties/status/properties/children/items/type", json!("string")),
        ],
    );
    assert_eq!(
        properties(&definition, "/properties/spec"),
        ["allowCascadingDeletion", "annotations", "labels", "parent"]
    );
    assert_eq!(properties(&definition, "/properties/status"), ["children", "conditions"]);
    check_key_values(&definition);
    check_conditions(&definition);
}

#[test]
fn subnamespace_anchors() {
    let definition = crd::subnamespace_anchors();
    check_common(
        &definition,
        json!({
            "kind": "SubnamespaceAnchor",
            "listKind": "SubnamespaceAnchorList",
            "plural": "subnamespaceanchors",
            "shortNames": ["subns"],
            "singular": "subnamespaceanchor",
        }),
        "Namespaced",
    );
    check(
        &definition,
        &[
            ("/metadata", json!({ "name": "subnamespaceanchors.hnc.x-k8s.io" })),
            ("/spec/versions/0/subresources", Value::Null),
            ("~/properties/metadata/properties", Value::Null),
            ("~/properties/status/properties/status/type", json!("string")),
            ("~/properties/status/properties/status/enum", Value::Null),
        ],
    );
    assert_eq!(properties(&definition, "/properties/spec"), ["annotations", "labels"]);
    assert_eq!(properties(&definition, "/properties/status"), ["status"]);
    check_key_values(&definition);
}

#[test]
fn hnc_configurations() {
    let definition = crd::hnc_configurations();
    check_common(
        &definition,
        json!({
            "kind": "HNCConfiguration",
            "listKind": "HNCConfigurationList",
            "plural": "hncconfigurations",
            "shortNames": ["hncconfig"],
            "singular": "hncconfiguration",
        }),
        "Cluster",
    );
    let entry = "~/properties/spec/properties/resources/items";
    let status = "~/properties/status/properties/resources/items";
    let at = |base: &str, rest: &str| format!("{base}{rest}");
    check(
        &definition,
        &[
            ("/metadata", json!({ "name": "hncconfigurations.hnc.x-k8s.io" })),
            ("/spec/versions/0/subresources", Value::Null),
            ("~/properties/metadata/properties/name", json!({ "type": "string", "enum": ["config"] })),
            (at(entry, "/required").as_str(), json!(["resource"])),
            (at(entry, "/properties/group/type").as_str(), json!("string")),
            (at(entry, "/properties/resource/type").as_str(), json!("string")),
            (at(entry, "/properties/mode/type").as_str(), json!("string")),
            (
                at(entry, "/properties/mode/enum").as_str(),
                json!(["Propagate", "Ignore", "Remove", "AllowPropagate"]),
            ),
            (at(entry, "/properties/onConflict/type").as_str(), json!("string")),
            (at(entry, "/properties/onConflict/enum").as_str(), json!(["Keep", "Report", "Overwrite"])),
            (at(entry, "/properties/excludedNames/type").as_str(), json!("array")),
            (at(entry, "/properties/excludedNames/items/type").as_str(), json!("string")),
            (at(status, "/required").as_str(), json!(["group", "resource", "version"])),
            (at(status, "/properties/mode/type").as_str(), json!("string")),
            (at(status, "/properties/mode/enum").as_str(), Value::Null),
        ],
    );
    for counter in ["numPropagatedObjects", "numSourceObjects"] {
        let at = |rest: &str| format!("{status}/properties/{counter}/{rest}");
        check(&definition, &[(at("type").as_str(), json!("integer")), (at("minimum").as_str(), json!(0.0))]);
    }
    assert_eq!(properties(&definition, "/properties/spec"), ["resources", "trees"]);
    let tree = "/properties/spec/properties/trees/items";
    assert_eq!(properties(&definition, tree), ["maxDepth", "maxNamespaces", "namePattern", "root"]);
    check(&definition, &[(format!("~{tree}/required").as_str(), json!(["root"]))]);
    assert_eq!(
        properties(&definition, "/properties/status"),
        ["conditions", "resources", "resourcesSummary"]
    );
    check_conditions(&definition);
}

#[test]
fn hierarchical_resource_quotas() {
    let definition = crd::hierarchical_resource_quotas();
    check_common(
        &definition,
        json!({
            "kind": "HierarchicalResourceQuota",
            "listKind": "HierarchicalResourceQuotaList",
            "plural": "hierarchicalresourcequotas",
            "shortNames": ["hrq"],
            "singular": "hierarchicalresourcequota",
        }),
        "Namespaced",
    );
    // HNC's schema accepts texts and integers; this one accepts all numbers.
    let quantities = json!({
        "pattern": r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$",
        "not": { "enum": [true, false, {}, []] },
        "maxProperties": 0,
        "maxItems": 0,
        "x-kubernetes-preserve-unknown-fields": true,
    });
    check(
        &definition,
        &[
            ("/metadata", json!({ "name": "hierarchicalresourcequotas.hnc.x-k8s.io" })),
            (
                "/spec/versions/0/additionalPrinterColumns",
                json!([
                    { "name": "Request", "type": "string", "jsonPath": ".status.requestsSummary" },
                    { "name": "Limit", "type": "string", "jsonPath": ".status.limitsSummary" },
                ]),
            ),
            ("/spec/versions/0/subresources", json!({})),
            ("~/properties/metadata/properties", Value::Null),
            ("~/properties/spec/properties/hard/additionalProperties", quantities.clone()),
            ("~/properties/status/properties/hard/additionalProperties", quantities.clone()),
            ("~/properties/status/properties/used/additionalProperties", quantities),
            (
                "~/properties/spec/x-kubernetes-validations/1",
                json!({
                    "fieldPath": ".scopeSelector",
                    "message": "a hierarchical quota has no scopeSelector: it limits the usage of all objects",
                    "reason": "FieldValueForbidden",
                    "rule": "!has(self.scopeSelector)",
                }),
            ),
            ("~/properties/status/properties/requestsSummary/type", json!("string")),
            ("~/properties/status/properties/limitsSummary/type", json!("string")),
        ],
    );
    assert_eq!(properties(&definition, "/properties/spec"), ["hard", "scopeSelector", "scopes"]);
    assert_eq!(
        properties(&definition, "/properties/status"),
        ["conditions", "hard", "limitsSummary", "requestsSummary", "used"]
    );
    check_conditions(&definition);
}

/// A definition with printer columns shows no age unless it has such a column.
#[test]
fn printer_columns_are_of_fields_that_exist() {
    for definition in
        [crd::hierarchy_configurations(), crd::hnc_configurations(), crd::subnamespace_anchors()]
    {
        let name = definition.metadata.name.clone().unwrap();
        let value = serde_json::to_value(definition).unwrap();
        let columns = value.pointer("/spec/versions/0/additionalPrinterColumns").unwrap().as_array().unwrap();
        let (age, columns) = columns.split_last().unwrap();
        assert_eq!(*age, json!({ "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp" }));
        for column in columns {
            let path = column["jsonPath"].as_str().unwrap();
            let pointer = path.replace("[*]", "/items").replace('.', "/properties/");
            assert!(value.pointer(&format!("{SCHEMA}{pointer}")).is_some(), "{name}: {path}");
        }
    }
}

/// Walks the whole schema: no field accepts a value, or has a default, that HNC's schema does not have. The
/// field of scopes that is refused whatever it contains is open.
#[test]
fn no_defaults_no_nulls_and_a_description_on_every_field() {
    fn walk(path: &str, schema: &Value, count: &mut usize) {
        for key in ["default", "nullable", "title"] {
            assert_eq!(schema.get(key), None, "{path}: {key}");
        }
        let is_open = schema.get("x-kubernetes-preserve-unknown-fields").is_some();
        assert_eq!(is_open, path.ends_with(".scopeSelector"), "{path}");
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
            if let Some(items) = schema.get("items") {
                walk(path, items, count);
            }
            return;
        };
        for (name, property) in properties {
            let path = format!("{path}.{name}");
            if !path.contains(".metadata") {
                let description = property.get("description").and_then(Value::as_str);
                assert!(description.is_some_and(|text| !text.is_empty()), "{path}");
            }
            *count += 1;
            walk(&path, property, count);
        }
    }
    for definition in crd::all() {
        let name = definition.metadata.name.clone().unwrap();
        let value = serde_json::to_value(definition).unwrap();
        let mut count = 0;
        walk(&name, value.pointer(SCHEMA).unwrap(), &mut count);
        assert!(count >= 10, "{name}: only {count} fields were checked");
    }
}

/// The constants of conditions pass the checks of the schema.
#[test]
fn a_condition_fits_its_schema() {
    let condition: Condition = serde_json::from_value(json!({
        "lastTransitionTime": "2024-05-06T07:08:09Z",
        "message": "",
        "reason": hns_api::conditions::activities_halted::IN_CYCLE,
        "status": hns_api::conditions::STATUS_TRUE,
        "type": hns_api::conditions::ACTIVITIES_HALTED,
    }))
    .unwrap();
    let written = serde_json::to_value(condition).unwrap();
    let definition = serde_json::to_value(crd::hierarchy_configurations()).unwrap();
    let items =
        definition.pointer(&format!("{SCHEMA}/properties/status/properties/conditions/items")).unwrap();
    for field in items["required"].as_array().unwrap() {
        assert!(written.get(field.as_str().unwrap()).is_some(), "{field}");
    }
    for field in written.as_object().unwrap().keys() {
        assert!(items["properties"].get(field).is_some(), "{field}");
    }
}
