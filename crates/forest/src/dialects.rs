//! The forest: everything that is observed, of the core and of each dialect, for rules and plans to read.
//!
//! This is the table of dialects. To add one, add a field to [`Forest`], a variant to [`Fact`], and a call beside each existing
//! one.

#[cfg(test)]
mod late_tests;
#[cfg(test)]
mod links_tests;
#[cfg(test)]
mod matching_tests;
mod neighbours;

use std::ops::Deref;
use std::sync::Arc;

use crate::accurate;
use crate::core::change::Change;
use crate::core::content::Digest;
use crate::core::kind::{Kind, KindId, KindSettings, Mode, ObjectKey};
use crate::core::name::Name;
use crate::core::namespace::{Applied, NamespaceFact};
use crate::core::object::ObjectFact;
use crate::core::store::{Failure, Lag, Listing, NamespacedName, Store, Unverified};
use crate::core::stream::Stream;
use crate::core::tree::{Ancestry, EdgeKind};
use crate::core::version::Version;
use crate::hnc;
use crate::hnc::settings::Settings;

/// A fact: an observed object, a deletion, a complete list, or the outcome of a write.
#[derive(Debug, Clone)]
pub enum Fact {
    /// A namespace was seen.
    Namespace(NamespaceFact),
    /// A namespace was deleted. Ignored if its uid is another.
    NamespaceGone(Name, Box<str>),
    /// These are all the namespaces there are.
    Namespaces(Vec<NamespaceFact>),
    /// These kinds are propagated, with this configuration, and no others.
    Kinds(Vec<KindSettings>),
    /// An object was seen.
    Object(KindId, ObjectFact),
    /// An object was deleted: namespace, name, uid. Ignored if its uid is another.
    ObjectGone(KindId, Name, Name, Box<str>),
    /// These are all the objects of the kind there are.
    Objects(KindId, Vec<ObjectFact>),
    /// These complete lists are verified: the streams of the structure have reported everything in lists that were read later.
    Verified(Unverified),
    /// A list cannot be read; the text says why.
    StreamLost(Stream, Box<str>),
    /// Writing or removing a copy in this namespace failed; the text is the API server's.
    WriteFailed(Name, ObjectKey, Box<str>),
    /// An object in this namespace is left as it is although a source from above should replace it; the text says why.
    Conflict(Name, ObjectKey, Box<str>),
    /// A copy in this namespace was written or removed, or needs neither any more.
    WriteSettled(Name, ObjectKey),
    /// The API server was given content with this digest, and stored this state of the copy: the difference needs no write.
    /// Ignored if another state is known by then, because another client has changed the copy.
    Accepted(Name, ObjectKey, Version, Digest),
    /// A fact about HNC's own objects.
    Hnc(hnc::Fact),
    /// A fact about Accurate's own objects. Ignored while its API is off.
    Accurate(accurate::Fact),
}

impl From<accurate::Fact> for Fact {
    fn from(fact: accurate::Fact) -> Self {
        Self::Accurate(fact)
    }
}

impl From<hnc::Fact> for Fact {
    fn from(fact: hnc::Fact) -> Self {
        Self::Hnc(fact)
    }
}

/// Everything that is known of the hierarchy.
///
/// [`Forest::apply`] is the only way to change it. Guarantee: the answers depend on the last fact about each object, not on the
/// order of the facts. A fact about an older state of an object than the known one is ignored, and so is a fact about a deleted
/// object, unless a complete list shows the object.
#[derive(Debug)]
pub struct Forest {
    store: Store,
    hnc: hnc::State,
    accurate: accurate::state::State,
}

/// What does not depend on a dialect.
impl Deref for Forest {
    type Target = Store;

    fn deref(&self) -> &Store {
        &self.store
    }
}

impl Forest {
    /// An empty forest that propagates `kinds`, and knows that these are all.
    pub fn new(settings: Arc<Settings>, kinds: Vec<Kind>) -> Self {
        let mut forest = Self::unconfigured(settings);
        let kinds = kinds.into_iter().map(|kind| KindSettings::new(kind, Mode::Propagate));
        forest.apply(Fact::Kinds(kinds.collect()));
        forest
    }

    /// An empty forest that does not know yet which kinds are propagated ([`Fact::Kinds`]). Until then it plans nothing about
    /// objects.
    pub fn unconfigured(settings: Arc<Settings>) -> Self {
        let mut store = Store::new(settings.namespaces().clone(), hnc::LAYOUT);
        store.tree.sums_matter_above(settings.hierarchical_quotas);
        Self { store, hnc: hnc::State::new(settings), accurate: accurate::state::State::default() }
    }

    /// The same empty forest with Accurate's API on.
    #[must_use]
    pub fn with_accurate(mut self, settings: Arc<accurate::Settings>) -> Self {
        self.accurate.enable(settings);
        self
    }

    /// The same forest; its plans use a complete list only when it is verified ([`Fact::Verified`]).
    #[must_use]
    pub fn with_verified_lists(mut self) -> Self {
        self.store.require_verified_lists();
        self
    }

    /// The settings of Accurate's API; `None` if it is off.
    pub fn accurate_settings(&self) -> Option<&Arc<accurate::Settings>> {
        self.accurate.settings()
    }

    /// The same, if all `SubNamespaces` are known: without them, nothing of Accurate's API can be judged or planned.
    pub fn known_accurate(&self) -> Option<&Arc<accurate::Settings>> {
        self.accurate_settings().filter(|_| self.store.stream(Stream::SUB_NAMESPACES).is_synced())
    }

    /// The parent or template of a namespace in Accurate's hierarchy.
    pub fn accurate_upstream(&self, namespace: &str) -> Option<&Name> {
        let edge = self.tree.hop(self.store.id(namespace)?)?;
        Some(self.store.name(edge.upstream))
    }

    /// The members of the cycle of parents and templates that the namespace is in: the smallest name first, each below the next.
    pub fn accurate_cycle(&self, namespace: &str) -> Option<Vec<Name>> {
        let Ancestry { path, repeats_at: Some(0) } = self.tree.hop_ancestry(self.store.id(namespace)?) else {
            return None;
        };
        let mut members: Vec<Name> = path.into_iter().map(|id| self.store.name(id).clone()).collect();
        let smallest = (0..members.len()).min_by_key(|at| &members[*at])?;
        members.rotate_left(smallest);
        Some(members)
    }

    /// Whether this `SubNamespace` exists, if it is being deleted or not.
    pub fn has_sub_namespace(&self, parent: &str, child: &str) -> bool {
        self.store.id(parent).is_some_and(|id| self.accurate.sub_namespaces(id).contains_key(child))
    }

    /// Whether [`Forest::accurate_upstream`] is the parent or the template.
    pub fn accurate_edge(&self, namespace: &str) -> Option<EdgeKind> {
        Some(self.tree.hop(self.store.id(namespace)?)?.kind)
    }

    /// The parent of a namespace in Accurate's hierarchy.
    pub fn accurate_parent(&self, namespace: &str) -> Option<&Name> {
        self.accurate_upstream(namespace).filter(|_| self.accurate_edge(namespace) == Some(EdgeKind::Parent))
    }

    /// What is known of HNC's own objects.
    pub(crate) fn hnc(&self) -> &hnc::State {
        &self.hnc
    }

    /// What is known of Accurate's own objects.
    pub(crate) fn accurate(&self) -> &accurate::state::State {
        &self.accurate
    }

    /// Whether the last writes of this object failed.
    pub fn has_failed(&self, namespace: &Name, key: &ObjectKey) -> bool {
        let failure = self.accurate.failure(namespace, key);
        self.store.has_failed(namespace, key) || failure.is_some_and(|failure| !failure.is_conflict)
    }

    /// Treats every quota as in force.
    pub(crate) fn put_in_force(&mut self) {
        self.store.put_in_force();
    }

    /// Applies a fact and returns what it touched.
    pub fn apply(&mut self, fact: impl Into<Fact>) -> Change {
        let (fact, mut change) = (fact.into(), Change::default());
        if !self.comes_late(&fact) {
            self.take(fact, &mut change);
        }
        self.hnc.touch_holders(&self.store, &mut change);
        self.accurate.touch_holders(&self.store, &mut change);
        self.store.touch_dependents(&mut change);
        self.touch_waiting(&mut change);
        self.store.trim(&change);
        change
    }

    fn take(&mut self, fact: Fact, change: &mut Change) {
        let store = &mut self.store;
        match fact {
            Fact::Hnc(fact) => self.hnc.apply(store, fact, change),
            Fact::Accurate(fact) => self.accurate.apply(store, fact, change),
            Fact::Namespace(seen) => self.observe_namespace(seen, change),
            Fact::NamespaceGone(name, uid) => self.forget_namespace(&name, &uid, change),
            Fact::Namespaces(all) => self.list_namespaces(all, change),
            Fact::Verified(lists) => store.verified(&lists, change),
            Fact::Kinds(kinds) => store.configure(kinds, change),
            // A stream may still deliver objects of a kind that is no longer configured.
            Fact::Object(kind, ..) | Fact::ObjectGone(kind, ..) | Fact::Objects(kind, ..)
                if store.kind_settings(kind).is_none() => {}
            // The response to a write may also arrive so late. Its failure would never be settled.
            Fact::WriteFailed(_, ref key, _) | Fact::Conflict(_, ref key, _)
                if store.kind_settings(key.kind).is_none() => {}
            Fact::Object(kind, seen) => store.observe_object(kind, seen, change),
            Fact::ObjectGone(kind, namespace, name, uid) => {
                store.forget_object(&namespace, &ObjectKey { kind, name }, &uid, change);
            }
            Fact::Objects(kind, all) => store.list_objects(kind, all, change),
            Fact::StreamLost(stream, why) => {
                store.stream_lost(stream, why);
                self.hnc.doubt_lost(store, stream);
            }
            Fact::WriteFailed(namespace, key, why) => {
                self.failed(namespace, key, Failure { why, is_conflict: false }, change);
            }
            Fact::Conflict(namespace, key, why) => {
                self.failed(namespace, key, Failure { why, is_conflict: true }, change);
            }
            Fact::WriteSettled(namespace, key) => {
                if !self.accurate.settled(&namespace, &key, change) {
                    store.settled(&namespace, &key, change);
                }
            }
            Fact::Accepted(namespace, key, version, given) => {
                store.accepted(&namespace, &key, &version, given, change);
            }
        }
    }

    /// Each dialect sees only the failures of its own writes.
    fn failed(&mut self, namespace: Name, key: ObjectKey, failure: Failure, change: &mut Change) {
        if self.accurate.writes(&self.store, &namespace, &key) {
            self.accurate.failed(&self.store, namespace, key, failure, change);
        } else {
            self.store.failed(namespace, key, failure, change);
        }
    }

    /// Whether the fact is about a state of an object that is already deleted.
    fn comes_late(&self, fact: &Fact) -> bool {
        let version = match fact {
            Fact::Namespace(seen) => &seen.version,
            Fact::Object(_, seen) => &seen.version,
            Fact::Hnc(fact) => return fact.seen().is_some_and(|seen| self.store.has_departed(&seen.uid)),
            Fact::Accurate(fact) => {
                return fact.seen().is_some_and(|seen| self.store.has_departed(&seen.uid));
            }
            _ => return false,
        };
        self.store.has_departed(&version.uid)
    }

    fn observe_namespace(&mut self, mut seen: NamespaceFact, change: &mut Change) {
        let Self { store, hnc, accurate } = self;
        if store.knows_namespace(&seen) {
            return;
        }
        let (name, is_new) = (seen.name.clone(), !store.has_seen(&seen.name));
        let known = store.id(&name);
        let before = known.map(|id| hnc.standing(store, id)).unwrap_or_default();
        let in_accurate = known.map(|id| accurate.standing(store, id)).unwrap_or_default();
        hnc.reduce(&mut seen, |annotation| accurate.reads(annotation));
        let applied = std::mem::take(&mut seen.applied);
        let id = store.tree.put_namespace(seen);
        accurate.namespace_changed(store, id, &in_accurate, applied, change);
        hnc.namespace_changed(store, id, &before, change);
        if is_new {
            store.touch_orphans_of(&name, change);
        }
    }

    fn forget_namespace(&mut self, name: &Name, uid: &str, change: &mut Change) {
        let Self { store, hnc, accurate } = self;
        store.departed(uid);
        let known = store.id(name).and_then(|id| Some((id, store.namespace(id)?)));
        if let Some((id, _)) = known.filter(|(_, seen)| seen.version.has_uid(uid)) {
            store.tree.pin(name);
            let before = hnc.standing(store, id);
            let in_accurate = accurate.standing(store, id);
            hnc.namespace_gone(store, id, change);
            store.tree.take_namespace(id);
            accurate.namespace_changed(store, id, &in_accurate, Applied::default(), change);
            hnc.namespace_changed(store, id, &before, change);
            store.tree.unpin(id);
            store.touch_orphans_of(name, change);
        }
        store.forget_failures(name, change);
        if !store.exists(name) {
            accurate.forget_failures(name);
        }
    }

    fn list_namespaces(&mut self, all: Vec<NamespaceFact>, change: &mut Change) {
        self.hnc.doubt_list_while_crds_are_deleted(&mut self.store);
        self.store.listed(Stream::NAMESPACES, all.iter().map(|seen| &*seen.version.uid), change);
        for (name, uid) in self.store.unlisted(&all) {
            self.forget_namespace(&name, &uid, change);
        }
        for seen in all {
            self.observe_namespace(seen, change);
        }
    }

    /// What this stream of the structure has not reported yet, compared with a list that was read after all others.
    pub fn lag(&self, stream: Stream, listing: Listing) -> Lag {
        let states = self.states(stream).into_iter();
        Lag::new(&self.store, stream, listing, states, |place| self.state(stream, place))
    }

    /// Whether the stream has reported everything that was missing.
    pub fn has_reported_all(&self, lag: &Lag) -> bool {
        lag.is_reported(&self.store, |place| self.state(lag.stream(), place))
    }

    /// The known state of an object of a structure stream.
    pub(crate) fn state(&self, stream: Stream, place: &NamespacedName) -> Option<Version> {
        match stream {
            Stream::NAMESPACES => self.store.namespace_version(&place.1),
            Stream::SUB_NAMESPACES => self.accurate.version(&self.store, place),
            _ => self.hnc.version(&self.store, stream, place),
        }
    }

    fn states(&self, stream: Stream) -> Vec<(NamespacedName, Version)> {
        match stream {
            Stream::NAMESPACES => {
                let all =
                    self.store.names().filter_map(|name| Some((name, self.store.namespace_version(name)?)));
                all.map(|(name, version)| ((Name::default(), name.clone()), version)).collect()
            }
            Stream::SUB_NAMESPACES => self.accurate.versions(&self.store),
            _ => self.hnc.versions(&self.store, stream),
        }
    }
}
