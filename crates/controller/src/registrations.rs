//! Which requests the API server sends to the webhook: the registrations, as a pure function of the
//! settings. It never writes them to a cluster, and never decides what the webhook answers.
//!
//! Failing closed is safe only if nothing is sent that no rule could refuse, so each entry carries CEL
//! conditions that compare the new object with the old one. Three things about such conditions are easily
//! got wrong. A key looked up in an absent map is an error, and under `Fail` an error refuses the request
//! without asking the webhook: every step that may find nothing is an optional one (`.?`, `[?`). A loop
//! over a map takes time that grows with the square of its size, within the API server and at anyone's
//! request: the size is asked first. Conditions are joined by "and", so an exemption is an entry of its
//! own, which wins even over an error in another.

use hns_api::{labels, names};
use k8s_openapi::api::admissionregistration::v1::{
    MatchCondition, RuleWithOperations, ServiceReference, ValidatingWebhook, ValidatingWebhookConfiguration,
    WebhookClientConfig,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Above so many labels a request goes to the webhook unlooked at.
const MANY_KEYS: usize = 1000;

/// Seconds after which the API server gives up on an answer.
const TIMEOUT_SECONDS: i32 = 5;

/// What the registrations depend on.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RegistrationSettings {
    /// The namespace of the installation.
    pub namespace: String,
    /// The Service in front of the webhook, in that namespace.
    pub service: String,
    /// The controller's service account, in that namespace. Its own writes are not judged: exactly this
    /// account's, since any wider exemption would be open to whatever else runs in the namespace.
    pub controller_service_account: String,
}

impl Default for RegistrationSettings {
    /// The names that the shipped manifests use.
    fn default() -> Self {
        Self {
            namespace: names::DEFAULT_NAMESPACE.to_owned(),
            service: names::WEBHOOK_SERVICE.to_owned(),
            controller_service_account: names::CONTROLLER_SERVICE_ACCOUNT.to_owned(),
        }
    }
}

/// The whole `ValidatingWebhookConfiguration`, without certificate authorities: who installs it adds
/// `caBundle`.
///
/// The same settings give the same object, down to the order of its entries. Values that the API server
/// would default are written out, so that the object can be compared with the one in the cluster.
pub fn validating(settings: &RegistrationSettings) -> ValidatingWebhookConfiguration {
    ValidatingWebhookConfiguration {
        metadata: ObjectMeta {
            name: Some(names::VALIDATING_WEBHOOK_CONFIGURATION.to_owned()),
            ..ObjectMeta::default()
        },
        webhooks: Some(vec![namespaces(settings), hierarchy_configurations(settings)]),
    }
}

/// Tree labels belong to the controller, and can be written through the subresources as well.
fn namespaces(settings: &RegistrationSettings) -> ValidatingWebhook {
    let rules = vec![
        rule("", &["namespaces"], &["CREATE", "UPDATE"]),
        rule("", &["namespaces/status", "namespaces/finalize"], &["UPDATE"]),
    ];
    let conditions = vec![not_the_controller(settings), condition("can-be-refused", changes_a_tree_label())];
    entry(settings, names::webhooks::NAMESPACES, names::paths::NAMESPACES, rules, conditions)
}

/// A write that leaves the spec as it was is status, and a deletion that leaves no tree concerns nobody else.
fn hierarchy_configurations(settings: &RegistrationSettings) -> ValidatingWebhook {
    let rules = vec![rule(hns_api::GROUP, &["hierarchyconfigurations"], &["CREATE", "UPDATE", "DELETE"])];
    let can_be_refused = [
        "request.operation == 'CREATE'",
        "(request.operation == 'UPDATE' && object.?spec != oldObject.?spec)",
        "(request.operation == 'DELETE' && oldObject.?spec.?parent.orValue('') != '')",
    ];
    let conditions = vec![
        not_the_controller(settings),
        not_the_namespace_controller(),
        condition("can-be-refused", any_of(&can_be_refused)),
    ];
    entry(
        settings,
        names::webhooks::HIERARCHY_CONFIGURATIONS,
        names::paths::HIERARCHY_CONFIGURATIONS,
        rules,
        conditions,
    )
}

fn entry(
    settings: &RegistrationSettings,
    name: &str,
    path: &str,
    rules: Vec<RuleWithOperations>,
    conditions: Vec<MatchCondition>,
) -> ValidatingWebhook {
    ValidatingWebhook {
        name: name.to_owned(),
        admission_review_versions: vec!["v1".to_owned()],
        client_config: WebhookClientConfig {
            service: Some(ServiceReference {
                name: settings.service.clone(),
                namespace: settings.namespace.clone(),
                path: Some(path.to_owned()),
                port: Some(names::WEBHOOK_SERVICE_PORT),
            }),
            ..WebhookClientConfig::default()
        },
        failure_policy: Some("Fail".to_owned()),
        match_conditions: Some(conditions),
        match_policy: Some("Equivalent".to_owned()),
        // There must be none on entries about namespaces: it looks at the new labels only, so a request
        // that takes the selected label away would escape.
        namespace_selector: None,
        object_selector: None,
        rules: Some(rules),
        side_effects: "None".to_owned(),
        timeout_seconds: Some(TIMEOUT_SECONDS),
    }
}

fn rule(group: &str, resources: &[&str], operations: &[&str]) -> RuleWithOperations {
    let owned = |words: &[&str]| Some(words.iter().map(|&word| word.to_owned()).collect());
    RuleWithOperations {
        api_groups: owned(&[group]),
        api_versions: owned(&["*"]),
        resources: owned(resources),
        operations: owned(operations),
        scope: Some("*".to_owned()),
    }
}

fn condition(name: &str, expression: String) -> MatchCondition {
    MatchCondition { name: name.to_owned(), expression }
}

fn not_the_controller(settings: &RegistrationSettings) -> MatchCondition {
    let user = names::service_account_user(&settings.namespace, &settings.controller_service_account);
    let expression = format!("request.userInfo.username != {}", literal(&user));
    condition("not-the-controller", expression)
}

/// The namespace controller empties a terminating namespace and holds no right that a rule could ask of it.
/// The garbage collector must never stand beside it here: anyone who may set an owner reference could
/// delete by its hand.
fn not_the_namespace_controller() -> MatchCondition {
    let users = [names::users::NAMESPACE_CONTROLLER, names::users::CONTROLLER_MANAGER];
    let expression = format!(
        "!(request.operation == 'DELETE' &&\nrequest.userInfo.username in [{}])",
        users.map(literal).join(", ")
    );
    condition("not-the-namespace-controller", expression)
}

/// Whether a tree label is added, changed or removed. On CREATE, where there is no old object, every one is
/// added.
fn changes_a_tree_label() -> String {
    let new = "object.metadata.?labels";
    let old = "oldObject.?metadata.?labels";
    let ours = format!("k.contains({})", literal(labels::TREE_DEPTH_SUFFIX));
    any_of(&[
        &format!("{new}.orValue({{}}).size() > {MANY_KEYS}"),
        &format!("{old}.orValue({{}}).size() > {MANY_KEYS}"),
        &format!("{new}.orValue({{}}).exists(k, {ours} && {new}[?k] != {old}[?k])"),
        &format!("{old}.orValue({{}}).exists(k, {ours} && !(k in {new}.orValue({{}})))"),
    ])
}

/// One alternative per line, as people read them.
fn any_of<S: AsRef<str>>(alternatives: &[S]) -> String {
    let alternatives: Vec<_> = alternatives.iter().map(AsRef::as_ref).collect();
    alternatives.join(" ||\n")
}

/// The text as a literal of CEL, whatever is in it.
fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\\', r"\\").replace('\'', r"\'"))
}

#[cfg(test)]
mod tests;
