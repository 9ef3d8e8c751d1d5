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
mod place;
mod restrictions;
#[cfg(test)]
mod tests;

pub(crate) use self::marks::{Labelling, asked_for, label_below, managed, wanted_label};
pub(crate) use self::place::{Decision, Place, Reach, is_forsaken, reach};
use crate::core::change::Scope;
use crate::core::labels::Labels;
use crate::core::name::Name;
use crate::core::version::Version;
use crate::dialects::Forest;
use crate::hnc::anchor::AnchorState;
use crate::hnc::fact::HierarchyStatus;

pub use crate::core::plan::{Complaint, ComplaintReason, Content, Edit};
use crate::core::plan::{GIVES, GUARDS, GUARDS_AND_GIVES};

/// A write of copies or of HNC's own objects.
pub type Action = crate::core::plan::Action<HncAction>;
/// Writes that do not depend on each other.
pub type Step = crate::core::plan::Step<HncAction>;
/// The writes that one namespace needs.
pub type Plan = crate::core::plan::Plan<HncAction>;

impl From<HncAction> for Action {
    fn from(action: HncAction) -> Self {
        Self::Dialect(action)
    }
}

/// A write of HNC's own objects, or one that they ask for.
#[derive(Debug, Clone, PartialEq)]
pub enum HncAction {
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
    UpdateHierarchy {
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
    UpdateAnchor {
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
    /// Delete the subnamespace of this name. Not if the CRD of anchors is being deleted, which must be read live first.
    DeleteSubnamespace {
        /// Its name.
        child: Name,
        /// The state that this deletes.
        version: Version,
    },
}

/// What the `spec` of a subnamespace's `HierarchyConfiguration` takes over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubnamespaceSpec {
    /// The parent, from the namespace's annotation.
    pub parent: Name,
    /// Labels and annotations from the anchor; `None` where there is no anchor to take them from.
    pub from_anchor: Option<(Labels, Labels)>,
}

/// What `namespace` needs, looking no further than `scope`, unless its place in the tree has just changed.
///
/// Nothing at all is planned before the streams that tell of the structure have delivered complete lists, and nothing
/// about objects of a kind before that kind's own has; where lists have to be matched ([`Forest::matching`]),
/// before they are. While the CRDs are being deleted, only our finalizers are removed.
pub fn plan(forest: &Forest, namespace: &str, scope: &Scope) -> Plan {
    let mut plan = Plan::default();
    let Some(id) = forest.id(namespace) else { return plan };
    if forest.is_going() {
        plan.report = hierarchy::while_going(forest, id);
        plan.step(GUARDS, anchors::while_going(forest, id));
        return plan;
    }
    if forest.structure_gap().is_some() || forest.is_structure_unmatched() {
        return plan;
    }
    let mut marks = marks::changes(forest, id);
    // While the labels that others go by are those of another place, all that is lost with that place goes before anything is
    // gained by the new one, whatever was looked at for.
    let whole = Scope::whole();
    let scope = if *scope != Scope::default() && marks.change_place() { &whole } else { scope };
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
