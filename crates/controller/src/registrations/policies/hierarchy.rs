//! `hns-hierarchy`: those whose deletions the webhook is not asked about delete only where the whole namespace is going.
//!
//! That is what the namespace controller does. Where all controllers share one identity, the garbage collector bears it as
//! well, and deletes whatever has an owner that is gone: without this, anyone who may write a hierarchy configuration could
//! have it deleted and leave the tree.
//!
//! Left to the webhook: every deletion by anybody else. An admin of the root may drop a parent, who that is needs the tree,
//! and the refusal is a 401; the entry fails closed.

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
