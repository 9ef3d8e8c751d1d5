//! Reconciliation: what should exist in a namespace that does not, or should not and does?
//!
//! [`plan`] compares what the forest holds with what follows from it and emits only the writes that differ: planning
//! again after they were made finds nothing. It is the same function after one event and after a restart. It never
//! writes, waits or retries, and knows no clock.

mod anchors;
mod complaints;
mod conditions;
mod copies;
mod hierarchy;
mod marks;
mod restrictions;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub(crate) use self::copies::{Decision, Place, Reach, is_forsaken, reach};
pub(crate) use self::marks::{Labelling, asked_for, label_below, managed, wanted_label};
pub(crate) use self::restrictions::not_in_force;
use crate::{
    AnchorState, Canonical, Digest, Forest, HierarchyStatus, Labels, Name, ObjectKey, Scope, Version,
};

/// A write to the cluster. Every change of something that exists carries the version it is a change of.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Set and remove labels and annotations of the namespace.
    Mark {
        /// The state that this changes.
        version: Version,
        /// What to do to its labels.
        labels: Edit,
        /// What to do to its annotations.
        annotations: Edit,
    },
    /// Create the `HierarchyConfiguration`.
    CreateHierarchy {
        /// Its `spec`, for a subnamespace.
        spec: Option<SubnamespaceSpec>,
        /// Whether it needs our finalizer.
        held: bool,
        /// Its status.
        status: HierarchyStatus,
    },
    /// Change the `HierarchyConfiguration` in these respects and leave the rest as it is.
    ChangeHierarchy {
        /// The state that this changes.
        version: Version,
        /// What a subnamespace's anchor says.
        spec: Option<SubnamespaceSpec>,
        /// All its finalizers.
        finalizers: Option<Vec<Box<str>>>,
        /// The status to show.
        status: Option<HierarchyStatus>,
    },
    /// Change an anchor in these respects and leave the rest as it is.
    ChangeAnchor {
        /// The child's name, which is the anchor's.
        child: Name,
        /// The state that this changes.
        version: Version,
        /// All its finalizers.
        finalizers: Option<Vec<Box<str>>>,
        /// The state to show.
        state: Option<AnchorState>,
    },
    /// Create a subnamespace.
    CreateSubnamespace {
        /// Its name.
        child: Name,
        /// Who is to be its first administrator.
        initial_admin: Option<Box<str>>,
    },
    /// Bind a user to a `ClusterRole` in this namespace. That it is done already is as good.
    BindInitialAdmin {
        /// The user.
        user: Box<str>,
        /// The name of the role.
        cluster_role: Box<str>,
    },
    /// Delete the subnamespace of this name. Not if the definition of anchors is going, which must be looked up first.
    DeleteSubnamespace {
        /// Its name.
        child: Name,
        /// The state that this deletes.
        version: Version,
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
    /// The namespace of the source whose copy this writes.
    pub fn source(&self) -> Option<&Name> {
        match self {
            Self::Create { source, .. } | Self::Replace { source, .. } => Some(source),
            _ => None,
        }
    }

    /// The object that this is about, if it is a copy.
    pub fn key(&self) -> Option<&ObjectKey> {
        match self {
            Self::Create { key, .. } | Self::Replace { key, .. } | Self::Delete { key, .. } => Some(key),
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

/// What the `spec` of a subnamespace's `HierarchyConfiguration` takes over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubnamespaceSpec {
    /// The parent, from the namespace's annotation.
    pub parent: Name,
    /// Labels and annotations from the anchor; `None` where there is no anchor to take them from.
    pub from_anchor: Option<(Labels, Labels)>,
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

/// Something about a source for whoever keeps it.
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

/// What may be wrong with a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ComplaintReason {
    /// One of its annotations makes no sense.
    CannotParseSelector,
    /// It cannot be copied.
    CannotPropagateObject,
}

/// Writes that do not depend on each other.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Whether what follows rests on this: it takes access away, puts a guard up, or says what a binding is worth. If one of
    /// its writes fails, no later step that gives may be made.
    pub guards: bool,
    /// Whether this gives access, or relies on a guard.
    pub gives: bool,
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
    /// bindings, and restrictions before all of these. A subnamespace is created after its parent is marked and its anchor held.
    pub steps: Vec<Step>,
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

impl Plan {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.report.is_none()
            && self.steps.is_empty()
            && self.settled.is_empty()
            && self.conflicts.is_empty()
            && self.unread.is_empty()
    }

    /// All writes, in order.
    pub fn actions(&self) -> impl Iterator<Item = &Action> {
        self.report.iter().chain(self.steps.iter().flat_map(|step| &step.actions))
    }

    fn step(&mut self, (guards, gives): (bool, bool), actions: Vec<Action>) {
        if !actions.is_empty() {
            self.steps.push(Step { guards, gives, actions });
        }
    }
}

const GUARDS: (bool, bool) = (true, false);
const GIVES: (bool, bool) = (false, true);
const GUARDS_AND_GIVES: (bool, bool) = (true, true);

/// What `namespace` needs, looking no further than `scope`, unless its place in the tree has just changed.
///
/// Nothing at all is planned before the streams that tell of the structure have delivered complete lists, and nothing
/// about objects of a kind before that kind's own has; where lists have to be matched ([`Forest::matching`]), before they are. While the definitions that the structure rests on are going, only
/// what holds them up is let go.
pub fn plan(forest: &Forest, namespace: &str, scope: &Scope) -> Plan {
    let mut plan = Plan::default();
    let Some(id) = forest.tree.id(namespace) else { return plan };
    if forest.is_going() {
        plan.report = hierarchy::farewell(forest, id);
        plan.step(GUARDS, anchors::farewell(forest, id));
        return plan;
    }
    if forest.structure_gap().is_some() || forest.is_structure_unmatched() {
        return plan;
    }
    let mut marks = marks::changes(forest, id);
    // While the labels that others go by are those of another place, all that is lost with that place goes before anything is
    // gained by the new one, whatever was looked at for.
    let whole = Scope::whole();
    let scope = if *scope != Scope::default() && marks.move_it() { &whole } else { scope };
    let mut anchors = anchors::Changes::default();
    let mut initial_admin = None;
    if scope.structure {
        plan.report = hierarchy::report(forest, id);
        anchors = anchors::changes(forest, id);
        initial_admin = marks::initial_admin(forest, id);
    } else {
        marks = marks::Marks::default();
    }
    // The annotation stays until its admin is bound.
    let mut bound = initial_admin.is_some().then(|| marks.without_admin()).flatten();
    let copies = copies::changes(forest, id, &scope.objects, initial_admin.is_some());
    if copies.held {
        (initial_admin, bound) = (None, None);
    }
    plan.settled = copies.settled;
    plan.conflicts = copies.conflicts;
    plan.unread = copies.unread;
    plan.complaints = complaints::of_sources(forest, id, &scope.objects);
    plan.scope = scope.clone();
    let nothing_lost = copies.lost_bindings.is_empty() && copies.lost.is_empty();
    let (first, last) = if plan.unread.is_empty() {
        marks.around(nothing_lost, !anchors.create.is_empty())
    } else {
        // New labels give access too, and come with the rest of it.
        (marks.first(), None)
    };
    plan.step(GUARDS, anchors.change.into_iter().chain(first).collect());
    plan.step(GUARDS, copies.lost_bindings);
    plan.step(GUARDS, copies.lost);
    plan.step(GUARDS, anchors.delete);
    plan.step(GUARDS, copies.restrictions);
    plan.step(GUARDS_AND_GIVES, last.into_iter().collect());
    plan.step(GIVES, anchors.create);
    plan.step(GIVES, copies.gained);
    plan.step(GUARDS_AND_GIVES, copies.gained_roles);
    plan.step(GIVES, copies.gained_bindings);
    plan.step(GUARDS_AND_GIVES, initial_admin.into_iter().collect());
    plan.step(GIVES, bound.into_iter().collect());
    plan
}
