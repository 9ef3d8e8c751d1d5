//! What is read of a review, and what a denial looks like.

use forest::rules::{DenialKind, Operation, Pairs};
use serde_json::json;

use super::super::name as name_of;
use super::*;
use crate::respond::{self, Subject};

/// The request of a review about a Role in namespace `kid`, with `fields` added.
fn request(operation: &str, fields: Value) -> String {
    let version = json!({"group": "rbac.authorization.k8s.io", "version": "v1"});
    let with = |key: &str, value: &str| {
        let mut version = version.clone();
        version[key] = json!(value);
        version
    };
    let mut request = json!({
        "uid": "1", "kind": with("kind", "Role"), "resource": with("resource", "roles"), "name": "r",
        "namespace": "kid", "operation": operation, "userInfo": {"username": "jane", "groups": ["staff"]},
        "object": null, "oldObject": null, "dryRun": false, "options": null,
    });
    let Value::Object(fields) = fields else { panic!("{fields}") };
    request.as_object_mut().unwrap().extend(fields);
    request.to_string()
}

fn parsed(request: &str) -> Request<'_> {
    serde_json::from_str(request).unwrap()
}

fn role(metadata: &Value) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata,
        "rules": [{"verbs": ["get"]}],
    })
}

#[test]
fn an_update_with_everything_that_is_judged() {
    let old = role(&json!({"name": "r", "namespace": "kid"}));
    let new = role(&json!({
        "name": "r", "namespace": "kid", "labels": {"a": "b"}, "annotations": {"c": "d"}, "finalizers": ["x/y"],
        "deletionTimestamp": "2020-01-01T00:00:00Z",
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "blockOwnerDeletion": true}],
    }));
    let request = request("UPDATE", json!({"object": new, "oldObject": old, "subResource": "status"}));
    let read = read(&parsed(&request)).unwrap();
    assert_eq!(read.operation, Operation::Update);
    assert_eq!((&*read.namespace, &*read.name), ("kid", "r"));
    assert_eq!((&*read.group, &*read.kind), ("rbac.authorization.k8s.io", "Role"));
    assert_eq!((&*read.user.name, &*read.user.groups), ("jane", &["staff".to_owned()][..]));
    let (old, new) = (read.old.unwrap(), read.new.unwrap());
    assert_eq!(new.labels.get("a"), Some("b"));
    assert_eq!(new.annotations.get("c"), Some("d"));
    assert_eq!(new.finalizers, ["x/y"]);
    let owner =
        json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "blockOwnerDeletion": true});
    assert_eq!(new.owner_references, [owner]);
    assert!(new.terminating && !old.terminating);
    assert_eq!(new.body.get("rules"), Some(json!([{"verbs": ["get"]}])));
    assert_eq!(new.body.get("rules"), old.body.get("rules"));
    assert_eq!((old.labels, old.annotations), (Pairs::default(), Pairs::default()));
    assert!(old.finalizers.is_empty());
}

/// A generated name may be missing in the request, and of a deleted collection every name is.
#[test]
fn the_name_is_the_objects() {
    let made_up = role(&json!({"name": "r-x7k2p", "generateName": "r-", "namespace": "kid"}));
    let yet_to_come = role(&json!({"generateName": "r-", "namespace": "kid"}));
    let cases = [
        ("CREATE", json!({"name": "", "object": made_up}), "r-x7k2p"),
        ("CREATE", json!({"name": "", "object": yet_to_come}), ""),
        ("DELETE", json!({"name": "", "oldObject": made_up}), "r-x7k2p"),
    ];
    for (operation, fields, name) in cases {
        let request = request(operation, fields);
        let request = parsed(&request);
        assert_eq!(&*read(&request).unwrap().name, name, "{operation}");
        assert_eq!(name_of(&request), name, "{operation}");
    }
}

#[test]
fn what_cannot_be_read_is_denied() {
    let object = role(&json!({"name": "r", "namespace": "kid"}));
    for (operation, fields) in [
        ("CREATE", json!({})),
        ("CREATE", json!({"oldObject": object})),
        ("UPDATE", json!({"object": object})),
        ("UPDATE", json!({"oldObject": object})),
        ("DELETE", json!({"object": object})),
        ("CONNECT", json!({"object": object})),
    ] {
        let denied = read(&parsed(&request(operation, fields.clone()))).unwrap_err();
        assert_eq!(denied.kind, DenialKind::BadRequest, "{operation} {fields}");
    }
}

#[test]
fn a_denial_names_the_object_as_hnc_does() {
    let request = request("CREATE", json!({"object": role(&json!({"name": "r"}))}));
    let request = parsed(&request);
    let subject = Subject::object(&request, "kid", "r");
    let cases = [
        (DenialKind::Forbidden, 403, "roles.rbac.authorization.k8s.io \"kid/r\" is forbidden: because"),
        (
            DenialKind::Conflict,
            409,
            "Operation cannot be fulfilled on roles.rbac.authorization.k8s.io \"kid/r\": because",
        ),
        (DenialKind::BadRequest, 400, "because"),
        (DenialKind::Unavailable, 503, "because"),
    ];
    for (kind, code, message) in cases {
        let review = respond::deny(&request, &subject, &Denial::new(kind, "because"));
        let status = serde_json::to_value(review).unwrap()["response"]["status"].take();
        assert_eq!((&status["code"], &status["message"]), (&json!(code), &json!(message)));
        let details = json!({"name": "kid/r", "group": "rbac.authorization.k8s.io", "kind": "roles"});
        assert_eq!(status["details"], details);
    }
}
