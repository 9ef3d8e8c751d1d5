//! `hns-quotas-disabled`: warns users who create a hierarchical quota while these are not enforced. It refuses nothing: a restore, or
//! manifests for several clusters, may bring quotas before they are enabled.

use hns_api::names;
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;

use super::super::RegistrationSettings;
use super::super::conditions::not_the_controller;
use super::super::entries::{HIERARCHICAL_QUOTAS, rule};
use super::{Policy, must};

pub(super) fn policy(settings: &RegistrationSettings) -> ValidatingAdmissionPolicy {
    Policy {
        name: names::policies::QUOTAS_DISABLED,
        rules: vec![rule(hns_api::GROUP, &[HIERARCHICAL_QUOTAS], &["CREATE"])],
        conditions: vec![not_the_controller(settings)],
        variables: Vec::new(),
        validations: vec![must(
            "false",
            "hierarchical quotas are disabled in this installation, so this quota is not enforced",
        )],
    }
    .build()
}
