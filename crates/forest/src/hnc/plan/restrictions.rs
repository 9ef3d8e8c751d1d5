//! What must be in place in a namespace before a user gains a right there, beside its labels: inherited restrictions.
//!
//! A `ResourceQuota` is in force only when its status says so. New rights wait for that, and the whole namespace is touched when
//! it happens.

use super::place::{Decision, Place};
use crate::core::kind::ObjectKey;

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
}
