//! The webhooks for `SubNamespaces`. The webhook for namespaces serves both APIs.

use hns_api::accurate::{GROUP, names};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::super::RegistrationSettings;
use super::super::cel::any_of;
use super::super::conditions::{
    OLD_IS_GOING, condition, has_finalizer, not_the_controller, spec_or_owners_differ,
};
use super::{Entry, FAIL_TIMEOUT, IGNORE_TIMEOUT, rule};

const SUB_NAMESPACES: &str = "subnamespaces";

/// A write that changes neither the spec nor the owner references, and does not remove the controller's finalizer, cannot be refused. The
/// finalizer must also stay during the deletion, because the namespace may still exist. Every deletion is judged: a user who may set an owner
/// reference could make the garbage collector delete a namespace with children.
pub(super) fn sub_namespaces(settings: &RegistrationSettings) -> Entry {
    let [was_held, is_held] = ["oldObject", "object"].map(|object| has_finalizer(object, names::FINALIZER));
    let can_be_refused = any_of(&[
        "request.operation == 'CREATE'".to_owned(),
        spec_or_owners_differ(),
        format!("(request.operation == 'UPDATE' && {was_held} && !({is_held}))"),
        format!("(request.operation == 'DELETE' && !{OLD_IS_GOING})"),
    ]);
    Entry {
        name: names::webhooks::SUB_NAMESPACE,
        path: names::paths::SUB_NAMESPACE,
        fails_closed: true,
        timeout: FAIL_TIMEOUT,
        namespaces: LabelSelector::default(),
        objects: LabelSelector::default(),
        rules: vec![rule(GROUP, &[SUB_NAMESPACES], &["CREATE", "UPDATE", "DELETE"])],
        conditions: vec![not_the_controller(settings), condition("can-be-refused", can_be_refused)],
    }
}

/// Adds the finalizer. It fails open: the controller adds the finalizer too, and while no webhook answers, the webhook above
/// refuses the creation.
pub(super) fn finalizer(settings: &RegistrationSettings) -> Entry {
    Entry {
        name: names::webhooks::SUB_NAMESPACE_FINALIZER,
        path: names::paths::SUB_NAMESPACE_FINALIZER,
        fails_closed: false,
        timeout: IGNORE_TIMEOUT,
        rules: vec![rule(GROUP, &[SUB_NAMESPACES], &["CREATE"])],
        conditions: vec![
            not_the_controller(settings),
            condition("can-be-changed", format!("!({})", has_finalizer("object", names::FINALIZER))),
        ],
        ..sub_namespaces(settings)
    }
}
