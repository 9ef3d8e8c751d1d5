//! The types and reasons of conditions, by name. It never says which one applies, nor words a message.

/// The status of every condition that is reported; one that does not hold is absent.
pub const STATUS_TRUE: &str = "True";

/// On a namespace: nothing is propagated here or below until the reason is gone.
pub const ACTIVITIES_HALTED: &str = "ActivitiesHalted";

/// On a namespace or the cluster's configuration: something in it cannot be honoured; the rest goes on.
pub const BAD_CONFIGURATION: &str = "BadConfiguration";

/// On the cluster's configuration: a kind cannot be synchronized.
pub const OUT_OF_SYNC: &str = "OutOfSync";

/// On the cluster's configuration: some namespaces have conditions. Its reason is the type of those.
pub const NAMESPACE_CONDITION: &str = "NamespaceCondition";

/// Reasons of [`ACTIVITIES_HALTED`] on a namespace.
pub mod activities_halted {
    /// The definition of hierarchy configurations is being deleted.
    pub const DELETING_CRD: &str = "DeletingCRD";
    /// The parent is a namespace that is not managed.
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
    /// The namespace says that it is a subnamespace, and its parent holds no anchor for it.
    pub const SUBNAMESPACE_ANCHOR_MISSING: &str = "SubnamespaceAnchorMissing";
    /// A label in the spec is not a managed one.
    pub const ILLEGAL_MANAGED_LABEL: &str = "IllegalManagedLabel";
    /// An annotation in the spec is not a managed one.
    pub const ILLEGAL_MANAGED_ANNOTATION: &str = "IllegalManagedAnnotation";
}

/// Reasons of [`BAD_CONFIGURATION`] and [`OUT_OF_SYNC`] on the cluster's configuration.
pub mod bad_configuration {
    /// No such resource.
    pub const RESOURCE_NOT_FOUND: &str = "ResourceNotFound";
    /// The resource is cluster-scoped.
    pub const RESOURCE_NOT_NAMESPACED: &str = "ResourceNotNamespaced";
    /// The same kind is configured twice, or one that is always propagated is configured.
    pub const MULTIPLE_CONFIGURATIONS_FOR_TYPE: &str = "MultipleConfigurationsForType";
    /// A service account lacks rights on a configured kind; the message names them and where to grant them.
    pub const MISSING_RIGHTS: &str = "MissingRights";
    /// The controller and the webhook run with different settings; the message names the flags.
    pub const SETTINGS_DIFFER: &str = "SettingsDiffer";
    /// Anything else; the message says what.
    pub const UNKNOWN: &str = "Unknown";
}
