//! The copies that a namespace should hold, and the writes for them (section 6.4 of docs/compatibility.md).

use std::collections::BTreeSet;

use super::place::{Decision, Place, Reach, is_forsaken, reach};
use super::{Action, CopyContent, HncAction, restrictions};
use crate::core::change::ObjectScope;
use crate::core::kind::{KindId, Mode, ObjectKey};
use crate::core::name::Name;
use crate::core::object::{Object, Source};
use crate::core::plan::Writes;
use crate::core::stream::Stream;
use crate::core::tree::Id;
use crate::dialects::Forest;

/// The writes of objects, and what else there is to say of them.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) writes: Writes<HncAction>,
    pub(super) settled: Vec<ObjectKey>,
    pub(super) conflicts: Vec<(ObjectKey, Box<str>)>,
    pub(super) unread: Vec<(Name, ObjectKey)>,
    /// Whether new rights must wait: bindings, and the initial admin.
    pub(super) rights_wait: bool,
}

/// The writes for the objects in `scope`. There are none in a namespace that is unmanaged or unknown, and none for kinds whose objects
/// are not all known. In one that is being deleted, nothing is created, so that bindings wait for no restriction. In a
/// frozen namespace, copies are only deleted, and only those that [`Reach::Frozen`] describes. Bindings, and the initial admin (`admin_comes`), come after all restrictions, which are planned in every scope.
pub(super) fn changes(forest: &Forest, id: Id, scope: &ObjectScope, admin_comes: bool) -> Changes {
    let mut changes = Changes { rights_wait: admin_comes, ..Changes::default() };
    if !forest.is_configured() || (*scope == ObjectScope::None && !admin_comes) {
        return changes;
    }
    let synced: BTreeSet<KindId> = forest
        .kinds()
        .filter(|(kind, settings)| {
            let stream = Stream::Kind(*kind);
            settings.mode != Mode::Ignore && forest.stream(stream).is_synced() && forest.is_verified(stream)
        })
        .map(|(kind, _)| kind)
        .collect();
    let is_known = |key: &ObjectKey| synced.contains(&key.kind);
    changes.ignored(forest, id, scope);
    let place = match reach(forest, id) {
        Reach::None => return changes,
        Reach::Frozen { forsakes, .. } => {
            changes.frozen(forest, id, forsakes, |key| is_known(key) && scope.includes(key));
            return changes;
        }
        Reach::Full(place) => place,
    };
    let awaits_roles = forest.awaits_roles();
    let waits = |key: &ObjectKey| awaits_roles && place.roles_of(key).next().is_some();
    for key in place.keys(scope).into_iter().filter(|key| is_known(key) && !waits(key)) {
        changes.add(&place, key);
    }
    let ends = forest.is_ending(id);
    let gains = admin_comes || !ends && !changes.writes.gained_bindings.is_empty();
    if gains {
        let others = restrictions::keys(&place).filter(|key| is_known(key) && !scope.includes(key));
        let others: BTreeSet<ObjectKey> = others.cloned().collect();
        for key in others {
            changes.add(&place, key);
        }
    }
    if !changes.unread.is_empty() {
        changes.writes.give_nothing_yet();
        return changes;
    }
    let is_role = |action: &Action| action.key().is_some_and(|key| forest.kind(key.kind).holds_rules());
    changes.writes.separate_changed_bindings(is_role, |action| place.changes_access(action));
    if ends {
        changes.writes.create_nothing();
    }
    let awaited = if gains { restrictions::first_awaited(&place) } else { None };
    changes.rights_wait =
        awaited.is_some_and(|first| changes.hold_bindings_back(&place, first) || admin_comes);
    changes
}

impl Changes {
    /// In a frozen namespace nothing is written, except that forsaken copies are deleted. Recorded failures are settled.
    fn frozen(
        &mut self,
        forest: &Forest,
        id: Id,
        parent_is_missing: bool,
        is_meant: impl Fn(&ObjectKey) -> bool,
    ) {
        let forsaken = |key: &ObjectKey| match forest.object(id, key) {
            Some(Object::Copy(copy)) if parent_is_missing && is_forsaken(forest, id, key, copy) => {
                Some(copy.version.get())
            }
            _ => None,
        };
        for (key, _) in forest.objects_at(id).filter(|(key, _)| is_meant(key)) {
            if let Some(version) = forsaken(key) {
                self.file(forest, key, Action::DeleteCopy { key: key.clone(), version });
            }
        }
        let failed = forest.failures(forest.name(id)).map(|(key, _)| key);
        self.settled.extend(failed.filter(|key| is_meant(key) && forsaken(key).is_none()).cloned());
    }

    /// A kind in mode `Ignore` needs no writes and has no conflicts.
    fn ignored(&mut self, forest: &Forest, id: Id, scope: &ObjectScope) {
        let is_ignored =
            |key: &&ObjectKey| forest.kind_settings(key.kind).is_some_and(|kind| kind.mode == Mode::Ignore);
        let failed = forest.failures(forest.name(id)).map(|(key, _)| key);
        self.settled.extend(failed.filter(is_ignored).filter(|key| scope.includes(key)).cloned());
    }

    fn add(&mut self, place: &Place<'_>, key: ObjectKey) {
        match place.decide(&key) {
            Decision::Leave => self.nothing(place, key),
            Decision::Delete(version) => {
                let version = version.get();
                self.file(place.forest, &key, Action::DeleteCopy { key: key.clone(), version });
            }
            Decision::Report(namespace) => self.conflict(place, key, namespace),
            Decision::Write(namespace, source) => {
                match write(key.clone(), (namespace, source), place.object(&key)) {
                    Some(action) => self.file(place.forest, &key, action),
                    None => self.unread.push((namespace.clone(), key)),
                }
            }
        }
    }

    /// This object needs no write.
    fn nothing(&mut self, place: &Place<'_>, key: ObjectKey) {
        if place.failure(&key).is_some() {
            self.settled.push(key);
        }
    }

    /// The object is kept, and the conflict is recorded.
    fn conflict(&mut self, place: &Place<'_>, key: ObjectKey, source: &Name) {
        let why = format!(
            "it is left as it is, although the one from namespace {source:?} should be in its place; rename or delete one of \
             the two"
        );
        let known = place.failure(&key).is_some_and(|known| known.is_conflict && *known.why == *why);
        if !known {
            self.conflicts.push((key, why.into()));
        }
    }

    fn file(&mut self, forest: &Forest, key: &ObjectKey, action: Action) {
        self.writes.file(forest.kind(key.kind), action);
    }

    /// Takes out the bindings that change access and come from a namespace at this distance from the root, or a greater one: they
    /// wait. Deletes their outdated copies. Returns whether a binding waits.
    fn hold_bindings_back(&mut self, place: &Place<'_>, first: usize) -> bool {
        let waits = |action: &Action| {
            place.changes_access(action)
                && action.source().is_none_or(|namespace| place.depth(namespace) >= first)
        };
        let (waiting, others): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.writes.gained_bindings).into_iter().partition(waits);
        self.writes.gained_bindings = others;
        let lost = waiting.iter().filter_map(|action| withdrawal(place, action));
        self.writes.lost_bindings.extend(lost);
        !waiting.is_empty()
    }
}

/// Deletes a copy of a Role or `RoleBinding` whose replacement must wait because it gives access. Until the replacement is written,
/// the access that the old copy gives must not remain. `None` for all other actions.
pub(super) fn withdrawal(place: &Place<'_>, action: &Action) -> Option<Action> {
    let Action::ReplaceCopy { key, version, .. } = action else { return None };
    let kind = place.forest.kind(key.kind);
    let gives_access = kind.binds_subjects() || kind.holds_rules();
    let is_copy = matches!(place.object(key), Some(Object::Copy(_)));
    (gives_access && is_copy && place.changes_access(action))
        .then(|| Action::DeleteCopy { key: key.clone(), version: version.clone() })
}

/// The deletion of a copy that cannot be replaced: of a Role or `RoleBinding` that gives other access than it should, and of an
/// object of a namespace that is not above any more, unless it restricts.
pub(super) fn after_refusal(place: &Place<'_>, action: &Action) -> Option<Action> {
    let withdrawal = withdrawal(place, action);
    let Action::ReplaceCopy { key, version, .. } = action else { return None };
    let Some(Object::Copy(copy)) = place.object(key) else { return None };
    let is_below_source = place.above.iter().any(|id| *place.forest.name(*id) == copy.inherited_from);
    let has_left = !is_below_source && !place.forest.kind(key.kind).restricts();
    withdrawal.or_else(|| has_left.then(|| Action::DeleteCopy { key: key.clone(), version: version.clone() }))
}

/// The write of a copy. `None` if the content of the source is not known, or only its digest: it cannot be copied yet.
fn write(key: ObjectKey, (namespace, source): (&Name, &Source), existing: Option<&Object>) -> Option<Action> {
    let content = source.content.as_ref()?;
    let content = CopyContent(content.canonical.clone()?, content.digest);
    let source = namespace.clone();
    Some(match existing {
        None => Action::CreateCopy { key, source, content },
        Some(object) => Action::ReplaceCopy { key, version: object.version().get(), source, content },
    })
}
