//! The names of objects, webhooks and paths that manifests, certificates and users agree on. Those that
//! depend on the namespace of the installation take it as an argument. It never says that an object exists.

/// The namespace of the installation unless a flag says otherwise.
pub const DEFAULT_NAMESPACE: &str = "hnc-system";

/// The only name that a `HierarchyConfiguration` may have.
pub const HIERARCHY_CONFIGURATION: &str = "hierarchy";

/// The only name that an `HNCConfiguration` may have.
pub const HNC_CONFIGURATION: &str = "config";

/// The `ValidatingWebhookConfiguration`.
pub const VALIDATING_WEBHOOK_CONFIGURATION: &str = "hnc-validating-webhook-configuration";

/// The `MutatingWebhookConfiguration`.
pub const MUTATING_WEBHOOK_CONFIGURATION: &str = "hnc-mutating-webhook-configuration";

/// The Service in front of the webhook.
pub const WEBHOOK_SERVICE: &str = "hnc-webhook-service";

/// The port of [`WEBHOOK_SERVICE`].
pub const WEBHOOK_SERVICE_PORT: i32 = 443;

/// The Secret with the serving certificate: `tls.crt`, `tls.key` and `ca.crt`.
pub const WEBHOOK_CERTIFICATE_SECRET: &str = "hnc-webhook-server-cert";

/// The Secret with the key of the authority that signed that certificate in earlier versions. The controller deletes it.
pub const FORMER_AUTHORITY_SECRET: &str = "hns-webhook-ca";

/// The Deployment of the controller, by HNC's name, so that an upgrade replaces HNC.
pub const CONTROLLER_DEPLOYMENT: &str = "hnc-controller-manager";

/// The Deployment of the webhook.
pub const WEBHOOK_DEPLOYMENT: &str = "hnc-webhook";

/// The service account of the controller. Webhook registrations exempt exactly this account.
pub const CONTROLLER_SERVICE_ACCOUNT: &str = "hns-controller";

/// The service account of the webhook.
pub const WEBHOOK_SERVICE_ACCOUNT: &str = "hns-webhook";

/// The `ConfigMap` in which both binaries say what they run with, in the namespace of the installation.
pub const SETTINGS_CONFIG_MAP: &str = "hnc-settings";

/// The field manager of what the controller writes.
pub const FIELD_MANAGER: &str = "hns-controller";

/// The field manager of what HNC has written.
pub const HNC_FIELD_MANAGER: &str = "manager";

/// The Lease that the leading controller holds.
pub const CONTROLLER_LEASE: &str = "hns-controller";

/// The resource quota that is derived from hierarchical ones, in every namespace that they reach.
pub const DERIVED_RESOURCE_QUOTA: &str = "hrq.hnc.x-k8s.io";

/// The names of the webhooks within their configurations, as they stand in every denial that a user reads.
pub mod webhooks {
    /// Judges namespaces.
    pub const NAMESPACES: &str = "namespaces.hnc.x-k8s.io";
    /// Judges what a rule could still deny of a namespace before the mark of a tree has arrived on it; fails open.
    pub const LATE_NAMESPACES: &str = "late-namespaces.hnc.x-k8s.io";
    /// Judges hierarchy configurations.
    pub const HIERARCHY_CONFIGURATIONS: &str = "hierarchyconfigurations.hnc.x-k8s.io";
    /// Judges anchors.
    pub const SUBNAMESPACE_ANCHORS: &str = "subnamespaceanchors.hnc.x-k8s.io";
    /// Judges the cluster's configuration.
    pub const HNC_CONFIGURATIONS: &str = "hncconfigurations.hnc.x-k8s.io";
    /// Judges objects of propagated kinds. Its name also stands for the two below in metrics and logs.
    pub const OBJECTS: &str = "objects.hnc.x-k8s.io";
    /// Judges objects of propagated kinds in namespaces that bear the mark of a tree.
    pub const TREE_OBJECTS: &str = "tree-objects.hnc.x-k8s.io";
    /// Judges what a rule could still deny of an object before the mark of a tree has arrived on its namespace; fails open.
    pub const LATE_OBJECTS: &str = "late-objects.hnc.x-k8s.io";
    /// Judges hierarchical quotas.
    pub const HIERARCHICAL_RESOURCE_QUOTAS: &str = "hrq.hnc.x-k8s.io";
    /// Judges usage recorded in resource quotas. The spelling is HNC's.
    pub const RESOURCE_QUOTAS_STATUS: &str = "resourcesquotasstatus.hnc.x-k8s.io";
    /// Labels managed namespaces.
    pub const NAMESPACE_LABEL: &str = "namespacelabel.hnc.x-k8s.io";
    /// Records who creates a subnamespace.
    pub const INITIAL_ADMIN: &str = "initialadmin.hnc.x-k8s.io";
}

/// The names of the admission policies, which are also those of their bindings.
pub mod policies {
    /// Guards our labels and annotations on namespaces.
    pub const NAMESPACE_KEYS: &str = "hns-namespace-keys";
    /// Keeps copies read-only.
    pub const COPIES: &str = "hns-copies";
    /// Guards hierarchy configurations against deletion by proxy.
    pub const HIERARCHY: &str = "hns-hierarchy";
    /// Guards who created an anchor.
    pub const ANCHORS: &str = "hns-anchors";
    /// Keeps a namespace whose anchors have not been dealt with.
    pub const NAMESPACE_ANCHORS: &str = "hns-namespace-anchors";
    /// All of them.
    pub const ALL: [&str; 5] = [NAMESPACE_KEYS, COPIES, HIERARCHY, ANCHORS, NAMESPACE_ANCHORS];
}

/// The HTTP paths that the webhooks are served under.
pub mod paths {
    /// Judges namespaces.
    pub const NAMESPACES: &str = "/validate-v1-namespace";
    /// Judges hierarchy configurations.
    pub const HIERARCHY_CONFIGURATIONS: &str = "/validate-hnc-x-k8s-io-v1alpha2-hierarchyconfigurations";
    /// Judges anchors.
    pub const SUBNAMESPACE_ANCHORS: &str = "/validate-hnc-x-k8s-io-v1alpha2-subnamespaceanchors";
    /// Judges the cluster's configuration.
    pub const HNC_CONFIGURATIONS: &str = "/validate-hnc-x-k8s-io-v1alpha2-hncconfigurations";
    /// Judges objects of propagated kinds.
    pub const OBJECTS: &str = "/validate-objects";
    /// Judges hierarchical quotas.
    pub const HIERARCHICAL_RESOURCE_QUOTAS: &str = "/validate-hnc-x-k8s-io-v1alpha2-hrq";
    /// Judges usage recorded in resource quotas.
    pub const RESOURCE_QUOTAS_STATUS: &str = "/validate-hnc-x-k8s-io-v1alpha2-resourcequotasstatus";
    /// Labels managed namespaces.
    pub const NAMESPACE_LABEL: &str = "/mutate-namespace";
    /// Records who creates a subnamespace.
    pub const INITIAL_ADMIN: &str = "/mutate-initial-admin";
}

/// Identities other than our own that rules refer to, as user names in admission requests.
pub mod users {
    /// The namespace controller, where each controller has an account of its own.
    pub const NAMESPACE_CONTROLLER: &str = "system:serviceaccount:kube-system:namespace-controller";
    /// The namespace controller, where all controllers share the controller manager's identity.
    pub const CONTROLLER_MANAGER: &str = "system:kube-controller-manager";
    /// The API server itself, which the quota admission plugin acts as.
    pub const API_SERVER: &str = "system:apiserver";
}

/// The user name of a service account, as admission requests and access reviews carry it.
///
/// ```
/// use hns_api::names::service_account_user;
/// assert_eq!(service_account_user("hnc-system", "hns-webhook"), "system:serviceaccount:hnc-system:hns-webhook");
/// ```
pub fn service_account_user(namespace: &str, name: &str) -> String {
    format!("system:serviceaccount:{namespace}:{name}")
}

/// The host name of the webhook, which its certificate must be valid for.
///
/// ```
/// assert_eq!(hns_api::names::webhook_host("hnc-system"), "hnc-webhook-service.hnc-system.svc");
/// ```
pub fn webhook_host(namespace: &str) -> String {
    format!("{WEBHOOK_SERVICE}.{namespace}.svc")
}
