//! Cases with an installation of their own: without admission policies, so that every denial comes from the webhook; with the
//! flag for HNC's behaviour about the metadata of deployment tools; and Roles that must opt in.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hns_e2e::product::CONTROLLER_USER;
use hns_e2e::steps::PATIENCE;
use hns_e2e::{Cluster, Component, Launch, Options, eventually, stays};
use http::Method;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use super::denials;
use super::request::object_path;
use super::scene::{Fixture, Scene, beside_others, flags, options, planted};

const HNCS: &str = "--propagate-tracking-metadata";
const TRACKING: &str = "argocd.argoproj.io/tracking-id";

/// One after the other, for the installation is changed in between.
#[tokio::test]
async fn without_policies_with_marks_and_with_roles_that_have_to_ask() -> Result<()> {
    static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
    let _beside = beside_others().await;
    let cluster = CLUSTER.get_or_try_init(Cluster::start).await?;
    let mut fixture = Fixture::found(cluster, Options { policies: false, ..options(&flags()) }).await?;
    denials::check(&Scene::of(&fixture, ())).await.context("without policies")?;
    roles_have_to_ask(&Scene::of(&fixture, ())).await?;

    left_by_hnc(&Scene::of(&fixture, ())).await?;
    tokio::try_join!(fixture.webhook.terminate(), fixture.controller.terminate())?;
    let launch = || Launch { args: vec![HNCS.into()], ..Launch::default() };
    (fixture.webhook, fixture.controller) = tokio::try_join!(
        fixture.product.start(Component::Webhook, launch()),
        fixture.product.start(Component::Controller, launch())
    )?;
    marks_are_propagated(&Scene::of(&fixture, ())).await
}

/// Waits until a copy is there or not; the last thing seen is told.
async fn is_there(
    scene: &Scene<'_, ()>,
    (plural, namespace, name): (&str, &str, &str),
    wanted: bool,
) -> Result<()> {
    eventually(&format!("{plural}/{name} in {namespace}: {wanted}"), PATIENCE, async || {
        let found = scene.get(plural, namespace, name).await.map_err(|error| format!("{error:#}"))?;
        if found.is_some() == wanted { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await
}

/// Kinds that are always propagated may be set to `AllowPropagate`, and back.
async fn roles_have_to_ask(scene: &Scene<'_, ()>) -> Result<()> {
    scene.plant(&[planted("ask-root", None), planted("ask-child", Some("ask-root"))]).await?;
    let asks =
        json!({ "metadata": { "annotations": { "propagate.hnc.x-k8s.io/all": "true" } }, "rules": [] });
    scene
        .create("alice", ("roles", "ask-root", "silent"), json!({ "rules": [] }))
        .await?
        .allowed("creating")?;
    scene.create("alice", ("roles", "ask-root", "asking"), asks).await?.allowed("creating")?;
    is_there(scene, ("roles", "ask-child", "silent"), true).await?;
    is_there(scene, ("roles", "ask-child", "asking"), true).await?;
    let asking = scene.get("roles", "ask-child", "asking").await?;

    let group = "rbac.authorization.k8s.io";
    let entry = json!({ "group": group, "resource": "roles", "mode": "AllowPropagate" });
    scene.put_configuration("conny", std::slice::from_ref(&entry)).await?;
    scene.in_force(&[entry]).await?;
    is_there(scene, ("roles", "ask-child", "silent"), false).await?;
    ensure!(scene.get("roles", "ask-child", "asking").await? == asking, "what asks was touched");
    let own = scene.create("alice", ("roles", "ask-child", "own"), json!({})).await?;
    own.allowed("a role of a name that no source has")?;
    let silent = scene.create("alice", ("roles", "ask-root", "own"), json!({})).await?;
    silent.allowed("one above that goes nowhere")?;

    // Back is what would overwrite the one below.
    let back = json!({ "group": group, "resource": "roles", "absent": true });
    let path = object_path("roles", "ask-root", "own");
    scene.users.send("alice", Method::DELETE, &path, &Value::Null).await?.allowed("deleting")?;
    scene.put_configuration("conny", &[back]).await?;
    is_there(scene, ("roles", "ask-child", "silent"), true).await
}

/// A copy with the metadata of a deployment tool, as HNC left it; the source has it, too.
async fn left_by_hnc(scene: &Scene<'_, ()>) -> Result<()> {
    scene.plant(&[planted("mark-root", None), planted("mark-child", Some("mark-root"))]).await?;
    let marked = json!({ "metadata": { "annotations": { TRACKING: "app" } }, "data": { "a": "1" } });
    for name in ["kept", "new"] {
        scene
            .create("alice", ("configmaps", "mark-root", name), marked.clone())
            .await?
            .allowed("creating")?;
        is_there(scene, ("configmaps", "mark-child", name), true).await?;
    }
    let copy = object_path("configmaps", "mark-child", "kept");
    let mark = json!({ "metadata": { "annotations": { TRACKING: "app" } } });
    let as_hnc = scene.users.send("slipped", Method::PATCH, &copy, &mark).await?.allowed("marking")?;
    stays("the metadata stays", Duration::from_secs(1), async || {
        let now =
            scene.get("configmaps", "mark-child", "kept").await.map_err(|error| format!("{error:#}"))?;
        if now.as_ref() == Some(&as_hnc.body) { Ok(()) } else { Err(format!("{now:?}")) }
    })
    .await
}

/// With the flag: the metadata is copied and compared, and no user may remove it.
async fn marks_are_propagated(scene: &Scene<'_, ()>) -> Result<()> {
    let shows = async |name: &str, value: &Value| {
        eventually(&format!("{name} is marked {value}"), PATIENCE, async || {
            let found =
                scene.get("configmaps", "mark-child", name).await.map_err(|error| format!("{error:#}"))?;
            let found = found.unwrap_or_default();
            if found["metadata"]["annotations"][TRACKING] == *value { Ok(()) } else { Err(found.to_string()) }
        })
        .await
    };
    shows("new", &json!("app")).await.context("a copy that was made without")?;
    let kept = scene.get("configmaps", "mark-child", "kept").await?;
    let mark = scene.cluster().audit().mark()?;
    let copy = object_path("configmaps", "mark-child", "kept");
    let without = json!({ "metadata": { "annotations": { TRACKING: null } } });
    // The registrations are what the new flag says a moment later.
    eventually("removing a mark is refused", PATIENCE, async || {
        let dry = format!("{copy}?dryRun=All");
        let answer = scene.users.send("alice", Method::PATCH, &dry, &without).await;
        let answer = answer.map_err(|error| format!("{error:#}"))?;
        if answer.refusal() == "403 Forbidden" { Ok(()) } else { Err(answer.to_string()) }
    })
    .await?;
    let source = object_path("configmaps", "mark-root", "new");
    let change = json!({ "metadata": { "annotations": { TRACKING: "other" } } });
    scene.users.send("alice", Method::PATCH, &source, &change).await?.allowed("changing a mark")?;
    shows("new", &json!("other")).await.context("a change of nothing else")?;
    let slipped = scene.users.send("slipped", Method::PATCH, &copy, &without).await?;
    slipped.allowed("removing it past the rules")?;
    shows("kept", &json!("app")).await.context("metadata that a user removed")?;
    ensure!(kept.is_some(), "the copy that HNC left is gone");
    let writes = scene.cluster().audit().mutating_by(CONTROLLER_USER, mark)?;
    let deleted = writes.iter().any(|it| it.resource == "configmaps" && it.verb == "delete");
    ensure!(!deleted, "copies were deleted for that: {writes:?}");
    scene.fixture.unharmed()
}
