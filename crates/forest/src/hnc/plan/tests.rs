//! Plans of drawn clusters, written as lines: one per step, `off` for what later steps rest on, `on` for what gives access
//! or relies on a guard, and `both`.
//! Whether plans lead where they should is shown on random clusters in `tests/convergence.rs`.

mod anchors;
mod conditions;
mod lines;
mod marks;
mod propagation;
mod restrictions;
mod status;

use self::lines::{line, lines};
use super::{Action, plan};
use crate::cluster::{Cluster, binding_key, bindings, binds, binds_everywhere, role_key, roles, rules};
use crate::core::change::{ObjectScope, Scope};
use crate::core::kind::ObjectKey;
use crate::core::labels::Labels;
use crate::core::stream::Stream;
use crate::dialects::{Fact, Forest};
use crate::hnc;

fn planned(forest: &Forest, name: &str) -> Vec<String> {
    lines(&plan(forest, name, &Scope::whole()))
}

/// Performs all that is planned until there is nothing.
fn settle(cluster: &mut Cluster) -> Forest {
    for _ in 0..4 {
        let forest = cluster.forest();
        for name in forest.names() {
            for action in plan(&forest, name, &Scope::whole()).actions() {
                // A second write of labels may be about a state that is no more, and is planned again.
                let _ = cluster.perform(name, action);
            }
        }
    }
    let forest = cluster.forest();
    for name in forest.names() {
        assert_eq!(planned(&forest, name), [""; 0], "{name} is not at rest");
    }
    forest
}

/// Roles are called r…, bindings b….
fn key(name: &str) -> ObjectKey {
    if name.starts_with('r') { role_key(name) } else { binding_key(name) }
}

#[test]
fn a_fresh_tree_gets_its_labels_and_then_roles_before_bindings() {
    let mut cluster = Cluster::draw("root, child:root, leaf:child");
    cluster.role("root", "r", "x");
    cluster.binding("root", "b", "r", "u");
    cluster.binding("child", "b2", "r", "u");
    let forest = cluster.forest();
    let cases: [(&str, &[&str]); 4] = [
        (
            "root",
            &["hierarchy with [child] []", "both label +has-children=true +included-namespace=true +root=0"],
        ),
        (
            "child",
            &[
                "report [leaf] []",
                "both label +child=0 +has-children=true +included-namespace=true +root=1",
                "both create r from root",
                "on create b from root",
            ],
        ),
        (
            "leaf",
            &[
                "both label +child=1 +included-namespace=true +leaf=0 +root=2",
                "both create r from root",
                "on create b from root, create b2 from child",
            ],
        ),
        ("nobody", &[]),
    ];
    for (name, expected) in cases {
        assert_eq!(planned(&forest, name), expected, "{name}");
    }
    settle(&mut cluster);
}

#[test]
fn a_lone_namespace_gets_labels_and_no_hierarchy() {
    let cluster = Cluster::draw("alone");
    assert_eq!(planned(&cluster.forest(), "alone"), ["both label +alone=0 +included-namespace=true"]);
}

/// What is planned for `child` below `root` after something happened to a tree at rest.
#[test]
fn copies_follow_their_sources() {
    type Happens = fn(&mut Cluster);
    let cases: [(&str, Happens, &[&str]); 14] = [
        ("nothing", |_| {}, &[]),
        ("a role changes", |it| drop(it.role("root", "r", "xy")), &["both replace r from root"]),
        ("a binding changes", |it| drop(it.binding("root", "b", "r", "v")), &["on replace b from root"]),
        (
            "a role goes: the binding to it first",
            |it| drop(it.remove_object("root", &key("r"))),
            &["off delete b", "off delete r"],
        ),
        (
            "both go: the binding first",
            |it| {
                it.remove_object("root", &key("r"));
                it.remove_object("root", &key("b"));
            },
            &["off delete b", "off delete r"],
        ),
        (
            "a copy is edited",
            |it| drop(it.put("child", &key("r"), Some("root"), rules("xyz"))),
            &["both replace r from root"],
        ),
        (
            "a copy lies about its source",
            |it| drop(it.put("child", &key("r"), Some("x"), rules("x"))),
            &["both replace r from root"],
        ),
        ("a copy is deleted", |it| drop(it.remove_object("child", &key("r"))), &["both create r from root"]),
        (
            "a copy loses its label: it is no copy any more, and another Role than the binding above refers to",
            |it| drop(it.role("child", "r", "x")),
            &["off delete b"],
        ),
        ("a source is added below", |it| drop(it.role("child", "r2", "x")), &[]),
        (
            "a label is put on a source",
            |it| drop(it.put("child", &key("r3"), Some("root"), rules("x"))),
            &["off delete r3"],
        ),
        ("a source is excluded", |it| exclude(it, "root", "r"), &["off delete b", "off delete r"]),
        ("a copy is going", |it| terminate(it, "child", "r"), &[]),
        (
            "a copy is going and its source gone",
            |it| {
                terminate(it, "child", "r");
                it.remove_object("root", &key("r"));
            },
            &["off delete b", "off delete r"],
        ),
    ];
    let mut rest = Cluster::draw("root, child:root");
    rest.role("root", "r", "x");
    rest.binding("root", "b", "r", "u");
    settle(&mut rest);
    for (what, happens, expected) in cases {
        let mut cluster = rest.clone();
        happens(&mut cluster);
        assert_eq!(planned(&cluster.forest(), "child"), expected, "{what}");
        settle(&mut cluster);
    }
}

fn exclude(cluster: &mut Cluster, namespace: &str, name: &str) {
    cluster.change_object(namespace, &key(name), |object| object.excluded = true).unwrap();
}

fn terminate(cluster: &mut Cluster, namespace: &str, name: &str) {
    cluster.change_object(namespace, &key(name), |object| object.terminating = true).unwrap();
}

#[test]
fn the_topmost_eligible_source_wins() {
    let mut cluster = Cluster::draw("root, mid:root, leaf:mid");
    settle(&mut cluster);
    for name in ["root", "mid", "leaf"] {
        cluster.role(name, "r", name);
    }
    cluster.role("mid", "r2", "x");
    let forest = cluster.forest();
    let copies = |forest: &Forest, name: &str| -> Vec<String> {
        let all = Scope { structure: false, quotas: false, objects: ObjectScope::All };
        lines(&plan(forest, name, &all))
    };
    assert_eq!(copies(&forest, "mid"), [""; 0]);
    assert_eq!(copies(&forest, "leaf"), ["both create r2 from mid"]);
    cluster.overwrites = [true; 2];
    let forest = cluster.forest();
    assert_eq!(copies(&forest, "mid"), ["both replace r from root"]);
    assert_eq!(copies(&forest, "leaf"), ["both replace r from root, create r2 from mid"]);

    exclude(&mut cluster, "root", "r");
    let forest = cluster.forest();
    assert_eq!(copies(&forest, "mid"), [""; 0]);
    assert_eq!(copies(&forest, "leaf"), ["both replace r from mid, create r2 from mid"]);
}

#[test]
fn a_moved_namespace_loses_the_old_before_it_gains_the_new() {
    let mut cluster = Cluster::draw("old, new, child:old");
    cluster.role("old", "r-old", "x");
    cluster.binding("old", "b-old", "r-old", "u");
    cluster.role("new", "r-new", "x");
    cluster.binding("new", "b-new", "r-new", "u");
    settle(&mut cluster);
    cluster.set_parent("child", Some("new"));
    let expected = [
        "off label -old",
        "off delete b-old",
        "off delete r-old",
        "both label +new=1",
        "both create r-new from new",
        "on create b-new from new",
    ];
    assert_eq!(planned(&cluster.forest(), "child"), expected);
    settle(&mut cluster);
}

#[test]
fn labels_are_written_once_where_nothing_is_lost_in_between() {
    let mut cluster = Cluster::draw("old, new, child:old");
    cluster.role("new", "r", "x");
    settle(&mut cluster);
    cluster.set_parent("child", Some("new"));
    let expected = ["both label +new=1 -old", "both create r from new"];
    assert_eq!(planned(&cluster.forest(), "child"), expected);

    // Labels that users may not write are removed or corrected. Other labels stay.
    cluster.set_parent("child", Some("old"));
    let tree = |name: &str| format!("{name}.tree.hnc.x-k8s.io/depth");
    cluster.label(
        "child",
        &[
            (&tree("child"), "0"),
            (&tree("old"), "7"),
            (&tree("other"), "1"),
            ("hnc.x-k8s.io/included-namespace", "false"),
            ("team", "red"),
        ],
    );
    assert_eq!(planned(&cluster.forest(), "child"), ["both label +included-namespace=true +old=1 -other"]);
}

/// A namespace comes from `old` to `new`, which both have a role r and a binding b; they may differ, and in which respect
/// decides whether b has to go before r changes.
#[test]
fn a_binding_goes_and_comes_again_when_it_changes_together_with_a_role() {
    type Put = fn(&mut Cluster);
    let in_place: &[&str] = &["both label +new=1 -old", "both replace r from new", "on replace b from new"];
    let apart: &[&str] = &[
        "off label -old",
        "off delete b",
        "both label +new=1",
        "both replace r from new",
        "on create b from new",
    ];
    let cases: [(&str, Put, &[&str]); 7] = [
        ("both are the same", |_| {}, in_place),
        ("the role differs", |it| drop(it.role("new", "r", "y")), in_place),
        ("the binding differs", |it| drop(it.binding("new", "b", "r", "v")), in_place),
        (
            "both differ",
            |it| {
                it.role("new", "r", "y");
                it.binding("new", "b", "r", "v");
            },
            apart,
        ),
        (
            "both differ, the binding in its role",
            |it| {
                it.role("new", "r", "y");
                it.role("new", "r2", "x");
                it.binding("new", "b", "r2", "u");
            },
            &[
                "off label -old",
                "off delete b",
                "both label +new=1",
                "both replace r from new, create r2 from new",
                "on create b from new",
            ],
        ),
        (
            "the binding differs, the role in a label only",
            |it| {
                it.change_object("new", &key("r"), |role| drop(role.labels.insert("a".into(), "b".into())));
                it.binding("new", "b", "r", "v");
            },
            in_place,
        ),
        (
            "the binding differs, and another role comes along",
            |it| {
                it.role("new", "r2", "y");
                it.binding("new", "b", "r", "v");
            },
            &[
                "off label -old",
                "off delete b",
                "both label +new=1",
                "both replace r from new, create r2 from new",
                "on create b from new",
            ],
        ),
    ];
    for (what, put, expected) in cases {
        let mut cluster = Cluster::draw("old, new, child:old");
        for name in ["old", "new"] {
            cluster.role(name, "r", "x");
            cluster.binding(name, "b", "r", "u");
        }
        put(&mut cluster);
        settle(&mut cluster);
        cluster.set_parent("child", Some("new"));
        assert_eq!(planned(&cluster.forest(), "child"), expected, "{what}");
        settle(&mut cluster);
    }
}

#[test]
fn a_local_binding_is_overwritten_before_its_role_would_serve_it() {
    let mut cluster = Cluster::draw("root, child:root");
    settle(&mut cluster);
    cluster.role("root", "r", "x");
    cluster.binding("root", "b", "r", "u");
    cluster.binding("child", "b", "r", "mallory");
    assert_eq!(planned(&cluster.forest(), "child"), ["both create r from root"], "it is kept");
    cluster.overwrites = [true; 2];
    let expected = ["off delete b", "both create r from root", "on create b from root"];
    assert_eq!(planned(&cluster.forest(), "child"), expected);
}

#[test]
fn what_is_halted_keeps_its_objects() {
    let cases: [(&str, &str, &[&str]); 9] = [
        (
            "a, b:a",
            "b",
            &["off delete r", "both label +a=1 +b=0 +included-namespace=true", "on create b from a"],
        ),
        ("b:gone", "b", &["report [] [ParentMissing]", "both label +b=0 +included-namespace=true"]),
        (
            "mid:gone, b:mid",
            "b",
            &["report [] [AncestorHaltActivities]", "both label +b=0 +included-namespace=true +mid=1"],
        ),
        ("b:kube-system", "b", &["report [] [IllegalParent]", "both label +b=0 +included-namespace=true"]),
        (
            "a:b, b:a",
            "b",
            &["report [a] [InCycle]", "both label +b=0 +has-children=true +included-namespace=true"],
        ),
        (
            "b:b",
            "b",
            &["report [b] [InCycle]", "both label +b=0 +has-children=true +included-namespace=true"],
        ),
        (
            "a:x, x:a, b:a",
            "b",
            &["report [] [AncestorHaltActivities]", "both label +a=1 +b=0 +included-namespace=true"],
        ),
        ("a, b?:a", "b", &["report [] [Unreadable]", "both label +b=0 +included-namespace=true"]),
        ("a:gone, b?:a", "b", &["report [] [Unreadable]", "both label +b=0 +included-namespace=true"]),
    ];
    for (text, name, expected) in cases {
        let mut cluster = Cluster::draw(&format!("{text}, elsewhere"));
        cluster.put("a", &key("b"), None, binds_everywhere("u"));
        cluster.put("b", &key("r"), Some("elsewhere"), rules("x"));
        assert_eq!(planned(&cluster.forest(), name), expected, "{name} in {text}");
    }
}

#[test]
fn in_a_terminating_namespace_nothing_is_created_and_labels_stay() {
    let mut cluster = Cluster::draw("root, child!:root, leaf:child");
    cluster.role("root", "r", "x");
    cluster.put("child", &key("r2"), Some("nobody"), rules("x"));
    let forest = cluster.forest();
    // Its status is shown on what there is already.
    assert_eq!(planned(&forest, "child"), ["report [leaf] []", "off delete r2"]);
    assert_eq!(planned(&forest, "leaf").last().unwrap(), "both create r from root");

    let mut cluster = Cluster::draw("top!, child:top");
    assert_eq!(planned(&cluster.forest(), "top"), [""; 0], "nothing is created in it");
    cluster.namespace("top");
    let forest = cluster.forest();
    assert_eq!(
        planned(&forest, "top"),
        ["hierarchy with [child] []", "both label +has-children=true +included-namespace=true +top=0"]
    );
}

#[test]
fn another_namespace_under_the_name_of_one_that_went_is_filled() {
    let mut cluster = Cluster::draw("root, child!:root");
    cluster.role("root", "r", "x");
    let mut forest = cluster.forest();
    let change = forest.apply(cluster.namespace("child"));
    let scope = &change.namespaces["child"];
    assert!(
        lines(&plan(&forest, "child", scope)).contains(&"both create r from root".to_owned()),
        "{change:?}"
    );
}

#[test]
fn an_unmanaged_namespace_loses_what_says_it_is_managed_and_nothing_else() {
    let mut cluster = Cluster::draw("kube-system:root, child:kube-system");
    cluster.label(
        "kube-system",
        &[
            ("hnc.x-k8s.io/included-namespace", "true"),
            ("root.tree.hnc.x-k8s.io/depth", "1"),
            ("team", "red"),
        ],
    );
    cluster.change_hierarchy("kube-system", |it| it.status.children = vec!["child".into()]);
    cluster.role("root", "r", "x");
    cluster.put("kube-system", &key("r2"), Some("root"), rules("x"));
    let forest = cluster.forest();
    assert_eq!(planned(&forest, "kube-system"), ["report [] []", "both label -included-namespace"]);
    settle(&mut cluster);
}

#[test]
fn a_kind_that_is_not_known_whole_waits_alone() {
    let mut cluster = Cluster::draw("root, child:root");
    settle(&mut cluster);
    cluster.role("root", "r", "x");
    cluster.binding("root", "b", "r", "u");
    cluster.put("child", &key("r-stale"), Some("root"), rules("x"));
    cluster.put("child", &key("b-stale"), Some("root"), binds("r", "u"));
    let both =
        ["off delete b-stale", "off delete r-stale", "both create r from root", "on create b from root"];
    let cases: [(Stream, &[&str]); 5] = [
        (Stream::Kind(bindings()), &["off delete r-stale", "both create r from root"]),
        (Stream::Kind(roles()), &["off delete b-stale"]),
        (Stream::NAMESPACES, &[]),
        (Stream::HIERARCHIES, &[]),
        (Stream::ANCHORS, &[]),
    ];
    for (lost, expected) in cases {
        let mut forest = cluster.forest();
        assert_eq!(planned(&forest, "child"), both);
        forest.apply(Fact::StreamLost(lost, "forbidden".into()));
        assert_eq!(planned(&forest, "child"), expected, "without {lost:?}");
        for fact in cluster.lists() {
            let change = forest.apply(fact.clone());
            // The list that was lost is what makes everything worth another look.
            assert_eq!(change.everything, stream_of(&fact) == lost, "{lost:?} is back: {fact:?}");
        }
        assert_eq!(planned(&forest, "child"), both, "{lost:?} is back");
    }
}

fn stream_of(list: &Fact) -> Stream {
    match list {
        Fact::Namespaces(_) => Stream::NAMESPACES,
        Fact::Hnc(hnc::Fact::Hierarchies(_)) => Stream::HIERARCHIES,
        Fact::Hnc(hnc::Fact::Anchors(_)) => Stream::ANCHORS,
        Fact::Objects(kind, _) => Stream::Kind(*kind),
        other => panic!("{other:?} is no list"),
    }
}

#[test]
fn before_the_first_lists_nothing_is_planned() {
    let mut cluster = Cluster::draw("root, child:root");
    cluster.role("root", "r", "x");
    cluster.put("child", &key("r2"), Some("root"), rules("x"));
    let [namespaces, hierarchies, anchors, roles, bindings, _] = cluster.lists();
    let mut forest = crate::cluster::empty_forest();
    for (fact, steps) in [(roles, 0), (namespaces, 0), (hierarchies, 0), (anchors, 3), (bindings, 3)] {
        forest.apply(fact);
        assert_eq!(
            plan(&forest, "child", &Scope::whole()).steps.len(),
            steps,
            "{:?}",
            planned(&forest, "child")
        );
    }
}

#[test]
fn what_is_seen_without_content_cannot_be_copied() {
    let mut cluster = Cluster::draw("root, child:root");
    settle(&mut cluster);
    let mut fact = cluster.role("root", "r", "x");
    let Fact::Object(_, seen) = &mut fact else { panic!("{fact:?}") };
    seen.content = None;
    let mut forest = cluster.forest();
    seen.version.resource_version = "1000".into();
    forest.apply(fact);
    assert_eq!(planned(&forest, "child"), [""; 0]);
}

#[test]
fn a_plan_looks_no_further_than_its_scope() {
    let mut cluster = Cluster::draw("root, child:root");
    settle(&mut cluster);
    cluster.label("child", &[("child.tree.hnc.x-k8s.io/depth", "0"), ("root.tree.hnc.x-k8s.io/depth", "1")]);
    cluster.role("root", "r1", "x");
    cluster.role("root", "r2", "x");
    cluster.binding("root", "b1", "r1", "u");
    let forest = cluster.forest();
    let some = |keys: &[&str]| ObjectScope::Some(keys.iter().map(|name| key(name)).collect());
    let cases: [(Scope, &[&str]); 6] = [
        (Scope::default(), &[]),
        (Scope::structure(), &["both label +included-namespace=true"]),
        (Scope { structure: false, quotas: false, objects: some(&["r2"]) }, &["both create r2 from root"]),
        // With a binding comes its Role.
        (
            Scope { structure: false, quotas: false, objects: some(&["b1"]) },
            &["both create r1 from root", "on create b1 from root"],
        ),
        (Scope { structure: false, quotas: false, objects: some(&["r3"]) }, &[]),
        (
            Scope { structure: false, quotas: false, objects: ObjectScope::All },
            &["both create r1 from root, create r2 from root", "on create b1 from root"],
        ),
    ];
    for (scope, expected) in &cases {
        assert_eq!(lines(&plan(&forest, "child", scope)), *expected, "{scope:?}");
    }

    // What is lost with a place goes before anything is gained by the next one, and all of that together.
    cluster.namespace("other");
    cluster.set_parent("child", Some("other"));
    cluster.role("other", "r2", "y");
    cluster.put("child", &key("b1"), Some("root"), binds("r1", "u"));
    let forest = cluster.forest();
    let all = lines(&plan(&forest, "child", &Scope::whole()));
    assert_eq!(all.last().map(String::as_str), Some("both create r2 from other"), "{all:?}");
    for (scope, _) in &cases[1..] {
        let plan = plan(&forest, "child", scope);
        assert_eq!(lines(&plan), all, "{scope:?}");
        assert_eq!(plan.scope, Scope::whole(), "what fails of it is to be tried again as far");
    }
}

#[test]
fn a_source_touches_what_is_below_when_its_copies_would_differ() {
    type Happens = fn(&mut Cluster) -> Option<Fact>;
    let cases: [(&str, Happens, &str); 7] = [
        ("only its version changes", |it| Some(it.role("root", "r", "x")), "root"),
        ("its rules change", |it| Some(it.role("root", "r", "y")), "child leaf root"),
        (
            "it is excluded",
            |it| it.change_object("root", &key("r"), |object| object.excluded = true),
            "child leaf root",
        ),
        ("it becomes a copy", |it| Some(it.put("root", &key("r"), Some("x"), rules("x"))), "child leaf root"),
        ("it goes", |it| it.remove_object("root", &key("r")), "child leaf root"),
        ("one comes", |it| Some(it.role("child", "r2", "x")), "child leaf"),
        ("a copy changes", |it| Some(it.put("child", &key("r"), Some("root"), rules("z"))), "child"),
    ];
    let mut rest = Cluster::draw("root, child:root, leaf:child, other");
    rest.role("root", "r", "x");
    settle(&mut rest);
    for (what, happens, expected) in cases {
        let mut cluster = rest.clone();
        let mut forest = cluster.forest();
        let touched = forest.apply(happens(&mut cluster).unwrap()).namespaces;
        let mut names: Vec<&str> = touched.keys().map(|name| &**name).collect();
        names.sort_unstable();
        assert_eq!(names.join(" "), expected, "{what}");
        let narrow = |scope: &Scope| {
            !scope.structure && matches!(&scope.objects, ObjectScope::Some(keys) if keys.len() == 1)
        };
        assert!(touched.values().all(narrow), "{what}: {touched:?}");
    }
}
