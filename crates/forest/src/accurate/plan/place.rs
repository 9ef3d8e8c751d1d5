//! What a namespace gets from its upstream namespace, and the decision about each object in it (sections 8.3 to 8.5 of Accurate's
//! contract).

use std::collections::BTreeSet;

use super::Action;
use crate::accurate::place::Labelled;
use crate::accurate::settings::Settings;
use crate::accurate::state::labels_of;
use crate::accurate::why::Frozen;
use crate::core::change::ObjectScope;
use crate::core::hop::{Hop, HopMode};
use crate::core::kind::ObjectKey;
use crate::core::name::Name;
use crate::core::object::{Object, Source, is_name_unfit};
use crate::core::store::Failure;
use crate::core::tree::{EdgeKind, Id};
use crate::dialects::Forest;

/// How far propagation reaches a namespace.
pub(crate) enum Reach {
    /// It is unmanaged or unknown: nothing is written there.
    None,
    /// Nothing is written there, with three exceptions. Copies of bindings from another namespace than the upstream namespace are deleted.
    /// If that is missing, copies whose source was deleted with its namespace are deleted, unless they restrict. If it is being deleted,
    /// copies of bindings whose source is withdrawn or changed there are deleted.
    Frozen(Frozen),
    /// It has no upstream namespace: the copies in it are out of date.
    Alone,
    /// Objects and labels come from the upstream namespace. If it is being deleted, copies are changed and deleted, and nothing else is
    /// written.
    From(EdgeKind, Id),
}

/// How far propagation reaches this namespace. It is frozen if it is in a cycle, if its upstream namespace does not exist or
/// cannot be one, or if one of the two is in another hierarchy, too. One that has passed to the other hierarchy is frozen while a
/// namespace above it there is in both: its copies go when those of the other hierarchy can come.
pub(crate) fn reach(forest: &Forest, id: Id) -> Reach {
    if !forest.is_managed(id) || forest.namespace(id).is_none() {
        return Reach::None;
    }
    let is_crossed = |id| forest.tree.is_crossed(id);
    let name = |id| forest.name(id).clone();
    if is_crossed(id) {
        return Reach::Frozen(Frozen::Crossed(name(id)));
    }
    let Some(edge) = forest.tree.hop(id) else {
        let halted = forest.tree.halted_root(id).filter(|root| is_crossed(*root));
        return halted.map_or(Reach::Alone, |root| Reach::Frozen(Frozen::Crossed(name(root))));
    };
    let upstream = edge.upstream;
    if forest.namespace(upstream).is_none() {
        Reach::Frozen(Frozen::Missing(name(upstream)))
    } else if !labels_of(forest, upstream).leads(edge.kind) {
        Reach::Frozen(Frozen::NotLeading(edge.kind, name(upstream)))
    } else if is_crossed(upstream) {
        Reach::Frozen(Frozen::Crossed(name(upstream)))
    } else if forest.tree.is_in_hop_cycle(id) {
        Reach::Frozen(Frozen::Cycle)
    } else {
        Reach::From(edge.kind, upstream)
    }
}

/// The decision about one object.
pub(crate) enum Decision<'a> {
    /// No write: it is as desired, or left alone.
    Leave,
    /// Delete the copy.
    Delete,
    /// Keep the user's own object, although the source in this namespace should replace it, and report it.
    Report(&'a Name),
    /// Write a copy of the source in this namespace.
    Write(&'a Name, &'a Hop),
}

/// A namespace and its upstream namespace.
pub(crate) struct Place<'a> {
    pub(super) forest: &'a Forest,
    pub(super) settings: &'a Settings,
    pub(super) id: Id,
    pub(super) upstream: Option<Id>,
}

impl<'a> Place<'a> {
    /// The place of a namespace in any state; `None` while Accurate's API is off.
    pub(crate) fn of(forest: &'a Forest, namespace: &str) -> Option<Self> {
        let (settings, id) = (forest.accurate().settings()?, forest.id(namespace)?);
        Some(Self { forest, settings, id, upstream: forest.tree.hop(id).map(|edge| edge.upstream) })
    }

    /// Every object that says something here or upstream, or has a recorded failure; for each binding, also the Role that must be
    /// written before it.
    pub(super) fn keys(&self, scope: &ObjectScope) -> BTreeSet<ObjectKey> {
        match scope {
            ObjectScope::None => BTreeSet::new(),
            ObjectScope::Some(keys) => {
                keys.iter().filter_map(|key| self.role_of(key)).chain(keys.iter().cloned()).collect()
            }
            ObjectScope::All => {
                let namespaces = self.upstream.into_iter().chain([self.id]);
                let speaking = namespaces
                    .flat_map(|id| self.forest.objects_at(id))
                    .filter(|(_, object)| object.hop().is_some());
                let failed = self.forest.accurate().failures(self.forest.name(self.id));
                speaking.map(|(key, _)| key).chain(failed.map(|(key, _)| key)).cloned().collect()
            }
        }
    }

    /// The decision about this object. What a user does to a copy does not disturb the copies of it.
    pub(crate) fn decide(&self, key: &ObjectKey) -> Decision<'a> {
        match self.compared(key) {
            Decision::Delete | Decision::Write(..) if self.is_ahead(key) => Decision::Leave,
            decision => decision,
        }
    }

    /// Whether the copy here equals what is to be written in the place of its source.
    fn is_ahead(&self, key: &ObjectKey) -> bool {
        let copy = self.object(key).filter(|object| is_followed(object)).and_then(Object::hop);
        let (Some(copy), Some(upstream)) = (copy, self.upstream) else { return false };
        let Reach::From(_, further) = reach(self.forest, upstream) else { return false };
        let above = Place { id: upstream, upstream: Some(further), ..*self };
        let role_is_the_same = || above.role_of(key).is_none_or(|role| self.role_is_the_same(&role));
        matches!(above.compared(key), Decision::Write(_, source) if copy.is_of(self.forest.name(upstream), source))
            && role_is_the_same()
    }

    /// The decision by what is in the two namespaces now.
    fn compared(&self, key: &ObjectKey) -> Decision<'a> {
        let here = self.object(key);
        let Some((upstream, source)) = self.source(key) else {
            return match here {
                Some(object) if self.must_go(key, object) => Decision::Delete,
                _ => Decision::Leave,
            };
        };
        let ends = self.forest.is_ending(self.id);
        let Some(object) = here else {
            return if ends { Decision::Leave } else { Decision::Write(upstream, source) };
        };
        let hop = object.hop();
        if hop.is_some_and(|hop| hop.is_of(upstream, source)) {
            return Decision::Leave;
        }
        match source.mode {
            // A copy that its source kept equal until now becomes one that is left alone.
            Some(HopMode::Create) if is_followed(object) => Decision::Write(upstream, source),
            Some(HopMode::Update) => {
                let is_copy = |hop: &Hop| hop.from.as_ref() == Some(upstream) || hop.is_tampered();
                if is_followed(object) || hop.is_some_and(is_copy) || self.overwrites(key) {
                    Decision::Write(upstream, source)
                } else if object.is_terminating() || ends {
                    Decision::Leave
                } else {
                    Decision::Report(upstream)
                }
            }
            _ => Decision::Leave,
        }
    }

    /// Whether a copy that is kept equal to its source goes without one. A Role or a binding gives access until it is gone, so one
    /// that is being deleted is freed from what holds it.
    pub(super) fn must_go(&self, key: &ObjectKey, object: &Object) -> bool {
        is_followed(object)
            && (!object.is_terminating() || self.forest.kind(key.kind).is_rbac())
            && !self.forest.outlasts_its_source(self.id, key)
            && !self.outlasts_its_upstream(key)
    }

    /// Whether this copy restricts, and the upstream namespace is missing or being deleted, with all that comes through it from further
    /// up. Deleting a namespace must not free those below it.
    fn outlasts_its_upstream(&self, key: &ObjectKey) -> bool {
        let upstream = self.forest.tree.hop(self.id).map(|edge| edge.upstream);
        let goes = upstream.is_some_and(|id| self.forest.lasting_namespace(id).is_none());
        goes && self.forest.kind(key.kind).restricts()
    }

    /// Whether a user's own object is overwritten. A user must not escape a restriction by taking its name.
    fn overwrites(&self, key: &ObjectKey) -> bool {
        self.settings.overwrite_own_objects || self.forest.kind(key.kind).restricts()
    }

    /// The source of this object upstream. A binding is a source only where its Role has the same rules.
    fn source(&self, key: &ObjectKey) -> Option<(&'a Name, &'a Hop)> {
        let (source, hop) = self.asking(key)?;
        let role = source.role.as_ref();
        (role.is_none() || self.role_is_the_same(&self.role_of(key)?))
            .then_some((self.forest.name(self.upstream?), hop))
    }

    /// The object upstream that asks to be copied.
    fn asking(&self, key: &ObjectKey) -> Option<(&'a Source, &'a Hop)> {
        let source = self.forest.source(self.upstream?, key).filter(|_| !is_name_unfit(&key.name))?;
        Some((source, source.hop.as_deref().filter(|hop| hop.is_source())?))
    }

    /// The Role that the binding of this name upstream refers to. `None` also if Roles are not propagated.
    pub(crate) fn role_of(&self, key: &ObjectKey) -> Option<ObjectKey> {
        let (binding, _) = self.asking(key)?;
        let (kind, name) = (self.forest.role_kind()?, binding.role.clone()?);
        self.settings.watches(self.forest.kind(kind)).then_some(ObjectKey { kind, name })
    }

    /// Whether this Role is, or becomes with this plan, a copy of the one upstream with the same rules: other rules would give other
    /// rights.
    pub(crate) fn role_is_the_same(&self, role: &ObjectKey) -> bool {
        matches!(self.compared(role), Decision::Write(..)) || self.has_the_same(role)
    }

    /// Whether this Role is a copy of the one upstream with the same rules now.
    pub(super) fn has_the_same(&self, role: &ObjectKey) -> bool {
        let is_equal = || {
            let (upstream, source) = self.source(role)?;
            Some(self.object(role)?.hop()?.has_the_body_of(upstream, source))
        };
        is_equal() == Some(true) || self.is_ahead(role)
    }

    pub(super) fn failure(&self, key: &ObjectKey) -> Option<&'a Failure> {
        self.forest.accurate().failure(self.forest.name(self.id), key)
    }

    pub(crate) fn object(&self, key: &ObjectKey) -> Option<&'a Object> {
        self.forest.object(self.id, key)
    }

    /// Whether writing a Role or a binding changes what a user may do.
    pub(super) fn changes_access(&self, action: &Action) -> bool {
        let body = |object: &Object| object.hop()?.content.as_ref().map(|content| content.body_digest);
        action.changes_access(|key| self.object(key).and_then(body))
    }

    /// Deletes a copy of a Role or a binding whose replacement must wait because it gives access.
    pub(super) fn withdrawal(&self, action: &Action) -> Option<Action> {
        let Action::ReplaceCopy { key, version, .. } = action else { return None };
        let is_copy = self.from(key).is_some();
        (is_copy && self.forest.kind(key.kind).is_rbac() && self.changes_access(action))
            .then(|| Action::DeleteCopy { key: key.clone(), version: version.clone() })
    }

    /// Deletes a copy that cannot be replaced, and gives other access than it should or comes from another namespace.
    pub(super) fn after_refusal(&self, action: &Action) -> Option<Action> {
        let Action::ReplaceCopy { key, version, .. } = action else { return None };
        let from = self.from(key)?;
        let has_left = self.upstream.is_none_or(|upstream| self.forest.name(upstream) != from)
            && !self.forest.kind(key.kind).restricts();
        self.withdrawal(action)
            .or_else(|| has_left.then(|| Action::DeleteCopy { key: key.clone(), version: version.clone() }))
    }

    /// The namespace that a copy here names as that of its source.
    fn from(&self, key: &ObjectKey) -> Option<&'a Name> {
        self.object(key)?.hop()?.from.as_ref()
    }
}

pub(super) fn is_followed(object: &Object) -> bool {
    object.hop().is_some_and(Hop::is_followed)
}
