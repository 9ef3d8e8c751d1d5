//! Limits of trees: `spec.trees` of the `HNCConfiguration` (section 2.3 of docs/compatibility.md).
//!
//! A limit holds below its root, wherever the root is. Admission refuses what would exceed it, and the controller creates no
//! subnamespace beyond it: all its plans together create no more than there is room for. What was there before the limit stays. An
//! orphan, with all below it, counts where its tree labels say.

use std::collections::BTreeSet;
use std::fmt;

use super::anchor::AnchorState;
use super::fact::AnchorFact;
use super::tree_limit::TreeLimit;
use crate::core::name::Name;
use crate::core::tree::Id;
use crate::core::verdict::Addition;
use crate::dialects::Forest;

/// More namespaces than there can be.
const ALL: usize = usize::MAX / 2;

/// A limit that a namespace would exceed.
#[derive(Debug)]
pub(crate) struct Exceeded<'a> {
    limit: &'a TreeLimit,
    child: Name,
    excess: Excess,
}

#[derive(Debug)]
enum Excess {
    /// How many namespaces there are, and how many would be added.
    Namespaces(usize, usize),
    /// The deepest would be this many levels below the root.
    Depth(usize),
    /// This name does not match.
    Name(Name),
}

impl fmt::Display for Exceeded<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { limit: TreeLimit { root, max_namespaces, max_depth, pattern, .. }, child, excess } = self;
        write!(
            f,
            "namespace {child:?} cannot be below {root:?}, which has a limit (spec.trees of the HNCConfiguration): "
        )?;
        match excess {
            Excess::Namespaces(present, added) => {
                write!(
                    f,
                    "the limit of namespaces below it is {}; it has {present}, and this would add {added}",
                    max_namespaces.unwrap_or_default()
                )
            }
            Excess::Depth(depth) => {
                let most = max_depth.unwrap_or_default();
                let levels = if most == 1 { "level" } else { "levels" };
                write!(f, "namespaces may be at most {most} {levels} below it, and this would be {depth}")
            }
            Excess::Name(name) => write!(f, "names below it must match {pattern:?}, and {name:?} does not"),
        }
    }
}

impl Forest {
    /// The first limit that `child`, with all namespaces below it, would exceed as a child of `parent`. A namespace that stays below
    /// the root of a limit is not counted again, and exceeds it only if it gets deeper. Of the anchors whose subnamespace does not
    /// exist yet, those before this turn count. A missing parent is below all anchors that wait to create it.
    pub(crate) fn exceeded(&self, parent: &Name, child: &Name, turn: u64) -> Option<Exceeded<'_>> {
        let limits = self.hnc().limits();
        if limits.is_empty() {
            return None;
        }
        let (paths, present) = (self.paths_from(parent), self.above(child));
        // Namespaces can be below a name that does not exist.
        let id = self.id(child);
        limits.iter().find_map(|limit| {
            let was = present.iter().position(|it| *it == limit.root).filter(|distance| *distance > 0);
            let excess = paths.iter().find_map(|above| {
                let distance = 1 + above.iter().position(|it| *it == limit.root)?;
                self.excess(limit, (child, id), distance, was, turn)
            })?;
            Some(Exceeded { limit, child: child.clone(), excess })
        })
    }

    /// Whether a limit holds for the children of this namespace.
    pub(crate) fn is_limited(&self, parent: &Name) -> bool {
        let limits = self.hnc().limits();
        !limits.is_empty() && self.above(parent).iter().any(|it| limits.iter().any(|limit| limit.root == *it))
    }

    /// The limits of namespaces that count `child`, and all below it, when it gets this parent, and did not count it before.
    pub(crate) fn additions(&self, parent: &Name, child: &Name) -> Vec<Addition> {
        let counts = |limit: &&TreeLimit| limit.max_namespaces.is_some();
        let limits: Vec<&TreeLimit> = self.hnc().limits().iter().filter(counts).collect();
        if limits.is_empty() {
            return Vec::new();
        }
        let (above, present) = (self.paths_from(parent).concat(), self.above(child));
        let counts_anew =
            |limit: &&TreeLimit| above.contains(&limit.root) && !present[1..].contains(&limit.root);
        let count = 1 + self.id(child).map_or(0, |id| self.descendants(id).len());
        let addition = |limit: &TreeLimit| {
            let max = limit.max_namespaces.unwrap_or(ALL);
            let room = self.count_below(&limit.root, max, child, u64::MAX).map_or(0, |present| max - present);
            Addition { root: limit.root.clone(), count, room }
        };
        limits.into_iter().filter(counts_anew).map(addition).collect()
    }

    /// This namespace and those above it. Above an orphan come those where it belongs.
    fn above(&self, name: &Name) -> Vec<Name> {
        let Some(id) = self.id(name) else { return vec![name.clone()] };
        self.place(id).into_iter().map(|id| self.name(id).clone()).collect()
    }

    /// The paths from this namespace to the top: more than one where several anchors wait to create the one at the top. Each of them
    /// is followed once.
    fn paths_from(&self, name: &Name) -> Vec<Vec<Name>> {
        let (mut paths, mut open) = (Vec::new(), vec![self.above(name)]);
        let mut followed = BTreeSet::new();
        while let Some(path) = open.pop() {
            let missing = path.last().filter(|top| !self.exists(top));
            let mut holders = missing.map(|top| self.holders_of_waiting(top)).unwrap_or_default();
            holders.retain(|holder| !path.contains(holder) && followed.insert(holder.clone()));
            open.extend(holders.iter().map(|holder| [path.clone(), self.above(holder)].concat()));
            if holders.is_empty() {
                paths.push(path);
            }
        }
        paths
    }

    fn excess(
        &self,
        limit: &TreeLimit,
        (child, id): (&Name, Option<Id>),
        distance: usize,
        was: Option<usize>,
        turn: u64,
    ) -> Option<Excess> {
        let below = id.map(|id| self.descendants(id)).unwrap_or_default();
        let depth = distance + id.map_or(0, |id| self.height(id, below.len()));
        if limit.max_depth.is_some_and(|max| depth > max) && was.is_none_or(|was| distance > was) {
            return Some(Excess::Depth(depth));
        }
        if was.is_some() {
            return None;
        }
        let mut names = std::iter::once(child).chain(below.iter().map(|id| self.name(*id)));
        if let Some(pattern) = &limit.names
            && let Some(name) = names.find(|name| !pattern.is_match(name))
        {
            return Some(Excess::Name(name.clone()));
        }
        let added = 1 + below.len();
        let max = limit.max_namespaces?;
        let count = |most| self.count_below(&limit.root, most, child, turn);
        if max.checked_sub(added).is_some_and(|free| count(free).is_some()) {
            return None;
        }
        Some(Excess::Namespaces(count(ALL).unwrap_or_default(), added))
    }

    /// The number of namespaces below `root`; `None` if they are more than `most`. The subnamespaces of anchors of other names than
    /// `child` count before they exist, and so do the namespaces that wait for them. Those below `child` do not count.
    fn count_below(&self, root: &Name, most: usize, child: &Name, turn: u64) -> Option<usize> {
        let Some(root) = self.id(root) else { return Some(0) };
        let own = BTreeSet::from_iter(self.id(child).map(|id| self.descendants(id)).unwrap_or_default());
        let enough = most.saturating_add(own.len());
        // While the root is missing, its children are orphans, and both below it and in its place.
        let mut below = BTreeSet::from_iter(self.few_descendants(root, enough)?);
        for orphan in self.tree.orphans().filter(|it| self.place(*it).contains(&root)) {
            below.insert(orphan);
            below.extend(self.few_descendants(orphan, enough)?);
        }
        let mut holders: Vec<Id> = below.iter().copied().chain([root]).collect();
        let mut waiting = BTreeSet::new();
        while let Some(holder) = holders.pop() {
            let names = self.waiting(holder, turn).filter(|it| *it != child && waiting.insert(*it));
            for id in names.filter_map(|it| self.id(it)).collect::<Vec<_>>() {
                holders.extend(self.few_descendants(id, enough)?.into_iter().filter(|it| below.insert(*it)));
            }
        }
        below.retain(|id| !own.contains(id));
        let count = below.len() + waiting.len();
        (count <= most).then_some(count)
    }

    /// The missing subnamespaces of the anchors of a namespace that came before this turn. An anchor that shows `Forbidden` counts,
    /// because a user can write any other state.
    fn waiting(&self, holder: Id, turn: u64) -> impl Iterator<Item = &Name> {
        let parent = self.name(holder);
        let waits = move |anchor: &&AnchorFact| {
            anchor.may_create()
                && self.anchor_state(parent, &anchor.name) == AnchorState::Missing
                && self.hnc().turn(holder, &anchor.name).is_some_and(|it| it < turn)
        };
        self.anchors(holder).values().filter(waits).map(|anchor| &anchor.name)
    }

    /// The number of levels below a namespace with this many descendants.
    fn height(&self, id: Id, most: usize) -> usize {
        let (mut level, mut height) = (self.downstream(id).to_vec(), 0);
        // A cycle has no bottom; it is halted, and no member can move.
        while !level.is_empty() && height < most {
            level = level.iter().flat_map(|id| self.downstream(*id)).copied().collect();
            height += 1;
        }
        height
    }
}

#[cfg(test)]
mod tests;
