//! What the facts about HNC's own objects change in the state.

use std::collections::HashSet;

use super::{Anchors, State, touch_requested};
use crate::core::change::Change;
use crate::core::name::Name;
use crate::core::store::Store;
use crate::core::stream::Stream;
use crate::core::version::CompactVersion;
use crate::hnc::fact::{AnchorFact, CrdState, Fact, HierarchyFact};
use crate::hnc::hierarchy::Hierarchy;
use crate::hnc::tree_limit::TreeLimit;

impl State {
    pub(crate) fn apply(&mut self, store: &mut Store, fact: Fact, change: &mut Change) {
        match fact {
            Fact::Hierarchy(name, seen) => self.observe_hierarchy(store, &name, seen, change),
            Fact::HierarchyGone(name, uid) => self.hierarchy_gone(store, &name, &uid, change),
            Fact::Hierarchies(all) => self.hierarchies(store, all, change),
            Fact::Anchor(parent, seen) => self.observe_anchor(store, &parent, seen, change),
            Fact::AnchorGone(parent, child, uid) => self.anchor_gone(store, &parent, &child, &uid, change),
            Fact::Anchors(all) => self.list_anchors(store, all, change),
            Fact::Crds(crds) => self.observe_crds(store, crds, change),
            Fact::TreeLimits(limits) => self.set_limits(store, limits, change),
            Fact::Quota(namespace, seen) => self.quotas.observe(store, &namespace, seen, change),
            Fact::QuotaGone(namespace, name, uid) => self.quotas.gone(store, &namespace, &name, &uid, change),
            Fact::Quotas(all) => self.quotas.list(store, all, change),
            Fact::DerivedQuotaWritten(namespace, seen) => {
                self.quotas.observe_derived(store, &namespace, seen, change);
            }
            Fact::DerivedQuota(namespace, seen) => {
                self.quotas.reported_up_to(seen.number());
                self.quotas.observe_derived(store, &namespace, seen, change);
            }
            Fact::DerivedQuotaGone(namespace, uid, version) => {
                self.quotas.derived_gone(store, &namespace, &uid, version, change);
            }
            Fact::DerivedQuotas(all, reported) => self.quotas.list_derived(store, all, reported, change),
        }
    }

    /// Limits decide which anchors create subnamespaces.
    fn set_limits(&mut self, store: &Store, limits: Vec<TreeLimit>, change: &mut Change) {
        if self.limits != limits {
            self.limits = limits;
            self.anchors.iter().for_each(|(id, _)| change.structure(store.name(id).clone()));
        }
    }

    fn observe_hierarchy(
        &mut self,
        store: &mut Store,
        name: &Name,
        fact: HierarchyFact,
        change: &mut Change,
    ) {
        let known = store.id(name).and_then(|id| self.hierarchy(id).map(|seen| (id, seen)));
        let version = CompactVersion::from(fact.version.clone());
        let id = match known {
            Some((_, seen)) if version.is_same_or_older_than(&seen.version) => return,
            Some((id, _)) => id,
            None => store.tree.pin(name),
        };
        let before = self.standing(store, id);
        let seen = Hierarchy::from_fact(fact, &mut store.tree);
        let old = self.hierarchies.insert(id, seen);
        self.follow(store, id, &before, change);
        if let Some(old) = old {
            old.forget(&mut store.tree);
        }
    }

    fn forget_hierarchy(&mut self, store: &mut Store, name: &str, uid: &str, change: &mut Change) {
        let Some(id) = store.id(name) else { return };
        if self.hierarchy(id).is_none_or(|seen| !seen.version.has_uid(uid)) {
            return;
        }
        let before = self.standing(store, id);
        let old = self.hierarchies.remove(id);
        self.follow(store, id, &before, change);
        if let Some(old) = old {
            old.forget(&mut store.tree);
        }
        store.tree.unpin(id);
    }

    fn hierarchies(&mut self, store: &mut Store, all: Vec<(Name, HierarchyFact)>, change: &mut Change) {
        self.doubt_list_while_crds_are_deleted(store);
        store.listed(Stream::HIERARCHIES, all.iter().map(|(_, seen)| &*seen.version.uid), change);
        let listed: HashSet<&str> = all.iter().map(|(name, _)| &**name).collect();
        let known = self.hierarchies.iter().map(|(id, seen)| (store.name(id), seen));
        let gone: Vec<(Name, Box<str>)> = known
            .filter(|(name, _)| !listed.contains(&***name))
            .map(|(name, seen)| (name.clone(), seen.version.uid()))
            .collect();
        for (name, uid) in gone {
            self.hierarchy_gone(store, &name, &uid, change);
        }
        for (name, seen) in all {
            self.observe_hierarchy(store, &name, seen, change);
        }
    }

    fn hierarchy_gone(&mut self, store: &mut Store, name: &Name, uid: &str, change: &mut Change) {
        store.departed(uid);
        self.forget_hierarchy(store, name, uid, change);
        self.doubt_deletion_in(store, name);
    }

    fn observe_anchor(&mut self, store: &mut Store, parent: &Name, fact: AnchorFact, change: &mut Change) {
        let known = store.id(parent).and_then(|id| self.anchors(id).get(&fact.name));
        if known.is_some_and(|known| fact.version.is_same_or_older_than(&known.version)) {
            return;
        }
        let child = fact.name.clone();
        let requests =
            |known: &AnchorFact| known.labels == fact.labels && known.annotations == fact.annotations;
        if !known.is_some_and(requests) {
            touch_requested(store, &child, change);
        }
        let is_another = known.is_none_or(|known| known.version.uid != fact.version.uid);
        let id = if known.is_none() {
            store.tree.pin(parent)
        } else {
            store.id(parent).expect("an anchor keeps the node of its namespace")
        };
        if is_another {
            self.turn += 1;
            self.holders.entry(child.clone()).or_default().insert(id, self.turn);
        }
        match self.anchors.get_mut(id) {
            Some(anchors) => drop(anchors.insert(child.clone(), fact)),
            None => drop(self.anchors.insert(id, Anchors::from([(child.clone(), fact)]))),
        }
        change.structure(parent.clone());
        change.structure(child);
    }

    fn forget_anchor(
        &mut self,
        store: &mut Store,
        parent: &str,
        child: &Name,
        uid: &str,
        change: &mut Change,
    ) {
        let Some(id) = store.id(parent) else { return };
        let Some(anchors) = self.anchors.get_mut(id) else { return };
        if anchors.get(child).is_none_or(|known| *known.version.uid != *uid) {
            return;
        }
        anchors.remove(child);
        if anchors.is_empty() {
            self.anchors.remove(id);
        }
        if let Some(holders) = self.holders.get_mut(child) {
            holders.remove(&id);
            if holders.is_empty() {
                self.holders.remove(child);
            }
        }
        change.structure(store.name(id).clone());
        touch_requested(store, child, change);
        store.tree.unpin(id);
    }

    fn anchor_gone(
        &mut self,
        store: &mut Store,
        parent: &Name,
        child: &Name,
        uid: &str,
        change: &mut Change,
    ) {
        store.departed(uid);
        self.forget_anchor(store, parent, child, uid, change);
        self.doubt_deletion_in(store, parent);
    }

    fn list_anchors(&mut self, store: &mut Store, all: Vec<(Name, AnchorFact)>, change: &mut Change) {
        self.doubt_list_while_crds_are_deleted(store);
        store.listed(Stream::ANCHORS, all.iter().map(|(_, seen)| &*seen.version.uid), change);
        let listed: HashSet<(&str, &str)> =
            all.iter().map(|(parent, seen)| (&**parent, &*seen.name)).collect();
        let known = self.versions(store, Stream::ANCHORS);
        let gone = known.into_iter().filter(|((parent, child), _)| !listed.contains(&(parent, child)));
        for ((parent, child), version) in gone.collect::<Vec<_>>() {
            self.anchor_gone(store, &parent, &child, &version.uid, change);
        }
        for (parent, seen) in all {
            self.observe_anchor(store, &parent, seen, change);
        }
    }

    /// A complete list of a structure stream has arrived. While the CRDs are being deleted, objects may be missing from the list
    /// although no user has deleted them.
    pub(crate) fn doubt_list_while_crds_are_deleted(&mut self, store: &mut Store) {
        if self.crds_are_being_deleted {
            self.set_doubt(store, true);
        }
    }

    /// The API server refuses a stream of the structure: perhaps its CRD was deleted.
    pub(crate) fn doubt_lost(&mut self, store: &mut Store, stream: Stream) {
        if matches!(stream, Stream::HIERARCHIES | Stream::ANCHORS) && !self.crds_are_being_deleted {
            self.set_doubt(store, true);
        }
    }

    /// An object was deleted in a namespace that stays: by a user, or with its CRD.
    fn doubt_deletion_in(&mut self, store: &mut Store, namespace: &str) {
        if store.id(namespace).is_some_and(|id| store.lasting_namespace(id).is_some()) {
            self.set_doubt(store, true);
        }
    }

    fn set_doubt(&mut self, store: &mut Store, doubt: bool) {
        if std::mem::replace(&mut self.doubt, doubt) != doubt {
            store.progressed();
        }
    }

    fn observe_crds(&mut self, store: &mut Store, crds: CrdState, change: &mut Change) {
        self.set_doubt(store, false);
        let crds_are_being_deleted = crds == CrdState::BeingDeleted;
        change.everything |= self.crds_are_being_deleted != crds_are_being_deleted;
        self.crds_are_being_deleted = crds_are_being_deleted;
    }
}
