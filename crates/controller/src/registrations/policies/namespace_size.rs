//! `hns-namespace-size`: a managed namespace stays so small that the controller can change it.
//!
//! The API server stores objects up to a size. A user who may change a namespace could fill it, so that the controller cannot set the
//! labels that restrict this user. The webhook for namespaces judges the keys of hns alone. The API server limits annotations, and
//! the controller drops the record of field managers if a namespace is too large.

use hns_api::names;
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;

use super::super::RegistrationSettings;
use super::super::cel::any_of;
use super::super::conditions::{
    MANY_KEYS, NEW_NAME, condition, grows, is_the_namespace_controller, managed, metadata_grows,
    not_the_controller,
};
use super::super::entries::rule;
use super::{Policy, must};

const MOST_FINALIZERS: usize = 20;
const MOST_CONDITIONS: usize = 20;
/// In characters, of up to four bytes.
const LONGEST_TEXT: usize = 1_000;

pub(super) fn policy(settings: &RegistrationSettings) -> ValidatingAdmissionPolicy {
    Policy {
        name: names::policies::NAMESPACE_SIZE,
        rules: vec![
            rule("", &["namespaces"], &["CREATE", "UPDATE"]),
            rule("", &["namespaces/status", "namespaces/finalize"], &["UPDATE"]),
        ],
        conditions: vec![not_the_controller(settings), condition("grows", is_too_large())],
        variables: vec![],
        validations: vec![must(
            format!("!({})", managed(settings, NEW_NAME)),
            "a namespace may have at most 1000 labels, 20 finalizers, 20 owner references with texts of at most 253 characters, and 20 conditions \
             with texts of at most 1000 characters; remove some",
        )],
    }
    .build()
}

/// Whether the namespace gets larger, and is too large then. The namespace controller writes long conditions.
fn is_too_large() -> String {
    let texts = ["type", "status", "reason", "message"]
        .map(|text| format!("c.?{text}.orValue('').size() > {LONGEST_TEXT}"));
    let long = format!(
        "(!({}) &&\nobject.?status != oldObject.?status &&\n\
         object.?status.?conditions.orValue([]).exists(c, {}))",
        is_the_namespace_controller(),
        texts.join(" || ")
    );
    any_of(&[
        metadata_grows(MANY_KEYS),
        grows("spec.?finalizers", "[]", MOST_FINALIZERS),
        grows("status.?conditions", "[]", MOST_CONDITIONS),
        long,
    ])
}
