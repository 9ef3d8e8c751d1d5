//! Which requests admission refuses because a source from above would conflict with a user's own object: random
//! requests on random clusters, judged by the rules, and by the naive model before and after.

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

use std::cell::Cell;
use std::collections::BTreeSet;

use forest::configuration::{Entry, Served, ServedKind};
use forest::rules::{
    Answer, Answers, DenialKind, Fields, Operation, Pairs, User, Verdict, configuration, hierarchy, object,
};
use forest::{Kind, Mode, Name, ObjectKey, OnConflict};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::cluster::asks::ASKS;
use crate::cluster::{Cluster, bindings, role_key, roles, rules};
use crate::op::{NAMES, Op, config, object_op};

/// A request of a user.
#[derive(Debug, Clone)]
enum UserRequest {
    /// A Role: where, and what it asks for.
    Create(usize, usize),
    /// What a Role asks for.
    Change(usize, usize),
    Move(usize, usize),
    /// The entry about Roles.
    Configure(Option<Said>),
}

/// What an entry says: a pattern of excluded names, and what becomes of conflicts.
type Said = (Option<&'static str>, Option<OnConflict>);

fn request() -> impl Strategy<Value = UserRequest> {
    let at = || 0..NAMES.len() - 1;
    prop_oneof![
        2 => (at(), 0..ASKS.len()).prop_map(|(at, asks)| UserRequest::Create(at, asks)),
        2 => (at(), 0..ASKS.len()).prop_map(|(at, asks)| UserRequest::Change(at, asks)),
        2 => (at(), at()).prop_map(|(at, parent)| UserRequest::Move(at, parent)),
        4 => said().prop_map(UserRequest::Configure),
    ]
}

fn said() -> impl Strategy<Value = Option<Said>> {
    let patterns = prop::sample::select(vec![None, Some("r0"), Some("r*")]);
    let words = prop::sample::select(vec![
        None,
        Some(OnConflict::Keep),
        Some(OnConflict::Report),
        Some(OnConflict::Overwrite),
    ]);
    prop::option::weighted(0.7, (patterns, words))
}

/// A tree, what is in it, what is configured, and a request.
type Story = (Vec<Option<usize>>, Vec<Op>, Option<Said>, UserRequest);

fn story() -> impl Strategy<Value = Story> {
    let parents: Vec<_> = (0..NAMES.len() - 1)
        .map(|at| prop::option::weighted(0.8, 0..at.max(1)).prop_map(move |it| it.filter(|it| *it < at)))
        .collect();
    let source = (0..NAMES.len() - 1, 0..2u8).prop_map(|(at, role)| Op::Source(at, role, 0));
    let ask = (any::<u8>(), any::<u8>()).prop_map(|(which, asks)| Op::AskFor(which, asks));
    let ops = prop_oneof![5 => source, 3 => ask, 1 => object_op()];
    (parents, prop::collection::vec(ops, 4..14), said(), request())
}

/// A cluster in which everything but the objects is at rest.
fn begin(parents: &[Option<usize>], ops: &[Op]) -> Cluster {
    let mut cluster = Cluster::default();
    for (name, parent) in NAMES.iter().zip(parents.iter().chain([&None])) {
        cluster.namespace(name);
        if let Some(parent) = parent {
            cluster.set_parent(name, Some(NAMES[*parent]));
        }
    }
    for op in ops.iter().filter(|op| !matches!(op, Op::Configure(..))) {
        op.perform(&mut cluster);
    }
    cluster
}

fn entries(said: Option<Said>) -> Vec<Result<Entry, String>> {
    let entry = |(excluded, on_conflict): Said| Entry {
        resource: "roles".into(),
        mode: Mode::AllowPropagate,
        on_conflict,
        excluded_names: excluded.map(str::to_owned).into_iter().collect(),
        ..Entry::default()
    };
    said.map(|said| Ok(entry(said))).into_iter().collect()
}

fn served() -> Served {
    let verbs = || ["list", "watch", "create", "update", "delete"].map(str::to_owned).into();
    let kind = |kind: Kind| ServedKind {
        singular: kind.kind.to_lowercase(),
        kind,
        short_names: Vec::new(),
        namespaced: true,
        verbs: verbs(),
    };
    Served { kinds: [Kind::role(), Kind::role_binding()].map(kind).into(), ..Served::default() }
}

/// The cluster as it is if the entry about Roles says this.
fn configured(cluster: &Cluster, said: Option<Said>) -> Cluster {
    let mode = if said.is_some() { Mode::AllowPropagate } else { Mode::Propagate };
    let mut cluster = cluster.clone();
    cluster.modes = [mode, Mode::Propagate];
    cluster
}

fn on_conflict(said: Option<Said>) -> OnConflict {
    said.and_then(|(_, word)| word).unwrap_or_default()
}

/// Own objects that a source from above goes to.
fn conflicts(cluster: &Cluster, said: Option<Said>) -> BTreeSet<(Name, ObjectKey)> {
    let cluster = configured(cluster, said);
    let pattern = said.and_then(|(excluded, _)| excluded);
    let excluded =
        |key: &ObjectKey| key.kind == roles() && pattern.is_some_and(|it| it == "r*" || it == &*key.name);
    let own = cluster.objects.iter().filter(|(_, it)| it.inherited_from.is_none()).map(|(place, _)| place);
    let in_the_way = |(name, key): &&(Name, ObjectKey)| !excluded(key) && cluster.source(name, key).is_some();
    own.filter(in_the_way).cloned().collect()
}

/// The namespaces with an own Role `r0` that one in `name` would propagate to, whichever others are above.
fn holders(cluster: &Cluster, said: Option<Said>, name: &Name, asks: usize) -> BTreeSet<Name> {
    let key = role_key("r0");
    let is_hit = |holder: &Name| {
        let mut alone = cluster.clone();
        alone.objects.retain(|(at, other), _| at == holder && *other == key);
        alone.put(name, &key, None, rules("x"));
        alone.change_object(name, &key, |it| it.asks = asks);
        conflicts(&alone, said).contains(&(holder.clone(), key.clone()))
    };
    let own = cluster.objects.keys().filter(|(at, other)| at != name && *other == key);
    own.map(|(holder, _)| holder).filter(|holder| is_hit(holder)).cloned().collect()
}

/// Judges until a decision; the answer to every question is yes. `None` if something other than a conflict decides.
fn refused(review: impl Fn(&Answers) -> Verdict) -> Option<bool> {
    let mut answers = Answers::new();
    loop {
        match review(&answers) {
            Verdict::Allow { .. } => return Some(false),
            Verdict::Deny(denial) => return (denial.kind == DenialKind::Conflict).then_some(true),
            Verdict::Ask(questions) => answers.extend(questions.into_iter().map(|it| (it, Answer::Yes))),
        }
    }
}

/// The Role `r0` as a request shows it.
fn state(asks: usize) -> object::State<'static> {
    object::State {
        labels: Pairs::default(),
        annotations: ASKS[asks].annotations.iter().map(|(key, value)| (*key, *value)).collect(),
        finalizers: Vec::new(),
        owner_references: Vec::new(),
        terminating: false,
        body: Fields::default(),
    }
}

/// Whether the rules refuse it, and whether they should; `None` if it makes no sense here.
fn judged(mut cluster: Cluster, said: Option<Said>, request: &UserRequest) -> Option<(bool, bool)> {
    let mut forest = cluster.forest();
    let resolution = forest::configuration::resolve(&entries(said), &served());
    forest.apply(forest::Fact::Kinds(resolution.settings().cloned().collect()));
    let before = conflicts(&cluster, said);
    let key = role_key("r0");
    let refuses = on_conflict(said) != OnConflict::Report;
    match *request {
        UserRequest::Create(at, asks) | UserRequest::Change(at, asks) => {
            let name = Name::from(NAMES[at]);
            let old = cluster.objects.get(&(name.clone(), key.clone()));
            let old = match (request, old) {
                (UserRequest::Create(..), None) => None,
                (UserRequest::Change(..), Some(old)) if old.inherited_from.is_none() && !old.excluded => {
                    Some(old.asks)
                }
                _ => return None,
            };
            let request = object::Request {
                operation: if old.is_some() { Operation::Update } else { Operation::Create },
                user: User::default(),
                namespace: name.clone(),
                group: Kind::role().group,
                kind: Kind::role().kind,
                name: key.name.clone(),
                old: old.map(state),
                new: Some(state(asks)),
            };
            let denied = refused(|answers| object::review(&forest, &request, answers))?;
            let went = old.map(|asks| holders(&cluster, said, &name, asks)).unwrap_or_default();
            let newly = holders(&cluster, said, &name, asks).difference(&went).next().is_some();
            Some((denied, refuses && newly))
        }
        UserRequest::Move(at, parent) => {
            let (name, parent) = (Name::from(NAMES[at]), Name::from(NAMES[parent]));
            if cluster.ancestry(&parent).contains(&name) || cluster.parent(&name).as_ref() == Some(&parent) {
                return None;
            }
            let spec = |parent: Option<Name>| hierarchy::Spec { parent, ..hierarchy::Spec::default() };
            let request = hierarchy::Request {
                operation: Operation::Update,
                namespace: name.clone(),
                user: User::default(),
                old: spec(cluster.parent(&name)),
                new: spec(Some(parent.clone())),
                terminating: false,
            };
            let denied = refused(|answers| hierarchy::review(&forest, &request, answers))?;
            cluster.set_parent(&name, Some(&parent));
            let moved = |place: &Name| cluster.ancestry(place).contains(&name);
            let after = conflicts(&cluster, said);
            let mut newly = after.difference(&before).filter(|(place, _)| moved(place));
            Some((denied, newly.any(|(_, key)| refuses || key.kind == bindings())))
        }
        UserRequest::Configure(new) => {
            let request = configuration::Request {
                operation: Operation::Update,
                name: "config".into(),
                old: entries(said),
                new: entries(new),
                trees: Default::default(),
                served: Ok(served()),
            };
            let denied = refused(|answers| configuration::review(&forest, &request, answers))?;
            let overwrites = on_conflict(new) == OnConflict::Overwrite;
            let before_too = on_conflict(said) == OnConflict::Overwrite;
            let before = if overwrites && !before_too { BTreeSet::new() } else { before };
            let newly = conflicts(&cluster, new).difference(&before).any(|(_, key)| key.kind == roles());
            Some((denied, on_conflict(new) != OnConflict::Report && newly))
        }
    }
}

#[test]
fn what_comes_to_be_in_the_way_is_refused_and_nothing_else() {
    let counts: [Cell<usize>; 8] = Default::default();
    let run = TestRunner::new(config(1_500)).run(&story(), |(parents, ops, said, request)| {
        let Some((refused, wanted)) = judged(begin(&parents, &ops), said, &request) else { return Ok(()) };
        prop_assert_eq!(refused, wanted, "{:?}", request);
        let sort = match request {
            UserRequest::Create(..) => 0,
            UserRequest::Change(..) => 2,
            UserRequest::Move(..) => 4,
            UserRequest::Configure(_) => 6,
        };
        let count = &counts[sort + usize::from(refused)];
        count.set(count.get() + 1);
        Ok(())
    });
    println!("allowed and refused, of creations, changes, moves and configurations: {counts:?}");
    run.unwrap();
    assert!(counts.iter().all(|count| count.get() > 0), "{counts:?}");
}
