//! `hns-defaults`: the API server itself sets the labels of a new managed namespace and the finalizer of a new `SubNamespace`, so that
//! their creation calls no mutating webhook and needs no write of the controller.
//!
//! It replaces the mutating webhooks `namespacelabel.hnc.x-k8s.io` and `subnamespace.accurate.cybozu.io` where the API server serves
//! `MutatingAdmissionPolicy` in version v1 (Kubernetes 1.36). As JSON, because older versions do not have the type.

use hns_api::accurate::{GROUP, names::FINALIZER};
use hns_api::{annotations, labels, names};
use k8s_openapi::api::admissionregistration::v1::MatchResources;
use serde_json::{Value, json};

use super::super::RegistrationSettings;
use super::super::cel::literal;
use super::super::conditions::{
    OWN_DEPTH, condition, given, has_finalizer, new_annotation, not_the_controller,
};
use super::super::entries::{can_be_labelled, rule, without_included_label};

const IS_NAMESPACE: &str = "request.resource.resource == 'namespaces'";

/// The policy and its binding.
pub(in super::super) fn objects(settings: &RegistrationSettings) -> [Value; 2] {
    let name = names::policies::DEFAULTS;
    let object = |kind: &str, spec: Value| {
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": super::named(name),
            "spec": spec,
        })
    };
    let mut rules = vec![rule("", &["namespaces"], &["CREATE", "UPDATE"])];
    let (mut can_be_changed, mut patch) = (can_be_labelled(settings), labels());
    if settings.accurate {
        rules.push(rule(GROUP, &["subnamespaces"], &["CREATE"]));
        let (labelled, lacks) =
            (can_be_changed.expression, format!("!({})", has_finalizer("object", FINALIZER)));
        can_be_changed = condition("can-be-changed", format!("{IS_NAMESPACE} ?\n{labelled} :\n{lacks}"));
        patch = format!("{IS_NAMESPACE} ?\n{patch} :\n{}", finalizer());
    }
    let about = MatchResources { object_selector: Some(without_included_label()), ..super::about(rules) };
    let policy = json!({
        "failurePolicy": "Ignore",
        "reinvocationPolicy": "Never",
        "matchConstraints": about,
        "matchConditions": [not_the_controller(settings), can_be_changed],
        "mutations": [{ "patchType": "JSONPatch", "jsonPatch": { "expression": patch } }],
    });
    let binding = json!({ "policyName": name });
    [object("MutatingAdmissionPolicy", policy), object("MutatingAdmissionPolicyBinding", binding)]
}

/// The labels to set. Of tree labels, a namespace that is being created has only its own; another tool sets those of a namespace that it
/// manages. A wrong value is not replaced, so that the request is refused.
fn labels() -> String {
    let set = |key: &str, value: &str| {
        format!(
            "JSONPatch{{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey({key}), value: {}}}",
            literal(value)
        )
    };
    format!(
        "(object.metadata.?labels.hasValue() ? [] : [JSONPatch{{op: 'add', path: '/metadata/labels', value: {{}}}}]) +\n\
         [{}] +\n\
         (request.operation == 'CREATE' && !{}.hasValue() && !object.metadata.?labels[?{OWN_DEPTH}].hasValue() ?\n[{}] : [])",
        set(&literal(labels::INCLUDED_NAMESPACE), labels::TRUE),
        new_annotation(annotations::MANAGED_BY),
        set(OWN_DEPTH, "0"),
    )
}

fn finalizer() -> String {
    let value = format!("{} + [{}]", given("object.metadata.?finalizers", "[]"), literal(FINALIZER));
    format!("[JSONPatch{{op: 'add', path: '/metadata/finalizers', value: {value}}}]")
}
