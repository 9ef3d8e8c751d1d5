//! The consequences of a change, before it is made: the objects that are created, deleted or changed, the labels and conditions
//! that change, and whether admission allows the change.
//!
//! A [`Preview`] simulates all parts on a forest of its own: admission judges ([`Preview::judge`]), the user changes
//! ([`Preview::change`]), our controller plans and writes and the namespace controller cleans up ([`Preview::settle`]), until no
//! write is left. The plans are those of [`crate::hnc::plan`] and [`crate::accurate::plan`], so the preview shows what the
//! controller would do. It sends no requests; it lists what must be read. It does not know concurrent changes of other clients, or
//! writes that would fail.
//!
//! What Accurate's API does is part of a preview if the forest has Accurate's settings and knows all `SubNamespaces`.

mod accurate;
#[cfg(test)]
mod accurate_tests;
mod hnc;
mod intent;
mod ledger;
mod perform;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};

pub use self::intent::Intent;
use self::ledger::Ledger;
pub use self::ledger::{
    AnchorChange, Effect, KeptObject, NamespaceChange, NamespaceState, ObjectChange, ObjectState, Outcome,
    PairChange, QuotaChange, SubNamespaceChange, SubNamespaceState,
};
use self::perform::Dialect;
use crate::accurate::AccurateAction;
use crate::core::change::{Change, Scope};
use crate::core::kind::{KindId, Mode, ObjectKey};
use crate::core::name::Name;
use crate::core::stream::{Stream, StreamState};
use crate::dialects::{Fact, Forest};
use crate::hnc::HncAction;

/// More turns than any change takes; deleting a hundred levels of subnamespaces needs some hundreds.
const TURNS: usize = 100_000;

/// A forest on which changes are tried.
///
/// Call [`Preview::settle`] and [`Preview::mark`] once, so that pending work does not count as an effect of the change; then
/// [`Preview::change`] and [`Preview::settle`] for each change.
#[derive(Debug)]
pub struct Preview {
    forest: Forest,
    /// What is not planned yet.
    open: Change,
    ledger: Ledger,
    /// Namespaces that are deleted because of a change. The preview does not delete namespaces that were terminating before: their
    /// deletion may be stuck.
    terminating: BTreeSet<Name>,
    /// Namespaces that no plan deletes.
    kept: BTreeSet<Name>,
    clock: u64,
    restless: bool,
}

/// What must be read before a preview can continue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wants {
    /// Sources, by namespace, whose content is not in memory.
    pub content: BTreeSet<(Name, ObjectKey)>,
    /// Kinds whose objects are not listed yet.
    pub kinds: BTreeSet<KindId>,
}

impl Wants {
    /// Whether nothing must be read.
    pub fn is_empty(&self) -> bool {
        self.content.is_empty() && self.kinds.is_empty()
    }
}

impl Preview {
    /// A preview of what `forest` knows.
    pub fn new(mut forest: Forest) -> Self {
        forest.put_in_force();
        Self {
            forest,
            open: Change { everything: true, namespaces: HashMap::new() },
            ledger: Ledger::default(),
            terminating: BTreeSet::new(),
            kept: BTreeSet::new(),
            clock: 0,
            restless: false,
        }
    }

    /// The forest in the state that the preview has reached.
    pub fn forest(&self) -> &Forest {
        &self.forest
    }

    /// The same forest, by value.
    pub fn into_forest(self) -> Forest {
        self.forest
    }

    /// Applies a fact that was read because it was wanted.
    pub fn tell(&mut self, fact: impl Into<Fact>) {
        let mut fact = fact.into();
        // Quotas count as in force: other programs do that before all is settled.
        let seen = match &mut fact {
            Fact::Object(_, seen) => std::slice::from_mut(seen),
            Fact::Objects(_, all) => all,
            _ => &mut [],
        };
        seen.iter_mut().filter_map(|seen| seen.content.as_mut()).for_each(|content| content.in_force = true);
        let change = self.forest.apply(fact);
        self.open.merge(change);
    }

    /// Changes from here on are the outcome.
    pub fn mark(&mut self) {
        self.ledger = Ledger::default();
    }

    /// From here on, no plan deletes these namespaces: the API server may refuse to delete them.
    pub fn keep(&mut self, names: BTreeSet<Name>) {
        self.kept = names;
    }

    /// The changes since the mark.
    pub fn outcome(&self) -> Outcome {
        self.ledger.outcome(&self.forest)
    }

    /// Whether the preview was cut off, so that the outcome is incomplete.
    pub fn is_restless(&self) -> bool {
        self.restless
    }

    /// Continues until no write is left, or until something must be read first. Kinds that cannot be listed
    /// ([`Fact::StreamLost`]) are left out.
    pub fn settle(&mut self) -> Wants {
        let mut wants = Wants { kinds: self.unlisted(), ..Wants::default() };
        let mut waiting = Change::default();
        for _ in 0..TURNS {
            let turn = std::mem::take(&mut self.open);
            if turn.is_empty() && !self.clean_up() {
                self.open = waiting;
                return wants;
            }
            for (name, scope) in self.due(turn) {
                let mut unread = self.turn::<HncAction>(&name, &scope);
                unread.extend(self.turn::<AccurateAction>(&name, &scope));
                if !unread.is_empty() {
                    wants.content.extend(unread);
                    waiting.merge(Change { everything: false, namespaces: HashMap::from([(name, scope)]) });
                }
            }
        }
        self.restless = true;
        wants
    }

    /// Kinds that a hierarchy treats and whose first list has not arrived.
    fn unlisted(&self) -> BTreeSet<KindId> {
        let is_waiting = |id: &KindId| self.forest.stream(Stream::Kind(*id)) == StreamState::Waiting;
        let accurate = self.forest.known_accurate();
        let treated = self.forest.kinds().filter(|(_, settings)| {
            settings.mode != Mode::Ignore || accurate.is_some_and(|it| it.watches(&settings.kind))
        });
        treated.map(|(id, _)| id).filter(is_waiting).collect()
    }

    fn due(&self, turn: Change) -> Vec<(Name, Scope)> {
        let mut due: Vec<(Name, Scope)> = if turn.everything {
            self.forest.names().map(|name| (name.clone(), Scope::whole())).collect()
        } else {
            turn.namespaces.into_iter().collect()
        };
        due.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        due
    }

    /// Plans one namespace in one hierarchy and makes the writes; returns the sources that must be read first.
    fn turn<D: Dialect>(&mut self, name: &Name, scope: &Scope) -> Vec<(Name, ObjectKey)> {
        let plan = D::plan(&self.forest, name, scope);
        for action in plan.actions() {
            self.perform(name, action);
        }
        for key in plan.settled {
            self.tell(Fact::WriteSettled(name.clone(), key));
        }
        for (key, why) in plan.conflicts {
            self.ledger.kept(&self.forest, name, &key);
            self.tell(Fact::Conflict(name.clone(), key, why));
        }
        plan.unread
    }
}
