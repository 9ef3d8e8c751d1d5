//! Which fields are corrected, and which stay as they are.

use serde_json::json;

use super::*;

fn entry(name: &str, policy: &str) -> Value {
    json!({ "name": name, "failurePolicy": policy, "clientConfig": { "service": { "path": "/", "port": 443 } } })
}

fn trusted(mut entry: Value, bundle: &str) -> Value {
    entry["clientConfig"]["caBundle"] = json!(bundle);
    entry
}

fn required() -> Value {
    json!({
        "metadata": { "name": "w", "labels": { "app": "hns" } },
        "webhooks": [entry("a", "Fail"), entry("b", "Ignore")],
    })
}

fn found(entries: &[Value]) -> Value {
    let metadata = json!({ "name": "w", "resourceVersion": "7", "labels": { "app": "hns", "other": "x" } });
    json!({ "metadata": metadata, "webhooks": entries, "unknown": 1 })
}

fn with_bundle(bundle: &str) -> Context {
    Context { bundle: Some(json!(bundle)), owner: None }
}

#[test]
fn an_object_as_required_is_not_written() {
    let here = [trusted(entry("a", "Fail"), "Q0E="), entry("b", "Ignore")];
    // The second webhook has no bundle and takes that of the first.
    assert!(repaired(&found(&here), &required(), &Context::default()).is_some());
    let here = here.map(|entry| trusted(entry, "Q0E="));
    assert_eq!(repaired(&found(&here), &required(), &Context::default()), None);
    assert_eq!(repaired(&found(&here), &required(), &with_bundle("Q0E=")), None);
}

/// HNC's webhooks for quotas have the same address; hns answers them with an error.
#[test]
fn addresses_are_corrected_and_webhooks_of_others_removed() {
    let mut elsewhere = trusted(entry("a", "Ignore"), "Q0E=");
    elsewhere["clientConfig"]["service"]["port"] = json!(9443);
    elsewhere["matchConditions"] = json!([{ "name": "never", "expression": "false" }]);
    let here = found(&[entry("hrq.hnc.x-k8s.io", "Fail"), elsewhere]);
    let expected = found(&[trusted(entry("a", "Fail"), "Q0E="), trusted(entry("b", "Ignore"), "Q0E=")]);
    assert_eq!(repaired(&here, &required(), &Context::default()), Some(expected));
}

/// The bundle of a webhook that is not ours may be another program's.
#[test]
fn without_a_bundle_none_is_taken_from_a_webhook_of_others() {
    let here = found(&[trusted(entry("foreign", "Fail"), "Q0E=")]);
    let expected = found(&[entry("a", "Fail"), entry("b", "Ignore")]);
    assert_eq!(repaired(&here, &required(), &Context::default()), Some(expected));
}

#[test]
fn owner_labels_and_annotations_are_added_and_other_owners_removed() {
    let owner = json!({ "kind": "ClusterRole", "uid": "1" });
    let context = Context { owner: Some(owner.clone()), ..with_bundle("Q0E=") };
    let mut required = required();
    required["metadata"]["annotations"] = json!({ "inject": "here" });
    let mut here = found(&[trusted(entry("a", "Fail"), "Q0E="), trusted(entry("b", "Ignore"), "Q0E=")]);
    here["metadata"]["ownerReferences"] = json!([{ "kind": "ClusterRole", "uid": "0" }]);
    here["metadata"]["labels"] = json!({ "other": "x" });
    let after = repaired(&here, &required, &context).unwrap();
    assert_eq!(after["metadata"]["ownerReferences"], json!([owner]));
    assert_eq!(after["metadata"]["labels"], json!({ "app": "hns", "other": "x" }));
    assert_eq!(after["metadata"]["annotations"], json!({ "inject": "here" }));
    assert_eq!(repaired(&after, &required, &context), None);
    // Not known: it stays.
    assert_eq!(repaired(&after, &required, &Context { owner: None, ..context }), None);
    assert_ne!(content(&after), content(&here), "an earlier answer with other owners does not count");
}

#[test]
fn a_spec_is_ours_as_a_whole() {
    let required = json!({ "metadata": { "name": "p" }, "spec": { "a": [1] } });
    let found = json!({ "metadata": { "name": "p", "uid": "u" }, "spec": { "a": [1] }, "status": {} });
    assert_eq!(repaired(&found, &required, &Context::default()), None);
    let mut changed = found.clone();
    changed["spec"]["exclude"] = json!([]);
    assert_eq!(repaired(&changed, &required, &Context::default()), Some(found));
}

#[test]
fn what_is_created_has_owner_and_bundle() {
    let owner = json!({ "uid": "1" });
    let created = complete(&required(), &Context { owner: Some(owner.clone()), ..with_bundle("TkVX") });
    assert_eq!(created["metadata"]["ownerReferences"], json!([owner]));
    assert_eq!(created["webhooks"][1], trusted(entry("b", "Ignore"), "TkVX"));
    assert_eq!(complete(&required(), &Context::default()), required());
}

/// With `--manage-registrations=false` nothing else is written.
#[test]
fn a_new_bundle_changes_our_webhooks_and_no_other_field() {
    let foreign = trusted(entry("foreign", "Fail"), "Q0E=");
    let here = [entry("a", "Changed"), foreign.clone(), entry("b", "Ignore")];
    let new = json!("TkVX");
    let expected = [trusted(here[0].clone(), "TkVX"), foreign, trusted(here[2].clone(), "TkVX")];
    let after = trusting(&found(&here), &required(), &new).unwrap();
    assert_eq!(after, found(&expected));
    assert_eq!(trusting(&after, &required(), &new), None);
    let named: Vec<_> = bundles(&after, &required()).cloned().collect();
    assert_eq!(named, [new.clone(), new]);
}
