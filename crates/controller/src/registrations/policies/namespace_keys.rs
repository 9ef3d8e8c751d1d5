//! `hns-namespace-keys`: our labels and annotations on namespaces.
//!
//! The webhook for namespaces fails closed for every change of our keys. It judges:
//! - more than 1000 labels or annotations, for which a loop would be too expensive;
//! - a new parent by `subnamespace-of`: within a tree, the admin of the nearest common ancestor decides, so no right on the named
//!   parent is required; the policy refuses only what no managed namespace may do;
//! - the removal of `subnamespace-of`, which is refused with 401;
//! - a manager for a namespace with a parent, because tree labels may be outdated;
//! - the removal of `managed-by`, which the admin of the namespace may do;
//! - tree labels that name an existing namespace: 409.

use hns_api::{annotations, labels, names};
use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, Validation, Variable};

use super::super::RegistrationSettings;
use super::super::cel::{all_of, any_of, literal};
use super::super::conditions::{
    NEW_NAME, condition, is_own_depth, kept_by_the_user, listed, managed, many_keys, not_the_controller,
    our_keys_differ, restoring,
};
use super::super::entries::rule;
use super::{Policy, must, must_saying, variable};

pub(super) fn policy(settings: &RegistrationSettings) -> ValidatingAdmissionPolicy {
    let touches = format!("!({}) &&\n({})", many_keys(), our_keys_differ(settings));
    Policy {
        name: names::policies::NAMESPACE_KEYS,
        rules: vec![
            rule("", &["namespaces"], &["CREATE", "UPDATE"]),
            rule("", &["namespaces/status", "namespaces/finalize"], &["UPDATE"]),
        ],
        conditions: vec![not_the_controller(settings), condition("touches-our-keys", touches)],
        variables: variables(settings),
        validations: vec![
            tree_labels(),
            has_children(),
            included(),
            excluded(),
            managed_by(),
            subnamespace_of(settings),
            initial_admin(),
        ],
    }
    .build()
}

fn variables(settings: &RegistrationSettings) -> Vec<Variable> {
    let manager = |of: &str| {
        let value = format!("variables.{of}[?{}].orValue('')", literal(annotations::MANAGED_BY));
        format!("{value} == {} ? '' : {value}", literal(annotations::MANAGED_BY_HNC))
    };
    let parent = |of: &str| format!("variables.{of}[?{}].orValue('')", literal(annotations::SUBNAMESPACE_OF));
    vec![
        variable("name", NEW_NAME),
        variable("labels", "object.metadata.?labels.orValue({})"),
        variable("oldLabels", "oldObject.?metadata.?labels.orValue({})"),
        variable("annotations", "object.metadata.?annotations.orValue({})"),
        variable("oldAnnotations", "oldObject.?metadata.?annotations.orValue({})"),
        variable("listed", listed(settings, "variables.name")),
        variable("managed", managed(settings, "variables.name")),
        variable("restoring", restoring(settings)),
        variable("manager", manager("annotations")),
        variable("oldManager", manager("oldAnnotations")),
        variable("kept", kept_by_the_user(settings, "variables.manager")),
        variable("oldKept", kept_by_the_user(settings, "variables.oldManager")),
        variable("parent", parent("annotations")),
        variable("oldParent", parent("oldAnnotations")),
    ]
}

/// What to do if the user set none of the labels: `hns-defaults` set them. The API server loads each policy by itself, so for a moment
/// the two can follow different settings.
const SET_BY_DEFAULT: &str = "if you did not set it, the settings of hns have just changed: try again";

/// `NetworkPolicies` and selectors rely on them. A new namespace may have its own.
fn tree_labels() -> Validation {
    let tree = literal(labels::TREE_DEPTH_SUFFIX);
    let (new, old) = ("variables.labels", "variables.oldLabels");
    let own = format!("variables.managed && {}", is_own_depth("k"));
    let expression = format!(
        "variables.restoring || variables.kept || (\n\
         {new}.all(k, !k.contains({tree}) || {new}[?k] == {old}[?k] ||\n({own})) &&\n\
         {old}.all(k, !k.contains({tree}) || k in {new}))"
    );
    let saying = format!(
        "'tree labels follow the hierarchy and cannot be set, changed or removed by hand: ' +\n\
         ({new}.filter(k, k.contains({tree}) && {new}[?k] != {old}[?k] && !({own})) +\n\
         {old}.filter(k, k.contains({tree}) && !(k in {new}))).join(', ') +\n\
         (!variables.managed && {new}.exists(k, {}) ? '; {SET_BY_DEFAULT}' : '')",
        is_own_depth("k"),
    );
    must_saying(
        expression,
        "tree labels follow the hierarchy and cannot be set, changed or removed by hand",
        saying,
    )
}

/// Without the label, the deletion of a namespace would not be judged.
fn has_children() -> Validation {
    let key = literal(labels::HAS_CHILDREN);
    must(
        format!("variables.restoring || {}", same("labels", "oldLabels", &key)),
        "the label hnc.x-k8s.io/has-children follows the hierarchy and cannot be set, changed or removed by hand",
    )
}

/// A managed namespace may be created without the label; the controller adds it.
fn included() -> Validation {
    let key = literal(labels::INCLUDED_NAMESPACE);
    let expression = any_of(&[
        "variables.restoring".to_owned(),
        same("labels", "oldLabels", &key),
        format!(
            "(variables.managed ? variables.labels[?{key}].orValue('') == 'true' : !variables.labels[?{key}].hasValue())"
        ),
    ]);
    must_saying(
        expression,
        "the label hnc.x-k8s.io/included-namespace is \"true\" on managed namespaces and absent from all others",
        format!(
            "variables.managed ?\n\
             'the label hnc.x-k8s.io/included-namespace must stay \"true\", because the namespace is managed' :\n\
             'the namespace is not managed, so it cannot have the label hnc.x-k8s.io/included-namespace; {SET_BY_DEFAULT}'"
        ),
    )
}

fn excluded() -> Validation {
    let key = literal(labels::EXCLUDED_NAMESPACE);
    let expression = any_of(&[
        "variables.restoring".to_owned(),
        same("labels", "oldLabels", &key),
        format!("!variables.labels[?{key}].hasValue()"),
        format!("(variables.listed && variables.labels[?{key}].orValue('') == 'true')"),
    ]);
    must(
        expression,
        "only a namespace that the administrator has excluded by name can have the label \
         hnc.x-k8s.io/excluded-namespace, with the value \"true\"",
    )
}

/// The manager of a namespace may write its tree labels.
fn managed_by() -> Validation {
    let expression = any_of(&[
        "variables.restoring",
        "variables.manager == variables.oldManager",
        "variables.manager == ''",
        "(variables.kept && (variables.oldManager == '' || variables.oldKept))",
    ]);
    must_saying(
        expression,
        "only who is named by externalManagers in the settings of hns for a manager may set it in hnc.x-k8s.io/managed-by",
        "'externalManagers in the settings of hns names who may give a namespace to the manager \"' + variables.manager + '\" ' +\n\
         '(annotation hnc.x-k8s.io/managed-by); you are not among them'",
    )
}

/// The two cases of the rule for parents that need no tree.
fn subnamespace_of(settings: &RegistrationSettings) -> Validation {
    let both_managed =
        all_of(&["variables.managed".to_owned(), format!("({})", managed(settings, "variables.parent"))]);
    let expression = any_of(&[
        "variables.restoring".to_owned(),
        "variables.parent == ''".to_owned(),
        "variables.parent == variables.oldParent".to_owned(),
        format!("({both_managed})"),
    ]);
    must_saying(
        expression,
        "a namespace that is not managed can neither be a subnamespace nor have one",
        "variables.managed ?\n\
         'namespace \"' + variables.parent + '\" is not managed, so it can have no subnamespaces' :\n\
         'the namespace is not managed, so it cannot be a subnamespace'",
    )
}

/// The named user becomes an administrator.
fn initial_admin() -> Validation {
    let key = literal(annotations::INITIAL_ADMIN);
    let expression = any_of(&[
        "variables.restoring".to_owned(),
        same("annotations", "oldAnnotations", &key),
        format!(
            "(request.operation == 'CREATE' && variables.annotations[?{key}].orValue('') == request.userInfo.username)"
        ),
    ]);
    must(
        expression,
        "the annotation hnc.x-k8s.io/initial-admin names the creator, is recorded when the namespace is created, and \
         cannot be changed; leave it out of the request",
    )
}

fn same(new: &str, old: &str, key: &str) -> String {
    format!("variables.{new}[?{key}] == variables.{old}[?{key}]")
}
