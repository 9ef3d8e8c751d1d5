//! Which requests the API server sends to the webhook, and which it refuses by itself: all registrations and policies, as
//! one pure function of the settings. It never writes them to a cluster (see [`crate::keep`]), and never decides what the
//! webhook answers.
//!
//! Failing closed is safe only if nothing is sent that no rule could refuse, so each entry carries CEL conditions that
//! compare the new object with the old one. Three things about such conditions are easily got wrong. A key looked up in an
//! absent map is an error, and under `Fail` an error refuses the request without asking the webhook: every step that may
//! find nothing is an optional one (`.?`, `[?`). A loop over a map takes time that grows with the square of its size,
//! within the API server and at anyone's request: the size is asked first. Conditions are joined by "and", so an exemption
//! is a condition of its own, which wins even over an error in another.
//!
//! A rule may need several entries for one path: what is marked as part of a tree or touches our keys goes to an entry that
//! fails closed; what a rule could still deny before the mark has arrived goes to one that fails open, named `late-`. The names
//! of missing parents are literals in an entry of their own, which fails closed and follows the hierarchy.

mod cel;
mod conditions;
mod entries;
mod policies;

use hns_api::names;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
    ValidatingWebhookConfiguration,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// What the registrations and policies depend on.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RegistrationSettings {
    /// The namespace of the installation.
    pub namespace: String,
    /// The Service in front of the webhook, in that namespace.
    pub service: String,
    /// The controller's service account, in that namespace. Its own writes are not judged: exactly this
    /// account's, since any wider exemption would be open to whatever else runs in the namespace.
    pub controller_service_account: String,
    /// The namespaces that are excluded by name, the installation's own among them.
    pub excluded: Vec<String>,
    /// What the whole name of a namespace must match to be managed, anchored already: `^(?:…)$`. The API server reads it
    /// as an RE2 expression, and refuses the registrations if it is none.
    pub included_pattern: String,
    /// Users and groups who may bring back exported namespaces, anchors and copies as they were.
    pub restore_identities: Vec<String>,
    /// Who may keep the namespaces of another manager: the value of `managed-by`, and a user or group.
    pub external_managers: Vec<(String, String)>,
    /// The kinds whose objects are propagated: API group and plural.
    pub propagated: Vec<(String, String)>,
    /// Objects with one of these labels, key and value, never propagate.
    pub nopropagation_labels: Vec<(String, String)>,
    /// Whether copies take over the labels and annotations by which deployment tools find what is theirs. If not, anybody may
    /// remove these from a copy.
    pub propagate_tracking_metadata: bool,
    /// Whether the creator of a subnamespace is recorded, to become its first administrator.
    pub initial_admin: bool,
    /// The names of namespaces that are missing or being deleted, and that others name as their parent.
    pub awaited: Vec<String>,
    /// Whether there are policies. Without them the webhook is sent what they would judge.
    pub policies: bool,
}

impl Default for RegistrationSettings {
    /// What the shipped manifests say.
    fn default() -> Self {
        let owned = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
        let rbac = |plural: &str| ("rbac.authorization.k8s.io".to_owned(), plural.to_owned());
        Self {
            namespace: names::DEFAULT_NAMESPACE.to_owned(),
            service: names::WEBHOOK_SERVICE.to_owned(),
            controller_service_account: names::CONTROLLER_SERVICE_ACCOUNT.to_owned(),
            excluded: owned(&["kube-system", "kube-public", "kube-node-lease", names::DEFAULT_NAMESPACE]),
            included_pattern: "^(?:.*)$".to_owned(),
            restore_identities: Vec::new(),
            external_managers: Vec::new(),
            propagated: vec![rbac("roles"), rbac("rolebindings")],
            nopropagation_labels: Vec::new(),
            propagate_tracking_metadata: false,
            initial_admin: false,
            awaited: Vec::new(),
            policies: true,
        }
    }
}

/// Everything that stands between a request and the store.
#[derive(Clone, Debug, PartialEq)]
pub struct Admission {
    /// Who judges.
    pub validating: ValidatingWebhookConfiguration,
    /// Who completes.
    pub mutating: MutatingWebhookConfiguration,
    /// What the API server refuses by itself; none without policies.
    pub policies: Vec<ValidatingAdmissionPolicy>,
    /// One for each policy, by the same name: without it the policy does nothing.
    pub bindings: Vec<ValidatingAdmissionPolicyBinding>,
}

/// All registrations and policies, without certificate authorities: who installs them adds `caBundle`.
///
/// The same settings give the same objects, down to the order of entries. Values that the API server would default are
/// written out, so that the objects can be compared with those in the cluster.
pub fn admission(settings: &RegistrationSettings) -> Admission {
    let policies = if settings.policies { policies::all(settings) } else { Vec::new() };
    Admission {
        validating: ValidatingWebhookConfiguration {
            metadata: named(names::VALIDATING_WEBHOOK_CONFIGURATION),
            webhooks: Some(entries::validating(settings)),
        },
        mutating: MutatingWebhookConfiguration {
            metadata: named(names::MUTATING_WEBHOOK_CONFIGURATION),
            webhooks: Some(entries::mutating(settings)),
        },
        bindings: policies.iter().map(|policy| policies::binding(policy, settings)).collect(),
        policies,
    }
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }
}

#[cfg(test)]
mod tests;
