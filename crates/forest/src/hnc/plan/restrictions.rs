//! What must be in place in a namespace before a user gains a right there: managed labels, and inherited restrictions.
//!
//! A `ResourceQuota` is in force only when its status says so. New rights wait for that, and the whole namespace is touched when
//! it happens.

use super::place::{Decision, Place};
use crate::core::kind::ObjectKey;
use crate::core::labels::Labels;
use crate::core::tree::Id;
use crate::dialects::Forest;
use crate::hnc::hierarchy::Hierarchy;

/// Every restriction that exists here or may be inherited.
pub(super) fn keys<'a>(place: &Place<'a>) -> impl Iterator<Item = &'a ObjectKey> {
    let (forest, namespaces) = (place.forest, place.above.iter().copied().chain([place.id]));
    let kinds = forest.kinds().filter(|(_, settings)| settings.kind.restricts());
    kinds.flat_map(move |(kind, _)| {
        namespaces.clone().flat_map(move |id| forest.objects_of_kind(id, kind).map(|(key, _)| key))
    })
}

/// Whether bindings must wait. If quotas can no longer be listed, the last known state counts.
pub(super) fn bindings_must_wait(place: &Place<'_>) -> bool {
    let mut quotas = keys(place).filter(|key| place.forest.kind(key.kind).is_quota());
    quotas.any(|key| matches!(place.decide(key), Decision::Write(..)))
        || place.forest.quotas_not_in_force(place.id).next().is_some()
        || place.forest.awaits_derived_quota(place.id)
        || awaits_labels(place.forest, place.id)
}

/// Whether a subnamespace's anchor requests other managed labels than those known to be configured.
fn awaits_labels(forest: &Forest, id: Id) -> bool {
    let managed = |labels: Option<&Labels>| -> Labels {
        let all = labels.into_iter().flat_map(Labels::iter);
        all.filter(|(key, _)| forest.settings().is_managed_label(key)).collect()
    };
    let configured = forest.hierarchy(id).map(Hierarchy::labels);
    forest.anchor_of(id).is_some_and(|anchor| managed(Some(&anchor.labels)) != managed(configured))
}
