//! The names of objects, webhooks and paths.

/// The finalizer of a `SubNamespace`, until its namespace is deleted or is known to belong to another parent.
pub const FINALIZER: &str = "accurate.cybozu.com/finalizer";

/// The field manager of Accurate's writes.
pub const FIELD_MANAGER: &str = "accurate-controller";

/// The Lease of Accurate's controller.
pub const LEASE: &str = "accurate";

/// The Secret with the certificate of Accurate's webhooks.
pub const WEBHOOK_CERTIFICATE_SECRET: &str = "webhook-server-cert";

/// The key of the configuration file in Accurate's `ConfigMap`.
pub const CONFIGURATION: &str = "config.yaml";

/// The names of the webhooks within their configurations.
pub mod webhooks {
    /// Adds the finalizer to new `SubNamespaces`.
    pub const SUB_NAMESPACE_FINALIZER: &str = "subnamespace.accurate.cybozu.io";
    /// Validates namespaces.
    pub const NAMESPACE: &str = "namespace.accurate.cybozu.io";
    /// Validates `SubNamespaces`.
    pub const SUB_NAMESPACE: &str = "vsubnamespace.kb.io";
}

/// The HTTP paths of the webhooks.
pub mod paths {
    /// Adds the finalizer to new `SubNamespaces`.
    pub const SUB_NAMESPACE_FINALIZER: &str = "/mutate-accurate-cybozu-com-v2-subnamespace";
    /// Validates namespaces. The path is that of HNC's webhook, too.
    pub const NAMESPACE: &str = crate::names::paths::NAMESPACES;
    /// Validates `SubNamespaces`.
    pub const SUB_NAMESPACE: &str = "/validate-accurate-cybozu-com-v2-subnamespace";
    /// Converts `SubNamespaces` between versions.
    pub const CONVERT: &str = "/convert";
}
