//! CEL expressions about a request, for webhooks and policies. Each function is one expression; it is never an error for requests
//! of the rules that use it.
//!
//! `object` has `metadata` in CREATE and UPDATE, `oldObject` in UPDATE and DELETE. Every other field may be missing: labels, and
//! in a CREATE with `generateName` even the name. Expressions take the name from the object, because `request.name` is missing
//! when a collection is deleted.

pub(super) mod accurate;
mod objects;

use std::collections::BTreeSet;

use hns_api::{anchor_states, annotations, labels, names};
use k8s_openapi::api::admissionregistration::v1::MatchCondition;

use super::RegistrationSettings;
use super::cel::{any_of, list, literal};

pub(super) use self::objects::{
    becomes_a_source, copied_metadata, copy_differs, nothing_added, our_annotations_differ, same_content,
    will_be_a_copy,
};

/// The number of labels or annotations above which no expression loops over them.
pub(super) const MANY_KEYS: usize = 1000;

/// The keys of our labels and annotations contain this.
const OUR_KEYS: &str = "hnc.x-k8s.io/";

/// The name of the new object.
pub(super) const NEW_NAME: &str = "object.metadata.?name.orValue('')";

/// The key of the new namespace's own tree label.
pub(super) const OWN_DEPTH: &str = "(object.metadata.?name.orValue('') + '.tree.hnc.x-k8s.io/depth')";

pub(super) fn condition(name: &str, expression: String) -> MatchCondition {
    MatchCondition { name: name.to_owned(), expression }
}

pub(super) fn not_the_controller(settings: &RegistrationSettings) -> MatchCondition {
    let user = names::service_account_user(&settings.namespace, &settings.controller_service_account);
    let expression = format!("request.userInfo.username != {}", literal(&user));
    condition("not-the-controller", expression)
}

/// The same, except for the dry runs by which the controller probes whether copies are guarded.
pub(super) fn not_the_controller_in_earnest(settings: &RegistrationSettings) -> MatchCondition {
    let exempt = not_the_controller(settings);
    MatchCondition { expression: format!("{} ||\n{}", exempt.expression, is_probe()), ..exempt }
}

/// Whether the request is such a probe. A real write never is, whatever annotations its object has.
pub(super) fn is_probe() -> String {
    let marked = format!("object.?metadata.?annotations[?{}].hasValue()", literal(annotations::GUARD_PROBE));
    format!("(request.?dryRun.orValue(false) && {marked})")
}

/// The namespace controller deletes the objects of a terminating namespace, and has none of the rights that rules require. The
/// garbage collector must not be exempt: every user who may set an owner reference could make it delete an object.
pub(super) fn not_the_namespace_controller() -> MatchCondition {
    let expression = format!("!(request.operation == 'DELETE' &&\n{})", is_the_namespace_controller());
    condition("not-the-namespace-controller", expression)
}

/// Whether the user is one of these users, or is in one of these groups.
pub(super) fn requested_by<S: AsRef<str>>(identities: &[S]) -> String {
    if identities.is_empty() {
        return "false".to_owned();
    }
    let identities = list(identities);
    format!(
        "(request.userInfo.username in {identities} || request.userInfo.?groups.orValue([]).exists(g, g in {identities}))"
    )
}

/// Whether the request restores an exported object.
pub(super) fn restoring(settings: &RegistrationSettings) -> String {
    if settings.restore_identities.is_empty() {
        return "false".to_owned();
    }
    format!("(request.operation == 'CREATE' && {})", requested_by(&settings.restore_identities))
}

/// Whether the user may manage the namespaces of `manager`, an expression.
pub(super) fn kept_by_the_user(settings: &RegistrationSettings, manager: &str) -> String {
    let mut values: Vec<&String> = settings.external_managers.iter().map(|(value, _)| value).collect();
    values.sort();
    values.dedup();
    let alternatives: Vec<String> = values
        .into_iter()
        .map(|value| {
            let named = settings.external_managers.iter().filter(|(of, _)| of == value);
            let named: Vec<&String> = named.map(|(_, identity)| identity).collect();
            format!("({manager} == {} && {})", literal(value), requested_by(&named))
        })
        .collect();
    if alternatives.is_empty() { "false".to_owned() } else { format!("({})", alternatives.join(" || ")) }
}

/// Whether the namespace of this name, an expression, is excluded by name. The names are sorted, so that another order of flags
/// makes no difference.
pub(super) fn listed(settings: &RegistrationSettings, name: &str) -> String {
    let excluded: BTreeSet<&String> = settings.excluded.iter().collect();
    format!("{name} in {}", list(&excluded.into_iter().collect::<Vec<_>>()))
}

/// Whether the namespace of this name, an expression, is managed.
pub(super) fn managed(settings: &RegistrationSettings, name: &str) -> String {
    format!("!({}) && {name}.matches({})", listed(settings, name), literal(&settings.included_pattern))
}

/// Whether the old object is being deleted already.
pub(super) const OLD_IS_GOING: &str = "has(oldObject.metadata.deletionTimestamp)";

/// Whether a new object is marked as deleted. The API server removes the mark in a POST, and keeps it in a server-side apply.
pub(super) const NEW_IS_GOING: &str =
    "(request.operation == 'CREATE' && object.metadata.?deletionTimestamp.orValue(null) != null)";

/// Whether the request is for the subresource `status`.
pub(super) const IS_STATUS: &str = "request.?subResource.orValue('') == 'status'";

/// Whether the status of an object changes.
pub(super) const STATUS_DIFFERS: &str = "object.?status != oldObject.?status";

/// Whether the spec or the owner references of an object change.
pub(super) fn spec_or_owners_differ() -> String {
    let owners = |of: &str| format!("{of}.metadata.?ownerReferences.orValue([])");
    format!(
        "(request.operation == 'UPDATE' && (object.?spec != oldObject.?spec || {} != {}))",
        owners("object"),
        owners("oldObject")
    )
}

/// Whether an object, `object` or `oldObject`, has this finalizer.
pub(super) fn has_finalizer(object: &str, finalizer: &str) -> String {
    format!("{} in {}", literal(finalizer), given(&format!("{object}.metadata.?finalizers"), "[]"))
}

/// Whether the old object, a namespace, has the label of namespaces with children.
pub(super) fn old_has_children() -> String {
    format!("oldObject.metadata.?labels[?{}].hasValue()", literal(labels::HAS_CHILDREN))
}

/// Whether the old object, a `HierarchyConfiguration`, has a parent, labels, annotations or cascading deletion.
pub(super) fn old_has_a_spec() -> String {
    any_of(&[
        "oldObject.?spec.?parent.orValue('') != ''",
        "oldObject.?spec.?labels.orValue([]).size() > 0",
        "oldObject.?spec.?annotations.orValue([]).size() > 0",
        "oldObject.?spec.?allowCascadingDeletion.orValue(false)",
    ])
}

/// Whether the old object, a namespace, is a subnamespace.
pub(super) fn old_is_subnamespace() -> String {
    format!("oldObject.metadata.?annotations[?{}].hasValue()", literal(annotations::SUBNAMESPACE_OF))
}

/// Whether an anchor loses the state `Conflict`.
pub(super) fn conflict_is_removed() -> String {
    let state = |of: &str| format!("{of}.?status.?status.orValue('')");
    let conflict = literal(anchor_states::CONFLICT);
    format!(
        "(request.operation == 'UPDATE' && {} == {conflict} && {} != {conflict})",
        state("oldObject"),
        state("object")
    )
}

/// The most labels of an object of hns.
pub(super) const MOST_LABELS: usize = 100;

/// Whether the metadata of an object becomes too large for the controller to change the object afterwards. What is too large
/// already can be made smaller. Annotations are limited by the API server.
pub(super) fn metadata_grows(most_labels: usize) -> String {
    let limits = [
        grows("metadata.?labels", "{}", most_labels),
        grows("metadata.?finalizers", "[]", 20),
        grows("metadata.?ownerReferences", "[]", 20),
    ];
    let texts =
        ["apiVersion", "kind", "name", "uid"].map(|text| format!("o.?{text}.orValue('').size() > 253"));
    let owners = format!(
        "(object.?metadata.?ownerReferences != oldObject.?metadata.?ownerReferences &&\n\
         {}.exists(o, {}))",
        given("object.?metadata.?ownerReferences", "[]"),
        texts.join(" || ")
    );
    any_of(&limits.into_iter().chain([owners]).collect::<Vec<_>>())
}

/// Whether a map or a list of the object gets more items, and then has more than `limit`.
pub(super) fn grows(field: &str, empty: &str, limit: usize) -> String {
    let size = |of: &str| format!("{}.size()", given(&format!("{of}.?{field}"), empty));
    let (new, old) = (size("object"), size("oldObject"));
    format!("({new} > {limit} && {new} > {old})")
}

/// A map or a list that may be absent, or null: a server-side apply keeps such a field.
pub(super) fn given(field: &str, empty: &str) -> String {
    format!("optional.ofNonZeroValue({field}.orValue({empty})).orValue({empty})")
}

/// Whether the namespace controller makes the request, also if all controllers share one identity.
pub(super) fn is_the_namespace_controller() -> String {
    let users = [names::users::NAMESPACE_CONTROLLER, names::users::CONTROLLER_MANAGER];
    format!("request.userInfo.username in {}", list(&users))
}

/// Who records the usage of resource quotas: the API server, and the quota controller, also if all controllers share one identity.
pub(super) fn recorders_of_usage() -> [&'static str; 3] {
    [names::users::API_SERVER, names::users::CONTROLLER_MANAGER, names::users::QUOTA_CONTROLLER]
}

/// Whether the object is a resource quota that is derived from hierarchical quotas.
pub(super) fn is_derived_quota() -> String {
    let name = literal(names::DERIVED_QUOTA);
    format!("object.?metadata.?name.orValue(oldObject.?metadata.?name.orValue('')) == {name}")
}

/// Whether a resource quota records more usage of something than before. Where there are too many names for a loop, it may.
pub(super) fn usage_grows() -> String {
    let used = |of: &str| format!("{of}.?status.?used");
    let (new, old) = (used("object"), used("oldObject"));
    let quantity = |map: &str| format!("quantity(string({map}[?k].orValue('0')))");
    let grows =
        format!("{new}.orValue({{}}).exists(k,\n{}.isGreaterThan({}))", quantity(&new), quantity(&old));
    any_of(&[is_big(&new), grows])
}

/// An annotation of the new object, as an optional.
pub(super) fn new_annotation(key: &str) -> String {
    format!("object.metadata.?annotations[?{}]", literal(key))
}

/// An annotation of the old object, as an optional; none if there is no old object.
pub(super) fn old_annotation(key: &str) -> String {
    format!("oldObject.?metadata.?annotations[?{}]", literal(key))
}

/// Whether there are too many labels or annotations for a loop.
pub(super) fn many_keys() -> String {
    let maps = ["labels", "annotations"].into_iter().flat_map(|map| [new_map(map), old_map(map)]);
    any_of(&maps.map(|map| is_big(&map)).collect::<Vec<_>>())
}

/// Whether one of our keys is added to, changed on or removed from a namespace. Only after [`many_keys`].
///
/// The labels that the mutating policy or webhook adds are allowed with the correct values. Otherwise the validating webhook would
/// receive every CREATE.
pub(super) fn our_keys_differ(settings: &RegistrationSettings) -> String {
    let harmless = format!(" && !({} && {})", is_added("k"), managed(settings, NEW_NAME));
    let ours = is_ours();
    any_of(&[
        set("labels", &format!("{ours}{harmless}")),
        removed("labels", &ours),
        set("annotations", &ours),
        removed("annotations", &ours),
    ])
}

/// Whether a label or an annotation that the hierarchy may have set changes, in a namespace of a tree; `None` if the hierarchy manages
/// no keys. Only after [`many_keys`].
pub(super) fn managed_values_differ(settings: &RegistrationSettings) -> Option<String> {
    let maps = [("labels", &settings.managed_labels), ("annotations", &settings.managed_annotations)];
    let differs = |(map, patterns): (&str, &Vec<String>)| {
        let matches = |pattern: &String| format!("k.matches({})", literal(pattern));
        let is_managed = any_of(&patterns.iter().map(matches).collect::<Vec<_>>());
        [set(map, &is_managed), removed(map, &is_managed)]
    };
    let used = maps.into_iter().filter(|(_, patterns)| !patterns.is_empty());
    let differ: Vec<String> = used.flat_map(differs).collect();
    let below = format!(
        "{}.orValue({{}}).exists(k, k.endsWith({}) && {0}[?k].orValue('') != '0')",
        old_map("labels"),
        literal(labels::TREE_DEPTH_SUFFIX)
    );
    let in_tree = any_of(&[old_has_children(), below]);
    let differ = any_of(&differ);
    (!differ.is_empty()).then(|| format!("(request.operation == 'UPDATE' && ({in_tree}) &&\n({differ}))"))
}

/// The same for a managed namespace that is being created, with the check of its size.
pub(super) fn new_keys_are_many_or_ours() -> String {
    let [labels, annotations] = ["labels", "annotations"].map(new_map);
    any_of(&[
        is_big(&labels),
        is_big(&annotations),
        format!("{labels}.orValue({{}}).exists(k, {} && !{})", is_ours(), is_added_to_new("k")),
        format!("{annotations}.orValue({{}}).exists(k, {})", is_ours()),
    ])
}

fn is_big(map: &str) -> String {
    format!("{map}.orValue({{}}).size() > {MANY_KEYS}")
}

/// Whether this key is a label that every new managed namespace gets, with the correct value.
fn is_added(key: &str) -> String {
    format!("({} || {})", is_included(key), is_own_depth(key))
}

/// The same if the namespace is being created.
fn is_added_to_new(key: &str) -> String {
    format!("({} || {})", is_included(key), is_own_zero(key))
}

fn is_included(key: &str) -> String {
    let value = format!("{}[?{key}].orValue('')", new_map("labels"));
    format!("{key} == {} && {value} == 'true'", literal(labels::INCLUDED_NAMESPACE))
}

/// Whether this key is the own tree label of a namespace that is being created, with the only possible value.
pub(super) fn is_own_depth(key: &str) -> String {
    format!("request.operation == 'CREATE' && {}", is_own_zero(key))
}

fn is_own_zero(key: &str) -> String {
    format!("{key} == {OWN_DEPTH} && {}[?{key}].orValue('') == '0'", new_map("labels"))
}

/// Whether a key for which `which`, an expression about `k`, holds is added or changed.
fn set(map: &str, which: &str) -> String {
    let (new, old) = (new_map(map), old_map(map));
    format!("{new}.orValue({{}}).exists(k, {new}[?k] != {old}[?k] && ({which}))")
}

fn removed(map: &str, which: &str) -> String {
    let (new, old) = (new_map(map), old_map(map));
    format!("{old}.orValue({{}}).exists(k, !(k in {new}.orValue({{}})) && ({which}))")
}

fn is_ours() -> String {
    format!("k.contains({})", literal(OUR_KEYS))
}

fn new_map(map: &str) -> String {
    format!("object.metadata.?{map}")
}

fn old_map(map: &str) -> String {
    format!("oldObject.?metadata.?{map}")
}
