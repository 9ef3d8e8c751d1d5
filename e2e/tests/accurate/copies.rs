//! Copies of objects: what they contain, and that they follow their sources (sections 8 and 9 of Accurate's contract, and numbers 1
//! to 7 of section 15).

use serde_json::{Value, json};

use super::scene::{
    ACCOUNTS, BINDINGS, CREATED_BY, FROM, PROPAGATE, QUOTAS, ROLES, SECRETS, annotation, at, label, path,
    scene, send, version,
};

const RBAC: &str = "rbac.authorization.k8s.io";

fn subjects(names: &[&str]) -> Value {
    names.iter().map(|name| json!({ "apiGroup": RBAC, "kind": "User", "name": name })).collect()
}

fn binding(users: &[&str]) -> Value {
    let role = json!({ "apiGroup": RBAC, "kind": "ClusterRole", "name": "view" });
    json!({ "roleRef": role, "subjects": subjects(users) })
}

#[tokio::test]
async fn copies_reach_every_level_and_name_the_namespace_above_them() {
    let scene = scene().await;
    scene.create_root("c-root").await;
    scene.create_sub("c-root", "c-mid", json!({})).await;
    scene.create_sub("c-mid", "c-leaf", json!({})).await;
    let metadata = json!({
        "labels": { "kept": "1", "app.kubernetes.io/name": "x" },
        "annotations": { "kept": "2", "kubectl.kubernetes.io/x": "y" },
    });
    for mode in ["create", "update", ""] {
        let name = if mode.is_empty() { "plain" } else { mode };
        let body = json!({ "metadata": metadata, "data": { "k": "dg==" } });
        scene.create(SECRETS, "c-root", name, mode, body).await;
    }
    for (from, to) in [("c-root", "c-mid"), ("c-mid", "c-leaf")] {
        for mode in ["create", "update"] {
            let copy = scene.copied(SECRETS, from, to, mode).await;
            assert_eq!(annotation(&copy, PROPAGATE), mode);
            assert_eq!(copy["metadata"]["labels"], json!({ "kept": "1", CREATED_BY: "accurate" }));
            assert_eq!(annotation(&copy, "kept"), "2");
            assert!(annotation(&copy, "kubectl.kubernetes.io/x").is_null(), "{copy}");
            assert_eq!(copy["data"], json!({ "k": "dg==" }));
            let managers = copy["metadata"]["managedFields"].as_array().unwrap();
            assert!(managers.iter().all(|it| it["manager"] == "accurate-controller"), "{copy}");
        }
        assert_eq!(scene.get(&path(SECRETS, to, "plain")).await, Ok(None));
    }
}

/// What a source loses, its copies lose: a right that is revoked above is revoked below.
#[tokio::test]
async fn removals_reach_the_copies() {
    let scene = scene().await;
    scene.create_root("r-root").await;
    scene.create_sub("r-root", "r-mid", json!({})).await;
    scene.create_sub("r-mid", "r-leaf", json!({})).await;
    let labels = json!({ "labels": { "a": "1", "b": "2" } });
    scene
        .create(
            SECRETS,
            "r-root",
            "s",
            "update",
            json!({ "metadata": labels, "data": { "a": "YQ==", "b": "Yg==" } }),
        )
        .await;
    scene.create(BINDINGS, "r-root", "b", "update", binding(&["alice"])).await;
    scene
        .create(
            QUOTAS,
            "r-root",
            "q",
            "update",
            json!({ "spec": { "hard": { "pods": "1", "secrets": "9" } } }),
        )
        .await;
    for to in ["r-mid", "r-leaf"] {
        scene
            .until(&path(BINDINGS, to, "b"), "binds alice", |it| at(it, "/subjects/0/name") == "alice")
            .await;
        scene.until(&path(SECRETS, to, "s"), "has b", |it| it["data"]["b"] == "Yg==").await;
        scene.until(&path(QUOTAS, to, "q"), "limits secrets", |it| at(it, "/spec/hard/secrets") == "9").await;
    }
    let patch = json!({ "data": { "b": null }, "metadata": { "labels": { "b": null } } });
    scene.patch(&path(SECRETS, "r-root", "s"), patch).await;
    scene.patch(&path(BINDINGS, "r-root", "b"), json!({ "subjects": null })).await;
    scene.patch(&path(QUOTAS, "r-root", "q"), json!({ "spec": { "hard": { "secrets": null } } })).await;
    for to in ["r-mid", "r-leaf"] {
        scene
            .until(&path(BINDINGS, to, "b"), "binds nobody", |it| {
                it.is_object() && at(it, "/subjects/0").is_null()
            })
            .await;
        let copy =
            scene.until(&path(SECRETS, to, "s"), "loses b", |it| it["data"] == json!({ "a": "YQ==" })).await;
        assert!(label(&copy, "b").is_null(), "{copy}");
        scene
            .until(&path(QUOTAS, to, "q"), "loses a limit", |it| {
                at(it, "/spec/hard") == &json!({ "pods": "1" })
            })
            .await;
    }
}

/// A copy is replaced whole only while others have nothing on it.
#[tokio::test]
async fn what_others_may_set_on_a_copy_stays_when_it_follows() {
    let scene = scene().await;
    scene.create_root("kw-root").await;
    scene.create_sub("kw-root", "kw-sub", json!({})).await;
    let account = scene.until(&path(ACCOUNTS, "kw-sub", "default"), "is there", Value::is_object).await;
    let uid = version(&account).0;
    let owner = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "name": "default", "uid": uid });
    let others = [
        ("bare", json!({})),
        ("labelled", json!({ "labels": { "kubernetes.io/x": "y" } })),
        ("noted", json!({ "annotations": { "kubernetes.io/x": "y" } })),
        ("held", json!({ "finalizers": ["example.com/held"] })),
        ("owned", json!({ "ownerReferences": [owner] })),
    ];
    for (name, set) in others {
        let place = path(SECRETS, "kw-sub", name);
        scene
            .create(SECRETS, "kw-root", name, "update", json!({ "data": { "a": "YQ==", "b": "Yg==" } }))
            .await;
        scene.copied(SECRETS, "kw-root", "kw-sub", name).await;
        scene.patch(&place, json!({ "metadata": set })).await;
        let data = json!({ "a": "eA==", "b": null });
        scene.patch(&path(SECRETS, "kw-root", name), json!({ "data": data })).await;
        let copy = scene.until(&place, "follows", |it| it["data"] == json!({ "a": "eA==" })).await;
        for (field, set) in set.as_object().unwrap() {
            let now = &copy["metadata"][field];
            let is_there = match set.as_object() {
                Some(pairs) => pairs.iter().all(|(key, value)| now[key] == *value),
                None => now == set,
            };
            assert!(is_there, "{copy}");
        }
        assert_eq!(copy["metadata"]["managedFields"].is_null(), name == "bare", "{copy}");
        scene.patch(&place, json!({ "metadata": { "finalizers": null } })).await;
    }
}

/// Accurate created copies by POST, so that they keep what its field manager has created.
#[tokio::test]
async fn copies_that_accurate_has_created_follow_too() {
    let scene = scene().await;
    scene.create_root("o-root").await;
    scene.create_sub("o-root", "o-sub", json!({})).await;
    scene.create(BINDINGS, "o-root", "first", "create", binding(&[])).await;
    scene.copied(BINDINGS, "o-root", "o-sub", "first").await;
    let mut copy = binding(&["mallory"]);
    copy["metadata"] = json!({
        "name": "b", "labels": { CREATED_BY: "accurate", "old": "x" }, "annotations": { FROM: "o-root", PROPAGATE: "create" },
    });
    let collection = format!("{}?fieldManager=accurate-controller", path(BINDINGS, "o-sub", ""));
    scene.send("POST", &collection, copy).await.unwrap();
    scene
        .patch(
            &path(BINDINGS, "o-sub", "b"),
            json!({ "metadata": { "annotations": { PROPAGATE: "update" } } }),
        )
        .await;
    scene.gone(&path(BINDINGS, "o-sub", "b")).await;

    let mut copy = binding(&["mallory"]);
    copy["metadata"] = json!({
        "name": "c", "labels": { CREATED_BY: "accurate", "old": "x" }, "annotations": { FROM: "o-root", PROPAGATE: "create" },
    });
    scene.send("POST", &collection, copy).await.unwrap();
    scene.create(BINDINGS, "o-root", "c", "update", binding(&[])).await;
    let is_equal = |it: &Value| annotation(it, PROPAGATE) == "update" && at(it, "/subjects/0").is_null();
    let copy = scene.until(&path(BINDINGS, "o-sub", "c"), "follows", is_equal).await;
    assert!(label(&copy, "old").is_null(), "{copy}");
}

/// Number 2: what is added to a copy goes again. Whatever the owner of the namespace does to the copy, or to its annotations, the
/// copies of it stay as they are.
#[tokio::test]
async fn a_followed_copy_is_repaired_without_disturbing_the_next_level() {
    let scene = scene().await;
    scene.create_root("t-root").await;
    scene.create_sub("t-root", "t-mid", json!({})).await;
    scene.create_sub("t-mid", "t-leaf", json!({})).await;
    let owner = scene.tenant("t-owner", "t-mid").await;
    scene.create(SECRETS, "t-root", "u", "update", json!({ "data": { "k": "dg==" } })).await;
    scene.create(SECRETS, "t-root", "c", "create", json!({ "data": { "k": "dg==" } })).await;
    scene.create(ROLES, "t-root", "r", "update", json!({})).await;
    let role = json!({ "apiGroup": RBAC, "kind": "Role", "name": "r" });
    scene
        .create(
            BINDINGS,
            "t-root",
            "b",
            "update",
            json!({ "roleRef": role, "subjects": subjects(&["alice"]) }),
        )
        .await;
    let all = [(SECRETS, "u"), (ROLES, "r"), (BINDINGS, "b")];
    let mut before = Vec::new();
    for (kind, name) in all {
        before.push(version(&scene.copied(kind, "t-mid", "t-leaf", name).await));
    }
    scene.copied(SECRETS, "t-mid", "t-leaf", "c").await;
    let tampered =
        json!({ "data": { "k": "eA==", "more": "eA==" }, "metadata": { "annotations": { "own": "1" } } });
    send(&owner, "PATCH", &path(SECRETS, "t-mid", "u"), tampered.clone()).await.unwrap();
    send(&owner, "PATCH", &path(SECRETS, "t-mid", "c"), tampered).await.unwrap();
    let is_equal = |it: &Value| it["data"] == json!({ "k": "dg==" }) && annotation(it, "own").is_null();
    scene.until(&path(SECRETS, "t-mid", "u"), "is repaired", is_equal).await;
    let others = json!({ "metadata": { "labels": { "kubernetes.io/x": "y" } } });
    let copy = send(&owner, "PATCH", &path(SECRETS, "t-mid", "u"), others).await.unwrap();

    for damage in [json!({ PROPAGATE: null }), json!({ FROM: null }), json!({ FROM: "t-leaf" }), Value::Null]
    {
        for (kind, name) in all {
            let place = path(kind, "t-mid", name);
            if damage.is_null() {
                send(&owner, "DELETE", &place, Value::Null).await.unwrap();
            } else {
                let damage = json!({ "metadata": { "annotations": damage } });
                send(&owner, "PATCH", &place, damage).await.unwrap();
            }
        }
        for (kind, name) in all {
            let is_marked =
                |it: &Value| annotation(it, PROPAGATE) == "update" && annotation(it, FROM) == "t-root";
            scene.until(&path(kind, "t-mid", name), "is a copy again", is_marked).await;
        }
        scene.settled("t-root", "t-mid", &format!("marker-{}", damage.to_string().len())).await;
    }
    let events = scene.get("/api/v1/namespaces/t-mid/events").await.unwrap().unwrap().to_string();
    assert!(!events.contains("ObjectOverwritten"), "a copy is repaired, and is no own object: {events}");
    let anew = scene.get(&path(SECRETS, "t-mid", "u")).await.unwrap().unwrap();
    assert_ne!(version(&anew).0, version(&copy).0, "it was deleted");
    assert_eq!(label(&copy, "kubernetes.io/x"), "y", "excluded keys belong to other tools");
    let copy = scene.get(&path(SECRETS, "t-mid", "c")).await.unwrap().unwrap();
    assert_eq!(copy["data"]["more"], "eA==", "a copy that was created once is left alone");
    for ((kind, name), before) in all.into_iter().zip(before) {
        let now = scene.get(&path(kind, "t-leaf", name)).await.unwrap().unwrap();
        assert_eq!(version(&now), before, "{name} was not written");
    }
}

#[tokio::test]
async fn a_deleted_copy_comes_back_and_a_deleted_source_takes_its_followed_copies_along() {
    let scene = scene().await;
    scene.create_root("d-root").await;
    scene.create_sub("d-root", "d-mid", json!({})).await;
    scene.create_sub("d-mid", "d-leaf", json!({})).await;
    for mode in ["create", "update"] {
        scene.create(SECRETS, "d-root", mode, mode, json!({})).await;
        scene.copied(SECRETS, "d-mid", "d-leaf", mode).await;
        let place = path(SECRETS, "d-mid", mode);
        let (uid, _) = version(&scene.get(&place).await.unwrap().unwrap());
        scene.delete(&place).await;
        scene.until(&place, "comes back", |it| it.is_object() && it["metadata"]["uid"] != uid.as_str()).await;
    }
    // A child's own object of the same name.
    scene.create(SECRETS, "d-root", "same", "create", json!({})).await;
    scene.copied(SECRETS, "d-root", "d-mid", "same").await;
    scene.copied(SECRETS, "d-mid", "d-leaf", "same").await;
    scene.create(SECRETS, "d-leaf", "own", "update", json!({})).await;
    scene.create(SECRETS, "d-mid", "own", "create", json!({})).await;
    for name in ["create", "update", "same"] {
        scene.delete(&path(SECRETS, "d-root", name)).await;
    }
    scene.delete(&path(SECRETS, "d-mid", "own")).await;
    for to in ["d-mid", "d-leaf"] {
        scene.gone(&path(SECRETS, to, "update")).await;
    }
    scene.settled("d-root", "d-mid", "marker").await;
    scene.copied(SECRETS, "d-mid", "d-leaf", "marker").await;
    for (to, name) in [("d-mid", "create"), ("d-leaf", "create"), ("d-leaf", "own")] {
        assert!(scene.get(&path(SECRETS, to, name)).await.unwrap().is_some(), "{to}/{name} stays");
    }
}

#[tokio::test]
async fn a_service_account_is_copied_without_its_secrets() {
    let scene = scene().await;
    scene.create_root("sa-root").await;
    scene.create_sub("sa-root", "sa-sub", json!({})).await;
    let body = json!({ "secrets": [{ "name": "token" }], "imagePullSecrets": [{ "name": "pull" }] });
    scene.create(ACCOUNTS, "sa-root", "bot", "update", body).await;
    let copy = scene.copied(ACCOUNTS, "sa-root", "sa-sub", "bot").await;
    assert!(copy.get("secrets").is_none(), "{copy}");
    assert_eq!(copy["imagePullSecrets"], json!([{ "name": "pull" }]));
}

/// The rules of a Role and the Role of a binding: a binding to another Role is created anew.
#[tokio::test]
async fn roles_and_the_bindings_to_them_arrive_together() {
    let scene = scene().await;
    scene.create_root("b-root").await;
    scene.create_sub("b-root", "b-sub", json!({})).await;
    let allowing =
        |verb: &str| json!({ "rules": [{ "apiGroups": [""], "resources": ["pods"], "verbs": [verb] }] });
    let to = |role: &str| {
        let role = json!({ "apiGroup": RBAC, "kind": "Role", "name": role });
        json!({ "roleRef": role, "subjects": subjects(&["alice"]) })
    };
    scene.create(ROLES, "b-root", "reader", "update", allowing("get")).await;
    scene.create(BINDINGS, "b-root", "b", "update", to("reader")).await;
    scene.copied(BINDINGS, "b-root", "b-sub", "b").await;
    assert!(scene.get(&path(ROLES, "b-sub", "reader")).await.unwrap().is_some());
    scene.create(ROLES, "b-root", "writer", "update", allowing("create")).await;
    scene.delete(&path(BINDINGS, "b-root", "b")).await;
    scene.create(BINDINGS, "b-root", "b", "update", to("writer")).await;
    scene
        .until(&path(BINDINGS, "b-sub", "b"), "names the other Role", |it| {
            at(it, "/roleRef/name") == "writer"
        })
        .await;
    scene.patch(&path(ROLES, "b-root", "writer"), json!({ "rules": null })).await;
    scene
        .until(&path(ROLES, "b-sub", "writer"), "loses its rule", |it| {
            it.is_object() && at(it, "/rules/0").is_null()
        })
        .await;
}
