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

/// The top-most namespace whose quotas are not in force here, by its distance from the root. Bindings from there and from further
/// down wait. Bindings from further up do not: users further down could hold them up with quotas of their own. If quotas can no
/// longer be listed, the last known state counts.
pub(super) fn first_awaited(place: &Place<'_>) -> Option<usize> {
    let (forest, id) = (place.forest, place.id);
    let written = keys(place).filter(|key| forest.kind(key.kind).is_quota()).filter_map(|key| {
        if let Decision::Write(namespace, _) = place.decide(key) {
            Some(place.depth(namespace))
        } else {
            None
        }
    });
    let copies = forest
        .quotas_not_in_force(id)
        .map(|key| forest.inherited_from(forest.name(id), key).map_or(0, |namespace| place.depth(namespace)));
    let derived = forest.first_quota_not_in_force(id).map(|at| place.depth(forest.name(at)));
    written.chain(copies).chain(derived).min()
}
