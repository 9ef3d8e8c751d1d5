//! The webhooks for objects of propagated kinds. All have one path.
//!
//! Which requests a rule could refuse depends on the namespace: a new source can be above another object of its name only in a
//! namespace with children. A selector finds these by a label. Until the label is set, nothing judges new sources there; the controller
//! keeps and reports what is in their way.

use std::collections::{BTreeMap, BTreeSet};

use hns_api::{labels, names};
use k8s_openapi::api::admissionregistration::v1::{MatchCondition, RuleWithOperations};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

use super::super::RegistrationSettings;
use super::super::cel::any_of;
use super::super::conditions::{
    becomes_a_source, condition, copy_differs, is_copy, not_the_controller, not_the_controller_in_earnest,
    not_the_namespace_controller, our_annotations_differ, will_be_a_copy,
};
use super::{Entry, OBJECT_TIMEOUT};

/// All of them.
pub(super) fn entries(settings: &RegistrationSettings) -> [Entry; 2] {
    [objects(settings), tree_objects(settings)]
}

/// In namespaces without children, or without the label yet: our annotations, and copies if no policy judges them.
fn objects(settings: &RegistrationSettings) -> Entry {
    Entry {
        name: names::webhooks::OBJECTS,
        path: names::paths::OBJECTS,
        fails_closed: true,
        timeout: OBJECT_TIMEOUT,
        namespaces: managed_namespaces(Below::Nothing),
        objects: if settings.policies { no_copies() } else { LabelSelector::default() },
        rules: rules(settings, operations(settings)),
        conditions: closed(settings, None),
    }
}

/// In namespaces with children: sources too.
fn tree_objects(settings: &RegistrationSettings) -> Entry {
    Entry {
        name: names::webhooks::TREE_OBJECTS,
        namespaces: managed_namespaces(Below::Something),
        conditions: closed(settings, Some(becomes_a_source(settings))),
        ..objects(settings)
    }
}

/// The conditions of the webhooks that fail closed.
fn closed(settings: &RegistrationSettings, of_sources: Option<String>) -> Vec<MatchCondition> {
    let of_sources =
        any_of(&[Some(our_annotations_differ()), of_sources].into_iter().flatten().collect::<Vec<_>>());
    if settings.policies {
        return vec![not_the_controller(settings), not_a_copy(), condition("can-be-refused", of_sources)];
    }
    let of_copies =
        format!("(({}) &&\n(request.operation != 'UPDATE' ||\n{}))", is_copy(), copy_differs(settings));
    let of_sources = format!("(request.operation != 'DELETE' && ({of_sources}))");
    vec![
        not_the_controller_in_earnest(settings),
        not_the_namespace_controller(),
        condition("can-be-refused", any_of(&[of_copies, of_sources])),
    ]
}

/// The policies, or the webhooks that fail closed, judge new copies.
fn not_a_copy() -> MatchCondition {
    condition("not-a-copy", format!("!{}", will_be_a_copy()))
}

/// Skips copies that stay copies. [`not_a_copy`] skips these and more, but a selector costs the API server almost nothing, and
/// conditions convert the object for each webhook at every write of a copy.
fn no_copies() -> LabelSelector {
    LabelSelector {
        match_expressions: Some(vec![requirement(labels::INHERITED_FROM, "DoesNotExist", None)]),
        match_labels: None,
    }
}

/// Only copies cannot be deleted. Policies judge them, if there are policies.
fn operations(settings: &RegistrationSettings) -> &'static [&'static str] {
    if settings.policies { &["CREATE", "UPDATE"] } else { &["CREATE", "UPDATE", "DELETE"] }
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

/// Whether a namespace has children, by its label.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Below {
    /// All namespaces.
    Any,
    /// No children, or no label yet.
    Nothing,
    /// Children.
    Something,
}

/// A selector is safe for objects in namespaces: it uses the present labels of the namespace, which the request does not change.
pub(in super::super) fn managed_namespaces(below: Below) -> LabelSelector {
    let is_true = || Some(vec![labels::TRUE.to_owned()]);
    let mut requirements = vec![
        requirement(labels::INCLUDED_NAMESPACE, "In", is_true()),
        requirement(labels::EXCLUDED_NAMESPACE, "NotIn", is_true()),
    ];
    match below {
        Below::Any => {}
        Below::Nothing => requirements.push(requirement(labels::HAS_CHILDREN, "DoesNotExist", None)),
        Below::Something => requirements.push(requirement(labels::HAS_CHILDREN, "Exists", None)),
    }
    LabelSelector { match_expressions: Some(requirements), match_labels: None }
}

pub(super) fn requirement(
    key: &str,
    operator: &str,
    values: Option<Vec<String>>,
) -> LabelSelectorRequirement {
    LabelSelectorRequirement { key: key.to_owned(), operator: operator.to_owned(), values }
}
