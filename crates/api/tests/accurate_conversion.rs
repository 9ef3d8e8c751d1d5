//! `SubNamespaces` are converted without loss, and the API server's request for it is answered in the shape that it expects.

use hns_api::accurate::annotations::{CONDITIONS, OBSERVED_GENERATION};
use hns_api::accurate::conversion::{answer, convert};
use hns_api::accurate::{SubNamespace, Version};
use proptest::prelude::*;
use proptest::{collection, option};
use serde_json::{Map, Value, json};

const CASES: u32 = 500;

fn texts() -> impl Strategy<Value = Value> {
    collection::btree_map("[a-z./]{1,9}", ".{0,6}", 1..4).prop_map(|texts| json!(texts))
}

fn condition() -> impl Strategy<Value = Value> {
    let type_ = prop_oneof![Just("Stalled".to_owned()), "[A-Z][a-z]{1,5}"];
    (type_, "True|False|Unknown", "[A-Z][a-z]{0,5}", ".{0,9}", option::of(any::<u32>())).prop_map(
        |(type_, status, reason, message, generation)| {
            let time = "2024-05-06T07:08:09Z";
            let mut condition = json!({
                "type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": time,
            });
            generation.inspect(|it| condition["observedGeneration"] = json!(it));
            condition
        },
    )
}

/// What a status consists of: a generation other than zero, and conditions.
fn facts() -> impl Strategy<Value = (Option<i64>, Vec<Value>)> {
    let generation = prop_oneof![0_i64..4, any::<i64>()];
    (generation, collection::vec(condition(), 0..3))
        .prop_map(|(generation, conditions)| (Some(generation).filter(|it| *it != 0), conditions))
}

/// An object without a status.
fn bare(version: Version) -> impl Strategy<Value = Value> {
    let metadata = (option::of(texts()), option::of(texts()), option::of(0_i64..4), any::<bool>());
    let spec = option::of((option::of(texts()), option::of(texts())));
    (metadata, spec).prop_map(move |((labels, annotations, generation, is_ending), spec)| {
        let mut metadata =
            json!({ "name": "team", "namespace": "root", "uid": "6f1c", "resourceVersion": "7" });
        let fields = metadata.as_object_mut().expect("a map");
        let mut set = |key: &str, value: Option<Value>| value.map(|value| fields.insert(key.into(), value));
        set("labels", labels);
        set("annotations", annotations);
        set("generation", generation.map(Into::into));
        set("deletionTimestamp", is_ending.then(|| "2024-05-06T07:08:09Z".into()));
        // One that our types do not know.
        set("managedFields", Some(json!([{ "manager": "x", "fieldsV9": { "f:spec": {} } }])));
        let mut object =
            json!({ "apiVersion": version.api_version(), "kind": "SubNamespace", "metadata": metadata });
        if let Some((labels, annotations)) = spec {
            let fields = [("labels", labels), ("annotations", annotations)];
            let fields = fields.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
            object["spec"] = Value::Object(fields.collect());
        }
        object
    })
}

/// An object of v2 or v2alpha1.
fn with_status(version: Version) -> impl Strategy<Value = Value> {
    (bare(version), facts()).prop_map(|(mut object, (generation, conditions))| {
        let mut status = Map::new();
        generation.map(|it| status.insert("observedGeneration".into(), it.into()));
        if !conditions.is_empty() {
            status.insert("conditions".into(), conditions.into());
        }
        if !status.is_empty() {
            object["status"] = status.into();
        }
        object
    })
}

/// An object of v1, as a conversion leaves it.
fn of_v1() -> impl Strategy<Value = Value> {
    (bare(Version::V1), facts(), option::of("ok|conflict")).prop_map(
        |(mut object, (generation, conditions), word)| {
            let annotations = &mut object["metadata"]["annotations"];
            generation.inspect(|it| annotations[OBSERVED_GENERATION] = it.to_string().into());
            if !conditions.is_empty() {
                annotations[CONDITIONS] = Value::Array(conditions).to_string().into();
            }
            if annotations.is_null() {
                object["metadata"].as_object_mut().expect("a map").remove("annotations");
            }
            word.inspect(|it| object["status"] = json!(it));
            object
        },
    )
}

fn there_and_back(object: &Value, through: Version) -> Value {
    let own = Version::of(object["apiVersion"].as_str().expect("a text")).expect("a known version");
    let there = convert(object.clone(), through).expect("it can be converted");
    assert_eq!(there["apiVersion"], through.api_version());
    convert(there, own).expect("it can be converted")
}

/// The object without the word that is the status of v1.
fn without_word(mut object: Value) -> Value {
    object.as_object_mut().expect("a map").remove("status");
    object
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(CASES) })]

    #[test]
    fn v2_comes_back_as_it_was(object in with_status(Version::V2)) {
        for through in Version::ALL {
            prop_assert_eq!(&there_and_back(&object, through), &object, "through {:?}", through);
        }
    }

    #[test]
    fn v2alpha1_comes_back_as_it_was(object in with_status(Version::V2Alpha1)) {
        for through in Version::ALL {
            prop_assert_eq!(&there_and_back(&object, through), &object, "through {:?}", through);
        }
    }

    #[test]
    fn v1_comes_back_as_it_was_but_for_its_word(object in of_v1()) {
        for through in [Version::V2, Version::V2Alpha1] {
            let back = there_and_back(&object, through);
            prop_assert_eq!(without_word(back), without_word(object.clone()), "through {:?}", through);
        }
        prop_assert_eq!(there_and_back(&object, Version::V1), object);
    }

    /// What is converted from v1 is an object of the type, and has no annotation of v1. Everything else is as it was.
    #[test]
    fn only_the_status_and_its_annotations_change(object in of_v1()) {
        let mut converted = convert(object.clone(), Version::V2).unwrap();
        let typed: SubNamespace = serde_json::from_value(converted.clone()).unwrap();
        let status = typed.status.unwrap_or_default();
        let mut original = without_word(object);
        for (key, is_expected) in [
            (OBSERVED_GENERATION, status.observed_generation.is_some()),
            (CONDITIONS, status.conditions.is_some()),
        ] {
            prop_assert!(converted["metadata"]["annotations"].get(key).is_none());
            let annotations = original["metadata"].get_mut("annotations").and_then(Value::as_object_mut);
            prop_assert_eq!(annotations.and_then(|it| it.remove(key)).is_some(), is_expected);
        }
        if original["metadata"].get("annotations") == Some(&json!({})) {
            original["metadata"].as_object_mut().unwrap().remove("annotations");
        }
        original["apiVersion"] = Version::V2.api_version().into();
        prop_assert_eq!(without_word(std::mem::take(&mut converted)), original);
    }

    /// Whatever arrives, the answer is a result or an error, and no panic.
    #[test]
    fn no_text_is_too_odd(text in ".{0,40}", field in 0_usize..6) {
        let mut object = json!({ "apiVersion": "accurate.cybozu.com/v1", "kind": "SubNamespace", "metadata": {} });
        match field {
            0 => object["metadata"] = json!(text),
            1 => object["metadata"]["annotations"] = json!(text),
            2 => object["metadata"]["annotations"] = json!({ CONDITIONS: text }),
            3 => object["metadata"]["annotations"] = json!({ OBSERVED_GENERATION: text }),
            4 => object["status"] = json!(text),
            _ => object["kind"] = json!(text),
        }
        for version in Version::ALL {
            object["apiVersion"] = version.api_version().into();
            for to in Version::ALL {
                let _ = convert(object.clone(), to);
            }
        }
        prop_assert!(answer(text.as_bytes()).is_err());
    }
}

fn object(version: &str, metadata: &Value, status: &Value) -> Value {
    let api_version = format!("accurate.cybozu.com/{version}");
    let mut object = json!({ "apiVersion": api_version, "kind": "SubNamespace", "metadata": metadata });
    if !status.is_null() {
        object["status"] = status.clone();
    }
    object
}

/// The rows of section 4 for the word of v1.
#[test]
fn the_word_of_v1_says_what_the_status_says() {
    let condition = |type_: &str, status: &str| {
        json!([{
            "type": type_, "status": status, "reason": "R", "message": "", "lastTransitionTime": "2024-05-06T07:08:09Z",
        }])
    };
    let current = json!({ "observedGeneration": 2 });
    let with = |conditions: Value| json!({ "observedGeneration": 2, "conditions": conditions });
    for (status, word) in [
        (Value::Null, Value::Null),
        (json!({}), Value::Null),
        (json!({ "observedGeneration": 0 }), Value::Null),
        (json!({ "observedGeneration": 1 }), Value::Null),
        (current.clone(), json!("ok")),
        (json!({ "observedGeneration": 2, "conditions": [] }), json!("ok")),
        (with(condition("Stalled", "True")), json!("conflict")),
        (json!({ "conditions": condition("Stalled", "True") }), json!("conflict")),
        (with(condition("Stalled", "False")), Value::Null),
        (with(condition("Other", "True")), Value::Null),
    ] {
        let found = convert(object("v2", &json!({ "generation": 2 }), &status), Version::V1).unwrap();
        assert_eq!(found.get("status").unwrap_or(&Value::Null), &word, "{status}");
    }
    // Without a generation, nothing is observed.
    let zero = convert(object("v2", &json!({}), &json!({ "observedGeneration": 0 })), Version::V1).unwrap();
    assert_eq!(zero, object("v1", &json!({}), &Value::Null));
}

/// A user who sets the annotations of v1 on an object of v2 cannot give it a status.
#[test]
fn annotations_that_a_user_has_set_become_no_status() {
    let forged = json!({ "annotations": { OBSERVED_GENERATION: "9", CONDITIONS: "nonsense", "a": "b" } });
    let through_v1 = there_and_back(&object("v2", &forged, &Value::Null), Version::V1);
    assert_eq!(through_v1, object("v2", &json!({ "annotations": { "a": "b" } }), &Value::Null));
}

#[test]
fn what_cannot_be_converted_is_named() {
    let annotated =
        |key: &str, value: &str| object("v1", &json!({ "annotations": { key: value } }), &Value::Null);
    for (object, to, reason) in [
        (
            annotated(OBSERVED_GENERATION, "x"),
            Version::V2,
            "annotation internal.accurate.cybozu.com/observed-generation: \"x\"",
        ),
        (annotated(OBSERVED_GENERATION, ""), Version::V2Alpha1, "empty string"),
        (annotated(OBSERVED_GENERATION, "9223372036854775808"), Version::V2, "number too large"),
        (annotated(CONDITIONS, "["), Version::V2, "annotation internal.accurate.cybozu.com/conditions: EOF"),
        (annotated(CONDITIONS, "{}"), Version::V2, "expected a sequence"),
        (annotated(CONDITIONS, r#"[{"type": 1}]"#), Version::V2, "invalid type: integer `1`"),
        (object("v2", &json!({}), &json!("ok")), Version::V1, "status: invalid type"),
        (object("v2", &json!("x"), &Value::Null), Version::V1, "metadata: expected a map"),
        (object("v3", &json!({}), &Value::Null), Version::V2, "accurate.cybozu.com/v3"),
        (json!({ "apiVersion": "accurate.cybozu.com/v1", "kind": "Other" }), Version::V2, "kind \"Other\""),
        (json!([]), Version::V2, "apiVersion \"\""),
    ] {
        let error = convert(object.clone(), to).expect_err(&object.to_string()).to_string();
        assert!(error.contains(reason), "{object}: {error}");
    }
    for (key, value) in [(OBSERVED_GENERATION, "0"), (CONDITIONS, "null"), (CONDITIONS, " [] ")] {
        let converted = convert(annotated(key, value), Version::V2).unwrap();
        assert_eq!(converted, object("v2", &json!({}), &Value::Null), "{value}");
    }
}

/// A request as an API server of Kubernetes 1.36 sends it, with an empty response.
fn review(desired: &str, objects: &Value) -> Vec<u8> {
    json!({
        "kind": "ConversionReview",
        "apiVersion": "apiextensions.k8s.io/v1",
        "request": { "uid": "705ab4f5", "desiredAPIVersion": desired, "objects": objects },
        "response": { "uid": "", "convertedObjects": null, "result": { "metadata": {} } },
    })
    .to_string()
    .into_bytes()
}

#[test]
fn a_request_is_answered_object_by_object() {
    let objects = json!([
        object("v1", &json!({ "name": "a", "annotations": { OBSERVED_GENERATION: "4" } }), &json!("ok")),
        object("v2alpha1", &json!({ "name": "b" }), &Value::Null),
        object("v2", &json!({ "name": "c" }), &Value::Null),
    ]);
    let answer = answer(&review("accurate.cybozu.com/v2", &objects)).unwrap();
    assert_eq!(
        serde_json::to_value(answer).unwrap(),
        json!({
            "kind": "ConversionReview",
            "apiVersion": "apiextensions.k8s.io/v1",
            "response": {
                "uid": "705ab4f5",
                "result": { "status": "Success" },
                "convertedObjects": [
                    object("v2", &json!({ "name": "a" }), &json!({ "observedGeneration": 4 })),
                    object("v2", &json!({ "name": "b" }), &Value::Null),
                    object("v2", &json!({ "name": "c" }), &Value::Null),
                ],
            },
        })
    );
}

#[test]
fn a_request_that_fails_has_no_objects_and_says_why() {
    let wrong = json!({ "namespace": "root", "name": "team", "annotations": { OBSERVED_GENERATION: "x" } });
    let objects =
        json!([object("v1", &json!({ "name": "a" }), &Value::Null), object("v1", &wrong, &Value::Null)]);
    for (desired, message) in [
        ("accurate.cybozu.com/v2", "SubNamespace root/team: annotation internal"),
        (
            "accurate.cybozu.com/v3",
            "desiredAPIVersion \"accurate.cybozu.com/v3\": SubNamespace has no such version",
        ),
        ("v2", "desiredAPIVersion \"v2\""),
    ] {
        let answer = serde_json::to_value(answer(&review(desired, &objects)).unwrap()).unwrap();
        let response = &answer["response"];
        assert_eq!(
            (&response["uid"], &response["result"]["status"]),
            (&json!("705ab4f5"), &json!("Failure"))
        );
        assert!(response["result"]["message"].as_str().unwrap().starts_with(message), "{response}");
        assert_eq!(response["convertedObjects"], json!([]));
    }
}

#[test]
fn a_body_that_is_no_request_has_no_answer() {
    for (body, reason) in [
        ("{", "not a ConversionReview"),
        (r#"{"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1"}"#, "request missing"),
        (
            r#"{"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1beta1", "request": {"uid": "a", "desiredAPIVersion": "b", "objects": []}}"#,
            "not ConversionReview of apiextensions.k8s.io/v1beta1",
        ),
    ] {
        let error = answer(body.as_bytes()).expect_err(body);
        assert!(error.contains(reason), "{body}: {error}");
    }
}
