//! Random clusters, and random changes of them.

use forest::accurate::keys;
use forest::{Fact, Labels, Name, ObjectKey};
use proptest::prelude::*;

use super::cluster::{Cluster, Object, body, kind_ids};

/// The last one is excluded by name.
pub(super) const NAMES: [&str; 7] = ["a", "b", "c", "d", "e", "f", "kube-system"];

/// Where a namespace is.
#[derive(Debug, Clone)]
pub(super) enum Place {
    Normal,
    Root,
    Template,
    Parent(usize),
    Instance(usize, Option<bool>),
}

/// A change, by a user.
#[derive(Debug, Clone)]
pub(super) enum Op {
    Place(usize, Place),
    /// `team` or `zone` of a namespace, or its `note`.
    Mark(usize, usize, Option<u8>),
    DeleteNamespace(usize),
    Form(usize, usize, Option<u8>),
    DeleteForm(usize, usize),
    /// Kind and name, mode, content, and a label.
    Object(usize, (usize, usize), usize, u8, u8),
    DeleteObject(usize, (usize, usize)),
    /// Changes an object, whatever it is.
    Tamper(usize, (usize, usize), usize),
}

fn any_place() -> impl Strategy<Value = Place> {
    let name = || 0..NAMES.len();
    prop_oneof![
        1 => Just(Place::Normal),
        3 => Just(Place::Root),
        2 => Just(Place::Template),
        6 => name().prop_map(Place::Parent),
        3 => (name(), prop::option::of(any::<bool>())).prop_map(|(at, kind)| Place::Instance(at, kind)),
    ]
}

pub(super) fn any_op() -> impl Strategy<Value = Op> {
    let name = || 0..NAMES.len();
    let key = || (0..4usize, 0..2usize);
    prop_oneof![
        4 => (name(), any_place()).prop_map(|(at, place)| Op::Place(at, place)),
        2 => (name(), 0..3usize, prop::option::of(0..3u8)).prop_map(|(at, key, value)| Op::Mark(at, key, value)),
        1 => name().prop_map(Op::DeleteNamespace),
        2 => (name(), name(), prop::option::of(0..3u8)).prop_map(|(at, child, value)| Op::Form(at, child, value)),
        1 => (name(), name()).prop_map(|(at, child)| Op::DeleteForm(at, child)),
        8 => (name(), key(), 0..6usize, 0..4u8, 0..4u8)
            .prop_map(|(at, key, mode, which, label)| Op::Object(at, key, mode, which, label)),
        2 => (name(), key()).prop_map(|(at, key)| Op::DeleteObject(at, key)),
        2 => (name(), key(), 0..7usize).prop_map(|(at, key, how)| Op::Tamper(at, key, how)),
    ]
}

/// Changes that are made at once: any, or a Role and a binding to it. And after how many writes the controller dies, if it does.
pub(super) fn any_changes() -> impl Strategy<Value = (Vec<Op>, Option<usize>)> {
    let grant = (0..3usize, 0..3u8, 0..3u8).prop_map(|(at, rules, user)| {
        vec![Op::Object(at, (0, 0), 3, rules, 0), Op::Object(at, (1, 0), 3, user, 0)]
    });
    let ops = prop_oneof![2 => prop::collection::vec(any_op(), 1..5), 1 => grant];
    (ops, prop::option::of(0..6usize))
}

/// A forest of all sorts of trees, with objects mostly near the top.
pub(super) fn any_start() -> impl Strategy<Value = Vec<Op>> {
    let places = (0..NAMES.len()).map(|at| {
        let upstream = move || 0..at.max(1);
        prop_oneof![
            1 => Just(Place::Normal),
            2 => Just(Place::Root),
            1 => Just(Place::Template),
            6 => upstream().prop_map(move |it| if it < at { Place::Parent(it) } else { Place::Root }),
            2 => upstream().prop_map(move |it| if it < at { Place::Instance(it, Some(true)) } else { Place::Template }),
        ]
        .prop_map(move |place| Op::Place(at, place))
    });
    let places: Vec<_> = places.collect();
    (places, prop::collection::vec(any_op(), 0..25)).prop_map(|(places, ops)| [places, ops].concat())
}

fn name(at: usize) -> Name {
    NAMES[at].into()
}

fn key((kind, name): (usize, usize)) -> ObjectKey {
    ObjectKey { kind: kind_ids()[kind], name: ["a", "b"][name].into() }
}

impl Op {
    /// The facts, or none if the API server refuses.
    pub(super) fn perform(&self, cluster: &mut Cluster) -> Option<Fact> {
        let lasts = |cluster: &Cluster, at: usize| {
            cluster.namespaces.get(NAMES[at]).is_some_and(|seen| !seen.terminating)
        };
        match self {
            Self::Place(at, place) => Some(cluster.namespace(&name(*at), |seen| {
                let set = |seen: &mut super::cluster::Namespace, key: &str, value: Option<&str>| {
                    seen.applied.labels.remove(key);
                    match value {
                        Some(value) => drop(seen.labels.insert(key.into(), value.into())),
                        None => drop(seen.labels.remove(key)),
                    }
                };
                let (kind, parent, template) = match place {
                    Place::Normal => (None, None, None),
                    Place::Root => (Some("root"), None, None),
                    Place::Template => (Some("template"), None, None),
                    Place::Parent(at) => (None, Some(NAMES[*at]), None),
                    Place::Instance(at, kind) => {
                        let kind = kind.map(|is| if is { "template" } else { "root" });
                        (kind, None, Some(NAMES[*at]))
                    }
                };
                set(seen, keys::TYPE, kind);
                set(seen, keys::PARENT, parent);
                set(seen, keys::TEMPLATE, template);
            })),
            Self::Mark(at, which, value) => cluster.namespaces.contains_key(NAMES[*at]).then(|| {
                cluster.namespace(&name(*at), |seen| {
                    let key = ["team", "zone", "note"][*which];
                    let (pairs, applied) = if key == "note" {
                        (&mut seen.annotations, &mut seen.applied.annotations)
                    } else {
                        (&mut seen.labels, &mut seen.applied.labels)
                    };
                    applied.remove(key);
                    match value {
                        Some(value) => drop(pairs.insert(key.into(), value.to_string())),
                        None => drop(pairs.remove(key)),
                    }
                })
            }),
            Self::DeleteNamespace(at) => {
                lasts(cluster, *at).then(|| cluster.namespace(&name(*at), |seen| seen.terminating = true))
            }
            Self::Form(at, child, value) => lasts(cluster, *at).then(|| {
                cluster.form(&name(*at), &name(*child), |form| {
                    let pairs = value.map(|value| value.to_string());
                    let pairs = || ["tier", "skip", "team"].into_iter().zip(pairs.clone());
                    form.labels = pairs().collect::<Labels>();
                    form.annotations = [("owner", "x"), ("other", "y")].into_iter().collect();
                    form.generation += 1;
                })
            }),
            Self::DeleteForm(at, child) => cluster
                .forms
                .contains_key(&(name(*at), name(*child)))
                .then(|| cluster.form(&name(*at), &name(*child), |form| form.terminating = true)),
            Self::Object(at, of, mode, which, label) => lasts(cluster, *at).then(|| {
                cluster.object(&name(*at), &key(*of), |object| {
                    let modes = [None, None, Some("create"), Some("update"), Some("update"), Some("odd")];
                    object.annotations.remove(keys::PROPAGATE);
                    object.annotations.extend(modes[*mode].map(|mode| (keys::PROPAGATE.into(), mode.into())));
                    object.labels.remove("app");
                    object.labels.extend((*label > 1).then(|| ("app".into(), label.to_string())));
                    object.labels.insert("x.kubernetes.io/y".into(), label.to_string());
                    object.body = body(of.0, *which);
                })
            }),
            Self::DeleteObject(at, of) => cluster.remove_object(&name(*at), &key(*of)),
            Self::Tamper(at, of, how) => cluster
                .objects
                .contains_key(&(name(*at), key(*of)))
                .then(|| cluster.object(&name(*at), &key(*of), |object| tamper(object, *how))),
        }
    }
}

/// Changes an object in one of seven ways.
pub(super) fn tamper(object: &mut Object, how: usize) {
    match how {
        0 => drop(object.annotations.remove(keys::FROM)),
        1 => drop(object.annotations.remove(keys::PROPAGATE)),
        2 => drop(object.annotations.insert(keys::FROM.into(), "a".into())),
        3 => drop(object.annotations.insert(keys::PROPAGATE.into(), "update".into())),
        4 => drop(object.labels.insert("more".into(), "x".into())),
        5 => drop(object.labels.remove(keys::CREATED_BY)),
        _ => object.body.clear(),
    }
}
