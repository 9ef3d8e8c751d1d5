//! Things that happen to a cluster, for property tests: few names, so that everything meets everything.

use std::collections::BTreeSet;

use forest::hnc;
use forest::{Condition, Fact, KindId, Labels, Mode, Name, ObjectKey, Reason, Stream, keys};
use proptest::prelude::*;

use crate::cluster::asks::ASKS;
use crate::cluster::{
    Cluster, EXCLUDED, binding_key, bindings, binds, binds_everywhere, quota_key, quotas, role_key, roles,
    rules,
};

/// All namespaces that there ever are; the last is not managed.
pub(crate) const NAMES: [&str; 7] = ["a", "b", "c", "d", "e", "f", EXCLUDED];

/// The configuration of a property test: the same cases each time, `cases` of them unless the environment asks for
/// more (`PROPTEST_CASES`, of which the default is 256) or for others (`PROPTEST_RNG_SEED`).
pub(crate) fn config(cases: u32) -> ProptestConfig {
    let default = ProptestConfig::default();
    let seed = match default.rng_seed {
        proptest::test_runner::RngSeed::Random => proptest::test_runner::RngSeed::Fixed(3),
        given @ proptest::test_runner::RngSeed::Fixed(_) => given,
    };
    let cases = u32::try_from(u64::from(default.cases) * u64::from(cases) / 256).unwrap_or(u32::MAX);
    ProptestConfig { cases, rng_seed: seed, failure_persistence: None, ..default }
}

type At = usize;

#[derive(Debug, Clone)]
pub(crate) enum Op {
    Create(At),
    /// By hand: labels of ours, right and wrong.
    Relabel(At, u8),
    Terminate(At),
    Remove(At),
    SetParent(At, Option<At>),
    Garble(At),
    /// By hand: a status that is not so.
    Scribble(At, u8),
    RemoveHierarchy(At),
    /// As a user does, who has to wait for finalizers.
    DeleteHierarchy(At),
    AllowCascading(At, bool),
    /// What the `HierarchyConfiguration` asks for: managed keys and others.
    Ask(At, u8),
    /// The annotations of a namespace: whose subnamespace it is, and which other tool keeps it.
    Annotate(At, Option<At>, u8),
    /// Puts an anchor of this name there, or changes the one that there is.
    Anchor(At, At, u8),
    /// Puts the anchor of one of the subnamespaces that there are where it belongs, or changes it.
    AnchorAgain(u8, u8),
    /// These three take one of the anchors that there are.
    DeleteAnchor(u8),
    RemoveAnchor(u8),
    /// By hand: a state, a finalizer.
    ForgeAnchor(u8, u8),
    Source(At, u8, u8),
    Copy(At, u8, u8, At),
    /// These four take one of the objects that there are.
    Exclude(u8, bool),
    AskFor(u8, u8),
    TerminateObject(u8),
    RemoveObject(u8),
    /// One of the quotas comes into force.
    Enforce(u8),
    /// The mode of a kind.
    Configure(u8, u8),
}

fn at() -> impl Strategy<Value = At> {
    0..NAMES.len()
}

/// Anything at all.
pub(crate) fn any_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => at().prop_map(Op::Create),
        6 => (at(), any::<u8>()).prop_map(|(at, labels)| Op::Relabel(at, labels)),
        1 => at().prop_map(Op::Terminate),
        2 => at().prop_map(Op::Remove),
        8 => (at(), prop::option::weighted(0.9, at())).prop_map(|(at, parent)| Op::SetParent(at, parent)),
        1 => at().prop_map(Op::Garble),
        1 => (at(), any::<u8>()).prop_map(|(at, status)| Op::Scribble(at, status)),
        1 => at().prop_map(Op::RemoveHierarchy),
        1 => any::<u8>().prop_map(Op::TerminateObject),
        10 => object_op(),
        10 => subnamespace_op(),
    ]
}

/// Something about anchors, subnamespaces and what is handed down.
pub(crate) fn subnamespace_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (at(), at(), any::<u8>()).prop_map(|(at, child, asked)| Op::Anchor(at, child, asked)),
        4 => (any::<u8>(), any::<u8>()).prop_map(|(which, asked)| Op::AnchorAgain(which, asked)),
        3 => any::<u8>().prop_map(Op::DeleteAnchor),
        1 => any::<u8>().prop_map(Op::RemoveAnchor),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(which, bits)| Op::ForgeAnchor(which, bits)),
        4 => (at(), prop::option::weighted(0.7, at()), any::<u8>())
            .prop_map(|(at, parent, bits)| Op::Annotate(at, parent, bits)),
        2 => (at(), any::<bool>()).prop_map(|(at, allowed)| Op::AllowCascading(at, allowed)),
        3 => (at(), any::<u8>()).prop_map(|(at, asked)| Op::Ask(at, asked)),
        1 => at().prop_map(Op::DeleteHierarchy),
    ]
}

/// Something about sources and copies.
pub(crate) fn object_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (at(), any::<u8>(), any::<u8>()).prop_map(|(at, key, body)| Op::Source(at, key, body)),
        3 => (at(), any::<u8>(), any::<u8>(), at())
            .prop_map(|(at, key, body, from)| Op::Copy(at, key, body, from)),
        2 => any::<u8>().prop_map(Op::RemoveObject),
        2 => any::<u8>().prop_map(Op::Enforce),
        1 => (any::<u8>(), any::<bool>()).prop_map(|(which, it)| Op::Exclude(which, it)),
        5 => (any::<u8>(), any::<u8>()).prop_map(|(which, asks)| Op::AskFor(which, asks)),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(kind, mode)| Op::Configure(kind, mode)),
    ]
}

fn key(at: u8) -> ObjectKey {
    match at % 9 {
        0 | 1 => role_key("r0"),
        2 | 3 => role_key("r1"),
        4 | 5 => binding_key("b0"),
        6 => quota_key("q"),
        _ => binding_key("b1"),
    }
}

fn body(key: &ObjectKey, at: u8) -> serde_json::Value {
    let pick = |bits: u8| ["", "x", "y", "xy"][usize::from(bits % 4)];
    match at / 4 % 4 {
        _ if key.kind == roles() => rules(pick(at)),
        _ if key.kind == quotas() => serde_json::json!({ "spec": { "hard": { "pods": pick(at) } } }),
        0 => binds_everywhere(pick(at)),
        1 => binds("r1", pick(at)),
        _ => binds("r0", pick(at)),
    }
}

impl Op {
    /// Makes it happen, and says what a watch would tell of it, if it can happen at all.
    pub(crate) fn perform(&self, cluster: &mut Cluster) -> Option<Fact> {
        match *self {
            Self::Create(at) => Some(cluster.namespace(NAMES[at])),
            Self::Relabel(at, bits) => {
                cluster.label(NAMES[at], &labels(bits))?;
                cluster.change_namespace(NAMES[at], |seen| seen.foreign.labels = set(bits & 16 != 0, "tier"))
            }
            Self::Terminate(at) => cluster.terminate(NAMES[at]),
            Self::Remove(at) => cluster.remove_namespace(NAMES[at]),
            Self::SetParent(at, parent) => Some(cluster.set_parent(NAMES[at], parent.map(|at| NAMES[at]))),
            Self::Garble(at) => Some(cluster.garble(NAMES[at])),
            Self::Scribble(at, bits) => {
                Some(cluster.change_hierarchy(NAMES[at], |seen| seen.status = status(bits)))
            }
            Self::RemoveHierarchy(at) => cluster.remove_hierarchy(NAMES[at]),
            Self::DeleteHierarchy(at) => cluster.delete_hierarchy(NAMES[at]),
            Self::AllowCascading(at, allowed) => {
                Some(cluster.change_hierarchy(NAMES[at], |seen| seen.allow_cascading_deletion = allowed))
            }
            Self::Ask(at, bits) => Some(cluster.change_hierarchy(NAMES[at], |seen| {
                (seen.labels, seen.annotations) = asked(bits);
                if bits & 64 != 0 {
                    toggle(&mut seen.finalizers, "example.com/keep");
                }
            })),
            Self::Annotate(at, parent, bits) => {
                cluster.annotate(NAMES[at], &annotations(parent.map(|at| NAMES[at]), bits))?;
                cluster.change_namespace(NAMES[at], |seen| {
                    seen.foreign.annotations = set(bits & 128 != 0, "owner");
                })
            }
            Self::Anchor(at, child, bits) => Some(put_anchor(cluster, NAMES[at], NAMES[child], bits)),
            Self::AnchorAgain(which, bits) => {
                let (parent, child) = one_subnamespace(cluster, which)?;
                Some(put_anchor(cluster, &parent, &child, bits))
            }
            Self::DeleteAnchor(which) => {
                let (parent, child) = one_anchor(cluster, which)?;
                cluster.delete_anchor(&parent, &child)
            }
            Self::RemoveAnchor(which) => {
                let (parent, child) = one_anchor(cluster, which)?;
                cluster.remove_anchor(&parent, &child)
            }
            Self::ForgeAnchor(which, bits) => {
                let (parent, child) = one_anchor(cluster, which)?;
                Some(cluster.change_anchor(&parent, &child, |seen| {
                    seen.state = [None, Some("Ok"), Some("Missing"), Some("nonsense")][usize::from(bits % 4)]
                        .map(Box::from);
                    if bits & 4 != 0 {
                        toggle(&mut seen.finalizers, "example.com/keep");
                    }
                    if bits & 8 != 0 {
                        toggle(&mut seen.finalizers, keys::ANCHOR_FINALIZER);
                    }
                }))
            }
            Self::Source(at, object, bits) => {
                Some(cluster.put(NAMES[at], &key(object), None, body(&key(object), bits)))
            }
            Self::Copy(at, object, bits, from) => {
                Some(cluster.put(NAMES[at], &key(object), Some(NAMES[from]), body(&key(object), bits)))
            }
            Self::Exclude(which, excluded) => {
                let (at, key) = one_of(cluster, which)?;
                cluster.change_object(&at, &key, |it| it.excluded = excluded)
            }
            Self::AskFor(which, asks) => {
                let (at, key) = one_of(cluster, which)?;
                cluster.change_object(&at, &key, |it| it.asks = usize::from(asks) % ASKS.len())
            }
            Self::Configure(kind, mode) => {
                // What is propagated is what most of this is about.
                let modes = [
                    Mode::Propagate,
                    Mode::Propagate,
                    Mode::Propagate,
                    Mode::AllowPropagate,
                    Mode::Remove,
                    Mode::Ignore,
                ];
                cluster.modes[usize::from(kind % 2)] = modes[usize::from(mode) % modes.len()];
                cluster.overwrites[usize::from(kind % 2)] = kind & 2 == 0;
                Some(cluster.configuration())
            }
            Self::TerminateObject(which) => {
                let (at, key) = one_of(cluster, which)?;
                cluster.change_object(&at, &key, |it| it.terminating = true)
            }
            Self::RemoveObject(which) => {
                let (at, key) = one_of(cluster, which)?;
                cluster.remove_object(&at, &key)
            }
            Self::Enforce(which) => {
                let late = cluster.objects.iter().filter(|(_, object)| !object.in_force);
                let late: Vec<_> = late.map(|(place, _)| place.clone()).collect();
                let (at, key) = late.get(usize::from(which).checked_rem(late.len())?)?;
                cluster.change_object(at, key, |it| it.in_force = true)
            }
        }
    }
}

fn one_of(cluster: &Cluster, which: u8) -> Option<(Name, ObjectKey)> {
    let at = usize::from(which).checked_rem(cluster.objects.len())?;
    cluster.objects.keys().nth(at).cloned()
}

fn one_anchor(cluster: &Cluster, which: u8) -> Option<(Name, Name)> {
    let at = usize::from(which).checked_rem(cluster.anchors.len())?;
    cluster.anchors.keys().nth(at).cloned()
}

fn put_anchor(cluster: &mut Cluster, parent: &str, child: &str, bits: u8) -> Fact {
    cluster.change_anchor(parent, child, |seen| (seen.labels, seen.annotations) = asked(bits))
}

fn one_subnamespace(cluster: &Cluster, which: u8) -> Option<(Name, Name)> {
    let subnamespaces = cluster.namespaces.values().filter_map(|seen| {
        let parent = seen.annotations.get(keys::SUBNAMESPACE_OF).filter(|parent| !parent.is_empty())?;
        Some((Name::from(parent), seen.name.clone()))
    });
    let all: Vec<_> = subnamespaces.collect();
    all.get(usize::from(which).checked_rem(all.len())?).cloned()
}

/// What is terminating and has no finalizer is gone, so the last one is never taken away here.
fn toggle(finalizers: &mut Vec<Box<str>>, one: &str) {
    if let Some(at) = finalizers.iter().position(|it| **it == *one) {
        if finalizers.len() > 1 {
            finalizers.remove(at);
        }
    } else {
        finalizers.push(one.into());
    }
}

/// Labels and annotations as a spec asks for them.
fn asked(bits: u8) -> (Labels, Labels) {
    let labels = [("tier", "gold"), ("tier", "iron"), ("zone", "a"), ("colour", "red")];
    let annotations = [("owner", "jane"), ("owner", "joe"), ("colour", "red")];
    let chosen = |pairs: &[(&'static str, &'static str)], first: usize| -> Labels {
        let chosen = pairs.iter().enumerate().filter(|(at, _)| bits >> (first + at) & 1 == 1);
        chosen.map(|(_, pair)| *pair).collect()
    };
    (chosen(&labels, 0), chosen(&annotations, 3))
}

/// The key, if it was not our controller that has set it.
fn set(foreign: bool, key: &str) -> BTreeSet<Box<str>> {
    foreign.then(|| key.into()).into_iter().collect()
}

fn annotations(parent: Option<&'static str>, bits: u8) -> Vec<(&'static str, &'static str)> {
    let manager = match bits % 8 {
        0 => Some("another-tool"),
        1 => Some(keys::GROUP),
        2 => Some(""),
        _ => None,
    };
    let owner = [None, Some("jane"), Some("live")][usize::from(bits / 8 % 3)];
    let all = [
        (keys::SUBNAMESPACE_OF, parent),
        (keys::EXTERNALLY_MANAGED_BY, manager),
        ("owner", owner),
        ("note", Some("kept")),
    ];
    all.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
}

fn labels(bits: u8) -> Vec<(&'static str, &'static str)> {
    let all = [
        ("team", "blue"),
        ("hnc.x-k8s.io/included-namespace", "false"),
        ("hnc.x-k8s.io/included-namespace", "true"),
        ("a.tree.hnc.x-k8s.io/depth", "1"),
        ("z.tree.hnc.x-k8s.io/depth", if bits & 1 == 0 { "7" } else { "18446744073709551615" }),
        ("tier", "live"),
        (keys::HAS_CHILDREN, "true"),
        (keys::EXCLUDED, "true"),
    ];
    all.into_iter().enumerate().filter(|(at, _)| bits >> at & 1 == 1).map(|(_, pair)| pair).collect()
}

fn status(bits: u8) -> forest::HierarchyStatus {
    let reason =
        [Reason::ParentMissing, Reason::InCycle, Reason::AncestorHaltActivities][usize::from(bits % 3)];
    let mut condition = Condition::new(reason, "not so");
    condition.since = Some("T0".into());
    forest::HierarchyStatus {
        children: if bits & 64 == 0 { Vec::new() } else { vec!["a".into()] },
        conditions: if bits & 128 == 0 { Vec::new() } else { vec![condition] },
    }
}

/// The stream of a fact.
pub(crate) fn stream(fact: &Fact) -> Option<Stream> {
    match fact {
        Fact::Namespace(_) | Fact::NamespaceGone(..) | Fact::Namespaces(_) => Some(Stream::NAMESPACES),
        Fact::Hnc(hnc::Fact::Hierarchy(..) | hnc::Fact::HierarchyGone(..) | hnc::Fact::Hierarchies(_)) => {
            Some(Stream::HIERARCHIES)
        }
        Fact::Hnc(hnc::Fact::Anchor(..) | hnc::Fact::AnchorGone(..) | hnc::Fact::Anchors(_)) => {
            Some(Stream::ANCHORS)
        }
        Fact::Hnc(hnc::Fact::Quota(..) | hnc::Fact::QuotaGone(..) | hnc::Fact::Quotas(_)) => {
            Some(Stream::HIERARCHICAL_QUOTAS)
        }
        Fact::Hnc(
            hnc::Fact::DerivedQuota(..)
            | hnc::Fact::DerivedQuotaWritten(..)
            | hnc::Fact::DerivedQuotaGone(..)
            | hnc::Fact::DerivedQuotas(..),
        ) => Some(Stream::DERIVED_QUOTAS),
        Fact::Kinds(_) | Fact::Hnc(hnc::Fact::TreeLimits(_)) => Some(Stream::CONFIGURATION),
        Fact::Object(kind, _) | Fact::ObjectGone(kind, ..) | Fact::Objects(kind, _) => {
            Some(Stream::Kind(*kind))
        }
        Fact::Hnc(hnc::Fact::Crds(_))
        | Fact::Accurate(_)
        | Fact::Verified(_)
        | Fact::StreamLost(..)
        | Fact::WriteFailed(..)
        | Fact::Conflict(..)
        | Fact::WriteSettled(..)
        | Fact::Accepted(..) => None,
    }
}

pub(crate) fn streams() -> [Stream; 7] {
    let kinds: [KindId; 3] = [roles(), bindings(), quotas()];
    let [namespaces, hierarchies, anchors] = Stream::STRUCTURE;
    let kinds = kinds.map(Stream::Kind);
    [namespaces, hierarchies, anchors, Stream::CONFIGURATION, kinds[0], kinds[1], kinds[2]]
}

pub(crate) fn list(cluster: &Cluster, stream: Stream) -> Fact {
    match stream {
        Stream::NAMESPACES => cluster.list_namespaces(),
        Stream::HIERARCHIES => cluster.list_hierarchies(),
        Stream::ANCHORS => cluster.list_anchors(),
        Stream::CONFIGURATION => cluster.configuration(),
        Stream::Resource(other) => panic!("nothing lists {other}"),
        Stream::Kind(kind) => cluster.list_objects(kind),
    }
}
