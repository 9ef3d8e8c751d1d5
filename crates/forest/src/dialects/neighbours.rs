//! A namespace belongs to one hierarchy: which one it is in.
//!
//! The rules of each dialect refuse a namespace of the other. If a namespace is in both anyway, it is halted in both
//! ([`crate::core::tree`]).

use super::Forest;
use crate::accurate::SubNamespaceFact;
use crate::accurate::place::Labelled;
use crate::accurate::state::labels_of;
use crate::core::name::Name;
use crate::core::tree::{EdgeKind, Id};

impl Forest {
    /// Whether the namespace is in a hierarchy of HNC: it has a parent, children or anchors.
    pub fn is_in_hnc(&self, name: &str) -> bool {
        let has_edges = |id: Id| {
            self.tree.upstream(id).is_some()
                || !self.tree.downstream(id).is_empty()
                || !self.anchors(id).is_empty()
        };
        self.id(name).is_some_and(has_edges)
    }

    /// Whether the namespace is in a hierarchy of Accurate: its labels say so, or it is the upstream namespace of another.
    pub fn is_in_accurate(&self, name: &str) -> bool {
        let is_in = |id: Id| !self.tree.next_hops(id).is_empty() || labels_of(self, id).has_place();
        self.accurate.settings().is_some() && self.id(name).is_some_and(is_in)
    }

    /// Whether Accurate alone sets labels and annotations of the namespace: they come from an upstream namespace there, and it has no
    /// edges in HNC's hierarchy. If it has some, Accurate sets none.
    pub(crate) fn is_marked_by_accurate(&self, id: Id) -> bool {
        let has_edges = self.tree.upstream(id).is_some() || !self.tree.downstream(id).is_empty();
        self.accurate.settings().is_some() && !has_edges && labels_of(self, id).edge().is_some()
    }

    /// The `SubNamespace` of this namespace in its parent.
    pub(crate) fn own_sub_namespace(&self, id: Id) -> Option<&SubNamespaceFact> {
        let edge = self.tree.hop(id).filter(|edge| edge.kind == EdgeKind::Parent)?;
        self.accurate.sub_namespaces(edge.upstream).get(self.name(id))
    }

    /// Whether the `HierarchyConfiguration` of the namespace sets labels or annotations.
    pub(crate) fn is_marked_by_hnc(&self, name: &str) -> bool {
        let requested = self.id(name).and_then(|id| self.requested(id));
        requested
            .is_some_and(|(labels, annotations)| labels.iter().chain(annotations.iter()).next().is_some())
    }

    /// The namespace above all others in Accurate's hierarchy, if `parent` is the parent of `name` there.
    pub(crate) fn accurate_top(&self, name: &str, parent: &str) -> Option<&Name> {
        let id = self.id(name)?;
        let edge = self.tree.hop(id).filter(|edge| edge.kind == EdgeKind::Parent)?;
        let above = self.tree.hop_ancestry(id);
        let is_known = **self.name(edge.upstream) == *parent && above.repeats_at.is_none();
        above.path.last().filter(|_| is_known).map(|top| self.name(*top))
    }
}
