//! `sub move`, `sub graft` and `sub cut`: what they leave, what they refuse, and each interrupted after each write.

use hns_api::accurate::annotations::MOVED_FROM;
use hns_api::accurate::labels::{PARENT, TEMPLATE, TYPE};
use hns_e2e::steps::PATIENCE;
use hns_e2e::{Proxy, eventually};
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::scene::{World, world};
use crate::plugin::fixture::accurate;
use crate::plugin::moving::through;

/// The roots `from` and `to`, and below `from` the sub-namespace `sub`, which has one below itself.
struct Scene {
    world: World,
    to: String,
    sub: String,
    below: String,
    uids: [String; 2],
}

impl Scene {
    async fn plant(prefix: &str) -> Self {
        let world = world().await;
        let [from, to, sub, below] = ["from", "to", "sub", "below"].map(|it| format!("{prefix}-{it}"));
        tokio::join!(world.create_root(&from), world.create_root(&to));
        world.create_sub(&sub, &from).await;
        world.create_sub(&below, &sub).await;
        let uids = [world.uid(&sub).await, world.uid(&below).await];
        Self { world, to, sub, below, uids }
    }

    /// That the namespaces are those of the beginning, with the label of the original `SubNamespace`.
    async fn is_whole(&self) {
        let Self { world, sub, below, .. } = self;
        assert_eq!([world.uid(sub).await, world.uid(below).await], self.uids);
        world.labelled(sub, "tier", Some("1")).await;
        world.belongs(below, sub).await;
    }

    async fn has_moved(&self) {
        let Self { world, to, sub, .. } = self;
        world.belongs(sub, to).await;
        world.has_forms(sub, &[(to, false)]).await;
        world.is_unmarked(sub).await;
        self.is_whole().await;
    }

    async fn is_cut(&self) {
        let Self { world, sub, .. } = self;
        world.labelled(sub, PARENT, None).await;
        world.labelled(sub, TYPE, Some("root")).await;
        world.has_forms(sub, &[]).await;
        world.is_unmarked(sub).await;
        self.is_whole().await;
    }
}

#[tokio::test]
async fn a_sub_namespace_moves_with_everything_below_and_back() {
    let scene = Scene::plant("am").await;
    let world = &scene.world;
    let changed = "the parent has changed to am-to\n";
    let moved = "deleted the original SubNamespace am-from/am-sub\ncreated SubNamespace am-to/am-sub\n";
    world.run("sub move am-sub am-to").await.says(&format!("{changed}{moved}"));
    scene.has_moved().await;
    let spec = serde_json::to_value(world.form("am-to", "am-sub").await.unwrap().spec).unwrap();
    assert_eq!(spec, json!({ "labels": { "tier": "1" } }));
    world.run("sub move am-sub am-to").await.says("parent is not changed\n");

    let back = "the parent has changed to am-from\ncreated SubNamespace am-from/am-sub\n";
    world.run("sub move am-sub am-from --leave-original").await.says(back);
    world.has_forms("am-sub", &[("am-from", false), ("am-to", true)]).await;
    world.is_unmarked("am-sub").await;
    // Who may change the namespace can write the annotation, and does not know the UID.
    let forged = json!({ "metadata": { "annotations": { MOVED_FROM: "am-to/unknown" } } });
    world.steps.namespaces().patch("am-sub", &PatchParams::default(), &Patch::Merge(forged)).await.unwrap();
    let unmarked = format!("removed the annotation {MOVED_FROM} of am-sub\nparent is not changed\n");
    world.run("sub move am-sub am-from").await.says(&unmarked);
    world.has_forms("am-sub", &[("am-from", false), ("am-to", true)]).await;
    world.is_unmarked("am-sub").await;
    let doctor = world.run("doctor").await;
    let says = |words: &str| doctor.stdout.contains(words);
    assert!(
        says("SubNamespace am-to/am-sub") && says("kubectl accurate sub move am-sub am-to"),
        "{doctor:?}"
    );
    // The one that was left has the same labels, so it can have the namespace again.
    let again = format!("{changed}deleted the original SubNamespace am-from/am-sub\n");
    world.run("sub move am-sub am-to").await.says(&again);
    scene.has_moved().await;
}

#[tokio::test]
async fn what_is_refused_changes_nothing() {
    let scene = Scene::plant("ar").await;
    let world = &scene.world;
    world.create_root("ar-strict").await;
    let other = json!({ "apiVersion": "accurate.cybozu.com/v2", "kind": "SubNamespace",
        "metadata": { "name": "ar-sub", "namespace": "ar-to" }, "spec": { "labels": { "tier": "2" } } });
    world.fixture.apply(&[other]).await;
    for (words, reason) in [
        ("sub move ar-sub ar-below", "circular reference is not permitted"),
        ("sub move ar-sub ar-sub", "circular reference is not permitted"),
        ("sub move ar-sub ar-gone", "parent namespace does not exist: ar-gone"),
        ("sub move ar-sub ar-strict", "is not match naming policies"),
        (
            "sub move ar-sub ar-to",
            "exists with other labels or annotations than ar-from/ar-sub\nNothing was changed. Make them equal",
        ),
        (
            "sub create ar-sub ar-to",
            "Choose another name. It cannot be made a sub-namespace of ar-to: SubNamespace ar-to/ar-sub exists with other labels or \
             annotations than ar-from/ar-sub.\n",
        ),
        (
            "sub move ar-from ar-to",
            "Error: ar-from is not a sub-namespace\nIt cannot be made a sub-namespace of ar-to: namespace ar-from cannot be changed: ",
        ),
        ("sub graft ar-sub ar-to", "Error: ar-sub is a sub-namespace of ar-from, so it cannot be grafted\n"),
        ("sub graft ar-sub ar-sub", "so it cannot be grafted\nIt cannot be made a sub-namespace of ar-sub: "),
        ("sub graft ar-from ar-to", "there are sub-namespaces under ar-from"),
        ("sub cut ar-from", "Error: ar-from is not a sub-namespace\n"),
        ("ns set-type hnc-system root", "is excluded, because hns runs in it, so it is in no hierarchy"),
        ("template set hnc-system ar-to", "so it is in no hierarchy"),
        ("sub move hnc-system ar-to", "so it is in no hierarchy"),
        ("sub graft hnc-system ar-to", "so it is in no hierarchy"),
        ("sub cut hnc-system", "so it is in no hierarchy"),
        ("sub delete hnc-system", "so it is in no hierarchy"),
    ] {
        let refused = world.run(words).await;
        assert_eq!((refused.code, &*refused.stdout), (Some(1), ""), "{words}: {refused:?}");
        assert!(refused.stderr.contains(reason), "{words}: {refused:?}");
    }
    world.belongs("ar-sub", "ar-from").await;
    world.has_forms("ar-sub", &[("ar-from", false), ("ar-to", true)]).await;
    world.has_forms("ar-from", &[]).await;
    scene.is_whole().await;
}

/// The rights are checked before the first write.
#[tokio::test]
async fn a_missing_right_is_named() {
    let scene = Scene::plant("ay").await;
    let kubectl = scene.world.fixture.cluster.kubectl();
    let role = "create clusterrole ay-get --verb=get --resource=namespaces,subnamespaces.accurate.cybozu.com";
    kubectl.args(role.split(' ')).ok().await.unwrap();
    let bind = "create clusterrolebinding ay-get --clusterrole=ay-get --user=mona";
    scene.world.fixture.cluster.kubectl().args(bind.split(' ')).ok().await.unwrap();
    let wanted = "Error: you may not update the namespace ay-sub, nor create subnamespaces.accurate.cybozu.com in ay-to, nor delete \
                  subnamespaces.accurate.cybozu.com in ay-from, which this needs; nothing was changed\n";
    let refused = eventually("the authorizer knows mona's rights", PATIENCE, async || {
        let refused = scene.world.run("sub move ay-sub ay-to --as mona").await;
        if refused.stderr.starts_with(wanted) { Ok(refused) } else { Err(format!("{refused:?}")) }
    })
    .await
    .unwrap();
    refused.fails(wanted);
    scene.world.has_forms("ay-sub", &[("ay-from", false)]).await;
}

#[tokio::test]
async fn a_namespace_is_grafted_and_cut() {
    let world = world().await;
    for name in ["ag-root", "ag-n"] {
        world.create_root(name).await;
    }
    world.create_namespace("ag-tpl").await;
    world.run("ns set-type ag-tpl template").await.says("success\n");
    world.until("template set ag-n ag-tpl", "set ag-tpl as a template of ag-n\n").await;
    let uid = world.uid("ag-n").await;
    for said in ["grafted ag-n under ag-root\n", "ag-n is a sub-namespace of ag-root already; unchanged\n"] {
        world.run("sub graft ag-n ag-root").await.says(said);
    }
    for (key, value) in [(PARENT, Some("ag-root")), (TYPE, None), (TEMPLATE, None)] {
        world.labelled("ag-n", key, value).await;
    }
    world.has_forms("ag-n", &[("ag-root", false)]).await;
    world.run("sub cut ag-n").await.says("cut ag-n as a root namespace\n");
    world.labelled("ag-n", TYPE, Some("root")).await;
    world.has_forms("ag-n", &[]).await;
    world.is_unmarked("ag-n").await;
    assert_eq!(world.uid("ag-n").await, uid);
    world.run("sub cut ag-n").await.fails("Error: ag-n is not a sub-namespace\n");
}

/// Runs a command through a proxy that stops it after each number of writes, and then a second time undisturbed.
async fn interrupted(
    prefix: &str,
    writes: usize,
    words: impl Fn(&Scene) -> String,
    done: impl AsyncFn(&Scene),
) {
    let cluster = world().await.fixture.cluster;
    let proxy = Proxy::start(cluster).unwrap();
    let kubeconfig = through(&proxy, cluster).await;
    for after in 0..=writes {
        let scene = Scene::plant(&format!("{prefix}{after}")).await;
        let words = words(&scene);
        proxy.stop_after(after, || {});
        let first = accurate(kubeconfig.path(), &words).await.unwrap();
        assert!(proxy.stopped() && first.code == Some(1), "after {after} writes: {first:?}");
        scene.is_whole().await;
        proxy.reset();
        let second = accurate(kubeconfig.path(), &words).await.unwrap();
        // After the last write of a cut there is nothing left to do.
        let is_done = after == writes && second.stderr.contains("It is a root namespace already.");
        assert!(second.code == Some(0) || is_done, "after {after} writes: {first:?}\n{second:?}");
        done(&scene).await;
        println!(
            "{words}, interrupted after write {after} of {writes}: {} more, {:?}",
            proxy.writes(),
            second.stdout
        );
    }
}

/// The new `SubNamespace`, the label, the old `SubNamespace`, the mark.
#[tokio::test]
async fn a_move_interrupted_after_any_write_loses_nothing_and_is_finished_by_a_second_run() {
    let words = |it: &Scene| format!("sub move {} {}", it.sub, it.to);
    interrupted("ai", 4, words, async |scene| scene.has_moved().await).await;
}

/// The label, the `SubNamespace`, the mark.
#[tokio::test]
async fn a_cut_interrupted_after_any_write_loses_nothing_and_is_finished_by_a_second_run() {
    let words = |it: &Scene| format!("sub cut {}", it.sub);
    interrupted("ac", 3, words, async |scene| scene.is_cut().await).await;
}

/// The `SubNamespace` and the label. The namespace was cut before.
#[tokio::test]
async fn a_graft_interrupted_after_any_write_is_finished_by_a_second_run() {
    let cluster = world().await.fixture.cluster;
    let proxy = Proxy::start(cluster).unwrap();
    let kubeconfig = through(&proxy, cluster).await;
    for after in 0..=2 {
        let world = world().await;
        let [root, name] = ["root", "n"].map(|it| format!("ah{after}-{it}"));
        world.create_root(&root).await;
        world.create_namespace(&name).await;
        let words = format!("sub graft {name} {root}");
        proxy.stop_after(after, || {});
        let first = accurate(kubeconfig.path(), &words).await.unwrap();
        assert!(proxy.stopped() && first.code == Some(1), "after {after} writes: {first:?}");
        proxy.reset();
        let second = accurate(kubeconfig.path(), &words).await.unwrap();
        let is_done = after == 2;
        second.says(&if is_done {
            format!("{name} is a sub-namespace of {root} already; unchanged\n")
        } else {
            format!("grafted {name} under {root}\n")
        });
        world.belongs(&name, &root).await;
        world.has_forms(&name, &[(&root, false)]).await;
    }
}

/// A move that was interrupted after the label was changed, and then goes elsewhere, or back.
#[tokio::test]
async fn an_interrupted_move_can_go_elsewhere_or_back() {
    let cluster = world().await.fixture.cluster;
    let proxy = Proxy::start(cluster).unwrap();
    let kubeconfig = through(&proxy, cluster).await;
    for (prefix, to) in [("ae", "ae-other"), ("ab", "ab-from")] {
        let scene = Scene::plant(prefix).await;
        let world = &scene.world;
        world.create_root(&format!("{prefix}-other")).await;
        proxy.stop_after(2, || {});
        let first =
            accurate(kubeconfig.path(), &format!("sub move {} {}", scene.sub, scene.to)).await.unwrap();
        assert!(proxy.stopped() && first.code == Some(1), "{first:?}");
        let second = world.run(&format!("sub move {} {to}", scene.sub)).await;
        assert_eq!(second.code, Some(0), "{second:?}");
        world.belongs(&scene.sub, to).await;
        world.has_forms(&scene.sub, &[(to, false)]).await;
        world.is_unmarked(&scene.sub).await;
        scene.is_whole().await;
        proxy.reset();
    }
}
