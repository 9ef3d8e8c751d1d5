//! Do namespaces wait for one that a change creates? They become its children, and who may not list all namespaces cannot find them.
//! But everybody may read the registration of the webhook, which has the names of all missing parents.

use forest::Name;
use forest::preview::Intent;
use hns_api::names::VALIDATING_WEBHOOK_CONFIGURATION;
use hns_api::names::webhooks::AWAITED_NAMESPACES;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;

use crate::session::Session;

/// How the webhook's expression begins if it lists the names. If they are too many, it has none of them.
const LIST: &str = "object.metadata.?name.orValue('') in [";

/// What the user may not know of the children of the namespaces that the changes create, as clauses.
pub(super) async fn lacking(session: &Session, intents: &[Intent]) -> Vec<String> {
    let created: Vec<&Name> = intents.iter().filter_map(creates).collect();
    if created.is_empty() {
        return Vec::new();
    }
    let registration = session.call(session.all().get(VALIDATING_WEBHOOK_CONFIGURATION)).await.ok();
    created.into_iter().filter_map(|name| clause(name, registration.as_ref())).collect()
}

/// The namespace that the change creates.
fn creates(intent: &Intent) -> Option<&Name> {
    match intent {
        Intent::CreateAnchor { child, .. } | Intent::CreateSubNamespace { child, .. } => Some(child),
        _ => None,
    }
}

fn clause(name: &str, registration: Option<&ValidatingWebhookConfiguration>) -> Option<String> {
    let what = match registration.map(|it| is_awaited(name, it)) {
        Some(Some(false)) => return None,
        Some(Some(true)) => format!("list the namespaces that name {name} as their parent"),
        Some(None) | None => format!("see whether namespaces name {name} as their parent"),
    };
    Some(format!("{what}, which would become its children"))
}

/// Whether a namespace names it as its parent; `None` if the registration does not tell.
fn is_awaited(name: &str, registration: &ValidatingWebhookConfiguration) -> Option<bool> {
    let mut webhooks = registration.webhooks.iter().flatten();
    let Some(webhook) = webhooks.find(|it| it.name == AWAITED_NAMESPACES) else { return Some(false) };
    let mut conditions = webhook.match_conditions.iter().flatten();
    let names = conditions.find_map(|it| it.expression.strip_prefix(LIST)?.split_once(']'));
    names.map(|(names, _)| names.split(", ").any(|it| it.trim_matches('\'') == name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn registration(expressions: &[&str]) -> ValidatingWebhookConfiguration {
        let conditions: Vec<_> =
            expressions.iter().map(|it| json!({ "name": "x", "expression": it })).collect();
        let webhook = json!({
            "name": AWAITED_NAMESPACES, "matchConditions": conditions, "admissionReviewVersions": ["v1"], "clientConfig": {},
            "sideEffects": "None"
        });
        serde_json::from_value(json!({ "metadata": {}, "webhooks": [webhook] })).unwrap()
    }

    /// The expressions are those of the controller.
    #[test]
    fn only_a_name_that_may_be_awaited_is_noted() {
        let not_ours = "request.userInfo.username != 'x'";
        let names =
            "object.metadata.?name.orValue('') in ['gone', 'lost'] &&\n!(object.metadata.?labels == 'new')";
        let too_many = "!(object.metadata.?name.orValue('') in ['new']) && object.metadata.?name.orValue('').matches('.*')";
        let listed =
            Some("list the namespaces that name lost as their parent, which would become its children");
        let unknown =
            Some("see whether namespaces name new as their parent, which would become its children");
        for (name, registration, wanted) in [
            ("lost", Some(registration(&[not_ours, names])), listed),
            ("new", Some(registration(&[not_ours, names])), None),
            ("los", Some(registration(&[names])), None),
            ("new", Some(registration(&[not_ours, too_many])), unknown),
            ("new", Some(ValidatingWebhookConfiguration::default()), None),
            ("new", None, unknown),
        ] {
            assert_eq!(clause(name, registration.as_ref()).as_deref(), wanted, "{name} {registration:?}");
        }
    }

    #[test]
    fn anchors_create_namespaces() {
        let (parent, child): (Name, Name) = ("p".into(), "c".into());
        let create = Intent::CreateAnchor {
            parent: parent.clone(),
            child: child.clone(),
            labels: forest::Labels::default(),
            annotations: forest::Labels::default(),
        };
        assert_eq!(creates(&create), Some(&child));
        assert_eq!(creates(&Intent::DeleteAnchor { parent, child }), None);
    }
}
