//! What should exist, as the naive model of the property tests has it. It is a function of what the users did and were
//! allowed to do, and of nothing that the controller did.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use forest::{Name, ObjectKey};
use serde_json::Value;

use super::kind::{Content, Form, Kind};
use crate::cluster::asks::ASKS;
use crate::cluster::{Cluster, kinds};

const INHERITED_FROM: &str = "hnc.x-k8s.io/inherited-from";
pub(crate) const DESCRIPTION: &str = "openshift.io/description";
/// A key that a tool tracks its own objects by: it belongs to the source and is not copied.
const TRACKED: &str = "argocd.argoproj.io/tracking-id";
/// The label that excludes objects.
pub(crate) const EXCLUDING: (&str, &str) = ("keep", "here");
const REMARK: &str = "example.com/remark";
pub(crate) const TEAM: &str = "team";

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) kind: Kind,
    pub(crate) namespace: String,
    pub(crate) name: &'static str,
}

impl fmt::Display for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mode {
    Propagate,
    AllowPropagate,
    Remove,
    Ignore,
    /// Not in the configuration at all, which is as `Ignore`.
    Dropped,
}

/// A user's own object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Own {
    /// Another one for every creation.
    pub(crate) incarnation: u64,
    pub(crate) content: Content,
    pub(crate) label: Option<u64>,
    pub(crate) remark: Option<u64>,
    /// Which of [`ASKS`] it makes.
    pub(crate) asks: usize,
    /// By a built-in exclusion, every other one by a label that the programs are told.
    pub(crate) excluded: bool,
}

/// The whole of what the rules look at.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct World {
    pub(crate) parents: BTreeMap<String, Option<String>>,
    pub(crate) teams: BTreeMap<String, &'static str>,
    pub(crate) modes: BTreeMap<Kind, Mode>,
    pub(crate) own: BTreeMap<Key, Own>,
}

/// A copy that should be.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Wanted {
    pub(crate) source: String,
    pub(crate) incarnation: u64,
    pub(crate) form: Form,
}

impl Key {
    /// As the model calls it.
    pub(crate) fn object(&self) -> ObjectKey {
        let at = Kind::ALL.iter().position(|kind| *kind == self.kind).unwrap_or_default();
        ObjectKey { kind: kinds()[at].0, name: self.name.into() }
    }

    /// The namespace of the source that goes to where this object is, or would be.
    pub(crate) fn source(&self, model: &Cluster) -> Option<Name> {
        model.source(&self.namespace, &self.object()).map(|(from, _)| from)
    }
}

impl World {
    /// All of it in the terms of the model: every object there is a user's own.
    pub(crate) fn model(&self) -> Cluster {
        let mut model = Cluster::default();
        for (name, parent) in &self.parents {
            model.namespace(name);
            let team: Vec<_> = self.teams.get(name).map(|team| (TEAM, *team)).into_iter().collect();
            model.label(name, &team);
            model.set_parent(name, parent.as_deref());
        }
        for (kind, (id, _)) in Kind::ALL.into_iter().zip(kinds()) {
            let mode = match self.mode(kind) {
                Mode::Propagate => forest::Mode::Propagate,
                Mode::AllowPropagate => forest::Mode::AllowPropagate,
                Mode::Remove => forest::Mode::Remove,
                Mode::Ignore | Mode::Dropped => forest::Mode::Ignore,
            };
            model.configured.insert(*id, (mode, !kind.keeps()));
        }
        for (key, own) in &self.own {
            let object = key.object();
            model.put(&key.namespace, &object, None, key.kind.body(&own.content));
            model.change_object(&key.namespace, &object, |it| {
                it.labels = own.labels();
                (it.asks, it.excluded, it.in_force) = (own.asks, own.excluded, true);
            });
        }
        model
    }

    pub(crate) fn mode(&self, kind: Kind) -> Mode {
        self.modes.get(&kind).copied().unwrap_or(Mode::Propagate)
    }

    /// As it would be in another mode.
    pub(crate) fn in_mode(&self, kind: Kind, mode: Mode) -> Self {
        let mut other = self.clone();
        other.modes.insert(kind, mode);
        other
    }

    /// Whether nothing is done about the kind: copies stay as they happen to be.
    pub(crate) fn is_frozen(&self, kind: Kind) -> bool {
        matches!(self.mode(kind), Mode::Ignore | Mode::Dropped)
    }

    /// Every copy that should be. Without copies of a frozen kind.
    pub(crate) fn wanted(&self) -> BTreeMap<Key, Wanted> {
        let model = self.model();
        let names: BTreeSet<_> = self.own.keys().map(|key| (key.kind, key.name)).collect();
        let places = names.into_iter().flat_map(|(kind, name)| {
            self.parents.keys().map(move |namespace| Key { kind, namespace: namespace.clone(), name })
        });
        places.filter_map(|key| Some((key.clone(), self.copy(&model, &key)?))).collect()
    }

    /// The copy that should be here.
    pub(crate) fn wanted_at(&self, key: &Key) -> Option<Wanted> {
        self.copy(&self.model(), key)
    }

    fn copy(&self, model: &Cluster, key: &Key) -> Option<Wanted> {
        let (source, mut labels, body) = model.wanted_copy(&key.namespace, &key.object())?;
        labels.insert(INHERITED_FROM.to_owned(), source.to_string());
        let own = &self.own[&Key { namespace: source.to_string(), ..key.clone() }];
        let form = Form { body: Value::Object(body), labels, annotations: own.remarks() };
        Some(Wanted { source: source.to_string(), incarnation: own.incarnation, form })
    }

    /// Users' own objects that are in the way of a copy and will be overwritten.
    pub(crate) fn doomed(&self) -> Vec<Key> {
        let model = self.model();
        let in_the_way = |key: &&Key| !key.kind.keeps() && key.source(&model).is_some();
        self.own.keys().filter(in_the_way).cloned().collect()
    }
}

impl Own {
    /// As its user writes it.
    pub(crate) fn form(&self, kind: Kind) -> Form {
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let mut annotations = self.remarks();
        annotations.insert(TRACKED.to_owned(), self.incarnation.to_string());
        annotations.extend(ASKS[self.asks].annotations.iter().map(|(key, value)| pair(key, value)));
        annotations.extend((self.excluded && !self.is_labelled()).then(|| pair(DESCRIPTION, "ours")));
        Form { body: kind.body(&self.content), labels: self.labels(), annotations }
    }

    fn is_labelled(&self) -> bool {
        self.excluded && self.incarnation.is_multiple_of(2)
    }

    fn labels(&self) -> BTreeMap<String, String> {
        let label = self.label.map(|label| ("label".to_owned(), label.to_string()));
        let excluding = self.is_labelled().then(|| (EXCLUDING.0.to_owned(), EXCLUDING.1.to_owned()));
        label.into_iter().chain(excluding).collect()
    }

    /// The annotations that are copied.
    fn remarks(&self) -> BTreeMap<String, String> {
        self.remark.map(|remark| (REMARK.to_owned(), remark.to_string())).into_iter().collect()
    }
}

/// The namespace that a copy says it is inherited from.
pub(crate) fn inherited_from(form: &Form) -> Option<&str> {
    form.labels.get(INHERITED_FROM).map(String::as_str)
}
