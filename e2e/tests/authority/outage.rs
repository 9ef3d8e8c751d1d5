//! What works and what does not while no webhook answers: first with the webhook stopped and its registrations in place, then
//! with one that may not list a propagated kind.

use std::time::{Duration, Instant};

use anyhow::Result;
use hns_e2e::eventually;
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

use super::fixture;
use super::request::{MERGE, Request, configuration, hierarchies, hierarchy, namespace, place};
use super::verdict::{Of, denied, unauthorized, unreachable};

const FORGED: &str = "evil.tree.hnc.x-k8s.io/depth";

#[tokio::test]
async fn with_the_webhook_dead_only_what_needs_it_is_refused() -> Result<()> {
    let mut scene = fixture::alone().await?;
    let trees = [("p-root", ""), ("p-child", "p-root"), ("p-other", ""), ("p-going", "p-root")];
    scene.steps.plant(&trees).await?;
    scene.steps.labelled(&["p-child", "p-root"]).await?;
    let admin = scene.admin();
    let label = |name: &str, key: &str| {
        Request::patch(&admin, &namespace(name), MERGE, json!({ "metadata": { "labels": { key: "1" } } }))
    };
    let judged = || {
        [
            ("a way out", place(&admin, "p-child", "")),
            ("a way elsewhere", place(&admin, "p-child", "p-other")),
            ("a way in", place(&admin, "p-other", "p-root")),
            ("a deletion", Request::delete(&admin, &hierarchy("p-child"), Value::Null)),
            ("a deletion of all", Request::delete(&admin, &hierarchies("p-child"), Value::Null)),
        ]
    };
    for (_, allowed) in judged() {
        allowed.dry().send().await?;
    }
    let manager = scene.local_admin("system:kube-controller-manager", &["p-going"]).await?;
    scene.webhook.kill().await?;
    for (what, attempt) in judged() {
        unreachable(what, attempt.send().await, Of::Hierarchy);
    }
    unreachable("a tree label", label("p-child", FORGED).send().await, Of::Namespace("p-child"));

    let annotate = ["annotate", "hierarchyconfiguration", "hierarchy", "-n", "p-child", "example.com/note=x"];
    let annotated = scene.cluster().kubectl().args(annotate).ok().await?;
    assert!(annotated.contains("annotated"), "{annotated}");
    label("p-child", "example.com/team").send().await?;
    for part in ["/status", "/finalize"] {
        let stored = Request::get(&admin, &namespace("p-child")).send().await?;
        Request::put(&admin, &(namespace("p-child") + part), stored).send().await?;
    }
    // If the control plane's controllers share one identity, no namespace could be deleted if that needed an answer.
    unreachable("a way out of its own", place(&manager, "p-going", "").send().await, Of::Hierarchy);
    Request::delete(&manager, &hierarchies("p-going"), Value::Null).send().await?;
    // The controller's requests are not judged, so it continues to work.
    scene.steps.create_namespace("p-free").await?;
    scene.steps.labelled(&["p-free"]).await?;
    let config = json!({ "metadata": { "name": "kept" } });
    Request::post(&admin, "/api/v1/namespaces/p-free/configmaps", config).send().await?;
    scene.steps.create_binding("p-free", "viewers", ("ClusterRole", "view"), "somebody").await?;
    label("p-free", "example.com/team").send().await?;
    scene.steps.delete_namespace("p-free").await?;

    scene.webhook.restart().await?;
    denied("a tree label", label("p-child", FORGED).send().await, Of::Namespace("p-child"), 403, &[FORGED]);
    assert_eq!(scene.parent("p-child").await?, "p-root");
    place(&admin, "p-child", "p-other").send().await?;
    Ok(())
}

#[tokio::test]
async fn without_a_parent_it_is_deleted_while_the_webhook_is_dead() -> Result<()> {
    let mut scene = fixture::alone().await?;
    scene.steps.create_namespace("r-lone").await?;
    let user = scene.local_admin("r-user", &["r-lone"]).await?;
    let create = || Request::post(&user, &hierarchies("r-lone"), configuration(&json!({})));
    create().send().await?;
    scene.webhook.kill().await?;
    Request::delete(&user, &hierarchy("r-lone"), Value::Null).send().await?;
    unreachable("a new one", create().send().await, Of::Hierarchy);
    scene.webhook.restart().await?;
    create().send().await?;
    Ok(())
}

#[tokio::test]
async fn a_kind_that_cannot_be_listed_closes_the_way_into_trees_and_nothing_else() -> Result<()> {
    let mut scene = fixture::alone().await?;
    scene
        .steps
        .plant(&[
            ("gap-one", ""),
            ("gap-two", ""),
            ("gap-child", "gap-one"),
            ("gap-leaf", "gap-one"),
            ("gap-new", ""),
        ])
        .await?;
    for child in ["gap-child", "gap-leaf"] {
        scene.known(&["gap-one", child]).await?;
    }
    let user =
        scene.local_admin("gap-user", &["gap-one", "gap-two", "gap-child", "gap-leaf", "gap-new"]).await?;
    let into = || [place(&user, "gap-new", "gap-one"), place(&user, "gap-child", "gap-two")];
    for allowed in into() {
        allowed.dry().send().await?;
    }

    scene.webhook.kill().await?;
    let roles: Api<ClusterRole> = Api::all(scene.admin());
    let right = roles.get("hns-webhook").await?;
    let mut without = right.clone();
    for rule in without.rules.iter_mut().flatten() {
        rule.resources.iter_mut().for_each(|resources| resources.retain(|resource| resource != "roles"));
    }
    assert_ne!(without, right);
    let mut without = roles.replace("hns-webhook", &PostParams::default(), &without).await?;
    let mut any_kind = roles.get("hns-webhook-propagation").await?;
    let of_any_kind = any_kind.rules.take();
    let mut any_kind = roles.replace("hns-webhook-propagation", &PostParams::default(), &any_kind).await?;
    scene.webhook.restart().await?;

    let kind = "roles.rbac.authorization.k8s.io";
    for attempt in into() {
        let said = [kind, "service account of hns-webhook may list and watch", "try again"];
        denied("into a tree", attempt.send().await, Of::Hierarchy, 503, &said);
    }
    let thief = scene.local_admin("gap-thief", &["gap-new"]).await?;
    let steal = place(&thief, "gap-new", "gap-one").send().await;
    unauthorized("a thief", steal, "gap-thief", ("gap-one", "the new parent"));
    place(&user, "gap-leaf", "").send().await?;
    let cascade = json!({ "spec": { "allowCascadingDeletion": true } });
    Request::patch(&user, &hierarchy("gap-child"), MERGE, cascade).send().await?;
    Request::post(&user, &hierarchies("gap-new"), configuration(&json!({}))).send().await?;

    without.rules = right.rules;
    roles.replace("hns-webhook", &PostParams::default(), &without).await?;
    any_kind.rules = of_any_kind;
    roles.replace("hns-webhook-propagation", &PostParams::default(), &any_kind).await?;
    let restored = Instant::now();
    eventually("the way in opens again", Duration::from_secs(5), async || {
        place(&user, "gap-new", "gap-one").dry().send().await.map_err(|error| error.to_string())
    })
    .await?;
    println!("{kind} may be listed again: open after {:?}", restored.elapsed());
    for allowed in into() {
        allowed.send().await?;
    }
    Ok(())
}
