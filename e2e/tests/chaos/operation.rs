//! What a user does to the cluster: one random operation, what it does to a [`World`] if it is accepted, and the request
//! for it. It does not know what the controller makes of it.

use std::collections::{BTreeMap, BTreeSet};

use hns_e2e::Dice;

use super::kind::{Content, Kind};
use super::specification::{Key, Mode, Own, World};
use crate::cluster::asks::ASKS;

/// The names that all objects have.
pub(crate) const NAMES: [&str; 3] = ["x", "y", "z"];
const TEAMS: [&str; 2] = ["red", "blue"];
const MODES: [Mode; 5] = [Mode::Propagate, Mode::AllowPropagate, Mode::Remove, Mode::Ignore, Mode::Dropped];

/// The kinds of operation, with how often each is tried among a hundred.
pub(crate) const SORTS: [(Sort, usize); 7] = [
    (Sort::Create, 30),
    (Sort::Update, 12),
    (Sort::Delete, 10),
    (Sort::Move, 13),
    (Sort::Mode, 9),
    (Sort::Annotate, 14),
    (Sort::Label, 12),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sort {
    Create,
    Update,
    Delete,
    Move,
    Mode,
    Annotate,
    Label,
}

/// One operation.
#[derive(Debug, Clone)]
pub(crate) enum Operation {
    Create(Key, Own),
    /// Another content, other annotations or other labels for an object.
    Change(Sort, Key, Own),
    Delete(Key),
    /// The namespace gets another parent, or none.
    Move(String, Option<String>),
    Mode(Kind, Mode),
    /// The namespace belongs to another team, or to none.
    Team(String, Option<&'static str>),
}

impl Operation {
    pub(crate) fn sort(&self) -> Sort {
        match self {
            Self::Create(..) => Sort::Create,
            Self::Change(sort, ..) => *sort,
            Self::Delete(_) => Sort::Delete,
            Self::Move(..) => Sort::Move,
            Self::Mode(..) => Sort::Mode,
            Self::Team(..) => Sort::Label,
        }
    }

    /// Whether it puts a namespace below itself.
    pub(crate) fn closes_a_cycle(&self, world: &World) -> bool {
        let Self::Move(child, Some(parent)) = self else { return false };
        world.model().ancestry(parent).iter().any(|above| **above == **child)
    }

    /// The world once this was accepted.
    pub(crate) fn done(&self, world: &World) -> World {
        let mut world = world.clone();
        match self.clone() {
            Self::Create(key, own) | Self::Change(_, key, own) => drop(world.own.insert(key, own)),
            Self::Delete(key) => drop(world.own.remove(&key)),
            Self::Move(child, parent) => drop(world.parents.insert(child, parent)),
            Self::Mode(kind, mode) => drop(world.modes.insert(kind, mode)),
            Self::Team(namespace, Some(team)) => drop(world.teams.insert(namespace, team)),
            Self::Team(namespace, None) => drop(world.teams.remove(&namespace)),
        }
        world
    }
}

/// Makes operations up. Everything random about them comes from one seed; what was refused decides what comes next, too.
pub(crate) struct Author {
    dice: Dice,
    counter: u64,
    accepted: BTreeMap<Sort, usize>,
}

impl Author {
    pub(crate) fn new(seed: u64) -> Self {
        Self { dice: Dice::new(seed), counter: 0, accepted: BTreeMap::new() }
    }

    /// How many operations of each kind were accepted.
    pub(crate) fn accepted(&self) -> &BTreeMap<Sort, usize> {
        &self.accepted
    }

    pub(crate) fn accept(&mut self, sort: Sort) {
        *self.accepted.entry(sort).or_default() += 1;
    }

    /// What is missing until each kind of operation was accepted `least` times.
    fn missing(&self, least: usize) -> Vec<(Sort, usize)> {
        let count = |sort| least.saturating_sub(self.accepted.get(&sort).copied().unwrap_or_default());
        SORTS.iter().map(|(sort, _)| (*sort, count(*sort))).filter(|(_, missing)| *missing > 0).collect()
    }

    /// The next operation, when so many are still to come and each kind is to occur `least` times.
    ///
    /// Not one that would put two sources above a third object into its place one after the other, nor one that would have an
    /// object overwritten in a mode that is not in force any more since a moment ago: what becomes of that object is a race
    /// that no specification can know. `modes` are those that may still be in force.
    pub(crate) fn next(
        &mut self,
        (world, modes): (&World, &BTreeSet<(Kind, Mode)>),
        remaining: usize,
        least: usize,
    ) -> Operation {
        let missing = self.missing(least);
        let needed: usize = missing.iter().map(|(_, count)| count).sum();
        loop {
            let sort = if needed >= remaining { self.dice.pick(&missing).0 } else { self.sort() };
            let Some(operation) = self.operation(sort, world) else { continue };
            if operation.closes_a_cycle(world) {
                // To be refused; there is no such world.
                return operation;
            }
            let next = operation.done(world);
            let doomed = next.doomed();
            let future = next.model();
            let twice = |key: &Key| {
                let above = future.ancestry(&key.namespace).split_off(1);
                let same = |other: &&Key| other.kind == key.kind && other.name == key.name;
                doomed.iter().filter(same).any(|other| above.contains(&other.namespace.as_str().into()))
            };
            let before = modes.iter().any(|(kind, mode)| {
                !next.in_mode(*kind, *mode).doomed().iter().all(|key| doomed.contains(key))
            });
            if !before && !doomed.iter().any(twice) {
                return operation;
            }
        }
    }

    /// An object that may be asked about.
    pub(crate) fn question(&mut self) -> (Kind, &'static str) {
        (self.dice.pick(&Kind::ALL), self.dice.pick(&NAMES))
    }

    fn sort(&mut self) -> Sort {
        let mut rest = self.dice.below(100);
        for (sort, share) in SORTS {
            if rest < share {
                return sort;
            }
            rest -= share;
        }
        Sort::Create
    }

    fn operation(&mut self, sort: Sort, world: &World) -> Option<Operation> {
        match sort {
            Sort::Create => Some(self.create(world)),
            Sort::Update => {
                let (key, mut own) = self.object(world)?;
                own.content.number = self.number();
                own.content.immutable |= self.dice.percent(10);
                Some(Operation::Change(sort, key, own))
            }
            Sort::Delete => Some(Operation::Delete(self.object(world)?.0)),
            Sort::Move => {
                let child = self.namespace(world);
                let parent = (!self.dice.percent(15)).then(|| self.namespace(world));
                (world.parents.get(&child) != Some(&parent)).then_some(Operation::Move(child, parent))
            }
            Sort::Mode => {
                let kind = self.dice.pick(&Kind::CONFIGURED);
                // Half of all switches are to the mode in which most happens.
                let mode = if self.dice.percent(40) { Mode::Propagate } else { self.dice.pick(&MODES) };
                (world.mode(kind) != mode).then_some(Operation::Mode(kind, mode))
            }
            Sort::Annotate => {
                let (key, mut own) = self.object(world)?;
                if self.dice.percent(20) {
                    own.remark = self.dice.percent(70).then(|| self.number());
                } else {
                    (own.asks, own.excluded) = self.exception();
                }
                (world.own.get(&key) != Some(&own)).then_some(Operation::Change(sort, key, own))
            }
            Sort::Label if self.dice.percent(50) => {
                let namespace = self.namespace(world);
                let team = self.dice.percent(70).then(|| self.dice.pick(&TEAMS));
                (world.teams.get(&namespace).copied() != team).then_some(Operation::Team(namespace, team))
            }
            Sort::Label => {
                let (key, mut own) = self.object(world)?;
                own.label = self.dice.percent(70).then(|| self.number());
                (world.own.get(&key) != Some(&own)).then_some(Operation::Change(sort, key, own))
            }
        }
    }

    fn create(&mut self, world: &World) -> Operation {
        let kind = self.dice.pick(&Kind::ALL);
        // Where it goes, mostly: a source in a leaf is of no interest.
        let mut namespace = self.namespace(world);
        let is_parent = |name: &String| world.parents.values().flatten().any(|parent| parent == name);
        while !is_parent(&namespace) && self.dice.percent(70) {
            namespace = self.namespace(world);
        }
        let key = Key { kind, namespace, name: self.dice.pick(&NAMES) };
        let number = self.number();
        let content = Content { number, immutable: self.dice.percent(25), role: self.dice.pick(&NAMES) };
        let (asks, excluded) = if self.dice.percent(60) { (0, false) } else { self.exception() };
        Operation::Create(
            key,
            Own { incarnation: number, content, label: None, remark: None, asks, excluded },
        )
    }

    /// What a source asks for, and whether it is excluded.
    fn exception(&mut self) -> (usize, bool) {
        (self.dice.below(ASKS.len()), self.dice.percent(10))
    }

    fn object(&mut self, world: &World) -> Option<(Key, Own)> {
        let all: Vec<_> = world.own.iter().collect();
        let (key, own) = *all.get(self.dice.below(all.len()))?;
        Some((key.clone(), own.clone()))
    }

    fn namespace(&mut self, world: &World) -> String {
        let all: Vec<_> = world.parents.keys().collect();
        self.dice.pick(&all).clone()
    }

    fn number(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    /// A pause, from none to that of a slow typist.
    pub(crate) fn pause(&mut self) -> std::time::Duration {
        let milliseconds = if self.dice.percent(70) { 20 } else { 250 };
        std::time::Duration::from_millis(self.dice.below(milliseconds) as u64)
    }
}
