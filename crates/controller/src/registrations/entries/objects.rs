//! The entries about objects of the propagated kinds, all under one path.
//!
//! What a rule could refuse depends on the namespace: only where something is below can a new source stand above another
//! of its name. The mark on the namespace tells, by a selector. Before it has arrived, an entry that fails open asks.

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
pub(super) fn entries(settings: &RegistrationSettings) -> [Entry; 3] {
    [objects(settings), tree_objects(settings), late_objects(settings)]
}

/// Where nothing is below, or not yet: our annotations, and copies if no policy judges them.
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

/// Where something is below, sources too.
fn tree_objects(settings: &RegistrationSettings) -> Entry {
    Entry {
        name: names::webhooks::TREE_OBJECTS,
        namespaces: managed_namespaces(Below::Something),
        conditions: closed(settings, Some(becomes_a_source(settings))),
        ..objects(settings)
    }
}

/// Sources where nothing is below yet, as far as [`objects`] leaves them.
fn late_objects(settings: &RegistrationSettings) -> Entry {
    Entry {
        name: names::webhooks::LATE_OBJECTS,
        fails_closed: false,
        objects: no_copies(),
        rules: rules(settings, &["CREATE", "UPDATE"]),
        conditions: vec![
            not_the_controller(settings),
            not_a_copy(),
            condition("not-judged-already", format!("!{}", our_annotations_differ())),
            condition("can-be-refused", becomes_a_source(settings)),
        ],
        ..objects(settings)
    }
}

/// The conditions of the entries that fail closed.
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

/// What is to be a copy, the policies judge, or the entries that fail closed.
fn not_a_copy() -> MatchCondition {
    condition("not-a-copy", format!("!{}", will_be_a_copy()))
}

/// What was a copy and stays one. [`not_a_copy`] says the same and more; but a selector costs the API server next to nothing, and
/// conditions a conversion of the object for each entry, with every copy that is written.
fn no_copies() -> LabelSelector {
    LabelSelector {
        match_expressions: Some(vec![requirement(labels::INHERITED_FROM, "DoesNotExist", None)]),
        match_labels: None,
    }
}

/// Only copies cannot be deleted, and those are the policies' where there are any.
fn operations(settings: &RegistrationSettings) -> &'static [&'static str] {
    if settings.policies { &["CREATE", "UPDATE"] } else { &["CREATE", "UPDATE", "DELETE"] }
}

/// One rule for each API group, then one more for each: labels and annotations of some kinds can be written by a PUT of
/// the status. The order of kinds means nothing; the same ones give the same rules.
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

/// What is below a namespace, as its mark tells.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Below {
    /// Whatever there is.
    Any,
    /// Nothing, or the mark has not arrived.
    Nothing,
    /// Something.
    Something,
}

/// On objects within namespaces a selector is safe: it is the namespace's present labels that count, which this request does
/// not change.
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

fn requirement(key: &str, operator: &str, values: Option<Vec<String>>) -> LabelSelectorRequirement {
    LabelSelectorRequirement { key: key.to_owned(), operator: operator.to_owned(), values }
}
