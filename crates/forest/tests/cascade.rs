//! Deleting trees of full namespaces and subnamespaces: only what may be deleted is deleted, whichever is faster, the namespace
//! controller or ours; and what stays is put in order.

#[cfg(test)] // Which it is anyhow; Clippy has to be told.
#[allow(dead_code, reason = "each of the tests that share it uses a part")]
#[path = "support/cluster.rs"]
mod cluster;
#[cfg(test)] // Which it is anyhow; Clippy has to be told.
#[allow(dead_code, reason = "each of the tests that share it uses a part")]
#[path = "support/naive.rs"]
mod naive;
#[cfg(test)] // Which it is anyhow; Clippy has to be told.
#[allow(dead_code, reason = "each of the tests that share it uses a part")]
#[path = "support/op.rs"]
mod op;

use std::collections::BTreeSet;

use forest::plan::{Action, HncAction, plan};
use forest::{Name, Scope};
use proptest::prelude::*;

use crate::cluster::{Cluster, role_key, rules};
use crate::naive::writes::{Writes, check_report};
use crate::op::config;

const NAMES: [&str; 9] = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];

/// A namespace in the making: its parent among those before it, whether it is a subnamespace, whether it allows cascading
/// deletion.
type Plant = (Option<usize>, bool, bool);

fn plants() -> impl Strategy<Value = Vec<Plant>> {
    let plant = |at: usize| {
        let parent = prop::option::weighted(0.85, 0..at.max(1)).prop_map(move |it| it.filter(|it| *it < at));
        (parent, prop::bool::weighted(0.7), prop::bool::weighted(0.2))
    };
    (0..NAMES.len()).map(plant).collect::<Vec<_>>()
}

fn grow(plants: &[Plant]) -> Cluster {
    let mut cluster = Cluster::default();
    for (name, (parent, is_sub, allows)) in NAMES.iter().zip(plants) {
        let parent = parent.map(|at| NAMES[at]);
        if let Some(parent) = parent.filter(|_| *is_sub) {
            cluster.anchor(parent, name);
        } else {
            cluster.namespace(name);
            if parent.is_some() {
                cluster.set_parent(name, parent);
            }
        }
        if *allows {
            cluster.change_hierarchy(name, |seen| seen.allow_cascading_deletion = true);
        }
        cluster.role(name, name, "x");
    }
    cluster
}

/// Ours takes its turn: plans everywhere, of one state, and writes what is planned.
fn reconcile(cluster: &mut Cluster, names: &[Name]) -> bool {
    let forest = cluster.forest();
    let plans: Vec<_> = names.iter().map(|name| (name, plan(&forest, name, &Scope::whole()))).collect();
    for (name, plan) in &plans {
        for action in plan.actions() {
            if let Action::Dialect(HncAction::DeleteSubnamespace { child, .. }) = action {
                let anchor = &cluster.anchors[&((*name).clone(), child.clone())];
                assert!(
                    anchor.terminating || cluster.namespaces[*name].terminating,
                    "{child} without anchor"
                );
            }
            // What another client has changed meanwhile is planned again.
            let _ = cluster.perform(name, action);
        }
    }
    plans.iter().any(|(_, plan)| !plan.is_empty())
}

/// Both controllers take turns in an order that `dice` decide, until neither finds anything to do.
fn settle(cluster: &mut Cluster, dice: &[u8]) {
    let mut dice = dice.iter().copied().cycle().map(usize::from);
    let mut roll = || dice.next().unwrap_or_default();
    for _ in 0..200 {
        let mut names: Vec<Name> = NAMES.map(Name::from).into();
        names.rotate_left(roll() % NAMES.len());
        // A part of all names, and in the end all.
        let part = 1 + roll() % NAMES.len();
        let found = if roll() % 2 == 0 {
            names[..part].iter().fold(false, |found, name| cluster.clean_up(name) | found)
        } else {
            reconcile(cluster, &names[..part])
        };
        if !found && !reconcile(cluster, &names) {
            let idle = !names.iter().fold(false, |found, name| cluster.clean_up(name) | found);
            if idle && !reconcile(cluster, &names) {
                return;
            }
        }
    }
    unreachable!("no rest: {cluster:#?}");
}

/// What goes with a namespace: all that its anchors stand for and that is a leaf or may be deleted by what is said on it or
/// above it.
fn goes_with(cluster: &Cluster, name: &Name, gone: &mut BTreeSet<Name>) {
    gone.insert(name.clone());
    for (_, child) in cluster.anchors.keys().filter(|(parent, _)| parent == name) {
        if cluster.children(child).is_empty() || cluster.allows_cascading(child) {
            goes_with(cluster, child, gone);
        }
    }
}

fn check_rest(before: &Cluster, after: &Cluster, gone: &BTreeSet<Name>) {
    let left: BTreeSet<&Name> = after.namespaces.keys().collect();
    let expected: BTreeSet<&Name> = before.namespaces.keys().filter(|name| !gone.contains(*name)).collect();
    assert_eq!(left, expected, "what is left of {:#?}", before.structure());
    assert!(after.namespaces.values().all(|seen| !seen.terminating), "{after:#?}");
    for name in NAMES.map(Name::from) {
        assert_eq!(Writes::wanted(after, &name), Writes::default(), "{name}");
        check_report(after, &name, None);
        if gone.contains(&name) {
            let inside = after.anchors.keys().any(|(parent, _)| *parent == name);
            assert!(!inside && !after.hierarchies.contains_key(&name), "{name} leaves something behind");
            continue;
        }
        check_copies(before, after, gone, &name);
        for (_, child) in before.anchors.keys().filter(|(parent, _)| *parent == name) {
            assert_eq!(
                after.anchors.contains_key(&(name.clone(), child.clone())),
                !gone.contains(child) && !is_lost(before, after, child),
                "the anchor of {child} in {name}"
            );
        }
    }
}

/// An anchor that was deleted and could not take its subnamespace along is gone.
fn is_lost(before: &Cluster, after: &Cluster, child: &Name) -> bool {
    let condition = |cluster: &Cluster| {
        let seen = cluster.hierarchies.get(child);
        seen.is_some_and(|it| {
            it.status.conditions.iter().any(|it| *it.reason == *"SubnamespaceAnchorMissing")
        })
    };
    !condition(before) && condition(after)
}

/// Copies of what has gone are gone, and those of what is still above are there.
fn check_copies(before: &Cluster, after: &Cluster, gone: &BTreeSet<Name>, name: &Name) {
    let copies = |cluster: &Cluster| -> BTreeSet<Name> {
        let here = cluster.objects.iter().filter(|((at, _), _)| at == name);
        here.filter_map(|(_, object)| object.inherited_from.clone()).collect()
    };
    let expected: BTreeSet<Name> = copies(before).into_iter().filter(|from| !gone.contains(from)).collect();
    assert_eq!(copies(after), expected, "the copies in {name}");
}

proptest! {
    #![proptest_config(config(48))]

    #[test]
    fn what_goes_with_a_namespace_is_what_may(
        plants in plants(),
        which in 0..NAMES.len(),
        by_anchor in any::<bool>(),
        dice in prop::collection::vec(any::<u8>(), 40),
    ) {
        let mut cluster = grow(&plants);
        settle(&mut cluster, &[1]);
        prop_assert_eq!(cluster.namespaces.len(), NAMES.len());
        let before = cluster.clone();
        let name = Name::from(NAMES[which]);
        let mut gone = BTreeSet::new();
        if let Some(parent) = cluster.subnamespace_of(&name).filter(|_| by_anchor) {
                if before.children(&name).is_empty() || before.allows_cascading(&name) {
                    goes_with(&before, &name, &mut gone);
                }
                cluster.delete_anchor(&parent, &name);
        } else {
                goes_with(&before, &name, &mut gone);
                cluster.terminate(&name);
        }
        settle(&mut cluster, &dice);
        // A namespace deleted past its anchor is one that the anchor asks for again.
        let comes_again = before.subnamespace_of(&name).is_some() && !by_anchor;
        if comes_again {
            gone.remove(&name);
            prop_assert!(cluster.namespaces[&name].version.uid != before.namespaces[&name].version.uid);
            prop_assert!(!cluster.allows_cascading(&name) || before.parent(&name).is_some_and(|it| cluster.allows_cascading(&it)));
            prop_assert!(gone.iter().all(|name| !cluster.namespaces.contains_key(name)));
        } else {
            check_rest(&before, &cluster, &gone);
        }
    }
}

/// Five levels, full and sub: with one word at the top all subnamespaces go, and full ones stay as orphans.
#[test]
fn a_mixed_tree_goes_down_to_its_full_namespaces() {
    let text = "top+, s1<top, f1:top, s2<s1, f2:s1, s3<s2, f3:s2, s4<f1, s5<s3, other";
    let mut cluster = Cluster::draw(text);
    for name in ["top", "s1", "f1"] {
        cluster.put(name, &role_key(name), None, rules("x"));
    }
    let names: Vec<Name> = cluster.namespaces.keys().cloned().collect();
    let rest = |cluster: &mut Cluster| {
        for _ in 0..40 {
            reconcile(cluster, &names);
            for name in &names {
                cluster.clean_up(name);
            }
        }
        assert!(!reconcile(cluster, &names), "no rest");
    };
    rest(&mut cluster);
    let copies = |cluster: &Cluster, name: &str| -> Vec<String> {
        let here = cluster.objects.iter().filter(|((at, _), _)| **at == *name);
        here.filter(|(_, it)| it.inherited_from.is_some()).map(|((_, key), _)| key.name.to_string()).collect()
    };
    assert_eq!(copies(&cluster, "f3"), ["s1", "top"]);
    assert_eq!(copies(&cluster, "s4"), ["f1", "top"]);

    cluster.terminate("top");
    rest(&mut cluster);
    let left: Vec<&str> = cluster.namespaces.keys().map(|name| &**name).collect();
    assert_eq!(left, ["f1", "f2", "f3", "other", "s4"]);
    for orphan in ["f1", "f2", "f3"] {
        let reasons = cluster.hierarchies[orphan].status.conditions.iter().map(|it| &*it.reason);
        assert_eq!(reasons.collect::<Vec<_>>(), ["ParentMissing"], "{orphan}");
        assert!(copies(&cluster, orphan).is_empty(), "{orphan}");
    }
    assert_eq!(copies(&cluster, "s4"), ["f1"], "what comes from above the hole goes, the rest is frozen");

    // A new namespace of the old name does not allow deletions below it.
    cluster.namespace("top");
    cluster.anchor("top", "s1");
    rest(&mut cluster);
    assert!(!cluster.allows_cascading("f1") && !cluster.allows_cascading("s1"));
    assert_eq!(cluster.children("top").join(" "), "f1 s1");
    assert_eq!(cluster.parent("f2").as_deref(), Some("s1"), "the orphan is found again");
}
