//! What must be written before a user gains a right, and which writes wait for it.

use super::*;
use crate::cluster::{quota_key, settings};
use crate::core::kind::{KindSettings, Mode};
use crate::hnc::plan::{HncAction, Step, despite_refusals};

fn quota(cluster: &mut Cluster, name: &str, pods: &str) -> Fact {
    cluster.put(name, &quota_key("size"), None, serde_json::json!({ "spec": { "hard": { "pods": pods } } }))
}

/// A tree with a quota, a role and a binding, of which the lower namespaces have nothing yet.
fn restricted(text: &str) -> Cluster {
    let mut cluster = Cluster::draw(text);
    settle(&mut cluster);
    quota(&mut cluster, "root", "0");
    cluster.role("root", "r", "x");
    cluster.binding("root", "b", "r", "u");
    cluster
}

/// Performs what is planned in `name`, and gives what was planned.
fn turn(cluster: &mut Cluster, name: &str) -> Vec<String> {
    let plan = plan(&cluster.forest(), name, &Scope::whole());
    for action in plan.actions() {
        cluster.perform(&name.into(), action).unwrap();
    }
    lines(&plan)
}

#[test]
fn bindings_wait_until_a_quota_is_in_force() {
    let mut cluster = restricted("root, child:root");
    assert_eq!(turn(&mut cluster, "child"), ["off create size from root", "both create r from root"]);
    for _ in 0..2 {
        // In any case.
        cluster.binding("root", "b2", "r", "v");
        let forest = cluster.forest();
        let plan = plan(&forest, "child", &Scope::whole());
        let Some(Action::Dialect(
            HncAction::CreateHierarchy { status, .. }
            | HncAction::UpdateHierarchy { status: Some(status), .. },
        )) = &plan.report
        else {
            panic!("{plan:?}")
        };
        let [condition] = &status.conditions[..] else { panic!("{status:?}") };
        assert_eq!((&*condition.type_, &*condition.reason), ("BadConfiguration", "QuotaNotInForce"));
        assert!(condition.message.contains("\"size\""), "{condition:?}");
        assert_eq!(plan.steps, Vec::<Step>::new(), "{:?}", lines(&plan));
    }
    // The status that says so is no write of ours, and wakes the namespace.
    let mut forest = cluster.forest();
    let mut touched = Scope::default();
    for fact in cluster.enforce() {
        touched.merge(forest.apply(fact).namespaces.remove("child").unwrap_or_default());
    }
    assert_eq!(touched, Scope::whole());
    assert_eq!(planned(&forest, "child"), ["on create b from root, create b2 from root"]);
    settle_enforced(&mut cluster);
}

/// As [`settle`], with a controller that puts quotas in force.
fn settle_enforced(cluster: &mut Cluster) {
    for _ in 0..3 {
        for name in cluster.forest().names() {
            for action in plan(&cluster.forest(), name, &Scope::whole()).actions() {
                let _ = cluster.perform(name, action);
            }
        }
        cluster.enforce();
    }
    settle(cluster);
}

#[test]
fn a_refused_copy_holds_back_nothing_from_further_up() {
    let mut cluster = Cluster::draw("root, mid:root, child:mid");
    cluster.role("root", "r", "x");
    cluster.role("mid", "r2", "x");
    cluster.binding("root", "b", "r", "u");
    cluster.binding("mid", "b2", "r2", "u");
    quota(&mut cluster, "mid", "0");
    let forest = cluster.forest();
    let plan = plan(&forest, "child", &Scope::whole());
    let is_of = |name: &'static str, source: &'static str| {
        move |action: &&Action| {
            action.key().is_some_and(|key| &*key.name == name)
                && action.source().is_some_and(|from| &**from == source)
        }
    };
    let after = |name: &'static str, source: &'static str| {
        let refused: Vec<Action> = plan.actions().filter(is_of(name, source)).cloned().collect();
        assert_eq!(refused.len(), 1, "{:?}", lines(&plan));
        let steps = plan.steps.iter().filter(|step| step.gives);
        let rest = steps.flat_map(|step| despite_refusals(&forest, "child", &refused, step.actions.clone()));
        rest.map(|action| line(&action)).collect::<Vec<_>>()
    };
    let labels = "label +child=0 +included-namespace=true +mid=1 +root=2";
    assert_eq!(after("size", "mid"), [labels, "create r from root", "create b from root"]);
    assert_eq!(after("r2", "mid"), [labels, "create r from root", "create b from root"]);
    assert_eq!(after("r", "root"), [labels]);
}

#[test]
fn what_a_binding_gave_it_gives_no_longer_while_another_waits() {
    let mut cluster = restricted("root, child:root");
    cluster.role("root", "r2", "y");
    settle_enforced(&mut cluster);
    // What is taken away does not wait for anything.
    quota(&mut cluster, "root", "1");
    cluster.binding("root", "b", "r", "v");
    cluster.remove_object("root", &key("r2"));
    assert_eq!(turn(&mut cluster, "child"), ["off delete b", "off delete r2", "off replace size from root"]);
    cluster.enforce();
    assert_eq!(turn(&mut cluster, "child"), ["on create b from root"]);
    settle_enforced(&mut cluster);

    quota(&mut cluster, "root", "2");
    cluster.remove_object("root", &key("b"));
    assert_eq!(turn(&mut cluster, "child"), ["off delete b", "off replace size from root"]);
    // No binding waits, so there is no condition.
    assert_eq!(planned(&cluster.forest(), "child"), [""; 0]);
}

#[test]
fn a_quota_that_goes_is_not_waited_for() {
    let mut cluster = restricted("root, child:root");
    turn(&mut cluster, "child");
    let mut forest = cluster.forest();
    let change = forest.apply(cluster.remove_object("root", &quota_key("size")).unwrap());
    assert_eq!(change.namespaces["child"], Scope::whole());
    let waiting = ["report [] [QuotaNotInForce]", "off delete size"];
    assert_eq!(planned(&forest, "child"), waiting, "bindings wait until it is gone");
    let change = forest.apply(cluster.remove_object("child", &quota_key("size")).unwrap());
    assert_eq!(change.namespaces["child"], Scope::whole());
    assert_eq!(planned(&forest, "child"), ["on create b from root"]);
    // Nor is one whose kind is not propagated any more.
    let mut cluster = restricted("root, child:root");
    turn(&mut cluster, "child");
    let mut forest = cluster.forest();
    let kinds: Vec<KindSettings> = forest.kinds().map(|(_, settings)| settings.clone()).collect();
    let ignored =
        |it: KindSettings| if it.kind.is_quota() { KindSettings::new(it.kind, Mode::Ignore) } else { it };
    forest.apply(Fact::Kinds(kinds.into_iter().map(ignored).collect()));
    assert_eq!(planned(&forest, "child"), ["on create b from root"]);
}

/// Its owner could hold it with a finalizer for ever.
#[test]
fn an_own_restriction_that_is_being_deleted_is_replaced() {
    let mut cluster = Cluster::draw("root, child:root");
    settle(&mut cluster);
    quota(&mut cluster, "root", "0");
    quota(&mut cluster, "child", "1000");
    cluster.change_object("child", &quota_key("size"), |own| own.terminating = true);
    assert_eq!(planned(&cluster.forest(), "child"), ["off replace size from root"]);
}

/// The label of a copy says only what it claims to be.
#[test]
fn a_forged_copy_of_a_restriction_that_is_being_deleted_is_replaced() {
    let mut cluster = restricted("root, child:root");
    turn(&mut cluster, "child");
    cluster.change_object("child", &quota_key("size"), |copy| {
        copy.terminating = true;
        copy.body.clear();
    });
    assert_eq!(planned(&cluster.forest(), "child"), ["off replace size from root"]);
}

/// A binding is planned alone, and what restricts is not forgotten over it.
#[test]
fn restrictions_come_first_in_every_scope() {
    let cluster = restricted("root, child:root");
    let forest = cluster.forest();
    let scope = Scope { structure: false, quotas: false, objects: ObjectScope::Some([key("b")].into()) };
    let first = ["off create size from root", "both create r from root"];
    assert_eq!(lines(&plan(&forest, "child", &scope)), first);
    let scope = Scope { structure: false, quotas: false, objects: ObjectScope::Some([key("r")].into()) };
    assert_eq!(
        lines(&plan(&forest, "child", &scope)),
        ["both create r from root"],
        "a role alone gives nothing"
    );
}

#[test]
fn the_initial_admin_comes_last() {
    let mut with = settings();
    with.initial_admin = Some("admin".into());
    let bind = ["both bind jane to admin", "on label annotate -initial-admin"];
    for (text, halted) in [("root, sub<root", false), ("root:gone, sub<root", true)] {
        let mut cluster = restricted(text);
        cluster.change_hierarchy("root", |seen| seen.labels = [("tier", "gold")].into_iter().collect());
        let of = [("hnc.x-k8s.io/subnamespace-of", "root"), ("hnc.x-k8s.io/initial-admin", "jane")];
        cluster.annotate("sub", &of);
        let planned = |cluster: &Cluster| planned(&cluster.forest_with(with.clone()), "sub");
        if halted {
            let unrestricted =
                planned(&cluster).iter().all(|line| !line.contains("bind") && !line.contains("create"));
            assert!(unrestricted, "a halted tree gets no restrictions: {:?}", planned(&cluster));
            continue;
        }
        let first = ["off create size from root", "both label +tier=gold", "both create r from root"];
        assert_eq!(planned(&cluster), first);
        for action in plan(&cluster.forest_with(with.clone()), "sub", &Scope::whole()).actions() {
            cluster.perform(&"sub".into(), action).unwrap();
        }
        assert!(planned(&cluster).iter().all(|line| line.starts_with("report")), "{:?}", planned(&cluster));
        cluster.enforce();
        assert_eq!(planned(&cluster), ["on create b from root", bind[0], bind[1]]);
    }
}

/// The condition is shown after seconds only, and then the initial admin is given up.
#[test]
fn a_write_that_cannot_wait_does_not_show_that_a_quota_is_not_in_force_yet() {
    let mut cluster = restricted("root, sub<root");
    turn(&mut cluster, "sub");
    cluster.change_anchor("root", "sub", |seen| seen.labels = [("tier", "gold")].into_iter().collect());
    let shows = "report [] [QuotaNotInForce]";
    for wanted in [&["report of root tier=gold", "both label +tier=gold"][..], &[shows], &[]] {
        assert_eq!(turn(&mut cluster, "sub"), wanted);
    }
}

/// Labels that an anchor asks for restrict, too. Users of the subnamespace can write its `HierarchyConfiguration`.
#[test]
fn the_labels_of_an_anchor_come_before_bindings_whatever_the_hierarchy_says() {
    let mut cluster = Cluster::draw("root, sub<root, below:sub");
    cluster.role("root", "r", "x");
    settle(&mut cluster);
    cluster.binding("root", "b", "r", "u");
    let mut forest = cluster.forest();
    let gold = || [("tier", "gold")].into_iter().collect();
    let asked = cluster.change_anchor("root", "sub", |seen| seen.labels = gold());
    let change = forest.apply(asked);
    assert_eq!((&change.namespaces["sub"], change.namespaces["below"].structure), (&Scope::whole(), true));
    let first = ["report of root tier=gold", "both label +tier=gold", "on create b from root"];
    assert_eq!(planned(&forest, "sub"), first);
    assert_eq!(planned(&forest, "below")[0], "both label +tier=gold");
    settle(&mut cluster);
    cluster.change_hierarchy("sub", |seen| seen.labels = [("tier", "lead")].into_iter().collect());
    for (name, plan) in [("sub", vec!["report of root tier=gold"]), ("below", vec![])] {
        assert_eq!(planned(&cluster.forest(), name), plan, "no label changes in {name}");
    }
}

#[test]
fn a_restriction_is_tightened_in_a_namespace_that_is_being_deleted_and_no_right_waits_for_it() {
    let mut cluster = restricted("root, child:root");
    settle_enforced(&mut cluster);
    cluster.terminate("child");
    quota(&mut cluster, "root", "1");
    cluster.binding("root", "b", "r", "v");
    assert_eq!(turn(&mut cluster, "child"), ["off replace size from root", "on replace b from root"]);
}

/// In a cascading deletion, Kubernetes may delete what is above while pods below still end.
#[test]
fn a_restriction_in_a_namespace_that_is_being_deleted_outlasts_its_source() {
    let mut cluster = restricted("root, child:root");
    settle_enforced(&mut cluster);
    cluster.terminate("child");
    cluster.remove_object("root", &quota_key("size"));
    cluster.remove_object("root", &key("b"));
    assert_eq!(turn(&mut cluster, "child"), ["off delete b"]);
    cluster.remove_object("root", &key("r"));
    cluster.remove_namespace("root");
    assert_eq!(turn(&mut cluster, "child").last().unwrap(), "off delete r");
}
