//! CEL expressions about requests for objects of propagated kinds. Each function names the operations in which its expression is
//! never an error.
//!
//! They use no knowledge of the tree.

use forest::exclusion::{OBJECTS_OF_EVERY_NAMESPACE, SECRET_TYPES};
use hns_api::{annotations, labels};

use super::super::RegistrationSettings;
use super::super::cel::{all_of, any_of, list, literal};
use super::{MANY_KEYS, is_big, is_ours, new_map, old_map, removed, set};

/// Whether the new object is a copy. In CREATE and UPDATE.
pub(in super::super) fn will_be_a_copy() -> String {
    format!("object.?metadata.?labels[?{}].hasValue()", literal(labels::INHERITED_FROM))
}

/// Whether one of our annotations is added, changed or removed. In CREATE, where all are new, and UPDATE.
///
/// If there are too many annotations for a loop, every change counts.
pub(in super::super) fn our_annotations_differ() -> String {
    let (new, old) = (new_map("annotations"), old_map("annotations"));
    // The forest also reads a key that is such a prefix alone.
    let ours = format!("{} || k.endsWith({})", is_ours(), literal(&format!(".{}", hns_api::GROUP)));
    format!(
        "({} ||\n{} ?\n{new} != {old} :\n({} ||\n{}))",
        is_big(&new),
        is_big(&old),
        set("annotations", &ours),
        removed("annotations", &ours)
    )
}

/// Whether the object may be propagated and could not be before. In CREATE and UPDATE.
///
/// Only such a request can put a source above another object of its name: an object that already was a source was judged when it
/// became one. An object that is being deleted never becomes a source.
pub(in super::super) fn becomes_a_source(settings: &RegistrationSettings) -> String {
    let (mut old, new) = (withheld(settings, "oldObject"), withheld(settings, "object"));
    // A copy of Accurate's API, of a kind that is copied there, is no source. The annotation alone does not say that it is one.
    let from = literal(hns_api::accurate::annotations::FROM);
    old.extend(settings.accurate.then(|| format!("oldObject.metadata.?annotations[?{from}].hasValue()")));
    let (old, new) = (any_of(&old), any_of(&new));
    format!(
        "((request.operation == 'CREATE' ||\n\
         (({old}) &&\n!has(object.metadata.deletionTimestamp))) &&\n\
         !({new}) &&\n\
         !(request.resource.group == '' &&\n({})))",
        any_of(&belongs_to_its_namespace())
    )
}

/// Whether a field changes that only the controller may change on a copy. In UPDATE.
pub(in super::super) fn copy_differs(settings: &RegistrationSettings) -> String {
    let mut kept = copied_metadata(settings);
    kept.extend([nothing_added(), same_content()]);
    format!("!({})", all_of(&kept))
}

/// Labels and annotations do not change. In UPDATE.
///
/// Users may remove what deployment tools wrote to a copy before hns was installed, but not add it.
pub(in super::super) fn copied_metadata(settings: &RegistrationSettings) -> Vec<String> {
    ["labels", "annotations"].map(|map| same_but_for_tracking(settings, map)).into()
}

/// No finalizer and no owner reference is added. In UPDATE.
///
/// The garbage collector may unset `blockOwnerDeletion` in a reference.
pub(in super::super) fn nothing_added() -> String {
    let is_less = all_of(&[
        "it.?blockOwnerDeletion.orValue(false) != true",
        "it.?uid == was.?uid && it.?name == was.?name && it.?kind == was.?kind",
        "it.?apiVersion == was.?apiVersion && it.?controller == was.?controller",
    ]);
    let owners =
        format!("oldObject.metadata.?ownerReferences.orValue([]).exists(was, it == was || ({is_less}))");
    all_of(&[
        each_of("finalizers", "it in oldObject.metadata.?finalizers.orValue([])"),
        each_of("ownerReferences", &owners),
    ])
}

/// A list of the metadata does not change, or gets shorter and each item is as `known` requires. Longer lists are not compared
/// item by item, because they can be long.
fn each_of(field: &str, known: &str) -> String {
    let (new, old) = (format!("object.metadata.?{field}"), format!("oldObject.metadata.?{field}"));
    format!(
        "({new} == {old} ||\n\
         ({new}.orValue([]).size() <= {old}.orValue([]).size() &&\n\
         {new}.orValue([]).all(it, {known})))"
    )
}

/// No field except metadata and status changes, whatever the kind. In UPDATE. The rule `rules/object/copy.rs` of the forest says the same.
///
/// Only an attacker creates an object with more fields, to slow down the API server.
pub(in super::super) fn same_content() -> String {
    all_of(&[
        &*format!("size(object) <= {MANY_KEYS} && size(oldObject) <= {MANY_KEYS}"),
        "object.all(k, k in ['metadata', 'status'] || (k in oldObject && object[k] == oldObject[k]))",
        "oldObject.all(k, k in ['metadata', 'status'] || k in object)",
    ])
}

/// The reasons why an object of the core group is never propagated: its name, and the type of a Secret. Both are immutable.
fn belongs_to_its_namespace() -> Vec<String> {
    let of = |resource: &str, condition: &str| {
        format!("(request.resource.resource == {} && {condition})", literal(resource))
    };
    let named = |(kind, name): (&str, &str)| {
        let is_named = format!("object.metadata.?name.orValue('') == {}", literal(name));
        of(&format!("{}s", kind.to_lowercase()), &is_named)
    };
    let mut reasons: Vec<String> = OBJECTS_OF_EVERY_NAMESPACE.into_iter().map(named).collect();
    reasons.push(of("secrets", &format!("object.?type.orValue('') in {}", list(&SECRET_TYPES))));
    reasons
}

/// The reasons why this object, an expression, is not propagated.
fn withheld(settings: &RegistrationSettings, object: &str) -> Vec<String> {
    let labelled = |(key, value): &(String, String)| {
        format!("{object}.metadata.?labels[?{}] == optional.of({})", literal(key), literal(value))
    };
    let description = literal(annotations::OPENSHIFT_DESCRIPTION);
    let mut reasons = vec![
        format!("{object}.metadata.?annotations[?{description}].hasValue()"),
        format!("{object}.metadata.?finalizers.orValue([]).size() > 0"),
    ];
    reasons.extend(settings.nopropagation_labels.iter().map(labelled));
    reasons
}

fn same_but_for_tracking(settings: &RegistrationSettings, map: &str) -> String {
    let (new, old) = (format!("object.metadata.?{map}"), format!("oldObject.metadata.?{map}"));
    if settings.propagate_tracking_metadata {
        return format!("{new} == {old}");
    }
    let small = |map: &str| format!("{map}.orValue({{}}).size() <= {MANY_KEYS}");
    format!(
        "({new} == {old} ||\n\
         ({} && {} &&\n\
         {new}.orValue({{}}).all(k, {new}[?k] == {old}[?k]) &&\n\
         {old}.orValue({{}}).all(k, k in {new}.orValue({{}}) || {})))",
        small(&new),
        small(&old),
        is_tracking_key("k")
    )
}

/// Whether deployment tools find their objects by this key, an expression.
fn is_tracking_key(key: &str) -> String {
    let (prefixes, whole): (Vec<&str>, Vec<&str>) = forest::tracking_keys().partition(|it| it.ends_with('*'));
    let begins = |it: &&str| format!("{key}.startsWith({})", literal(it.trim_end_matches('*')));
    let mut alternatives = vec![format!("{key} in {}", list(&whole))];
    alternatives.extend(prefixes.iter().map(begins));
    any_of(&alternatives)
}
