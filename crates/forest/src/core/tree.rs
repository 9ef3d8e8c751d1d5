//! The namespaces, and the edge from each to its upstream namespace.
//!
//! A node stands for a name that the forest knows something about: a namespace, a downstream namespace, an object, or what a
//! dialect keeps. Names are interned as small ids; a node without any knowledge is removed. Lookups create nothing.
//!
//! A dialect sets the upstream namespace: objects reach all namespaces below ([`Tree::set_upstream`]), or only the next one
//! ([`Tree::set_hop`]).

mod by_id;
mod hops;
mod namespace;
mod packed;
mod texts;
mod walk;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::change::Change;
use super::managed::ManagedNames;
use super::name::Name;
use super::namespace::{Foreign, NamespaceFact};

pub(crate) use by_id::ById;
pub use hops::EdgeKind;
use hops::Hops;
pub(crate) use namespace::Namespace;
pub(crate) use packed::NamespaceLabels;
use packed::Packed;
pub(crate) use texts::Id;
use texts::Texts;
pub(crate) use walk::Ancestry;
pub use walk::Illegal;

#[derive(Debug)]
pub(crate) struct Tree {
    managed: Arc<ManagedNames>,
    texts: Texts,
    /// The names of namespaces that have downstream namespaces, and do not exist or are being deleted.
    awaited: BTreeSet<Id>,
    /// The names with downstream namespaces.
    parents: BTreeSet<Id>,
    /// How often one of these two sets has changed.
    name_changes: u64,
    /// The namespaces whose configuration a dialect could not parse, and why. They are halted.
    unreadable: HashMap<Id, Box<str>>,
    /// The edges along which objects go hop by hop.
    hops: Hops,
    /// Whether conditions about a namespace are shown on all namespaces above it, so that a new edge touches them.
    links_matter_above: bool,
    /// Whether quotas sum over subtrees, so that a new edge touches those of all namespaces above it.
    sums_matter_above: bool,
}

/// What is known of a name.
#[derive(Debug, Default)]
struct Node {
    managed: bool,
    namespace: Option<Namespace>,
    /// The edge in force: the upstream namespace of an existing managed namespace.
    upstream: Option<Id>,
    /// Ordered by name.
    downstream: Vec<Id>,
    /// How many other objects refer to the name: objects in the namespace, and what dialects keep.
    pins: u32,
}

impl Node {
    fn is_mentioned(&self) -> bool {
        self.namespace.is_some() || !self.downstream.is_empty() || self.pins > 0
    }
}

/// Why a namespace itself is halted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Halt {
    /// The parent is excluded, and may be missing, too.
    IllegalParent {
        parent: Name,
        is_missing: bool,
    },
    ParentMissing(Name),
    /// The members, the smallest name first and last, each upstream of the next.
    InCycle(Vec<Name>),
    /// A dialect could not parse the configuration of the namespace; the text says why.
    Unreadable(Box<str>),
    /// It has edges of two dialects.
    Crossed,
}

impl Tree {
    /// `key_suffix` is a suffix that many label keys share; the part before it is kept once.
    pub(crate) fn new(managed: Arc<ManagedNames>, key_suffix: &'static str) -> Self {
        Self {
            managed,
            texts: Texts::new(key_suffix),
            awaited: BTreeSet::new(),
            parents: BTreeSet::new(),
            name_changes: 0,
            unreadable: HashMap::new(),
            hops: Hops::default(),
            links_matter_above: false,
            sums_matter_above: false,
        }
    }

    pub(crate) fn id(&self, name: &str) -> Option<Id> {
        self.texts.find(name).filter(|id| self.texts.node(*id).is_some())
    }

    fn node(&self, id: Id) -> &Node {
        self.texts.node(id).expect("an id is used only while its node is mentioned")
    }

    fn node_mut(&mut self, id: Id) -> &mut Node {
        self.texts.node_mut(id).as_mut().expect("an id is used only while its node is mentioned")
    }

    pub(crate) fn name(&self, id: Id) -> &Name {
        self.texts.text(id)
    }

    pub(crate) fn is_managed(&self, id: Id) -> bool {
        self.node(id).managed
    }

    pub(crate) fn namespace(&self, id: Id) -> Option<&Namespace> {
        self.node(id).namespace.as_ref()
    }

    /// Whether this is an existing managed namespace.
    pub(crate) fn is_existing(&self, id: Id) -> bool {
        let node = self.node(id);
        node.managed && node.namespace.is_some()
    }

    /// The id of an existing managed namespace.
    pub(crate) fn existing(&self, name: &str) -> Option<Id> {
        self.id(name).filter(|id| self.is_existing(*id))
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = Id> {
        self.texts.nodes().map(|(id, _)| id)
    }

    /// The labels of an existing namespace.
    pub(crate) fn labels(&self, id: Id) -> Option<NamespaceLabels<'_>> {
        Some(self.namespace(id)?.labels.read(id, &self.texts))
    }

    /// The same text, in the memory of the tree's own if it has one.
    pub(crate) fn shared(&self, name: Name) -> Name {
        self.texts.find(&name).map_or(name, |id| self.texts.text(id).clone())
    }

    /// Keeps a text, by its id, until [`Tree::forget`].
    pub(crate) fn mention(&mut self, text: Name) -> Id {
        self.texts.mention(text)
    }

    pub(crate) fn forget(&mut self, id: Id) {
        self.texts.forget(id);
    }

    /// Keeps the node of `name` until [`Tree::unpin`].
    pub(crate) fn pin(&mut self, name: &Name) -> Id {
        let id = self.ensure(name);
        self.node_mut(id).pins += 1;
        id
    }

    pub(crate) fn unpin(&mut self, id: Id) {
        self.node_mut(id).pins -= 1;
        self.release(id);
    }

    /// Replaces what is known of the namespace. The node is kept until [`Tree::release`].
    pub(crate) fn put_namespace(&mut self, fact: NamespaceFact) -> Id {
        let id = self.ensure(&fact.name);
        let labels = Packed::new(&fact.labels, id, &mut self.texts);
        let foreign = Some(fact.foreign).filter(|foreign| *foreign != Foreign::default()).map(Box::new);
        let (version, annotations) = (fact.version.into(), fact.annotations);
        let new = Namespace { version, labels, annotations, foreign, terminating: fact.terminating };
        let old = self.node_mut(id).namespace.replace(new);
        self.forget_labels(old);
        id
    }

    /// Removes what is known of the namespace. The node is kept until [`Tree::release`].
    pub(crate) fn take_namespace(&mut self, id: Id) {
        let old = self.node_mut(id).namespace.take();
        self.forget_labels(old);
    }

    fn forget_labels(&mut self, old: Option<Namespace>) {
        if let Some(old) = old {
            old.labels.forget(&mut self.texts);
        }
    }

    /// Halts a namespace whose configuration cannot be parsed, or ends that.
    pub(crate) fn set_unreadable(&mut self, id: Id, why: Option<Box<str>>) {
        match why {
            Some(why) => drop(self.unreadable.insert(id, why)),
            None => drop(self.unreadable.remove(&id)),
        }
    }

    pub(crate) fn unreadable(&self, id: Id) -> Option<&str> {
        self.unreadable.get(&id).map(|why| &**why)
    }

    /// Sets the upstream namespace, or none. If the edge changes, or the properties on which others depend (`counts_anew`), this
    /// touches the namespace, all namespaces below it before or after, and those upstream. Returns whether it did.
    pub(crate) fn set_upstream(
        &mut self,
        id: Id,
        upstream: Option<&Name>,
        counts_anew: bool,
        change: &mut Change,
    ) -> bool {
        let old = self.node(id).upstream;
        let upstream = upstream.map(|name| self.ensure(name));
        let crossings = self.crossings([Some(id), old, upstream]);
        let is_touched = counts_anew || old != upstream;
        if change.everything {
            self.link(id, upstream);
        } else if is_touched {
            self.touch_around(id, change);
            self.link(id, upstream);
            self.touch_around(id, change);
        }
        self.touch_crossings(&crossings, change);
        for concerned in [Some(id), old, upstream].into_iter().flatten() {
            self.note_name(concerned);
        }
        if let Some(old) = old {
            self.release(old);
        }
        is_touched
    }

    fn note_name(&mut self, id: Id) {
        let node = self.node(id);
        let exists = node.namespace.as_ref().is_some_and(|seen| !seen.terminating);
        let changed = if exists || node.downstream.is_empty() {
            self.awaited.remove(&id)
        } else {
            self.awaited.insert(id)
        };
        let is_parent = !self.node(id).downstream.is_empty();
        let becomes = if is_parent { self.parents.insert(id) } else { self.parents.remove(&id) };
        self.name_changes += u64::from(changed || becomes);
    }

    /// The namespaces with downstream namespaces that do not exist, or are being deleted.
    pub(crate) fn awaited(&self) -> impl Iterator<Item = Id> {
        self.awaited.iter().copied()
    }

    /// The other namespaces with downstream namespaces: they exist, and are not being deleted.
    pub(crate) fn lasting_parents(&self) -> impl Iterator<Item = Id> {
        self.parents.difference(&self.awaited).copied()
    }

    /// A number that changes whenever [`Tree::awaited`] or [`Tree::lasting_parents`] does.
    pub(crate) fn name_changes(&self) -> u64 {
        self.name_changes
    }

    /// The namespaces whose upstream namespace does not exist.
    pub(crate) fn orphans(&self) -> impl Iterator<Item = Id> {
        let missing = self.awaited().filter(|upstream| self.namespace(*upstream).is_none());
        missing.flat_map(|upstream| self.downstream(upstream)).copied()
    }

    pub(crate) fn links_matter_above(&mut self, matter: bool) {
        self.links_matter_above = matter;
    }

    pub(crate) fn sums_matter_above(&mut self, matter: bool) {
        self.sums_matter_above = matter;
    }

    fn touch_around(&self, id: Id, change: &mut Change) {
        if self.links_matter_above {
            self.ancestry(id).path.iter().for_each(|above| change.structure(self.name(*above).clone()));
        }
        if self.sums_matter_above {
            self.place(id).iter().for_each(|above| change.quotas(self.name(*above).clone()));
        }
        for orphan in self.orphans_around(id) {
            if self.sums_matter_above {
                self.place(orphan).iter().for_each(|above| change.quotas(self.name(*above).clone()));
            }
            let at_and_below = self.descendants(orphan).into_iter().chain([orphan]);
            at_and_below.for_each(|it| change.whole(self.name(it).clone()));
        }
        if let Some(upstream) = self.upstream(id) {
            change.structure(self.name(upstream).clone());
        }
        change.whole(self.name(id).clone());
        for below in self.descendants(id) {
            change.whole(self.name(below).clone());
        }
    }

    fn link(&mut self, id: Id, upstream: Option<Id>) {
        let old = std::mem::replace(&mut self.node_mut(id).upstream, upstream);
        if old == upstream {
            return;
        }
        if let Some(old) = old {
            let at = self.position(old, id).expect("an edge is kept on both sides");
            self.node_mut(old).downstream.remove(at);
        }
        if let Some(upstream) = upstream {
            let at = self.position(upstream, id).expect_err("an edge is made once");
            self.node_mut(upstream).downstream.insert(at, id);
        }
    }

    fn position(&self, upstream: Id, id: Id) -> Result<usize, usize> {
        let name = self.name(id);
        self.node(upstream).downstream.binary_search_by(|other| self.name(*other).cmp(name))
    }

    fn ensure(&mut self, name: &Name) -> Id {
        if let Some(id) = self.id(name) {
            return id;
        }
        let id = self.texts.mention(name.clone());
        let node = Node { managed: self.managed.contains(name), ..Node::default() };
        *self.texts.node_mut(id) = Some(Box::new(node));
        id
    }

    /// Removes the node if nothing is known of it any more.
    pub(crate) fn release(&mut self, id: Id) {
        if self.texts.node(id).is_some_and(|node| !node.is_mentioned()) {
            *self.texts.node_mut(id) = None;
            self.texts.forget(id);
        }
    }

    /// Why this namespace itself is halted.
    pub(crate) fn own_halt(&self, id: Id) -> Option<Halt> {
        if !self.is_existing(id) {
            return None;
        }
        if let Some(why) = self.unreadable(id) {
            return Some(Halt::Unreadable(why.into()));
        }
        if self.is_crossed(id) {
            return Some(Halt::Crossed);
        }
        let upstream = self.upstream(id)?;
        let name = self.name(upstream);
        if !self.is_managed(upstream) {
            let is_missing = self.namespace(upstream).is_none();
            return Some(Halt::IllegalParent { parent: name.clone(), is_missing });
        }
        if !self.is_existing(upstream) {
            return Some(Halt::ParentMissing(name.clone()));
        }
        self.cycle(id).map(Halt::InCycle)
    }

    /// How many texts are mentioned, and how many there is room for.
    #[cfg(test)]
    pub(crate) fn texts(&self) -> (usize, usize) {
        self.texts.len()
    }
}
