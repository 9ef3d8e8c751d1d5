//! What is put right, and what is left as it was found.

use serde_json::json;

use super::*;

fn entry(name: &str, policy: &str, path: &str) -> Value {
    json!({ "name": name, "failurePolicy": policy, "clientConfig": { "service": { "path": path } } })
}

fn wanted() -> Value {
    json!({ "webhooks": [entry("a", "Fail", "/a"), entry("b", "Ignore", "/b")] })
}

fn found(entries: &[Value]) -> Value {
    json!({ "metadata": { "resourceVersion": "7" }, "webhooks": entries, "unknown": 1 })
}

fn with_url(mut entry: Value, url: &str) -> Value {
    entry["clientConfig"] = json!({ "url": url, "caBundle": "Q0E=" });
    entry
}

#[test]
fn what_is_as_wanted_is_not_written() {
    let here = [
        with_url(entry("a", "Fail", ""), "https://here/x"),
        json!({ "name": "foreign" }),
        with_url(entry("b", "Ignore", ""), "https://there/y"),
    ];
    assert_eq!(webhooks(&found(&here), &wanted(), None), Repair { object: None, impossible: vec![] });
}

#[test]
fn our_fields_are_put_right_and_nothing_else() {
    let foreign = json!({ "name": "foreign", "failurePolicy": "Fail" });
    let open = with_url(entry("a", "Ignore", ""), "https://here/x");
    let mut added = with_url(entry("b", "Ignore", ""), "https://here/y");
    added["objectSelector"] = json!({ "matchLabels": { "skip": "me" } });
    let repaired = webhooks(&found(&[foreign.clone(), open, added]), &wanted(), None).object.unwrap();
    let expected = found(&[
        foreign,
        with_url(entry("a", "Fail", ""), "https://here/x"),
        with_url(entry("b", "Ignore", ""), "https://here/y"),
    ]);
    assert_eq!(repaired, expected);
}

#[test]
fn a_missing_entry_is_called_as_its_siblings_are() {
    let sibling = with_url(entry("b", "Ignore", ""), "https://127.0.0.1:4711/b/and/more");
    let repair = webhooks(&found(&[sibling]), &wanted(), None);
    let added = &repair.object.unwrap()["webhooks"][1];
    assert_eq!(added["name"], "a");
    assert_eq!(added["clientConfig"], json!({ "url": "https://127.0.0.1:4711/a", "caBundle": "Q0E=" }));

    let mut sibling = entry("b", "Ignore", "/b");
    sibling["clientConfig"]["caBundle"] = json!("Q0E=");
    sibling["clientConfig"]["service"]["name"] = json!("door");
    let added = &webhooks(&found(&[sibling]), &wanted(), None).object.unwrap()["webhooks"][1]["clientConfig"];
    assert_eq!(*added, json!({ "service": { "name": "door", "path": "/a" }, "caBundle": "Q0E=" }));
}

/// An authority is never guessed, least of all from somebody else's entry.
#[test]
fn without_a_sibling_nothing_is_added() {
    for here in [vec![], vec![with_url(json!({ "name": "foreign" }), "https://there/x")]] {
        let repair = webhooks(&found(&here), &wanted(), None);
        assert_eq!(repair, Repair { object: None, impossible: vec!["a".into(), "b".into()] });
    }
}

#[test]
fn only_entries_of_ours_that_a_setting_leaves_out_are_taken_away() {
    let here = |name: &str| {
        let mut all = vec![entry("a", "Fail", "/a"), entry("b", "Ignore", "/b")];
        all.push(entry(name, "Fail", "/x"));
        found(&all)
    };
    assert_eq!(webhooks(&here("objects.hnc.x-k8s.io"), &wanted(), None).object, None);
    let repaired = webhooks(&here(names::webhooks::INITIAL_ADMIN), &wanted(), None).object.unwrap();
    assert_eq!(repaired["webhooks"].as_array().unwrap().len(), 2);
}

#[test]
fn a_spec_is_ours_as_a_whole() {
    let wanted = json!({ "metadata": { "name": "p" }, "spec": { "a": [1] } });
    let found = json!({ "metadata": { "name": "p", "uid": "u" }, "spec": { "a": [1] }, "status": {} });
    assert_eq!(spec(&found, &wanted), None);
    let mut changed = found.clone();
    changed["spec"]["exclude"] = json!([]);
    assert_eq!(spec(&changed, &wanted), Some(found));
}

#[test]
fn a_missing_entry_without_siblings_is_called_at_its_service_where_the_authority_is_known() {
    let foreign = with_url(json!({ "name": "foreign" }), "https://there/x");
    let new = json!("TkVX");
    let repair = webhooks(&found(&[foreign]), &wanted(), Some(&new));
    assert_eq!(repair.impossible, [""; 0]);
    let added = &repair.object.unwrap()["webhooks"][1]["clientConfig"];
    assert_eq!(*added, json!({ "service": { "path": "/a" }, "caBundle": "TkVX" }));
}

/// Exactly one field of our own entries is written, and that only if it differs.
#[test]
fn authorities_are_put_into_our_entries_and_nowhere_else() {
    let foreign = with_url(json!({ "name": "foreign" }), "https://there/x");
    let without = entry("b", "Ignore", "/b");
    let here = [with_url(entry("a", "Changed", "/a"), "https://here/x"), foreign.clone(), without];
    let new = json!("TkVX");
    let mut expected = here.clone();
    expected[0]["clientConfig"]["caBundle"] = new.clone();
    expected[2]["clientConfig"]["caBundle"] = new.clone();
    let repaired = authority(&found(&here), &wanted(), &new).unwrap();
    assert_eq!(repaired, found(&expected));
    assert_eq!(authority(&repaired, &wanted(), &new), None);
    let named: Vec<_> = authorities(&repaired, &wanted()).cloned().collect();
    assert_eq!(named, [new.clone(), new]);
}
