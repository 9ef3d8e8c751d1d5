//! The requests that the API server refuses itself, also while no webhook answers.
//!
//! The API server evaluates policies before it calls webhooks. So a policy refuses only what the webhook's rule always refuses,
//! with the same code: rules that need no tree and answer 403. A webhook that fails closed receives the rest.

mod anchors;
mod copies;
mod defaults;
mod hierarchy;
mod namespace_anchors;
mod namespace_keys;
mod namespace_size;
mod quotas;
mod quotas_disabled;
mod resource_quotas;

use hns_api::names;
use k8s_openapi::api::admissionregistration::v1::{
    MatchCondition, MatchResources, NamedRuleWithOperations, ParamRef, RuleWithOperations,
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding, ValidatingAdmissionPolicyBindingSpec,
    ValidatingAdmissionPolicySpec, Validation, Variable,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::conditions::NEW_IS_GOING;
use super::{RegistrationSettings, named};

pub(super) use self::defaults::objects as mutating;

/// All policies, in the order of [`hns_api::names::policies::ALL`]. Whether quotas are enforced decides which of the last two there is.
pub(super) fn all(settings: &RegistrationSettings) -> Vec<ValidatingAdmissionPolicy> {
    let always = [
        namespace_keys::policy(settings),
        namespace_size::policy(settings),
        copies::policy(settings),
        hierarchy::policy(settings),
        anchors::policy(settings),
        namespace_anchors::policy(settings),
        resource_quotas::policy(settings),
    ];
    let of_quotas = match settings.quotas {
        Some(_) => quotas::policy(settings),
        None => quotas_disabled::policy(settings),
    };
    always.into_iter().chain([of_quotas]).collect()
}

/// The binding of a policy. That of `hns-copies` names the kinds, and that of `hns-quotas-disabled` only warns.
pub(super) fn binding(
    policy: &ValidatingAdmissionPolicy,
    settings: &RegistrationSettings,
) -> ValidatingAdmissionPolicyBinding {
    let name = policy.metadata.name.clone().unwrap_or_default();
    let is_about_copies = name == names::policies::COPIES;
    let action = if name == names::policies::QUOTAS_DISABLED { "Warn" } else { "Deny" };
    let has_params = policy.spec.as_ref().is_some_and(|spec| spec.param_kind.is_some());
    ValidatingAdmissionPolicyBinding {
        metadata: named(&name),
        spec: Some(ValidatingAdmissionPolicyBindingSpec {
            policy_name: Some(name),
            // All anchors of the request's namespace: an empty selector and no namespace.
            param_ref: has_params.then(|| ParamRef {
                selector: Some(LabelSelector::default()),
                parameter_not_found_action: Some("Allow".to_owned()),
                ..ParamRef::default()
            }),
            validation_actions: Some(vec![action.to_owned()]),
            match_resources: is_about_copies.then(|| copies::kinds(settings)),
        }),
    }
}

/// The fields that differ between policies. All but one fail closed.
struct Policy {
    name: &'static str,
    rules: Vec<RuleWithOperations>,
    conditions: Vec<MatchCondition>,
    variables: Vec<Variable>,
    validations: Vec<Validation>,
}

impl Policy {
    fn build(self) -> ValidatingAdmissionPolicy {
        let unless_empty = |variables: Vec<Variable>| (!variables.is_empty()).then_some(variables);
        ValidatingAdmissionPolicy {
            metadata: named(self.name),
            spec: Some(ValidatingAdmissionPolicySpec {
                failure_policy: Some("Fail".to_owned()),
                match_conditions: Some(self.conditions),
                match_constraints: Some(about(self.rules)),
                validations: Some(self.validations),
                variables: unless_empty(self.variables),
                ..ValidatingAdmissionPolicySpec::default()
            }),
            status: None,
        }
    }
}

/// All objects of the rules, in every namespace.
fn about(rules: Vec<RuleWithOperations>) -> MatchResources {
    MatchResources {
        match_policy: Some("Equivalent".to_owned()),
        namespace_selector: Some(LabelSelector::default()),
        object_selector: Some(LabelSelector::default()),
        resource_rules: Some(rules.into_iter().map(of_any_name).collect()),
        exclude_resource_rules: None,
    }
}

/// What a policy is about, to be narrowed.
fn constraints(policy: &mut ValidatingAdmissionPolicy) -> Option<&mut MatchResources> {
    policy.spec.as_mut()?.match_constraints.as_mut()
}

fn of_any_name(rule: RuleWithOperations) -> NamedRuleWithOperations {
    NamedRuleWithOperations {
        api_groups: rule.api_groups,
        api_versions: rule.api_versions,
        operations: rule.operations,
        resource_names: None,
        resources: rule.resources,
        scope: rule.scope,
    }
}

fn variable(name: &str, expression: impl Into<String>) -> Variable {
    Variable { name: name.to_owned(), expression: expression.into() }
}

/// Refuses with 403 unless `expression` is true.
fn must(expression: impl Into<String>, message: &str) -> Validation {
    Validation {
        expression: expression.into(),
        message: Some(message.to_owned()),
        message_expression: None,
        reason: Some("Forbidden".to_owned()),
    }
}

/// Refuses a new object that is marked as deleted, as in an export that was made while it was being deleted. The controller would end
/// the deletion, and with an anchor its namespace would go.
fn must_not_be_deleted_already() -> Validation {
    must(
        format!("!{NEW_IS_GOING}"),
        "the new object is marked as deleted, and would be deleted at once, an anchor or SubNamespace together with its namespace; remove \
         deletionTimestamp and deletionGracePeriodSeconds from metadata",
    )
}

/// The same as [`must`], with an expression for the message. The API server uses `message` if the expression fails.
fn must_saying(expression: impl Into<String>, message: &str, saying: impl Into<String>) -> Validation {
    Validation { message_expression: Some(saying.into()), ..must(expression, message) }
}
