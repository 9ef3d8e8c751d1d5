//! Hierarchical resource quotas (section 12 of docs/compatibility.md): limits on the sum of what a namespace and all namespaces
//! below use.
//!
//! In each limited namespace the controller keeps a *derived quota*, a core `ResourceQuota` named [`keys::DERIVED_QUOTA`]. The API
//! server counts the usage of the namespace in its status. All sums are computed from these states ([`Forest`]'s questions below);
//! none is accumulated. Before the API server stores more usage it asks the webhook, which decides with the [`ledger`].

pub mod fact;
pub mod ledger;
pub mod resource;
mod room;
mod sources;
pub(crate) mod state;
mod status;

use std::collections::BTreeMap;

use super::keys;
use crate::core::change::{Change, ObjectScope};
use crate::core::name::Name;
use crate::core::quantity::Quantity;
use crate::core::stream::{Stream, StreamState};
use crate::core::tree::Id;
use crate::core::version::Version;
use crate::dialects::Forest;

pub use fact::{DerivedQuotaFact, QuotaCondition, QuotaFact, QuotaStatus};
pub use resource::COPIED;
pub(crate) use room::{MOST_QUOTAS, Room};
pub(crate) use sources::limits_text;
pub use sources::names as names_of_sources;
pub use status::ENFORCED;
pub(crate) use status::{exceeded_by_move, status};

/// Amounts by the name of the resource.
pub type Resources = BTreeMap<Box<str>, Quantity>;

/// A quota with its namespace.
pub(crate) type Placed<'a> = (Id, &'a QuotaFact);

/// What a namespace should have, and what is summed over namespaces.
impl Forest {
    /// The quotas that limit the namespace: its own and those above it, the root's first, as far as there is room for them. The limits
    /// of its tree hold for an orphan too.
    pub(crate) fn quotas_above(&self, id: Id) -> Vec<Placed<'_>> {
        let mut room = Room::default();
        let quotas = self.all_quotas_above(id).into_iter();
        quotas.take_while(|(at, quota)| room.takes(self.name(*at), &quota.name, &quota.hard)).collect()
    }

    /// The same with those that have no effect, because there is no room for them.
    pub(crate) fn all_quotas_above(&self, id: Id) -> Vec<Placed<'_>> {
        let path = self.place(id);
        path.iter().rev().flat_map(|above| self.quotas_at(*above).map(move |quota| (*above, quota))).collect()
    }

    /// The quotas that limit a namespace, the root's first: their namespaces, names and versions.
    pub fn quotas_over(&self, namespace: &str) -> Vec<(Name, Name, Version)> {
        let quotas = self.id(namespace).map(|id| self.quotas_above(id)).unwrap_or_default().into_iter();
        quotas.map(|(at, quota)| (self.name(at).clone(), quota.name.clone(), quota.version.clone())).collect()
    }

    /// The names of those of them, with their namespaces, that limit the number of objects of this resource, such as `jobs.batch`.
    pub fn quotas_that_count(&self, namespace: &str, resource: &str) -> Vec<Name> {
        let quotas = self.id(namespace).map(|id| self.quotas_above(id)).unwrap_or_default().into_iter();
        let counts = |quota: &QuotaFact| {
            quota.hard.keys().any(|name| name.strip_prefix("count/").unwrap_or(name) == resource)
        };
        let counting = quotas.filter(|(_, quota)| counts(quota));
        counting.map(|(at, quota)| full_name(self.name(at), &quota.name)).collect()
    }

    /// The quotas in the namespace, by name.
    pub(crate) fn quotas_at(&self, id: Id) -> impl Iterator<Item = &QuotaFact> {
        self.hnc().quotas().of(id).values()
    }

    /// The namespaces that a quota here limits: this one and all below that exist and are not being deleted. Unordered.
    pub(crate) fn limited_by(&self, id: Id) -> Vec<Id> {
        let lasts = |id: &Id| self.lasting_namespace(*id).is_some();
        self.at_and_below(id).into_iter().filter(lasts).collect()
    }

    /// What the namespace and all below use of these resources.
    pub(crate) fn usage_below(&self, id: Id, of: &Resources) -> Resources {
        self.usage_of(&self.at_and_below(id), of)
    }

    /// What these namespaces use of these resources.
    pub(crate) fn usage_of(&self, namespaces: &[Id], of: &Resources) -> Resources {
        let used = |name: &str| -> Quantity {
            namespaces.iter().filter_map(|id| self.counted_usage(*id)?.get(name).copied()).sum()
        };
        of.keys().map(|name| (name.clone(), used(name))).collect()
    }

    /// The derived quota of a namespace, as it is.
    pub(crate) fn derived_quota(&self, id: Id) -> Option<&DerivedQuotaFact> {
        self.hnc().quotas().derived(id)
    }

    /// What a namespace uses. The derived quota of a namespace that is being deleted is deleted first, and objects with finalizers
    /// stay: they count until the namespace is gone.
    pub(crate) fn counted_usage(&self, id: Id) -> Option<&Resources> {
        let ended = || self.hnc().quotas().ended(id).filter(|_| self.lasting_namespace(id).is_none());
        self.derived_quota(id).or_else(ended).map(|it| &it.used)
    }

    /// The statuses of all quotas, as last written, with their namespaces and names.
    pub fn quota_statuses(&self) -> impl Iterator<Item = (&Name, &Name, &QuotaStatus)> {
        self.hnc().quotas().all().map(|(id, quota)| (self.name(id), &quota.name, &quota.status))
    }

    /// The status of a quota, as last written.
    pub fn quota_status(&self, namespace: &str, name: &Name) -> Option<&QuotaStatus> {
        Some(&self.hnc().quotas().of(self.id(namespace)?).get(name)?.status)
    }

    /// Whether quotas can be planned: they are enabled, and all lists that they need have arrived.
    pub(crate) fn knows_quotas(&self) -> bool {
        self.settings().hierarchical_quotas
            && Stream::QUOTAS.iter().all(|it| self.stream(*it).is_synced() && self.is_verified(*it))
    }

    /// The top-most namespace whose quotas are not in force in this one yet: new rights from there wait. Before quotas are known, it
    /// is the root. If quotas can no longer be listed, nothing waits.
    pub(crate) fn first_quota_not_in_force(&self, id: Id) -> Option<Id> {
        let is_lost = |it: &Stream| matches!(self.stream(*it), StreamState::Lost(_));
        if !self.settings().hierarchical_quotas
            || self.lasting_namespace(id).is_none()
            || Stream::QUOTAS.iter().any(is_lost)
        {
            return None;
        }
        if !self.knows_quotas() {
            return self.path(id).last().copied();
        }
        let derived = self.derived_quota(id).filter(|derived| !derived.has_scopes);
        let is_in_force = |quota: &QuotaFact| {
            let least = |name: &str| derived?.hard_in_force.get(name);
            quota.hard.iter().all(|(name, limit)| least(name).is_some_and(|least| least <= limit))
        };
        self.quotas_above(id).into_iter().find(|(_, quota)| !is_in_force(quota)).map(|(at, _)| at)
    }

    /// While bindings wait, their namespace shows that as a condition.
    pub(crate) fn touch_waiting(&self, change: &mut Change) {
        if change.everything || !self.settings().hierarchical_quotas {
            return;
        }
        for (name, scope) in &mut change.namespaces {
            let ObjectScope::Some(keys) = &scope.objects else { continue };
            let binds = keys.iter().any(|key| self.kind(key.kind).binds_subjects());
            let awaits = |id| self.first_quota_not_in_force(id).is_some();
            scope.structure |= binds && self.id(name).is_some_and(awaits);
        }
    }

    /// Whether the derived quota of the namespace is what it should be, and in force.
    pub(crate) fn is_derived_in_force(&self, id: Id) -> bool {
        let quotas = self.quotas_above(id);
        let wanted = derived_limits(&quotas);
        match self.derived_quota(id) {
            Some(quota) => {
                quota.hard == wanted && quota.is_in_force() && *quota.sources == *self.sources(&quotas)
            }
            None => wanted.is_empty(),
        }
    }
}

/// The limits of the derived quota under these quotas: the least for each resource. Empty if there are none.
pub(crate) fn derived_limits(quotas: &[Placed<'_>]) -> Resources {
    let mut least = Resources::new();
    for (name, limit) in quotas.iter().flat_map(|(_, quota)| &quota.hard) {
        least.entry(name.clone()).and_modify(|it| *it = (*it).min(*limit)).or_insert(*limit);
    }
    least
}

/// The name of a quota with that of its namespace.
pub(crate) fn full_name(namespace: &Name, quota: &Name) -> Name {
    format!("{namespace}/{quota}").into()
}
