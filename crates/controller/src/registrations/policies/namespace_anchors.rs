//! `hns-namespace-anchors`: a namespace with an anchor cannot be deleted before the controller has set the label of namespaces
//! with children.
//!
//! Before that label is set, the webhook that fails closed does not receive the deletion. The anchors are in the same namespace,
//! so they can be parameters of a policy. After that, the webhook judges the deletion, and may allow it.
//!
//! It fails open: without the definition of anchors, a policy that fails closed would refuse the deletion of every namespace.

use hns_api::names;
use k8s_openapi::api::admissionregistration::v1::{ParamKind, ValidatingAdmissionPolicy};

use super::super::RegistrationSettings;
use super::super::cel::all_of;
use super::super::conditions::{OLD_IS_GOING, condition, managed, not_the_controller, old_has_children};
use super::super::entries::rule;
use super::{Policy, must_saying};

pub(super) fn policy(settings: &RegistrationSettings) -> ValidatingAdmissionPolicy {
    let unmarked = all_of(&[
        managed(settings, "oldObject.metadata.name"),
        format!("!{}", old_has_children()),
        format!("!{OLD_IS_GOING}"),
    ]);
    let mut policy = Policy {
        name: names::policies::NAMESPACE_ANCHORS,
        rules: vec![rule("", &["namespaces"], &["DELETE"])],
        conditions: vec![not_the_controller(settings), condition("managed-and-not-marked", unmarked)],
        variables: vec![],
        validations: vec![must_saying(
            "params == null",
            "it holds a subnamespace anchor that the controller has not dealt with yet; delete the anchor or try again",
            "'it holds the subnamespace anchor \"' + params.metadata.name + '\", which the controller has not dealt with \
             yet; delete the anchor or try again'",
        )],
    }
    .build();
    if let Some(spec) = policy.spec.as_mut() {
        spec.failure_policy = Some("Ignore".to_owned());
        spec.param_kind = Some(ParamKind {
            api_version: Some(hns_api::API_VERSION.to_owned()),
            kind: Some("SubnamespaceAnchor".to_owned()),
        });
    }
    policy
}
