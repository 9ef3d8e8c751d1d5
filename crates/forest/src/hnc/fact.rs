//! Facts about HNC's own objects. Facts carry no decisions.

use super::condition::Condition;
use super::quota::{DerivedQuotaFact, QuotaFact};
use super::tree_limit::TreeLimit;
use crate::core::labels::Labels;
use crate::core::name::Name;
use crate::core::version::Version;

/// The `HierarchyConfiguration` of a namespace as the API server shows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HierarchyFact {
    /// The observed version.
    pub version: Version,
    /// `spec.parent`; absent and empty both mean a root.
    pub parent: Option<Name>,
    /// `spec.allowCascadingDeletion`.
    pub allow_cascading_deletion: bool,
    /// `spec.labels`, managed or not.
    pub labels: Labels,
    /// `spec.annotations`, managed or not.
    pub annotations: Labels,
    /// `metadata.finalizers`, all of them.
    pub finalizers: Vec<Box<str>>,
    /// It has a `deletionTimestamp`.
    pub terminating: bool,
    /// `status`, as last written.
    pub status: HierarchyStatus,
    /// The object exists but its content could not be parsed; the text says why. Its namespace is halted.
    pub unreadable: Option<Box<str>>,
}

/// The status of a `HierarchyConfiguration`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HierarchyStatus {
    /// Direct children, sorted.
    pub children: Vec<Name>,
    /// The conditions, in order.
    pub conditions: Vec<Condition>,
}

impl HierarchyStatus {
    /// Whether it has no children and no conditions.
    pub fn is_empty(&self) -> bool {
        self.children.is_empty() && self.conditions.is_empty()
    }
}

/// A `SubnamespaceAnchor` as the API server shows it. Its namespace is the parent, and its name is the child's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AnchorFact {
    /// The child's name.
    pub name: Name,
    /// The observed version.
    pub version: Version,
    /// `spec.labels`.
    pub labels: Labels,
    /// `spec.annotations`.
    pub annotations: Labels,
    /// The first administrator of the subnamespace: the annotation `hnc.x-k8s.io/initial-admin`.
    pub initial_admin: Option<Box<str>>,
    /// `status.status`, as last written, by any client.
    pub state: Option<Box<str>>,
    /// `metadata.finalizers`, all of them.
    pub finalizers: Vec<Box<str>>,
    /// It has a `deletionTimestamp`.
    pub terminating: bool,
}

/// The state of the CRDs of `HierarchyConfiguration` and `SubnamespaceAnchor`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrdState {
    /// Both exist.
    Present,
    /// One is being deleted, or deleted. Its objects are deleted with it, without a user's intent.
    BeingDeleted,
}

/// A fact about HNC's own objects.
#[derive(Debug, Clone)]
pub enum Fact {
    /// The `HierarchyConfiguration` of a namespace was seen.
    Hierarchy(Name, HierarchyFact),
    /// The `HierarchyConfiguration` of a namespace was deleted. Ignored if its uid is another.
    HierarchyGone(Name, Box<str>),
    /// These are all the `HierarchyConfigurations` there are.
    Hierarchies(Vec<(Name, HierarchyFact)>),
    /// An anchor was seen in this namespace.
    Anchor(Name, AnchorFact),
    /// An anchor was deleted: its namespace, its name, its uid. Ignored if its uid is another.
    AnchorGone(Name, Name, Box<str>),
    /// These are all the anchors there are, with their namespaces.
    Anchors(Vec<(Name, AnchorFact)>),
    /// The CRDs were read live, after everything that the forest was told so far.
    Crds(CrdState),
    /// These are the limits of trees.
    TreeLimits(Vec<TreeLimit>),
    /// A hierarchical quota was seen in this namespace.
    Quota(Name, QuotaFact),
    /// A hierarchical quota was deleted: its namespace, its name, its uid. Ignored if its uid is another.
    QuotaGone(Name, Name, Box<str>),
    /// These are all the hierarchical quotas there are, with their namespaces.
    Quotas(Vec<(Name, QuotaFact)>),
    /// The watch has reported the derived quota of this namespace, and everything before it.
    DerivedQuota(Name, DerivedQuotaFact),
    /// The derived quota of this namespace was written. What happened before may not be reported yet.
    DerivedQuotaWritten(Name, DerivedQuotaFact),
    /// The derived quota of a namespace was deleted: the namespace, its uid, the resource version of the deletion or 0. Ignored if
    /// its uid is another.
    DerivedQuotaGone(Name, Box<str>, u64),
    /// These are all the derived quotas there are, with their namespaces. The list is at least as new as this resource version.
    DerivedQuotas(Vec<(Name, DerivedQuotaFact)>, u64),
}

impl Fact {
    /// The version of the object that was seen, if the fact is about one.
    pub(crate) fn seen(&self) -> Option<&Version> {
        match self {
            Self::Hierarchy(_, seen) => Some(&seen.version),
            Self::Anchor(_, seen) => Some(&seen.version),
            Self::Quota(_, seen) => Some(&seen.version),
            Self::DerivedQuota(_, seen) | Self::DerivedQuotaWritten(_, seen) => Some(&seen.version),
            _ => None,
        }
    }
}
