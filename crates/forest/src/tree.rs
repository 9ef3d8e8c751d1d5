//! Who is whose parent: the namespaces, the links between them, and what follows from the links alone.
//!
//! A node stands for a name that something mentions: a namespace, a `HierarchyConfiguration`, a child's parent, an
//! object. Names are interned to small ids; a node that nothing mentions any more is dropped. Lookups take `&self` and
//! create nothing. Nothing here knows of objects, rules or plans.

mod node;
#[cfg(test)]
mod tests;
mod walk;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::condition::Halt;
use crate::fact::{AnchorFact, HierarchyFact, NamespaceFact};
use crate::{Change, Name, Settings};

pub(crate) use node::{Namespace, Node};
pub use walk::Illegal;

/// A node's place. Valid as long as something mentions the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Id(u32);

#[derive(Debug, Default)]
pub(crate) struct Tree {
    ids: HashMap<Name, Id>,
    nodes: Vec<Option<Node>>,
    free: Vec<Id>,
    /// Those that have children and are not there.
    missing: BTreeSet<Id>,
    /// Where anchors of a name are.
    holders: HashMap<Name, BTreeSet<Id>>,
    /// Whether something is said of a namespace on all above it, so that a link concerns them too.
    links_matter_above: bool,
}

impl Tree {
    pub(crate) fn id(&self, name: &str) -> Option<Id> {
        self.ids.get(name).copied()
    }

    pub(crate) fn node(&self, id: Id) -> &Node {
        self.nodes[id.0 as usize].as_ref().expect("an id is used only while its node is mentioned")
    }

    pub(crate) fn name(&self, id: Id) -> &Name {
        &self.node(id).name
    }

    /// The id of an existing managed namespace.
    pub(crate) fn existing(&self, name: &str) -> Option<Id> {
        self.id(name).filter(|id| self.node(*id).exists())
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = Id> {
        (0u32..).map(Id).zip(&self.nodes).filter(|(_, node)| node.is_some()).map(|(id, _)| id)
    }

    pub(crate) fn observe_namespace(
        &mut self,
        fact: NamespaceFact,
        settings: &Settings,
        change: &mut Change,
    ) {
        let id = self.ensure(&fact.name, settings);
        let is_no_news = |seen: &Namespace| fact.version.is_no_news_after(&seen.version);
        if self.node(id).namespace.as_ref().is_some_and(is_no_news) {
            return;
        }
        let is_going = |node: &Node| node.namespace.as_ref().is_some_and(|seen| seen.terminating);
        if is_going(self.node(id)) != fact.terminating {
            // What is in a namespace is kept right until it goes, and again when another has come under its name.
            change.whole(fact.name.clone());
        }
        let namespace = Namespace::from_fact(fact, settings);
        self.restructure(id, settings, change, |node| node.namespace = Some(namespace));
    }

    pub(crate) fn forget_namespace(
        &mut self,
        name: &str,
        uid: &str,
        settings: &Settings,
        change: &mut Change,
    ) {
        let Some(id) = self.id(name) else { return };
        if self.node(id).namespace.as_ref().is_some_and(|seen| *seen.version.uid == *uid) {
            self.restructure(id, settings, change, |node| node.namespace = None);
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
        let is_no_news = |seen: &HierarchyFact| fact.version.is_no_news_after(&seen.version);
        if self.node(id).hierarchy.as_deref().is_some_and(is_no_news) {
            return;
        }
        self.restructure(id, settings, change, |node| node.hierarchy = Some(Box::new(fact)));
    }

    pub(crate) fn forget_hierarchy(
        &mut self,
        name: &str,
        uid: &str,
        settings: &Settings,
        change: &mut Change,
    ) {
        let Some(id) = self.id(name) else { return };
        if self.node(id).hierarchy.as_ref().is_some_and(|seen| *seen.version.uid == *uid) {
            self.restructure(id, settings, change, |node| node.hierarchy = None);
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
        let known = self.node(id).anchors.get(&fact.name);
        if known.is_some_and(|known| fact.version.is_no_news_after(&known.version)) {
            return;
        }
        let child = fact.name.clone();
        if known.is_none() {
            self.holders.entry(child.clone()).or_default().insert(id);
        }
        self.node_mut(id).anchors.insert(child.clone(), fact);
        change.structure(parent.clone());
        change.structure(child);
    }

    pub(crate) fn forget_anchor(&mut self, parent: &str, child: &Name, uid: &str, change: &mut Change) {
        let Some(id) = self.id(parent) else { return };
        if self.node(id).anchors.get(child).is_none_or(|known| *known.version.uid != *uid) {
            return;
        }
        self.node_mut(id).anchors.remove(child);
        if let Some(holders) = self.holders.get_mut(child) {
            holders.remove(&id);
            if holders.is_empty() {
                self.holders.remove(child);
            }
        }
        change.structure(self.name(id).clone());
        change.structure(child.clone());
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
        edit: impl FnOnce(&mut Node),
    ) {
        let before = (self.node(id).standing(), self.node(id).parent, self.node(id).handed_down(settings));
        edit(self.node_mut(id));
        let parent = self.node(id).configured_parent();
        let parent = parent.map(|name| self.ensure(&name, settings));
        if change.everything {
            self.link(id, parent);
        } else if before.0 != self.node(id).standing() || before.1 != parent {
            self.touch_around(id, change);
            self.link(id, parent);
            self.touch_around(id, change);
        } else {
            change.structure(self.name(id).clone());
            if before.2 != self.node(id).handed_down(settings) {
                self.descendants(id).into_iter().for_each(|below| change.structure(self.name(below).clone()));
            }
        }
        for concerned in [Some(id), before.1, parent].into_iter().flatten() {
            self.note_whether_missing(concerned);
        }
        if let Some(old) = before.1 {
            self.release(old);
        }
        self.release(id);
    }

    fn note_whether_missing(&mut self, id: Id) {
        let node = self.node(id);
        if node.namespace.is_none() && !node.children.is_empty() {
            self.missing.insert(id);
        } else {
            self.missing.remove(&id);
        }
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
        let node = Node {
            name: name.clone(),
            managed: settings.is_managed(name),
            namespace: None,
            hierarchy: None,
            anchors: BTreeMap::new(),
            parent: None,
            children: Vec::new(),
            objects: 0,
        };
        let id = self.free.pop().unwrap_or_else(|| {
            self.nodes.push(None);
            Id(u32::try_from(self.nodes.len() - 1).expect("fewer than 2^32 namespaces"))
        });
        self.nodes[id.0 as usize] = Some(node);
        self.ids.insert(name.clone(), id);
        id
    }

    fn node_mut(&mut self, id: Id) -> &mut Node {
        self.nodes[id.0 as usize].as_mut().expect("an id is used only while its node is mentioned")
    }

    fn release(&mut self, id: Id) {
        if self.nodes[id.0 as usize].as_ref().is_some_and(|node| !node.is_mentioned()) {
            let node = self.nodes[id.0 as usize].take().expect("it was just there");
            self.ids.remove(&node.name);
            self.free.push(id);
        }
    }

    /// Why nothing is propagated into this namespace for a reason of its own.
    pub(crate) fn own_halt(&self, id: Id) -> Option<Halt> {
        let node = self.node(id);
        if !node.exists() {
            return None;
        }
        if let Some(why) = node.hierarchy.as_ref().and_then(|seen| seen.unreadable.clone()) {
            return Some(Halt::Unreadable(why));
        }
        let parent = self.node(node.parent?);
        if !parent.managed {
            return Some(Halt::IllegalParent(parent.name.clone()));
        }
        if !parent.exists() {
            return Some(Halt::ParentMissing(parent.name.clone()));
        }
        self.cycle(id).map(Halt::InCycle)
    }
}
