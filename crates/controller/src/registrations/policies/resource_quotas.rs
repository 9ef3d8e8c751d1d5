//! `hns-resource-quotas`: a user with rights in one namespace alone can neither widen a copied resource quota nor keep copies out.
//!
//! The API server enforces what the status of a resource quota records. Only the control plane records it, so nobody else may change the
//! status of a copy. And a resource quota that limits the number of restrictions, or of the bindings of those who are responsible for
//! the namespace, would keep out what is copied from above. `hns-quotas` protects derived quotas.

use forest::hnc::quota::COPIED;
use hns_api::{labels, names};
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;

use super::super::RegistrationSettings;
use super::super::cel::{list, literal};
use super::super::conditions::{condition, not_the_controller, recorders_of_usage};
use super::super::entries::{managed_namespaces, rule};
use super::{Policy, constraints, must_saying};

pub(super) fn policy(settings: &RegistrationSettings) -> ValidatingAdmissionPolicy {
    let guarded = format!(
        "request.?subResource.orValue('') == 'status' ?\n({}) :\n({})",
        forges_usage(),
        limits_copies()
    );
    let mut policy = Policy {
        name: names::policies::RESOURCE_QUOTAS,
        rules: vec![
            rule("", &["resourcequotas"], &["CREATE", "UPDATE"]),
            rule("", &["resourcequotas/status"], &["UPDATE"]),
        ],
        conditions: vec![not_the_controller(settings), condition("changes-what-is-guarded", guarded)],
        variables: vec![],
        validations: vec![must_saying(
            "authorizer.group('').resource('resourcequotas').check('create').allowed()",
            "only an administrator of all namespaces may do this",
            "request.?subResource.orValue('') == 'status' ?\n\
             'this resource quota is a copy, and only the control plane records its usage' :\n\
             'this quota would keep out what is copied from the namespaces above: only an administrator of all namespaces may limit ' +\n\
             {}.filter(k, {changes}).join(', ')"
                .replace("{}", &list(&COPIED))
                .replace("{changes}", CHANGES),
        )],
    }
    .build();
    if let Some(constraints) = constraints(&mut policy) {
        constraints.namespace_selector = Some(managed_namespaces());
    }
    policy
}

fn forges_usage() -> String {
    let key = literal(labels::INHERITED_FROM);
    format!(
        "oldObject.metadata.?labels[?{key}].hasValue() &&\n!(request.userInfo.username in {}) &&\nobject.?status != oldObject.?status",
        list(&recorders_of_usage())
    )
}

/// Whether a limit is set or changed.
const CHANGES: &str =
    "object.?spec.?hard[?k].hasValue() && object.?spec.?hard[?k] != oldObject.?spec.?hard[?k]";

fn limits_copies() -> String {
    // A quota can have very many limits, so the loop is over the few that matter.
    format!("{}.exists(k, {CHANGES})", list(&COPIED))
}
