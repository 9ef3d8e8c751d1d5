//! The types and reasons of conditions.

/// The status of every condition. A condition that does not hold is absent.
pub const STATUS_TRUE: &str = "True";

/// On a namespace: nothing is propagated in it or below it.
pub const ACTIVITIES_HALTED: &str = "ActivitiesHalted";

/// On a namespace or on the `HNCConfiguration`: a part of the spec is invalid and is ignored.
pub const BAD_CONFIGURATION: &str = "BadConfiguration";

/// On the `HNCConfiguration`: a kind cannot be synchronized.
pub const OUT_OF_SYNC: &str = "OutOfSync";

/// On the `HNCConfiguration`: some namespaces have conditions. The reason is the type of these conditions.
pub const NAMESPACE_CONDITION: &str = "NamespaceCondition";

/// On a hierarchical quota: the API server has accepted its limits in every namespace that it applies to.
pub const ENFORCED: &str = "Enforced";

/// On a hierarchical quota: more is used than it allows.
pub const EXCEEDED: &str = "Exceeded";

/// Reasons of [`ACTIVITIES_HALTED`] on a namespace.
pub mod activities_halted {
    /// The `CustomResourceDefinition` of `HierarchyConfiguration` is being deleted.
    pub const DELETING_CRD: &str = "DeletingCRD";
    /// The parent is not a managed namespace.
    pub const ILLEGAL_PARENT: &str = "IllegalParent";
    /// The parent does not exist.
    pub const PARENT_MISSING: &str = "ParentMissing";
    /// The namespace is its own ancestor.
    pub const IN_CYCLE: &str = "InCycle";
    /// An ancestor is halted; the message names it.
    pub const ANCESTOR_HALT_ACTIVITIES: &str = "AncestorHaltActivities";
}

/// Reasons of [`BAD_CONFIGURATION`] on a namespace.
pub mod bad_namespace {
    /// The namespace is annotated as a subnamespace, but its parent has no anchor for it.
    pub const SUBNAMESPACE_ANCHOR_MISSING: &str = "SubnamespaceAnchorMissing";
    /// The key of a label in the spec is not a managed key.
    pub const ILLEGAL_MANAGED_LABEL: &str = "IllegalManagedLabel";
    /// The key of an annotation in the spec is not a managed key.
    pub const ILLEGAL_MANAGED_ANNOTATION: &str = "IllegalManagedAnnotation";
}

/// Reasons of [`BAD_CONFIGURATION`] and [`OUT_OF_SYNC`] on the `HNCConfiguration`.
pub mod bad_configuration {
    /// The API server serves no such resource.
    pub const RESOURCE_NOT_FOUND: &str = "ResourceNotFound";
    /// The resource is cluster-scoped.
    pub const RESOURCE_NOT_NAMESPACED: &str = "ResourceNotNamespaced";
    /// A kind is configured twice, or a kind that is always propagated is configured.
    pub const MULTIPLE_CONFIGURATIONS_FOR_TYPE: &str = "MultipleConfigurationsForType";
    /// A service account lacks rights on a configured kind. The message names the rights and where to grant
    /// them.
    pub const MISSING_RIGHTS: &str = "MissingRights";
    /// The document in the `ConfigMap` `hns-config` is wrong, so earlier settings stay in force; the message names the key.
    pub const SETTINGS_REFUSED: &str = "SettingsRefused";
    /// Another problem, which the message describes.
    pub const UNKNOWN: &str = "Unknown";
}
