//! The forest against a naive model: after any facts in any order, its answers are those that follow from the
//! last fact of each object, and it says truly what a fact touched.

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

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use forest::hnc;
use forest::plan::{Action, Plan, plan};
use forest::why::{Expected, KindInConfiguration, ObjectQuestion, Untouched, explain};
use forest::{
    Change, CrdState, Fact, Forest, KindId, Mode, Name, ObjectFact, ObjectKey, ObjectScope, Scope, Stream,
    Version,
};
use proptest::prelude::*;

use crate::cluster::{
    Cluster, EXCLUDED, binding_key, bindings, empty_forest, note_conflicts, role_key, roles,
};
use crate::naive::writes::{Writes, check_report};
use crate::op::{NAMES, Op, any_op, config, list, stream, streams};

#[derive(Debug, Clone)]
enum Event {
    /// Something happens, and a watch tells of it.
    Seen(Op),
    /// Something happens while the watch is interrupted; a list will have to tell.
    Missed(Op),
    Relist(usize),
}

/// From nothing, or from a forest in which all that follows meets something.
fn history() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        12 => any_op().prop_map(Event::Seen),
        2 => any_op().prop_map(Event::Missed),
        1 => (0..streams().len()).prop_map(Event::Relist),
    ];
    let events = prop::collection::vec(event, 0..50);
    (prop::option::weighted(0.6, beginning()), events).prop_map(|(beginning, events)| {
        let beginning = beginning.into_iter().flatten().map(Event::Seen);
        beginning.chain(events).collect()
    })
}

fn beginning() -> impl Strategy<Value = Vec<Op>> {
    let parents: Vec<_> = (1..NAMES.len() - 1)
        .map(|at| prop::option::weighted(0.8, 0..at).prop_map(move |it| (at, it)))
        .collect();
    (parents, any::<[u8; 3]>()).prop_map(|(parents, bits)| {
        let all = (0..NAMES.len()).map(Op::Create);
        let links = parents.into_iter().map(|(at, parent)| match parent {
            Some(parent) if at % 2 == 0 => Op::Annotate(at, Some(parent), bits[0]),
            parent => Op::SetParent(at, parent),
        });
        // The first one is often kept by another tool, and always asks for something.
        let first = [Op::Annotate(0, None, bits[1] & !6), Op::Ask(0, bits[2])];
        all.chain(links).chain(first).collect()
    })
}

/// Lets it all happen and collects what is told, beginning and ending with complete lists where they are needed.
fn tell(events: &[Event]) -> (Cluster, Vec<Fact>) {
    let mut cluster = Cluster::default();
    let mut facts: Vec<Fact> = streams().map(|stream| list(&cluster, stream)).into();
    let mut interrupted = BTreeSet::new();
    for event in events {
        match event {
            Event::Seen(op) => facts.extend(op.perform(&mut cluster)),
            Event::Missed(op) => interrupted.extend(op.perform(&mut cluster).and_then(|fact| stream(&fact))),
            Event::Relist(at) => {
                interrupted.remove(&streams()[*at]);
                facts.push(list(&cluster, streams()[*at]));
            }
        }
    }
    facts.extend(interrupted.into_iter().map(|stream| list(&cluster, stream)));
    (cluster, facts)
}

/// Another order in which the same could have been told: the streams interleaved otherwise, and within a stream facts
/// about different objects exchanged, though never across a complete list.
fn reorder(facts: &[Fact], dice: &[u8]) -> Vec<Fact> {
    let mut dice = dice.iter().copied().cycle().map(usize::from);
    let mut roll = || dice.next().unwrap_or_default();
    let mut lanes = streams().map(|lane| {
        let told = facts.iter().filter(|fact| stream(fact) == Some(lane));
        told.cloned().collect::<Vec<_>>()
    });
    for lane in &mut lanes {
        for _ in 0..3 {
            for at in 1..lane.len() {
                if roll() % 2 == 0 && may_swap(&lane[at - 1], &lane[at]) {
                    lane.swap(at - 1, at);
                }
            }
        }
    }
    let mut lanes = lanes.map(VecDeque::from);
    let mut told = Vec::new();
    while told.len() < facts.len() {
        let first = roll() % lanes.len();
        lanes.rotate_left(first);
        told.extend(lanes.iter_mut().find_map(VecDeque::pop_front));
    }
    told
}

fn may_swap(one: &Fact, other: &Fact) -> bool {
    match (subject(one), subject(other)) {
        (Some(one), Some(other)) => one != other,
        _ => false,
    }
}

fn subject(fact: &Fact) -> Option<(Name, Option<Name>)> {
    match fact {
        Fact::Namespace(seen) => Some((seen.name.clone(), None)),
        Fact::NamespaceGone(name, _)
        | Fact::Hnc(hnc::Fact::Hierarchy(name, _) | hnc::Fact::HierarchyGone(name, _)) => {
            Some((name.clone(), None))
        }
        Fact::Hnc(hnc::Fact::Anchor(parent, seen)) => Some((parent.clone(), Some(seen.name.clone()))),
        Fact::Hnc(hnc::Fact::AnchorGone(parent, child, _)) => Some((parent.clone(), Some(child.clone()))),
        Fact::Object(_, seen) => Some((seen.namespace.clone(), Some(seen.name.clone()))),
        Fact::ObjectGone(_, namespace, name, _) => Some((namespace.clone(), Some(name.clone()))),
        _ => None,
    }
}

fn grow(facts: impl IntoIterator<Item = Fact>) -> Forest {
    let mut forest = empty_forest();
    let mut told = Told::default();
    for fact in facts {
        told.hear(&fact);
        forest.apply(fact);
    }
    told.read_to(&mut forest);
    note_conflicts(&mut forest);
    forest
}

/// The last fact of each object, for what a forest has not kept and wants to read again.
#[derive(Default)]
struct Told(BTreeMap<(Name, ObjectKey), ObjectFact>);

impl Told {
    fn hear(&mut self, fact: &Fact) {
        match fact {
            Fact::Object(kind, seen) => self.keep(*kind, seen),
            Fact::Objects(kind, all) => {
                self.0.retain(|(_, key), _| key.kind != *kind);
                for seen in all {
                    self.keep(*kind, seen);
                }
            }
            _ => {}
        }
    }

    fn keep(&mut self, kind: KindId, seen: &ObjectFact) {
        let at = (seen.namespace.clone(), ObjectKey { kind, name: seen.name.clone() });
        if self.0.get(&at).is_none_or(|known| !seen.version.is_older_than(&known.version)) {
            self.0.insert(at, seen.clone());
        }
    }

    /// What a forest keeps of sources depends on when it came to know what is below them; once read, all is the same.
    fn read_to(&self, forest: &mut Forest) {
        for (namespace, key) in plans(forest).into_iter().flat_map(|plan| plan.unread) {
            let seen = self.0[&(namespace, key.clone())].clone();
            let change = forest.apply(Fact::Object(key.kind, seen));
            let itself = change.namespaces.values().all(|scope| !scope.structure);
            assert!(itself && change.namespaces.len() <= 1, "reading {key:?} touched {change:?}");
        }
        assert!(plans(forest).iter().all(|plan| plan.unread.is_empty()), "read in vain");
    }
}

/// All that a forest says of a name.
#[derive(Debug, PartialEq)]
struct Answers {
    exists: bool,
    parent: Option<Name>,
    children: Vec<Name>,
    ancestry: Vec<Name>,
    halted_root: Option<Name>,
    cycle: Option<Vec<Name>>,
    plan: Plan,
}

fn answers(forest: &Forest) -> Vec<Answers> {
    let about = |name: &str| Answers {
        exists: forest.exists(name),
        parent: forest.parent(name).cloned(),
        children: forest.children(name),
        ancestry: forest.ancestry(name),
        halted_root: forest.halted_root(name).cloned(),
        cycle: forest.cycle(name),
        plan: plan(forest, name, &Scope::whole()),
    };
    NAMES.into_iter().map(about).collect()
}

fn afresh(cluster: &Cluster) -> Forest {
    grow(cluster.lists().into_iter().chain([cluster.configuration()]))
}

fn check_against(cluster: &Cluster, forest: &Forest) {
    let mentioned = cluster.mentioned();
    assert_eq!(forest.names().cloned().collect::<BTreeSet<_>>(), mentioned, "the names");
    for (name, said) in NAMES.into_iter().zip(answers(forest)) {
        let name = Name::from(name);
        let ancestry = if mentioned.contains(&name) { cluster.ancestry(&name) } else { Vec::new() };
        assert_eq!(said.exists, cluster.exists(&name), "{name} exists");
        assert_eq!(said.parent, cluster.parent(&name), "the parent of {name}");
        assert_eq!(said.children, cluster.children(&name), "the children of {name}");
        assert_eq!(said.ancestry, ancestry, "the ancestry of {name}");
        assert_eq!(said.halted_root, cluster.halted_root(&name), "the halted root of {name}");
        assert_eq!(said.cycle, cluster.cycle(&name), "the cycle of {name}");
        assert_eq!(Writes::of(&said.plan), Writes::wanted(cluster, &name), "the writes in {name}");
        check_report(cluster, &name, said.plan.report.as_ref());
        for key in cluster.keys() {
            check_explanation(cluster, forest, &name, &key);
        }
    }
    let awaited = NAMES.into_iter().filter(|name| **name != *EXCLUDED && cluster.is_awaited(name));
    assert_eq!(
        forest.awaited_names(),
        awaited.map(Name::from).collect::<BTreeSet<_>>().iter().collect::<Vec<_>>()
    );
    let copies = cluster.objects.values().filter(|object| object.inherited_from.is_some()).count();
    let sizes = forest.sizes();
    assert_eq!(sizes.namespaces, NAMES.iter().filter(|name| cluster.exists(name)).count());
    assert_eq!((sizes.copies, sizes.sources), (copies, cluster.objects.len() - copies));
}

/// What belongs in a namespace, and whose it is.
fn check_explanation(cluster: &Cluster, forest: &Forest, name: &Name, key: &ObjectKey) {
    let none = BTreeSet::new();
    let question = ObjectQuestion {
        key: key.clone(),
        in_configuration: KindInConfiguration::Configured,
        unseen: &none,
        unseen_roles: &none,
    };
    let said = explain(forest, &question, name).expected;
    let object = cluster.objects.get(&(name.clone(), key.clone()));
    let forsaken = object.filter(|it| !Cluster::is_left_going(key, it) && cluster.is_forsaken(name, key, it));
    // Nothing is created in a namespace that is being deleted, restrictions stay, and conflicts do not matter any more.
    let has_source = cluster.source(name, key).is_some();
    let outlasts = cluster.outlasts_its_source(name, key)
        && !has_source
        && object.is_some_and(|it| it.inherited_from.is_some());
    let ends =
        cluster.is_ending(name) && (object.is_none() || cluster.is_kept(name, key) && has_source || outlasts);
    let is_right = match &said {
        Expected::AsItIs(Untouched::Unmanaged(_)) => **name == *EXCLUDED,
        Expected::AsItIs(Untouched::NoNamespace) => !cluster.namespaces.contains_key(name),
        Expected::AsItIs(Untouched::Ignored) => cluster.mode(key) == Mode::Ignore,
        Expected::AsItIs(Untouched::NamespaceTerminating) => ends,
        Expected::AsItIs(Untouched::Halted { at, .. }) => {
            cluster.halted_root(name).as_ref() == Some(at) && forsaken.is_none()
        }
        Expected::AsItIs(Untouched::Terminating) => object.is_some_and(|it| it.terminating),
        Expected::Forsaken(from) => forsaken.is_some_and(|it| it.inherited_from.as_ref() == Some(from)),
        Expected::Copy(from) => cluster.wanted_copy(name, key).is_some_and(|(wanted, ..)| wanted == *from),
        Expected::Conflict(from) => {
            cluster.in_the_way(name).contains(key)
                && cluster.source(name, key).is_some_and(|(source, _)| source == *from)
        }
        Expected::Own | Expected::Nothing => {
            let own = object.is_some_and(|it| it.inherited_from.is_none());
            cluster.source(name, key).is_none() && own == (said == Expected::Own)
        }
        Expected::AsItIs(_) | Expected::Unknown => false,
    };
    let treated = !cluster.is_frozen(name) && cluster.mode(key) != Mode::Ignore;
    let going = object.is_some_and(|it| it.terminating);
    let untouched = matches!(said, Expected::AsItIs(_) | Expected::Forsaken(_));
    assert!(is_right && untouched == (!treated || going || ends), "{name}, {key:?}: {said:?}");
}

proptest! {
    #![proptest_config(config(192))]

    #[test]
    fn answers_follow_from_the_last_fact_of_each_object(
        events in history(),
        dice in prop::collection::vec(any::<u8>(), 64),
    ) {
        let (cluster, facts) = tell(&events);
        let told = reorder(&facts, &dice);
        prop_assert_eq!(told.len(), facts.len());
        let forest = grow(facts);
        check_against(&cluster, &forest);
        let other = grow(told);
        prop_assert_eq!(answers(&forest), answers(&other));
        prop_assert_eq!(forest.sizes(), other.sizes());
        prop_assert_eq!(answers(&forest), answers(&afresh(&cluster)));
    }

    #[test]
    fn a_fact_about_an_older_state_is_ignored(events in history(), scribbles in prop::collection::vec(any_op(), 1..12)) {
        let (mut cluster, facts) = tell(&events);
        let mut told = Told::default();
        for fact in &facts {
            told.hear(fact);
        }
        let mut forest = grow(facts);
        // What is seen late is a state that differs from the present one, of the same object, under an older version.
        let late: Vec<Fact> = scribbles.iter().filter_map(|op| late_fact(&mut cluster.clone(), op)).collect();
        let before = answers(&forest);
        for fact in late {
            let change = forest.apply(fact.clone());
            prop_assert!(change.is_empty(), "{:?} touched {:?}", fact, change);
        }
        prop_assert_eq!(before, answers(&forest));
        // The same scribbles under their own, newer versions do count.
        for op in &scribbles {
            if let Some(fact) = op.perform(&mut cluster) {
                told.hear(&fact);
                forest.apply(fact);
            }
        }
        told.read_to(&mut forest);
        note_conflicts(&mut forest);
        check_against(&cluster, &forest);
    }

    #[test]
    fn what_a_change_does_not_name_keeps_its_plan(events in history(), asides in prop::collection::vec(aside(), 0..20)) {
        let mut facts = tell(&events).1;
        for (at, fact) in asides {
            facts.insert(at.index(facts.len() + 1), fact);
        }
        let mut forest = empty_forest();
        let mut told = Told::default();
        let mut before = plans(&forest);
        for fact in facts {
            told.hear(&fact);
            let change = forest.apply(fact.clone());
            told.read_to(&mut forest);
            let after = plans(&forest);
            for ((name, before), after) in NAMES.iter().zip(&before).zip(&after) {
                if let Fact::StreamLost(lost, _) = &fact {
                    check_nothing_is_added(&forest, *lost, name, before, after);
                } else {
                    let untouched = |plan| outside(&fact, &change, name, plan);
                    prop_assert_eq!(untouched(before), untouched(after), "{} after {:?}, which touched {:?}", name, fact, change);
                }
            }
            before = after;
        }
    }
}

fn late_fact(cluster: &mut Cluster, op: &Op) -> Option<Fact> {
    let older = |version: &Version| Version { uid: version.uid.clone(), resource_version: "0".into() };
    let known = cluster.clone();
    let mut fact = op.perform(cluster)?;
    let is_known = match &mut fact {
        Fact::Namespace(seen) => {
            let present = &known.namespaces.get(&seen.name)?.version;
            std::mem::replace(&mut seen.version, older(present)).uid == present.uid
        }
        Fact::Hnc(hnc::Fact::Hierarchy(name, seen)) => {
            let present = &known.hierarchies.get(name)?.version;
            std::mem::replace(&mut seen.version, older(present)).uid == present.uid
        }
        Fact::Hnc(hnc::Fact::Anchor(parent, seen)) => {
            let present = &known.anchors.get(&(parent.clone(), seen.name.clone()))?.version;
            std::mem::replace(&mut seen.version, older(present)).uid == present.uid
        }
        Fact::Object(kind, seen) => {
            let key = ObjectKey { kind: *kind, name: seen.name.clone() };
            let present = &known.objects.get(&(seen.namespace.clone(), key))?.version;
            std::mem::replace(&mut seen.version, older(present)).uid == present.uid
        }
        _ => return None,
    };
    is_known.then_some(fact)
}

/// Facts that are told of no object.
fn aside() -> impl Strategy<Value = (prop::sample::Index, Fact)> {
    let name = || prop::sample::select(NAMES.to_vec()).prop_map(Name::from);
    let key =
        || prop::sample::select(vec![role_key("r0"), role_key("r1"), binding_key("b0"), binding_key("b1")]);
    let fact = prop_oneof![
        6 => (name(), key()).prop_map(|(name, key)| Fact::WriteFailed(name, key, "no".into())),
        4 => (name(), key()).prop_map(|(name, key)| Fact::WriteSettled(name, key)),
        1 => prop::sample::select(streams().to_vec()).prop_map(|lost| Fact::StreamLost(lost, "gone".into())),
        1 => prop::sample::select(vec![CrdState::Present, CrdState::BeingDeleted]).prop_map(|it| hnc::Fact::Crds(it).into()),
    ];
    (any::<prop::sample::Index>(), fact)
}

fn plans(forest: &Forest) -> Vec<Plan> {
    NAMES.iter().map(|name| plan(forest, name, &Scope::whole())).collect()
}

/// What `plan` holds beyond what `change` says was touched. Who tells the fate of a write is the one who plans that write
/// again, so that it is settled needs no telling.
fn outside(
    fact: &Fact,
    change: &Change,
    name: &str,
    plan: &Plan,
) -> (Option<Action>, Writes, Vec<ObjectKey>) {
    let mut rest = (plan.report.clone(), Writes::of(plan), plan.settled.clone());
    if let Fact::WriteFailed(_, told, _) | Fact::WriteSettled(_, told) = fact {
        rest.2.retain(|key| key != told);
    }
    let whole = Scope::whole();
    let nothing = Scope::default();
    let scope = if change.everything { &whole } else { change.namespaces.get(name).unwrap_or(&nothing) };
    if scope.structure {
        rest.0 = None;
        rest.1 = Writes { objects: rest.1.objects, ..Writes::default() };
    }
    let touched = |key: &ObjectKey| match &scope.objects {
        ObjectScope::None => false,
        ObjectScope::Some(keys) => keys.contains(key),
        ObjectScope::All => true,
    };
    rest.1.objects.retain(|key, _| !touched(key));
    rest.2.retain(|key| !touched(key));
    rest
}

/// A lost stream takes what rests on it out of the plans, and touches nothing else.
fn check_nothing_is_added(forest: &Forest, lost: Stream, name: &str, before: &Plan, after: &Plan) {
    if forest.crds_are_being_deleted() {
        assert_eq!(before, after, "{name} is let go with or without {lost:?}");
        return;
    }
    if Stream::STRUCTURE.contains(&lost) {
        assert!(after.is_empty(), "{name} has a plan without {lost:?}: {after:?}");
        return;
    }
    let mut rest = (before.report.clone(), Writes::of(before), before.settled.clone());
    let writes = Writes::of(after);
    // Bindings may refer to Roles, and those that do wait.
    let waits = |key: &ObjectKey| lost == Stream::Kind(roles()) && key.kind == bindings();
    let stays = |key: &ObjectKey| Stream::Kind(key.kind) != lost;
    rest.1.objects.retain(|key, _| stays(key) && (!waits(key) || writes.objects.contains_key(key)));
    rest.2.retain(|key| stays(key) && (!waits(key) || after.settled.contains(key)));
    assert_eq!(rest, (after.report.clone(), writes, after.settled.clone()), "{name} without {lost:?}");
}
