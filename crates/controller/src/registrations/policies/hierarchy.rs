//! `hns-hierarchy`: accounts whose deletions the webhook does not receive may delete only in a namespace that is being deleted.
//!
//! The namespace controller does this. If all controllers share one identity, the garbage collector has it too, and deletes every
//! object whose owner is deleted: a user who may write a `HierarchyConfiguration` could have it deleted and so leave the tree.
//!
//! The webhook judges all other deletions, and fails closed: an admin of the root may remove a parent; who that is depends on the
//! tree, and the refusal is a 401.

use hns_api::names;
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;

use super::super::cel::list;
use super::super::conditions::condition;
use super::super::entries::rule;
use super::{Policy, must_saying};

pub(super) fn policy() -> ValidatingAdmissionPolicy {
    let users = [names::users::NAMESPACE_CONTROLLER, names::users::CONTROLLER_MANAGER];
    Policy {
        name: names::policies::HIERARCHY,
        rules: vec![rule(hns_api::GROUP, &["hierarchyconfigurations"], &["DELETE"])],
        conditions: vec![
            condition("not-judged-by-the-webhook", format!("request.userInfo.username in {}", list(&users))),
            condition("drops-a-parent", "oldObject.?spec.?parent.orValue('') != ''".to_owned()),
        ],
        variables: vec![],
        validations: vec![must_saying(
            "has(namespaceObject.metadata.deletionTimestamp)",
            "it has a parent, and a controller of the cluster cannot take a namespace out of its tree",
            "'its parent is \"' + oldObject.spec.parent +\n\
             '\", and a controller of the cluster cannot take a namespace out of its tree'",
        )],
    }
    .build()
}
