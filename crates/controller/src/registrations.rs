//! All webhook configurations and admission policies, as a pure function of the settings: which requests the API server sends to
//! the webhook, and which it refuses itself. [`reconciler`] writes them to the cluster; the crate `forest` decides what the
//! webhook answers.
//!
//! A webhook that fails closed must receive only requests that a rule could refuse, so each has CEL conditions that compare the
//! new object with the old one. Three rules apply to conditions. A key that is missing in a map is an error, and under `Fail` an
//! error refuses the request without a call: every step that may find nothing is optional (`.?`, `[?`). A loop over a map takes
//! time that grows with the square of its size, in the API server: the size is checked first. All conditions of a webhook must be
//! true, so an exemption is a condition of its own; it counts even if another condition is an error.
//!
//! A rule may need several webhooks for one path. Requests in a namespace with the label of namespaces with children, or that change
//! our keys, go to a webhook that fails closed. Without policies, one that fails open judges deletions of namespaces before that label
//! is set. The names of missing parents are literals in a webhook that fails closed and follows the hierarchy.

mod cel;
mod conditions;
mod entries;
mod policies;
pub(crate) mod reconciler;

use forest::Kind;
use hns_api::names;
use hns_cluster::settings::FailurePolicy;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
    ValidatingWebhookConfiguration,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

/// The kinds that restrict among those that Accurate's API watches, as group and plural. The settings have no plurals.
pub fn followed(accurate: &forest::accurate::Settings) -> Vec<(String, String)> {
    let restricting = accurate.watches.iter().filter_map(Kind::restriction);
    restricting.map(|(group, plural)| (group.to_owned(), plural.to_owned())).collect()
}

/// The settings of registrations and policies.
#[derive(Clone, Debug, Eq, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
pub struct RegistrationSettings {
    /// The namespace of the installation.
    pub namespace: String,
    /// The Service in front of the webhook, in that namespace.
    pub service: String,
    /// The port of that Service.
    pub service_port: u16,
    /// Annotations of the webhook configurations.
    pub annotations: Vec<(String, String)>,
    /// The controller's service account, in that namespace. Its own writes are not reviewed. Only this account is exempt: a wider
    /// exemption would include other programs in the namespace.
    pub controller_service_account: String,
    /// The namespaces that are excluded by name, the installation's own among them.
    pub excluded: Vec<String>,
    /// The pattern that the whole name of a managed namespace matches, with anchors: `^(?:…)$`. The API server reads it as an RE2
    /// expression, and refuses the registrations if it is invalid.
    pub included_pattern: String,
    /// The labels and annotations of namespaces that the hierarchy manages, as patterns of whole keys with anchors. They are RE2
    /// expressions too.
    pub managed_labels: Vec<String>,
    /// See `managed_labels`.
    pub managed_annotations: Vec<String>,
    /// Users and groups who may restore exported namespaces, anchors and copies.
    pub restore_identities: Vec<String>,
    /// Who may manage external namespaces: the value of `managed-by`, and a user or group.
    pub external_managers: Vec<(String, String)>,
    /// The kinds whose objects are propagated: API group and plural.
    pub propagated: Vec<(String, String)>,
    /// Objects with one of these labels, key and value, never propagate.
    pub nopropagation_labels: Vec<(String, String)>,
    /// Whether copies have the labels and annotations by which deployment tools find their objects. If not, every user may remove
    /// these from a copy.
    pub propagate_tracking_metadata: bool,
    /// Whether the creator of a subnamespace is recorded, and becomes its first administrator.
    pub initial_admin: bool,
    /// What the API server does with usage of hierarchical quotas that no webhook judges; `None` if these are not enforced.
    pub quotas: Option<FailurePolicy>,
    /// Whether Accurate's API is served.
    pub accurate: bool,
    /// See [`followed`].
    pub followed: Vec<(String, String)>,
    /// The names of namespaces that are missing or being deleted, and that others name as their parent.
    pub awaited: Vec<String>,
    /// The names of the other namespaces that others name as their parent. A name in both lists would be reviewed twice.
    pub parents: Vec<String>,
    /// Whether there are policies. Without them, the webhook receives the requests that they judge.
    pub policies: bool,
    /// Whether a policy changes new namespaces and `SubNamespaces`, in place of the mutating webhooks. Needs an API server that serves
    /// `MutatingAdmissionPolicy` in version v1.
    pub mutating_policy: bool,
}

impl Default for RegistrationSettings {
    /// The defaults of the flags and of the settings document, except for a label that the chart excludes.
    fn default() -> Self {
        let owned = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
        let rbac = |plural: &str| ("rbac.authorization.k8s.io".to_owned(), plural.to_owned());
        Self {
            namespace: names::DEFAULT_NAMESPACE.to_owned(),
            service: names::WEBHOOK_SERVICE.to_owned(),
            service_port: names::WEBHOOK_SERVICE_PORT,
            annotations: Vec::new(),
            controller_service_account: names::CONTROLLER_SERVICE_ACCOUNT.to_owned(),
            excluded: owned(&["kube-system", "kube-public", "kube-node-lease", names::DEFAULT_NAMESPACE]),
            included_pattern: "^(?:.*)$".to_owned(),
            managed_labels: Vec::new(),
            managed_annotations: Vec::new(),
            restore_identities: Vec::new(),
            external_managers: Vec::new(),
            propagated: vec![rbac("roles"), rbac("rolebindings")],
            nopropagation_labels: Vec::new(),
            propagate_tracking_metadata: false,
            initial_admin: false,
            quotas: None,
            accurate: false,
            followed: Vec::new(),
            awaited: Vec::new(),
            parents: Vec::new(),
            policies: true,
            mutating_policy: false,
        }
    }
}

/// The objects that control admission.
#[derive(Clone, Debug, PartialEq)]
pub struct Admission {
    /// The validating webhooks.
    pub validating: ValidatingWebhookConfiguration,
    /// The validating webhooks that name parents. Users may read the other configurations, but not the names of all namespaces.
    pub parents: ValidatingWebhookConfiguration,
    /// The mutating webhooks.
    pub mutating: MutatingWebhookConfiguration,
    /// The requests that the API server refuses itself; empty without policies.
    pub policies: Vec<ValidatingAdmissionPolicy>,
    /// One for each policy, with the same name. A policy has no effect without it.
    pub bindings: Vec<ValidatingAdmissionPolicyBinding>,
    /// The policy that changes new objects, and its binding, if the settings ask for them.
    pub mutating_policy: Option<[Value; 2]>,
}

/// All registrations and policies, without `caBundle`, which does not depend on settings.
///
/// The same settings give the same objects, with webhooks in the same order. Fields that the API server would default are set, so
/// that the objects can be compared with those in the cluster.
pub fn admission(settings: &RegistrationSettings) -> Admission {
    let policies = if settings.policies { policies::all(settings) } else { Vec::new() };
    Admission {
        validating: ValidatingWebhookConfiguration {
            metadata: annotated(names::VALIDATING_WEBHOOK_CONFIGURATION, settings),
            webhooks: Some(entries::validating(settings)),
        },
        parents: ValidatingWebhookConfiguration {
            metadata: annotated(names::PARENT_WEBHOOK_CONFIGURATION, settings),
            webhooks: Some(entries::of_parents(settings)),
        },
        mutating: MutatingWebhookConfiguration {
            metadata: annotated(names::MUTATING_WEBHOOK_CONFIGURATION, settings),
            webhooks: Some(entries::mutating(settings)),
        },
        bindings: policies.iter().map(|policy| policies::binding(policy, settings)).collect(),
        policies,
        mutating_policy: settings.mutating_policy.then(|| policies::mutating(settings)),
    }
}

fn named(name: &str) -> ObjectMeta {
    let labels = [("app.kubernetes.io/name".to_owned(), "hns".to_owned())];
    ObjectMeta { name: Some(name.to_owned()), labels: Some(labels.into()), ..ObjectMeta::default() }
}

fn annotated(name: &str, settings: &RegistrationSettings) -> ObjectMeta {
    let annotations = settings.annotations.iter().cloned().collect();
    ObjectMeta { annotations: (!settings.annotations.is_empty()).then_some(annotations), ..named(name) }
}

#[cfg(test)]
mod tests;
