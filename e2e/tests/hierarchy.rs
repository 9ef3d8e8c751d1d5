//! What the controller makes of a hierarchy: labels, status, copies of `Roles` and `RoleBindings`, and their order.

use std::time::Duration;

use hns_e2e::product::CONTROLLER_USER;
use hns_e2e::steps::{HIERARCHY, PATIENCE, binding};
use hns_e2e::{Cluster, Options, Product, Replica, Steps, eventually, refusal, stays};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::sync::OnceCell;

struct Fixture {
    product: Product<'static>,
    webhook: Replica,
    controller: Replica,
}

/// One installation for all tests of this file; they keep apart by names of their own.
async fn fixture() -> &'static Fixture {
    static WORLD: OnceCell<Fixture> = OnceCell::const_new();
    WORLD.get_or_try_init(start).await.expect("the product starts")
}

async fn start() -> anyhow::Result<Fixture> {
    let product = Product::install(Cluster::shared().await, Options::default()).await?;
    let (webhook, controller) = tokio::join!(product.start_webhook(), product.start_controller());
    Ok(Fixture { webhook: webhook?, controller: controller?, product })
}

async fn steps() -> Steps {
    Steps::of(fixture().await.product.cluster().admin())
}

#[tokio::test]
async fn a_tree_of_three_levels_gets_its_labels_and_children() {
    let steps = steps().await;
    steps
        .plant(&[("l-acme", ""), ("l-dev", "l-acme"), ("l-team", "l-dev"), ("l-ops", "l-acme")])
        .await
        .unwrap();
    steps.labelled(&["l-acme"]).await.unwrap();
    steps.labelled(&["l-dev", "l-acme"]).await.unwrap();
    steps.labelled(&["l-team", "l-dev", "l-acme"]).await.unwrap();
    steps.labelled(&["l-ops", "l-acme"]).await.unwrap();
    let children = eventually("l-acme lists its children", PATIENCE, async || {
        let hierarchy =
            steps.hierarchies("l-acme").get(HIERARCHY).await.map_err(|error| error.to_string())?;
        let children = hierarchy.status.unwrap_or_default().children;
        if children.len() == 2 { Ok(children) } else { Err(format!("{children:?}")) }
    });
    assert_eq!(children.await.unwrap(), ["l-dev", "l-ops"]);
    steps.create_namespace("l-lone").await.unwrap();
    steps.labelled(&["l-lone"]).await.unwrap();
    assert!(
        steps.hierarchies("l-lone").get_opt(HIERARCHY).await.unwrap().is_none(),
        "a lone root has nothing to record"
    );
}

#[tokio::test]
async fn a_binding_reaches_every_level_follows_an_update_and_goes_with_its_source() {
    let steps = steps().await;
    steps.plant(&[("b-root", ""), ("b-mid", "b-root"), ("b-leaf", "b-mid")]).await.unwrap();
    let below = ["b-mid", "b-leaf"];
    let source = steps.create_binding("b-root", "viewers", ("ClusterRole", "view"), "alice").await.unwrap();
    steps.binding_arrives(&below, "viewers", "b-root", "alice").await.unwrap();

    let mut changed = source;
    changed.subjects = binding("x", ("ClusterRole", "view"), "bob").subjects;
    steps.bindings("b-root").replace("viewers", &PostParams::default(), &changed).await.unwrap();
    steps.binding_arrives(&below, "viewers", "b-root", "bob").await.unwrap();

    steps.bindings("b-root").delete("viewers", &DeleteParams::default()).await.unwrap();
    steps.binding_leaves(&below, "viewers").await.unwrap();
}

#[tokio::test]
async fn a_binding_to_another_role_is_created_anew() {
    let steps = steps().await;
    steps.plant(&[("r-root", ""), ("r-leaf", "r-root")]).await.unwrap();
    steps.create_binding("r-root", "team", ("ClusterRole", "view"), "alice").await.unwrap();
    steps.binding_arrives(&["r-leaf"], "team", "r-root", "alice").await.unwrap();
    steps.bindings("r-root").delete("team", &DeleteParams::default()).await.unwrap();
    steps.create_binding("r-root", "team", ("ClusterRole", "edit"), "alice").await.unwrap();
    eventually("the copy refers to the new role", PATIENCE, async || {
        let copy = steps.bindings("r-leaf").get_opt("team").await.map_err(|error| error.to_string())?;
        match copy {
            Some(copy) if copy.role_ref.name == "edit" => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_moved_namespace_loses_the_old_and_gains_the_new() {
    let steps = steps().await;
    steps.plant(&[("m-one", ""), ("m-two", ""), ("m-child", "m-one"), ("m-leaf", "m-child")]).await.unwrap();
    steps.create_role("m-one", "old", (&["get"], "", "pods")).await.unwrap();
    steps.create_binding("m-one", "of-one", ("ClusterRole", "view"), "alice").await.unwrap();
    steps.create_binding("m-two", "of-two", ("ClusterRole", "view"), "bob").await.unwrap();
    let moved = ["m-child", "m-leaf"];
    steps.binding_arrives(&moved, "of-one", "m-one", "alice").await.unwrap();

    steps.set_parent("m-child", "m-two").await.unwrap();
    steps.binding_arrives(&moved, "of-two", "m-two", "bob").await.unwrap();
    steps.binding_leaves(&moved, "of-one").await.unwrap();
    assert!(steps.roles("m-leaf").get_opt("old").await.unwrap().is_none());
    steps.labelled(&["m-leaf", "m-child", "m-two"]).await.unwrap();
}

#[tokio::test]
async fn drift_is_put_back_and_a_removed_copy_comes_again() {
    let steps = steps().await;
    steps.plant(&[("d-root", ""), ("d-leaf", "d-root")]).await.unwrap();
    steps.create_role("d-root", "reader", (&["get"], "", "pods")).await.unwrap();
    let copy = eventually("the role arrives", PATIENCE, async || {
        steps.roles("d-leaf").get("reader").await.map_err(|error| error.to_string())
    });
    copy.await.unwrap();
    // Only the controller may change a copy, so this request impersonates it.
    let widened =
        Patch::Merge(json!({ "rules": [{ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"] }] }));
    let patch = PatchParams::default();
    let status = refusal(steps.roles("d-leaf").patch("reader", &patch, &widened).await);
    assert_eq!((status.code, status.reason.as_str()), (403, "Forbidden"), "{}", status.message);
    let status = refusal(steps.roles("d-leaf").delete("reader", &DeleteParams::default()).await);
    assert_eq!((status.code, status.reason.as_str()), (403, "Forbidden"), "{}", status.message);
    // Its own rights do not include requests that only other users make.
    let controller =
        Steps::of(fixture().await.product.cluster().client_as(CONTROLLER_USER, &["system:masters"]));
    controller.roles("d-leaf").patch("reader", &patch, &widened).await.unwrap();
    let restored = async |what: &str| {
        eventually(what, PATIENCE, async || {
            let role = steps.roles("d-leaf").get("reader").await.map_err(|error| error.to_string())?;
            let verbs = role.rules.iter().flatten().flat_map(|rule| rule.verbs.clone()).collect::<Vec<_>>();
            if verbs == ["get"] { Ok(()) } else { Err(format!("{verbs:?}")) }
        })
        .await
        .unwrap();
    };
    restored("the widened copy is put back").await;
    controller.roles("d-leaf").delete("reader", &DeleteParams::default()).await.unwrap();
    restored("the deleted copy comes again").await;
}

#[tokio::test]
async fn a_cycle_is_refused_with_409_and_what_makes_none_is_allowed() {
    let steps = steps().await;
    steps.plant(&[("c-a", ""), ("c-b", "c-a"), ("c-c", "c-b")]).await.unwrap();
    steps.labelled(&["c-c", "c-b", "c-a"]).await.unwrap();
    for (child, parent, code, said) in [("c-a", "c-c", 409, "cycle"), ("c-a", "c-a", 409, "own parent")] {
        let status = refusal(steps.set_parent(child, parent).await);
        assert_eq!((status.code, status.reason.as_str()), (code, "Conflict"), "{child} below {parent}");
        assert!(status.message.contains(said), "{}", status.message);
        println!("{child} below {parent}: {} {}", status.code, status.message);
    }
    steps.set_parent("c-c", "c-a").await.unwrap();
    steps.labelled(&["c-c", "c-a"]).await.unwrap();
}

#[tokio::test]
async fn a_deleted_parent_leaves_parent_missing_and_frozen_copies() {
    let steps = steps().await;
    steps
        .plant(&[("p-root", ""), ("p-mid", "p-root"), ("p-leaf", "p-mid"), ("p-sub", "p-leaf")])
        .await
        .unwrap();
    steps.create_binding("p-root", "top", ("ClusterRole", "view"), "alice").await.unwrap();
    steps.binding_arrives(&["p-mid", "p-leaf", "p-sub"], "top", "p-root", "alice").await.unwrap();
    steps.delete_namespace("p-mid").await.unwrap();
    let messages = steps.reasons("p-leaf", &["ParentMissing"]).await.unwrap();
    assert!(messages[0].contains("p-mid"), "{messages:?}");
    let messages = steps.reasons("p-sub", &["AncestorHaltActivities"]).await.unwrap();
    assert!(messages[0].contains("p-leaf"), "{messages:?}");
    // Only the tree labels tell which tree it belongs to.
    steps.labelled(&["p-leaf", "p-mid", "p-root"]).await.unwrap();
    steps.labelled(&["p-sub", "p-leaf", "p-mid", "p-root"]).await.unwrap();
    stays("the copies stay, frozen", Duration::from_secs(2), async || {
        let copy = steps.bindings("p-sub").get_opt("top").await.map_err(|error| error.to_string())?;
        copy.map(|_| ()).ok_or_else(|| "it is gone".into())
    })
    .await
    .unwrap();
    steps.create_namespace("p-mid").await.unwrap();
    steps.set_parent("p-mid", "p-root").await.unwrap();
    steps.reasons("p-sub", &[]).await.unwrap();
    steps.labelled(&["p-sub", "p-leaf", "p-mid", "p-root"]).await.unwrap();
}

#[tokio::test]
async fn both_binaries_show_their_numbers() {
    let fixture = fixture().await;
    for (replica, wanted) in
        [(&fixture.webhook, "hns_admission_review"), (&fixture.controller, "hns_writes_total")]
    {
        let metrics = replica.metrics().await.unwrap();
        for name in [wanted, "hns_forest_namespaces", "hns_watch_lists_total", "hns_build_info"] {
            assert!(metrics.contains(name), "{name} is missing in:\n{metrics}");
        }
    }
}
