//! Plans against a cluster on paper: performing them leads to what the naive model says should be, in a few rounds,
//! from any state and after any interruption, and on the way no user can do more than before or after.

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

use forest::hnc;
use forest::plan::{Action, HncAction, Plan, plan};
use forest::{CrdState, Fact, Forest, Mode, Name, ObjectKey, ObjectScope, Scope, keys};
use proptest::prelude::*;

use crate::cluster::{Cluster, Object, bindings, note_conflicts, quotas, role_key};
use crate::naive::writes::{Writes, check_report, is_copy};
use crate::op::{NAMES, Op, any_op, config, object_op, subnamespace_op};

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
    let first = prop_oneof![3 => object_op(), 1 => subnamespace_op()];
    let then = prop_oneof![4 => moves, 3 => object_op(), 3 => subnamespace_op(), 1 => any_op()];
    (parents, prop::collection::vec(first, 4..24), prop::collection::vec(then, 1..8))
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

    /// A start: everything is read, and what is kept is noted before anything is written.
    fn start(cluster: Cluster) -> Self {
        let mut forest = cluster.forest();
        note_conflicts(&mut forest);
        Self { cluster, forest }
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

    /// Reads what the plans lack. Once read, a source is kept for as long as something below may take copies of it.
    fn read(&mut self) {
        let unread: Vec<_> = self.plans().into_iter().flat_map(|(_, plan)| plan.unread).collect();
        let facts: Vec<Fact> = unread.iter().map(|(name, key)| self.cluster.object_fact(name, key)).collect();
        self.hear(facts);
        assert!(self.plans().iter().all(|(_, plan)| plan.unread.is_empty()), "read in vain");
    }

    /// Two rounds of writes and one that finds nothing: the second is for labels that were removed before they were
    /// set, the second of these writes being about a state that the first has changed. When a round has changed what
    /// others' plans follow from, it counts anew.
    fn come_to_rest(&mut self) {
        let before = self.cluster.clone();
        self.rest_within(4);
        check_end(&before, &self.cluster);
    }

    fn rest_within(&mut self, rounds: usize) {
        let mut left = rounds;
        for _ in 0..30 {
            if self.plans().iter().all(|(_, plan)| plan.is_empty()) {
                let afresh = Self::start(self.cluster.clone());
                assert!(afresh.plans().iter().all(|(_, plan)| plan.is_empty()), "a restart finds work to do");
                return;
            }
            assert!(left > 0, "no rest after {rounds} rounds, but {:#?}", self.plans());
            let before = self.cluster.structure();
            self.round(&Fate::default());
            left = if self.cluster.structure() == before { left - 1 } else { rounds };
        }
        unreachable!("no rest at all, but {:#?}", self.plans());
    }

    /// Plans and writes everywhere; what was written is heard of only afterwards.
    fn round(&mut self, fate: &Fate) -> Done {
        let mut done = Done::default();
        let planned_on = self.cluster.clone();
        self.read();
        for (name, plan) in self.plans() {
            assert_eq!(Writes::of(&plan), Writes::wanted(&planned_on, &name), "the writes in {name}");
            check_own(&planned_on, &name, &plan);
            check_deletions(&planned_on, &name, &plan);
            check_access(&planned_on, &name, &plan, fate);
            self.check_alone(&planned_on, &name, &plan, fate);
            let settled = plan.settled.iter().map(|key| Fact::WriteSettled(name.clone(), key.clone()));
            let kept = plan.conflicts.iter();
            let kept = kept.map(|(key, why)| Fact::Conflict(name.clone(), key.clone(), why.clone()));
            done.facts.extend(settled.chain(kept));
            self.write(&name, &plan, fate, &mut done);
        }
        self.hear(std::mem::take(&mut done.facts));
        let enforced = self.cluster.enforce();
        self.hear(enforced);
        done
    }

    fn write(&mut self, name: &Name, plan: &Plan, fate: &Fate, done: &mut Done) {
        let report = (false, false, plan.report.iter().collect());
        let steps =
            plan.steps.iter().map(|step| (step.guards, step.gives, in_order(&step.actions, fate.order)));
        let mut held_back = false;
        for (guards, gives, actions) in [report].into_iter().chain(steps) {
            if held_back && gives {
                continue;
            }
            for action in actions {
                if fate.dies_after == Some(done.tried) {
                    return;
                }
                done.tried += 1;
                if fate.fail.contains(&done.tried) {
                    held_back |= guards;
                    if let Some(key) = action.key() {
                        done.failed.push((name.clone(), key.clone()));
                        let why = "a webhook said no".into();
                        done.facts.push(Fact::WriteFailed(name.clone(), key.clone(), why));
                    }
                    continue;
                }
                check_guarded(&self.cluster, name, action);
                if let Ok(fact) = self.cluster.perform(name, action) {
                    done.facts.push(fact);
                } else {
                    let is_shared = matches!(
                        action,
                        Action::PatchNamespace { .. }
                            | Action::Dialect(
                                HncAction::CreateSubnamespace { .. } | HncAction::DeleteSubnamespace { .. }
                            )
                    );
                    assert!(is_shared, "{name}: {action:?} is about a state that is no more");
                    held_back |= guards;
                }
            }
        }
    }

    /// A binding that is planned alone is not written without the Role that it refers to either.
    fn check_alone(&self, cluster: &Cluster, name: &Name, whole: &Plan, fate: &Fate) {
        for key in whole.actions().filter_map(Action::key).filter(|key| key.kind == bindings()) {
            let objects = ObjectScope::Some(BTreeSet::from([key.clone()]));
            let alone = plan(&self.forest, name, &Scope { structure: false, quotas: false, objects });
            check_access(cluster, name, &alone, fate);
        }
    }

    /// Makes the writes that are planned while the definitions go.
    fn finish(&mut self) {
        for (name, plan) in self.plans() {
            for action in plan.actions() {
                let lets_go = matches!(
                    action,
                    Action::Dialect(
                        HncAction::UpdateHierarchy { spec: None, .. }
                            | HncAction::UpdateAnchor { state: None, .. }
                    )
                );
                assert!(lets_go, "{name}: {action:?} while the definitions go");
                let fact = self.cluster.perform(&name, action).expect("no other client writes");
                self.hear([fact]);
            }
        }
    }

    /// Whether the status of `name`, as it is or as it is planned to be, names this object as failed.
    fn shows_failure(&self, name: &Name, key: &ObjectKey) -> bool {
        let shown = self.cluster.hierarchies.get(name).map(|shown| &shown.status);
        let plan = plan(&self.forest, name, &Scope::whole());
        let status = match &plan.report {
            Some(Action::Dialect(
                HncAction::CreateHierarchy { status, .. }
                | HncAction::UpdateHierarchy { status: Some(status), .. },
            )) => Some(status),
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

/// A subnamespace comes below a marked parent, by an anchor that cannot go unnoticed; it goes only with its anchor.
fn check_guarded(cluster: &Cluster, name: &Name, action: &Action) {
    match action {
        Action::Dialect(HncAction::CreateSubnamespace { child, .. }) => {
            let marker = cluster.namespaces[name].labels.get(keys::HAS_CHILDREN);
            assert_eq!(marker, Some("true"), "{child} would come below {name}");
            let anchor = &cluster.anchors[&(name.clone(), child.clone())];
            let held = anchor.finalizers.iter().any(|it| **it == *keys::ANCHOR_FINALIZER);
            assert!(held && !anchor.terminating, "{child} would come by {anchor:?}");
        }
        Action::Dialect(HncAction::DeleteSubnamespace { child, .. }) => {
            let anchor = &cluster.anchors[&(name.clone(), child.clone())];
            assert!(anchor.terminating, "{child} would go without its anchor");
            let parent = cluster.namespaces[child].annotations.get(keys::SUBNAMESPACE_OF);
            assert_eq!(parent, Some(&**name), "{child} would go with a foreign anchor");
        }
        _ => {}
    }
}

/// An object that is no copy is replaced only where the configuration says so of its kind, and deleted only to be replaced.
fn check_own(cluster: &Cluster, name: &Name, plan: &Plan) {
    for action in plan.actions() {
        let (Action::ReplaceCopy { key, .. } | Action::DeleteCopy { key, .. }) = action else { continue };
        let own = cluster.objects[&(name.clone(), key.clone())].inherited_from.is_none();
        assert!(!own || cluster.overwrites(key), "{name}: the own object {key:?} would be lost: {action:?}");
    }
}

/// A copy goes only when it has no source, or when it is a binding that comes again with other subjects or another role.
fn check_deletions(cluster: &Cluster, name: &Name, plan: &Plan) {
    let comes_again =
        |key| plan.actions().any(|it| matches!(it, Action::CreateCopy { key: other, .. } if other == key));
    for action in plan.actions() {
        let Action::DeleteCopy { key, .. } = action else { continue };
        let object = &cluster.objects[&(name.clone(), key.clone())];
        match cluster.wanted_copy(name, key) {
            None => assert!(object.inherited_from.is_some(), "{name}: the source {key:?} would be deleted"),
            Some((from, _, body)) => {
                let changed = key.kind == bindings() && object.body != body;
                let forsaken = cluster.is_frozen(name);
                assert!(
                    forsaken
                        || changed
                            && (comes_again(key) || cluster.holds(name, &from) || cluster.is_ending(name)),
                    "{name}: {key:?} has a source and would be deleted"
                );
            }
        }
    }
}

/// Between any two writes, no user may do what they may do neither before all of them nor after; not even when some of
/// them fail.
fn check_access(cluster: &Cluster, name: &Name, plan: &Plan, fate: &Fate) {
    let steps = || {
        plan.steps.iter().map(|step| {
            let writes = in_order(&step.actions, fate.order).into_iter().filter(|it| it.key().is_some());
            (step, writes.collect::<Vec<_>>())
        })
    };
    let mut end = cluster.clone();
    for write in steps().flat_map(|(_, writes)| writes) {
        end.perform(name, write).expect("a plan fits the state that it is made from");
    }
    let allowed: BTreeSet<_> = cluster.access(name).union(&end.access(name)).cloned().collect();
    for fail in [&BTreeSet::new(), &fate.fail] {
        let (mut state, mut done, mut held_back) = (cluster.clone(), Vec::new(), false);
        for (step, writes) in steps() {
            if held_back && step.gives {
                continue;
            }
            for write in writes {
                done.push(write);
                if fail.contains(&done.len()) {
                    held_back |= step.guards;
                    continue;
                }
                state.perform(name, write).expect("a plan fits the state that it is made from");
                let access = state.access(name);
                let excess: Vec<_> = access.difference(&allowed).collect();
                assert!(excess.is_empty(), "{name}: {excess:?} may happen after {done:#?}, without {fail:?}");
                if let Action::CreateCopy { key, .. } | Action::ReplaceCopy { key, .. } = write {
                    check_reference(cluster, &state, name, key);
                }
            }
        }
    }
}

/// A copy that refers to a Role is written when the Role is as it is to be.
fn check_reference(planned_on: &Cluster, state: &Cluster, name: &Name, key: &ObjectKey) {
    let binding = state.objects.get(&(name.clone(), key.clone())).filter(|_| key.kind == bindings());
    let Some(role) = binding.and_then(|binding| binding.role()).map(role_key) else { return };
    let wanted = planned_on.wanted_copy(name, &role);
    let there = state.objects.get(&(name.clone(), role.clone()));
    let is_right = there.zip(wanted).is_some_and(|(there, wanted)| is_copy(there, &wanted));
    // Nobody can create a missing one there.
    let is_right = is_right || there.is_none() && planned_on.is_ending(name);
    assert!(is_right, "{name}: {key:?} is written although {role:?} is {there:?}");
}

/// A copy of a binding grants what the binding grants in its own namespace.
fn check_grants(cluster: &Cluster) {
    let rules = |namespace: &Name, role: &str| {
        let role = cluster.objects.get(&(namespace.clone(), role_key(role)))?;
        (!role.terminating).then_some(&role.body)
    };
    for ((name, key), copy) in cluster.objects.iter().filter(|((_, key), _)| key.kind == bindings()) {
        let (Some(from), Some(role)) = (&copy.inherited_from, copy.role()) else { continue };
        let is_at_rest = cluster.mode(key) != Mode::Ignore && !copy.terminating;
        if is_at_rest && !cluster.is_frozen(name) && !cluster.is_frozen(from) {
            let granted = rules(name, role);
            let grants_nothing = granted.is_none() && cluster.is_ending(name);
            assert!(grants_nothing || granted == rules(from, role), "{key:?} of {from} in {name}");
        }
    }
}

/// Everything is as it should be, and nothing was touched that should not have been.
fn check_end(before: &Cluster, after: &Cluster) {
    for name in after.mentioned() {
        assert_eq!(Writes::wanted(after, &name), Writes::default(), "{name} is not right");
        check_report(after, &name, None);
    }
    check_grants(after);
    check_namespaces(before, after);
    check_specs(before, after);
    if before.structure() == after.structure() {
        for name in before.mentioned() {
            for key in before.keys() {
                check_object(before, after, &name, &key);
            }
        }
    }
}

/// None is lost; what is new or going is so by an anchor; and what is not ours is on it as it was.
fn check_namespaces(before: &Cluster, after: &Cluster) {
    let anchored = |name: &Name, terminating: bool| {
        let mut anchors = before.anchors.values();
        anchors.any(|anchor| anchor.name == *name && anchor.terminating == terminating)
    };
    for (name, new) in &after.namespaces {
        let Some(old) = before.namespaces.get(name) else {
            assert!(anchored(name, false), "{name} came by itself");
            continue;
        };
        assert!(old.terminating == new.terminating || anchored(name, true), "{name} is deleted by itself");
        assert_eq!(before.foreign_marks(name), after.foreign_marks(name), "{name}");
    }
    let lost = before.namespaces.keys().find(|name| !after.namespaces.contains_key(*name));
    assert_eq!(lost, None, "a namespace is gone");
}

/// What users have written is as it was, but for what a subnamespace takes over.
fn check_specs(before: &Cluster, after: &Cluster) {
    let foreign = |finalizers: &[Box<str>]| -> Vec<Box<str>> {
        finalizers.iter().filter(|it| !it.starts_with(keys::GROUP)).cloned().collect()
    };
    for (name, old) in &before.hierarchies {
        let Some(new) = after.hierarchies.get(name).filter(|new| new.version.uid == old.version.uid) else {
            assert!(old.terminating, "the HierarchyConfiguration of {name} is gone");
            continue;
        };
        let own = |it: &forest::HierarchyFact| {
            (it.allow_cascading_deletion, it.unreadable.clone(), it.terminating, foreign(&it.finalizers))
        };
        assert_eq!(own(old), own(new), "{name}");
        let said =
            |it: &forest::HierarchyFact| (it.parent.clone(), it.labels.clone(), it.annotations.clone());
        let takes_over = [before, after].iter().any(|cluster| cluster.subnamespace_of(name).is_some());
        assert!(takes_over || said(old) == said(new), "{name}: {new:?}");
    }
    for (place, old) in &before.anchors {
        let Some(new) = after.anchors.get(place) else {
            assert!(old.terminating, "the anchor {place:?} is gone");
            continue;
        };
        let own = |it: &forest::AnchorFact| {
            (it.labels.clone(), it.annotations.clone(), it.terminating, foreign(&it.finalizers))
        };
        assert_eq!(own(old), own(new), "{place:?}");
    }
}

fn check_object(before: &Cluster, after: &Cluster, name: &Name, key: &ObjectKey) {
    let place = (name.clone(), key.clone());
    let (old, new) = (statusless(before, &place), statusless(after, &place));
    let (old, new) = (old.as_ref(), new.as_ref());
    let ignored = before.mode(key) == Mode::Ignore;
    let is_left = |object: &Object| Cluster::is_left_going(key, object);
    let untouchable = ignored || before.is_frozen(name) || old.is_some_and(is_left);
    if !ignored && old.is_some_and(|object| !is_left(object) && before.is_forsaken(name, key, object)) {
        return assert_eq!(new, None, "{name}: the source of {key:?} is gone");
    }
    // What stood in the way of a source from above was one itself, until it was overwritten.
    match after.wanted_copy(name, key) {
        _ if untouchable => assert_eq!(old, new, "{key:?} in {name} is to be left alone"),
        Some(wanted) => {
            assert!(
                new.is_some_and(|object| is_copy(object, &wanted)),
                "{name}: {key:?} is {new:?}, not {wanted:?}"
            );
        }
        // It had to be created again.
        None if new.is_none() && before.is_ending(name) && before.wanted_copy(name, key).is_some() => {}
        None if before.outlasts_its_source(name, key) => assert_eq!(old, new, "{name}: {key:?} restricts"),
        None if old.is_some_and(|object| object.inherited_from.is_some()) => {
            assert_eq!(new, None, "{name}: {key:?} has no source");
        }
        None => assert_eq!(old, new, "{name}: {key:?} is a source"),
    }
}

/// Without what the controller of quotas writes.
fn statusless(cluster: &Cluster, place: &(Name, ObjectKey)) -> Option<Object> {
    let mut object = cluster.objects.get(place)?.clone();
    if place.1.kind == quotas() {
        object.in_force = true;
        object.version.resource_version = Box::default();
    }
    Some(object)
}

/// A cluster without what depends on when things were written.
fn timeless(cluster: &Cluster) -> impl PartialEq + std::fmt::Debug + use<> {
    let namespaces: Vec<_> = cluster
        .namespaces
        .values()
        .map(|seen| (seen.name.clone(), seen.labels.clone(), seen.annotations.clone(), seen.terminating))
        .collect();
    let hierarchies: Vec<_> = cluster
        .hierarchies
        .iter()
        .map(|(name, seen)| {
            let conditions = seen.status.conditions.iter().map(|it| (it.reason.clone(), it.message.clone()));
            let spec = (seen.parent.clone(), seen.labels.clone(), seen.annotations.clone());
            (name.clone(), spec, seen.status.children.clone(), conditions.collect::<Vec<_>>())
        })
        // One that was created for a condition stays when that is over.
        .filter(|(_, spec, children, conditions)| {
            *spec != Default::default() || !children.is_empty() || !conditions.is_empty()
        })
        .collect();
    let anchors: Vec<_> = cluster
        .anchors
        .iter()
        .map(|(place, seen)| (place.clone(), seen.finalizers.clone(), seen.state.clone()))
        .collect();
    let objects: Vec<_> = cluster
        .objects
        .iter()
        .map(|(place, it)| (place.clone(), it.inherited_from.clone(), it.labels.clone(), it.body.clone()))
        .collect();
    (namespaces, hierarchies, anchors, objects)
}

fn standing(cluster: &Cluster) -> Vec<(Name, bool)> {
    cluster.namespaces.values().map(|seen| (seen.name.clone(), seen.terminating)).collect()
}

proptest! {
    #![proptest_config(config(160))]

    #[test]
    fn every_story_settles_in_the_desired_state(story in story(), order in 0usize..6) {
        let mut run = Run::begin(&story);
        run.happen(&story.then);
        let before = run.cluster.clone();
        run.round(&Fate { order, ..Fate::default() });
        run.rest_within(3);
        check_end(&before, &run.cluster);
    }

    #[test]
    fn a_crash_after_any_write_leads_to_the_same_end(story in story(), crash in any::<prop::sample::Index>()) {
        let mut run = Run::begin(&story);
        run.happen(&story.then);
        let (before, forest) = (run.cluster.clone(), run.cluster.forest());
        let Done { tried, .. } = run.round(&Fate::default());
        run.rest_within(3);

        let mut crashed = Run { cluster: before.clone(), forest };
        crashed.round(&Fate { dies_after: Some(crash.index(tried + 1)), ..Fate::default() });
        crashed = Run::start(crashed.cluster);
        crashed.rest_within(4);
        check_end(&before, &crashed.cluster);
        // Whether a subnamespace goes with its anchor depends on whether it has children by the time that is judged, and
        // what becomes of an orphan's copies on whether its parent has come again by then.
        if [&run.cluster, &crashed.cluster].map(standing) == [standing(&before), standing(&before)] {
            prop_assert_eq!(timeless(&run.cluster), timeless(&crashed.cluster));
        }
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
        run.rest_within(8);
        check_end(&before, &run.cluster);
    }

    #[test]
    fn while_definitions_go_only_finalizers_do(story in story(), turn in any::<prop::sample::Index>()) {
        let mut run = Run::begin(&story);
        run.happen(&story.then);
        let before = run.cluster.clone();
        run.hear([Fact::Hnc(hnc::Fact::Crds(CrdState::BeingDeleted))]);
        // The API server deletes what was defined, in any order, and the controller lets it go bit by bit.
        let mut condemned: Vec<(Name, Option<Name>)> =
            run.cluster.hierarchies.keys().map(|name| (name.clone(), None)).collect();
        condemned.extend(run.cluster.anchors.keys().map(|(parent, child)| (parent.clone(), Some(child.clone()))));
        let turn = turn.index(condemned.len().max(1));
        condemned.rotate_left(turn);
        for (name, child) in condemned {
            let gone = match child {
                None => run.cluster.delete_hierarchy(&name),
                Some(child) => run.cluster.delete_anchor(&name, &child),
            };
            run.hear(gone);
            run.finish();
        }
        run.finish();
        prop_assert!(run.plans().iter().all(|(_, plan)| plan.is_empty()), "{:#?}", run.plans());
        prop_assert_eq!(&before.namespaces, &run.cluster.namespaces);
        prop_assert_eq!(&before.objects, &run.cluster.objects);
        let hierarchies = run.cluster.hierarchies.values().flat_map(|seen| &seen.finalizers);
        let anchors = run.cluster.anchors.values().flat_map(|seen| &seen.finalizers);
        prop_assert!(hierarchies.chain(anchors).all(|it| **it == *"example.com/keep"), "{:#?}", run.cluster);
    }
}
