//! What there is, for those who count it or speak of it: which objects a namespace holds, which conditions are shown, whence
//! a copy comes. Never decides anything.

use crate::object::Object;
use crate::tree::Id;
use crate::{Condition, Digest, Forest, Name, ObjectKey, Version};

impl Forest {
    /// The objects that are known in `namespace`.
    pub fn objects_in(&self, namespace: &str) -> impl Iterator<Item = &ObjectKey> {
        let id = self.tree.id(namespace);
        id.into_iter().flat_map(|id| self.objects.within(id)).map(|(key, _)| key)
    }

    /// The names of the Roles that known bindings refer to, in no order; those of copies are left out.
    pub fn bound_roles(&self) -> impl Iterator<Item = &Name> {
        self.objects.bound_roles()
    }

    /// The conditions that the managed namespaces show at present, as last written.
    pub fn shown_conditions(&self) -> impl Iterator<Item = &Condition> {
        self.conditions_by_namespace().flat_map(|(_, conditions)| conditions)
    }

    /// The same by namespace; those that show none are left out.
    pub fn conditions_by_namespace(&self) -> impl Iterator<Item = (&Name, &[Condition])> {
        let shown = self.tree.conditioned().filter(|id| self.tree.node(*id).exists());
        shown.filter_map(|id| Some((self.tree.name(id), self.tree.node(id).hierarchy.as_ref()?.conditions())))
    }

    /// Where below there is a source of this kind and name; costs what the smaller of the two sets does. A namespace is not
    /// below itself, not even in a cycle.
    pub(crate) fn holders_below(&self, key: &ObjectKey, above: Id) -> Vec<Id> {
        let Some(holders) = self.objects.holders(key) else { return Vec::new() };
        if let Some(below) = self.tree.few_descendants(above, holders.len()) {
            return below.into_iter().filter(|id| *id != above && holders.contains(id)).collect();
        }
        let is_below = |id: &Id| *id != above && self.tree.ancestry(*id).path.contains(&above);
        holders.iter().copied().filter(is_below).collect()
    }

    /// The conditions that a namespace shows at present, as last written.
    pub fn conditions_shown(&self, namespace: &str) -> &[Condition] {
        let seen = self.tree.id(namespace).and_then(|id| self.tree.node(id).hierarchy.as_ref());
        seen.map_or(&[], |seen| seen.conditions())
    }

    /// Which state of an object is known.
    pub fn object_version(&self, namespace: &str, key: &ObjectKey) -> Option<Version> {
        Some(self.known(namespace, key)?.version().get())
    }

    /// Whether `parent` holds an anchor of this name.
    pub fn has_anchor(&self, parent: &str, child: &str) -> bool {
        self.tree.id(parent).is_some_and(|id| self.tree.node(id).anchors().contains_key(child))
    }

    /// The namespace that a copy says it comes from; `None` for what is no copy.
    pub fn inherited_from(&self, namespace: &str, key: &ObjectKey) -> Option<&Name> {
        match self.known(namespace, key)? {
            Object::Copy(copy) => Some(&copy.inherited_from),
            Object::Source(_) => None,
        }
    }

    /// Whether writing content with this digest there would lose something: an object that is no copy, or other content.
    pub fn would_overwrite(&self, namespace: &str, key: &ObjectKey, given: Digest) -> bool {
        match self.known(namespace, key) {
            Some(Object::Source(_)) => true,
            Some(Object::Copy(copy)) => copy.digest() != Some(given) && copy.accepted != Some(given),
            None => false,
        }
    }

    /// Whether this is a source whose content was not kept, or was never shown.
    pub fn is_unread(&self, namespace: &str, key: &ObjectKey) -> bool {
        let source = self.known(namespace, key).and_then(Object::source);
        let content =
            source.map(|source| source.content.as_ref().and_then(|content| content.canonical.as_ref()));
        content.is_some_and(|content| content.is_none())
    }

    fn known(&self, namespace: &str, key: &ObjectKey) -> Option<&Object> {
        self.objects.get(self.tree.id(namespace)?, key)
    }
}
