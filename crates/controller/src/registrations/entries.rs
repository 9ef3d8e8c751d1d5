//! The webhooks of both configurations: which requests the API server sends. The crate `forest` decides the answers.

mod accurate;
mod objects;

use forest::keys;
use hns_api::{annotations, labels, names};
use hns_cluster::settings::FailurePolicy;
use k8s_openapi::api::admissionregistration::v1::{
    MatchCondition, MutatingWebhook, RuleWithOperations, ServiceReference, ValidatingWebhook,
    WebhookClientConfig,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::RegistrationSettings;
use super::cel::{all_of, any_of, list, literal};
use super::conditions::accurate::{new_has_place, old_can_be_upstream, place_differs};
use super::conditions::{
    NEW_NAME, OLD_IS_GOING, condition, conflict_is_removed, has_finalizer, is_derived_quota, managed,
    managed_values_differ, many_keys, new_annotation, new_keys_are_many_or_ours, not_the_controller,
    not_the_namespace_controller, old_annotation, old_has_a_spec, old_has_children, old_is_subnamespace,
    our_keys_differ, restoring, spec_or_owners_differ, usage_grows,
};

pub(super) use self::objects::{OF_COPIES, managed_namespaces, of_copies, rules as object_rules};

/// Seconds that the API server waits for a webhook that fails closed.
const FAIL_TIMEOUT: i32 = 5;

/// The same for objects of propagated kinds: there are many, and the webhook answers them without requests.
const OBJECT_TIMEOUT: i32 = 2;

/// Seconds that the API server waits for a webhook that fails open. While it hangs, each of its requests takes that long.
const IGNORE_TIMEOUT: i32 = 2;

/// The same for usage of quotas, whether it fails closed or open: the webhook writes before it answers, and a review that is given
/// up may have reserved usage. The API server's own limit for one request is ten seconds.
/// While a webhook does not answer, each request also keeps one of the few threads with which the API server checks all quotas.
const QUOTA_TIMEOUT: i32 = 2;

/// The number of awaited names above which the creation of every managed namespace is judged. A name has up to 63 characters; the
/// API server limits the length of an expression (100,000) and its cost.
const MANY_NAMES: usize = 500;

/// The number of names of existing parents in an entry. The API server limits the size of an object.
const MOST_PARENTS: usize = 5_000;

/// The label of each namespace with its name, which the API server sets.
const METADATA_NAME: &str = "kubernetes.io/metadata.name";

const NAMESPACES: &str = "namespaces";
const ANCHORS: &str = "subnamespaceanchors";
const CONFIGURATIONS: &str = "hncconfigurations";
const HIERARCHIES: &str = "hierarchyconfigurations";
pub(super) const HIERARCHICAL_QUOTAS: &str = "hierarchicalresourcequotas";

/// All validating webhooks.
pub(super) fn validating(settings: &RegistrationSettings) -> Vec<ValidatingWebhook> {
    let entries = [
        Some(namespaces(settings)),
        (!settings.awaited.is_empty()).then(|| awaited_namespaces(settings)),
        (!settings.policies).then(|| late_namespaces(settings)),
        Some(hierarchies(settings)),
        Some(anchors(settings)),
        Some(configurations(settings)),
        settings.quotas.map(|_| hierarchical_quotas(settings)),
        settings.quotas.map(usage),
        settings.accurate.then(|| accurate::sub_namespaces(settings)),
    ];
    let entries = entries.into_iter().flatten().chain(objects::entries(settings));
    entries.map(|entry| entry.validating(settings)).collect()
}

/// The validating webhook about the names of parents, if there are any.
pub(super) fn of_parents(settings: &RegistrationSettings) -> Vec<ValidatingWebhook> {
    let entry = (!settings.parents.is_empty()).then(|| parent_namespaces(settings).validating(settings));
    entry.into_iter().collect()
}

/// All mutating webhooks.
pub(super) fn mutating(settings: &RegistrationSettings) -> Vec<MutatingWebhook> {
    let entries = [
        (!settings.mutating_policy).then(|| namespace_label(settings)),
        settings.initial_admin.then(|| initial_admin(settings)),
        (settings.accurate && !settings.mutating_policy).then(|| accurate::finalizer(settings)),
    ];
    entries.into_iter().flatten().map(|entry| entry.mutating(settings)).collect()
}

/// Our keys define the hierarchy, and managed values can be restrictions. Both can be written through the subresources too. The deletion of a namespace concerns others if it
/// has the label of a namespace with children, or the annotation of a subnamespace; in Accurate's hierarchy, if it can have others
/// below it.
///
/// The entry is the same with and without policies: a policy judges one key by itself, and the webhook judges the hierarchy. The
/// entries for awaited names and late deletions below have the same path.
fn namespaces(settings: &RegistrationSettings) -> Entry {
    let mut deletions = vec![old_has_children(), old_is_subnamespace()];
    let mut changes = vec![many_keys(), our_keys_differ(settings)];
    changes.extend(managed_values_differ(settings));
    if settings.accurate {
        deletions.push(old_can_be_upstream(settings));
        changes.push(place_differs(settings));
    }
    let can_be_refused = format!(
        "request.operation == 'DELETE' ?\n!{OLD_IS_GOING} && ({}) :\n({})",
        deletions.join(" || "),
        any_of(&changes)
    );
    Entry {
        name: names::webhooks::NAMESPACES,
        path: names::paths::NAMESPACES,
        fails_closed: true,
        timeout: FAIL_TIMEOUT,
        namespaces: LabelSelector::default(),
        objects: LabelSelector::default(),
        rules: vec![
            rule("", &[NAMESPACES], &["CREATE", "UPDATE", "DELETE"]),
            rule("", &["namespaces/status", "namespaces/finalize"], &["UPDATE"]),
        ],
        conditions: vec![not_the_controller(settings), condition("can-be-refused", can_be_refused)],
    }
}

/// The names of missing parents: who creates a namespace of such a name controls the namespaces that wait for it. The names are
/// literals, so that the API server refuses them while no webhook answers, and calls no webhook for other names. The webhook
/// above judges new namespaces with our keys: of two reviews of one change of parent, each would be told to wait for the other.
///
/// `kubectl hns plan` reads the list, too: who may not list namespaces learns from it that some wait for a new one.
fn awaited_namespaces(settings: &RegistrationSettings) -> Entry {
    let is_awaited = if settings.awaited.len() > MANY_NAMES {
        managed(settings, NEW_NAME)
    } else {
        format!("{NEW_NAME} in {}", list(&settings.awaited))
    };
    let mut judged = vec![new_keys_are_many_or_ours()];
    judged.extend(settings.accurate.then(new_has_place));
    let can_be_refused = all_of(&[is_awaited, format!("!({})", any_of(&judged))]);
    Entry {
        name: names::webhooks::AWAITED_NAMESPACES,
        rules: vec![rule("", &[NAMESPACES], &["CREATE"])],
        conditions: vec![not_the_controller(settings), condition("can-be-refused", can_be_refused)],
        ..namespaces(settings)
    }
}

/// The names of parents that exist. When such a namespace is deleted, its name is awaited; while no controller leads, no other entry
/// knows it. It fails open: tools such as `helm --create-namespace` create namespaces that exist, and must not depend on the webhook.
/// The API server sets the selected label.
fn parent_namespaces(settings: &RegistrationSettings) -> Entry {
    let names = settings.parents.iter().take(MOST_PARENTS).cloned().collect();
    let is_one = objects::requirement(METADATA_NAME, "In", Some(names));
    Entry {
        name: names::webhooks::PARENT_NAMESPACES,
        fails_closed: false,
        timeout: IGNORE_TIMEOUT,
        objects: LabelSelector { match_expressions: Some(vec![is_one]), match_labels: None },
        rules: vec![rule("", &[NAMESPACES], &["CREATE"])],
        conditions: vec![
            not_the_controller(settings),
            condition("can-be-refused", format!("!({})", new_keys_are_many_or_ours())),
        ],
        ..namespaces(settings)
    }
}

/// A namespace may have subnamespaces before it has the label of a namespace with children. A policy protects it, if there are policies.
fn late_namespaces(settings: &RegistrationSettings) -> Entry {
    let can_be_refused = all_of(&[
        managed(settings, "oldObject.metadata.name"),
        format!("!{OLD_IS_GOING}"),
        format!("!{}", old_has_children()),
        format!("!{}", old_is_subnamespace()),
    ]);
    Entry {
        name: names::webhooks::LATE_NAMESPACES,
        fails_closed: false,
        timeout: IGNORE_TIMEOUT,
        rules: vec![rule("", &[NAMESPACES], &["DELETE"])],
        conditions: vec![not_the_controller(settings), condition("can-be-refused", can_be_refused)],
        ..namespaces(settings)
    }
}

/// A write that does not change the spec changes the status. The deletion of an object with an empty spec changes nothing.
fn hierarchies(settings: &RegistrationSettings) -> Entry {
    let can_be_refused = any_of(&[
        "request.operation == 'CREATE'".to_owned(),
        "(request.operation == 'UPDATE' && object.?spec != oldObject.?spec)".to_owned(),
        format!("(request.operation == 'DELETE' && ({}))", old_has_a_spec()),
    ]);
    Entry {
        name: names::webhooks::HIERARCHY_CONFIGURATIONS,
        path: names::paths::HIERARCHY_CONFIGURATIONS,
        fails_closed: true,
        timeout: FAIL_TIMEOUT,
        namespaces: LabelSelector::default(),
        objects: LabelSelector::default(),
        rules: vec![rule(hns_api::GROUP, &[HIERARCHIES], &["CREATE", "UPDATE", "DELETE"])],
        conditions: vec![
            not_the_controller(settings),
            not_the_namespace_controller(),
            condition("can-be-refused", can_be_refused),
        ],
    }
}

/// The deletion of an anchor that is being deleted is not judged again, and neither are changes of its finalizers. Changes of owner
/// references are judged, the removal of the controller's finalizer before the deletion, and every change of an anchor without this
/// finalizer: the controller may not have processed it. A policy protects the finalizer during the deletion, the creator and the
/// state `Conflict`; without policies this webhook protects the last two.
fn anchors(settings: &RegistrationSettings) -> Entry {
    let creator = format!(
        "(request.operation == 'UPDATE' && {} != {})",
        new_annotation(annotations::INITIAL_ADMIN),
        old_annotation(annotations::INITIAL_ADMIN)
    );
    let [was_held, is_held] =
        ["oldObject", "object"].map(|object| has_finalizer(object, keys::ANCHOR_FINALIZER));
    let mut alternatives = vec![
        "request.operation == 'CREATE'".to_owned(),
        spec_or_owners_differ(),
        format!("(request.operation == 'UPDATE' && !{OLD_IS_GOING} && !({was_held} && {is_held}))"),
        format!("(request.operation == 'DELETE' && !{OLD_IS_GOING})"),
    ];
    if !settings.policies {
        alternatives.extend([creator, conflict_is_removed()]);
    }
    Entry {
        name: names::webhooks::SUBNAMESPACE_ANCHORS,
        path: names::paths::SUBNAMESPACE_ANCHORS,
        fails_closed: true,
        timeout: FAIL_TIMEOUT,
        namespaces: LabelSelector::default(),
        objects: LabelSelector::default(),
        rules: vec![rule(hns_api::GROUP, &[ANCHORS], &["CREATE", "UPDATE", "DELETE"])],
        conditions: vec![not_the_controller(settings), condition("can-be-refused", any_of(&alternatives))],
    }
}

/// A write that does not change the spec changes the status.
fn configurations(settings: &RegistrationSettings) -> Entry {
    let can_be_refused = any_of(&["request.operation == 'DELETE'", "object.?spec != oldObject.?spec"]);
    Entry {
        name: names::webhooks::HNC_CONFIGURATIONS,
        path: names::paths::HNC_CONFIGURATIONS,
        fails_closed: true,
        timeout: FAIL_TIMEOUT,
        namespaces: LabelSelector::default(),
        objects: LabelSelector::default(),
        rules: vec![rule(hns_api::GROUP, &[CONFIGURATIONS], &["CREATE", "UPDATE", "DELETE"])],
        conditions: vec![not_the_controller(settings), condition("can-be-refused", can_be_refused)],
    }
}

/// A write that does not change the spec changes the status.
fn hierarchical_quotas(settings: &RegistrationSettings) -> Entry {
    Entry {
        name: names::webhooks::HIERARCHICAL_RESOURCE_QUOTAS,
        path: names::paths::HIERARCHICAL_RESOURCE_QUOTAS,
        fails_closed: true,
        timeout: FAIL_TIMEOUT,
        namespaces: LabelSelector::default(),
        objects: LabelSelector::default(),
        rules: vec![rule(hns_api::GROUP, &[HIERARCHICAL_QUOTAS], &["CREATE", "UPDATE"])],
        conditions: vec![
            not_the_controller(settings),
            condition("can-be-refused", "object.?spec != oldObject.?spec".to_owned()),
        ],
    }
}

/// Nobody is exempt, not even the controller: usage that the webhook does not see would be missing in its sums until its watch
/// reports it. Less usage is never refused, so it needs no webhook.
fn usage(failure_policy: FailurePolicy) -> Entry {
    Entry {
        name: names::webhooks::RESOURCE_QUOTAS_STATUS,
        path: names::paths::RESOURCE_QUOTAS_STATUS,
        fails_closed: failure_policy == FailurePolicy::Fail,
        timeout: QUOTA_TIMEOUT,
        namespaces: LabelSelector::default(),
        objects: LabelSelector::default(),
        rules: vec![rule("", &["resourcequotas/status"], &["UPDATE"])],
        conditions: vec![
            condition("is-derived", is_derived_quota()),
            condition("can-be-refused", usage_grows()),
        ],
    }
}

/// Adds the included label to a managed namespace without it, unless a policy does.
fn namespace_label(settings: &RegistrationSettings) -> Entry {
    Entry {
        name: names::webhooks::NAMESPACE_LABEL,
        path: names::paths::NAMESPACE_LABEL,
        fails_closed: false,
        timeout: IGNORE_TIMEOUT,
        namespaces: LabelSelector::default(),
        objects: without_included_label(),
        rules: vec![rule("", &[NAMESPACES], &["CREATE", "UPDATE"])],
        conditions: vec![not_the_controller(settings), can_be_labelled(settings)],
    }
}

/// A managed namespace without the included label. The validating webhook refuses a wrong value. Before the API server has generated
/// a name, it is unknown whether the namespace will be managed; the controller adds the label later.
pub(super) fn can_be_labelled(settings: &RegistrationSettings) -> MatchCondition {
    let expression = all_of(&[
        format!("{NEW_NAME} != ''"),
        managed(settings, NEW_NAME),
        format!("!object.metadata.?labels[?{}].hasValue()", literal(labels::INCLUDED_NAMESPACE)),
        "!has(object.metadata.deletionTimestamp)".to_owned(),
    ]);
    condition("can-be-changed", expression)
}

/// Skips a change of a namespace that has the included label before and after, without a condition.
pub(super) fn without_included_label() -> LabelSelector {
    let requirement = objects::requirement(labels::INCLUDED_NAMESPACE, "DoesNotExist", None);
    LabelSelector { match_expressions: Some(vec![requirement]), match_labels: None }
}

/// Records who creates a subnamespace, by an anchor or directly. Who restores one has not created it. An existing value is
/// judged, not replaced.
fn initial_admin(settings: &RegistrationSettings) -> Entry {
    let can_be_changed = all_of(&[
        format!("!{}.hasValue()", new_annotation(annotations::INITIAL_ADMIN)),
        format!(
            "(request.resource.resource == {} || {}.orValue('') != '')",
            literal(ANCHORS),
            new_annotation(annotations::SUBNAMESPACE_OF)
        ),
    ]);
    let not_restoring = format!("!{}", restoring(settings));
    Entry {
        name: names::webhooks::INITIAL_ADMIN,
        path: names::paths::INITIAL_ADMIN,
        fails_closed: false,
        timeout: IGNORE_TIMEOUT,
        namespaces: LabelSelector::default(),
        objects: LabelSelector::default(),
        rules: vec![rule(hns_api::GROUP, &[ANCHORS], &["CREATE"]), rule("", &[NAMESPACES], &["CREATE"])],
        conditions: vec![
            not_the_controller(settings),
            condition("not-restoring", not_restoring),
            condition("can-be-changed", can_be_changed),
        ],
    }
}

/// The fields that differ between webhooks.
struct Entry {
    name: &'static str,
    path: &'static str,
    fails_closed: bool,
    /// In seconds.
    timeout: i32,
    /// Matches all on webhooks for namespaces: a selector sees only the new labels, so a request that removes the selected label
    /// would not be sent.
    namespaces: LabelSelector,
    /// Matches the old or the new object.
    objects: LabelSelector,
    rules: Vec<RuleWithOperations>,
    conditions: Vec<MatchCondition>,
}

impl Entry {
    fn failure_policy(&self) -> String {
        if self.fails_closed { "Fail".to_owned() } else { "Ignore".to_owned() }
    }

    fn client_config(&self, settings: &RegistrationSettings) -> WebhookClientConfig {
        WebhookClientConfig {
            service: Some(ServiceReference {
                name: settings.service.clone(),
                namespace: settings.namespace.clone(),
                path: Some(self.path.to_owned()),
                port: Some(settings.service_port.into()),
            }),
            ..WebhookClientConfig::default()
        }
    }

    fn validating(self, settings: &RegistrationSettings) -> ValidatingWebhook {
        ValidatingWebhook {
            name: self.name.to_owned(),
            admission_review_versions: vec!["v1".to_owned()],
            client_config: self.client_config(settings),
            failure_policy: Some(self.failure_policy()),
            match_conditions: Some(self.conditions),
            match_policy: Some("Equivalent".to_owned()),
            namespace_selector: Some(self.namespaces),
            object_selector: Some(self.objects),
            rules: Some(self.rules),
            // The list of missing parents, and the ledger of quotas.
            side_effects: "NoneOnDryRun".to_owned(),
            timeout_seconds: Some(self.timeout),
        }
    }

    fn mutating(self, settings: &RegistrationSettings) -> MutatingWebhook {
        MutatingWebhook {
            name: self.name.to_owned(),
            admission_review_versions: vec!["v1".to_owned()],
            client_config: self.client_config(settings),
            failure_policy: Some(self.failure_policy()),
            match_conditions: Some(self.conditions),
            match_policy: Some("Equivalent".to_owned()),
            namespace_selector: Some(self.namespaces),
            object_selector: Some(self.objects),
            reinvocation_policy: Some("Never".to_owned()),
            rules: Some(self.rules),
            side_effects: "None".to_owned(),
            timeout_seconds: Some(self.timeout),
        }
    }
}

/// A rule with named resources: a wildcard would include access reviews and the corrections of the reconciler.
pub(super) fn rule(group: &str, resources: &[&str], operations: &[&str]) -> RuleWithOperations {
    let owned = |words: &[&str]| Some(words.iter().map(|&word| word.to_owned()).collect());
    RuleWithOperations {
        api_groups: owned(&[group]),
        api_versions: owned(&["*"]),
        resources: owned(resources),
        operations: owned(operations),
        scope: Some("*".to_owned()),
    }
}
