//! What becomes protobuf, and what does not. That the API server understands it as it understands JSON is shown on a real one.

use forest::Kind;
use serde_json::{Map, json};

use super::*;

/// Reads the wire without knowing any message: fields by number, with nested messages, texts and numbers guessed.
fn wire(mut bytes: &[u8]) -> Option<Value> {
    let mut fields = Map::new();
    while !bytes.is_empty() {
        let key = prost::decode_length_delimiter(&mut bytes).ok()?;
        let value = match key & 7 {
            0 => json!(prost::decode_length_delimiter(&mut bytes).ok()?),
            2 => {
                let length = prost::decode_length_delimiter(&mut bytes).ok()?;
                let (inner, rest) = bytes.split_at_checked(length)?;
                bytes = rest;
                let is_text = inner.iter().all(|byte| !byte.is_ascii_control()) && !inner.is_empty();
                let text = std::str::from_utf8(inner).ok().filter(|_| is_text);
                text.map_or_else(|| wire(inner), |text| Some(json!(text)))?
            }
            _ => return None,
        };
        let all = fields.entry((key >> 3).to_string()).or_insert_with(|| json!([]));
        all.as_array_mut()?.push(value);
    }
    Some(Value::Object(fields))
}

/// What a body says: of which type it is, and the object's own message.
pub(crate) fn read(body: &[u8]) -> Option<(String, Value)> {
    let unknown = Unknown::decode(body.strip_prefix(BEGINNING)?).ok()?;
    let TypeMeta { api_version, kind } = unknown.type_meta?;
    Some((format!("{api_version} {kind}"), wire(&unknown.raw)?))
}

fn kind(group: &str, kind: &str) -> Kind {
    let resource = format!("{}s", kind.to_lowercase());
    Kind { group: group.into(), version: "v1".into(), kind: kind.into(), resource }
}

fn with(metadata: &Value, rest: &Value) -> Value {
    let mut whole = json!({ "apiVersion": "left out", "kind": "left out", "metadata": metadata });
    whole.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    whole
}

fn network_policy(spec: &Value) -> Value {
    with(&json!({ "name": "n" }), &json!({ "spec": spec }))
}

#[test]
fn every_field_has_its_number() {
    let role = json!({ "rules": [
        { "verbs": ["get", ""], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["one"] },
        { "verbs": ["*"], "nonResourceURLs": ["/x"] },
        {},
    ] });
    let metadata = json!({
        "name": "n", "generateName": "g", "namespace": "s", "uid": "u", "resourceVersion": "7",
        "labels": { "a": "b", "c": "" }, "annotations": { "d": "e" }, "managedFields": [{}],
    });
    let binding = json!({
        "subjects": [{ "kind": "User", "apiGroup": "g", "name": "u" }, { "kind": "ServiceAccount", "name": "a", "namespace": "s" }],
        "roleRef": { "apiGroup": "g", "kind": "Role", "name": "r" },
    });
    let rbac = "rbac.authorization.k8s.io";
    let read = |kind: &Kind, manifest: &Value| read(&object(kind, manifest).unwrap()).unwrap();
    assert_eq!(
        read(&kind(rbac, "Role"), &with(&metadata, &role)),
        (
            "rbac.authorization.k8s.io/v1 Role".to_owned(),
            json!({
                "1": [{
                    "1": ["n"], "2": ["g"], "3": ["s"], "5": ["u"], "6": ["7"],
                    "11": [{ "1": ["a"], "2": ["b"] }, { "1": ["c"] }], "12": [{ "1": ["d"], "2": ["e"] }], "17": [{}],
                }],
                "2": [
                    { "1": ["get", {}], "2": [{}], "3": ["pods"], "4": ["one"] },
                    { "1": ["*"], "5": ["/x"] },
                    {},
                ],
            })
        )
    );
    let named = json!({ "name": "n" });
    assert_eq!(
        read(&kind(rbac, "RoleBinding"), &with(&named, &binding)).1,
        json!({
            "1": [{ "1": ["n"] }],
            "2": [{ "1": ["User"], "2": ["g"], "3": ["u"] }, { "1": ["ServiceAccount"], "3": ["a"], "4": ["s"] }],
            "3": [{ "1": ["g"], "2": ["Role"], "3": ["r"] }],
        })
    );
    let secret = json!({ "type": "Opaque", "immutable": false, "data": { "k": "dmFsdWU=", "none": "" } });
    assert_eq!(
        read(&kind("", "Secret"), &with(&named, &secret)),
        (
            "v1 Secret".to_owned(),
            json!({
                "1": [{ "1": ["n"] }], "2": [{ "1": ["k"], "2": ["value"] }, { "1": ["none"] }], "3": ["Opaque"], "5": [0],
            })
        )
    );
    let map = json!({ "immutable": true, "data": { "k": "v" }, "binaryData": { "b": "dmFsdWU=" } });
    assert_eq!(
        read(&kind("", "ConfigMap"), &with(&named, &map)).1,
        json!({
            "1": [{ "1": ["n"] }], "2": [{ "1": ["k"], "2": ["v"] }], "3": [{ "1": ["b"], "2": ["value"] }], "4": [1],
        })
    );
}

#[test]
fn a_network_policy_that_selects_everything_is_not_one_that_selects_nothing() {
    let policy = network_policy(&json!({
        "podSelector": {},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [
            {},
            { "from": [{}, { "podSelector": {} }, { "namespaceSelector": { "matchLabels": { "a": "b" } } }] },
            { "ports": [{ "protocol": "TCP", "port": 80, "endPort": 90 }, { "port": "http" }, { "port": 0 }] },
        ],
        "egress": [{
            "to": [{ "ipBlock": { "cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"] } }],
            "ports": [{}],
        }, {
            "to": [{ "podSelector": { "matchExpressions": [{ "key": "k", "operator": "In", "values": ["v"] }] } }],
        }],
    }));
    let body = object(&kind("networking.k8s.io", "NetworkPolicy"), &policy).unwrap();
    assert_eq!(
        read(&body).unwrap().1,
        json!({
            "1": [{ "1": ["n"] }],
            "2": [{
                "1": [{}],
                "2": [
                    {},
                    { "2": [{}, { "1": [{}] }, { "2": [{ "1": [{ "1": ["a"], "2": ["b"] }] }] }] },
                    { "1": [{ "1": ["TCP"], "2": [{ "2": [80] }], "3": [90] }, { "2": [{ "1": [1], "3": ["http"] }] }, { "2": [{}] }] },
                ],
                "3": [
                    { "1": [{}], "2": [{ "3": [{ "1": ["10.0.0.0/8"], "2": ["10.1.0.0/16"] }] }] },
                    { "2": [{ "1": [{ "2": [{ "1": ["k"], "2": ["In"], "3": ["v"] }] }] }] },
                ],
                "4": ["Ingress", "Egress"],
            }],
        })
    );
}

#[test]
fn what_is_not_known_in_every_part_is_left_to_json() {
    let rbac = "rbac.authorization.k8s.io";
    let named = json!({ "name": "n" });
    let role = |rest| (kind(rbac, "Role"), with(&named, &rest));
    let policy = |spec| (kind("networking.k8s.io", "NetworkPolicy"), network_policy(&spec));
    let metadata = |more: Value| {
        (kind(rbac, "Role"), with(&with(&json!({}), &more)["metadata"], &json!({ "rules": [] })))
    };
    let table = [
        role(json!({ "rules": [], "aLaterField": 1 })),
        role(json!({ "rules": [{ "verbs": ["get"], "aLaterField": "x" }] })),
        role(json!({ "rules": null })),
        role(json!({ "rules": [{ "verbs": null }] })),
        role(json!({ "rules": [{ "verbs": "get" }] })),
        role(json!({ "rules": [{ "verbs": [1] }] })),
        role(json!({ "rules": {} })),
        metadata(json!({ "metadata": { "name": "n", "finalizers": ["f"] } })),
        metadata(json!({ "metadata": { "name": "n", "managedFields": [{ "manager": "m" }] } })),
        metadata(json!({ "metadata": { "name": "n", "labels": { "a": 1 } } })),
        (kind(rbac, "RoleBinding"), with(&named, &json!({ "roleRef": { "name": "r", "later": "x" } }))),
        (kind(rbac, "RoleBinding"), with(&named, &json!({ "subjects": [{ "name": "s", "later": "x" }] }))),
        (kind("", "Secret"), with(&named, &json!({ "stringData": { "k": "v" } }))),
        (kind("", "Secret"), with(&named, &json!({ "data": { "k": "no base64" } }))),
        (kind("", "ConfigMap"), with(&named, &json!({ "data": { "k": 1 } }))),
        (kind("", "ConfigMap"), with(&named, &json!({ "immutable": "yes" }))),
        policy(json!({ "podSelector": { "later": 1 } })),
        policy(json!({ "ingress": [{ "later": 1 }] })),
        policy(json!({ "ingress": [{ "ports": [{ "later": 1 }] }] })),
        policy(json!({ "ingress": [{ "ports": [{ "port": 4_294_967_296_u64 }] }] })),
        policy(json!({ "ingress": [{ "from": [{ "later": 1 }] }] })),
        policy(json!({ "egress": [{ "to": [{ "ipBlock": { "later": 1 } }] }] })),
        policy(json!({ "egress": [{ "later": 1 }] })),
        policy(json!({ "podSelector": { "matchExpressions": [{ "later": 1 }] } })),
        policy(json!({ "later": 1 })),
    ];
    for (kind, manifest) in &table {
        assert_eq!(object(kind, manifest), None, "{manifest}");
    }
    let known = with(&named, &json!({ "rules": [] }));
    assert!(object(&kind(rbac, "Role"), &known).is_some());
    let later = Kind { version: "v2".into(), ..kind(rbac, "Role") };
    for kind in [later, kind("example.com", "Role"), kind("", "Role"), kind("", "LimitRange")] {
        assert_eq!(object(&kind, &known), None, "{kind}");
    }
    println!("{} objects with something unknown", table.len() + 4);
}
