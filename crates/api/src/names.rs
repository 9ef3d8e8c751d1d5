//! The names of objects, webhooks and paths that manifests, certificates and users depend on. Names that
//! depend on the namespace of the installation are functions.

/// The default namespace of the installation.
pub const DEFAULT_NAMESPACE: &str = "hnc-system";

/// The only allowed name of a `HierarchyConfiguration`.
pub const HIERARCHY_CONFIGURATION: &str = "hierarchy";

/// The only allowed name of an `HNCConfiguration`.
pub const HNC_CONFIGURATION: &str = "config";

/// The `ValidatingWebhookConfiguration`.
pub const VALIDATING_WEBHOOK_CONFIGURATION: &str = "hnc-validating-webhook-configuration";

/// The `MutatingWebhookConfiguration`.
pub const MUTATING_WEBHOOK_CONFIGURATION: &str = "hnc-mutating-webhook-configuration";

/// The Service in front of the webhook.
pub const WEBHOOK_SERVICE: &str = "hnc-webhook-service";

/// The port of [`WEBHOOK_SERVICE`].
pub const WEBHOOK_SERVICE_PORT: u16 = 443;

/// The Secret with the serving certificate: `tls.crt`, `tls.key` and `ca.crt`.
pub const WEBHOOK_CERTIFICATE_SECRET: &str = "hnc-webhook-server-cert";

/// The Secret with the key of the authority that signed that certificate in earlier versions. The controller deletes it.
pub const FORMER_AUTHORITY_SECRET: &str = "hns-webhook-ca";

/// The Deployment of the controller, by HNC's name, so that an upgrade replaces HNC.
pub const CONTROLLER_DEPLOYMENT: &str = "hnc-controller-manager";

/// The Deployment of the webhook.
pub const WEBHOOK_DEPLOYMENT: &str = "hnc-webhook";

/// The service account of the controller. Webhook registrations exempt this account only.
pub const CONTROLLER_SERVICE_ACCOUNT: &str = "hns-controller";

/// The validating webhook configuration with the names of parents, which only administrators may read.
pub const PARENT_WEBHOOK_CONFIGURATION: &str = "hns-parent-namespaces";

/// The `ClusterRole` of the controller. It owns the registrations and policies, so that they are deleted with it.
pub const CONTROLLER_CLUSTER_ROLE: &str = "hns-controller";

/// The service account of the webhook.
pub const WEBHOOK_SERVICE_ACCOUNT: &str = "hns-webhook";

/// The `ConfigMap` with the document of the shared settings, in the namespace of the installation.
pub const CONFIG_CONFIG_MAP: &str = "hns-config";

/// The `ConfigMap` with the settings in force, which the leading controller writes, in the namespace of the installation.
pub const SETTINGS_CONFIG_MAP: &str = "hnc-settings";

/// The field manager of the controller's writes.
pub const FIELD_MANAGER: &str = "hns-controller";

/// The field manager of HNC's writes.
pub const HNC_FIELD_MANAGER: &str = "manager";

/// The Lease that the leading controller holds.
pub const CONTROLLER_LEASE: &str = "hns-controller";

/// The resource quota that is derived from hierarchical quotas, in each namespace that they apply to.
pub const DERIVED_QUOTA: &str = "hrq.hnc.x-k8s.io";

/// The `ConfigMap` in which the webhook reserves usage of hierarchical quotas before it allows it, in the namespace of the
/// installation.
pub const QUOTA_LEDGER: &str = "hnc-quota-ledger";

/// The `ConfigMap` in which the webhook notes that a namespace names a missing parent before it allows it, in the namespace of the
/// installation.
pub const MISSING_PARENTS: &str = "hnc-missing-parents";

/// The names of the webhooks within their configurations. They appear in every denial.
pub mod webhooks {
    /// Validates namespaces.
    pub const NAMESPACES: &str = "namespaces.hnc.x-k8s.io";
    /// Validates the creation of namespaces whose names others name as their parent.
    pub const AWAITED_NAMESPACES: &str = "awaited-namespaces.hnc.x-k8s.io";
    /// Validates the creation of namespaces whose names existing parents have, for the time when these are deleted; fails open.
    pub const PARENT_NAMESPACES: &str = "parent-namespaces.hnc.x-k8s.io";
    /// Validates the deletion of namespaces whose tree labels are not set yet, where no policy does; fails open.
    pub const LATE_NAMESPACES: &str = "late-namespaces.hnc.x-k8s.io";
    /// Validates hierarchy configurations.
    pub const HIERARCHY_CONFIGURATIONS: &str = "hierarchyconfigurations.hnc.x-k8s.io";
    /// Validates anchors.
    pub const SUBNAMESPACE_ANCHORS: &str = "subnamespaceanchors.hnc.x-k8s.io";
    /// Validates the cluster's configuration.
    pub const HNC_CONFIGURATIONS: &str = "hncconfigurations.hnc.x-k8s.io";
    /// Validates sources in namespaces with children. Metrics and logs use this name for the next webhook as well.
    pub const OBJECTS: &str = "objects.hnc.x-k8s.io";
    /// Validates copies, where no policy does.
    pub const COPIES: &str = "copies.hnc.x-k8s.io";
    /// Validates hierarchical quotas.
    pub const HIERARCHICAL_RESOURCE_QUOTAS: &str = "hrq.hnc.x-k8s.io";
    /// Validates usage recorded in resource quotas. The spelling is HNC's.
    pub const RESOURCE_QUOTAS_STATUS: &str = "resourcesquotasstatus.hnc.x-k8s.io";
    /// Labels managed namespaces.
    pub const NAMESPACE_LABEL: &str = "namespacelabel.hnc.x-k8s.io";
    /// Records the user who creates a subnamespace.
    pub const INITIAL_ADMIN: &str = "initialadmin.hnc.x-k8s.io";
}

/// The names of the admission policies and of their bindings.
pub mod policies {
    /// Protects the labels and annotations of the product on namespaces.
    pub const NAMESPACE_KEYS: &str = "hns-namespace-keys";
    /// Keeps namespaces small enough for the controller to change them.
    pub const NAMESPACE_SIZE: &str = "hns-namespace-size";
    /// Keeps copies read-only.
    pub const COPIES: &str = "hns-copies";
    /// Protects hierarchy configurations from deletion by proxy.
    pub const HIERARCHY: &str = "hns-hierarchy";
    /// Protects the recorded creator of an anchor.
    pub const ANCHORS: &str = "hns-anchors";
    /// Blocks the deletion of a namespace until its anchors are deleted.
    pub const NAMESPACE_ANCHORS: &str = "hns-namespace-anchors";
    /// Protects the recorded usage of copied resource quotas, and keeps quotas from keeping copies out.
    pub const RESOURCE_QUOTAS: &str = "hns-resource-quotas";
    /// Protects the resource quotas that are derived from hierarchical quotas. Exists only if these are enforced.
    pub const QUOTAS: &str = "hns-quotas";
    /// Warns users who create a hierarchical quota. Exists only if these are not enforced.
    pub const QUOTAS_DISABLED: &str = "hns-quotas-disabled";
    /// Labels new namespaces, and gives new `SubNamespaces` their finalizer, where the API server serves mutating admission policies.
    pub const DEFAULTS: &str = "hns-defaults";
    /// All validating policies.
    pub const ALL: [&str; 9] = [
        NAMESPACE_KEYS,
        NAMESPACE_SIZE,
        COPIES,
        HIERARCHY,
        ANCHORS,
        NAMESPACE_ANCHORS,
        RESOURCE_QUOTAS,
        QUOTAS,
        QUOTAS_DISABLED,
    ];
}

/// The HTTP paths of the webhooks.
pub mod paths {
    /// Validates namespaces.
    pub const NAMESPACES: &str = "/validate-v1-namespace";
    /// Validates hierarchy configurations.
    pub const HIERARCHY_CONFIGURATIONS: &str = "/validate-hnc-x-k8s-io-v1alpha2-hierarchyconfigurations";
    /// Validates anchors.
    pub const SUBNAMESPACE_ANCHORS: &str = "/validate-hnc-x-k8s-io-v1alpha2-subnamespaceanchors";
    /// Validates the cluster's configuration.
    pub const HNC_CONFIGURATIONS: &str = "/validate-hnc-x-k8s-io-v1alpha2-hncconfigurations";
    /// Validates objects of propagated kinds.
    pub const OBJECTS: &str = "/validate-objects";
    /// Validates hierarchical quotas.
    pub const HIERARCHICAL_RESOURCE_QUOTAS: &str = "/validate-hnc-x-k8s-io-v1alpha2-hrq";
    /// Validates usage recorded in resource quotas.
    pub const RESOURCE_QUOTAS_STATUS: &str = "/validate-hnc-x-k8s-io-v1alpha2-resourcequotasstatus";
    /// Labels managed namespaces.
    pub const NAMESPACE_LABEL: &str = "/mutate-namespace";
    /// Records the user who creates a subnamespace.
    pub const INITIAL_ADMIN: &str = "/mutate-initial-admin";
}

/// The user names of other components that rules refer to.
pub mod users {
    /// The namespace controller, if each controller has its own service account.
    pub const NAMESPACE_CONTROLLER: &str = "system:serviceaccount:kube-system:namespace-controller";
    /// The controllers, if all use the identity of the controller manager.
    pub const CONTROLLER_MANAGER: &str = "system:kube-controller-manager";
    /// The quota controller, if each controller has its own service account.
    pub const QUOTA_CONTROLLER: &str = "system:serviceaccount:kube-system:resourcequota-controller";
    /// The garbage collector, if each controller has its own service account.
    pub const GARBAGE_COLLECTOR: &str = "system:serviceaccount:kube-system:generic-garbage-collector";
    /// The API server, whose identity the quota admission plugin uses.
    pub const API_SERVER: &str = "system:apiserver";
}

/// The user name of a service account in admission requests and access reviews.
///
/// ```
/// use hns_api::names::service_account_user;
/// assert_eq!(service_account_user("hnc-system", "hns-webhook"), "system:serviceaccount:hnc-system:hns-webhook");
/// ```
pub fn service_account_user(namespace: &str, name: &str) -> String {
    format!("system:serviceaccount:{namespace}:{name}")
}

/// The host name of the webhook; its certificate must be valid for it.
///
/// ```
/// assert_eq!(hns_api::names::webhook_host("hnc-system"), "hnc-webhook-service.hnc-system.svc");
/// ```
pub fn webhook_host(namespace: &str) -> String {
    format!("{WEBHOOK_SERVICE}.{namespace}.svc")
}
