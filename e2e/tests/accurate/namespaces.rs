//! The labels and annotations that namespaces get (section 8.2 of Accurate's contract, and numbers 8, 9 and 12 of section 15).

use serde_json::json;

use super::scene::{
    CREATED_BY, FORMS, PARENT, SECRETS, TYPE, annotation, label, namespace, path, scene, version,
};

#[tokio::test]
async fn labels_flow_down_and_go_again_and_those_of_a_sub_namespace_win() {
    let scene = scene().await;
    let labels = json!({ TYPE: "root", "team": "red", "zone": "z", "a.test/b": "c", "other": "x" });
    scene.create_namespace("n-root", labels).await;
    scene
        .patch(&namespace("n-root"), json!({ "metadata": { "annotations": { "note": "n", "more": "m" } } }))
        .await;
    let spec = json!({ "labels": { "team": "blue", "tier": "1", "zone": "y", PARENT: "evil", "no": "x" },
        "annotations": { "owner": "o", "note": "x" } });
    scene.create_sub("n-root", "n-mid", spec).await;
    scene.create_sub("n-mid", "n-leaf", json!({})).await;
    let mid = scene.until(&namespace("n-mid"), "has its tier", |it| label(it, "tier") == "1").await;
    for (key, value) in
        [("team", "blue"), ("zone", "z"), ("a.test/b", "c"), (PARENT, "n-root"), (CREATED_BY, "accurate")]
    {
        assert_eq!(label(&mid, key), value, "{key}: {mid}");
    }
    assert_eq!((annotation(&mid, "note"), annotation(&mid, "owner")), (&json!("n"), &json!("o")));
    for key in ["other", "no", TYPE] {
        assert!(label(&mid, key).is_null(), "{key}: {mid}");
    }
    assert!(annotation(&mid, "more").is_null(), "{mid}");
    // What a SubNamespace sets flows on, if it may flow.
    let leaf =
        scene.until(&namespace("n-leaf"), "is in the blue team", |it| label(it, "team") == "blue").await;
    assert!(label(&leaf, "tier").is_null() && annotation(&leaf, "owner").is_null(), "{leaf}");

    let own = json!({ "metadata": { "labels": { "own": "1", "zone": "tampered" } } });
    scene.patch(&namespace("n-mid"), own).await;
    scene.until(&namespace("n-mid"), "has its zone again", |it| label(it, "zone") == "z").await;
    let form = path(FORMS, "n-root", "n-mid");
    scene
        .patch(&form, json!({ "spec": { "labels": { "team": "green", "tier": null }, "annotations": null } }))
        .await;
    let is_so = |it: &serde_json::Value| label(it, "team") == "green" && label(it, "tier").is_null();
    let mid = scene.until(&namespace("n-mid"), "follows the SubNamespace", is_so).await;
    assert!(annotation(&mid, "owner").is_null() && label(&mid, "own") == "1", "{mid}");
    scene.until(&namespace("n-leaf"), "follows", |it| label(it, "team") == "green").await;

    let gone = json!({ "metadata": { "labels": { "zone": null }, "annotations": { "note": "changed" } } });
    scene.patch(&namespace("n-root"), gone).await;
    for name in ["n-mid", "n-leaf"] {
        let seen = scene.until(&namespace(name), "loses its zone", |it| label(it, "zone").is_null()).await;
        assert_eq!((annotation(&seen, "note"), label(&seen, "a.test/b")), (&json!("changed"), &json!("c")));
    }
    scene.patch(&namespace("n-root"), json!({ "metadata": { "annotations": { "note": null } } })).await;
    for name in ["n-mid", "n-leaf"] {
        scene.until(&namespace(name), "loses its note", |it| annotation(it, "note").is_null()).await;
    }
    // Nothing changes when nothing has changed.
    let versions = async || {
        let mut all = Vec::new();
        for name in ["n-root", "n-mid", "n-leaf"] {
            all.push(version(&scene.get(&namespace(name)).await.unwrap().unwrap()));
        }
        all
    };
    scene.create(SECRETS, "n-root", "first", "create", json!({})).await;
    scene.copied(SECRETS, "n-mid", "n-leaf", "first").await;
    let before = versions().await;
    scene.create(SECRETS, "n-root", "second", "create", json!({})).await;
    scene.copied(SECRETS, "n-mid", "n-leaf", "second").await;
    assert_eq!(versions().await, before);
}

#[tokio::test]
async fn an_empty_parent_means_nothing() {
    let scene = scene().await;
    scene.create_namespace("e-empty", json!({ PARENT: "", TYPE: "root" })).await;
    scene.create_sub("e-empty", "e-sub", json!({})).await;
    scene.create(SECRETS, "e-empty", "s", "update", json!({})).await;
    scene.copied(SECRETS, "e-empty", "e-sub", "s").await;
}
