//! A `RoleBinding` that refers to a Role grants no rights of another Role with that name in a namespace below.

use anyhow::{Result, ensure};
use hns_e2e::eventually;
use hns_e2e::steps::PATIENCE;
use http::Method;
use serde_json::{Value, json};

use super::request::{object_path, while_in_the_way};
use super::scene::{Scene, planted, scene};

const TOP: &str = "ref-top";
const MID: &str = "ref-mid";
const READER: &str = "reader";
const RBAC: &str = "rbac.authorization.k8s.io";

fn binding(role: Value, user: &str) -> Value {
    let mut role_ref = role;
    role_ref["apiGroup"] = json!(RBAC);
    json!({ "roleRef": role_ref, "subjects": [{ "apiGroup": RBAC, "kind": "User", "name": user }] })
}

fn to_role(role: &str, user: &str) -> Value {
    binding(json!({ "kind": "Role", "name": role }), user)
}

fn reads(resource: &str) -> Value {
    json!({ "rules": [{ "apiGroups": [""], "resources": [resource], "verbs": ["get", "list"] }] })
}

/// Waits until this object is in `MID`, or is not.
async fn in_mid(scene: &Scene<'static>, (plural, name): (&str, &str), wanted: bool) -> Result<()> {
    eventually(&format!("{plural}/{name} in {MID}: {wanted}"), PATIENCE, async || {
        let found = scene.get(plural, MID, name).await.map_err(|error| format!("{error:#}"))?;
        if found.is_some() == wanted { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await
}

/// Whether limo may list these in `MID`. The API server's authorizer follows RBAC objects with a delay, so a right that is to
/// appear or to go is waited for.
async fn may_list(scene: &Scene<'static>, resource: &str, wanted: bool) -> Result<()> {
    let path = format!("/api/v1/namespaces/{MID}/{resource}");
    eventually(&format!("limo lists {resource} in {MID}: {wanted}"), PATIENCE, async || {
        let answer = scene.users.send("limo", Method::GET, &path, &Value::Null).await;
        let answer = answer.map_err(|error| format!("{error:#}"))?;
        if answer.is_allowed() == wanted { Ok(()) } else { Err(answer.to_string()) }
    })
    .await
}

/// limo manages Roles and bindings in `TOP`, may read pods there, and nothing in `MID`, whose own Role of a well-known name
/// reads Secrets.
async fn people(scene: &Scene<'static>) -> Result<()> {
    scene.plant(&[planted(TOP, None), planted(MID, Some(TOP))]).await?;
    let here = json!({ "metadata": { "annotations": { "propagate.hnc.x-k8s.io/none": "true" } }, "rules": [
        { "apiGroups": [RBAC], "resources": ["roles", "rolebindings"], "verbs": ["*"] },
        { "apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"] },
    ]});
    scene.create("admin", ("roles", TOP, "manager"), here).await?.allowed("creating")?;
    let mut manages = to_role("manager", "limo");
    manages["metadata"] = json!({ "annotations": { "propagate.hnc.x-k8s.io/none": "true" } });
    scene.create("admin", ("rolebindings", TOP, "manages"), manages).await?.allowed("creating")?;
    scene.create("admin", ("roles", MID, READER), reads("secrets")).await?.allowed("creating")?;
    let secret = json!({ "stringData": { "token": "of mid" } });
    scene.create("admin", ("secrets", MID, "theirs"), secret).await?.allowed("creating")?;
    eventually("limo manages bindings", PATIENCE, async || {
        let path = object_path("rolebindings", TOP, "");
        let answer = scene.users.send("limo", Method::GET, &path, &Value::Null).await;
        let answer = answer.map_err(|error| format!("{error:#}"))?;
        if answer.is_allowed() { Ok(()) } else { Err(answer.to_string()) }
    })
    .await
}

#[tokio::test]
async fn a_binding_gives_no_rights_of_another_role_of_that_name() -> Result<()> {
    let scene = scene().await?;
    people(&scene).await?;
    // The Role stays where it is, and grants what limo holds. Bindings that are created last, one after the
    // other, say when this one has been dealt with.
    let mut stays = reads("pods");
    stays["metadata"] = json!({ "annotations": { "propagate.hnc.x-k8s.io/none": "true" } });
    scene.create("limo", ("roles", TOP, READER), stays).await?.allowed("a Role of what limo holds")?;
    scene
        .create("limo", ("rolebindings", TOP, "attack"), to_role(READER, "limo"))
        .await?
        .allowed("a binding")?;
    for last in ["last", "very-last"] {
        let everywhere = binding(json!({ "kind": "ClusterRole", "name": "view" }), "somebody");
        scene.create("alice", ("rolebindings", TOP, last), everywhere).await?.allowed("another one")?;
        in_mid(&scene, ("rolebindings", last), true).await?;
    }
    let copied = scene.get("rolebindings", MID, "attack").await?;
    ensure!(copied.is_none(), "the binding was copied to another Role: {copied:?}");
    may_list(&scene, "secrets", false).await?;

    // Without a Role of its own, the namespace below gets both; a Role that goes takes the copy of the binding with it, and one
    // that comes again brings it.
    let own = object_path("roles", MID, READER);
    scene.users.send("admin", Method::DELETE, &own, &Value::Null).await?.allowed("deleting")?;
    let goes = json!({ "metadata": { "annotations": { "propagate.hnc.x-k8s.io/none": null } } });
    let role = object_path("roles", TOP, READER);
    // The webhook hears of the deletion from its watch.
    let propagates = async || scene.users.send("limo", Method::PATCH, &role, &goes).await;
    while_in_the_way(propagates).await?.allowed("propagating")?;
    in_mid(&scene, ("rolebindings", "attack"), true).await?;
    may_list(&scene, "pods", true).await?;
    may_list(&scene, "secrets", false).await?;
    scene.users.send("limo", Method::DELETE, &role, &Value::Null).await?.allowed("deleting")?;
    in_mid(&scene, ("roles", READER), false).await?;
    in_mid(&scene, ("rolebindings", "attack"), false).await?;
    scene.create("limo", ("roles", TOP, READER), reads("pods")).await?.allowed("creating again")?;
    in_mid(&scene, ("rolebindings", "attack"), true).await?;
    scene.fixture.unharmed()
}

/// The API server refuses to replace a binding, here because of a quota of the namespace: it can neither change the role of a binding nor
/// create another one. What the old copy gave must go all the same.
#[tokio::test]
async fn what_cannot_be_replaced_gives_nothing_that_was_withdrawn() -> Result<()> {
    const MOVED: &str = "ref-moved";
    let scene = scene().await?;
    scene
        .plant(&[planted("ref-old", None), planted("ref-new", None), planted(MOVED, Some("ref-old"))])
        .await?;
    for (namespace, role, user) in [("ref-old", "admin", "wendy"), ("ref-new", "view", "eva")] {
        let team = binding(json!({ "kind": "ClusterRole", "name": role }), user);
        scene.create("admin", ("rolebindings", namespace, "team"), team).await?.allowed("creating")?;
    }
    let wendy = async |wanted: bool| {
        let path = format!("/api/v1/namespaces/{MOVED}/secrets");
        eventually(&format!("wendy lists secrets: {wanted}"), PATIENCE, async || {
            let answer = scene.users.send("wendy", Method::GET, &path, &Value::Null).await;
            let answer = answer.map_err(|error| format!("{error:#}"))?;
            if answer.is_allowed() == wanted { Ok(()) } else { Err(answer.to_string()) }
        })
        .await
    };
    wendy(true).await?;
    let none = json!({ "spec": { "hard": { "count/rolebindings.rbac.authorization.k8s.io": "0" } } });
    scene.create("admin", ("resourcequotas", MOVED, "none"), none).await?.allowed("creating")?;
    eventually("the quota is in force", PATIENCE, async || {
        let quota = scene.get("resourcequotas", MOVED, "none").await.map_err(|error| format!("{error:#}"))?;
        let hard = quota.map(|it| it["status"]["hard"].clone()).unwrap_or_default();
        if hard.is_null() { Err("not yet".to_owned()) } else { Ok(()) }
    })
    .await?;
    scene.hang("admin", MOVED, "ref-new").await?;
    wendy(false).await?;
    scene.steps.reasons(MOVED, &["CannotPropagateObject"]).await?;
    scene
        .users
        .send("admin", Method::DELETE, &object_path("resourcequotas", MOVED, "none"), &Value::Null)
        .await?
        .allowed("deleting")?;
    eventually("the binding of the new tree arrives", PATIENCE, async || {
        let team = scene.get("rolebindings", MOVED, "team").await.map_err(|error| format!("{error:#}"))?;
        match team {
            Some(team) if team["roleRef"]["name"] == "view" => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await?;
    wendy(false).await?;
    scene.fixture.unharmed()
}
