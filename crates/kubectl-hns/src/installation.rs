//! The namespace of the installation, and whether its definitions are being deleted. Unless the user names the namespace, it is read from
//! the webhook registration, which has a fixed name and which all authenticated users may read.

use hns_api::names::DEFAULT_NAMESPACE;
use hns_api::{HierarchyConfiguration, SubnamespaceAnchor};
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

use crate::Failure;
use crate::failure::Done;
use crate::session::Session;

/// The variable that names the namespace as the flag does.
pub(crate) const VARIABLE: &str = "HNS_INSTALLATION";

/// The namespace of the Service in the registration; the default namespace if there is none.
pub(crate) fn namespace(registration: Option<ValidatingWebhookConfiguration>) -> String {
    registration.and_then(registered).unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned())
}

/// The namespace of the Service in the registration. A registration can have an address in its place.
pub(crate) fn registered(registration: ValidatingWebhookConfiguration) -> Option<String> {
    let mut webhooks = registration.webhooks.into_iter().flatten();
    webhooks.find_map(|webhook| Some(webhook.client_config.service?.namespace))
}

/// What is said while the definitions are being deleted.
pub(crate) const DEFINITIONS_GO: &str = "The definitions of hns are being deleted, with all their objects. Until they are there again, hns \
                                         changes nothing. `kubectl hns doctor` says what to do.";

/// Fails while a definition is being deleted on which the hierarchy depends: `what` is not known or has no effect then.
pub(crate) async fn are_defined(session: &Session, what: &str) -> Done {
    let (hierarchies, anchors) = tokio::join!(
        is_definition_deleted::<HierarchyConfiguration>(session),
        is_definition_deleted::<SubnamespaceAnchor>(session)
    );
    if hierarchies || anchors { Err(without_definitions(what)) } else { Ok(()) }
}

/// The failure that a deleted definition is the cause of.
pub(crate) fn without_definitions(what: impl std::fmt::Display) -> Failure {
    Failure::new(format!("Error: {what}")).with_hint(DEFINITIONS_GO)
}

/// Whether the definition of a kind is being deleted, with all its objects; false for a user who may not read it. One request, for answers
/// that are unusual otherwise.
pub(crate) async fn is_definition_deleted<K: CustomResourceExt>(session: &Session) -> bool {
    let definitions = session.all::<CustomResourceDefinition>();
    let found = session.call(definitions.get_metadata(K::crd_name())).await;
    found.is_ok_and(|it| it.metadata.deletion_timestamp.is_some())
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
        assert_eq!(namespace(Some(service)), "home");
        for other in [
            Some(registration(json!({ "url": "https://127.0.0.1" }))),
            Some(ValidatingWebhookConfiguration::default()),
            None,
        ] {
            assert_eq!(namespace(other), DEFAULT_NAMESPACE);
        }
    }
}
