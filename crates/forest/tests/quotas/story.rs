//! Random stories.

use std::collections::{BTreeMap, VecDeque};

use forest::Fact;
use proptest::prelude::*;

use super::run::{Run, lists};
use crate::cluster::Cluster;
use crate::cluster::hierarchical::resources;
use crate::op::{NAMES, Op, config, stream};

#[derive(Debug, Clone)]
enum Happening {
    Other(Op),
    /// A quota is created or changed: where, which, its limits.
    Limit(usize, bool, u8),
    Unlimit(u8),
    /// So much there is of a resource.
    Use(usize, u8),
    DeleteDerived(usize),
    /// By hand.
    Scribble(usize, u8),
    Count,
    /// The contents of a namespace are deleted, and then the namespace.
    Finish(usize),
    /// The controller works.
    Rest,
}

fn happening() -> impl Strategy<Value = Happening> {
    let at = || 0..NAMES.len();
    let other = prop_oneof![
        6 => (at(), prop::option::weighted(0.8, at())).prop_map(|(at, parent)| Op::SetParent(at, parent)),
        2 => at().prop_map(Op::Create),
        1 => at().prop_map(Op::Terminate),
        1 => at().prop_map(Op::Remove),
        1 => at().prop_map(Op::Garble),
        3 => (at(), any::<u8>(), any::<u8>()).prop_map(|(at, key, body)| Op::Source(at, key, body)),
    ];
    prop_oneof![
        12 => other.prop_map(Happening::Other),
        6 => (at(), any::<bool>(), any::<u8>()).prop_map(|(at, it, bits)| Happening::Limit(at, it, bits)),
        2 => any::<u8>().prop_map(Happening::Unlimit),
        6 => (at(), any::<u8>()).prop_map(|(at, bits)| Happening::Use(at, bits)),
        1 => at().prop_map(Happening::DeleteDerived),
        1 => (at(), any::<u8>()).prop_map(|(at, bits)| Happening::Scribble(at, bits)),
        2 => Just(Happening::Count),
        1 => at().prop_map(Happening::Finish),
        2 => Just(Happening::Rest),
    ]
}

const RESOURCES: [&str; 3] = ["pods", "requests.cpu", "limits.memory"];
const LIMITS: [Option<&str>; 4] = [None, Some("1"), Some("2500m"), Some("4")];

impl Happening {
    fn happen(&self, cluster: &mut Cluster) -> Vec<Fact> {
        match *self {
            Self::Other(ref op) => op.perform(cluster).into_iter().collect(),
            Self::Limit(at, first, bits) => {
                let limit = |(at, name)| Some((name, LIMITS[usize::from(bits >> at) % 4]?));
                let hard: Vec<_> = [0, 2, 4].into_iter().zip(RESOURCES).filter_map(limit).collect();
                let faults: &[&str] =
                    if bits >> 6 == 3 { &["spec.hard[podz]: no such resource"] } else { &[] };
                let name = if first { "one" } else { "other" };
                vec![cluster.put_quota(NAMES[at], name, resources(&hard), faults)]
            }
            Self::Unlimit(which) => {
                let all: Vec<_> = cluster.hierarchical.keys().cloned().collect();
                let at = usize::from(which).checked_rem(all.len());
                let removed = at.and_then(|at| cluster.remove_quota(&all[at].0, &all[at].1));
                removed.into_iter().collect()
            }
            Self::Use(at, bits) => {
                let resource = RESOURCES[usize::from(bits % 3)];
                cluster.use_resource(NAMES[at], resource, i64::from(bits / 3 % 4)).into_iter().collect()
            }
            Self::DeleteDerived(at) => cluster.delete_derived(NAMES[at]).into_iter().collect(),
            Self::Scribble(at, bits) => {
                let changed = cluster.change_derived(NAMES[at], |quota| match bits % 4 {
                    0 => quota.hard = resources(&[("pods", "9"), ("secrets", "1")]),
                    1 => quota.sources = "a/one@0".into(),
                    2 => quota.limits = "nonsense".into(),
                    _ => quota.is_marked = false,
                });
                changed.into_iter().collect()
            }
            Self::Count => cluster.count(),
            Self::Finish(at) => finish(cluster, NAMES[at]),
            Self::Rest => Vec::new(),
        }
    }
}

/// As the namespace controller does it.
fn finish(cluster: &mut Cluster, name: &str) -> Vec<Fact> {
    let mut facts: Vec<Fact> = cluster.terminate(name).into_iter().collect();
    let quotas: Vec<_> = cluster.hierarchical.keys().filter(|(at, _)| **at == *name).cloned().collect();
    facts.extend(quotas.iter().filter_map(|(at, quota)| cluster.remove_quota(at, quota)));
    facts.extend(cluster.delete_derived(name));
    let objects: Vec<_> = cluster.objects.keys().filter(|(at, _)| **at == *name).cloned().collect();
    facts.extend(objects.iter().filter_map(|(at, key)| cluster.remove_object(at, key)));
    cluster.usage.remove(name);
    facts.extend(cluster.remove_namespace(name));
    facts
}

/// The same facts, with the streams interleaved otherwise.
fn interleaved(facts: Vec<Fact>, dice: &[u8]) -> Vec<Fact> {
    let mut lanes: BTreeMap<_, VecDeque<Fact>> = BTreeMap::new();
    for fact in facts {
        lanes.entry(stream(&fact)).or_default().push_back(fact);
    }
    let mut dice = dice.iter().copied().cycle();
    let mut told = Vec::new();
    let mut lanes: Vec<VecDeque<Fact>> = lanes.into_values().collect();
    while !lanes.is_empty() {
        let at = usize::from(dice.next().unwrap_or_default()) % lanes.len();
        told.extend(lanes[at].pop_front());
        lanes.retain(|lane| !lane.is_empty());
    }
    told
}

fn play(parents: &[Option<usize>], story: &[Happening], dice: &[u8], checks_changes: bool) {
    let mut cluster = Cluster::default();
    for (at, parent) in parents.iter().enumerate() {
        cluster.namespace(NAMES[at]);
        if let Some(parent) = parent {
            cluster.set_parent(NAMES[at], Some(NAMES[*parent]));
        }
    }
    let mut run = Run::new(cluster);
    let facts = lists(&run.cluster);
    run.hear(facts);
    run.checks_changes = checks_changes;
    let mut untold = Vec::new();
    for happening in story {
        untold.extend(happening.happen(&mut run.cluster));
        if matches!(happening, Happening::Rest) {
            run.hear(interleaved(std::mem::take(&mut untold), dice));
            run.come_to_rest();
            run.check();
        }
    }
    run.hear(interleaved(untold, dice));
    run.come_to_rest();
    run.check();
}

fn parents() -> impl Strategy<Value = Vec<Option<usize>>> {
    let parent =
        |at: usize| prop::option::weighted(0.7, 0..at.max(1)).prop_map(move |it| it.filter(|it| *it < at));
    (0..NAMES.len()).map(parent).collect::<Vec<_>>()
}

proptest! {
    #![proptest_config(config(192))]

    #[test]
    fn plans_lead_to_what_the_specification_says(
        parents in parents(),
        story in prop::collection::vec(happening(), 1..40),
        dice in prop::collection::vec(any::<u8>(), 32),
    ) {
        play(&parents, &story, &dice, false);
    }

    #[test]
    fn what_a_change_does_not_name_is_planned_as_before(
        parents in parents(),
        story in prop::collection::vec(happening(), 1..20),
        dice in prop::collection::vec(any::<u8>(), 32),
    ) {
        play(&parents, &story, &dice, true);
    }
}
