//! `hns-resource-quotas`: a user with rights in one namespace alone can neither widen a copied resource quota nor keep copies out.
//!
//! The API server enforces what the status of a resource quota records. Only the control plane records it, so nobody else may change the
//! status of a copy. And a resource quota that limits the number of restrictions, or of the bindings of those who are responsible for
//! the namespace, would keep out what is copied from above. `hns-quotas` protects derived quotas.
//!
//! With Accurate's API, it also protects copies that restrict and follow their source: resource quotas, limit ranges and network policies.
//! The controller restores such a copy. Without this policy, a user who changes it all the time is without the restriction for a part of
//! the time.
//! `hns-copies` protects HNC's copies.

use forest::hnc::quota::COPIED;
use hns_api::accurate::annotations::{FROM, MODE_UPDATE, PROPAGATE};
use hns_api::{labels, names};
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;

use super::super::RegistrationSettings;
use super::super::cel::{all_of, any_of, list, literal};
use super::super::conditions::{
    IS_STATUS, STATUS_DIFFERS, condition, is_the_namespace_controller, new_annotation, not_the_controller,
    nothing_added, old_annotation, recorders_of_usage,
};
use super::super::entries::{managed_namespaces, rule};
use super::{Policy, constraints, must_saying};

pub(super) fn policy(settings: &RegistrationSettings) -> ValidatingAdmissionPolicy {
    let mut rules = vec![
        rule("", &["resourcequotas"], &["CREATE", "UPDATE"]),
        rule("", &["resourcequotas/status"], &["UPDATE"]),
    ];
    let key = literal(labels::INHERITED_FROM);
    let mut copies = vec![format!("oldObject.metadata.?labels[?{key}].hasValue()")];
    // A quota can have very many limits, so the loop is over the few that matter.
    let limits = format!("{}.exists(k, {CHANGES})", list(&COPIED));
    let mut other = String::new();
    if settings.accurate {
        let verbs = ["UPDATE", "DELETE"];
        rules.push(rule("", &["resourcequotas", "limitranges"], &verbs));
        rules.push(rule("networking.k8s.io", &["networkpolicies"], &verbs));
        copies.push(was_followed());
        other = format!(
            "{} ?\n\
             'the annotations {FROM} and {PROPAGATE}={MODE_UPDATE} mark a copy, which only hns makes: leave one of them out' :\n\
             !({limits}) ?\n\
             'this object is a copy from namespace \"' + {}.orValue('') + '\", which restricts this one; change or delete its source instead' :\n",
            becomes_followed(),
            old_annotation(FROM)
        );
    }
    let mut guarded = vec![format!("({IS_STATUS} ?\n({}) :\n{limits})", forges_usage(&copies))];
    // Labels and annotations can be written through the status, too.
    if settings.accurate {
        guarded.extend([changes_followed(), becomes_followed()]);
    }
    let mut allowed =
        vec!["authorizer.group('').resource('resourcequotas').check('create').allowed()".to_owned()];
    allowed.extend(settings.accurate.then(|| format!("({})", goes_with_its_namespace())));
    let mut policy = Policy {
        name: names::policies::RESOURCE_QUOTAS,
        rules,
        conditions: vec![not_the_controller(settings), condition("changes-what-is-guarded", any_of(&guarded))],
        variables: vec![],
        validations: vec![must_saying(
            any_of(&allowed),
            "only an administrator of all namespaces may do this",
            format!(
                "{IS_STATUS} && {STATUS_DIFFERS} ?\n\
                 'this resource quota is a copy, and only the control plane records its usage' :\n\
                 {other}'this quota would keep out what is copied from the namespaces above: only an administrator of all namespaces may limit ' +\n\
                 {}.filter(k, {CHANGES}).join(', ')",
                list(&COPIED)
            ),
        )],
    }
    .build();
    if let Some(constraints) = constraints(&mut policy) {
        constraints.namespace_selector = Some(managed_namespaces());
    }
    policy
}

fn forges_usage(copies: &[String]) -> String {
    format!(
        "({}) &&\n!(request.userInfo.username in {}) &&\n{STATUS_DIFFERS}",
        any_of(copies),
        list(&recorders_of_usage())
    )
}

/// Whether a limit is set or changed.
const CHANGES: &str =
    "object.?spec.?hard[?k].hasValue() && object.?spec.?hard[?k] != oldObject.?spec.?hard[?k]";

/// Whether the old object is a copy of Accurate's that follows its source.
fn was_followed() -> String {
    follows(old_annotation)
}

fn follows(annotation: fn(&str) -> String) -> String {
    let mode = format!("{}.orValue('') == {}", annotation(PROPAGATE), literal(MODE_UPDATE));
    format!("({})", all_of(&[format!("{}.orValue('') != ''", annotation(FROM)), mode]))
}

/// Whether a resource quota becomes such a copy. Its user can have recorded less usage before.
fn becomes_followed() -> String {
    format!(
        "(request.operation == 'UPDATE' && request.resource.resource == 'resourcequotas' && {} && !{})",
        follows(new_annotation),
        was_followed()
    )
}

/// Whether such a copy changes, becomes something else, or may be deleted before its namespace is. An owner that is missing would make the
/// garbage collector delete it, and all controllers of Kubernetes can share one identity.
fn changes_followed() -> String {
    let [from, mode] =
        [FROM, PROPAGATE].map(|key| format!("{} == {}", new_annotation(key), old_annotation(key)));
    let same =
        all_of(&[&*from, &*mode, "object.?spec == oldObject.?spec", &*format!("({})", nothing_added())]);
    format!("({} &&\n(request.operation == 'DELETE' || !({same})))", was_followed())
}

/// Whether the namespace controller deletes an object in a namespace that is being deleted. Match conditions do not know the namespace.
fn goes_with_its_namespace() -> String {
    format!(
        "request.operation == 'DELETE' && {} && has(namespaceObject.metadata.deletionTimestamp)",
        is_the_namespace_controller()
    )
}
