//! Who is whose parent: the namespaces, the links between them, and what follows from the links alone.
//!
//! A node stands for a name that something is about: a namespace, a `HierarchyConfiguration`, a child's parent, an
//! object. Names are interned to small ids; a node that nothing is about any more is dropped. Lookups take `&self` and
//! create nothing. Nothing here knows of objects, rules or plans.

mod node;
mod packed;
mod places;
#[cfg(test)]
mod tests;
mod walk;

use std::collections::{BTreeSet, HashMap};

use crate::condition::Halt;
use crate::fact::{AnchorFact, HierarchyFact, NamespaceFact};
use crate::version::CompactVersion;
use crate::{Change, Name, Settings};

use node::HandedDown;
pub(crate) use node::{Hierarchy, Namespace, Node};
pub(crate) use packed::NamespaceLabels;
pub(crate) use places::Id;
use places::Places;
pub use walk::Illegal;

#[derive(Debug, Default)]
pub(crate) struct Tree {
    places: Places,
    /// Those that have children and are not there.
    missing: BTreeSet<Id>,
    /// Those whose `HierarchyConfiguration` shows conditions.
    conditioned: BTreeSet<Id>,
    /// Where anchors of a name are.
    holders: HashMap<Name, BTreeSet<Id>>,
    /// Whether something is said of a namespace on all above it, so that a link concerns them too.
    links_matter_above: bool,
}

impl Tree {
    pub(crate) fn id(&self, name: &str) -> Option<Id> {
        self.places.find(name).filter(|id| self.places.node(*id).is_some())
    }

    pub(crate) fn node(&self, id: Id) -> &Node {
        self.places.node(id).expect("an id is used only while its node is mentioned")
    }

    pub(crate) fn name(&self, id: Id) -> &Name {
        self.places.text(id)
    }

    /// The id of an existing managed namespace.
    pub(crate) fn existing(&self, name: &str) -> Option<Id> {
        self.id(name).filter(|id| self.node(*id).exists())
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = Id> {
        self.places.nodes().map(|(id, _)| id)
    }

    /// All nodes with their names.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = (&Name, &Node)> {
        self.places.nodes().map(|(id, node)| (self.places.text(id), node))
    }

    /// The labels of a namespace that is there.
    pub(crate) fn labels(&self, id: Id) -> Option<NamespaceLabels<'_>> {
        Some(self.node(id).namespace.as_ref()?.labels.read(id, &self.places))
    }

    /// The `HierarchyConfiguration` of a namespace, to take along.
    pub(crate) fn hierarchy(&self, id: Id) -> Option<HierarchyFact> {
        Some(self.node(id).hierarchy.as_ref()?.fact(&self.places))
    }

    /// The same text, in the memory that the tree has it in if it does.
    pub(crate) fn shared(&self, name: Name) -> Name {
        self.places.find(&name).map_or(name, |id| self.places.text(id).clone())
    }

    pub(crate) fn observe_namespace(
        &mut self,
        fact: NamespaceFact,
        settings: &Settings,
        change: &mut Change,
    ) {
        let id = self.ensure(&fact.name, settings);
        let version = CompactVersion::from(fact.version.clone());
        let is_no_news = |seen: &Namespace| version.is_no_news_after(&seen.version);
        if self.node(id).namespace.as_ref().is_some_and(is_no_news) {
            return;
        }
        let name = fact.name.clone();
        let namespace = Namespace::from_fact(fact, id, &mut self.places, settings);
        let known = self.node(id).namespace.as_ref();
        let is_going = known.is_some_and(|seen| seen.terminating);
        if is_going != namespace.terminating
            || known.and_then(Namespace::subnamespace_of) != namespace.subnamespace_of()
        {
            // What is in a namespace is kept right until it goes, and again when another has come under its name. What an anchor
            // asks for is waited for.
            change.whole(name);
        }
        self.restructure(id, settings, change, |node| Was::namespace(node.namespace.replace(namespace)));
    }

    pub(crate) fn forget_namespace(
        &mut self,
        name: &str,
        uid: &str,
        settings: &Settings,
        change: &mut Change,
    ) {
        let Some(id) = self.id(name) else { return };
        if self.node(id).namespace.as_ref().is_some_and(|seen| seen.version.has_uid(uid)) {
            self.restructure(id, settings, change, |node| Was::namespace(node.namespace.take()));
        }
    }

    pub(crate) fn observe_hierarchy(
        &mut self,
        name: &Name,
        fact: HierarchyFact,
        settings: &Settings,
        change: &mut Change,
    ) {
        let id = self.ensure(name, settings);
        let version = CompactVersion::from(fact.version.clone());
        let is_no_news = |seen: &Hierarchy| version.is_no_news_after(&seen.version);
        if self.node(id).hierarchy.as_deref().is_some_and(is_no_news) {
            return;
        }
        let seen = Box::new(Hierarchy::from_fact(fact, &mut self.places));
        self.restructure(id, settings, change, |node| Was::hierarchy(node.hierarchy.replace(seen)));
    }

    pub(crate) fn forget_hierarchy(
        &mut self,
        name: &str,
        uid: &str,
        settings: &Settings,
        change: &mut Change,
    ) {
        let Some(id) = self.id(name) else { return };
        if self.node(id).hierarchy.as_ref().is_some_and(|seen| seen.version.has_uid(uid)) {
            self.restructure(id, settings, change, |node| Was::hierarchy(node.hierarchy.take()));
        }
    }

    pub(crate) fn observe_anchor(
        &mut self,
        parent: &Name,
        fact: AnchorFact,
        settings: &Settings,
        change: &mut Change,
    ) {
        let id = self.ensure(parent, settings);
        let known = self.node(id).anchors().get(&fact.name);
        if known.is_some_and(|known| fact.version.is_no_news_after(&known.version)) {
            return;
        }
        let child = fact.name.clone();
        if known.is_none_or(|known| known.labels != fact.labels) {
            // Who gains a right in it waits for managed labels.
            change.whole(child.clone());
        }
        if known.is_none() {
            self.holders.entry(child.clone()).or_default().insert(id);
        }
        self.node_mut(id).add_anchor(fact);
        change.structure(parent.clone());
        change.structure(child);
    }

    pub(crate) fn forget_anchor(&mut self, parent: &str, child: &Name, uid: &str, change: &mut Change) {
        let Some(id) = self.id(parent) else { return };
        if self.node(id).anchors().get(child).is_none_or(|known| *known.version.uid != *uid) {
            return;
        }
        self.node_mut(id).remove_anchor(child);
        if let Some(holders) = self.holders.get_mut(child) {
            holders.remove(&id);
            if holders.is_empty() {
                self.holders.remove(child);
            }
        }
        change.structure(self.name(id).clone());
        change.whole(child.clone());
        self.release(id);
    }

    /// The namespaces that hold an anchor of this name.
    pub(crate) fn holders(&self, child: &str) -> impl Iterator<Item = Id> {
        self.holders.get(child).into_iter().flatten().copied()
    }

    /// Keeps the node of `name` while objects in it are known.
    pub(crate) fn pin(&mut self, name: &Name, settings: &Settings) -> Id {
        let id = self.ensure(name, settings);
        self.node_mut(id).objects += 1;
        id
    }

    pub(crate) fn unpin(&mut self, id: Id) {
        self.node_mut(id).objects -= 1;
        self.release(id);
    }

    /// Changes what is known of a node and everything that follows for the links. Touches the node itself, and when a
    /// link, its existence or its freezing changes, all that is below it before or after, and the parents concerned.
    fn restructure(
        &mut self,
        id: Id,
        settings: &Settings,
        change: &mut Change,
        edit: impl FnOnce(&mut Node) -> Was,
    ) {
        let before = (self.node(id).standing(), self.node(id).parent, self.handed_down(id, settings));
        let was = edit(self.node_mut(id));
        let parent = self.configured_parent(id);
        let parent = parent.map(|name| self.ensure(&name, settings));
        if change.everything {
            self.link(id, parent);
        } else if before.0 != self.node(id).standing() || before.1 != parent {
            self.touch_around(id, change);
            self.link(id, parent);
            self.touch_around(id, change);
        } else {
            change.structure(self.name(id).clone());
            if before.2 != self.handed_down(id, settings) {
                // Who gains a right waits for managed labels.
                change.whole(self.name(id).clone());
                self.descendants(id).into_iter().for_each(|below| change.structure(self.name(below).clone()));
            }
        }
        for concerned in [Some(id), before.1, parent].into_iter().flatten() {
            self.note_whether_missing(concerned);
        }
        if self.node(id).hierarchy.as_ref().is_some_and(|seen| !seen.conditions().is_empty()) {
            self.conditioned.insert(id);
        } else {
            self.conditioned.remove(&id);
        }
        was.forget(&mut self.places);
        if let Some(old) = before.1 {
            self.release(old);
        }
        self.release(id);
    }

    fn handed_down(&self, id: Id, settings: &Settings) -> HandedDown {
        let labels = || self.labels(id).map(NamespaceLabels::all).unwrap_or_default();
        self.node(id).handed_down(settings, labels)
    }

    /// The parent that is asked for: by the annotation of a subnamespace, or by the `HierarchyConfiguration`. A namespace
    /// that is going away loses that object some time before it goes itself; until then its place is the one that its tree
    /// labels tell, lest everything below it lose for that time what comes from above. An external namespace has none.
    fn configured_parent(&self, id: Id) -> Option<Name> {
        let node = self.node(id);
        let namespace = node.namespace.as_ref().filter(|_| node.managed && !node.is_external())?;
        if let Some(parent) = node.subnamespace_of() {
            return Some(parent.into());
        }
        match &node.hierarchy {
            Some(hierarchy) => hierarchy.parent().map(|parent| self.name(parent).clone()),
            None if namespace.terminating => {
                let mut above = self.labels(id)?.tree();
                above.find(|(_, depth)| *depth == "1").map(|(parent, _)| parent.into())
            }
            None => None,
        }
    }

    fn note_whether_missing(&mut self, id: Id) {
        let node = self.node(id);
        if node.namespace.is_none() && !node.children.is_empty() {
            self.missing.insert(id);
        } else {
            self.missing.remove(&id);
        }
    }

    /// Those whose `HierarchyConfiguration` shows conditions.
    pub(crate) fn conditioned(&self) -> impl Iterator<Item = Id> {
        self.conditioned.iter().copied()
    }

    /// The namespaces whose parent is not there.
    pub(crate) fn orphans(&self) -> impl Iterator<Item = Id> {
        self.missing.iter().flat_map(|parent| self.children(*parent)).copied()
    }

    pub(crate) fn links_matter_above(&mut self, matter: bool) {
        self.links_matter_above = matter;
    }

    fn touch_around(&self, id: Id, change: &mut Change) {
        if self.links_matter_above {
            self.ancestry(id).path.iter().for_each(|above| change.structure(self.name(*above).clone()));
        }
        if let Some(parent) = self.node(id).parent {
            change.structure(self.name(parent).clone());
        }
        change.whole(self.name(id).clone());
        for below in self.descendants(id) {
            change.whole(self.name(below).clone());
        }
    }

    fn link(&mut self, id: Id, parent: Option<Id>) {
        let old = std::mem::replace(&mut self.node_mut(id).parent, parent);
        if old == parent {
            return;
        }
        if let Some(old) = old {
            let at = self.child_position(old, id).expect("a link is kept on both sides");
            self.node_mut(old).children.remove(at);
        }
        if let Some(parent) = parent {
            let at = self.child_position(parent, id).expect_err("a link is made once");
            self.node_mut(parent).children.insert(at, id);
        }
    }

    fn child_position(&self, parent: Id, child: Id) -> Result<usize, usize> {
        let name = self.name(child);
        self.node(parent).children.binary_search_by(|other| self.name(*other).cmp(name))
    }

    fn ensure(&mut self, name: &Name, settings: &Settings) -> Id {
        if let Some(id) = self.id(name) {
            return id;
        }
        let id = self.places.mention(name.clone());
        let node = Node { managed: settings.is_managed(name), ..Node::default() };
        *self.places.node_mut(id) = Some(Box::new(node));
        id
    }

    fn node_mut(&mut self, id: Id) -> &mut Node {
        self.places.node_mut(id).as_mut().expect("an id is used only while its node is mentioned")
    }

    fn release(&mut self, id: Id) {
        if self.places.node(id).is_some_and(|node| !node.is_mentioned()) {
            *self.places.node_mut(id) = None;
            self.places.forget(id);
        }
    }

    /// Why nothing is propagated into this namespace for a reason of its own.
    pub(crate) fn own_halt(&self, id: Id) -> Option<Halt> {
        let node = self.node(id);
        if !node.exists() {
            return None;
        }
        if let Some(why) = node.hierarchy.as_ref().and_then(|seen| seen.unreadable()) {
            return Some(Halt::Unreadable(why.into()));
        }
        let parent = node.parent?;
        if !self.node(parent).managed {
            return Some(Halt::IllegalParent(self.name(parent).clone()));
        }
        if !self.node(parent).exists() {
            return Some(Halt::ParentMissing(self.name(parent).clone()));
        }
        self.cycle(id).map(Halt::InCycle)
    }
}

/// What a node no longer says, and so mentions no more.
#[derive(Debug, Default)]
struct Was {
    namespace: Option<Namespace>,
    hierarchy: Option<Box<Hierarchy>>,
}

impl Was {
    fn namespace(namespace: Option<Namespace>) -> Self {
        Self { namespace, hierarchy: None }
    }

    fn hierarchy(hierarchy: Option<Box<Hierarchy>>) -> Self {
        Self { namespace: None, hierarchy }
    }

    fn forget(self, places: &mut Places) {
        if let Some(namespace) = self.namespace {
            namespace.labels.forget(places);
        }
        if let Some(hierarchy) = self.hierarchy {
            hierarchy.forget(places);
        }
    }
}
