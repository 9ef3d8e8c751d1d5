//! Whether hns is installed at all.

use hns_api::names;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIGroupList;

use super::Finding;
use crate::session::Session;

/// The only finding where hns is not installed.
pub(super) async fn check(session: &Session) -> Option<Finding> {
    is_absent(session).await.then(|| {
        Finding::wrong(
            "hns",
            "it is not installed in this cluster: there are no definitions and no registrations of it",
            "Check --context. To install hns: `helm install hns charts/hns --namespace hnc-system --create-namespace`, or \
             `kubectl apply -f config/default.yaml`. README.md describes both.",
        )
    })
}

/// Whether there is nothing of hns: the API server serves none of its kinds, and there is no registration.
async fn is_absent(session: &Session) -> bool {
    let served = session.call(session.client.list_api_groups()).await;
    let is_served = |groups: APIGroupList| groups.groups.iter().any(|it| it.name == hns_api::GROUP);
    if served.map_or(true, is_served) {
        return false;
    }
    let registrations = session.all::<ValidatingWebhookConfiguration>();
    match session.call(registrations.get_metadata_opt(names::VALIDATING_WEBHOOK_CONFIGURATION)).await {
        Ok(found) => found.is_none(),
        Err(problem) => problem.is_forbidden(),
    }
}
