//! The webhooks for objects of propagated kinds. Both have one path.
//!
//! A request in a namespace without children is judged by nothing but the policy for copies: a source there is above no other object,
//! and its annotations have no effect. The label of namespaces with children arrives some milliseconds after the first child; the
//! controller keeps and reports what is in the way of a source that is created before.

use std::collections::{BTreeMap, BTreeSet};

use hns_api::{labels, names};
use k8s_openapi::api::admissionregistration::v1::RuleWithOperations;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

use super::super::RegistrationSettings;
use super::super::cel::any_of;
use super::super::conditions::{
    becomes_a_source, condition, copy_differs, not_the_controller, not_the_controller_in_earnest,
    not_the_namespace_controller, our_annotations_differ, will_be_a_copy,
};
use super::{Entry, OBJECT_TIMEOUT};

/// The operations of the policy or the webhook for copies. Only copies cannot be deleted.
pub(in super::super) const OF_COPIES: [&str; 3] = ["CREATE", "UPDATE", "DELETE"];

/// Sources; and copies, if no policy judges them.
pub(super) fn entries(settings: &RegistrationSettings) -> impl Iterator<Item = Entry> {
    let copies = (!settings.policies).then(|| copies(settings));
    [sources(settings)].into_iter().chain(copies)
}

/// New sources and changed annotations of sources, in namespaces with children. Programs that read HNC's registration find the
/// propagated kinds by the name of this webhook.
///
/// The selector skips copies that stay copies, and the condition all others. A selector costs the API server almost nothing;
/// conditions convert the object at every write.
fn sources(settings: &RegistrationSettings) -> Entry {
    Entry {
        name: names::webhooks::OBJECTS,
        path: names::paths::OBJECTS,
        fails_closed: true,
        timeout: OBJECT_TIMEOUT,
        namespaces: parents(),
        objects: of_copies("DoesNotExist"),
        rules: rules(settings, &["CREATE", "UPDATE"]),
        conditions: vec![
            not_the_controller(settings),
            condition("not-a-copy", format!("!{}", will_be_a_copy())),
            condition("can-be-refused", any_of(&[our_annotations_differ(), becomes_a_source(settings)])),
        ],
    }
}

/// Copies, in all managed namespaces.
fn copies(settings: &RegistrationSettings) -> Entry {
    let can_be_refused = format!("request.operation != 'UPDATE' ||\n{}", copy_differs(settings));
    Entry {
        name: names::webhooks::COPIES,
        namespaces: managed_namespaces(),
        objects: of_copies("Exists"),
        rules: rules(settings, &OF_COPIES),
        conditions: vec![
            not_the_controller_in_earnest(settings),
            not_the_namespace_controller(),
            condition("can-be-refused", can_be_refused),
        ],
        ..sources(settings)
    }
}

/// Matches if the label of copies `Exists` or `DoesNotExist` on the old or the new object.
pub(in super::super) fn of_copies(operator: &str) -> LabelSelector {
    LabelSelector {
        match_expressions: Some(vec![requirement(labels::INHERITED_FROM, operator, None)]),
        match_labels: None,
    }
}

/// One rule for each API group, and one for the statuses of its kinds: a PUT of the status can write labels and annotations of
/// some kinds. The order of kinds makes no difference.
pub(in super::super) fn rules(
    settings: &RegistrationSettings,
    operations: &[&str],
) -> Vec<RuleWithOperations> {
    let mut groups: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (group, plural) in &settings.propagated {
        groups.entry(group).or_default().insert(plural);
    }
    let rule = |group: &str, resources: Vec<String>, operations: &[&str]| {
        let resources: Vec<&str> = resources.iter().map(String::as_str).collect();
        RuleWithOperations {
            scope: Some("Namespaced".to_owned()),
            ..super::rule(group, &resources, operations)
        }
    };
    let of_objects = groups.iter().map(|(group, plurals)| {
        rule(group, plurals.iter().map(|&plural| plural.to_owned()).collect(), operations)
    });
    let of_status = groups.iter().map(|(group, plurals)| {
        rule(group, plurals.iter().map(|plural| format!("{plural}/status")).collect(), &["UPDATE"])
    });
    of_objects.chain(of_status).collect()
}

/// Managed namespaces. A selector is safe for objects in namespaces: it uses the present labels of the namespace, which the
/// request does not change.
pub(in super::super) fn managed_namespaces() -> LabelSelector {
    let is_true = || Some(vec![labels::TRUE.to_owned()]);
    let requirements = vec![
        requirement(labels::INCLUDED_NAMESPACE, "In", is_true()),
        requirement(labels::EXCLUDED_NAMESPACE, "NotIn", is_true()),
    ];
    LabelSelector { match_expressions: Some(requirements), match_labels: None }
}

/// Managed namespaces with the label of namespaces with children.
fn parents() -> LabelSelector {
    let mut selector = managed_namespaces();
    let has_children = requirement(labels::HAS_CHILDREN, "Exists", None);
    selector.match_expressions.get_or_insert_default().push(has_children);
    selector
}

pub(super) fn requirement(
    key: &str,
    operator: &str,
    values: Option<Vec<String>>,
) -> LabelSelectorRequirement {
    LabelSelectorRequirement { key: key.to_owned(), operator: operator.to_owned(), values }
}
