//! In which namespace hns is installed. Where the user does not say it, the registration of its webhooks does: it has a fixed name,
//! and everybody who can log in may read it. Looks at nothing in that namespace.

use hns_api::names::{DEFAULT_NAMESPACE, VALIDATING_WEBHOOK_CONFIGURATION};
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;

use crate::session::Session;

/// The namespace of the Service that the registration names. The usual one, if there is no registration, it names no Service, or
/// it cannot be read.
pub(crate) async fn find(session: &Session) -> String {
    let api = session.all::<ValidatingWebhookConfiguration>();
    let registration = session.call(api.get(VALIDATING_WEBHOOK_CONFIGURATION)).await.ok();
    registration.and_then(namespace).unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned())
}

fn namespace(registration: ValidatingWebhookConfiguration) -> Option<String> {
    let mut webhooks = registration.webhooks.into_iter().flatten();
    webhooks.find_map(|webhook| Some(webhook.client_config.service?.namespace))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_registration_names_the_namespace_of_its_service() {
        let registration = |config| {
            let webhook = json!({
                "name": "x", "admissionReviewVersions": ["v1"], "sideEffects": "None", "clientConfig": config,
            });
            let object = json!({ "metadata": {}, "webhooks": [webhook] });
            serde_json::from_value::<ValidatingWebhookConfiguration>(object).unwrap()
        };
        let service = registration(json!({ "service": { "name": "s", "namespace": "home" } }));
        assert_eq!(namespace(service).as_deref(), Some("home"));
        assert_eq!(namespace(registration(json!({ "url": "https://127.0.0.1" }))), None);
        assert_eq!(namespace(ValidatingWebhookConfiguration::default()), None);
    }
}
