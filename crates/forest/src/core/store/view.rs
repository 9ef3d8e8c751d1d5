//! What rules and plans read: questions about namespaces by id, and about objects.

use std::collections::BTreeSet;

use super::{Failure, Store};
use crate::core::content::Digest;
use crate::core::hop::Hop;
use crate::core::kind::{KindId, ObjectKey};
use crate::core::name::{Name, is_namespace_name};
use crate::core::object::{Object, Source};
use crate::core::tree::Namespace;
use crate::core::tree::{Ancestry, Halt, Id, Illegal, NamespaceLabels};
use crate::core::version::Version;

/// By name.
impl Store {
    /// Every name that the forest knows something about; unordered.
    pub fn names(&self) -> impl Iterator<Item = &Name> {
        self.tree.ids().map(|id| self.tree.name(id))
    }

    /// Whether `name` is an existing managed namespace.
    pub fn exists(&self, name: &str) -> bool {
        self.tree.existing(name).is_some()
    }

    /// Whether `name` is an existing managed namespace that is being deleted.
    pub fn is_terminating(&self, name: &str) -> bool {
        let seen = self.tree.existing(name).and_then(|id| self.tree.namespace(id));
        seen.is_some_and(|seen| seen.terminating)
    }

    /// The known version of the namespace.
    pub fn namespace_version(&self, name: &str) -> Option<Version> {
        Some(self.tree.namespace(self.tree.id(name)?)?.version.get())
    }

    /// The parent in force, whether or not it exists.
    pub fn parent(&self, name: &str) -> Option<&Name> {
        Some(self.tree.name(self.tree.upstream(self.tree.id(name)?)?))
    }

    /// The direct children, sorted.
    pub fn children(&self, name: &str) -> Vec<Name> {
        let Some(id) = self.tree.id(name) else { return Vec::new() };
        self.tree.downstream(id).iter().map(|child| self.tree.name(*child).clone()).collect()
    }

    /// The orphans that belong below this namespace, sorted.
    pub fn orphans_below(&self, name: &str) -> Vec<Name> {
        let Some(id) = self.tree.id(name) else { return Vec::new() };
        let belongs = |orphan: &Id| *orphan != id && self.tree.place(*orphan).contains(&id);
        let mut names: Vec<Name> =
            self.tree.orphans().filter(belongs).map(|orphan| self.tree.name(orphan).clone()).collect();
        names.sort_unstable();
        names
    }

    /// The names of managed namespaces that have children and are missing or being deleted, sorted.
    pub fn awaited_names(&self) -> Vec<&Name> {
        self.managed_names(self.tree.awaited())
    }

    /// The names of the other managed namespaces that have children, sorted.
    pub fn parent_names(&self) -> Vec<&Name> {
        self.managed_names(self.tree.lasting_parents())
    }

    fn managed_names(&self, ids: impl Iterator<Item = Id>) -> Vec<&Name> {
        let mut names: Vec<&Name> =
            ids.filter(|id| self.tree.is_managed(*id)).map(|id| self.tree.name(id)).collect();
        // Any text can be stored as a parent while nothing judges it.
        names.retain(|name| is_namespace_name(name));
        names.sort();
        names
    }

    /// The namespace itself, its parent, and so on to the top or to the end of a cycle.
    pub fn ancestry(&self, name: &str) -> Vec<Name> {
        let Some(id) = self.tree.id(name) else { return Vec::new() };
        self.tree.ancestry(id).path.iter().map(|id| self.tree.name(*id).clone()).collect()
    }

    /// The nearest halted namespace from this one upwards, itself included.
    pub fn halted_root(&self, name: &str) -> Option<&Name> {
        Some(self.tree.name(self.tree.halted_root(self.tree.id(name)?)?))
    }

    /// The cycle that the namespace is a member of: the smallest name first and last, each the parent of the next.
    pub fn cycle(&self, name: &str) -> Option<Vec<Name>> {
        self.tree.cycle(self.tree.id(name)?)
    }

    /// The known objects in `namespace`.
    pub fn objects_in(&self, namespace: &str) -> impl Iterator<Item = &ObjectKey> {
        let id = self.tree.id(namespace);
        id.into_iter().flat_map(|id| self.objects.within(id)).map(|(key, _)| key)
    }

    /// The names of the Roles that known bindings refer to, except copies; unordered.
    pub fn bound_roles(&self) -> impl Iterator<Item = &Name> {
        self.objects.bound_roles()
    }

    /// The known version of an object.
    pub fn object_version(&self, namespace: &str, key: &ObjectKey) -> Option<Version> {
        Some(self.known(namespace, key)?.version().get())
    }

    /// The namespace of the source that a copy names; `None` for an object that is no copy.
    pub fn inherited_from(&self, namespace: &str, key: &ObjectKey) -> Option<&Name> {
        match self.known(namespace, key)? {
            Object::Copy(copy) => Some(&copy.inherited_from),
            Object::Source(_) => None,
        }
    }

    /// Whether there is an object that is no copy of HNC's.
    pub fn is_own(&self, namespace: &str, key: &ObjectKey) -> bool {
        matches!(self.known(namespace, key), Some(Object::Source(_)))
    }

    /// The namespace that a copy of any dialect names as that of its source.
    pub fn copied_from(&self, namespace: &str, key: &ObjectKey) -> Option<&Name> {
        let of_hop = || self.known(namespace, key)?.hop()?.from.as_ref();
        self.inherited_from(namespace, key).or_else(of_hop)
    }

    /// Whether this is a copy of any dialect, also one that no longer names its source.
    pub fn counts_as_copy(&self, namespace: &str, key: &ObjectKey) -> bool {
        let is_tampered = || self.known(namespace, key).and_then(Object::hop).is_some_and(Hop::is_tampered);
        self.copied_from(namespace, key).is_some() || is_tampered()
    }

    /// Whether this is a copy that goes hop by hop and is kept equal to its source.
    pub fn is_followed(&self, namespace: &str, key: &ObjectKey) -> bool {
        self.known(namespace, key).and_then(Object::hop).is_some_and(Hop::is_followed)
    }

    /// Whether this copy, which goes hop by hop, has nothing of anybody else.
    pub fn is_bare(&self, namespace: &str, key: &ObjectKey) -> bool {
        self.known(namespace, key).and_then(Object::hop).is_some_and(|hop| hop.bare)
    }

    /// Whether writing content with this digest would lose data: the object is no copy, or has other content.
    pub fn would_overwrite(&self, namespace: &str, key: &ObjectKey, given: Digest) -> bool {
        match self.known(namespace, key) {
            Some(Object::Source(source)) => {
                let copy = source.hop.as_ref().filter(|hop| hop.from.is_some());
                copy.is_none_or(|copy| copy.digest() != Some(given) && copy.accepted != Some(given))
            }
            Some(Object::Copy(copy)) => copy.digest() != Some(given) && copy.accepted != Some(given),
            None => false,
        }
    }

    /// Whether this is a source whose content is not in memory, although something is copied from its namespace.
    pub fn is_unread(&self, namespace: &str, key: &ObjectKey) -> bool {
        let kept = self.kept(self.tree.id(namespace));
        let source = self.known(namespace, key).filter(|object| object.source().is_some());
        source.is_some_and(|source| !source.knowledge().covers(kept.within(source.whole())))
    }

    fn known(&self, namespace: &str, key: &ObjectKey) -> Option<&Object> {
        self.objects.get(self.tree.id(namespace)?, key)
    }
}

/// Namespaces by id.
impl Store {
    pub(crate) fn id(&self, name: &str) -> Option<Id> {
        self.tree.id(name)
    }

    /// The id of an existing managed namespace.
    pub(crate) fn existing(&self, name: &str) -> Option<Id> {
        self.tree.existing(name)
    }

    pub(crate) fn name(&self, id: Id) -> &Name {
        self.tree.name(id)
    }

    pub(crate) fn is_managed(&self, id: Id) -> bool {
        self.tree.is_managed(id)
    }

    /// Whether this is an existing managed namespace.
    pub(crate) fn is_existing(&self, id: Id) -> bool {
        self.tree.is_existing(id)
    }

    /// The namespace as last observed.
    pub(crate) fn namespace(&self, id: Id) -> Option<&Namespace> {
        self.tree.namespace(id)
    }

    /// The namespace, unless it is being deleted.
    pub(crate) fn lasting_namespace(&self, id: Id) -> Option<&Namespace> {
        self.namespace(id).filter(|seen| !seen.terminating)
    }

    /// Whether the namespace is being deleted: the API server changes and deletes objects in it, and creates none.
    pub(crate) fn is_ending(&self, id: Id) -> bool {
        self.namespace(id).is_some_and(|seen| seen.terminating)
    }

    /// Whether this copy stays until Kubernetes deletes it: a restriction where pods may still run.
    pub(crate) fn outlasts_its_source(&self, id: Id, key: &ObjectKey) -> bool {
        self.is_ending(id) && self.kind(key.kind).restricts()
    }

    pub(crate) fn labels(&self, id: Id) -> Option<NamespaceLabels<'_>> {
        self.tree.labels(id)
    }

    /// Ordered by name.
    pub(crate) fn downstream(&self, id: Id) -> &[Id] {
        self.tree.downstream(id)
    }

    /// The namespace itself first, then its upstream namespace, and so on.
    pub(crate) fn path(&self, id: Id) -> Vec<Id> {
        self.tree.ancestry(id).path
    }

    /// The same, and whether the path repeats.
    pub(crate) fn ancestry_of(&self, id: Id) -> Ancestry {
        self.tree.ancestry(id)
    }

    /// The namespaces below; the namespace itself only if it is in a cycle. Unordered.
    pub(crate) fn descendants(&self, id: Id) -> Vec<Id> {
        self.tree.descendants(id)
    }

    /// The same, if there are no more than `limit`.
    pub(crate) fn few_descendants(&self, id: Id, limit: usize) -> Option<Vec<Id>> {
        self.tree.few_descendants(id, limit)
    }

    /// This namespace and those above it, up to and including the nearest halted one. Each gives it a tree label.
    pub(crate) fn labelling(&self, id: Id) -> Vec<Id> {
        self.tree.labelling(id)
    }

    /// The nearest halted namespace from this one upwards, itself included.
    pub(crate) fn halted_at(&self, id: Id) -> Option<Id> {
        self.tree.halted_root(id)
    }

    /// Why this namespace itself is halted.
    pub(crate) fn own_halt(&self, id: Id) -> Option<Halt> {
        self.tree.own_halt(id)
    }

    /// The root of the tree of the namespace; in a cycle, the member at which the path repeats.
    pub(crate) fn root(&self, id: Id) -> Id {
        self.tree.root(id)
    }

    /// The nearest namespace that is above both or one of them.
    pub(crate) fn common_ancestor(&self, one: Id, other: Id) -> Option<Id> {
        self.tree.common_ancestor(one, other)
    }

    /// Whether the upstream namespace of this existing one is missing.
    pub(crate) fn is_orphan(&self, id: Id) -> bool {
        self.tree.is_orphan(id)
    }

    /// Where a namespace belongs whose upstream namespace is missing or being deleted.
    pub(crate) fn former_place(&self, id: Id) -> Option<Id> {
        self.tree.former_place(id)
    }

    /// This namespace and those above it. Above an orphan come those where it belongs.
    pub(crate) fn place(&self, id: Id) -> Vec<Id> {
        self.tree.place(id)
    }

    /// The namespace, those below it, and the orphans that belong there with those below them. Unordered.
    pub(crate) fn at_and_below(&self, id: Id) -> Vec<Id> {
        self.tree.at_and_below(id)
    }

    /// Whether the edges allow `child` below `parent`.
    pub(crate) fn may_join(&self, parent: Id, child: Id) -> Result<(), Illegal> {
        self.tree.may_join(parent, child)
    }

    /// This namespace and those below it that are in `of`; unordered. The cost is that of the smaller set.
    pub(crate) fn those_below<'a>(&'a self, id: Id, of: &'a BTreeSet<Name>) -> BTreeSet<&'a Name> {
        if let Some(below) = self.tree.few_descendants(id, of.len()) {
            let here = below.into_iter().chain([id]).map(|id| self.name(id));
            return here.filter(|name| of.contains(*name)).collect();
        }
        let is_below = |name: &&Name| self.id(name).is_some_and(|below| self.path(below).contains(&id));
        of.iter().filter(is_below).collect()
    }
}

/// Objects.
impl Store {
    pub(crate) fn object(&self, id: Id, key: &ObjectKey) -> Option<&Object> {
        self.objects.get(id, key)
    }

    pub(crate) fn source(&self, id: Id, key: &ObjectKey) -> Option<&Source> {
        self.objects.source(id, key)
    }

    /// The objects in a namespace, by kind and name.
    pub(crate) fn objects_at(&self, id: Id) -> impl Iterator<Item = (&ObjectKey, &Object)> {
        self.objects.within(id)
    }

    /// Those of one kind, by name.
    pub(crate) fn objects_of_kind(
        &self,
        id: Id,
        kind: KindId,
    ) -> impl Iterator<Item = (&ObjectKey, &Object)> {
        self.objects.of_kind(id, kind)
    }

    /// The names of this kind that several namespaces have a source of, with these namespaces; unordered.
    pub(crate) fn shared_names(&self, kind: KindId) -> impl Iterator<Item = (&ObjectKey, &BTreeSet<Id>)> {
        self.objects.shared(kind)
    }

    /// The namespaces below that have a source of this kind and name. The cost is that of the smaller set. A namespace is not
    /// below itself, not even in a cycle.
    pub(crate) fn holders_below(&self, key: &ObjectKey, above: Id) -> Vec<Id> {
        let Some(holders) = self.objects.holders(key) else { return Vec::new() };
        if let Some(below) = self.tree.few_descendants(above, holders.len()) {
            return below.into_iter().filter(|id| *id != above && holders.contains(id)).collect();
        }
        let is_below = |id: &Id| *id != above && self.path(*id).contains(&above);
        holders.iter().copied().filter(is_below).collect()
    }

    /// The inherited quotas here that are not in force.
    pub(crate) fn quotas_not_in_force(&self, id: Id) -> impl Iterator<Item = &ObjectKey> {
        let waits =
            |object: &Object| matches!(object, Object::Copy(copy) if !copy.in_force && !copy.terminating);
        let quotas =
            self.kinds().filter(|(_, settings)| settings.kind.is_quota() && settings.mode.propagates());
        quotas.flat_map(move |(kind, _)| {
            self.objects_of_kind(id, kind).filter(move |(_, object)| waits(object)).map(|(key, _)| key)
        })
    }

    /// The kind of Roles, if it is configured.
    pub(crate) fn role_kind(&self) -> Option<KindId> {
        self.kinds().find(|(_, settings)| settings.kind.holds_rules()).map(|(id, _)| id)
    }

    /// The failed writes and the conflicts in this namespace.
    pub(crate) fn failures(&self, namespace: &Name) -> impl Iterator<Item = (&ObjectKey, &Failure)> {
        self.failures.get(namespace).into_iter().flatten()
    }

    pub(crate) fn failure(&self, namespace: &Name, key: &ObjectKey) -> Option<&Failure> {
        self.failures.get(namespace)?.get(key)
    }

    /// The namespaces with objects in conflict, which are left as they are.
    pub(crate) fn conflicted(&self) -> &BTreeSet<Name> {
        &self.conflicted
    }
}
