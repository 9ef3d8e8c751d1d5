//! Everything that is observed, for rules and plans to read. The store decides nothing; it reports what a fact touches.

mod departed;
mod failures;
mod kinds;
mod matching;
mod outdated;
mod view;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use self::departed::Departed;
pub(crate) use self::failures::Failure;
use self::kinds::KnownKind;
pub(crate) use self::matching::NamespacedName;
pub use self::matching::{Lag, Listing, Unverified};
use super::change::{Change, ObjectScope};
use super::kind::{KindId, ObjectKey};
use super::managed::ManagedNames;
use super::name::Name;
use super::namespace::NamespaceFact;
pub use super::object::Counts;
use super::object::{Knowledge, Object, ObjectFact, Objects, is_name_unfit};
use super::stream::{Stream, StreamState};
use super::tree::{Id, Tree};
use super::version::{CompactVersion, Version};

/// What a dialect tells the store about its own objects.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    /// The streams that every verdict and plan needs.
    pub(crate) structure: &'static [Stream],
    /// The stream that says which kinds are propagated.
    pub(crate) configuration: Stream,
    /// A suffix that the keys of many labels of namespaces share.
    pub(crate) key_suffix: &'static str,
}

/// Everything that is known, except what dialects keep.
#[derive(Debug)]
pub struct Store {
    layout: Layout,
    /// By id. Kinds that are no longer configured keep their id.
    kinds: Vec<KnownKind>,
    pub(crate) tree: Tree,
    objects: Objects,
    failures: HashMap<Name, BTreeMap<ObjectKey, Failure>>,
    /// The namespaces with objects in conflict, which are left as they are.
    conflicted: BTreeSet<Name>,
    streams: HashMap<Stream, StreamState>,
    progress: u64,
    departed: Departed,
    /// The lists that are not verified yet; `None` if plans use all lists. `lists` is how many lists there have been.
    unverified: Option<Unverified>,
    lists: u64,
}

impl Store {
    /// An empty store. Which kinds are propagated is not known yet.
    pub(crate) fn new(managed: Arc<ManagedNames>, layout: Layout) -> Self {
        Self {
            tree: Tree::new(managed, layout.key_suffix),
            layout,
            kinds: Vec::new(),
            objects: Objects::default(),
            failures: HashMap::new(),
            conflicted: BTreeSet::new(),
            streams: HashMap::new(),
            progress: 0,
            departed: Departed::default(),
            unverified: None,
            lists: 0,
        }
    }

    /// Whether any of an object's content would be kept. A caller that collects facts can drop the content otherwise.
    pub fn keeps_content(&self, seen: &ObjectFact) -> bool {
        let id = self.tree.id(&seen.namespace);
        seen.inherited_from.is_none() && !self.kept(id).is_small()
    }

    /// How much of the content of the sources in a namespace is kept: what is copied from there, in each of the two ways. All of it until
    /// the structure is known.
    pub(super) fn kept(&self, id: Option<Id>) -> Knowledge {
        let is_unknown = self.structure_gap().is_some();
        let has = |of: &dyn Fn(Id) -> bool| is_unknown || id.is_some_and(of);
        Knowledge::kept(
            has(&|id| !self.tree.downstream(id).is_empty()),
            has(&|id| !self.tree.next_hops(id).is_empty()),
        )
    }

    /// Whether this state of an object, or a later one, is known, with all the content that is kept. A fact that repeats it can
    /// leave the content out.
    pub fn knows_state(&self, kind: KindId, namespace: &str, name: &Name, version: &Version) -> bool {
        let Some(id) = self.tree.id(namespace) else { return false };
        let Some(known) = self.objects.get(id, &ObjectKey { kind, name: name.clone() }) else { return false };
        CompactVersion::from(version.clone()).is_same_or_older_than(known.version())
            && known.knowledge().covers(self.kept(Some(id)).within(known.whole()))
    }

    /// How many objects and namespaces there are.
    pub fn sizes(&self) -> Sizes {
        let Counts { sources, copies } = self.objects.all_counts();
        let mut sizes = Sizes { namespaces: 0, halted: 0, sources, copies };
        for id in self.tree.ids() {
            sizes.namespaces += usize::from(self.tree.is_existing(id));
            sizes.halted += usize::from(self.tree.own_halt(id).is_some());
        }
        sizes
    }

    /// How many objects of a kind there are in all namespaces.
    pub fn counts(&self, kind: KindId) -> Counts {
        self.objects.counts(kind)
    }

    /// Whether an object with this uid was deleted.
    pub(crate) fn has_departed(&self, uid: &str) -> bool {
        self.departed.contains(uid)
    }

    /// Notes that the object with this uid was deleted.
    pub(crate) fn departed(&mut self, uid: &str) {
        self.departed.add(uid);
    }

    /// Notes a complete list, which shows objects with these uids.
    pub(crate) fn listed<'a>(
        &mut self,
        stream: Stream,
        uids: impl Iterator<Item = &'a str>,
        change: &mut Change,
    ) {
        self.synced(stream, change);
        self.departed.are_here(uids);
    }

    /// Whether this state of the namespace, or a later one, is known.
    pub(crate) fn knows_namespace(&self, seen: &NamespaceFact) -> bool {
        let known = self.tree.id(&seen.name).and_then(|id| self.tree.namespace(id));
        known.is_some_and(|known| {
            CompactVersion::from(seen.version.clone()).is_same_or_older_than(&known.version)
        })
    }

    /// Whether the namespace itself was observed.
    pub(crate) fn has_seen(&self, name: &str) -> bool {
        self.tree.id(name).is_some_and(|id| self.tree.namespace(id).is_some())
    }

    /// The known namespaces that a complete list leaves out, with their uids.
    pub(crate) fn unlisted(&self, all: &[NamespaceFact]) -> Vec<(Name, Box<str>)> {
        let listed: HashSet<&str> = all.iter().map(|seen| &*seen.name).collect();
        let known = self.tree.ids().filter_map(|id| Some((self.tree.name(id), self.tree.namespace(id)?)));
        let unlisted = known.filter(|(name, _)| !listed.contains(&***name));
        unlisted.map(|(name, seen)| (name.clone(), seen.version.uid())).collect()
    }

    /// Drops the recorded failures of a namespace that is deleted.
    pub(crate) fn forget_failures(&mut self, name: &Name, change: &mut Change) {
        if !self.exists(name) {
            self.failures.remove(name);
            self.note_conflicts(name, change);
        }
    }

    /// Adds what depends on the touched objects and namespaces.
    pub(crate) fn touch_dependents(&self, change: &mut Change) {
        self.touch_selective(change);
        // Twice: a binding depends on its Role, which may be outdated; and an outdated binding depends on the one upstream.
        for _ in 0..2 {
            self.touch_bindings(change);
            self.touch_outdated_hops(change);
        }
    }

    /// Treats every quota as in force.
    pub(crate) fn put_in_force(&mut self) {
        self.objects.put_in_force();
    }

    /// Notes the digest of the content that the API server was given for this state of a copy.
    pub(crate) fn accepted(
        &mut self,
        namespace: &str,
        key: &ObjectKey,
        version: &Version,
        given: super::content::Digest,
        change: &mut Change,
    ) {
        if let Some(id) = self.tree.id(namespace) {
            self.objects.accepted(id, key, version, given);
            change.object(self.tree.name(id).clone(), key.clone());
        }
    }

    /// The labels of a namespace decide which copies it should hold.
    fn touch_selective(&self, change: &mut Change) {
        if change.everything {
            return;
        }
        for scope in change.namespaces.values_mut().filter(|scope| scope.structure) {
            self.objects.selective().for_each(|key| scope.object(key.clone()));
        }
    }

    /// A binding is copied to a namespace only if the name of its Role means the same Role there. If labels decide about the
    /// Role, they also decide about the copies of the bindings of that namespace.
    fn touch_bindings(&self, change: &mut Change) {
        let Some(kind) = self.role_kind().filter(|_| !change.everything) else { return };
        let mut touched: Vec<(Id, &ObjectKey)> = Vec::new();
        for (name, scope) in &change.namespaces {
            let (ObjectScope::Some(keys), Some(id)) = (&scope.objects, self.tree.id(name)) else { continue };
            for role in keys.iter().filter(|key| key.kind == kind) {
                let Some(bindings) = self.objects.bindings_to(&role.name) else { continue };
                let above = self.tree.ancestry(id).path.into_iter().skip(1);
                let above = above.chain(self.tree.hop(id).map(|edge| edge.upstream));
                let from_above = above.filter_map(|above| bindings.get(&above)).flatten();
                touched.extend(from_above.map(|binding| (id, binding)));
                if let Some(own) = bindings.get(&id)
                    && scope.structure
                    && self.objects.is_selective(role)
                {
                    let below = self.tree.descendants(id);
                    touched
                        .extend(below.into_iter().flat_map(|below| own.iter().map(move |key| (below, key))));
                }
            }
        }
        for (id, key) in touched {
            change.object(self.tree.name(id).clone(), key.clone());
        }
    }

    /// The content of sources is kept only where they may be copied.
    pub(crate) fn trim(&mut self, change: &Change) {
        if self.structure_gap().is_some() {
            return;
        }
        let ids: Vec<Id> = if change.everything {
            self.objects.whole().collect()
        } else {
            change.namespaces.keys().filter_map(|name| self.tree.id(name)).collect()
        };
        for id in ids {
            let kept = self.kept(Some(id));
            self.objects.trim(id, kept);
        }
    }

    /// If a parent is missing, copies are deleted with the namespace of their source, at any level above; bindings, with their source.
    pub(crate) fn touch_orphans_of(&self, name: &Name, change: &mut Change) {
        if change.everything || !self.objects.are_copied_from(name) {
            return;
        }
        for orphan in self.tree.orphans() {
            for id in self.tree.descendants(orphan).into_iter().chain([orphan]) {
                for (key, object) in self.objects.within(id) {
                    if matches!(object, Object::Copy(copy) if copy.inherited_from == *name) {
                        change.object(self.tree.name(id).clone(), key.clone());
                    }
                }
            }
        }
    }

    pub(crate) fn observe_object(&mut self, kind: KindId, seen: ObjectFact, change: &mut Change) {
        let key = self.objects.shared_key(ObjectKey { kind, name: seen.name.clone() });
        let known = self.tree.id(&seen.namespace).and_then(|id| self.objects.get(id, &key));
        let version = CompactVersion::from(seen.version.clone());
        let kept = self.kept(self.tree.id(&seen.namespace));
        if known.is_some_and(|known| known.has_seen(&version, Knowledge::seen(&seen).within(kept))) {
            return;
        }
        let is_new = known.is_none();
        let namespace = seen.namespace.clone();
        let id = if is_new {
            self.tree.pin(&namespace)
        } else {
            self.tree.id(&namespace).expect("an object keeps its namespace's node")
        };
        let inherited_from = seen.inherited_from.map(|from| self.tree.shared(from));
        let mut object = Object::from_fact(ObjectFact { inherited_from, ..seen });
        object.trim(kept);
        let old = self.objects.insert(id, key.clone(), object);
        self.touch_object(id, &key, old.as_ref(), change);
    }

    pub(crate) fn forget_object(&mut self, namespace: &str, key: &ObjectKey, uid: &str, change: &mut Change) {
        self.departed.add(uid);
        let Some(id) = self.tree.id(namespace) else { return };
        if self.objects.get(id, key).is_none_or(|known| !known.version().has_uid(uid)) {
            return;
        }
        let old = self.objects.remove(id, key);
        self.touch_object(id, key, old.as_ref(), change);
        self.tree.unpin(id);
    }

    pub(crate) fn list_objects(&mut self, kind: KindId, all: Vec<ObjectFact>, change: &mut Change) {
        self.listed(Stream::Kind(kind), all.iter().map(|seen| &*seen.version.uid), change);
        let listed: HashSet<(&str, &str)> = all.iter().map(|seen| (&*seen.namespace, &*seen.name)).collect();
        let gone: Vec<(Id, ObjectKey)> = self
            .objects
            .places(kind)
            .into_iter()
            .filter(|(id, key)| !listed.contains(&(&**self.tree.name(*id), &*key.name)))
            .collect();
        for (id, key) in gone {
            let old = self.objects.remove(id, &key);
            if let Some(old) = &old {
                self.departed.add(&old.version().uid());
            }
            self.touch_object(id, &key, old.as_ref(), change);
            self.tree.unpin(id);
        }
        // Copies share the memory of their sources' names.
        let (sources, copies): (Vec<_>, Vec<_>) = all.into_iter().partition(|it| it.inherited_from.is_none());
        for seen in sources.into_iter().chain(copies) {
            self.observe_object(kind, seen, change);
        }
    }

    /// A source touches all namespaces below; any other object touches its own namespace.
    fn touch_object(&self, id: Id, key: &ObjectKey, old: Option<&Object>, change: &mut Change) {
        if change.everything {
            return;
        }
        let new = self.objects.get(id, key);
        self.touch_one(id, key, change);
        let is_quota = self.kind(key.kind).is_quota();
        if is_quota && old.map(Object::force) != new.map(Object::force) {
            change.whole(self.tree.name(id).clone());
        }
        // The namespace shows this as a condition.
        if is_name_unfit(&key.name) {
            change.structure(self.tree.name(id).clone());
        }
        if !matches!((old, new), (Some(old), Some(new)) if old.hops_as(new)) {
            self.tree.next_hops(id).iter().for_each(|next| self.touch_one(*next, key, change));
        }
        let is_source = |object: Option<&Object>| object.is_some_and(|it| it.source().is_some());
        let unchanged = matches!((old, new), (Some(old), Some(new)) if old.propagates_as(new));
        if new.is_none() && self.kind(key.kind).binds_subjects() {
            self.touch_orphans_of(self.tree.name(id), change);
        }
        if (is_source(old) || is_source(new)) && !unchanged {
            for below in self.tree.descendants(id) {
                if is_quota {
                    change.whole(self.tree.name(below).clone());
                } else {
                    self.touch_one(below, key, change);
                }
            }
        }
    }

    /// Bindings wait for quotas, and the namespace shows a condition while they wait.
    fn touch_one(&self, id: Id, key: &ObjectKey, change: &mut Change) {
        change.object(self.tree.name(id).clone(), key.clone());
        if self.kind(key.kind).binds_subjects() && self.quotas_not_in_force(id).next().is_some() {
            change.structure(self.tree.name(id).clone());
        }
    }
}

/// How many objects and namespaces a forest holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Existing managed namespaces.
    pub namespaces: usize,
    /// Namespaces that are halted themselves, not by an ancestor.
    pub halted: usize,
    /// Sources of propagated kinds.
    pub sources: usize,
    /// Copies.
    pub copies: usize,
}
