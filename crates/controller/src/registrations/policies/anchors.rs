//! `hns-anchors`: the creator of an anchor and its state `Conflict` do not change, nor does the status of a `SubNamespace`, and both stay
//! small. An anchor that is being deleted keeps the controller's finalizer, and a new one is not marked as deleted.
//!
//! The webhook for anchors fails closed for every creation and deletion, and for every change of the spec or the owner
//! references. It does not receive other writes, so that finalizers can be removed by hand. Such a write must not change two
//! things: the annotation with the first administrator, and the state `Conflict`, which keeps the controller from creating the
//! namespace when the name becomes free. An anchor also must not become so large that the controller cannot store that state.
//!
//! Only an admin of the anchor's namespace may remove the controller's finalizer by hand: an editor could delete the anchor alone
//! while no controller acts, and no quota on anchors would count its subnamespace. Before the deletion the webhook judges that;
//! afterwards this policy, so that an admin can do so while no webhook answers.
//!
//! A server-side apply can create an object that is marked as deleted. No deletion is judged then, and no right to delete is needed.

use forest::keys;
use hns_api::{accurate, annotations, names};
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;

use super::super::RegistrationSettings;
use super::super::cel::any_of;
use super::super::conditions::{
    IS_STATUS, MOST_LABELS, NEW_IS_GOING, OLD_IS_GOING, STATUS_DIFFERS, condition, conflict_is_removed,
    has_finalizer, metadata_grows, new_annotation, not_the_controller, old_annotation, restoring,
};
use super::super::entries::rule;
use super::{Policy, must, must_not_be_deleted_already};

/// Whether the anchor becomes too large. What is too large already can be made smaller.
fn grows() -> String {
    any_of(&[metadata_grows(MOST_LABELS), "object.?status.?status.orValue('').size() > 100".to_owned()])
}

/// Whether an anchor that is being deleted loses the controller's finalizer.
fn is_released() -> String {
    let [was_held, is_held] =
        ["oldObject", "object"].map(|object| has_finalizer(object, keys::ANCHOR_FINALIZER));
    format!("(request.operation == 'UPDATE' && {OLD_IS_GOING} && {was_held} && !({is_held}))")
}

/// Whether the status of a `SubNamespace` changes. Anchors have no such subresource.
fn writes_status() -> String {
    format!("({IS_STATUS} && {STATUS_DIFFERS})")
}

pub(super) fn policy(settings: &RegistrationSettings) -> ValidatingAdmissionPolicy {
    let (new, old) = (new_annotation(annotations::INITIAL_ADMIN), old_annotation(annotations::INITIAL_ADMIN));
    let creator = any_of(&[
        format!("{new} == {old}"),
        restoring(settings),
        format!("(request.operation == 'CREATE' && {new}.orValue('') == request.userInfo.username)"),
    ]);
    let group = hns_api::GROUP;
    let by_an_admin = format!(
        "authorizer.group('{group}').resource('hierarchyconfigurations').namespace(object.metadata.?namespace.orValue(''))\
         .check('update').allowed()"
    );
    let mut guarded = vec![
        format!("{new} != {old}"),
        conflict_is_removed(),
        is_released(),
        grows(),
        NEW_IS_GOING.to_owned(),
    ];
    let mut rules = vec![rule(group, &["subnamespaceanchors"], &["CREATE", "UPDATE"])];
    let mut validations = vec![
        must_not_be_deleted_already(),
        must(
            creator,
            "the annotation hnc.x-k8s.io/initial-admin names the creator, is recorded when the anchor is created, and \
             cannot be changed; leave it out of the request",
        ),
        must(
            format!("!{}", conflict_is_removed()),
            "the anchor is in conflict, and only the controller may change that; when its name is free, delete the anchor and create \
             it again; `kubectl hns doctor` names other ways",
        ),
        must(
            format!("!{} ||\n{by_an_admin}", is_released()),
            "the anchor is being deleted, and only the controller and admins of its namespace (update on \
             hierarchyconfigurations.hnc.x-k8s.io) may remove the finalizer hnc.x-k8s.io, because the subnamespace could stay; wait until \
             the controller removes it",
        ),
        must(
            format!("!({})", grows()),
            "an anchor or SubNamespace may have at most 100 labels, 20 finalizers, 20 owner references with texts of at most 253 characters, and a \
             status of at most 100 characters",
        ),
    ];
    if settings.accurate {
        rules.push(rule(accurate::GROUP, &["subnamespaces"], &["CREATE", "UPDATE"]));
        rules.push(rule(accurate::GROUP, &["subnamespaces/status"], &["UPDATE"]));
        guarded.push(writes_status());
        let group = accurate::GROUP;
        validations.push(must(
            format!(
                "!{} || authorizer.group('{group}').resource('subnamespaces').subresource('status').check('update').allowed()",
                writes_status()
            ),
            "only the controller, and those who may update the status of SubNamespaces in all namespaces, may change it",
        ));
    }
    Policy {
        name: names::policies::ANCHORS,
        rules,
        conditions: vec![
            not_the_controller(settings),
            condition("changes-what-is-guarded", any_of(&guarded)),
        ],
        variables: vec![],
        validations,
    }
    .build()
}
