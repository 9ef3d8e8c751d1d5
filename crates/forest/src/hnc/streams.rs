//! The streams of HNC's own objects.

use crate::core::stream::Stream;

impl Stream {
    /// All `HierarchyConfigurations`.
    pub const HIERARCHIES: Self = Self::Resource("hierarchyconfigurations.hnc.x-k8s.io");
    /// All `SubnamespaceAnchors`.
    pub const ANCHORS: Self = Self::Resource("subnamespaceanchors.hnc.x-k8s.io");
    /// The `HNCConfiguration`, which says what is propagated.
    pub const CONFIGURATION: Self = Self::Resource("hncconfigurations.hnc.x-k8s.io");
    /// All `HierarchicalResourceQuotas`.
    pub const HIERARCHICAL_QUOTAS: Self = Self::Resource("hierarchicalresourcequotas.hnc.x-k8s.io");
    /// The derived quotas of all namespaces.
    pub const DERIVED_QUOTAS: Self = Self::Resource("resourcequotas named hrq.hnc.x-k8s.io");
    /// The streams that quotas need beside the structure.
    pub const QUOTAS: [Self; 2] = [Self::HIERARCHICAL_QUOTAS, Self::DERIVED_QUOTAS];
    /// The streams without which nothing can be judged or planned.
    pub const STRUCTURE: [Self; 3] = [Self::NAMESPACES, Self::HIERARCHIES, Self::ANCHORS];
}
