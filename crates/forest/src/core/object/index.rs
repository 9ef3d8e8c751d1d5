//! The objects of a forest by namespace, and indexes of its sources by name, by referenced Role and by label selectors.

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashMap;

use super::super::content::Digest;
use super::super::kind::{KindId, ObjectKey};
use super::super::name::Name;
use super::super::tree::Id;
use super::super::version::{CompactVersion, Version};
use super::{Knowledge, Object, Source};

#[derive(Debug, Default)]
pub(crate) struct Objects {
    by_namespace: HashMap<Id, BTreeMap<ObjectKey, Object>>,
    /// The namespaces that have a source of a name.
    sources: HashMap<ObjectKey, BTreeSet<Id>>,
    /// The names of sources that select by labels, and how many sources each has.
    selective: BTreeMap<ObjectKey, usize>,
    /// By the name of a Role, the sources that refer to it.
    bindings: HashMap<Name, HashMap<Id, BTreeSet<ObjectKey>>>,
    /// The namespaces with sources that are kept with their content, and how much that is at most.
    whole: HashMap<Id, Knowledge>,
    /// How many objects of each kind there are.
    counts: HashMap<KindId, Counts>,
    /// How many copies name a namespace as that of their source.
    origins: HashMap<Name, usize>,
}

/// How many objects of a kind a forest holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Sources.
    pub sources: usize,
    /// Copies.
    pub copies: usize,
}

impl Counts {
    fn of(&mut self, object: &Object) -> &mut usize {
        if object.is_any_copy() { &mut self.copies } else { &mut self.sources }
    }
}

impl Objects {
    pub(crate) fn get(&self, namespace: Id, key: &ObjectKey) -> Option<&Object> {
        self.by_namespace.get(&namespace)?.get(key)
    }

    pub(crate) fn source(&self, namespace: Id, key: &ObjectKey) -> Option<&Source> {
        self.get(namespace, key)?.source()
    }

    /// The objects in a namespace, by kind and name.
    pub(crate) fn within(&self, namespace: Id) -> impl Iterator<Item = (&ObjectKey, &Object)> {
        self.by_namespace.get(&namespace).into_iter().flatten()
    }

    /// Those of one kind, by name.
    pub(crate) fn of_kind(&self, namespace: Id, kind: KindId) -> impl Iterator<Item = (&ObjectKey, &Object)> {
        let first = ObjectKey { kind, name: Name::from("") };
        let objects = self.by_namespace.get(&namespace).into_iter();
        objects.flat_map(move |objects| objects.range(&first..)).take_while(move |(key, _)| key.kind == kind)
    }

    /// The namespaces that have a source of this kind and name.
    pub(crate) fn holders(&self, key: &ObjectKey) -> Option<&BTreeSet<Id>> {
        self.sources.get(key)
    }

    /// The names of this kind that several namespaces have a source of, with these namespaces; unordered.
    pub(crate) fn shared(&self, kind: KindId) -> impl Iterator<Item = (&ObjectKey, &BTreeSet<Id>)> {
        self.sources.iter().filter(move |(key, holders)| key.kind == kind && holders.len() > 1)
    }

    /// How many objects of a kind there are.
    pub(crate) fn counts(&self, kind: KindId) -> Counts {
        self.counts.get(&kind).copied().unwrap_or_default()
    }

    /// How many objects of all kinds there are.
    pub(crate) fn all_counts(&self) -> Counts {
        let add = |sum: Counts, of: &Counts| Counts {
            sources: sum.sources + of.sources,
            copies: sum.copies + of.copies,
        };
        self.counts.values().fold(Counts::default(), add)
    }

    /// Whether any copy names this namespace as that of its source.
    pub(crate) fn are_copied_from(&self, namespace: &Name) -> bool {
        self.origins.contains_key(namespace)
    }

    /// The names of sources that select by the labels of a namespace.
    pub(crate) fn selective(&self) -> impl Iterator<Item = &ObjectKey> {
        self.selective.keys()
    }

    /// Whether any source of this name selects by labels.
    pub(crate) fn is_selective(&self, key: &ObjectKey) -> bool {
        self.selective.contains_key(key)
    }

    /// The sources that refer to a Role of this name, by namespace.
    pub(crate) fn bindings_to(&self, role: &Name) -> Option<&HashMap<Id, BTreeSet<ObjectKey>>> {
        self.bindings.get(role)
    }

    /// The names of the Roles that sources refer to; unordered.
    pub(crate) fn bound_roles(&self) -> impl Iterator<Item = &Name> {
        self.bindings.keys()
    }

    /// The same key; its name shares the memory of the sources' name.
    pub(crate) fn shared_key(&self, key: ObjectKey) -> ObjectKey {
        self.sources.get_key_value(&key).map_or(key, |(shared, _)| shared.clone())
    }

    /// All objects of a kind, to find those that a complete list no longer holds.
    pub(crate) fn places(&self, kind: KindId) -> Vec<(Id, ObjectKey)> {
        let of_kind = |key: &&ObjectKey| key.kind == kind;
        self.by_namespace
            .iter()
            .flat_map(|(id, objects)| objects.keys().filter(of_kind).map(|key| (*id, key.clone())))
            .collect()
    }

    /// Inserts the object and returns the previous one.
    pub(crate) fn insert(&mut self, namespace: Id, key: ObjectKey, mut object: Object) -> Option<Object> {
        self.unindex(namespace, &key);
        if let Some(source) = object.source() {
            self.sources.entry(key.clone()).or_default().insert(namespace);
            if source.looks_at_labels() {
                *self.selective.entry(key.clone()).or_default() += 1;
            }
            let known = object.knowledge();
            if !known.is_small() {
                self.whole.entry(namespace).and_modify(|most| *most = most.and(known)).or_insert(known);
            }
            if let Some(role) = &source.role {
                let bindings = self.bindings.entry(role.clone()).or_default();
                bindings.entry(namespace).or_default().insert(key.clone());
            }
        }
        if let Some(old) = self.get(namespace, &key) {
            object.remember(old);
        }
        if let Object::Copy(copy) = &object {
            *self.origins.entry_ref(&copy.inherited_from).or_default() += 1;
        }
        *self.counts.entry(key.kind).or_default().of(&object) += 1;
        self.by_namespace.entry(namespace).or_default().insert(key, object)
    }

    pub(crate) fn remove(&mut self, namespace: Id, key: &ObjectKey) -> Option<Object> {
        self.unindex(namespace, key);
        let objects = self.by_namespace.get_mut(&namespace)?;
        let removed = objects.remove(key);
        if objects.is_empty() {
            self.by_namespace.remove(&namespace);
            self.whole.remove(&namespace);
        }
        removed
    }

    /// Notes the digest of the content that the API server was given for this state of a copy, if that state is the known one.
    pub(crate) fn accepted(&mut self, namespace: Id, key: &ObjectKey, version: &Version, given: Digest) {
        let object = self.by_namespace.get_mut(&namespace).and_then(|objects| objects.get_mut(key));
        if let Some(object) = object.filter(|it| *it.version() == CompactVersion::from(version.clone())) {
            object.accept(given);
        }
    }

    /// Treats every quota as in force.
    pub(crate) fn put_in_force(&mut self) {
        for object in self.by_namespace.values_mut().flat_map(BTreeMap::values_mut) {
            if let Object::Copy(copy) = object {
                copy.in_force = true;
            }
        }
    }

    /// The namespaces whose sources are kept with their content.
    pub(crate) fn whole(&self) -> impl Iterator<Item = Id> {
        self.whole.keys().copied()
    }

    /// Drops the content of the sources in a namespace that is more than this: nothing copies them.
    pub(crate) fn trim(&mut self, namespace: Id, most: Knowledge) {
        let Some(known) = self.whole.get_mut(&namespace).filter(|known| !most.covers(**known)) else {
            return;
        };
        *known = known.within(most);
        if known.is_small() {
            self.whole.remove(&namespace);
        }
        let objects = self.by_namespace.get_mut(&namespace).into_iter().flat_map(BTreeMap::values_mut);
        objects.for_each(|object| object.trim(most));
    }

    fn unindex(&mut self, namespace: Id, key: &ObjectKey) {
        let Some(old) = self.by_namespace.get(&namespace).and_then(|objects| objects.get(key)) else {
            return;
        };
        if let Some(counts) = self.counts.get_mut(&key.kind) {
            *counts.of(old) -= 1;
        }
        if let Object::Copy(copy) = old
            && let Some(count) = self.origins.get_mut(&copy.inherited_from)
        {
            *count -= 1;
            if *count == 0 {
                self.origins.remove(&copy.inherited_from);
            }
        }
        if let Some(role) = old.source().and_then(|source| source.role.clone()) {
            self.unindex_binding(&role, namespace, key);
        }
        let selects = self.get(namespace, key).is_some_and(Object::looks_at_labels);
        if selects && let Some(count) = self.selective.get_mut(key) {
            *count -= 1;
            if *count == 0 {
                self.selective.remove(key);
            }
        }
        if let Some(holders) = self.sources.get_mut(key) {
            holders.remove(&namespace);
            if holders.is_empty() {
                self.sources.remove(key);
            }
        }
    }

    fn unindex_binding(&mut self, role: &Name, namespace: Id, key: &ObjectKey) {
        let Some(bindings) = self.bindings.get_mut(role) else { return };
        if let Some(keys) = bindings.get_mut(&namespace) {
            keys.remove(key);
            if keys.is_empty() {
                bindings.remove(&namespace);
            }
        }
        if bindings.is_empty() {
            self.bindings.remove(role);
        }
    }
}
