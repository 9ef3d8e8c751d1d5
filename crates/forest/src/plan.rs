//! Reconciliation: what should exist in a namespace that does not, or should not and does?
//!
//! [`plan`] compares what the forest holds with what follows from it and emits only the writes that differ: planning
//! again after they were made finds nothing. It is the same function after one event and after a restart. It never
//! writes, waits or retries, and knows no clock.

mod copies;
mod structure;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::{Canonical, Digest, Forest, HierarchyStatus, Name, ObjectKey, Scope, Version};

/// A write to the cluster. Every change of something that exists carries the version it is a change of.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Set and remove labels of the namespace.
    Label {
        /// The state that this changes.
        version: Version,
        /// Labels to set.
        set: BTreeMap<String, String>,
        /// Labels to remove.
        remove: BTreeSet<String>,
    },
    /// Create the `HierarchyConfiguration`, with this status and nothing else.
    CreateHierarchy(HierarchyStatus),
    /// Replace the status of the `HierarchyConfiguration` and leave the rest as it is.
    ReportStatus {
        /// The state that this changes.
        version: Version,
        /// The status to show.
        status: HierarchyStatus,
    },
    /// Create a copy.
    Create {
        /// What and where.
        key: ObjectKey,
        /// The source's namespace.
        source: Name,
        /// The content.
        content: Content,
    },
    /// Replace an object by a copy, whole.
    Replace {
        /// What and where.
        key: ObjectKey,
        /// The state that this changes.
        version: Version,
        /// The source's namespace.
        source: Name,
        /// The content.
        content: Content,
    },
    /// Delete a copy.
    Delete {
        /// What and where.
        key: ObjectKey,
        /// The state that this deletes.
        version: Version,
    },
}

impl Action {
    /// The object that this is about, if it is a copy.
    pub fn key(&self) -> Option<&ObjectKey> {
        match self {
            Self::Create { key, .. } | Self::Replace { key, .. } | Self::Delete { key, .. } => Some(key),
            Self::Label { .. } | Self::CreateHierarchy(_) | Self::ReportStatus { .. } => None,
        }
    }
}

/// The content of a source, shared by all writes of its copies.
#[derive(Debug, Clone)]
pub struct Content(pub Arc<Canonical>, pub(crate) Digest);

impl PartialEq for Content {
    fn eq(&self, other: &Self) -> bool {
        self.1 == other.1
    }
}

/// Writes that do not depend on each other.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Whether this takes access away. If one of its writes fails, the steps that give access must not be made.
    pub takes_away: bool,
    /// In any order.
    pub actions: Vec<Action>,
}

/// The writes that one namespace needs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// What to say about the namespace; depends on none of the steps.
    pub report: Option<Action>,
    /// In this order, so that access at any moment, also after a crash between two writes, is no wider than before all of
    /// them or after all of them: what is lost goes first, bindings before roles; what is gained comes last, roles before
    /// bindings.
    pub steps: Vec<Step>,
    /// Objects with a recorded failure that nothing needs to be done about any more.
    pub settled: Vec<ObjectKey>,
}

impl Plan {
    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.report.is_none() && self.steps.is_empty() && self.settled.is_empty()
    }

    /// All writes, in order.
    pub fn actions(&self) -> impl Iterator<Item = &Action> {
        self.report.iter().chain(self.steps.iter().flat_map(|step| &step.actions))
    }

    fn step(&mut self, takes_away: bool, actions: Vec<Action>) {
        if !actions.is_empty() {
            self.steps.push(Step { takes_away, actions });
        }
    }
}

/// What `namespace` needs, looking no further than `scope`.
///
/// Nothing at all is planned before the streams that tell of the structure have delivered complete lists, and nothing
/// about objects of a kind before that kind's own has.
pub fn plan(forest: &Forest, namespace: &str, scope: &Scope) -> Plan {
    let mut plan = Plan::default();
    let Some(id) = forest.tree.id(namespace) else { return plan };
    if forest.structure_gap().is_some() {
        return plan;
    }
    let labels =
        if scope.structure { structure::labels(forest, id) } else { structure::LabelChange::default() };
    let copies = copies::changes(forest, id, &scope.objects);
    if scope.structure {
        plan.report = structure::report(forest, id);
    }
    plan.settled = copies.settled;
    let nothing_lost = copies.lost_bindings.is_empty() && copies.lost.is_empty();
    let (first, last) = labels.around(nothing_lost);
    plan.step(true, first.into_iter().collect());
    plan.step(true, copies.lost_bindings);
    plan.step(true, copies.lost);
    plan.step(false, last.into_iter().collect());
    plan.step(false, copies.gained);
    plan.step(false, copies.gained_bindings);
    plan
}
