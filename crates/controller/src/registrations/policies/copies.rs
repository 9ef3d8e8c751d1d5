//! `hns-copies`: a copy is what its source is, and nobody but the controller says otherwise.
//!
//! It may be deleted where the whole namespace is going; finalizers, owner references and status are left to everyone. Kinds
//! whose `scale` can be written lose that much: the request carries no labels to know a copy by.

use hns_api::{labels, names};
use k8s_openapi::api::admissionregistration::v1::{
    RuleWithOperations, ValidatingAdmissionPolicy, Validation, Variable,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

use super::super::RegistrationSettings;
use super::super::cel::{all_of, any_of, literal};
use super::super::conditions::{not_the_controller, requested_by};
use super::super::entries::rule;
use super::{Policy, must, must_saying, variable};

pub(super) fn policy(settings: &RegistrationSettings) -> ValidatingAdmissionPolicy {
    let mut policy = Policy {
        name: names::policies::COPIES,
        rules: settings.propagated.iter().flat_map(|(group, plural)| rules(group, plural)).collect(),
        conditions: vec![not_the_controller(settings)],
        variables: vec![source()],
        validations: vec![creation(settings), deletion(), is_and_stays_a_copy(), content()],
    }
    .build();
    if let Some(constraints) = policy.spec.as_mut().and_then(|spec| spec.match_constraints.as_mut()) {
        constraints.namespace_selector = Some(managed_namespaces());
        constraints.object_selector = Some(copies());
    }
    policy
}

/// A PUT of the status of some kinds writes labels too.
fn rules(group: &str, plural: &str) -> [RuleWithOperations; 2] {
    [
        rule(group, &[plural], &["CREATE", "UPDATE", "DELETE"]),
        rule(group, &[&format!("{plural}/status")], &["UPDATE"]),
    ]
}

/// On objects within namespaces a selector is safe: it is the namespace's present labels that count, which this request does
/// not change.
fn managed_namespaces() -> LabelSelector {
    let requirement = |key: &str, operator: &str| LabelSelectorRequirement {
        key: key.to_owned(),
        operator: operator.to_owned(),
        values: Some(vec![labels::TRUE.to_owned()]),
    };
    LabelSelector {
        match_expressions: Some(vec![
            requirement(labels::INCLUDED_NAMESPACE, "In"),
            requirement(labels::EXCLUDED_NAMESPACE, "NotIn"),
        ]),
        match_labels: None,
    }
}

/// Matches if the object is a copy before or after.
fn copies() -> LabelSelector {
    LabelSelector {
        match_expressions: Some(vec![LabelSelectorRequirement {
            key: labels::INHERITED_FROM.to_owned(),
            operator: "Exists".to_owned(),
            values: None,
        }]),
        match_labels: None,
    }
}

/// Where the copy is from, before if it was one.
fn source() -> Variable {
    let key = literal(labels::INHERITED_FROM);
    variable(
        "source",
        format!("oldObject.?metadata.?labels[?{key}].orValue(object.?metadata.?labels[?{key}].orValue(''))"),
    )
}

/// Whoever restores a backup brings copies back, too; what is wrong about them the controller puts right.
fn creation(settings: &RegistrationSettings) -> Validation {
    must(
        format!("request.operation != 'CREATE' || {}", requested_by(&settings.restore_identities)),
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

fn is_and_stays_a_copy() -> Validation {
    let key = literal(labels::INHERITED_FROM);
    must(
        format!(
            "request.operation != 'UPDATE' ||\nobject.metadata.?labels[?{key}] == oldObject.metadata.?labels[?{key}]"
        ),
        "the label hnc.x-k8s.io/inherited-from cannot be added, changed or removed by hand",
    )
}

/// Every field but metadata and status, whatever the kind.
fn content() -> Validation {
    let same = all_of(&[
        "object.metadata.?labels == oldObject.metadata.?labels",
        "object.metadata.?annotations == oldObject.metadata.?annotations",
        "object.all(k, k in ['metadata', 'status'] || (k in oldObject && object[k] == oldObject[k]))",
        "oldObject.all(k, k in ['metadata', 'status'] || k in object)",
    ]);
    must_saying(
        any_of(&["request.operation != 'UPDATE'".to_owned(), format!("({same})")]),
        "this object is a copy; change its source instead",
        "'this object is a copy from namespace \"' + variables.source + '\"; change its source instead'",
    )
}
