//! The copies that a namespace should hold, and the writes for them.

use std::collections::BTreeSet;

use super::place::{Decision, Place, Reach, reach};
use super::{AccurateAction, Action};
use crate::accurate::settings::Settings;
use crate::accurate::why::Frozen;
use crate::core::change::ObjectScope;
use crate::core::hop::Hop;
use crate::core::kind::{KindId, ObjectKey};
use crate::core::name::Name;
use crate::core::object::Object;
use crate::core::plan::{CopyContent, Writes};
use crate::core::stream::Stream;
use crate::core::tree::Id;
use crate::dialects::Forest;

/// The writes of objects, and what else there is to say of them.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) writes: Writes<AccurateAction>,
    pub(super) settled: Vec<ObjectKey>,
    pub(super) conflicts: Vec<(ObjectKey, Box<str>)>,
    pub(super) unread: Vec<(Name, ObjectKey)>,
}

/// The writes for the objects in `scope`. There are none for kinds whose objects are not all known, and none for bindings while
/// the Roles are not.
pub(super) fn changes(forest: &Forest, settings: &Settings, id: Id, scope: &ObjectScope) -> Changes {
    let mut changes = Changes::default();
    if !forest.is_configured() || *scope == ObjectScope::None {
        return changes;
    }
    let known: BTreeSet<KindId> = forest
        .kinds()
        .filter(|(kind, known)| {
            let stream = Stream::Kind(*kind);
            settings.watches(&known.kind) && forest.stream(stream).is_synced() && forest.is_verified(stream)
        })
        .map(|(kind, _)| kind)
        .collect();
    let upstream = match reach(forest, id) {
        Reach::From(_, upstream) => Some(upstream),
        Reach::Frozen(Frozen::NotLeading(..)) => forest.tree.hop(id).map(|edge| edge.upstream),
        _ => None,
    };
    let place = Place { forest, settings, id, upstream };
    let is_known = |key: &ObjectKey| known.contains(&key.kind);
    let waits = |key: &ObjectKey| place.role_of(key).is_some_and(|role| !is_known(&role));
    let keys: Vec<_> = place.keys(scope).into_iter().filter(|key| is_known(key) && !waits(key)).collect();
    match reach(forest, id) {
        Reach::None => {}
        Reach::Frozen(why) => {
            for key in keys {
                changes.frozen(&place, key, &why);
            }
        }
        Reach::Alone | Reach::From(..) => {
            for key in keys {
                changes.add(&place, key);
            }
            if changes.unread.is_empty() {
                let is_role =
                    |action: &Action| action.key().is_some_and(|key| forest.kind(key.kind).holds_rules());
                changes.writes.separate_changed_bindings(is_role, |action| place.changes_access(action));
                if forest.is_ending(id) {
                    changes.writes.create_nothing();
                }
            } else {
                changes.writes.give_nothing_yet();
            }
        }
    }
    changes
}

impl Changes {
    /// In a frozen namespace nothing is written, except that forsaken copies are deleted.
    fn frozen(&mut self, place: &Place<'_>, key: ObjectKey, why: &Frozen) {
        match place.object(&key).filter(|object| place.must_go(&key, object)) {
            Some(object) if is_forsaken(place, &key, object, why) => self.delete(place, key, object),
            _ => self.nothing(place, key),
        }
    }

    fn add(&mut self, place: &Place<'_>, key: ObjectKey) {
        match (place.decide(&key), place.object(&key)) {
            (Decision::Delete, Some(object)) => self.delete(place, key, object),
            (Decision::Leave | Decision::Delete, _) => self.nothing(place, key),
            (Decision::Report(upstream), _) => self.conflict(place, key, upstream),
            (Decision::Write(upstream, source), existing) => match write(&key, upstream, source, existing) {
                Some(action) => self.writes.file(place.forest.kind(key.kind), action),
                None => self.unread.push((upstream.clone(), key)),
            },
        }
    }

    fn delete(&mut self, place: &Place<'_>, key: ObjectKey, object: &Object) {
        let kind = place.forest.kind(key.kind);
        self.writes.file(kind, Action::DeleteCopy { key, version: object.version().get() });
    }

    /// This object needs no write.
    fn nothing(&mut self, place: &Place<'_>, key: ObjectKey) {
        if place.failure(&key).is_some() {
            self.settled.push(key);
        }
    }

    /// The object is kept, and the conflict is recorded.
    fn conflict(&mut self, place: &Place<'_>, key: ObjectKey, upstream: &Name) {
        let why = format!(
            "it is left as it is, although the one from namespace {upstream:?} should be in its place; rename or delete one of the \
             two, or set the annotation {}={upstream} of the one in namespace {:?} to have it replaced",
            crate::accurate::keys::FROM,
            &**place.forest.name(place.id)
        );
        let known = place.failure(&key).is_some_and(|known| known.is_conflict && *known.why == *why);
        if !known {
            self.conflicts.push((key, why.into()));
        }
    }
}

/// Whether the source of a copy in a frozen namespace was deleted with its namespace. While that is being deleted, users can hold up
/// its deletion, and remove the labels by which it leads. So a binding goes when it is withdrawn there, or changes, or its Role does:
/// nothing writes the Role here.
fn is_forsaken(place: &Place<'_>, key: &ObjectKey, object: &Object, why: &Frozen) -> bool {
    let Some(from) = object.hop().and_then(|hop| hop.from.as_ref()) else { return false };
    let binds = place.forest.kind(key.kind).binds_subjects();
    let upstream = || place.forest.tree.hop(place.id).map(|edge| place.forest.name(edge.upstream));
    match why {
        Frozen::Crossed(_) => false,
        // Nothing here follows a source in the former place any more, so a binding from there would stay when it is withdrawn.
        _ if binds && upstream().is_some_and(|upstream| from != upstream) => true,
        Frozen::Missing(_) => !place.forest.has_seen(from),
        Frozen::NotLeading(_, upstream) => {
            from == upstream
                && place.upstream.is_some_and(|id| place.forest.is_ending(id))
                && binds
                && (!matches!(place.decide(key), Decision::Leave)
                    || place.role_of(key).is_some_and(|role| !place.has_the_same(&role)))
        }
        Frozen::Cycle => false,
    }
}

/// The write of a copy. `None` if the content of the source is not known, or only its digest.
fn write(key: &ObjectKey, upstream: &Name, source: &Hop, existing: Option<&Object>) -> Option<Action> {
    let content = source.content.as_ref()?;
    let content = CopyContent(content.canonical.clone()?, content.digest);
    let (key, source) = (key.clone(), upstream.clone());
    Some(match existing {
        None => Action::CreateCopy { key, source, content },
        Some(object) => Action::ReplaceCopy { key, version: object.version().get(), source, content },
    })
}
