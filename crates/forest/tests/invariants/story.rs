//! What was there and what was asked, as data, so that a failure can be told again with less.

use std::mem::discriminant;

use super::access::{Rights, USERS};
use super::ask::{Ask, Word};
use super::check::{Before, Broken};
use super::world::World;

#[derive(Debug, Clone)]
pub(crate) struct Story {
    /// What each user may do everywhere.
    pub(crate) cluster_wide: [Rights; USERS.len()],
    /// Whether creators become the first admins of subnamespaces.
    pub(crate) initial_admin: bool,
    /// Changes without review.
    pub(crate) setup: Vec<Ask>,
    /// Who asks for what, one after the other.
    pub(crate) asked: Vec<(usize, Ask)>,
}

/// What came of a request.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The API server could not do it.
    Impossible,
    /// RBAC refused it.
    NoRight,
    /// A rule refused it.
    Refused,
    /// It was done, and all that follows.
    Done,
    /// It was done, and an invariant does not hold.
    Broken(Broken),
}

impl Story {
    /// The state before any request.
    pub(crate) fn begin(&self) -> World {
        let mut world = World::new(self.cluster_wide, self.initial_admin);
        for ask in &self.setup {
            if ask.can_be(&world.cluster) {
                world.apply(USERS.len() - 1, ask);
            }
        }
        world.settle();
        world
    }

    /// What the last request breaks, if all before it break nothing.
    fn broken(&self) -> Option<Broken> {
        let mut world = self.begin();
        let (last, earlier) = self.asked.split_last()?;
        for (user, ask) in earlier {
            if let Outcome::Broken(_) = step(&mut world, *user, ask) {
                return None;
            }
        }
        match step(&mut world, last.0, &last.1) {
            Outcome::Broken(broken) => Some(broken),
            _ => None,
        }
    }

    /// Leaves out what is not needed to break the same invariant by the same sort of request.
    pub(crate) fn smallest(mut self) -> (Self, Broken) {
        let mut broken = self.broken().expect("the story is of something that breaks");
        loop {
            let smaller = self.smaller().find_map(|attempt| {
                let found = attempt.broken().filter(|found| found.invariant == broken.invariant)?;
                Some((attempt, found))
            });
            match smaller {
                Some(smaller) => (self, broken) = smaller,
                None => return (self, broken),
            }
        }
    }

    /// The same with one thing less.
    fn smaller(&self) -> impl Iterator<Item = Self> {
        let requests = (0..self.asked.len().saturating_sub(1)).rev().map(|at| {
            let mut less = self.clone();
            less.asked.remove(at);
            less
        });
        let setup = (0..self.setup.len()).rev().map(|at| {
            let mut less = self.clone();
            less.setup.remove(at);
            less
        });
        let users = (0..USERS.len()).filter(|at| !self.cluster_wide[*at].is_empty()).map(|at| {
            let mut less = self.clone();
            less.cluster_wide[at] = Rights::default();
            less
        });
        let admin = self.initial_admin.then(|| Self { initial_admin: false, ..self.clone() });
        requests.chain(setup).chain(users).chain(admin)
    }
}

/// Lets a user ask for something, and everything that follows happen.
pub(crate) fn step(world: &mut World, user: usize, ask: &Ask) -> Outcome {
    if !world.rbac_allows(user, ask) {
        return Outcome::NoRight;
    }
    if !ask.can_be(&world.cluster) {
        return Outcome::Impossible;
    }
    if world.refusal(user, ask).is_some() {
        return Outcome::Refused;
    }
    let before = Before::of(world);
    world.taken.clear();
    world.apply(user, ask);
    world.settle();
    match before.broken(world, user, ask) {
        None => Outcome::Done,
        Some(broken) => Outcome::Broken(broken),
    }
}

/// Failures of one sort, of which one is enough to be shown.
pub(crate) fn is_same_sort(one: &(Story, Broken), other: &(Story, Broken)) -> bool {
    let sort = |story: &Story| story.asked.last().map(|(_, ask)| (discriminant(ask), keys(ask)));
    one.1.invariant == other.1.invariant && sort(&one.0) == sort(&other.0)
}

/// What a request is about, in more detail; `None` when it deletes.
fn keys(ask: &Ask) -> Option<Vec<Word>> {
    match ask {
        Ask::Hierarchy(_, write) => write.as_ref().map(|_| vec![]),
        Ask::Anchor(_, _, write) => write.as_ref().map(|_| vec![]),
        Ask::Namespace(_, write) => write
            .as_ref()
            .map(|write| write.labels.iter().chain(&write.annotations).map(|(key, _)| *key).collect()),
        Ask::Object(_, what, _, write) => write.as_ref().map(|_| vec![what.kind().kind.as_str()]),
        Ask::Hold(..) | Ask::Stop(_) | Ask::Configuration(_) => Some(vec![]),
    }
}
