//! Plans: the writes that a namespace needs, as ordered steps.
//!
//! The order is what keeps access from being wider at any moment than before or after the plan. What is written is up to a
//! dialect.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::change::Scope;
use super::content::{Canonical, Digest};
use super::kind::ObjectKey;
use super::name::Name;
use super::version::Version;

/// A write to the cluster. Every change of something that exists carries the version it is a change of. `D` is what a dialect
/// writes beside copies.
#[derive(Debug, Clone, PartialEq)]
pub enum Action<D> {
    /// Set and remove labels and annotations of the namespace.
    PatchNamespace {
        /// The state that this changes.
        version: Version,
        /// What to do to its labels.
        labels: Edit,
        /// What to do to its annotations.
        annotations: Edit,
    },
    /// Create a copy.
    CreateCopy {
        /// What and where.
        key: ObjectKey,
        /// The source's namespace.
        source: Name,
        /// The content.
        content: Content,
    },
    /// Replace an object by a copy, whole.
    ReplaceCopy {
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
    DeleteCopy {
        /// What and where.
        key: ObjectKey,
        /// The state that this deletes.
        version: Version,
    },
    /// A write of a dialect's own.
    Dialect(D),
}

impl<D> Action<D> {
    /// The namespace of the source whose copy this writes.
    pub fn source(&self) -> Option<&Name> {
        match self {
            Self::CreateCopy { source, .. } | Self::ReplaceCopy { source, .. } => Some(source),
            _ => None,
        }
    }

    /// The object that this is about, if it is a copy.
    pub fn key(&self) -> Option<&ObjectKey> {
        match self {
            Self::CreateCopy { key, .. } | Self::ReplaceCopy { key, .. } | Self::DeleteCopy { key, .. } => {
                Some(key)
            }
            _ => None,
        }
    }
}

/// What to do to a map of labels or annotations.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Edit {
    /// Pairs to set.
    pub set: BTreeMap<String, String>,
    /// Keys to remove.
    pub remove: BTreeSet<String>,
}

impl Edit {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.set.is_empty() && self.remove.is_empty()
    }
}

/// The content of a source, shared by all writes of its copies.
#[derive(Debug, Clone)]
pub struct Content(pub Arc<Canonical>, pub(crate) Digest);

impl Content {
    /// Its fingerprint.
    pub fn digest(&self) -> Digest {
        self.1
    }
}

impl PartialEq for Content {
    fn eq(&self, other: &Self) -> bool {
        self.1 == other.1
    }
}

/// What is wrong with a source, for its owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complaint {
    /// The source.
    pub key: ObjectKey,
    /// The state that this is about.
    pub version: Version,
    /// What is wrong.
    pub reason: ComplaintReason,
    /// A sentence.
    pub message: Box<str>,
}

/// Writes that do not depend on each other.
#[derive(Debug, Clone, PartialEq)]
pub struct Step<D> {
    /// Whether what follows rests on this: it takes access away, puts a restriction in place, or defines what a binding grants. If one of
    /// its writes fails, no later step that gives may be made.
    pub guards: bool,
    /// Whether this gives access, or relies on a restriction.
    pub gives: bool,
    /// In any order.
    pub actions: Vec<Action<D>>,
}

/// The writes that one namespace needs.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan<D> {
    /// What to say about the namespace; depends on none of the steps.
    pub report: Option<Action<D>>,
    /// In this order, so that access at any moment, also after a crash between two writes, is no wider than before all of
    /// them or after all of them: what is lost goes first, bindings before roles; what is gained comes last, roles before
    /// bindings, and restrictions before all of these. A child is created after its
    /// parent is labelled.
    pub steps: Vec<Step<D>>,
    /// Objects with a recorded failure that nothing needs to be done about any more.
    pub settled: Vec<ObjectKey>,
    /// Objects that are left alone though others from above should be in their place, and why; to be recorded. Those that
    /// are recorded already are not named again.
    pub conflicts: Vec<(ObjectKey, Box<str>)>,
    /// Sources, by namespace, whose content must be read before this namespace can be planned in full.
    pub unread: Vec<(Name, ObjectKey)>,
    /// All that is to be said of the sources in this namespace that the plan looked at.
    pub complaints: Vec<Complaint>,
    /// What the plan looked at; more than it was asked for when the namespace's place has just changed.
    pub scope: Scope,
}

impl<D> Plan<D> {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.report.is_none()
            && self.steps.is_empty()
            && self.settled.is_empty()
            && self.conflicts.is_empty()
            && self.unread.is_empty()
    }

    /// All writes, in order.
    pub fn actions(&self) -> impl Iterator<Item = &Action<D>> {
        self.report.iter().chain(self.steps.iter().flat_map(|step| &step.actions))
    }

    /// Adds a step, unless it is empty.
    pub(crate) fn step(&mut self, (guards, gives): (bool, bool), actions: Vec<Action<D>>) {
        if !actions.is_empty() {
            self.steps.push(Step { guards, gives, actions });
        }
    }
}

pub(crate) const GUARDS: (bool, bool) = (true, false);
pub(crate) const GIVES: (bool, bool) = (false, true);
pub(crate) const GUARDS_AND_GIVES: (bool, bool) = (true, true);

/// What may be wrong with a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ComplaintReason {
    /// One of its annotations makes no sense.
    CannotParseSelector,
    /// It cannot be copied.
    CannotPropagateObject,
}

impl<D> Default for Plan<D> {
    fn default() -> Self {
        Self {
            report: None,
            steps: Vec::new(),
            settled: Vec::new(),
            conflicts: Vec::new(),
            unread: Vec::new(),
            complaints: Vec::new(),
            scope: Scope::default(),
        }
    }
}
