//! `hns-namespace-labels`: the API server itself sets the labels of a new managed namespace, so that its creation calls no webhook and
//! needs no write of the controller.
//!
//! It replaces the mutating webhook `namespacelabel.hnc.x-k8s.io` where the API server serves `MutatingAdmissionPolicy` in version v1
//! (Kubernetes 1.36). As JSON, because older versions do not have the type.

use hns_api::{annotations, labels, names};
use k8s_openapi::api::admissionregistration::v1::MatchResources;
use serde_json::{Value, json};

use super::super::RegistrationSettings;
use super::super::cel::literal;
use super::super::conditions::{OWN_DEPTH, new_annotation, not_the_controller};
use super::super::entries::{can_be_labelled, rule, without_included_label};

/// The policy and its binding.
pub(in super::super) fn objects(settings: &RegistrationSettings) -> [Value; 2] {
    let name = names::policies::NAMESPACE_LABELS;
    let object = |kind: &str, spec: Value| {
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": super::named(name),
            "spec": spec,
        })
    };
    let namespaces = MatchResources {
        object_selector: Some(without_included_label()),
        ..super::about(vec![rule("", &["namespaces"], &["CREATE", "UPDATE"])])
    };
    let policy = json!({
        "failurePolicy": "Ignore",
        "reinvocationPolicy": "Never",
        "matchConstraints": namespaces,
        "matchConditions": [not_the_controller(settings), can_be_labelled(settings)],
        "mutations": [{
            "patchType": "ApplyConfiguration",
            "applyConfiguration": { "expression": labelled() },
        }],
    });
    let binding = json!({ "policyName": name });
    [object("MutatingAdmissionPolicy", policy), object("MutatingAdmissionPolicyBinding", binding)]
}

/// The labels to set. Of tree labels, a namespace that is being created has only its own; another tool sets those of a namespace that it
/// manages. A wrong value is not replaced, so that the request is refused.
fn labelled() -> String {
    let included = format!("{}: {}", literal(labels::INCLUDED_NAMESPACE), literal(labels::TRUE));
    let object = |labels: &str| format!("Object{{metadata: Object.metadata{{labels: {{{labels}}}}}}}");
    format!(
        "request.operation == 'CREATE' && !{}.hasValue() && !object.metadata.?labels[?{OWN_DEPTH}].hasValue() ?\n{} :\n{}",
        new_annotation(annotations::MANAGED_BY),
        object(&format!("{included}, {OWN_DEPTH}: '0'")),
        object(&included),
    )
}
