//! The cost of parsing users' objects is linear in their length, for objects in reviews and objects from watches.

#[cfg(test)] // Clippy needs this attribute.
#[path = "../../forest/tests/support/cost.rs"]
mod cost;

use cost::{linear, repeated};
use forest::{Kind, Settings};
use hns_cluster::configured_kinds::entries_of;
use hns_cluster::ingest;
use hns_cluster::ingest::request_object::RequestObject;
use kube::core::DynamicObject;
use serde_json::{Value, json};

/// Objects with one long list each.
const OBJECTS: [(&str, &str, &str); 9] = [
    (r#"{""#, r#"f#":1,""#, r#"":1}"#),
    (r#"{"data":{""#, r#"f#":{"a":1},""#, r#"":1}}"#),
    (r#"{"metadata":{"labels":{""#, r#"l#":"v",""#, r#"":""}}}"#),
    (r#"{"metadata":{"labels":{""#, r#"l":"v",""#, r#"":""}}}"#),
    (r#"{"metadata":{"annotations":{""#, r#"l\n#":"\n",""#, r#"":""}}}"#),
    (r#"{"metadata":{"finalizers":[""#, r#"f#","f",""#, r#""]}}"#),
    (
        r#"{"metadata":{"ownerReferences":["#,
        r#"{"apiVersion":"v1","kind":"Pod","name":"p#","uid":"o"},"#,
        r"{}]}}",
    ),
    (r#"{"metadata":{"managedFields":[{"fieldsV1":{""#, r#"f:x#":{},""#, r#"":{}}}]}}"#),
    (r#"{"data":""#, r#"[[[{{{,,,\\\""#, r#""}"#),
];

#[test]
fn objects_in_reviews() {
    for (head, part, tail) in OBJECTS {
        let text = |parts| format!("{head}{}{tail}", repeated(part, parts));
        linear(part, text, |text| drop(serde_json::from_str::<RequestObject<'_>>(text)));
    }
    let nested = |parts: usize| format!("{{\"data\":{}", "[".repeat(parts));
    linear("nested lists", nested, |text| drop(serde_json::from_str::<RequestObject<'_>>(text)));
}

fn object(metadata: &Value, spec: &Value) -> DynamicObject {
    serde_json::from_value(json!({ "metadata": metadata, "spec": spec })).expect("it is an object")
}

#[test]
fn objects_that_are_watched() {
    let of = |part: &str, parts: usize| -> Value {
        (0..parts)
            .map(|at| (part.replace('#', &at.to_string()), json!("v")))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    let listed = |parts: usize| -> Value {
        (0..parts).map(|at| json!({ "key": format!("k{at}"), "value": "v" })).collect::<Vec<_>>().into()
    };
    let configured = |parts| object(&json!({}), &json!({ "parent": "a", "labels": listed(parts) }));
    linear("a hierarchy", configured, |object| drop(ingest::hierarchy(object.clone())));
    linear("an anchor", configured, |object| drop(ingest::anchor(object.clone())));
    let labelled =
        |parts| object(&json!({ "labels": of("a#", parts), "annotations": of("b#", parts) }), &json!({}));
    linear("a namespace", labelled, |object| drop(ingest::namespace(&object.metadata)));
    let settings = Settings::new("hnc-system", [""; 0], ".*").unwrap();
    linear("an object", labelled, |object| {
        let DynamicObject { metadata, data, .. } = object.clone();
        drop(ingest::object(&Kind::role(), &settings, metadata, data.as_object().cloned()));
    });
}

#[test]
fn the_configuration() {
    let entry = json!({ "resource": "secrets", "mode": "Propagate", "excludedNames": ["a-*"] });
    for entry in [entry, json!(7), json!({ "resource": 7 })] {
        let spec = |parts: usize| json!({ "resources": vec![entry.clone(); parts] });
        linear("entries", spec, |spec| drop(entries_of(Some(spec))));
    }
}
