//! `hns-resource-quotas`: a user with rights in one namespace alone can neither widen a copied resource quota nor keep copies out.
//!
//! The API server enforces what the status of a resource quota records. Only the control plane records it, so nobody else may change the
//! status of a copy. And a resource quota that limits the number of restrictions, or of the bindings of those who are responsible for
//! the namespace, would keep out what is copied from above, whether its spec or its status says so. `hns-quotas` protects derived quotas.
//!
//! With Accurate's API, it also protects copies that restrict and follow their source: resource quotas, limit ranges and network policies,
//! if they are watched. The controller restores such a copy. Without this policy, a user who changes it all the time is without the
//! restriction for a part of the time.
//! `hns-copies` protects HNC's copies, and so all objects with their label, of which there is no copy of Accurate's API.

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
    let mut copies = vec![old_is_hncs()];
    let (limits, recorded) = (limits_copies("spec"), limits_copies("status"));
    let mut other = String::new();
    let is_of_accurate = !settings.followed.is_empty();
    if is_of_accurate {
        let followed = settings.followed.iter();
        rules.extend(followed.map(|(group, plural)| rule(group, &[plural], &["CREATE", "UPDATE", "DELETE"])));
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
    let is_copy = any_of(&copies);
    let mut guarded =
        vec![format!("({IS_STATUS} ?\n({}) :\n{limits})", forges_status(&[is_copy.clone(), recorded]))];
    // Labels and annotations can be written through the status, too.
    if is_of_accurate {
        guarded.extend([changes_followed(), becomes_followed()]);
    }
    let mut allowed =
        vec!["authorizer.group('').resource('resourcequotas').check('create').allowed()".to_owned()];
    allowed.extend(is_of_accurate.then(|| format!("({})", goes_with_its_namespace())));
    let would_keep_out = |part| {
        format!(
            "'this quota would keep out what is copied from the namespaces above: only an administrator of all namespaces may limit ' + \
             {}.filter(k, {}).join(', ')",
            list(&COPIED),
            changes(part)
        )
    };
    let mut policy = Policy {
        name: names::policies::RESOURCE_QUOTAS,
        rules,
        conditions: vec![
            not_the_controller(settings),
            condition("changes-what-is-guarded", any_of(&guarded)),
        ],
        variables: vec![],
        validations: vec![must_saying(
            any_of(&allowed),
            "only an administrator of all namespaces may do this",
            format!(
                "{IS_STATUS} && {STATUS_DIFFERS} ?\n\
                 (({is_copy}) ?\n\
                 'this resource quota is a copy, and only the control plane records its usage' :\n\
                 {}) :\n\
                 {other}{}",
                would_keep_out("status"),
                would_keep_out("spec"),
            ),
        )],
    }
    .build();
    if let Some(constraints) = constraints(&mut policy) {
        constraints.namespace_selector = Some(managed_namespaces());
    }
    policy
}

/// Whether the old object has the label of HNC's copies.
fn old_is_hncs() -> String {
    format!("oldObject.metadata.?labels[?{}].hasValue()", literal(labels::INHERITED_FROM))
}

/// Whether somebody other than the control plane changes the status of one of these.
fn forges_status(of: &[String]) -> String {
    let recorders = list(&recorders_of_usage());
    format!("{STATUS_DIFFERS} &&\n!(request.userInfo.username in {recorders}) &&\n({})", any_of(of))
}

/// Whether the spec or the status limits, or limits otherwise, what is copied from above. A quota can have very many limits, so the loop is
/// over the few that matter.
fn limits_copies(part: &str) -> String {
    format!("{}.exists(k, {})", list(&COPIED), changes(part))
}

/// Whether the limit `k` is set or changed.
fn changes(part: &str) -> String {
    format!("object.?{part}.?hard[?k].hasValue() && object.?{part}.?hard[?k] != oldObject.?{part}.?hard[?k]")
}

/// Whether the old object is a copy of Accurate's that follows its source. One with the label of HNC's copies is none.
fn was_followed() -> String {
    format!("({} && !{})", follows(old_annotation), old_is_hncs())
}

fn follows(annotation: fn(&str) -> String) -> String {
    let mode = format!("{}.orValue('') == {}", annotation(PROPAGATE), literal(MODE_UPDATE));
    format!("({})", all_of(&[format!("{}.orValue('') != ''", annotation(FROM)), mode]))
}

/// Whether an object becomes such a copy. Its user can have recorded less usage of a resource quota before. And in a namespace that is
/// frozen, nothing removes a copy that has no source.
fn becomes_followed() -> String {
    format!("(request.operation != 'DELETE' && {} && !{})", follows(new_annotation), was_followed())
}

/// Whether such a copy changes, becomes something else, or may be deleted before its namespace is. An owner that is missing would make the
/// garbage collector delete it, and all controllers of Kubernetes can share one identity.
fn changes_followed() -> String {
    let [from, mode] =
        [FROM, PROPAGATE].map(|key| format!("{} == {}", new_annotation(key), old_annotation(key)));
    let label = format!("!object.metadata.?labels[?{}].hasValue()", literal(labels::INHERITED_FROM));
    let added = format!("({})", nothing_added());
    let same = all_of(&[&*from, &*mode, &*label, "object.?spec == oldObject.?spec", &*added]);
    format!("({} &&\n(request.operation == 'DELETE' || !({same})))", was_followed())
}

/// Whether the namespace controller deletes an object in a namespace that is being deleted. Match conditions do not know the namespace.
fn goes_with_its_namespace() -> String {
    format!(
        "request.operation == 'DELETE' && {} && has(namespaceObject.metadata.deletionTimestamp)",
        is_the_namespace_controller()
    )
}
