//! Reconciliation: what must be written in a namespace?
//!
//! [`plan`] compares the observed objects with the desired ones and returns only the writes that differ: after they are made, the
//! next plan is empty. The function is the same after one event and after a restart. It never writes, waits or retries, and reads
//! no clock.

mod anchors;
mod complaints;
mod conditions;
mod copies;
mod hierarchy;
mod marks;
mod place;
mod quotas;
mod restrictions;
#[cfg(test)]
mod tests;

pub(crate) use self::marks::{Labelling, asked_for, labels_below, managed, sets_no_managed, wanted_labels};
pub(crate) use self::place::{Decision, Place, Reach, is_forsaken, reach};
use crate::core::change::Scope;
use crate::core::labels::Labels;
use crate::core::name::Name;
use crate::core::version::Version;
use crate::dialects::Forest;
use crate::hnc::anchor::AnchorState;
use crate::hnc::fact::HierarchyStatus;
use crate::hnc::quota::{QuotaStatus, Resources};

pub use crate::core::plan::{Complaint, ComplaintReason, CopyContent, Edit};
use crate::core::plan::{GIVES, GUARDS, GUARDS_AND_GIVES, PLAIN};

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

/// A write of HNC's own objects, or one that they request.
#[derive(Debug, Clone, PartialEq)]
pub enum HncAction {
    /// Create the `HierarchyConfiguration`.
    CreateHierarchy {
        /// Its `spec`, for a subnamespace.
        spec: Option<SubnamespaceSpec>,
        /// Whether it needs our finalizer.
        with_finalizer: bool,
        /// Its status.
        status: HierarchyStatus,
    },
    /// Change these parts of the `HierarchyConfiguration` and leave the rest as it is.
    UpdateHierarchy {
        /// The state that this changes.
        version: Version,
        /// The `spec` from the anchor of a subnamespace.
        spec: Option<SubnamespaceSpec>,
        /// All its finalizers.
        finalizers: Option<Vec<Box<str>>>,
        /// The status to show.
        status: Option<HierarchyStatus>,
    },
    /// Change these parts of an anchor and leave the rest as it is.
    UpdateAnchor {
        /// The name of the anchor, which is the child's.
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
        /// The first administrator.
        initial_admin: Option<Box<str>>,
    },
    /// Bind a user to a `ClusterRole` in this namespace. An existing binding counts as success.
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
    /// Create or change the derived quota.
    WriteDerivedQuota {
        /// The state that this changes; `None` to create it.
        version: Option<Version>,
        /// The limits.
        hard: Resources,
        /// The names of limits to remove.
        dropped: Vec<Box<str>>,
        /// The annotation that names its sources.
        sources: Box<str>,
        /// The annotation for people.
        limits: Box<str>,
    },
    /// Delete the derived quota.
    DeleteDerivedQuota {
        /// The state that this deletes.
        version: Version,
    },
    /// Remove the finalizers of a derived quota that is being deleted, because it keeps the name from another one.
    FreeDerivedQuota {
        /// The state that this changes.
        version: Version,
    },
    /// Show the status of a hierarchical quota.
    UpdateQuotaStatus {
        /// Its name.
        name: Name,
        /// The state that this changes.
        version: Version,
        /// The status.
        status: QuotaStatus,
        /// The names of limits to remove from it.
        dropped: Vec<Box<str>>,
    },
}

/// The fields of the `spec` of a subnamespace's `HierarchyConfiguration` that the controller sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubnamespaceSpec {
    /// The parent, from the namespace's annotation.
    pub parent: Name,
    /// Labels and annotations from the anchor; `None` where the anchor does not exist.
    pub from_anchor: Option<(Labels, Labels)>,
}

/// If a guarding write fails, the controller skips the later writes that give access (`skipped`). These are the writes to make
/// instead: they remove the access that the skipped writes would have changed or removed.
pub fn withdrawals(forest: &Forest, namespace: &str, skipped: &[Action]) -> Vec<Action> {
    let Some(id) = forest.id(namespace) else { return Vec::new() };
    let place = Place::of(forest, id);
    skipped.iter().filter_map(|action| copies::withdrawal(&place, action)).collect()
}

/// What remains of a step that gives access after the API server has refused these restrictions, Roles and labels, or fails to
/// process them again and again. Copies from the topmost of their sources and from further down wait; outdated access is withdrawn.
/// The initial admin is not bound, now or later: the user may have lost the right above by then. Other labels and what comes from
/// further up do not wait: otherwise users further down could keep them out.
pub fn despite_refusals(
    forest: &Forest,
    namespace: &str,
    refused: &[Action],
    actions: Vec<Action>,
) -> Vec<Action> {
    let Some(id) = forest.id(namespace) else { return Vec::new() };
    let place = Place::of(forest, id);
    let depth = |action: &Action| match action {
        Action::PatchNamespace { labels, .. } => marks::first_missing(&place, labels),
        _ => action.source().map(|source| place.depth(source)),
    };
    let Some(first) = refused.iter().filter_map(depth).min() else { return actions };
    let waits = |action: &Action| match action {
        Action::Dialect(HncAction::BindInitialAdmin { .. }) => true,
        _ => action.source().is_some_and(|source| place.depth(source) >= first),
    };
    let remaining = actions
        .into_iter()
        .filter_map(|action| if waits(&action) { copies::withdrawal(&place, &action) } else { Some(action) });
    remaining.collect()
}

/// The deletions that must follow replacements that the API server refuses. Otherwise the old copies would keep giving access that
/// their source has withdrawn, and a namespace would keep objects of a tree that it has left. Restrictions stay.
pub fn after_refusals(forest: &Forest, namespace: &str, refused: &[Action]) -> Vec<Action> {
    let Some(id) = forest.id(namespace) else { return Vec::new() };
    let place = Place::of(forest, id);
    refused.iter().filter_map(|action| copies::after_refusal(&place, action)).collect()
}

/// The writes that `namespace` needs within `scope`. If its place in the tree has just changed, the scope is the whole namespace.
///
/// The plan is empty until the streams of the structure have delivered complete lists. The plan has no writes for objects of a
/// kind until the stream of that kind has delivered a complete list. With [`Forest::with_verified_lists`], these lists must also
/// be verified. While the CRDs are being deleted, a plan only shows that as a condition and removes our finalizers.
pub fn plan(forest: &Forest, namespace: &str, scope: &Scope) -> Plan {
    let mut plan = Plan::default();
    let Some(id) = forest.id(namespace) else { return plan };
    if forest.crds_are_being_deleted() {
        plan.report = hierarchy::while_crds_are_deleted(forest, id);
        plan.step(GUARDS, anchors::while_crds_are_deleted(forest, id));
        return plan;
    }
    if forest.structure_gap().is_some() || forest.is_structure_unverified() {
        return plan;
    }
    let mut marks = marks::changes(forest, id);
    // If the tree labels are still those of the old place, the whole namespace is planned: everything that is lost with the old
    // place is removed before anything of the new place is written.
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
    // The annotation stays until its user is bound.
    let mut bound = initial_admin.is_some().then(|| marks.without_admin()).flatten();
    let quotas = if scope.quotas { quotas::changes(forest, id) } else { quotas::Changes::default() };
    let copies = copies::changes(forest, id, &scope.objects, initial_admin.is_some());
    if copies.rights_wait {
        (initial_admin, bound) = (None, None);
    }
    plan.quota_statuses = quotas.statuses;
    plan.settled = copies.settled;
    plan.conflicts = copies.conflicts;
    plan.unread = copies.unread;
    plan.complaints = complaints::of_sources(forest, id, &scope.objects);
    plan.scope = scope.clone();
    let copies = copies.writes;
    let nothing_lost = copies.lost_bindings.is_empty() && copies.lost.is_empty();
    let (first, last) = if plan.unread.is_empty() {
        marks.around(nothing_lost, !anchors.create.is_empty())
    } else {
        // New labels give access too, so they are written with the other gains.
        (marks.first(), None)
    };
    plan.step(GUARDS, anchors.change.into_iter().chain(first).collect());
    plan.step(GUARDS, copies.lost_bindings);
    plan.step(GUARDS, copies.lost);
    // The API server can refuse a deletion again and again, and nothing in this namespace depends on it.
    plan.step(PLAIN, anchors.delete);
    plan.step(GUARDS, copies.restrictions);
    // Bindings wait for the quotas from above. A quota of this namespace that cannot be written must not keep them out.
    plan.step(PLAIN, quotas.derived);
    plan.step(GUARDS_AND_GIVES, last.into_iter().collect());
    plan.step(GIVES, anchors.create);
    plan.step(GIVES, copies.gained);
    plan.step(GUARDS_AND_GIVES, copies.gained_roles);
    plan.step(GIVES, copies.gained_bindings);
    plan.step(GUARDS_AND_GIVES, initial_admin.into_iter().collect());
    plan.step(GIVES, bound.into_iter().collect());
    plan
}
