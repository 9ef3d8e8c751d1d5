//! Hierarchical quotas and derived quotas on paper, and the controller that counts what there is.

use std::collections::BTreeMap;

use forest::hnc;
use forest::hnc::quota::{DerivedQuotaFact, QuotaStatus, Resources};
use forest::{Fact, Name, Version};

use super::Cluster;

/// No controller counts the resources of this prefix.
pub(crate) const NEVER_COUNTED: &str = "never.test/";

impl Cluster {
    /// Creates a hierarchical quota, or changes its limits. The others are invalid.
    pub(crate) fn put_quota(
        &mut self,
        namespace: &str,
        name: &str,
        hard: Resources,
        faults: &[&str],
    ) -> Fact {
        let place = (Name::from(namespace), Name::from(name));
        let mut quota = self.hierarchical.get(&place).cloned().unwrap_or_default();
        quota.version = self.newer_version(&quota.version);
        quota.name = name.into();
        quota.hard = hard;
        quota.faults = faults.iter().map(|&it| it.into()).collect();
        self.hierarchical.insert(place, quota.clone());
        Fact::Hnc(hnc::Fact::Quota(namespace.into(), quota))
    }

    pub(crate) fn remove_quota(&mut self, namespace: &str, name: &str) -> Option<Fact> {
        let quota = self.hierarchical.remove(&(namespace.into(), name.into()))?;
        Some(Fact::Hnc(hnc::Fact::QuotaGone(namespace.into(), quota.name, quota.version.uid)))
    }

    pub(super) fn write_quota_status(
        &mut self,
        namespace: &Name,
        name: &Name,
        version: &Version,
        status: &QuotaStatus,
    ) -> Option<Fact> {
        let place = (namespace.clone(), name.clone());
        let mut quota = self.hierarchical.get(&place).filter(|it| it.version == *version)?.clone();
        assert_ne!(quota.status, *status, "{namespace}: the status of {name} is as it should be already");
        quota.version = self.next_version(version);
        quota.status = status.clone();
        for condition in &mut quota.status.conditions {
            let now = || quota.version.resource_version.clone();
            condition.since.get_or_insert_with(now);
        }
        self.hierarchical.insert(place, quota.clone());
        Some(Fact::Hnc(hnc::Fact::Quota(namespace.clone(), quota)))
    }

    pub(super) fn write_derived(
        &mut self,
        namespace: &Name,
        version: Option<&Version>,
        (hard, dropped): (&Resources, &[Box<str>]),
        (sources, limits): (&str, &str),
    ) -> Option<Fact> {
        let known = self.derived.get(namespace);
        if known.map(|it| &it.version) != version {
            return None;
        }
        // The written limits are merged.
        let kept = known.into_iter().flat_map(|it| &it.hard).filter(|(name, _)| !dropped.contains(name));
        let merged: Resources = kept.chain(hard).map(|(name, limit)| (name.clone(), *limit)).collect();
        assert_eq!(merged, *hard, "{namespace}: limits would stay that are not wanted");
        let before = known.cloned().unwrap_or_default();
        let after = DerivedQuotaFact {
            hard: merged,
            sources: sources.into(),
            limits: limits.into(),
            is_marked: true,
            ..before.clone()
        };
        assert_ne!(before, after, "{namespace}: the derived quota is as it should be already");
        Some(self.store_derived(namespace, after))
    }

    /// Changes the derived quota of a namespace, if it has one.
    pub(crate) fn change_derived(
        &mut self,
        namespace: &str,
        edit: impl FnOnce(&mut DerivedQuotaFact),
    ) -> Option<Fact> {
        let before = self.derived.get(namespace)?;
        let mut after = before.clone();
        edit(&mut after);
        (after != *before).then(|| self.store_derived(&namespace.into(), after))
    }

    fn store_derived(&mut self, namespace: &Name, mut quota: DerivedQuotaFact) -> Fact {
        quota.version = self.newer_version(&quota.version);
        self.derived.insert(namespace.clone(), quota.clone());
        Fact::Hnc(hnc::Fact::DerivedQuota(namespace.clone(), quota))
    }

    pub(crate) fn delete_derived(&mut self, namespace: &str) -> Option<Fact> {
        let quota = self.derived.remove(namespace)?;
        let now = self.tick();
        Some(Fact::Hnc(hnc::Fact::DerivedQuotaGone(namespace.into(), quota.version.uid, now)))
    }

    /// So much there is now. The API server counts what is limited.
    pub(crate) fn use_resource(&mut self, namespace: &str, name: &str, amount: i64) -> Option<Fact> {
        let usage = self.usage.entry(namespace.into()).or_default();
        usage.insert(name.into(), amount.to_string().parse().expect("it is a number"));
        let usage = usage.clone();
        self.change_derived(namespace, |quota| {
            if quota.hard_in_force.contains_key(name) {
                quota.used.insert(name.into(), usage[name]);
            }
        })
    }

    /// A turn of the quota controller: limits come into force, and what they limit is counted.
    pub(crate) fn count(&mut self) -> Vec<Fact> {
        let names: Vec<Name> = self.derived.keys().cloned().collect();
        let counted = names.iter().filter_map(|name| {
            let usage = self.usage.get(name).cloned().unwrap_or_default();
            self.change_derived(name, |quota| {
                quota.hard_in_force = quota.hard.clone();
                let amount = |name: &str| usage.get(name).copied().unwrap_or_default();
                let counted = quota.hard.keys().filter(|name| !name.starts_with(NEVER_COUNTED));
                quota.used = counted.map(|name| (name.clone(), amount(name))).collect();
            })
        });
        counted.collect()
    }

    pub(crate) fn list_quotas(&self) -> Fact {
        let all = self.hierarchical.iter().map(|((namespace, _), it)| (namespace.clone(), it.clone()));
        Fact::Hnc(hnc::Fact::Quotas(all.collect()))
    }

    pub(crate) fn list_derived(&self) -> Fact {
        let all = self.derived.iter().map(|(namespace, it)| (namespace.clone(), it.clone()));
        Fact::Hnc(hnc::Fact::DerivedQuotas(all.collect(), self.clock))
    }

    fn newer_version(&mut self, version: &Version) -> Version {
        if version.uid.is_empty() { self.new_version() } else { self.next_version(version) }
    }
}

/// Amounts by the names of resources.
pub(crate) fn resources(amounts: &[(&str, &str)]) -> Resources {
    let amounts =
        amounts.iter().map(|(name, text)| ((*name).into(), text.parse().expect("it is a quantity")));
    amounts.collect::<BTreeMap<_, _>>()
}
