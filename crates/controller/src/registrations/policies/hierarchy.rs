//! `hns-hierarchy`: accounts whose deletions the webhook does not receive may delete only in a namespace that is being deleted; and a
//! `HierarchyConfiguration` stays small, and a new one is not marked as deleted.
//!
//! The namespace controller deletes without a review. If all controllers share one identity, the garbage collector has it too, and
//! deletes every object whose owner is deleted: a user who may write a `HierarchyConfiguration` could have it deleted, and so leave
//! the tree or change labels and cascading deletion. The webhook judges all other deletions, and fails closed: only admins may
//! remove a parent or other values; which admins, depends on the tree, and the refusal is a 401.
//!
//! The webhook does not receive writes that leave the spec as it is. A user could make the object so large that the controller cannot
//! correct the labels that it sets for its namespace.

use hns_api::names;
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;

use super::super::RegistrationSettings;
use super::super::cel::any_of;
use super::super::conditions::{
    MOST_LABELS, NEW_IS_GOING, condition, is_the_namespace_controller, metadata_grows, not_the_controller,
    old_has_a_spec,
};
use super::super::entries::rule;
use super::{Policy, must, must_not_be_deleted_already, must_saying};

pub(super) fn policy(settings: &RegistrationSettings) -> ValidatingAdmissionPolicy {
    let drops_a_spec = format!("{} && ({})", is_the_namespace_controller(), old_has_a_spec());
    let writes = any_of(&[metadata_grows(MOST_LABELS), NEW_IS_GOING.to_owned()]);
    let guarded = format!("request.operation == 'DELETE' ?\n({drops_a_spec}) :\n({writes})");
    Policy {
        name: names::policies::HIERARCHY,
        rules: vec![rule(hns_api::GROUP, &["hierarchyconfigurations"], &["CREATE", "UPDATE", "DELETE"])],
        conditions: vec![not_the_controller(settings), condition("changes-what-is-guarded", guarded)],
        variables: vec![],
        validations: vec![
            must_not_be_deleted_already(),
            must_saying(
                "request.operation != 'DELETE' || has(namespaceObject.metadata.deletionTimestamp)",
                "its spec is not empty, and a controller of the cluster cannot change the hierarchy",
                "(oldObject.?spec.?parent.orValue('') != '' ?\n\
                 'its parent is \"' + oldObject.?spec.?parent.orValue('') + '\"' : 'it has labels, annotations or allowCascadingDeletion') +\n\
                 ', and a controller of the cluster cannot change the hierarchy'",
            ),
            must(
                format!("request.operation == 'DELETE' || !({})", metadata_grows(MOST_LABELS)),
                "a HierarchyConfiguration may have at most 100 labels, 20 finalizers, and 20 owner references with texts of at most 253 \
                 characters",
            ),
        ],
    }
    .build()
}
