//! Reconciliation: what must be written in a namespace (sections 8 and 9 of Accurate's contract)?
//!
//! [`plan`] compares the observed objects with the desired ones and returns only the writes that differ. A namespace gets its
//! objects and labels from its upstream namespace alone, so a plan reads these two namespaces and no others. What is copied to it
//! from there is a source for the next namespaces.

mod copies;
mod metadata;
pub(crate) mod place;
mod sub_namespaces;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use self::place::Place;
use super::fact::SubNamespaceStatus;
use crate::core::change::Scope;
use crate::core::name::Name;
use crate::core::plan::{GIVES, GUARDS, GUARDS_AND_GIVES, PLAIN};
use crate::core::stream::Stream;
use crate::core::tree::EdgeKind;
use crate::core::version::Version;
use crate::dialects::Forest;

/// A write of copies, or of Accurate's own objects.
pub type Action = crate::core::plan::Action<AccurateAction>;
/// The writes that one namespace needs.
pub type Plan = crate::core::plan::Plan<AccurateAction>;

impl From<AccurateAction> for Action {
    fn from(action: AccurateAction) -> Self {
        Self::Dialect(action)
    }
}

/// A write of a namespace or of a `SubNamespace`.
#[derive(Debug, Clone, PartialEq)]
pub enum AccurateAction {
    /// Apply these labels and annotations to the namespace, server-side, by force, and as Accurate's field manager. They are all that
    /// this manager has: the API server removes its others.
    ApplyNamespace {
        /// The state that this changes.
        version: Version,
        /// The edge to the namespace from which they come.
        edge: (EdgeKind, Name),
        /// All labels.
        labels: BTreeMap<String, String>,
        /// All annotations.
        annotations: BTreeMap<String, String>,
    },
    /// Create a sub-namespace with the labels [`super::keys::CREATED_BY`] and [`super::keys::PARENT`], applied by the same field
    /// manager.
    CreateNamespace {
        /// Its name. The parent is the namespace of the plan.
        child: Name,
    },
    /// Delete the sub-namespace of this name. Not if the CRD of `SubNamespace` is being deleted, which must be read live first.
    DeleteNamespace {
        /// Its name.
        child: Name,
        /// The state that this deletes.
        version: Version,
    },
    /// Change these parts of a `SubNamespace` and leave the rest as it is.
    UpdateSubNamespace {
        /// Its name, which is the child's.
        child: Name,
        /// The state that this changes.
        version: Version,
        /// All its finalizers.
        finalizers: Option<Vec<Box<str>>>,
        /// The status to show. The writer keeps the time of a condition that is already shown.
        status: Option<SubNamespaceStatus>,
        /// Whether our condition is shown now.
        was_stalled: bool,
    },
}

/// The writes that `namespace` needs within `scope`.
///
/// The plan is empty while Accurate's API is off, and until the streams of namespaces and `SubNamespaces` have delivered complete
/// lists. It has no writes for objects of a kind until the stream of that kind has delivered a complete list. With
/// [`Forest::with_verified_lists`], these lists must also be verified. While the CRDs of HNC's API are being deleted, it is unknown
/// which namespaces are in both hierarchies. So the plan only ends `SubNamespaces` that are being deleted, and shows their states.
pub fn plan(forest: &Forest, namespace: &str, scope: &Scope) -> Plan {
    let mut plan = Plan::default();
    let (Some(settings), Some(id)) = (forest.accurate().settings(), forest.id(namespace)) else {
        return plan;
    };
    let is_known = |stream| forest.stream(stream).is_synced() && forest.is_verified(stream);
    if !Stream::ACCURATE_STRUCTURE.into_iter().all(is_known) {
        return plan;
    }
    plan.scope = scope.clone();
    let structure = scope.structure.then_some(id);
    let children = structure.map(|id| sub_namespaces::changes(forest, id)).unwrap_or_default();
    if forest.crds_are_being_deleted() {
        plan.step(GUARDS, children.change);
        plan.step(PLAIN, children.delete);
        return plan;
    }
    let copies = copies::changes(forest, settings, id, &scope.objects);
    plan.settled = copies.settled;
    plan.conflicts = copies.conflicts;
    plan.unread = copies.unread;
    // New labels give access too, so they wait with the other gains.
    let metadata =
        structure.filter(|_| plan.unread.is_empty()).and_then(|id| metadata::change(forest, settings, id));
    let writes = copies.writes;
    plan.step(GUARDS, children.change);
    plan.step(GUARDS, writes.lost_bindings);
    plan.step(GUARDS, writes.lost);
    // The API server can refuse a deletion again and again, and nothing in this namespace depends on it.
    plan.step(PLAIN, children.delete);
    plan.step(GUARDS, writes.restrictions);
    plan.step(GUARDS_AND_GIVES, metadata.into_iter().collect());
    plan.step(GIVES, children.create);
    plan.step(GIVES, writes.gained);
    plan.step(GUARDS_AND_GIVES, writes.gained_roles);
    plan.step(GIVES, writes.gained_bindings);
    plan
}

/// If a guarding write fails, the controller skips the later writes that give access (`skipped`). These are the writes to make
/// instead: they remove the access that the skipped writes would have changed or removed.
pub fn withdrawals(forest: &Forest, namespace: &str, skipped: &[Action]) -> Vec<Action> {
    let Some(place) = Place::of(forest, namespace) else { return Vec::new() };
    skipped.iter().filter_map(|action| place.withdrawal(action)).collect()
}

/// The deletions that must follow replacements that the API server refuses: of outdated copies that give access, and of copies
/// from a namespace that is not the upstream namespace any more. Restrictions stay.
pub fn after_refusals(forest: &Forest, namespace: &str, refused: &[Action]) -> Vec<Action> {
    let Some(place) = Place::of(forest, namespace) else { return Vec::new() };
    refused.iter().filter_map(|action| place.after_refusal(action)).collect()
}
