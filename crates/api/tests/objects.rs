//! Objects of clusters can be read, and are written back with the same meaning.

use hns_api::{
    ConflictPolicy, HNCConfiguration, HierarchicalResourceQuota, HierarchyConfiguration, ResourceSpec,
    SubnamespaceAnchor, SynchronizationMode,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

/// The object after it is read and written.
fn round_trip<T: DeserializeOwned + Serialize>(object: &Value) -> serde_json::Result<Value> {
    serde_json::to_value(serde_json::from_value::<T>(object.clone())?)
}

fn object(kind: &str, name: &str, rest: &Value) -> Value {
    let mut object = json!({
        "apiVersion": "hnc.x-k8s.io/v1alpha2",
        "kind": kind,
        "metadata": { "name": name, "uid": "6f1c", "resourceVersion": "7", "finalizers": ["example.com/keep"] },
    });
    for (key, value) in rest.as_object().into_iter().flatten() {
        object[key] = value.clone();
    }
    object
}

#[test]
fn a_hierarchy_configuration_is_written_back_as_it_was_read() {
    for rest in [
        json!({ "spec": { "parent": "acme", "allowCascadingDeletion": false } }),
        json!({ "spec": { "allowCascadingDeletion": true } }),
        json!({ "spec": { "parent": "", "labels": [], "annotations": [] } }),
        json!({ "spec": { "labels": [{ "key": "example.com/a", "value": "" }] } }),
        json!({
            "spec": {},
            "status": {
                "children": ["a", "b"],
                "conditions": [{
                    "lastTransitionTime": "1970-01-01T00:00:00Z",
                    "message": "m",
                    "observedGeneration": 3,
                    "reason": "InCycle",
                    "status": "True",
                    "type": "ActivitiesHalted",
                }],
            },
        }),
    ] {
        let read = object("HierarchyConfiguration", "hierarchy", &rest);
        assert_eq!(round_trip::<HierarchyConfiguration>(&read).unwrap(), read);
    }
}

#[test]
fn the_other_kinds_are_written_back_as_they_were_read() {
    let anchor = object(
        "SubnamespaceAnchor",
        "team",
        &json!({ "spec": { "annotations": [{ "key": "a", "value": "b" }] }, "status": { "status": "Ok" } }),
    );
    assert_eq!(round_trip::<SubnamespaceAnchor>(&anchor).unwrap(), anchor);

    let config = object(
        "HNCConfiguration",
        "config",
        &json!({
            "spec": { "resources": [
                { "resource": "secrets", "mode": "AllowPropagate" },
                { "group": "apps", "resource": "deployments" },
                { "resource": "configmaps", "onConflict": "Report", "excludedNames": ["team-*"] },
            ] },
            "status": { "resources": [
                { "group": "", "version": "v1", "resource": "secrets", "mode": "Propagate", "numSourceObjects": 0 },
            ] },
        }),
    );
    assert_eq!(round_trip::<HNCConfiguration>(&config).unwrap(), config);

    let quota = object(
        "HierarchicalResourceQuota",
        "limits",
        &json!({
            "spec": { "hard": { "pods": "4", "limits.cpu": "1500m" } },
            "status": {
                "used": { "pods": "0" },
                "requestsSummary": "pods: 0/4",
                "conditions": [{
                    "type": "Enforced",
                    "status": "True",
                    "reason": "Enforced",
                    "message": "",
                    "lastTransitionTime": "2024-05-06T07:08:09Z",
                }],
            },
        }),
    );
    assert_eq!(round_trip::<HierarchicalResourceQuota>(&quota).unwrap(), quota);
}

#[test]
fn missing_fields_are_empty() {
    let bare = json!({ "metadata": { "name": "hierarchy", "namespace": "acme" } });
    let configuration: HierarchyConfiguration = serde_json::from_value(bare.clone()).unwrap();
    assert_eq!(configuration.metadata.namespace.as_deref(), Some("acme"));
    assert_eq!(configuration.parent(), None);
    assert!(!configuration.allows_cascading_deletion());
    assert_eq!(configuration.status, None);
    let anchor: SubnamespaceAnchor = serde_json::from_value(bare.clone()).unwrap();
    assert_eq!(anchor.state(), None);
    let config: HNCConfiguration = serde_json::from_value(bare.clone()).unwrap();
    assert_eq!(config.spec.resources, None);
    let quota: HierarchicalResourceQuota = serde_json::from_value(bare).unwrap();
    assert_eq!(quota.spec.hard, None);

    serde_json::from_value::<HierarchyConfiguration>(json!({})).unwrap();
    serde_json::from_value::<HierarchyConfiguration>(json!({ "spec": { "parent": 7 } }))
        .expect_err("a wrong type is not a missing field");
}

#[test]
fn an_empty_parent_is_none() {
    let read = |parent: &str| -> HierarchyConfiguration {
        serde_json::from_value(json!({ "spec": { "parent": parent } })).unwrap()
    };
    assert_eq!(read("").parent(), None);
    assert_eq!(read("acme").parent(), Some("acme"));
}

#[test]
fn unknown_modes_are_preserved() {
    let read = |entry: Value| -> HNCConfiguration {
        serde_json::from_value(json!({ "spec": { "resources": [entry] } })).unwrap()
    };
    let mode = |config: &HNCConfiguration| config.spec.resources.as_ref().unwrap()[0].mode();

    assert_eq!(mode(&read(json!({ "resource": "secrets" }))), SynchronizationMode::Propagate);
    for (word, expected) in [
        ("Propagate", SynchronizationMode::Propagate),
        ("Ignore", SynchronizationMode::Ignore),
        ("Remove", SynchronizationMode::Remove),
        ("AllowPropagate", SynchronizationMode::AllowPropagate),
        ("propagate", SynchronizationMode::Unknown("propagate".into())),
    ] {
        let config = read(json!({ "resource": "secrets", "mode": word }));
        assert_eq!(mode(&config), expected);
        let written = serde_json::to_value(&config).unwrap();
        assert_eq!(written.pointer("/spec/resources/0/mode"), Some(&json!(word)));
    }
}

#[test]
fn unknown_conflict_policies_are_preserved() {
    let read = |entry: Value| serde_json::from_value::<ResourceSpec>(entry).unwrap();
    assert_eq!(read(json!({ "resource": "secrets" })).on_conflict, None);
    for (word, expected) in [
        ("Keep", ConflictPolicy::Keep),
        ("Overwrite", ConflictPolicy::Overwrite),
        ("Report", ConflictPolicy::Report),
        ("report", ConflictPolicy::Unknown("report".into())),
    ] {
        let entry = read(json!({ "resource": "secrets", "onConflict": word }));
        assert_eq!(entry.on_conflict, Some(expected));
        assert_eq!(serde_json::to_value(&entry).unwrap()["onConflict"], json!(word));
    }
}

#[test]
fn quantities_may_be_numbers() {
    let quota: HierarchicalResourceQuota = serde_json::from_value(json!({ "spec": { "hard": {
            "pods": 4, "cpu": 1.5, "limits.cpu": "1.50", "services": 1e3, "secrets": -1,
        } } }))
    .unwrap();
    let texts: Vec<String> = quota.spec.hard.unwrap().into_values().map(|quantity| quantity.0).collect();
    assert_eq!(texts, ["1.5", "1.50", "4", "-1", "1000"]);
}
