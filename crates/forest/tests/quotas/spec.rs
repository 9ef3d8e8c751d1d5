//! The specification.

use forest::Name;
use forest::hnc::quota::{QuotaFact, Resources};

use crate::cluster::Cluster;

impl Cluster {
    /// The quotas that limit a namespace: its own, and those of the namespaces above it, also if its parent is missing.
    fn quotas_of(&self, name: &Name) -> Vec<&QuotaFact> {
        let place = self.place(name);
        self.hierarchical.iter().filter(|((at, _), _)| place.contains(at)).map(|(_, quota)| quota).collect()
    }

    /// The limits of its derived quota: the least for each resource.
    fn derived_limits(&self, name: &Name) -> Resources {
        let mut all = Resources::new();
        for (resource, limit) in self.quotas_of(name).iter().flat_map(|quota| &quota.hard) {
            let least = all.get(resource).map_or(*limit, |other| *limit.min(other));
            all.insert(resource.clone(), least);
        }
        all
    }

    fn lasts(&self, name: &Name) -> bool {
        self.namespaces.get(name).is_some_and(|it| !it.terminating)
    }

    /// What the quota should say of itself.
    fn quota_says(&self, at: &Name, quota: &QuotaFact) -> Said {
        let is_below = |name: &&Name| *name == at || self.place(name).contains(at);
        let below: Vec<&Name> = self.derived.keys().filter(is_below).collect();
        let used = |name: &str| below.iter().filter_map(|it| self.derived[*it].used.get(name).copied()).sum();
        let used: Resources = quota.hard.keys().map(|name| (name.clone(), used(name))).collect();
        let line = |of_limits: bool| {
            let named = quota.hard.iter().filter(|(name, _)| name.starts_with("limits.") == of_limits);
            named
                .map(|(name, limit)| format!("{name}: {}/{limit}", used[name]))
                .collect::<Vec<_>>()
                .join(", ")
        };
        Said {
            summaries: (line(false), line(true)),
            // In the end all limits are in force.
            enforced: quota.faults.is_empty(),
            exceeded: quota.hard.iter().any(|(name, limit)| used[name] > *limit),
            hard: quota.hard.clone(),
            used,
        }
    }

    /// Checks everything that quotas should have led to.
    pub(crate) fn check_quotas(&self) {
        for name in self.namespaces.keys().filter(|it| self.lasts(it)) {
            let limits = self.derived_limits(name);
            let derived = self.derived.get(name);
            assert_eq!(derived.map(|it| it.hard.clone()).unwrap_or_default(), limits, "{name}");
            assert_eq!(derived.is_none(), limits.is_empty(), "{name}: {derived:?}");
            let Some(derived) = derived else { continue };
            let sources: Vec<&str> = derived.sources.split(',').collect();
            assert!(derived.is_marked && sources.len() == self.quotas_of(name).len(), "{name}: {derived:?}");
        }
        for ((at, name), quota) in &self.hierarchical {
            assert_eq!(Said::of(quota), self.quota_says(at, quota), "{at}/{name}");
        }
    }
}

#[derive(Debug, PartialEq)]
struct Said {
    hard: Resources,
    used: Resources,
    summaries: (String, String),
    enforced: bool,
    exceeded: bool,
}

impl Said {
    fn of(quota: &QuotaFact) -> Self {
        let status = &quota.status;
        let holds = |type_: &str| {
            let condition = status.conditions.iter().find(|it| *it.type_ == *type_);
            condition.unwrap_or_else(|| panic!("{quota:?} does not say whether it is {type_}")).holds
        };
        Self {
            hard: status.hard.clone(),
            used: status.used.clone(),
            summaries: (status.requests_summary.to_string(), status.limits_summary.to_string()),
            enforced: holds("Enforced"),
            exceeded: holds("Exceeded"),
        }
    }
}
