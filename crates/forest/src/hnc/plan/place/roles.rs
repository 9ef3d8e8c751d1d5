//! Whether a copy of a `RoleBinding` grants the same rights as its source.
//!
//! A Role is found by name in the namespace of the binding. So a binding is copied only to namespaces where that name means the
//! same source of a Role. A `ClusterRole` is the same everywhere.

use super::Place;
use crate::core::kind::ObjectKey;
use crate::core::name::Name;
use crate::core::object::{Object, Source};
use crate::core::stream::Stream;
use crate::core::tree::Id;
use crate::dialects::Forest;
use crate::hnc::exceptions::Withheld;

impl Forest {
    /// Whether Roles are propagated and not listed yet.
    pub(in crate::hnc::plan) fn awaits_roles(&self) -> bool {
        let settings = |id| self.kind_settings(id).is_some_and(|settings| settings.mode.propagates());
        self.role_kind().is_some_and(|id| settings(id) && !self.stream(Stream::Kind(id)).is_synced())
    }
}

impl<'a> Place<'a> {
    /// The Roles that the bindings of this name above refer to.
    pub(crate) fn roles_of(&self, key: &ObjectKey) -> impl Iterator<Item = ObjectKey> {
        let kind = self.forest.role_kind().filter(|_| self.forest.kind(key.kind).binds_subjects());
        self.above.iter().filter_map(move |id| {
            let name = self.forest.source(*id, key)?.role.clone()?;
            Some(ObjectKey { kind: kind?, name })
        })
    }

    /// Whether a copy of this binding, whose source is in `namespace` above, would refer to the same Role here, and that Role
    /// exists here or is written before the copy.
    ///
    /// # Errors
    /// How the Roles differ.
    pub(super) fn grants_the_same(&self, namespace: Id, binding: &Source) -> Result<(), Withheld> {
        let Some(name) = &binding.role else { return Ok(()) };
        let role = self.forest.role_kind().map(|kind| ObjectKey { kind, name: name.clone() });
        let there = role.as_ref().and_then(|role| self.upwards(namespace).meaning(role));
        let here = role.as_ref().and_then(|role| self.meaning(role));
        if there.is_none() || there != here {
            let (there, here) = (there.cloned(), here.cloned());
            return Err(Withheld::OtherRole { role: name.clone(), there, here });
        }
        if role.is_some_and(|role| self.is_stuck(&role)) {
            return Err(Withheld::RoleTerminating(name.clone()));
        }
        Ok(())
    }

    /// The place of one of the ancestors.
    fn upwards(&self, id: Id) -> Place<'a> {
        let above = self.above.iter().copied().take_while(|above| *above != id).collect();
        Place { forest: self.forest, id, above }
    }

    /// The namespace of the source that this name means here, in the desired state.
    fn meaning(&self, role: &ObjectKey) -> Option<&'a Name> {
        let own = matches!(self.object(role), Some(Object::Source(_)));
        match self.source(role) {
            Some((namespace, _)) if !(own && self.kind_keeps_own_objects(role)) => Some(namespace),
            _ => own.then(|| self.forest.name(self.id)),
        }
    }

    /// Whether the object here is being deleted and differs from the desired one: it counts until it is deleted, and is not
    /// written.
    fn is_stuck(&self, role: &ObjectKey) -> bool {
        let is_right = |object: &Object| match (object, self.source(role)) {
            (Object::Copy(copy), Some((namespace, source))) => copy.is_of(namespace, source),
            _ => false,
        };
        self.object(role).is_some_and(|object| object.is_terminating() && !is_right(object))
    }
}
