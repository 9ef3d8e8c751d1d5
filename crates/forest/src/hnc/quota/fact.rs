//! Hierarchical quotas and derived quotas as the API server shows them.

use super::Resources;
use crate::core::name::Name;
use crate::core::version::Version;

/// A `HierarchicalResourceQuota`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QuotaFact {
    /// Its name.
    pub name: Name,
    /// The observed version.
    pub version: Version,
    /// `spec.hard`, without the limits that the API server would refuse in a `ResourceQuota`.
    pub hard: Resources,
    /// What is wrong with the others.
    pub faults: Vec<Box<str>>,
    /// `status`, as last written.
    pub status: QuotaStatus,
}

/// The status of a `HierarchicalResourceQuota`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QuotaStatus {
    /// The limits.
    pub hard: Resources,
    /// The usage of the namespace and all below, for each limit.
    pub used: Resources,
    /// Usage and limits as one line, except limits of pods.
    pub requests_summary: Box<str>,
    /// The limits of pods.
    pub limits_summary: Box<str>,
    /// `Enforced` and `Exceeded`.
    pub conditions: Vec<QuotaCondition>,
}

impl QuotaStatus {
    /// Whether it says that the limits are enforced.
    pub fn says_enforced(&self) -> bool {
        self.conditions.iter().any(|it| *it.type_ == *super::ENFORCED && it.holds)
    }
}

/// A condition of a `HierarchicalResourceQuota`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaCondition {
    /// `Enforced` or `Exceeded`.
    pub type_: Box<str>,
    /// Whether it holds.
    pub holds: bool,
    /// The reason, one CamelCase word.
    pub reason: Box<str>,
    /// One sentence for users.
    pub message: Box<str>,
    /// `lastTransitionTime` in RFC 3339; `None` when the condition changes and its writer sets the time.
    pub since: Option<Box<str>>,
}

/// The derived quota of a namespace: the `ResourceQuota` that the controller keeps there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DerivedQuotaFact {
    /// The observed version.
    pub version: Version,
    /// `spec.hard`.
    pub hard: Resources,
    /// `status.hard`: the limits in force.
    pub hard_in_force: Resources,
    /// `status.used`.
    pub used: Resources,
    /// The annotation that names the quotas that it was derived from.
    pub sources: Box<str>,
    /// The annotation that tells people what limits what.
    pub limits: Box<str>,
    /// Whether it has the label and the annotation of derived quotas.
    pub is_marked: bool,
    /// Whether it counts only some objects (`spec.scopes`, `spec.scopeSelector`). This cannot be changed.
    pub has_scopes: bool,
    /// It has a `deletionTimestamp`.
    pub terminating: bool,
}

impl DerivedQuotaFact {
    /// Whether the quota controller has taken up the limits, for all objects.
    pub fn is_in_force(&self) -> bool {
        self.hard == self.hard_in_force && !self.has_scopes
    }

    /// The resource version as a number; 0 if it is none.
    pub fn number(&self) -> u64 {
        self.version.resource_version.parse().unwrap_or_default()
    }
}
