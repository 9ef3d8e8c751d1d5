//! Following the edges: up to ancestors, down to descendants, along cycles.
//!
//! Every walk ends, also in a cycle.

use hashbrown::HashSet;

use super::{Id, NamespaceLabels, Tree};
use crate::core::name::Name;

/// A namespace and those above it.
#[derive(Debug)]
pub(crate) struct Ancestry {
    /// The namespace itself first, then its parent, and so on. Each once.
    pub(crate) path: Vec<Id>,
    /// The index in `path` of the parent of the last member, if the walk reached a cycle.
    pub(crate) repeats_at: Option<usize>,
}

/// Why a namespace cannot have a parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Illegal {
    /// It would be its own parent.
    Itself,
    /// The parent is below it: the path from the parent up to it.
    Below(Vec<Name>),
}

/// The namespace itself, the one that `upstream` gives for it, and so on.
pub(super) fn follow(id: Id, upstream: impl Fn(Id) -> Option<Id>) -> Ancestry {
    /// From this length on, a set is cheaper than a search in the path.
    const LONG: usize = 32;
    let mut path = vec![id];
    let mut seen = HashSet::new();
    let mut current = id;
    while let Some(parent) = upstream(current) {
        let repeated = if path.len() < LONG {
            path.contains(&parent)
        } else {
            if path.len() == LONG {
                seen.extend(path.iter().copied());
            }
            !seen.insert(parent)
        };
        if repeated {
            let repeats_at = path.iter().position(|member| *member == parent);
            return Ancestry { path, repeats_at };
        }
        path.push(parent);
        current = parent;
    }
    Ancestry { path, repeats_at: None }
}

impl Tree {
    pub(crate) fn upstream(&self, id: Id) -> Option<Id> {
        self.node(id).upstream
    }

    /// Ordered by name.
    pub(crate) fn downstream(&self, id: Id) -> &[Id] {
        &self.node(id).downstream
    }

    pub(crate) fn ancestry(&self, id: Id) -> Ancestry {
        follow(id, |id| self.upstream(id))
    }

    /// The namespaces below; the namespace itself only if it is in a cycle. Unordered.
    pub(crate) fn descendants(&self, id: Id) -> Vec<Id> {
        let mut found: Vec<Id> = self.downstream(id).to_vec();
        let mut seen: HashSet<Id> = found.iter().copied().collect();
        let mut next = 0;
        while next < found.len() {
            let current = found[next];
            found.extend(self.downstream(current).iter().filter(|child| seen.insert(**child)));
            next += 1;
        }
        found
    }

    /// The same, if there are no more than `limit`; stops there.
    pub(crate) fn few_descendants(&self, id: Id, limit: usize) -> Option<Vec<Id>> {
        let mut found = Vec::new();
        let mut seen = HashSet::new();
        let mut next = Some(id);
        let mut done = 0;
        while let Some(current) = next {
            let new = self.downstream(current).iter().filter(|child| seen.insert(**child));
            found.extend(new.take(limit + 1 - found.len()));
            if found.len() > limit {
                return None;
            }
            next = found.get(done).copied();
            done += 1;
        }
        Some(found)
    }

    /// The cycle of which this namespace is a member: the smallest name first and last, each the parent of the next. All members
    /// give the same list. A namespace below a cycle is not in it.
    pub(crate) fn cycle(&self, id: Id) -> Option<Vec<Name>> {
        let Ancestry { path, repeats_at } = self.ancestry(id);
        if repeats_at != Some(0) {
            return None;
        }
        let mut names: Vec<Name> = path.iter().rev().map(|member| self.name(*member).clone()).collect();
        let smallest = (0..names.len()).min_by_key(|at| &names[*at])?;
        names.rotate_left(smallest);
        names.push(names[0].clone());
        Some(names)
    }

    /// The nearest halted namespace from this one upwards, itself included.
    pub(crate) fn halted_root(&self, id: Id) -> Option<Id> {
        let Ancestry { path, repeats_at } = self.ancestry(id);
        let is_halted =
            |id: &Id| self.is_existing(*id) && (self.unreadable(*id).is_some() || self.is_crossed(*id));
        let by_itself = path.iter().position(is_halted);
        let at_the_top = || {
            let (last, below) = path.split_last()?;
            (!below.is_empty() && !self.is_existing(*last)).then(|| below.len() - 1)
        };
        let by_links = repeats_at.or_else(at_the_top);
        let nearest = match (by_itself, by_links) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        nearest.map(|at| path[at])
    }

    /// This namespace and those above it, up to and including the nearest halted one. Each gives it a tree label.
    pub(crate) fn labelling(&self, id: Id) -> Vec<Id> {
        let halted = self.halted_root(id);
        let mut path = self.ancestry(id).path;
        if let Some(end) = halted.and_then(|root| path.iter().position(|member| *member == root)) {
            path.truncate(end + 1);
        }
        path
    }

    /// The root of the tree of `id`; if its ancestry reaches a cycle, the member at which it repeats.
    pub(crate) fn root(&self, id: Id) -> Id {
        let Ancestry { path, repeats_at } = self.ancestry(id);
        path[repeats_at.unwrap_or(path.len() - 1)]
    }

    /// The nearest namespace that is above both or one of them.
    pub(crate) fn common_ancestor(&self, one: Id, other: Id) -> Option<Id> {
        let above_other: HashSet<Id> = self.ancestry(other).path.into_iter().collect();
        self.ancestry(one).path.into_iter().find(|id| above_other.contains(id))
    }

    /// Whether the upstream namespace of this existing one is missing.
    pub(crate) fn is_orphan(&self, id: Id) -> bool {
        let is_missing = |upstream: Id| self.is_managed(upstream) && !self.is_existing(upstream);
        self.is_existing(id) && self.upstream(id).is_some_and(is_missing)
    }

    /// Where a namespace belongs whose upstream namespace is missing or being deleted: the nearest existing namespace above that one.
    /// Only the labels of the namespace tell it. A namespace of the same name can have been created elsewhere in the meantime, so
    /// the existing namespaces above it must be those that the labels name. If two follow each other as the labels say, those above
    /// them may have changed.
    pub(crate) fn former_place(&self, id: Id) -> Option<Id> {
        let upstream = self.upstream(id)?;
        let mut above: Vec<(usize, Id)> = self
            .labels(id)?
            .suffixed()
            .filter_map(|(name, depth)| {
                let at = self.existing(name).filter(|it| *it != upstream && *it != id)?;
                Some((depth.parse().ok()?, at))
            })
            .collect();
        above.sort_unstable_by_key(|(depth, _)| *depth);
        let above: Vec<Id> = above.into_iter().map(|(_, id)| id).collect();
        let is_in_place = |at: &usize| {
            let path = self.ancestry(above[*at]).path.into_iter().filter(|it| self.is_existing(*it));
            path.collect::<Vec<_>>().starts_with(&above[*at..above.len().min(*at + 2)])
        };
        (0..above.len()).find(is_in_place).map(|at| above[at])
    }

    /// This namespace and those above it. Above an orphan come those where it belongs.
    pub(crate) fn place(&self, id: Id) -> Vec<Id> {
        let mut path = self.ancestry(id).path;
        let mut known = 0;
        while known < path.len() {
            known = path.len();
            // The last one may be missing.
            let below = path.iter().rev().nth(1).copied();
            if let Some(former) = below.filter(|it| self.is_orphan(*it)).and_then(|it| self.former_place(it))
            {
                let above = self.ancestry(former).path;
                path.extend(above.into_iter().filter(|it| !path[..known].contains(it)).collect::<Vec<_>>());
            }
        }
        path
    }

    /// The namespace, those below it, and the orphans that belong there with those below them. Unordered.
    pub(crate) fn at_and_below(&self, id: Id) -> Vec<Id> {
        let mut found: HashSet<Id> = self.descendants(id).into_iter().chain([id]).collect();
        for orphan in self.orphans().filter(|it| self.place(*it).contains(&id)) {
            found.extend(self.descendants(orphan).into_iter().chain([orphan]));
        }
        found.into_iter().collect()
    }

    /// The orphans whose place may change with this namespace.
    pub(crate) fn orphans_around(&self, id: Id) -> Vec<Id> {
        let names = |orphan: Id| {
            let mut labels = self.labels(orphan).into_iter().flat_map(NamespaceLabels::suffixed);
            labels.any(|(name, _)| *name == **self.name(id))
        };
        self.orphans().filter(|it| names(*it) || self.place(*it).contains(&id)).collect()
    }

    /// Whether the edges allow `child` below `parent`.
    pub(crate) fn may_join(&self, parent: Id, child: Id) -> Result<(), Illegal> {
        if parent == child {
            return Err(Illegal::Itself);
        }
        let above = self.ancestry(parent).path;
        match above.iter().position(|id| *id == child) {
            None => Ok(()),
            Some(at) => Err(Illegal::Below(above[..=at].iter().map(|id| self.name(*id).clone()).collect())),
        }
    }
}
