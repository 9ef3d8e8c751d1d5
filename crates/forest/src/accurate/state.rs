//! What is known of Accurate's own objects, and the edges between namespaces that follow from their labels.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::fact::{Fact, SubNamespaceFact};
use super::keys::FINALIZER;
use super::place::Labelled;
use super::settings::Settings;
use crate::core::change::Change;
use crate::core::kind::ObjectKey;
use crate::core::labels::Labels;
use crate::core::name::Name;
use crate::core::namespace::Applied;
use crate::core::object::Object;
use crate::core::store::{Failure, NamespacedName, Store};
use crate::core::stream::Stream;
use crate::core::text::{QUOTE, limited};
use crate::core::tree::{ById, EdgeKind, Id};
use crate::core::version::Version;

/// The `SubNamespaces` in a namespace, by the name of the child.
pub(crate) type SubNamespaces = BTreeMap<Name, SubNamespaceFact>;

#[derive(Debug, Default)]
pub(crate) struct State {
    /// `None` when Accurate's API is off. Then nothing else is stored.
    settings: Option<Arc<Settings>>,
    sub_namespaces: ById<SubNamespaces>,
    /// The namespaces that hold a `SubNamespace` of a name.
    holders: HashMap<Name, BTreeSet<Id>>,
    /// The labels and annotations of namespaces that Accurate has applied.
    applied: ById<Applied>,
    failures: HashMap<Name, BTreeMap<ObjectKey, Failure>>,
    crd_is_being_deleted: bool,
}

/// The properties of a namespace on which others depend.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Standing {
    /// Whether it can be a parent, and a template.
    leads: [bool; 2],
    exists: bool,
    terminating: bool,
    /// The labels and annotations that flow to the next namespaces.
    handed_down: (Labels, Labels),
}

/// Questions.
impl State {
    pub(crate) fn enable(&mut self, settings: Arc<Settings>) {
        self.settings = Some(settings);
    }

    /// `None` when Accurate's API is off.
    pub(crate) fn settings(&self) -> Option<&Arc<Settings>> {
        self.settings.as_ref()
    }

    /// Whether this annotation of namespaces is read.
    pub(crate) fn reads(&self, annotation: &str) -> bool {
        self.settings.as_ref().is_some_and(|settings| settings.may_set_annotation(annotation))
    }

    pub(crate) fn sub_namespaces(&self, id: Id) -> &SubNamespaces {
        static NONE: SubNamespaces = SubNamespaces::new();
        self.sub_namespaces.get(id).unwrap_or(&NONE)
    }

    /// The namespaces with a `SubNamespace` of this name that may still create its namespace. One that is being deleted creates none, but
    /// the creation may be under way until the controller removes its finalizer. A conflict may be over in a moment.
    pub(crate) fn holders_of_waiting(&self, child: &Name) -> impl Iterator<Item = Id> {
        let held = |it: &SubNamespaceFact| it.finalizers.iter().any(|it| **it == *FINALIZER);
        let waits = move |id: &Id| {
            self.sub_namespaces(*id).get(child).is_some_and(|form| !form.terminating || held(form))
        };
        self.holders(child).filter(waits)
    }

    /// The namespaces with a `SubNamespace` of this name.
    pub(crate) fn holders(&self, child: &Name) -> impl Iterator<Item = Id> {
        self.holders.get(child).into_iter().flatten().copied()
    }

    pub(crate) fn applied(&self, id: Id) -> Option<&Applied> {
        self.applied.get(id)
    }

    pub(crate) fn crd_is_being_deleted(&self) -> bool {
        self.crd_is_being_deleted
    }

    /// The failed writes and the conflicts in this namespace.
    pub(crate) fn failures(&self, namespace: &Name) -> impl Iterator<Item = (&ObjectKey, &Failure)> {
        self.failures.get(namespace).into_iter().flatten()
    }

    pub(crate) fn failure(&self, namespace: &Name, key: &ObjectKey) -> Option<&Failure> {
        self.failures.get(namespace)?.get(key)
    }

    /// The known version of a `SubNamespace`.
    pub(crate) fn version(&self, store: &Store, (namespace, name): &NamespacedName) -> Option<Version> {
        Some(self.sub_namespaces(store.id(namespace)?).get(name)?.version.clone())
    }

    /// The known versions of all `SubNamespaces`.
    pub(crate) fn versions(&self, store: &Store) -> Vec<(NamespacedName, Version)> {
        let all = self.sub_namespaces.iter().flat_map(|(id, all)| all.values().map(move |it| (id, it)));
        all.map(|(id, it)| ((store.name(id).clone(), it.name.clone()), it.version.clone())).collect()
    }
}

/// What the labels of a namespace say about its place, if it exists and is managed.
pub(crate) fn labels_of(store: &Store, id: Id) -> impl Labelled<'_> + use<'_> {
    let labels = store.labels(id).filter(|_| store.is_managed(id));
    move |key: &str| labels.as_ref()?.get(key)
}

/// Namespaces.
impl State {
    /// The properties of a namespace on which others depend, before it changes.
    pub(crate) fn standing(&self, store: &Store, id: Id) -> Standing {
        let (Some(settings), Some(seen)) = (&self.settings, store.namespace(id)) else {
            return Standing::default();
        };
        let place = labels_of(store, id);
        let labels = store
            .labels(id)
            .into_iter()
            .flat_map(|labels| labels.all().iter().map(owned).collect::<Vec<_>>());
        let annotations = seen.annotations.iter().filter(|(key, _)| settings.hands_down_annotation(key));
        Standing {
            leads: [EdgeKind::Parent, EdgeKind::Template].map(|kind| place.leads(kind)),
            exists: true,
            terminating: seen.terminating,
            handed_down: (
                labels.filter(|(key, _)| settings.hands_down_label(key)).collect(),
                annotations.collect(),
            ),
        }
    }

    /// A namespace was observed, or is gone, and has changed from `before`: updates the edge.
    pub(crate) fn namespace_changed(
        &mut self,
        store: &mut Store,
        id: Id,
        before: &Standing,
        applied: Applied,
        change: &mut Change,
    ) {
        if self.settings.is_none() {
            return;
        }
        let edge = labels_of(store, id).edge().map(|(kind, name)| (kind, Name::from(name)));
        touch_missing_top(store, id, change);
        store.tree.set_hop(id, edge.as_ref().map(|(kind, name)| (*kind, name)), change);
        touch_missing_top(store, id, change);
        if applied == Applied::default() {
            self.applied.remove(id);
        } else {
            self.applied.insert(id, applied);
        }
        let now = self.standing(store, id);
        let name = store.name(id).clone();
        if before.exists != now.exists {
            touch_forsaken(store, &name, change);
        }
        if before.exists != now.exists || before.terminating != now.terminating {
            change.whole(name);
        } else {
            change.structure(name);
        }
        let leads = |standing: &Standing| (standing.leads, standing.exists, standing.terminating);
        for next in store.tree.next_hops(id).iter().map(|next| store.name(*next).clone()) {
            if leads(before) != leads(&now) {
                change.whole(next);
            } else if before.handed_down != now.handed_down {
                change.structure(next);
            }
        }
    }

    /// A change of a namespace changes the state of the `SubNamespaces` of its name.
    pub(crate) fn touch_holders(&self, store: &Store, change: &mut Change) {
        if change.everything || self.holders.is_empty() {
            return;
        }
        let structure = change.namespaces.iter().filter(|(_, scope)| scope.structure);
        let holders: Vec<Name> = structure
            .filter_map(|(name, _)| self.holders.get(name))
            .flatten()
            .map(|id| store.name(*id).clone())
            .collect();
        for holder in holders {
            change.structure(holder);
        }
    }
}

/// Where the upstream namespace is missing, copies go with the namespace of their source.
fn touch_forsaken(store: &Store, name: &Name, change: &mut Change) {
    if change.everything {
        return;
    }
    let is_from = |object: &Object| object.hop().is_some_and(|hop| hop.from.as_ref() == Some(name));
    for orphan in store.tree.hop_orphans() {
        if store.objects_at(orphan).any(|(_, object)| is_from(object)) {
            change.whole(store.name(orphan).clone());
        }
    }
}

/// Whether a `SubNamespace` may create the missing namespace at the top depends on who is below it.
fn touch_missing_top(store: &Store, id: Id, change: &mut Change) {
    let top = store.tree.hop_ancestry(id).path.last().copied();
    if let Some(top) = top.filter(|top| store.namespace(*top).is_none()) {
        change.structure(store.name(top).clone());
    }
}

fn owned((key, value): (&str, &str)) -> (String, String) {
    (key.to_owned(), value.to_owned())
}

/// Accurate's own objects.
impl State {
    pub(crate) fn apply(&mut self, store: &mut Store, fact: Fact, change: &mut Change) {
        if self.settings.is_none() {
            return;
        }
        match fact {
            Fact::SubNamespace(parent, seen) => self.observe(store, &parent, seen, change),
            Fact::SubNamespaceGone(parent, child, uid) => {
                store.departed(&uid);
                self.forget(store, &parent, &child, &uid, change);
            }
            Fact::SubNamespaces(all) => self.list(store, all, change),
            Fact::CrdIsBeingDeleted(is) => {
                change.everything |= self.crd_is_being_deleted != is;
                self.crd_is_being_deleted = is;
            }
        }
    }

    fn observe(&mut self, store: &mut Store, parent: &Name, seen: SubNamespaceFact, change: &mut Change) {
        let known = store.id(parent).and_then(|id| self.sub_namespaces(id).get(&seen.name));
        if known.is_some_and(|known| seen.version.is_same_or_older_than(&known.version)) {
            return;
        }
        let child = seen.name.clone();
        let id = if known.is_none() {
            let id = store.tree.pin(parent);
            self.holders.entry(child.clone()).or_default().insert(id);
            id
        } else {
            store.id(parent).expect("a SubNamespace keeps the node of its namespace")
        };
        match self.sub_namespaces.get_mut(id) {
            Some(all) => drop(all.insert(child.clone(), seen)),
            None => drop(self.sub_namespaces.insert(id, SubNamespaces::from([(child.clone(), seen)]))),
        }
        change.structure(parent.clone());
        change.structure(child);
    }

    fn forget(&mut self, store: &mut Store, parent: &str, child: &Name, uid: &str, change: &mut Change) {
        let Some(id) = store.id(parent) else { return };
        let Some(all) = self.sub_namespaces.get_mut(id) else { return };
        if all.get(child).is_none_or(|known| *known.version.uid != *uid) {
            return;
        }
        all.remove(child);
        if all.is_empty() {
            self.sub_namespaces.remove(id);
        }
        if let Some(holders) = self.holders.get_mut(child) {
            holders.remove(&id);
            if holders.is_empty() {
                self.holders.remove(child);
            }
        }
        change.structure(store.name(id).clone());
        change.structure(child.clone());
        store.tree.unpin(id);
    }

    fn list(&mut self, store: &mut Store, all: Vec<(Name, SubNamespaceFact)>, change: &mut Change) {
        store.listed(Stream::SUB_NAMESPACES, all.iter().map(|(_, seen)| &*seen.version.uid), change);
        let listed: HashSet<(&str, &str)> =
            all.iter().map(|(parent, seen)| (&**parent, &*seen.name)).collect();
        let known = self.versions(store).into_iter();
        let gone: Vec<_> =
            known.filter(|((parent, child), _)| !listed.contains(&(&**parent, &**child))).collect();
        for ((parent, child), version) in gone {
            store.departed(&version.uid);
            self.forget(store, &parent, &child, &version.uid, change);
        }
        for (parent, seen) in all {
            self.observe(store, &parent, seen, change);
        }
    }
}

/// Failed writes and conflicts.
impl State {
    /// Whether writes of this object are Accurate's.
    pub(crate) fn writes(&self, store: &Store, namespace: &str, key: &ObjectKey) -> bool {
        let Some(id) = store.id(namespace).filter(|_| self.settings.is_some()) else { return false };
        let is_copy = || store.object(id, key)?.hop()?.from.as_ref();
        store.tree.hop(id).is_some() || is_copy().is_some()
    }

    /// A failure in a deleted namespace is not recorded: no later fact would settle it.
    pub(crate) fn failed(
        &mut self,
        store: &Store,
        namespace: Name,
        key: ObjectKey,
        mut failure: Failure,
        change: &mut Change,
    ) {
        if !store.exists(&namespace) {
            return;
        }
        failure.why = limited(&failure.why, QUOTE).into();
        let failed = self.failures.entry(namespace.clone()).or_default();
        if failed.insert(key, failure.clone()) != Some(failure) {
            change.structure(namespace);
        }
    }

    /// Whether there was a failure to settle.
    pub(crate) fn settled(&mut self, namespace: &Name, key: &ObjectKey, change: &mut Change) -> bool {
        let Some(failed) = self.failures.get_mut(namespace) else { return false };
        let is_settled = failed.remove(key).is_some();
        if is_settled {
            change.structure(namespace.clone());
        }
        if failed.is_empty() {
            self.failures.remove(namespace);
        }
        is_settled
    }

    /// Drops the failures of a namespace that is deleted.
    pub(crate) fn forget_failures(&mut self, namespace: &Name) {
        self.failures.remove(namespace);
    }
}
