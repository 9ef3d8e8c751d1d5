//! `hns-quotas`: the resource quota that is derived from hierarchical quotas limits its namespace, and its status is the usage that
//! is summed.
//!
//! A user with all rights in a namespace could otherwise widen the quota, delete it, or record less usage than there is, and so use
//! more than a hierarchical quota of an ancestor allows. Who may change the hierarchical quotas of all namespaces may do this in
//! other ways, and is not refused: an administrator may delete a derived quota, and the controller creates it again.
//!
//! Only the quota controller and the quota admission of the API server record usage. The garbage collector has rights on all objects,
//! and is not exempt: it would delete a quota to which a user gave an owner before it was protected. The namespace controller
//! deletes the quota with its namespace, as may everybody.

use hns_api::names;
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;

use super::super::RegistrationSettings;
use super::super::cel::{all_of, any_of, list, literal};
use super::super::conditions::{
    IS_STATUS, condition, is_derived_quota, not_the_controller, recorders_of_usage,
};
use super::super::entries::{HIERARCHICAL_QUOTAS, rule};
use super::{Policy, must, variable};

pub(super) fn policy(settings: &RegistrationSettings) -> ValidatingAdmissionPolicy {
    Policy {
        name: names::policies::QUOTAS,
        rules: vec![
            rule("", &["resourcequotas"], &["CREATE", "UPDATE", "DELETE"]),
            rule("", &["resourcequotas/status"], &["UPDATE"]),
        ],
        // The API server records usage whenever it creates an object. A condition that is false costs it much less than a validation.
        // A rule with the name of the quota does not match the deletion of all quotas of a namespace, so a condition compares it.
        conditions: vec![
            not_the_controller(settings),
            condition("is-derived", is_derived_quota()),
            condition("records-no-usage", format!("!({})", records_usage())),
        ],
        variables: vec![variable("changesAllQuotas", changes_all_quotas())],
        validations: vec![must(
            any_of(&[
                "(request.operation == 'DELETE' && has(namespaceObject.metadata.deletionTimestamp))",
                "variables.changesAllQuotas",
            ]),
            "the resource quota hrq.hnc.x-k8s.io follows the hierarchical quotas of its namespace and of the namespaces above, and \
             cannot be created, changed or deleted by hand",
        )],
    }
    .build()
}

/// Whether the user is one of those who record usage, and does so.
fn records_usage() -> String {
    let users = list(&recorders_of_usage());
    format!("{IS_STATUS} &&\nrequest.userInfo.username in {users}")
}

/// Whether the user may change the hierarchical quotas of all namespaces, and acts for nobody else. The verb is not an invented one: all rights in one
/// namespace do not include it.
fn changes_all_quotas() -> String {
    let (group, resource) = (literal(hns_api::GROUP), literal(HIERARCHICAL_QUOTAS));
    let for_others = [names::users::GARBAGE_COLLECTOR, names::users::CONTROLLER_MANAGER];
    all_of(&[
        format!("!(request.userInfo.username in {})", list(&for_others)),
        format!("authorizer.group({group}).resource({resource}).check('update').allowed()"),
    ])
}
