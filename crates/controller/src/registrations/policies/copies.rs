//! `hns-copies`: only the controller may create, change or delete a copy.
//!
//! Users may delete a copy with its namespace, unless it restricts what runs there. They may change its status, and remove what
//! should not be on a copy: finalizers, owner references, and the labels and annotations of deployment tools. They may not add
//! finalizers or owner references, which would block the deletion of a copy, or make the garbage collector delete it. A write of
//! the subresource `scale` is not covered, because its request has no labels.
//!
//! The binding names the kinds. The policy names none; its object selector, which is evaluated first, excludes other objects.

use hns_api::{labels, names};
use k8s_openapi::api::admissionregistration::v1::{
    MatchResources, RuleWithOperations, ValidatingAdmissionPolicy, Validation, Variable,
};

use super::super::RegistrationSettings;
use super::super::cel::{all_of, any_of, list, literal};
use super::super::conditions::{
    copied_metadata, is_probe, is_the_namespace_controller, not_the_controller_in_earnest, nothing_added,
    requested_by, same_content,
};
use super::super::entries::{OF_COPIES, managed_namespaces, object_rules, of_copies, rule};
use super::{Policy, about, constraints, must, must_saying, variable};

pub(super) fn policy(settings: &RegistrationSettings) -> ValidatingAdmissionPolicy {
    let mut policy = Policy {
        name: names::policies::COPIES,
        rules: vec![of_every_kind(&["*"], &OF_COPIES), of_every_kind(&["*/status"], &["UPDATE"])],
        conditions: vec![not_the_controller_in_earnest(settings)],
        variables: vec![source()],
        validations: vec![
            creation(settings),
            deletion(),
            deletion_of_restrictions(),
            is_and_stays_a_copy(),
            content(settings),
            additions(),
        ],
    }
    .build();
    if let Some(constraints) = constraints(&mut policy) {
        constraints.namespace_selector = Some(managed_namespaces());
        constraints.object_selector = Some(of_copies("Exists"));
    }
    policy
}

/// The propagated kinds, and the subresources by which their labels and annotations can be written.
pub(super) fn kinds(settings: &RegistrationSettings) -> MatchResources {
    about(object_rules(settings, &OF_COPIES))
}

fn of_every_kind(resources: &[&str], operations: &[&str]) -> RuleWithOperations {
    let rule = rule("*", resources, operations);
    RuleWithOperations { scope: Some("Namespaced".to_owned()), ..rule }
}

/// The namespace of the source, from the old object if it was a copy.
fn source() -> Variable {
    let key = literal(labels::INHERITED_FROM);
    variable(
        "source",
        format!("oldObject.?metadata.?labels[?{key}].orValue(object.?metadata.?labels[?{key}].orValue(''))"),
    )
}

/// A restored backup includes copies. The controller corrects them.
fn creation(settings: &RegistrationSettings) -> Validation {
    must(
        format!(
            "request.operation != 'CREATE' || ({} && !{})",
            requested_by(&settings.restore_identities),
            is_probe()
        ),
        "an object with the label hnc.x-k8s.io/inherited-from is a copy, which nobody can create by hand; create its source",
    )
}

fn deletion() -> Validation {
    must_saying(
        "request.operation != 'DELETE' || has(namespaceObject.metadata.deletionTimestamp)",
        "this object is a copy; delete its source instead",
        "'this object is a copy from namespace \"' + variables.source + '\"; delete its source instead'",
    )
}

/// Pods of a namespace that is being deleted may run for long. The namespace controller deletes `NetworkPolicies` after them.
fn deletion_of_restrictions() -> Validation {
    must(
        format!(
            "request.operation != 'DELETE' || {} ||\n\
             !(request.resource.group + '/' + request.resource.resource in {})",
            is_the_namespace_controller(),
            list(&["/limitranges", "/resourcequotas", "networking.k8s.io/networkpolicies"])
        ),
        "this object is a copy that restricts the namespace; it goes with the namespace, after the pods",
    )
}

fn is_and_stays_a_copy() -> Validation {
    let key = literal(labels::INHERITED_FROM);
    must(
        format!(
            "request.operation != 'UPDATE' ||\nobject.metadata.?labels[?{key}] == oldObject.metadata.?labels[?{key}]"
        ),
        "the label hnc.x-k8s.io/inherited-from cannot be added, changed or removed by hand",
    )
}

fn content(settings: &RegistrationSettings) -> Validation {
    let mut same = copied_metadata(settings);
    same.push(same_content());
    must_saying(
        any_of(&["request.operation != 'UPDATE'".to_owned(), format!("({})", all_of(&same))]),
        "this object is a copy; change its source instead",
        "'this object is a copy from namespace \"' + variables.source + '\"; change its source instead'",
    )
}

fn additions() -> Validation {
    must(
        any_of(&["request.operation != 'UPDATE'".to_owned(), format!("({})", nothing_added())]),
        "this object is a copy; finalizers and owner references can be removed from it, but not added or changed",
    )
}
