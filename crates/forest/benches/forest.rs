//! What a change, a review and a plan cost, in forests of a thousand to a million namespaces.
//!
//! `cargo bench -p forest --bench forest -- apply` measures what has "apply" in its name. Each turn asks about another
//! namespace, so that memory is as cold as in a large installation. Facts and requests are made outside of what is measured.
//! A million namespaces take half a gigabyte with the lists that they are built from; `FOREST_BENCH_UP_TO=100000` stops there.
#![allow(clippy::disallowed_methods, reason = "the forest reads no environment; what measures it does")]

#[path = "support/cpu.rs"]
mod cpu;
#[path = "support/world.rs"]
#[allow(dead_code, reason = "the benches share it, and each uses a part")]
mod world;

use std::borrow::Cow;
use std::hint::black_box;
use std::time::Duration;

use cpu::Cpu;
use criterion::{BatchSize, BenchmarkGroup, BenchmarkId, Criterion, criterion_group, criterion_main};
use forest::hnc;
use forest::plan::plan;
use forest::rules::{
    Answer, Answers, Fields, Operation, Pairs, User, Verdict, anchor, hierarchy, namespace, object,
};
use forest::{Fact, Forest, Name, ObjectScope, Scope};
use serde_json::json;
use serde_json::value::to_raw_value;
use world::{Objects, World, name, parent, roles, shared_key, shared_name};

const SIZES: [usize; 4] = [1_000, 10_000, 100_000, 1_000_000];

fn sizes() -> impl Iterator<Item = usize> {
    let most = std::env::var("FOREST_BENCH_UP_TO").ok().and_then(|most| most.parse().ok());
    SIZES.into_iter().filter(move |size| *size <= most.unwrap_or(usize::MAX))
}

/// One Role of each root, with its copies, as far as these fit in memory.
fn world(namespaces: usize) -> (World, Forest) {
    let world = World::new(namespaces, Objects { shared: usize::from(namespaces <= 100_000), own: 0 });
    let forest = world.forest();
    (world, forest)
}

fn group<'a>(criterion: &'a mut Criterion<Cpu>, name: &str) -> BenchmarkGroup<'a, Cpu> {
    let mut group = criterion.benchmark_group(name);
    group.sample_size(20).warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2));
    group
}

fn build(criterion: &mut Criterion<Cpu>) {
    let mut group = group(criterion, "build");
    group.sample_size(10);
    for size in sizes() {
        let world = World::new(size, Objects::default());
        group.bench_function(BenchmarkId::from_parameter(size), |bench| {
            let lists = || (world::empty(), world.structure());
            let build = |(mut forest, lists): (Forest, [Fact; 3])| {
                for fact in lists {
                    forest.apply(fact);
                }
                forest
            };
            bench.iter_batched(lists, build, BatchSize::PerIteration);
        });
    }
}

/// Applies facts that `next` makes, each for another turn; what they touched is dropped.
fn apply<'a>(
    group: &mut BenchmarkGroup<'_, Cpu>,
    (what, size): (&str, usize),
    forest: &mut Forest,
    mut next: impl FnMut(u64) -> Fact + 'a,
) {
    let mut turn = 0;
    group.bench_function(BenchmarkId::new(what, size), |bench| {
        let setup = || {
            turn += 1;
            next(turn)
        };
        bench.iter_batched(setup, |fact| forest.apply(fact), BatchSize::SmallInput);
    });
}

fn changes(criterion: &mut Criterion<Cpu>) {
    let mut group = group(criterion, "apply");
    for size in sizes() {
        let (mut world, mut forest) = world(size);
        let kind = roles(&forest);
        apply(&mut group, ("label of a namespace", size), &mut forest, |turn| {
            world.tick();
            Fact::Namespace(world.touched(world.leaf(turn), &turn.to_string()))
        });
        apply(&mut group, ("parent of a leaf", size), &mut forest, |turn| {
            world.tick();
            let leaf = world.leaf(turn);
            let other = parent(leaf).map(|parent| parent - usize::from(turn % 2 == 0));
            Fact::Hnc(hnc::Fact::Hierarchy(name(leaf), world.moved(leaf, other)))
        });
        apply(&mut group, ("source of a leaf", size), &mut forest, |turn| {
            world.tick();
            Fact::Object(kind, world.own(world.leaf(turn), 0))
        });
        if size > 100_000 {
            continue;
        }
        apply(&mut group, ("copy", size), &mut forest, |turn| {
            world.tick();
            Fact::Object(kind, world.shared(world.leaf(turn), 0))
        });
        apply(&mut group, ("source with 999 below", size), &mut forest, |turn| {
            world.tick();
            let leaf = world.leaf(turn);
            Fact::Object(kind, world.changed(leaf - leaf % 1000, 0, turn))
        });
    }
}

fn plans(criterion: &mut Criterion<Cpu>) {
    let mut group = group(criterion, "plan");
    for size in sizes() {
        let (world, forest) = world(size);
        let structure = Scope::structure();
        let one = Scope {
            structure: false,
            quotas: false,
            objects: ObjectScope::Some([shared_key(&forest, 0)].into()),
        };
        for (what, scope) in [("structure", structure), ("one object", one), ("whole", Scope::whole())] {
            let mut turn = 0;
            group.bench_function(BenchmarkId::new(what, size), |bench| {
                let setup = || {
                    turn += 1;
                    name(world.leaf(turn))
                };
                bench.iter_batched(setup, |name| plan(&forest, &name, &scope), BatchSize::SmallInput);
            });
        }
    }
}

fn user() -> User {
    User { name: "jane".into(), groups: vec!["system:authenticated".into(), "developers".into()] }
}

/// All that the rule wants to know, answered with yes.
fn answers(review: impl Fn(&Answers) -> Verdict) -> Answers {
    let mut answers = Answers::new();
    while let Verdict::Ask(questions) = review(&answers) {
        answers.extend(questions.into_iter().map(|question| (question, Answer::Yes)));
    }
    answers
}

fn setting_a_parent(child: usize, new: usize) -> hierarchy::Request {
    let spec = |parent: Option<usize>| hierarchy::Spec { parent: parent.map(name), ..Default::default() };
    hierarchy::Request {
        operation: Operation::Update,
        namespace: name(child),
        user: user(),
        old: spec(parent(child)),
        new: spec(Some(new)),
        terminating: false,
    }
}

fn structural_reviews(criterion: &mut Criterion<Cpu>) {
    let mut group = group(criterion, "review");
    for size in sizes() {
        let (world, forest) = world(size);
        let mut turn = 0;
        let mut next = || {
            turn += 1;
            world.leaf(turn)
        };
        group.bench_function(BenchmarkId::new("parent set", size), |bench| {
            let setup = || {
                let leaf = next();
                let request = setting_a_parent(leaf, leaf - 1);
                let answers = answers(|answers| hierarchy::review(&forest, &request, answers));
                let verdict = hierarchy::review(&forest, &request, &answers);
                assert!(matches!(verdict, Verdict::Allow { .. }));
                (request, answers)
            };
            let review = |(request, answers): (_, Answers)| hierarchy::review(&forest, &request, &answers);
            bench.iter_batched(setup, review, BatchSize::SmallInput);
        });
        // Of the five below the root, the second has all that is below it moved elsewhere, the third would be above itself.
        for (what, child) in [("parent set of 156", 2), ("cycle", 3)] {
            group.bench_function(BenchmarkId::new(what, size), |bench| {
                let setup = || {
                    let root = next() / 1000 * 1000;
                    let request = setting_a_parent(root + child, root + 450);
                    let answers = answers(|answers| hierarchy::review(&forest, &request, answers));
                    let verdict = hierarchy::review(&forest, &request, &answers);
                    assert_eq!(matches!(verdict, Verdict::Allow { .. }), child == 2);
                    (request, answers)
                };
                let review =
                    |(request, answers): (_, Answers)| hierarchy::review(&forest, &request, &answers);
                bench.iter_batched(setup, review, BatchSize::SmallInput);
            });
        }
        group.bench_function(BenchmarkId::new("namespace", size), |bench| {
            let setup = || {
                let leaf = next();
                let marks = |value| {
                    let labels = world.labels(leaf, value);
                    let labels = labels.iter().map(|(key, value)| (key.to_owned(), value.to_owned()));
                    namespace::Marks { labels: labels.collect(), ..Default::default() }
                };
                let (old, new) = (marks("1"), marks("2"));
                namespace::Request { operation: Operation::Update, name: name(leaf), user: user(), old, new }
            };
            let none = Answers::new();
            let review = |request| namespace::review(&forest, black_box(&request), &none);
            bench.iter_batched(setup, review, BatchSize::SmallInput);
        });
        group.bench_function(BenchmarkId::new("anchor", size), |bench| {
            let setup = || anchor::Request {
                operation: Operation::Create,
                parent: name(next()),
                child: "some-new-subnamespace".into(),
                user: user(),
                labels: Vec::new(),
                annotations: Vec::new(),
                old: Default::default(),
                initial_admin: (None, None),
                state: (None, None),
                adds_owner: false,
                removes_finalizer: false,
            };
            let none = Answers::new();
            let review = |request| anchor::review(&forest, black_box(&request), &none);
            bench.iter_batched(setup, review, BatchSize::SmallInput);
        });
    }
}

fn state(verb: &str, from: Option<&Name>) -> object::State<'static> {
    let inherited = from.map(|from| ("hnc.x-k8s.io/inherited-from".to_owned(), from.to_string()));
    let rules = to_raw_value(&json!([{ "verbs": [verb] }])).expect("JSON");
    object::State {
        labels: inherited.into_iter().collect(),
        annotations: Pairs::default(),
        finalizers: Vec::new(),
        owner_references: Vec::new(),
        terminating: false,
        body: Fields::new(vec![(Cow::Borrowed("rules"), Cow::Owned(rules))]).expect("there is one"),
    }
}

fn object_reviews(criterion: &mut Criterion<Cpu>) {
    let mut group = group(criterion, "review");
    for size in sizes() {
        // One tree that holds all of them, ten to a parent.
        let forest = world::single_tree(size);
        let role = |namespace, name, from: Option<&Name>| object::Request {
            operation: Operation::Update,
            user: user(),
            namespace,
            group: "rbac.authorization.k8s.io".into(),
            kind: "Role".into(),
            name,
            old: Some(state("get", from)),
            new: Some(state("list", from)),
        };
        let root = name(0);
        for (what, request) in [
            ("source in the root of all", role(root.clone(), shared_name(0), None)),
            ("copy", role(name(size - 1), shared_name(0), Some(&root))),
        ] {
            let answers = answers(|answers| object::review(&forest, &request, answers));
            group.bench_function(BenchmarkId::new(what, size), |bench| {
                bench.iter(|| object::review(black_box(&forest), black_box(&request), &answers));
            });
        }
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().with_measurement(Cpu);
    targets = changes, plans, structural_reviews, object_reviews, build
}
criterion_main!(benches);
