//! Changes of a source's mode, users' own objects in the place of copies, and namespaces that move (numbers 3 to 7 of section 15 of
//! Accurate's contract).

use hns_e2e::eventually;
use hns_e2e::steps::PATIENCE;
use serde_json::{Value, json};

use super::scene::{
    FINALIZER, FROM, PARENT, PROPAGATE, QUOTAS, SECRETS, TYPE, annotation, namespace, path, scene, version,
};

fn mode(mode: Option<&str>) -> Value {
    json!({ "metadata": { "annotations": { PROPAGATE: mode } } })
}

#[tokio::test]
async fn a_changed_mode_changes_the_copies_in_place_and_a_removed_one_removes_them() {
    let scene = scene().await;
    scene.create_root("m-root").await;
    scene.create_sub("m-root", "m-mid", json!({})).await;
    scene.create_sub("m-mid", "m-leaf", json!({})).await;
    let (root, mid, leaf) =
        (path(SECRETS, "m-root", "s"), path(SECRETS, "m-mid", "s"), path(SECRETS, "m-leaf", "s"));
    scene.create(SECRETS, "m-root", "s", "update", json!({})).await;
    scene.copied(SECRETS, "m-mid", "m-leaf", "s").await;
    let (uid, _) = version(&scene.copied(SECRETS, "m-root", "m-mid", "s").await);
    scene.patch(&root, mode(Some("create"))).await;
    for place in [&mid, &leaf] {
        scene.until(place, "is created once", |it| annotation(it, PROPAGATE) == "create").await;
    }
    assert_eq!(scene.get(&mid).await.unwrap().unwrap()["metadata"]["uid"], uid.as_str(), "in place");
    scene.patch(&root, mode(Some("update"))).await;
    for place in [&mid, &leaf] {
        scene.until(place, "is followed", |it| annotation(it, PROPAGATE) == "update").await;
    }
    scene.patch(&root, mode(None)).await;
    scene.gone(&mid).await;
    scene.gone(&leaf).await;
}

#[tokio::test]
async fn an_own_object_is_kept_and_reported_until_it_is_handed_over() {
    let scene = scene().await;
    scene.create_root("k-root").await;
    scene.create_sub("k-root", "k-sub", json!({})).await;
    let place = path(SECRETS, "k-sub", "s");
    scene.create(SECRETS, "k-sub", "s", "", json!({ "data": { "own": "dg==" } })).await;
    scene.create(SECRETS, "k-root", "s", "update", json!({ "data": { "k": "dg==" } })).await;
    let events = "/api/v1/namespaces/k-sub/events";
    eventually("an event reports the conflict", PATIENCE, async || {
        let all = scene.get(events).await?.unwrap_or_default();
        let all = all["items"].as_array().cloned().unwrap_or_default();
        let is_it = |it: &Value| it["message"].as_str().is_some_and(|text| text.contains("left as it is"));
        if all.iter().any(is_it) { Ok(()) } else { Err(format!("{all:?}")) }
    })
    .await
    .unwrap();
    assert_eq!(scene.get(&place).await.unwrap().unwrap()["data"], json!({ "own": "dg==" }));
    scene.patch(&place, json!({ "metadata": { "annotations": { FROM: "k-root" } } })).await;
    scene.until(&place, "is a copy", |it| it["data"] == json!({ "k": "dg==" })).await;
}

/// The scopes of a quota cannot be changed: its copy is created anew.
#[tokio::test]
async fn a_namespace_that_moves_or_is_cut_loses_what_was_followed() {
    let scene = scene().await;
    let (loose, strict) =
        (json!({ "hard": { "pods": "9" }, "scopes": ["BestEffort"] }), json!({ "hard": { "pods": "1" } }));
    for (root, quota) in [("v-one", &loose), ("v-two", &strict)] {
        scene.create_root(root).await;
        scene.create(QUOTAS, root, "q", "update", json!({ "spec": quota })).await;
        for mode in ["create", "update"] {
            let name = format!("{mode}-{root}");
            scene.create(SECRETS, root, &name, mode, json!({})).await;
        }
    }
    scene.create_sub("v-one", "v-sub", json!({})).await;
    for mode in ["create", "update"] {
        scene.copied(SECRETS, "v-one", "v-sub", &format!("{mode}-v-one")).await;
    }
    assert_eq!(scene.copied(QUOTAS, "v-one", "v-sub", "q").await["spec"], loose);
    let patch = json!({ "metadata": { "labels": { PARENT: "v-two" } } });
    scene.send_until_allowed("PATCH", &namespace("v-sub"), patch).await;
    scene.gone(&path(SECRETS, "v-sub", "update-v-one")).await;
    for mode in ["create", "update"] {
        scene.copied(SECRETS, "v-two", "v-sub", &format!("{mode}-v-two")).await;
    }
    scene.copied(SECRETS, "v-one", "v-sub", "create-v-one").await;
    assert_eq!(scene.copied(QUOTAS, "v-two", "v-sub", "q").await["spec"], strict);
    let patch = json!({ "metadata": { "labels": { PARENT: null, TYPE: "root" } } });
    scene.send_until_allowed("PATCH", &namespace("v-sub"), patch).await;
    scene.gone(&path(SECRETS, "v-sub", "update-v-two")).await;
    scene.copied(SECRETS, "v-two", "v-sub", "create-v-two").await;
}

/// A namespace that is being deleted gets no copy, and keeps none from its siblings.
#[tokio::test]
async fn a_terminating_child_does_not_stop_its_siblings() {
    let scene = scene().await;
    scene.create_root("x-root").await;
    for child in ["x-a", "x-going", "x-z"] {
        scene.create_sub("x-root", child, json!({})).await;
    }
    // It stays while it holds an object with a finalizer.
    let held = json!({ "metadata": { "finalizers": ["example.com/held"] } });
    scene.create(SECRETS, "x-going", "held", "", held).await;
    scene.delete(&namespace("x-going")).await;
    let going = |it: &Value| it["metadata"]["deletionTimestamp"].is_string();
    scene.until(&namespace("x-going"), "is being deleted", going).await;
    scene.create(SECRETS, "x-root", "s", "update", json!({})).await;
    for sibling in ["x-a", "x-z"] {
        scene.copied(SECRETS, "x-root", sibling, "s").await;
    }
    assert_eq!(scene.get(&path(SECRETS, "x-going", "s")).await, Ok(None));
    let free = json!({ "metadata": { "finalizers": null } });
    scene.patch(&path(SECRETS, "x-going", "held"), free).await;
    // Its SubNamespace is still there, so that it is created again, with the copy.
    scene.copied(SECRETS, "x-root", "x-going", "s").await;
    let form = scene.get(&path(super::scene::FORMS, "x-root", "x-going")).await.unwrap().unwrap();
    assert_eq!(form["metadata"]["finalizers"], json!([FINALIZER]));
}
