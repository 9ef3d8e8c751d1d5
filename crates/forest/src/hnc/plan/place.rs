//! What a namespace inherits, and the decision about each object in it (section 6.4 of docs/compatibility.md).

mod roles;

use std::collections::BTreeSet;

use super::{Action, wanted_labels};
use crate::core::change::ObjectScope;
use crate::core::kind::ObjectKey;
use crate::core::name::Name;
use crate::core::object::{Copy, Object, Source};
use crate::core::store::Failure;
use crate::core::tree::Id;
use crate::core::version::CompactVersion;
use crate::dialects::Forest;
use crate::hnc::condition::Halt;
use crate::hnc::exceptions::Withheld;

/// How far propagation reaches a namespace.
pub(crate) enum Reach<'a> {
    /// It is unmanaged or unknown: nothing is written there.
    None,
    /// It is frozen: it is halted (it has a fault of its own), or an ancestor is halted. `root` is the nearest halted namespace.
    /// No copy is written or deleted there, with one exception (`forsakes`): if the parent of `root` is missing, copies are deleted
    /// that are forsaken ([`is_forsaken`]).
    Frozen { root: Id, forsakes: bool },
    /// Propagation works as usual, but for one that is being deleted: there copies are changed and deleted, and none is created.
    /// Pods may run in it for as long as a user likes, with the rights and restrictions that the copies give. So restrictions stay.
    Full(Place<'a>),
}

/// How far propagation reaches this namespace.
pub(crate) fn reach(forest: &Forest, id: Id) -> Reach<'_> {
    if !forest.is_managed(id) || forest.namespace(id).is_none() {
        return Reach::None;
    }
    match forest.halted_at(id) {
        Some(root) => {
            let forsakes = match forest.own_halt(root) {
                Some(Halt::ParentMissing(_)) => true,
                Some(Halt::IllegalParent { is_missing, .. }) => is_missing,
                _ => false,
            };
            Reach::Frozen { root, forsakes }
        }
        None => Reach::Full(Place::of(forest, id)),
    }
}

/// Whether the source of a copy was deleted with its namespace. A binding gives access, so that it is enough if its source was deleted.
/// A Role or a binding gives access until it is gone, so one that is being deleted is freed from what holds it.
pub(crate) fn is_forsaken(forest: &Forest, id: Id, key: &ObjectKey, copy: &Copy) -> bool {
    let is_gone = |namespace: Id| {
        forest.namespace(namespace).is_none()
            || forest.kind(key.kind).binds_subjects()
                && forest.is_managed(namespace)
                && forest.object(namespace, key).is_none()
    };
    let goes = copy.terminating && !forest.kind(key.kind).is_rbac();
    let stays = goes || forest.outlasts_its_source(id, key);
    forest.id(&copy.inherited_from).is_none_or(is_gone) && !stays
}

/// The decision about one object in a namespace that is not frozen.
pub(crate) enum Decision<'a> {
    /// No write: it is as desired, or it or its namespace is being deleted.
    Leave,
    /// Delete the copy.
    Delete(&'a CompactVersion),
    /// Keep the object, although the source in this namespace should replace it, and report it.
    Report(&'a Name),
    /// Write a copy of the source in this namespace.
    Write(&'a Name, &'a Source),
}

/// A namespace and its ancestors, the root first.
pub(crate) struct Place<'a> {
    pub(super) forest: &'a Forest,
    pub(super) id: Id,
    pub(super) above: Vec<Id>,
}

impl<'a> Place<'a> {
    /// Every object that exists here, may be inherited, or has a recorded failure; for each binding, also the Roles that must be
    /// written before it.
    pub(super) fn keys(&self, scope: &ObjectScope) -> BTreeSet<ObjectKey> {
        match scope {
            ObjectScope::None => BTreeSet::new(),
            ObjectScope::Some(keys) => {
                let roles = keys.iter().flat_map(|key| self.roles_of(key));
                roles.chain(keys.iter().cloned()).collect()
            }
            ObjectScope::All => {
                let here = self.forest.objects_at(self.id).map(|(key, _)| key);
                let above = self.above.iter().flat_map(|id| self.forest.objects_at(*id));
                let sources = above.filter(|(_, object)| object.source().is_some()).map(|(key, _)| key);
                here.chain(sources).chain(self.failed()).cloned().collect()
            }
        }
    }

    /// The place of a namespace in any state.
    pub(crate) fn of(forest: &'a Forest, id: Id) -> Self {
        let mut above = forest.path(id);
        above.remove(0);
        above.reverse();
        Self { forest, id, above }
    }

    /// The distance of a namespace from the root: this one or one above. 0 for all others.
    pub(super) fn depth(&self, namespace: &Name) -> usize {
        let mut path = self.above.iter().chain([&self.id]);
        path.position(|id| self.forest.name(*id) == namespace).unwrap_or_default()
    }

    /// The sources of this name above, top-most first, each with the reason why it does not propagate here.
    pub(crate) fn candidates(
        &self,
        key: &ObjectKey,
    ) -> impl Iterator<Item = (&'a Name, &'a Source, Result<(), Withheld>)> {
        let (forest, here) = (self.forest, self.id);
        let settings = forest.kind_settings(key.kind);
        let label = wanted_labels(forest, here);
        self.above.iter().filter_map(move |id| {
            let source = forest.source(*id, key)?;
            let goes = source.goes_to(settings?, &key.name, &label);
            Some((forest.name(*id), source, goes.and_then(|()| self.grants_the_same(*id, source))))
        })
    }

    /// The decision about this object: it should be a copy of the top-most eligible source.
    pub(crate) fn decide(&self, key: &ObjectKey) -> Decision<'a> {
        let decision = self.compared(key);
        let is_left = match decision {
            Decision::Write(..) => self.object(key).is_none(),
            Decision::Report(_) => true,
            Decision::Delete(_) => self.forest.outlasts_its_source(self.id, key),
            Decision::Leave => false,
        };
        if is_left && self.forest.is_ending(self.id) { Decision::Leave } else { decision }
    }

    /// The decision in a namespace that is not being deleted.
    fn compared(&self, key: &ObjectKey) -> Decision<'a> {
        let source = self.source(key);
        let gives_access =
            |object: &Object| matches!(object, Object::Copy(_)) && self.forest.kind(key.kind).is_rbac();
        match (source, self.object(key)) {
            // An object that is being deleted is replaced too: otherwise a finalizer could keep it. It may also be a copy from
            // another namespace, or only claim to be a copy.
            (Some((namespace, source)), Some(object))
                if object.is_terminating()
                    && (!self.kind_keeps_own_objects(key) || gives_access(object))
                    && !object.is_copy_of(namespace, source) =>
            {
                Decision::Write(namespace, source)
            }
            // A copy without a source that gives access is freed from what holds it.
            (source, Some(object))
                if object.is_terminating() && (source.is_some() || !gives_access(object)) =>
            {
                Decision::Leave
            }
            (None, Some(Object::Copy(copy))) => Decision::Delete(&copy.version),
            (None, _) => Decision::Leave,
            (Some((namespace, source)), Some(object)) if object.is_copy_of(namespace, source) => {
                Decision::Leave
            }
            (Some((namespace, _)), Some(Object::Source(_))) if self.kind_keeps_own_objects(key) => {
                Decision::Report(namespace)
            }
            (Some((namespace, source)), _) => Decision::Write(namespace, source),
        }
    }

    /// The namespace of the source that is in conflict with a user's own object here, if that object is kept.
    pub(crate) fn conflicting_source(&self, key: &ObjectKey) -> Option<&'a Name> {
        if let Decision::Report(source) = self.decide(key) { Some(source) } else { None }
    }

    /// Whether a user's own object is kept here although a source above propagates here. This function ignores which Role a
    /// binding refers to: the webhook knows only the metadata of objects, and metadata does not name the Role.
    pub(crate) fn keeps_own_object(&self, key: &ObjectKey) -> bool {
        let is_own = |object: &Object| matches!(object, Object::Source(own) if !own.terminating);
        let should_come = |goes: Result<(), Withheld>| match goes {
            Ok(()) | Err(Withheld::OtherRole { .. } | Withheld::RoleTerminating(_)) => true,
            Err(_) => false,
        };
        self.kind_keeps_own_objects(key)
            && self.object(key).is_some_and(is_own)
            && self.candidates(key).any(|(_, _, goes)| should_come(goes))
    }

    pub(super) fn source(&self, key: &ObjectKey) -> Option<(&'a Name, &'a Source)> {
        let (namespace, source, _) = self.candidates(key).find(|(_, _, goes)| goes.is_ok())?;
        Some((namespace, source))
    }

    pub(super) fn failed(&self) -> impl Iterator<Item = &ObjectKey> {
        self.forest.failures(self.forest.name(self.id)).map(|(key, _)| key)
    }

    pub(super) fn failure(&self, key: &ObjectKey) -> Option<&'a Failure> {
        self.forest.failure(self.forest.name(self.id), key)
    }

    /// Whether users' own objects of this kind are kept.
    pub(super) fn kind_keeps_own_objects(&self, key: &ObjectKey) -> bool {
        !self.forest.on_conflict(key.kind).replaces()
    }

    pub(super) fn object(&self, key: &ObjectKey) -> Option<&'a Object> {
        self.forest.object(self.id, key)
    }

    /// Whether writing a Role or a binding changes what a user may do.
    pub(super) fn changes_access(&self, action: &Action) -> bool {
        action.changes_access(|key| self.object(key).and_then(Object::digests).map(|(_, body)| body))
    }
}
