//! What would follow from a change, before it is made: which objects would come, go or become others, which labels and
//! conditions would change, and whether the change would be let through at all.
//!
//! A [`Preview`] plays all parts at once on a forest of its own: admission judges ([`Preview::judge`]), the user changes
//! ([`Preview::change`]), our controller plans and writes, the namespace controller cleans up ([`Preview::settle`]), until nothing
//! is left to do. The plans are those of [`crate::hnc::plan`], so what is foretold is what would be done. It reads nothing itself;
//! what it lacks, it names. What others do meanwhile, and writes that would fail, it does not know.

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
    PairChange,
};
use crate::core::change::{Change, Scope};
use crate::core::kind::{KindId, Mode, ObjectKey};
use crate::core::name::Name;
use crate::core::stream::{Stream, StreamState};
use crate::dialects::{Fact, Forest};
use crate::hnc::plan::plan;

/// More turns than any change takes; a hundred levels of subnamespaces that go need some hundreds.
const TURNS: usize = 100_000;

/// A forest on which changes are tried.
///
/// In order: [`Preview::settle`] and [`Preview::mark`] once, so that what is under way anyhow is not taken for the change's;
/// then each change with [`Preview::change`], and [`Preview::settle`] after it.
#[derive(Debug)]
pub struct Preview {
    forest: Forest,
    /// What has yet to be planned.
    open: Change,
    ledger: Ledger,
    /// Namespaces that go because of a change. Those that were going before may be stuck, and stay as they are.
    going: BTreeSet<Name>,
    clock: u64,
    restless: bool,
}

/// What has yet to be read before a preview can go on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wants {
    /// Sources, by namespace, whose content was not kept.
    pub content: BTreeSet<(Name, ObjectKey)>,
    /// Kinds whose objects have not been listed.
    pub kinds: BTreeSet<KindId>,
}

impl Wants {
    /// Whether nothing is wanted.
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
            going: BTreeSet::new(),
            clock: 0,
            restless: false,
        }
    }

    /// The forest, as far as the preview is.
    pub fn forest(&self) -> &Forest {
        &self.forest
    }

    /// The same to keep.
    pub fn into_forest(self) -> Forest {
        self.forest
    }

    /// Takes in what was read because it was wanted.
    pub fn tell(&mut self, fact: impl Into<Fact>) {
        let mut fact = fact.into();
        // Others put quotas in force before all is at rest.
        let seen = match &mut fact {
            Fact::Object(_, seen) => std::slice::from_mut(seen),
            Fact::Objects(_, all) => all,
            _ => &mut [],
        };
        seen.iter_mut().filter_map(|seen| seen.content.as_mut()).for_each(|content| content.in_force = true);
        let change = self.forest.apply(fact);
        self.open.merge(change);
    }

    /// What happens from here on is the outcome.
    pub fn mark(&mut self) {
        self.ledger = Ledger::default();
    }

    /// What has happened since the mark.
    pub fn outcome(&self) -> Outcome {
        self.ledger.outcome(&self.forest)
    }

    /// Whether no rest was found, so that the outcome is not all of it.
    pub fn is_restless(&self) -> bool {
        self.restless
    }

    /// Goes on until nothing is left to do, or to do without what is then wanted. Kinds that cannot be listed, and say so
    /// ([`Fact::StreamLost`]), are not wanted.
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
                let unread = self.turn(&name, &scope);
                if !unread.is_empty() {
                    wants.content.extend(unread);
                    waiting.merge(Change { everything: false, namespaces: HashMap::from([(name, scope)]) });
                }
            }
        }
        self.restless = true;
        wants
    }

    /// Kinds that something is done with and whose first list has not arrived.
    fn unlisted(&self) -> BTreeSet<KindId> {
        let is_waiting = |id: &KindId| self.forest.stream(Stream::Kind(*id)) == StreamState::Waiting;
        let treated = self.forest.kinds().filter(|(_, settings)| settings.mode != Mode::Ignore);
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

    /// Plans one namespace and does what is planned; gives what could not be planned before it is read.
    fn turn(&mut self, name: &Name, scope: &Scope) -> Vec<(Name, ObjectKey)> {
        let plan = plan(&self.forest, name, scope);
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
