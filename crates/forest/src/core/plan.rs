//! Plans: the writes that a namespace needs, as ordered steps.
//!
//! The order ensures that access is at no moment wider than before or after the plan. A dialect decides what is written.

mod writes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::change::Scope;
use super::content::{Canonical, Digest};
use super::kind::ObjectKey;
use super::name::Name;
use super::version::Version;

pub(crate) use writes::Writes;

/// A write to the cluster. Every change of an existing object carries the version that it changes. `D` is what a dialect writes
/// beside copies.
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
        content: CopyContent,
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
        content: CopyContent,
    },
    /// Delete a copy.
    DeleteCopy {
        /// What and where.
        key: ObjectKey,
        /// The state that this deletes.
        version: Version,
    },
    /// A write of a dialect.
    Dialect(D),
}

impl<D> Action<D> {
    /// The namespace of the source, if this writes a copy.
    pub fn source(&self) -> Option<&Name> {
        match self {
            Self::CreateCopy { source, .. } | Self::ReplaceCopy { source, .. } => Some(source),
            _ => None,
        }
    }

    /// The write, if it is one of a dialect.
    pub fn dialect(&self) -> Option<&D> {
        if let Self::Dialect(write) = self { Some(write) } else { None }
    }

    /// The object, if this is about a copy.
    pub fn key(&self) -> Option<&ObjectKey> {
        match self {
            Self::CreateCopy { key, .. } | Self::ReplaceCopy { key, .. } | Self::DeleteCopy { key, .. } => {
                Some(key)
            }
            _ => None,
        }
    }

    /// Whether this writes an object with another body than that of `present`. Of a Role or a binding, the body is what a user
    /// may do: a change of labels changes no access, and neither does another source with the same body.
    pub(crate) fn changes_access(&self, present: impl FnOnce(&ObjectKey) -> Option<Digest>) -> bool {
        match self {
            Self::CreateCopy { .. } => true,
            Self::ReplaceCopy { key, content, .. } => present(key) != Some(content.0.body_digest()),
            _ => false,
        }
    }
}

/// The changes to a map of labels or annotations.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Edit {
    /// Pairs to set.
    pub set: BTreeMap<String, String>,
    /// Keys to remove.
    pub remove: BTreeSet<String>,
}

impl Edit {
    /// The number of changes.
    pub fn len(&self) -> usize {
        self.set.len() + self.remove.len()
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.set.is_empty() && self.remove.is_empty()
    }
}

/// The content that copies get from their source. All writes of the copies share it.
#[derive(Debug, Clone)]
pub struct CopyContent(pub Arc<Canonical>, pub(crate) Digest);

impl CopyContent {
    /// Its fingerprint.
    pub fn digest(&self) -> Digest {
        self.1
    }
}

impl PartialEq for CopyContent {
    fn eq(&self, other: &Self) -> bool {
        self.1 == other.1
    }
}

/// A fault of a source, reported to its owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complaint {
    /// The source.
    pub key: ObjectKey,
    /// The state that has the fault.
    pub version: Version,
    /// What is wrong.
    pub reason: ComplaintReason,
    /// The message, one sentence.
    pub message: Box<str>,
}

/// Writes that do not depend on each other.
#[derive(Debug, Clone, PartialEq)]
pub struct Step<D> {
    /// Whether later steps depend on this one: it takes access away, puts a restriction in place, or defines what a binding
    /// grants. If one of its writes fails, no later step that gives access is made, with these exceptions. A write of an anchor or
    /// `SubNamespace` that fails holds back only the creation of its child. For copies and labels that the API server refuses, see
    /// [`crate::plan::despite_refusals`]. Annotations hold back nothing.
    pub guards: bool,
    /// Whether this gives access, or depends on a restriction.
    pub gives: bool,
    /// The writes, in any order.
    pub actions: Vec<Action<D>>,
}

/// The writes that one namespace needs.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan<D> {
    /// The status of the namespace; depends on none of the steps.
    pub report: Option<Action<D>>,
    /// The statuses of the quotas in the namespace; they depend on none of the steps.
    pub quota_statuses: Vec<Action<D>>,
    /// The steps in order. At any moment, also after a crash between two writes, access is no wider than before or after all of
    /// them: what is removed goes first, bindings before roles; what is added comes last, restrictions first, then roles, then
    /// bindings. A child is created after its parent is labelled.
    pub steps: Vec<Step<D>>,
    /// Objects with a recorded failure that need no write any more.
    pub settled: Vec<ObjectKey>,
    /// Objects that are kept although a source from above should replace them, and why. The controller records them. Recorded ones
    /// are not listed again.
    pub conflicts: Vec<(ObjectKey, Box<str>)>,
    /// Sources, by namespace, whose content must be read before this plan is complete.
    pub unread: Vec<(Name, ObjectKey)>,
    /// The faults of the sources in this namespace that the plan covers.
    pub complaints: Vec<Complaint>,
    /// The scope of the plan; wider than requested if the namespace's place in the tree has just changed.
    pub scope: Scope,
}

impl<D> Plan<D> {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.report.is_none()
            && self.quota_statuses.is_empty()
            && self.steps.is_empty()
            && self.settled.is_empty()
            && self.conflicts.is_empty()
            && self.unread.is_empty()
    }

    /// All writes, in order.
    pub fn actions(&self) -> impl Iterator<Item = &Action<D>> {
        self.report.iter().chain(&self.quota_statuses).chain(self.steps.iter().flat_map(|step| &step.actions))
    }

    /// Adds a step, unless it is empty.
    pub(crate) fn step(&mut self, (guards, gives): (bool, bool), actions: Vec<Action<D>>) {
        if !actions.is_empty() {
            self.steps.push(Step { guards, gives, actions });
        }
    }
}

pub(crate) const PLAIN: (bool, bool) = (false, false);
pub(crate) const GUARDS: (bool, bool) = (true, false);
pub(crate) const GIVES: (bool, bool) = (false, true);
pub(crate) const GUARDS_AND_GIVES: (bool, bool) = (true, true);

/// The kind of a fault of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ComplaintReason {
    /// One of its annotations is invalid.
    CannotParseSelector,
    /// It cannot be copied.
    CannotPropagateObject,
}

impl<D> Default for Plan<D> {
    fn default() -> Self {
        Self {
            report: None,
            quota_statuses: Vec::new(),
            steps: Vec::new(),
            settled: Vec::new(),
            conflicts: Vec::new(),
            unread: Vec::new(),
            complaints: Vec::new(),
            scope: Scope::default(),
        }
    }
}
