//! What can be asked in CEL of a request about an object of a propagated kind. Each function is one question, and its answer
//! is never an error where it says that it may be asked.
//!
//! What an object is a source or a copy of is the tree's to know and never asked here.

use forest::exclusion::{OBJECTS_OF_EVERY_NAMESPACE, SECRET_TYPES};
use hns_api::{annotations, labels};

use super::super::RegistrationSettings;
use super::super::cel::{all_of, any_of, list, literal};
use super::{MANY_KEYS, is_big, new_map, old_map, removed, set};

/// Whether the object is to be a copy. In CREATE and in UPDATE.
pub(in super::super) fn will_be_a_copy() -> String {
    has_source("object")
}

/// Whether the object is a copy, before or after. In every operation.
pub(in super::super) fn is_copy() -> String {
    any_of(&["object", "oldObject"].map(has_source))
}

fn has_source(object: &str) -> String {
    format!("{object}.?metadata.?labels[?{}].hasValue()", literal(labels::INHERITED_FROM))
}

/// Whether an annotation of ours is added, changed or removed. In CREATE, where every one is added, and in UPDATE.
///
/// Where there are too many to look at each, any change is taken for one of ours.
pub(in super::super) fn our_annotations_differ() -> String {
    let (new, old) = (new_map("annotations"), old_map("annotations"));
    format!(
        "({} ||\n{} ?\n{new} != {old} :\n({} ||\n{}))",
        is_big(&new),
        is_big(&old),
        set("annotations", ""),
        removed("annotations")
    )
}

/// Whether the object may be propagated, as it was not before. In CREATE and in UPDATE.
///
/// Only such a request can bring about that a source stands above another of its name: one that leaves a source one was
/// judged when it became one. What is going never comes back.
pub(in super::super) fn becomes_a_source(settings: &RegistrationSettings) -> String {
    let withheld = |object: &str| any_of(&withheld(settings, object));
    let (old, new) = (withheld("oldObject"), withheld("object"));
    format!(
        "((request.operation == 'CREATE' ||\n\
         (({old}) &&\n!has(object.metadata.deletionTimestamp))) &&\n\
         !({new}) &&\n\
         !(request.resource.group == '' &&\n({})))",
        any_of(&belongs_to_its_namespace())
    )
}

/// Whether anything differs that nobody but the controller may change on a copy. In UPDATE only.
pub(in super::super) fn copy_differs(settings: &RegistrationSettings) -> String {
    let mut kept = copied_metadata(settings);
    kept.extend([nothing_added(), same_content()]);
    format!("!({})", all_of(&kept))
}

/// That labels and annotations are as they were. In UPDATE only.
///
/// What deployment tools left on a copy before this program came is out of place there: whoever may write the copy may remove
/// it. It cannot be added.
pub(in super::super) fn copied_metadata(settings: &RegistrationSettings) -> Vec<String> {
    ["labels", "annotations"].map(|map| same_but_for_tracking(settings, map)).into()
}

/// That finalizers and owner references have nothing that they had not before. In UPDATE only.
///
/// The garbage collector takes the power to block a deletion out of references: that is less, too.
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

/// That a list of the metadata is as it was, or shorter with each of its items as `known` says. A list that has grown is not
/// looked at item by item: those can be many.
fn each_of(field: &str, known: &str) -> String {
    let (new, old) = (format!("object.metadata.?{field}"), format!("oldObject.metadata.?{field}"));
    format!(
        "({new} == {old} ||\n\
         ({new}.orValue([]).size() <= {old}.orValue([]).size() &&\n\
         {new}.orValue([]).all(it, {known})))"
    )
}

/// That every field but metadata and status is as it was, whatever the kind. In UPDATE only.
///
/// No object has so many fields but one that somebody makes to have the API server look at each.
pub(in super::super) fn same_content() -> String {
    all_of(&[
        &*format!("size(object) <= {MANY_KEYS} && size(oldObject) <= {MANY_KEYS}"),
        "object.all(k, k in ['metadata', 'status'] || (k in oldObject && object[k] == oldObject[k]))",
        "oldObject.all(k, k in ['metadata', 'status'] || k in object)",
    ])
}

/// Why an object of the core group never propagates for as long as it exists: its name and the type of a Secret stay.
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

/// Why this object, an expression, does not propagate as it is.
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

/// Whether a deployment tool finds its objects by this key, an expression.
fn is_tracking_key(key: &str) -> String {
    let (prefixes, whole): (Vec<&str>, Vec<&str>) = forest::tracking_keys().partition(|it| it.ends_with('*'));
    let begins = |it: &&str| format!("{key}.startsWith({})", literal(it.trim_end_matches('*')));
    let mut alternatives = vec![format!("{key} in {}", list(&whole))];
    alternatives.extend(prefixes.iter().map(begins));
    any_of(&alternatives)
}
