//! A namespace belongs to one hierarchy: which one it is in.
//!
//! The rules of each dialect refuse a namespace of the other. If a namespace is in both anyway, it is halted in both
//! ([`crate::core::tree`]).

use super::Forest;
use crate::accurate::SubNamespaceFact;
use crate::accurate::place::Labelled;
use crate::accurate::state::labels_of;
use crate::core::name::{Name, PERMANENT};
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

    /// The namespace that Kubernetes never deletes and that would be deleted with `top`: itself, or one below it. `above` gives a
    /// namespace and those above it; `goes_along` says whether a namespace is deleted with the one above it.
    pub(crate) fn permanent_with(
        &self,
        top: Id,
        above: impl Fn(Id) -> Vec<Id>,
        goes_along: impl Fn(Id) -> bool,
    ) -> Option<&'static str> {
        PERMANENT.into_iter().find(|kept| {
            let Some(kept) = self.id(kept) else { return false };
            let path = above(kept);
            let along = path.iter().take_while(|it| goes_along(**it)).count();
            path.iter().take(along + 1).any(|it| *it == top)
        })
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
