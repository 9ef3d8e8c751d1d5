//! Edges along which objects go hop by hop (`core/hop.rs`), beside those along which they reach all namespaces below.
//!
//! A namespace has at most one upstream edge of this sort, of one kind. A namespace that has edges of both sorts is *crossed*, and
//! halted.

use super::{Ancestry, ById, Id, Tree, walk};
use crate::core::change::Change;
use crate::core::name::Name;

/// What the upstream namespace is to a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EdgeKind {
    /// Its parent.
    Parent,
    /// A template.
    Template,
}

impl EdgeKind {
    /// The name of the relation, which is also that of Accurate's label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Parent => "parent",
            Self::Template => "template",
        }
    }
}

/// An edge to an upstream namespace, which need not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Edge {
    pub(crate) kind: EdgeKind,
    pub(crate) upstream: Id,
}

#[derive(Debug, Default)]
pub(super) struct Hops {
    upstream: ById<Edge>,
    /// Ordered by id.
    downstream: ById<Vec<Id>>,
    /// How many edges there are.
    edges: usize,
}

impl Hops {
    fn link(&mut self, id: Id, edge: Option<Edge>) {
        let old = match edge {
            Some(edge) => self.upstream.insert(id, edge),
            None => self.upstream.remove(id),
        };
        if let Some(old) = &old {
            self.edges -= 1;
            if let Some(below) = self.downstream.get_mut(old.upstream) {
                below.retain(|other| *other != id);
            }
            if self.downstream.get(old.upstream).is_some_and(Vec::is_empty) {
                self.downstream.remove(old.upstream);
            }
        }
        if let Some(edge) = edge {
            self.edges += 1;
            match self.downstream.get_mut(edge.upstream) {
                Some(below) => {
                    let at = below.binary_search(&id).expect_err("an edge is made once");
                    below.insert(at, id);
                }
                None => drop(self.downstream.insert(edge.upstream, vec![id])),
            }
        }
    }
}

impl Tree {
    /// The edge to the namespace from which objects go to this one hop by hop.
    pub(crate) fn hop(&self, id: Id) -> Option<Edge> {
        self.hops.upstream.get(id).copied()
    }

    /// The namespaces to which objects go from this one hop by hop; ordered by id.
    pub(crate) fn next_hops(&self, id: Id) -> &[Id] {
        self.hops.downstream.get(id).map_or(&[], |below| below)
    }

    /// The namespaces whose upstream namespace does not exist.
    pub(crate) fn hop_orphans(&self) -> impl Iterator<Item = Id> {
        let missing = self.hops.downstream.iter().filter(|(upstream, _)| self.namespace(*upstream).is_none());
        missing.flat_map(|(_, below)| below.iter().copied())
    }

    /// The namespace itself, the one from which objects go to it hop by hop, and so on.
    pub(crate) fn hop_ancestry(&self, id: Id) -> Ancestry {
        walk::follow(id, |id| self.hop(id).map(|edge| edge.upstream))
    }

    /// Whether the namespace is a member of a cycle of such edges.
    pub(crate) fn is_in_hop_cycle(&self, id: Id) -> bool {
        self.hops.edges > 0 && self.hop_ancestry(id).repeats_at == Some(0)
    }

    /// Whether the namespace has edges of both sorts.
    pub(crate) fn is_crossed(&self, id: Id) -> bool {
        let has_hops = || self.hop(id).is_some() || !self.next_hops(id).is_empty();
        let has_others = || self.upstream(id).is_some() || !self.downstream(id).is_empty();
        self.hops.edges > 0 && has_hops() && has_others()
    }

    /// Sets the edge, or none. If it changes, this touches the namespace, its upstream namespaces, the members of a cycle before or
    /// after, and whatever crossing halts or frees.
    pub(crate) fn set_hop(&mut self, id: Id, edge: Option<(EdgeKind, &Name)>, change: &mut Change) {
        let old = self.hop(id);
        let is_same = match (old, edge) {
            (None, None) => true,
            (Some(old), Some((kind, name))) => old.kind == kind && self.name(old.upstream) == name,
            _ => false,
        };
        if is_same {
            return;
        }
        let new = edge.map(|(kind, name)| Edge { kind, upstream: self.pin(name) });
        let concerned = [Some(id), old.map(|edge| edge.upstream), new.map(|edge| edge.upstream)];
        let before = self.crossings(concerned);
        self.touch_cycle(id, change);
        self.hops.link(id, new);
        self.touch_cycle(id, change);
        change.whole(self.name(id).clone());
        let upstream = [old, new].into_iter().flatten();
        for edge in upstream {
            change.structure(self.name(edge.upstream).clone());
        }
        self.touch_crossings(&before, change);
        if let Some(old) = old {
            self.unpin(old.upstream);
        }
    }

    fn touch_cycle(&self, id: Id, change: &mut Change) {
        let Ancestry { path, repeats_at } = self.hop_ancestry(id);
        if repeats_at.is_some() {
            for member in path {
                change.whole(self.name(member).clone());
            }
        }
    }

    /// Which of these are crossed.
    pub(super) fn crossings(&self, ids: [Option<Id>; 3]) -> Vec<(Id, bool)> {
        ids.into_iter().flatten().map(|id| (id, self.is_crossed(id))).collect()
    }

    /// Touches everything that is halted, or not any more, because a namespace is crossed now and was not before, or the reverse.
    pub(super) fn touch_crossings(&self, before: &[(Id, bool)], change: &mut Change) {
        for (id, _) in before.iter().filter(|(id, was)| *was != self.is_crossed(*id)) {
            let below = self.descendants(*id).into_iter().chain(self.next_hops(*id).iter().copied());
            for halted in below.chain([*id]) {
                change.whole(self.name(halted).clone());
            }
        }
    }
}
