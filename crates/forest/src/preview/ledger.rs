//! The changes of a preview: the state of everything written, before the first write and at the end. Never writes.

use std::collections::{BTreeMap, BTreeSet};

use crate::accurate::why::conflicting_source;
use crate::core::content::Digest;
use crate::core::kind::ObjectKey;
use crate::core::labels::Labels;
use crate::core::name::Name;
use crate::dialects::Forest;
use crate::hnc::condition::Condition;
use crate::hnc::plan::{Place, Reach, reach};
use crate::hnc::quota::Resources;

/// The parts of a namespace that the hierarchy decides.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamespaceState {
    /// Its uid; made up for a namespace that only the preview creates.
    pub uid: Box<str>,
    /// The parent in force.
    pub parent: Option<Name>,
    /// All its labels.
    pub labels: Labels,
    /// The annotations that the hierarchy reads.
    pub annotations: Labels,
    /// The conditions in its status.
    pub conditions: Vec<Condition>,
    /// It is being deleted, and only something outside the hierarchy can complete the deletion.
    pub terminating: bool,
}

/// An object of a propagated kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectState {
    /// Its uid; made up for an object that only the preview creates.
    pub uid: Box<str>,
    /// The namespace of its source; `None` if it is no copy.
    pub inherited_from: Option<Name>,
    /// The digest of its content, if known.
    pub digest: Option<Digest>,
}

/// A namespace that is created, deleted or changed. If one is deleted and another one of its name created, these are two changes, in
/// this order; so it is with the objects in them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamespaceChange {
    /// Its name.
    pub name: Name,
    /// The state before; `None` if it did not exist.
    pub before: Option<NamespaceState>,
    /// The state afterwards; `None` if it no longer exists.
    pub after: Option<NamespaceState>,
}

/// An object that is created, deleted or changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectChange {
    /// Its namespace.
    pub namespace: Name,
    /// What it is.
    pub key: ObjectKey,
    /// The state before; `None` if it did not exist.
    pub before: Option<ObjectState>,
    /// The state afterwards; `None` if it no longer exists.
    pub after: Option<ObjectState>,
}

/// An anchor that is created or deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnchorChange {
    /// The namespace that it is in.
    pub parent: Name,
    /// Its name, which is the child's.
    pub child: Name,
    /// Whether it exists afterwards.
    pub is_there: bool,
}

/// A `SubNamespace`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SubNamespaceState {
    /// Why it has no namespace, if its status says so: the message of the condition.
    pub stalled: Option<Box<str>>,
}

/// A `SubNamespace` that is created, deleted or changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubNamespaceChange {
    /// The namespace that it is in.
    pub parent: Name,
    /// Its name, which is the child's.
    pub child: Name,
    /// The state before; `None` if it did not exist.
    pub before: Option<SubNamespaceState>,
    /// The state afterwards; `None` if it no longer exists.
    pub after: Option<SubNamespaceState>,
}

/// The effect on an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Effect {
    /// It is created.
    Create,
    /// It is a copy, and changes.
    Update,
    /// It is no copy, and a copy replaces it: its content is lost.
    Overwrite,
    /// It is deleted.
    Delete,
}

impl ObjectChange {
    /// The effect on the object.
    pub fn effect(&self) -> Effect {
        match (&self.before, &self.after) {
            (None, _) => Effect::Create,
            (Some(_), None) => Effect::Delete,
            (Some(before), Some(_)) if before.inherited_from.is_none() => Effect::Overwrite,
            (Some(_), Some(_)) => Effect::Update,
        }
    }
}

/// A label or another pair: its key, and its values before and after.
pub type PairChange<'a> = (&'a str, Option<&'a str>, Option<&'a str>);

impl NamespaceChange {
    /// The labels that change, by key, with their values before and after.
    pub fn labels(&self) -> Vec<PairChange<'_>> {
        changed(self.before.as_ref().map(|it| &it.labels), self.after.as_ref().map(|it| &it.labels))
    }

    /// The same for annotations.
    pub fn annotations(&self) -> Vec<PairChange<'_>> {
        changed(self.before.as_ref().map(|it| &it.annotations), self.after.as_ref().map(|it| &it.annotations))
    }

    /// The conditions that appear.
    pub fn new_conditions(&self) -> impl Iterator<Item = &Condition> {
        let before = shown(self.before.as_ref());
        shown(self.after.as_ref()).iter().filter(move |it| !says(before, it))
    }

    /// The conditions that disappear.
    pub fn old_conditions(&self) -> impl Iterator<Item = &Condition> {
        let after = shown(self.after.as_ref());
        shown(self.before.as_ref()).iter().filter(move |it| !says(after, it))
    }

    /// Whether the parent changes.
    pub fn moves(&self) -> bool {
        let parent = |state: &Option<NamespaceState>| state.as_ref().and_then(|it| it.parent.clone());
        parent(&self.before) != parent(&self.after)
    }
}

fn shown(state: Option<&NamespaceState>) -> &[Condition] {
    state.map_or(&[], |it| &it.conditions)
}

fn says(conditions: &[Condition], one: &Condition) -> bool {
    conditions
        .iter()
        .any(|it| (&it.type_, &it.reason, &it.message) == (&one.type_, &one.reason, &one.message))
}

fn changed<'a>(before: Option<&'a Labels>, after: Option<&'a Labels>) -> Vec<PairChange<'a>> {
    let get = |labels: Option<&'a Labels>, key: &str| labels.and_then(|it| it.get(key));
    let keys: BTreeSet<&str> =
        before.into_iter().chain(after).flat_map(|it| it.iter().map(|(key, _)| key)).collect();
    let all = keys.into_iter().map(|key| (key, get(before, key), get(after, key)));
    all.filter(|(_, before, after)| before != after).collect()
}

/// An object that is no copy and is kept, although a source from above should replace it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptObject {
    /// Its namespace.
    pub namespace: Name,
    /// What it is.
    pub key: ObjectKey,
    /// The namespace of that source.
    pub source: Name,
}

/// A hierarchical quota whose usage or limits change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaChange {
    /// Its namespace.
    pub namespace: Name,
    /// Its name.
    pub name: Name,
    /// The usage before, by resource.
    pub before: Resources,
    /// The usage afterwards.
    pub after: Resources,
    /// The limits afterwards.
    pub hard: Resources,
}

/// Everything that follows from a change, ordered by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The namespaces.
    pub namespaces: Vec<NamespaceChange>,
    /// The anchors.
    pub anchors: Vec<AnchorChange>,
    /// The `SubNamespaces`.
    pub sub_namespaces: Vec<SubNamespaceChange>,
    /// The objects of propagated kinds, including those in deleted namespaces.
    pub objects: Vec<ObjectChange>,
    /// The objects that come into conflict and are kept.
    pub kept: Vec<KeptObject>,
    /// The hierarchical quotas of which more or less is used.
    pub quotas: Vec<QuotaChange>,
}

impl Outcome {
    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The states before the first write.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    namespaces: BTreeMap<Name, Option<NamespaceState>>,
    anchors: BTreeMap<(Name, Name), bool>,
    sub_namespaces: BTreeMap<(Name, Name), Option<SubNamespaceState>>,
    objects: BTreeMap<(Name, ObjectKey), Option<ObjectState>>,
    /// Whether each was in conflict before.
    kept: BTreeMap<(Name, ObjectKey), bool>,
    /// The usage.
    quotas: BTreeMap<(Name, Name), Resources>,
}

impl Ledger {
    /// Call it before this namespace, or its `HierarchyConfiguration`, is written.
    pub(super) fn namespace(&mut self, forest: &Forest, name: &Name) {
        self.namespaces.entry(name.clone()).or_insert_with(|| namespace(forest, name));
    }

    /// Call it before this anchor is written.
    pub(super) fn anchor(&mut self, forest: &Forest, parent: &Name, child: &Name) {
        let place = (parent.clone(), child.clone());
        self.anchors.entry(place).or_insert_with(|| forest.has_anchor(parent, child));
    }

    /// Call it before this `SubNamespace` is written.
    pub(super) fn sub_namespace(&mut self, forest: &Forest, parent: &Name, child: &Name) {
        let place = (parent.clone(), child.clone());
        self.sub_namespaces.entry(place).or_insert_with(|| sub_namespace(forest, parent, child));
    }

    /// Call it before this object is written.
    pub(super) fn object(&mut self, forest: &Forest, name: &Name, key: &ObjectKey) {
        self.objects.entry((name.clone(), key.clone())).or_insert_with(|| object(forest, name, key));
    }

    /// Call it before this object is recorded as in conflict.
    pub(super) fn kept(&mut self, forest: &Forest, name: &Name, key: &ObjectKey) {
        let place = (name.clone(), key.clone());
        let is_conflict = || {
            let of_accurate = forest.accurate().failure(name, key);
            forest.is_conflict(name, key) || of_accurate.is_some_and(|known| known.is_conflict)
        };
        self.kept.entry(place).or_insert_with(is_conflict);
    }

    /// Call it before the status of this quota is written.
    pub(super) fn quota(&mut self, forest: &Forest, namespace: &Name, name: &Name) {
        let used = || forest.quota_status(namespace, name).map(|it| it.used.clone()).unwrap_or_default();
        self.quotas.entry((namespace.clone(), name.clone())).or_insert_with(used);
    }

    /// The differences so far.
    pub(super) fn outcome(&self, forest: &Forest) -> Outcome {
        let namespaces = self.namespaces.iter().flat_map(|(name, before)| {
            let states = self.states(forest, name, before.clone(), namespace(forest, name));
            states.into_iter().map(|(before, after)| NamespaceChange { name: name.clone(), before, after })
        });
        let anchors = self.anchors.iter().filter_map(|((parent, child), before)| {
            let is_there = forest.has_anchor(parent, child);
            let change = AnchorChange { parent: parent.clone(), child: child.clone(), is_there };
            (*before != is_there).then_some(change)
        });
        let sub_namespaces = self.sub_namespaces.iter().map(|((parent, child), before)| SubNamespaceChange {
            parent: parent.clone(),
            child: child.clone(),
            before: before.clone(),
            after: sub_namespace(forest, parent, child),
        });
        let objects = self.objects.iter().flat_map(|((name, key), before)| {
            let states = self.states(forest, name, before.clone(), object(forest, name, key));
            let change = |(before, after)| {
                let (namespace, key) = (name.clone(), key.clone());
                ObjectChange { namespace, key, before, after }
            };
            states.into_iter().map(change)
        });
        let new = self.kept.iter().filter(|(_, before)| !**before);
        let kept = new.filter_map(|((name, key), _)| {
            let of_hnc = place(forest, name).and_then(|it| it.conflicting_source(key).cloned());
            let source = of_hnc.or_else(|| conflicting_source(forest, name, key))?;
            Some(KeptObject { namespace: name.clone(), key: key.clone(), source })
        });
        let quotas = self.quotas.iter().filter_map(|((namespace, name), before)| {
            // Otherwise the quota goes with its namespace.
            forest.namespace(forest.id(namespace)?).filter(|seen| !seen.terminating)?;
            let status = forest.quota_status(namespace, name)?;
            let (before, after, hard) = (before.clone(), status.used.clone(), status.hard.clone());
            Some(QuotaChange { namespace: namespace.clone(), name: name.clone(), before, after, hard })
        });
        Outcome {
            quotas: quotas.filter(|it| it.before != it.after).collect(),
            kept: kept.collect(),
            namespaces: namespaces.filter(|it| it.before != it.after).collect(),
            anchors: anchors.collect(),
            sub_namespaces: sub_namespaces.filter(|it| it.before != it.after).collect(),
            objects: objects.filter(|it| it.before != it.after).collect(),
        }
    }

    /// The states before and after of what is in this namespace. If the namespace was deleted and another one of its name created, all
    /// went with the one and came with the other.
    fn states<T>(
        &self,
        forest: &Forest,
        name: &Name,
        before: Option<T>,
        after: Option<T>,
    ) -> Vec<(Option<T>, Option<T>)> {
        let known = self.namespaces.get(name).and_then(Option::as_ref);
        let now = forest.namespace_version(name);
        if known.zip(now).is_some_and(|(known, now)| known.uid != now.uid) {
            vec![(before, None), (None, after)]
        } else {
            vec![(before, after)]
        }
    }
}

fn place<'a>(forest: &'a Forest, name: &str) -> Option<Place<'a>> {
    match reach(forest, forest.id(name)?) {
        Reach::Full(place) => Some(place),
        Reach::None | Reach::Frozen { .. } => None,
    }
}

fn namespace(forest: &Forest, name: &str) -> Option<NamespaceState> {
    let id = forest.id(name)?;
    let seen = forest.namespace(id)?;
    // The preview does not know when a condition begins.
    let without_time = |it: &Condition| Condition { since: None, ..it.clone() };
    Some(NamespaceState {
        uid: seen.version.uid(),
        parent: forest.parent(name).cloned(),
        labels: forest.labels(id)?.all(),
        annotations: seen.annotations.clone(),
        conditions: forest.conditions_shown(name).iter().map(without_time).collect(),
        terminating: seen.terminating,
    })
}

fn object(forest: &Forest, namespace: &str, key: &ObjectKey) -> Option<ObjectState> {
    let object = forest.object(forest.id(namespace)?, key)?;
    Some(ObjectState {
        uid: object.version().uid(),
        inherited_from: forest.copied_from(namespace, key).cloned(),
        digest: object.digests().map(|(all, _)| all),
    })
}

fn sub_namespace(forest: &Forest, parent: &str, child: &str) -> Option<SubNamespaceState> {
    let seen = forest.accurate().sub_namespaces(forest.id(parent)?).get(child)?;
    Some(SubNamespaceState { stalled: seen.status.stalled.as_ref().map(|it| it.message.clone()) })
}
