//! `hns-anchors`: who created an anchor.
//!
//! Left to the webhook, whose entry fails closed for every creation, deletion and change of the spec: everything else. A
//! write that leaves the spec as it was never gets there, so that finalizers can be taken away by hand, and this is the one
//! thing in such a write that must not change: whoever the annotation names becomes an administrator.

use hns_api::{annotations, names};
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;

use super::super::RegistrationSettings;
use super::super::cel::any_of;
use super::super::conditions::{condition, new_annotation, not_the_controller, old_annotation, restoring};
use super::super::entries::rule;
use super::{Policy, must};

pub(super) fn policy(settings: &RegistrationSettings) -> ValidatingAdmissionPolicy {
    let (new, old) = (new_annotation(annotations::INITIAL_ADMIN), old_annotation(annotations::INITIAL_ADMIN));
    let expression = any_of(&[
        restoring(settings),
        format!("(request.operation == 'CREATE' && {new}.orValue('') == request.userInfo.username)"),
    ]);
    Policy {
        name: names::policies::ANCHORS,
        rules: vec![rule(hns_api::GROUP, &["subnamespaceanchors"], &["CREATE", "UPDATE"])],
        conditions: vec![
            not_the_controller(settings),
            condition("names-another-creator", format!("{new} != {old}")),
        ],
        variables: vec![],
        validations: vec![must(
            expression,
            "the annotation hnc.x-k8s.io/initial-admin names the creator, is recorded when the anchor is created, and \
             cannot be changed",
        )],
    }
    .build()
}
