//! The forest itself: everything observed, kept so that rules and plans can ask.
//!
//! [`Forest::apply`] is the only way in. It decides nothing; it says what was touched.

mod departed;
mod failures;
mod kinds;
mod matching;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use self::departed::Departed;
pub(crate) use self::failures::Failure;
use self::kinds::KnownKind;
pub use self::matching::{Lag, Listing, Unmatched};
use crate::exclusion::is_name_too_long;
use crate::object::{Counts, Held, Object, Objects};
use crate::plan::not_in_force;
use crate::tree::{Id, Node, Tree};
use crate::version::CompactVersion;
use crate::{
    AnchorFact, Change, Definition, Fact, HierarchyFact, Kind, KindId, KindSettings, Mode, Name,
    NamespaceFact, ObjectFact, ObjectKey, ObjectScope, Settings, Stream, StreamState, Version,
};

/// All that is known of the hierarchy.
///
/// Guarantee: the answers depend on the last fact told of each object, not on the order in which the facts came. A fact
/// about an older state of an object than the one known is ignored, and so is one about an object that has gone, unless a
/// complete list shows it.
#[derive(Debug)]
pub struct Forest {
    pub(crate) settings: Arc<Settings>,
    /// By id; those that are not wanted any more keep theirs.
    kinds: Vec<KnownKind>,
    pub(crate) tree: Tree,
    pub(crate) objects: Objects,
    pub(crate) failures: HashMap<Name, BTreeMap<ObjectKey, Failure>>,
    /// The namespaces with objects that are left alone though others should be in their place.
    pub(crate) conflicted: BTreeSet<Name>,
    streams: HashMap<Stream, StreamState>,
    progress: u64,
    departed: Departed,
    /// Of a forest whose lists have to be matched; and how many lists there have been.
    unmatched: Option<Unmatched>,
    lists: u64,
    doubt: bool,
    going: bool,
}

impl Forest {
    /// An empty forest that propagates `kinds`, and knows that these are all.
    pub fn new(settings: Arc<Settings>, kinds: Vec<Kind>) -> Self {
        let mut forest = Self::unconfigured(settings);
        let kinds = kinds.into_iter().map(|kind| KindSettings::new(kind, Mode::Propagate));
        forest.configure(kinds.collect(), &mut Change::default());
        forest
    }

    /// An empty forest that has yet to be told which kinds are propagated ([`Fact::Kinds`]). Nothing is planned about
    /// objects before.
    pub fn unconfigured(settings: Arc<Settings>) -> Self {
        Self {
            settings,
            kinds: Vec::new(),
            tree: Tree::default(),
            objects: Objects::default(),
            failures: HashMap::new(),
            conflicted: BTreeSet::new(),
            streams: HashMap::new(),
            progress: 0,
            departed: Departed::default(),
            unmatched: None,
            lists: 0,
            doubt: true,
            going: false,
        }
    }

    /// What the operator has decided.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The same, to keep.
    pub fn shared_settings(&self) -> Arc<Settings> {
        self.settings.clone()
    }

    /// Every name that something is known of, in no order.
    pub fn names(&self) -> impl Iterator<Item = &Name> {
        self.tree.ids().map(|id| self.tree.name(id))
    }

    /// Whether `name` is an existing managed namespace.
    pub fn exists(&self, name: &str) -> bool {
        self.tree.existing(name).is_some()
    }

    /// Whether `name` is an existing managed namespace that is being deleted.
    pub fn is_terminating(&self, name: &str) -> bool {
        let seen = self.tree.existing(name).and_then(|id| self.tree.node(id).namespace.as_ref());
        seen.is_some_and(|seen| seen.terminating)
    }

    /// Whether `name` is a subnamespace: its parent is said by its annotation.
    pub fn is_subnamespace(&self, name: &str) -> bool {
        self.tree.id(name).is_some_and(|id| self.tree.node(id).subnamespace_of().is_some())
    }

    /// The state of the namespace that is known.
    pub fn namespace_version(&self, name: &str) -> Option<Version> {
        Some(self.tree.node(self.tree.id(name)?).namespace.as_ref()?.version.get())
    }

    /// The state of its `HierarchyConfiguration` that is known.
    pub fn hierarchy_version(&self, name: &str) -> Option<Version> {
        Some(self.tree.node(self.tree.id(name)?).hierarchy.as_ref()?.version.get())
    }

    /// The parent in force, whether or not it exists.
    pub fn parent(&self, name: &str) -> Option<&Name> {
        Some(self.tree.name(self.tree.parent(self.tree.id(name)?)?))
    }

    /// The direct children, sorted.
    pub fn children(&self, name: &str) -> Vec<Name> {
        let Some(id) = self.tree.id(name) else { return Vec::new() };
        self.tree.children(id).iter().map(|child| self.tree.name(*child).clone()).collect()
    }

    /// The namespace itself, its parent, and so on to the top or until the walk comes round.
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

    /// Whether all of an object's content would be kept. Whoever holds many facts before telling them need not hold more.
    pub fn keeps_content(&self, seen: &ObjectFact) -> bool {
        seen.inherited_from.is_none() && self.may_spread(self.tree.id(&seen.namespace))
    }

    /// Whether copies may be taken of the sources in a namespace. What is below it is not known before the structure is.
    fn may_spread(&self, id: Option<Id>) -> bool {
        self.structure_gap().is_some() || id.is_some_and(|id| !self.tree.children(id).is_empty())
    }

    /// Whether this state of an object, or a later one, is known already, with all of its content that is kept. Whoever tells of
    /// it again need not say what is in it.
    pub fn knows_state(&self, kind: KindId, namespace: &str, name: &Name, version: &Version) -> bool {
        let Some(id) = self.tree.id(namespace) else { return false };
        let Some(known) = self.objects.get(id, &ObjectKey { kind, name: name.clone() }) else { return false };
        let kept = match known {
            Object::Copy(_) => Held::Digests,
            Object::Source(_) if self.may_spread(Some(id)) => Held::Whole,
            Object::Source(_) => Held::Metadata,
        };
        CompactVersion::from(version.clone()).is_no_news_after(known.version()) && known.held() >= kept
    }

    /// How much there is.
    pub fn sizes(&self) -> Sizes {
        let Counts { sources, copies } = self.objects.all_counts();
        let mut sizes = Sizes { namespaces: 0, halted: 0, sources, copies };
        for id in self.tree.ids() {
            sizes.namespaces += usize::from(self.tree.node(id).exists());
            sizes.halted += usize::from(self.tree.own_halt(id).is_some());
        }
        sizes
    }

    /// How many objects of a kind there are, whatever their namespaces.
    pub fn counts(&self, kind: KindId) -> Counts {
        self.objects.counts(kind)
    }

    /// Takes a fact in and says what it touched.
    pub fn apply(&mut self, fact: Fact) -> Change {
        let mut change = Change::default();
        match fact {
            fact if self.comes_late(&fact) => {}
            Fact::Namespace(seen) => self.namespace(seen, &mut change),
            Fact::NamespaceGone(name, uid) => self.namespace_gone(&name, &uid, &mut change),
            Fact::Namespaces(all) => self.namespaces(all, &mut change),
            Fact::Hierarchy(name, seen) => self.hierarchy(&name, seen, &mut change),
            Fact::HierarchyGone(name, uid) => self.hierarchy_gone(&name, &uid, &mut change),
            Fact::Hierarchies(all) => self.hierarchies(all, &mut change),
            Fact::Anchor(parent, seen) => {
                self.tree.observe_anchor(&parent, seen, &self.settings, &mut change);
            }
            Fact::AnchorGone(parent, child, uid) => self.anchor_gone(&parent, &child, &uid, &mut change),
            Fact::Anchors(all) => self.anchors(all, &mut change),
            Fact::Matched(lists) => self.matched(&lists, &mut change),
            Fact::Definitions(definition) => self.definitions(definition, &mut change),
            Fact::Kinds(kinds) => self.configure(kinds, &mut change),
            // What a stream of the past still has to say of a kind that is not wanted any more is not heard.
            Fact::Object(kind, ..) | Fact::ObjectGone(kind, ..) | Fact::Objects(kind, ..)
                if self.kind_settings(kind).is_none() => {}
            // Nor is what became of a write that was on its way meanwhile: nothing would ever settle it.
            Fact::WriteFailed(_, ref key, _) | Fact::Conflict(_, ref key, _)
                if self.kind_settings(key.kind).is_none() => {}
            Fact::Object(kind, seen) => self.object(kind, seen, &mut change),
            Fact::ObjectGone(kind, namespace, name, uid) => {
                self.object_gone(&namespace, &ObjectKey { kind, name }, &uid, &mut change);
            }
            Fact::Objects(kind, all) => self.all_objects(kind, all, &mut change),
            Fact::StreamLost(stream, why) => self.stream_lost(stream, why),
            Fact::WriteFailed(namespace, key, why) => {
                self.failed(namespace, key, Failure { why, is_conflict: false }, &mut change);
            }
            Fact::Conflict(namespace, key, why) => {
                self.failed(namespace, key, Failure { why, is_conflict: true }, &mut change);
            }
            Fact::WriteSettled(namespace, key) => self.settled(&namespace, &key, &mut change),
            Fact::Accepted(namespace, key, version, given) => {
                if let Some(id) = self.tree.id(&namespace) {
                    self.objects.accepted(id, &key, &version, given);
                }
            }
        }
        self.touch_holders(&mut change);
        self.touch_selective(&mut change);
        self.touch_bindings(&mut change);
        self.trim(&change);
        change
    }

    /// Whether this is about a state of an object that has gone since.
    fn comes_late(&self, fact: &Fact) -> bool {
        let version = match fact {
            Fact::Namespace(seen) => &seen.version,
            Fact::Hierarchy(_, seen) => &seen.version,
            Fact::Anchor(_, seen) => &seen.version,
            Fact::Object(_, seen) => &seen.version,
            _ => return false,
        };
        self.departed.contains(&version.uid)
    }

    /// What a namespace's labels are decides which copies it should hold.
    fn touch_selective(&self, change: &mut Change) {
        if change.everything {
            return;
        }
        for scope in change.namespaces.values_mut().filter(|scope| scope.structure) {
            self.objects.selective().for_each(|key| scope.object(key.clone()));
        }
    }

    /// Which Role a name means in a namespace decides whether bindings that refer to it are copied there. Where labels decide
    /// about the Role, they also decide about the copies of the bindings of that namespace.
    fn touch_bindings(&self, change: &mut Change) {
        let Some(kind) = self.role_kind().filter(|_| !change.everything) else { return };
        let mut touched: Vec<(Id, &ObjectKey)> = Vec::new();
        for (name, scope) in &change.namespaces {
            let (ObjectScope::Some(keys), Some(id)) = (&scope.objects, self.tree.id(name)) else { continue };
            for role in keys.iter().filter(|key| key.kind == kind) {
                let Some(bindings) = self.objects.bindings_to(&role.name) else { continue };
                let above = self.tree.ancestry(id).path.into_iter().skip(1);
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

    /// Sources are kept whole only where copies may be taken of them.
    fn trim(&mut self, change: &Change) {
        if self.structure_gap().is_some() {
            return;
        }
        let is_leaf = |id: &Id| self.tree.children(*id).is_empty();
        let leaves: Vec<Id> = if change.everything {
            self.objects.whole().filter(is_leaf).collect()
        } else {
            let touched = change.namespaces.keys().filter_map(|name| self.tree.id(name));
            touched.filter(is_leaf).collect()
        };
        for id in leaves {
            self.objects.trim(id);
        }
    }

    /// What changes about a namespace changes the state of the anchors that bear its name.
    fn touch_holders(&self, change: &mut Change) {
        if change.everything {
            return;
        }
        let structure = change.namespaces.iter().filter(|(_, scope)| scope.structure);
        let holders: Vec<Name> = structure
            .flat_map(|(name, _)| self.tree.holders(name))
            .map(|id| self.tree.name(id).clone())
            .collect();
        for holder in holders {
            change.structure(holder);
        }
    }

    fn namespace(&mut self, seen: NamespaceFact, change: &mut Change) {
        let (name, is_new) = (seen.name.clone(), !self.is_there(&seen.name));
        self.tree.observe_namespace(seen, &self.settings, change);
        if is_new {
            self.touch_orphans_of(&name, change);
        }
    }

    fn is_there(&self, name: &str) -> bool {
        self.tree.id(name).is_some_and(|id| self.tree.node(id).namespace.is_some())
    }

    /// Where a parent is missing, copies go with the namespace that they come from, wherever that was.
    fn touch_orphans_of(&self, name: &Name, change: &mut Change) {
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

    fn namespace_gone(&mut self, name: &Name, uid: &str, change: &mut Change) {
        self.departed.add(uid);
        let was_there = self.is_there(name);
        self.tree.forget_namespace(name, uid, &self.settings, change);
        if was_there && !self.is_there(name) {
            self.touch_orphans_of(name, change);
        }
        if !self.exists(name) {
            self.failures.remove(name);
            self.note_conflicts(name, change);
        }
    }

    fn namespaces(&mut self, all: Vec<NamespaceFact>, change: &mut Change) {
        self.synced(Stream::Namespaces, change);
        self.departed.are_here(all.iter().map(|seen| &*seen.version.uid));
        let listed: HashSet<Name> = all.iter().map(|seen| seen.name.clone()).collect();
        for (name, uid) in self.unlisted(&listed, |node| Some(node.namespace.as_ref()?.version.uid())) {
            self.namespace_gone(&name, &uid, change);
        }
        for seen in all {
            self.namespace(seen, change);
        }
    }

    fn hierarchy(&mut self, name: &Name, seen: HierarchyFact, change: &mut Change) {
        self.tree.observe_hierarchy(name, seen, &self.settings, change);
    }

    fn hierarchies(&mut self, all: Vec<(Name, HierarchyFact)>, change: &mut Change) {
        self.synced(Stream::Hierarchies, change);
        self.departed.are_here(all.iter().map(|(_, seen)| &*seen.version.uid));
        let listed: HashSet<Name> = all.iter().map(|(name, _)| name.clone()).collect();
        for (name, uid) in self.unlisted(&listed, |node| Some(node.hierarchy.as_ref()?.version.uid())) {
            self.hierarchy_gone(&name, &uid, change);
        }
        for (name, seen) in all {
            self.hierarchy(&name, seen, change);
        }
    }

    fn hierarchy_gone(&mut self, name: &Name, uid: &str, change: &mut Change) {
        self.departed.add(uid);
        self.tree.forget_hierarchy(name, uid, &self.settings, change);
        self.wonder(name);
    }

    fn anchor_gone(&mut self, parent: &Name, child: &Name, uid: &str, change: &mut Change) {
        self.departed.add(uid);
        self.tree.forget_anchor(parent, child, uid, change);
        self.wonder(parent);
    }

    fn anchors(&mut self, all: Vec<(Name, AnchorFact)>, change: &mut Change) {
        self.synced(Stream::Anchors, change);
        self.departed.are_here(all.iter().map(|(_, seen)| &*seen.version.uid));
        let listed: HashSet<(&str, &str)> =
            all.iter().map(|(parent, seen)| (&**parent, &*seen.name)).collect();
        let nodes = self.tree.nodes();
        let known = nodes.flat_map(|(name, node)| node.anchors().values().map(move |anchor| (name, anchor)));
        let gone: Vec<_> = known
            .filter(|(parent, anchor)| !listed.contains(&(&***parent, &*anchor.name)))
            .map(|(parent, anchor)| (parent.clone(), anchor.name.clone(), anchor.version.uid.clone()))
            .collect();
        for (parent, child, uid) in gone {
            self.anchor_gone(&parent, &child, &uid, change);
        }
        for (parent, seen) in all {
            self.tree.observe_anchor(&parent, seen, &self.settings, change);
        }
    }

    /// Something has gone from a namespace that stays: did somebody delete it, or is its definition going, which says
    /// nothing about what anybody wants?
    fn wonder(&mut self, namespace: &str) {
        let node = self.tree.id(namespace).map(|id| self.tree.node(id));
        let stays = node.and_then(|node| node.namespace.as_ref()).is_some_and(|seen| !seen.terminating);
        if stays {
            self.set_doubt(true);
        }
    }

    fn set_doubt(&mut self, doubt: bool) {
        self.progress += u64::from(self.doubt != doubt);
        self.doubt = doubt;
    }

    fn definitions(&mut self, definition: Definition, change: &mut Change) {
        self.set_doubt(false);
        let going = definition == Definition::Going;
        change.everything |= self.going != going;
        self.going = going;
    }

    /// Whether it has yet to be found out if what has gone was deleted by somebody, or went with its definition. Until
    /// then nothing may be planned.
    pub fn is_in_doubt(&self) -> bool {
        self.doubt
    }

    /// Whether the definitions that the structure rests on are going, so that nothing may be concluded from what is
    /// missing.
    pub fn is_going(&self) -> bool {
        self.going
    }

    /// What is known but no longer listed.
    fn unlisted(
        &self,
        listed: &HashSet<Name>,
        uid: impl Fn(&Node) -> Option<Box<str>>,
    ) -> Vec<(Name, Box<str>)> {
        let unlisted = self.tree.nodes().filter(|(name, _)| !listed.contains(*name));
        unlisted.filter_map(|(name, node)| Some((name.clone(), uid(node)?))).collect()
    }

    fn object(&mut self, kind: KindId, seen: ObjectFact, change: &mut Change) {
        let key = self.objects.shared_key(ObjectKey { kind, name: seen.name.clone() });
        let known = self.tree.id(&seen.namespace).and_then(|id| self.objects.get(id, &key));
        let version = CompactVersion::from(seen.version.clone());
        if known.is_some_and(|known| known.has_seen(&version, Held::of(seen.content.as_ref()))) {
            return;
        }
        let is_new = known.is_none();
        let namespace = seen.namespace.clone();
        let id = if is_new {
            self.tree.pin(&namespace, &self.settings)
        } else {
            self.tree.id(&namespace).expect("an object keeps its namespace's node")
        };
        let inherited_from = seen.inherited_from.map(|from| self.tree.shared(from));
        let mut object = Object::from_fact(ObjectFact { inherited_from, ..seen });
        if !self.may_spread(Some(id)) {
            object.trim();
        }
        let old = self.objects.insert(id, key.clone(), object);
        self.touch_object(id, &key, old.as_ref(), change);
    }

    fn object_gone(&mut self, namespace: &str, key: &ObjectKey, uid: &str, change: &mut Change) {
        self.departed.add(uid);
        let Some(id) = self.tree.id(namespace) else { return };
        if self.objects.get(id, key).is_none_or(|known| !known.version().has_uid(uid)) {
            return;
        }
        let old = self.objects.remove(id, key);
        self.touch_object(id, key, old.as_ref(), change);
        self.tree.unpin(id);
    }

    fn all_objects(&mut self, kind: KindId, all: Vec<ObjectFact>, change: &mut Change) {
        self.synced(Stream::Kind(kind), change);
        self.departed.are_here(all.iter().map(|seen| &*seen.version.uid));
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
            self.object(kind, seen, change);
        }
    }

    /// A source concerns all that is below it; anything else only its own namespace.
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
        // The namespace shows this.
        if is_name_too_long(&key.name) {
            change.structure(self.tree.name(id).clone());
        }
        let is_source = |object: Option<&Object>| object.is_some_and(|it| it.source().is_some());
        let unchanged = matches!((old, new), (Some(old), Some(new)) if old.propagates_as(new));
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

    /// Bindings wait for quotas, and where they wait, the namespace says so.
    fn touch_one(&self, id: Id, key: &ObjectKey, change: &mut Change) {
        change.object(self.tree.name(id).clone(), key.clone());
        if self.kind(key.kind).binds_subjects() && not_in_force(self, id).next().is_some() {
            change.structure(self.tree.name(id).clone());
        }
    }
}

/// How much a forest holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Existing managed namespaces.
    pub namespaces: usize,
    /// Namespaces that are halted for a reason of their own.
    pub halted: usize,
    /// Objects of propagated kinds that were not propagated.
    pub sources: usize,
    /// Objects that were propagated.
    pub copies: usize,
}
