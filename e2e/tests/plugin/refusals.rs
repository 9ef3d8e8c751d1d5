//! What will be refused is said before anything is written, for administrators as for others.

use hns_e2e::eventually;
use hns_e2e::steps::PATIENCE;
use serde_json::json;

use super::fixture::live;

#[tokio::test]
async fn a_deletion_that_fails_leaves_cascading_deletion_forbidden() {
    let live = live().await;
    let steps = live.steps();
    steps.plant(&[("rd-org", ""), ("rd-other", "")]).await.unwrap();
    live.hns("create rd-sub -n rd-org --wait").await;
    live.hns("create rd-low -n rd-sub --wait").await;
    let missing = live.hns("delete rd-sub -n rd-other -a").await;
    missing.fails(
        "Could not delete subnamespace anchor.\nReason: subnamespaceanchors.hnc.x-k8s.io \"rd-sub\" not found\n",
    );
    // She is an admin of the subnamespace, but may not write in its parent.
    steps.make_admin("rd-sub", "rda").await.unwrap();
    eventually("rda is admin of rd-sub", PATIENCE, async || {
        let plan = live.hns("plan set rd-sub -a --as rda").await;
        if plan.code == Some(0) { Ok(()) } else { Err(format!("{plan:?}")) }
    })
    .await
    .unwrap();
    let refused = live.hns("delete rd-sub -n rd-org -a --as rda").await;
    assert_eq!((refused.code, &*refused.stdout), (Some(1), ""), "{refused:?}");
    let reason = "Could not delete subnamespace anchor.\nReason: subnamespaceanchors.hnc.x-k8s.io \"rd-sub\" is forbidden";
    assert!(refused.stderr.contains(reason), "{refused:?}");
    let described = live.hns("describe rd-sub").await;
    assert!(described.stdout.contains("  Allows Cascading Deletion: false\n"), "{described:?}");
}

/// A halted parent stays halted until somebody changes it: there is nothing to wait for.
#[tokio::test]
async fn nothing_waits_below_a_halted_parent() {
    let live = live().await;
    let steps = live.steps();
    steps.plant(&[("rh-top", ""), ("rh-mid", "rh-top"), ("rh-low", "rh-mid")]).await.unwrap();
    steps.create_binding("rh-mid", "here", ("ClusterRole", "view"), "zoe").await.unwrap();
    live.hns("set rh-low --root --wait").await;
    steps.namespaces().delete("rh-top", &kube::api::DeleteParams::default()).await.unwrap();
    steps.reasons("rh-mid", &["ParentMissing"]).await.unwrap();
    for (command, halted) in [
        ("create rh-new -n rh-mid --wait", "parent"),
        ("set rh-low --parent rh-mid --wait", "parent"),
        ("move rh-low --to rh-mid --yes", "parent"),
        // The namespace above it is halted, too, but has no fault of its own.
        ("create rh-lower -n rh-low --wait", "ancestor"),
    ] {
        let output = tokio::time::timeout(PATIENCE, live.hns(command)).await.expect("it waits in vain");
        let why = format!("because its {halted} rh-mid is halted: ");
        assert!(output.code == Some(1) && output.stderr.contains(&why), "{command}: {output:?}");
        assert!(output.stderr.contains("`kubectl hns describe rh-mid` shows the problem."), "{output:?}");
        assert!(!output.stdout.contains("all copies are there"), "{command}: {output:?}");
    }
}

/// What allows a cascading deletion is refused there.
#[tokio::test]
async fn the_way_to_a_deletion_below_a_halted_namespace_begins_with_its_repair() {
    let live = live().await;
    let steps = live.steps();
    steps.plant(&[("rw-top", ""), ("rw-mid", "rw-top")]).await.unwrap();
    steps.create_anchor("rw-mid", "rw-sub").await.unwrap();
    let first = "At present, cascading deletion cannot be allowed: the ancestor \"rw-top\" is halted";
    let planned = async |is_halted: bool| {
        eventually("the plan refuses the deletion", PATIENCE, async || {
            let plan = live.hns("plan delete rw-mid").await;
            let is_it = plan.code == Some(1)
                && plan.stderr.contains("`kubectl hns set rw-mid -a`")
                && plan.stderr.contains(first) == is_halted;
            if is_it { Ok(()) } else { Err(format!("{plan:?}")) }
        })
        .await
        .unwrap();
    };
    planned(false).await;
    live.hns("set rw-top --parent rw-gone").await;
    steps.reasons("rw-mid", &["AncestorHaltActivities"]).await.unwrap();
    planned(true).await;
}

/// A tree with a limit: a plan for an administrator and for a tenant says what the API server says.
#[tokio::test]
async fn plans_know_the_limits_of_trees() {
    let live = live().await;
    let steps = live.steps();
    steps.plant(&[("rl-org", ""), ("rl-one", "rl-org"), ("rl-out", "")]).await.unwrap();
    steps.make_admin("rl-org", "rlu").await.unwrap();
    steps.make_admin("rl-out", "rlu").await.unwrap();
    let patch = json!({ "spec": { "trees": [{ "root": "rl-org", "maxNamespaces": 1 }] } }).to_string();
    let patch = ["patch", "hncconfiguration", "config", "--type=merge", "--patch", &patch];
    eventually("the controller has created the configuration", PATIENCE, async || {
        let patched = live.cluster.kubectl().args(patch).ok().await;
        patched.map(drop).map_err(|error| format!("{error:#}"))
    })
    .await
    .unwrap();
    let words = "namespace \"rl-two\" cannot be below \"rl-org\", which has a limit";
    eventually("the limit is in force", PATIENCE, async || {
        let create = live.hns("plan create rl-two -n rl-org --as rlu").await;
        if create.code == Some(1) && create.stdout.contains(words) {
            Ok(())
        } else {
            Err(format!("{create:?}"))
        }
    })
    .await
    .unwrap();
    let create = live.hns("plan create rl-two -n rl-org").await;
    assert!(create.code == Some(1) && create.stdout.contains(words), "{create:?}");
    let real = live.hns("create rl-two -n rl-org").await;
    assert!(real.code == Some(1) && real.stderr.contains(words), "{real:?}");
    let words = "namespace \"rl-out\" cannot be below \"rl-org\"";
    for plan in ["plan set rl-out --parent rl-org", "plan set rl-out --parent rl-org --as rlu"] {
        let plan = live.hns(plan).await;
        assert!(plan.code == Some(1) && plan.stdout.contains(words), "{plan:?}");
    }
    let moved = live.hns("move rl-out --to rl-org --yes").await;
    assert!(moved.code == Some(1) && moved.stderr.contains(words), "{moved:?}");
    let patch =
        ["patch", "hncconfiguration", "config", "--type=merge", "--patch={\"spec\":{\"trees\":null}}"];
    live.cluster.kubectl().args(patch).ok().await.unwrap();
}

#[tokio::test]
async fn plans_know_what_kubernetes_refuses() {
    let live = live().await;
    for name in ["kube-system", "default"] {
        let plan = live.hns(&format!("plan delete {name}")).await;
        let words = "This would be refused (403 Forbidden): ";
        assert!(plan.code == Some(1) && plan.stdout.contains(words), "{plan:?}");
        assert!(plan.stdout.contains("this namespace may not be deleted"), "{plan:?}");
    }
}

#[tokio::test]
async fn what_an_ancestor_allows_is_shown() {
    let live = live().await;
    live.steps().plant(&[("ra-org", ""), ("ra-mid", "ra-org"), ("ra-low", "ra-mid")]).await.unwrap();
    live.hns("set ra-org -a").await;
    let described = live.hns("describe ra-low").await;
    let lines =
        "  Allows Cascading Deletion: false\n  Cascading deletion is allowed by ra-org, which is above\n";
    assert!(described.stdout.contains(lines), "{described:?}");
    let set = live.hns("set ra-low -f").await;
    assert_eq!(
        (set.code, &*set.stderr),
        (Some(0), "Warning: cascading deletion of ra-low is still allowed by ra-org, which is above it\n"),
        "{set:?}"
    );
}

/// The namespace controller deletes the `HierarchyConfiguration` first.
#[tokio::test]
async fn a_namespace_that_is_being_deleted_has_its_place() {
    let live = live().await;
    let steps = live.steps();
    steps.plant(&[("rk-org", ""), ("rk-mid", "rk-org"), ("rk-low", "rk-mid")]).await.unwrap();
    steps.labelled(&["rk-low", "rk-mid", "rk-org"]).await.unwrap();
    let kubectl = async |words: &str| live.cluster.kubectl().args(words.split(' ')).ok().await.unwrap();
    kubectl("create configmap held -n rk-mid").await;
    kubectl(
        "patch configmap held -n rk-mid --type=merge -p {\"metadata\":{\"finalizers\":[\"x.test/held\"]}}",
    )
    .await;
    kubectl("delete namespace rk-mid --wait=false").await;
    eventually("its HierarchyConfiguration is gone", PATIENCE, async || {
        let found = live.hns("plan set rk-mid --root").await;
        if found.stderr.starts_with("Error: rk-mid is being deleted\n") {
            Ok(())
        } else {
            Err(format!("{found:?}"))
        }
    })
    .await
    .unwrap();
    let described = live.hns("describe rk-mid").await;
    assert!(described.stdout.contains("  Parent: rk-org\n  Children:\n  - rk-low\n"), "{described:?}");
    live.hns("plan delete rk-mid")
        .await
        .says("The namespace rk-mid is being deleted already\nNothing would change.\n");
    let created = live.hns("create rk-mid -n rk-org").await;
    assert!(created.stderr.contains("The namespace rk-mid is being deleted: try again"), "{created:?}");
    kubectl("patch configmap held -n rk-mid --type=merge -p {\"metadata\":{\"finalizers\":null}}").await;
}
