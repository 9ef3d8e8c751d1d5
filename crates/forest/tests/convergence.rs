//! Plans against a cluster on paper: performing them leads to what the naive model says should be, in a few rounds,
//! whatever was there before and wherever it was interrupted, and on the way nobody can do more than before or after.

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

use std::collections::{BTreeMap, BTreeSet};

use forest::plan::{Action, Plan, plan};
use forest::{Fact, Forest, Name, ObjectKey, Scope};
use proptest::prelude::*;

use crate::cluster::{Cluster, bindings};
use crate::naive::is_copy;
use crate::op::{NAMES, Op, any_op, config, object_op};

/// What happens to a cluster: first there is something, which comes to rest, and then this and that changes at once.
#[derive(Debug, Clone)]
struct Story {
    parents: Vec<Option<usize>>,
    first: Vec<Op>,
    then: Vec<Op>,
}

fn story() -> impl Strategy<Value = Story> {
    let unlike_a_tree = || 0..NAMES.len();
    // Roots are many, so that there are trees to move between.
    let parents: Vec<_> = (0..NAMES.len() - 1)
        .map(|at| {
            prop_oneof![
                4 => Just(None).boxed(),
                8 => (0..at.max(1)).prop_map(move |parent| (parent < at).then_some(parent)).boxed(),
                1 => unlike_a_tree().prop_map(Some).boxed(),
            ]
        })
        .collect();
    let moves = (0..NAMES.len() - 1, prop::option::weighted(0.9, 0..NAMES.len() - 1));
    let moves = moves.prop_map(|(at, parent)| Op::SetParent(at, parent));
    let then = prop_oneof![4 => moves, 3 => object_op(), 1 => any_op()];
    (parents, prop::collection::vec(object_op(), 4..24), prop::collection::vec(then, 1..8))
        .prop_map(|(parents, first, then)| Story { parents, first, then })
}

/// A cluster, and a forest that follows it.
#[derive(Debug)]
struct Run {
    cluster: Cluster,
    forest: Forest,
}

/// What came of a round.
#[derive(Debug, Default)]
struct Done {
    /// How many writes were tried.
    tried: usize,
    /// Which of them failed.
    failed: Vec<(Name, ObjectKey)>,
    /// What there is to hear of.
    facts: Vec<Fact>,
}

/// What befalls the writes of a round.
#[derive(Debug, Clone, Default)]
struct Fate {
    /// After so many writes the controller dies.
    dies_after: Option<usize>,
    /// Writes that fail, by their number.
    fail: BTreeSet<usize>,
    /// In which order the writes of a step are made.
    order: usize,
}

impl Run {
    /// At rest after the first part of `story`.
    fn begin(story: &Story) -> Self {
        let mut cluster = Cluster::default();
        for (name, parent) in NAMES.iter().zip(story.parents.iter().chain([&None])) {
            cluster.namespace(name);
            if let Some(parent) = parent {
                cluster.set_parent(name, Some(NAMES[*parent]));
            }
        }
        for op in &story.first {
            op.perform(&mut cluster);
        }
        let mut run = Self { forest: cluster.forest(), cluster };
        run.come_to_rest();
        run
    }

    fn hear(&mut self, facts: impl IntoIterator<Item = Fact>) {
        for fact in facts {
            self.forest.apply(fact);
        }
    }

    fn happen(&mut self, ops: &[Op]) {
        let facts: Vec<Fact> = ops.iter().filter_map(|op| op.perform(&mut self.cluster)).collect();
        self.hear(facts);
    }

    fn plans(&self) -> Vec<(Name, Plan)> {
        let names = self.cluster.mentioned().into_iter();
        names.map(|name| (name.clone(), plan(&self.forest, &name, &Scope::whole()))).collect()
    }

    /// Two rounds of writes and one that finds nothing: the second is for labels that were removed before they were
    /// set, the second of these writes being about a state that the first has changed.
    fn come_to_rest(&mut self) {
        let before = self.cluster.clone();
        self.rest_within(3);
        check_end(&before, &self.cluster);
    }

    fn rest_within(&mut self, rounds: usize) {
        for _ in 0..rounds {
            if self.plans().iter().all(|(_, plan)| plan.is_empty()) {
                let afresh = Self { forest: self.cluster.forest(), cluster: self.cluster.clone() };
                assert!(afresh.plans().iter().all(|(_, plan)| plan.is_empty()), "a restart finds work to do");
                return;
            }
            self.round(&Fate::default());
        }
        unreachable!("no rest after {rounds} rounds, but {:#?}", self.plans());
    }

    /// Plans and writes everywhere; what was written is heard of only afterwards.
    fn round(&mut self, fate: &Fate) -> Done {
        let mut done = Done::default();
        for (name, plan) in self.plans() {
            check_deletions(&self.cluster, &name, &plan);
            check_access(&self.cluster, &name, &plan, fate.order);
            let settled = plan.settled.iter().map(|key| Fact::WriteSettled(name.clone(), key.clone()));
            done.facts.extend(settled);
            self.write(&name, &plan, fate, &mut done);
        }
        self.hear(std::mem::take(&mut done.facts));
        done
    }

    fn write(&mut self, name: &Name, plan: &Plan, fate: &Fate, done: &mut Done) {
        let report = (false, plan.report.iter().collect());
        let steps = plan.steps.iter().map(|step| (step.takes_away, in_order(&step.actions, fate.order)));
        let mut held_back = false;
        for (takes_away, actions) in [report].into_iter().chain(steps) {
            if held_back && !takes_away {
                continue;
            }
            for action in actions {
                if fate.dies_after == Some(done.tried) {
                    return;
                }
                done.tried += 1;
                if let Some(key) = action.key().filter(|_| fate.fail.contains(&done.tried)) {
                    done.failed.push((name.clone(), key.clone()));
                    done.facts.push(Fact::WriteFailed(name.clone(), key.clone(), "a webhook said no".into()));
                    held_back |= takes_away;
                    continue;
                }
                if let Ok(fact) = self.cluster.perform(name, action) {
                    done.facts.push(fact);
                } else {
                    let is_second_label = matches!(action, Action::Label { .. }) && !takes_away;
                    assert!(is_second_label, "{name}: {action:?} is about a state that is no more");
                    return;
                }
            }
        }
    }

    /// Whether the status of `name`, as it is or as it is planned to be, names this object as failed.
    fn shows_failure(&self, name: &Name, key: &ObjectKey) -> bool {
        let shown = self.cluster.hierarchies.get(name).map(|shown| &shown.status);
        let plan = plan(&self.forest, name, &Scope::whole());
        let status = match &plan.report {
            Some(Action::CreateHierarchy(status) | Action::ReportStatus { status, .. }) => Some(status),
            _ => shown,
        };
        let names = |message: &str| message.contains(&format!("{:?}: a webhook said no", key.name));
        status.is_some_and(|status| {
            status.conditions.iter().any(|it| *it.type_ == *"BadConfiguration" && names(&it.message))
        })
    }
}

/// The writes of a step may be made in any order.
fn in_order(actions: &[Action], order: usize) -> Vec<&Action> {
    let mut actions: Vec<&Action> = actions.iter().collect();
    let turn = order % actions.len().max(1);
    actions.rotate_left(turn);
    if order % 2 == 1 {
        actions.reverse();
    }
    actions
}

/// A copy goes only when it has no source, or when it is a binding that comes again with other subjects or another role.
fn check_deletions(cluster: &Cluster, name: &Name, plan: &Plan) {
    let comes_again =
        |key| plan.actions().any(|it| matches!(it, Action::Create { key: other, .. } if other == key));
    for action in plan.actions() {
        let Action::Delete { key, .. } = action else { continue };
        let object = &cluster.objects[&(name.clone(), key.clone())];
        match cluster.wanted_copy(name, key) {
            None => assert!(object.inherited_from.is_some(), "{name}: the source {key:?} would be deleted"),
            Some((_, _, body)) => {
                let changed = key.kind == bindings() && object.body != body;
                assert!(changed && comes_again(key), "{name}: {key:?} has a source and would be deleted");
            }
        }
    }
}

/// Between any two writes, nobody may do what they may do neither before all of them nor after.
fn check_access(cluster: &Cluster, name: &Name, plan: &Plan, order: usize) {
    let writes: Vec<&Action> = plan
        .steps
        .iter()
        .flat_map(|step| in_order(&step.actions, order))
        .filter(|action| action.key().is_some())
        .collect();
    let mut state = cluster.clone();
    let mut seen = vec![state.access(name)];
    for write in &writes {
        state.perform(name, write).expect("a plan fits the state that it is made from");
        seen.push(state.access(name));
    }
    let allowed: BTreeSet<_> = seen[0].union(&seen[seen.len() - 1]).cloned().collect();
    for (done, access) in seen.iter().enumerate() {
        let excess: Vec<_> = access.difference(&allowed).collect();
        assert!(
            excess.is_empty(),
            "{name}: {excess:?} may happen after {:#?} of {writes:#?}",
            &writes[..done]
        );
    }
}

/// Everything is as it should be, and nothing was touched that should not have been.
fn check_end(before: &Cluster, after: &Cluster) {
    assert_eq!(before.namespaces.keys().collect::<Vec<_>>(), after.namespaces.keys().collect::<Vec<_>>());
    for name in before.mentioned() {
        if let Some(seen) = after.namespaces.get(&name) {
            let labels: BTreeMap<_, _> =
                seen.labels.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
            assert_eq!(labels, before.wanted_labels(&name), "the labels of {name}");
            let shown = after.hierarchies.get(&name).map(|shown| shown.status.clone());
            let may_lack = shown.is_none() && seen.terminating;
            assert!(may_lack || before.is_right(&name, &shown.unwrap_or_default()), "the status of {name}");
        } else {
            assert_eq!(before.hierarchies.get(&name), after.hierarchies.get(&name), "{name} is not there");
        }
        for key in before.keys() {
            check_object(before, after, &name, &key);
        }
    }
    let specs = |cluster: &Cluster| -> Vec<_> {
        let said =
            cluster.hierarchies.iter().filter(|(_, seen)| seen.parent.is_some() || seen.unreadable.is_some());
        said.map(|(name, seen)| (name.clone(), seen.parent.clone(), seen.unreadable.clone())).collect()
    };
    assert_eq!(specs(before), specs(after), "what users have written");
}

fn check_object(before: &Cluster, after: &Cluster, name: &Name, key: &ObjectKey) {
    let place = (name.clone(), key.clone());
    let (old, new) = (before.objects.get(&place), after.objects.get(&place));
    let untouchable = before.is_frozen(name) || old.is_some_and(|object| object.terminating);
    match before.wanted_copy(name, key) {
        _ if untouchable => assert_eq!(old, new, "{key:?} in {name} is to be left alone"),
        Some(wanted) => {
            assert!(
                new.is_some_and(|object| is_copy(object, &wanted)),
                "{name}: {key:?} is {new:?}, not {wanted:?}"
            );
        }
        None if old.is_some_and(|object| object.inherited_from.is_some()) => {
            assert_eq!(new, None, "{name}: {key:?} has no source");
        }
        None => assert_eq!(old, new, "{name}: {key:?} is a source"),
    }
}

/// A cluster without what depends on when things were written.
fn timeless(cluster: &Cluster) -> impl PartialEq + std::fmt::Debug + use<> {
    let labels: Vec<_> =
        cluster.namespaces.values().map(|seen| (seen.name.clone(), seen.labels.clone())).collect();
    let hierarchies: Vec<_> = cluster
        .hierarchies
        .iter()
        .map(|(name, seen)| {
            let conditions = seen.status.conditions.iter().map(|it| (it.reason.clone(), it.message.clone()));
            (name.clone(), seen.parent.clone(), seen.status.children.clone(), conditions.collect::<Vec<_>>())
        })
        .collect();
    let objects: Vec<_> = cluster
        .objects
        .iter()
        .map(|(place, it)| (place.clone(), it.inherited_from.clone(), it.labels.clone(), it.body.clone()))
        .collect();
    (labels, hierarchies, objects)
}

proptest! {
    #![proptest_config(config(160))]

    #[test]
    fn whatever_happens_comes_to_rest_as_it_should_be(story in story(), order in 0usize..6) {
        let mut run = Run::begin(&story);
        run.happen(&story.then);
        let before = run.cluster.clone();
        run.round(&Fate { order, ..Fate::default() });
        run.rest_within(2);
        check_end(&before, &run.cluster);
    }

    #[test]
    fn a_crash_after_any_write_leads_to_the_same_end(story in story(), crash in any::<prop::sample::Index>()) {
        let mut run = Run::begin(&story);
        run.happen(&story.then);
        let (before, forest) = (run.cluster.clone(), run.cluster.forest());
        let Done { tried, .. } = run.round(&Fate::default());
        run.rest_within(2);

        let mut crashed = Run { cluster: before.clone(), forest };
        crashed.round(&Fate { dies_after: Some(crash.index(tried + 1)), ..Fate::default() });
        crashed.forest = crashed.cluster.forest();
        crashed.rest_within(3);
        check_end(&before, &crashed.cluster);
        prop_assert_eq!(timeless(&run.cluster), timeless(&crashed.cluster));
    }

    #[test]
    fn failures_are_shown_until_they_are_overcome(story in story(), fail in prop::collection::btree_set(1usize..12, 1..6)) {
        let mut run = Run::begin(&story);
        run.happen(&story.then);
        let before = run.cluster.clone();
        let done = run.round(&Fate { fail, ..Fate::default() });
        for (name, key) in &done.failed {
            prop_assert!(run.shows_failure(name, key), "{} does not show the failure of {:?}", name, key);
        }
        // One round more to try again and show the failures, one to find them settled, one to show that.
        run.rest_within(6);
        check_end(&before, &run.cluster);
    }
}
