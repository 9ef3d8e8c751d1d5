//! Reads hierarchical quotas, and the derived quotas with the usage of each namespace.

use std::collections::BTreeMap;

use forest::hnc::quota::DerivedQuotaFact;
use forest::{Fact, Name, Quantity, hnc, keys};
use hns_api::HierarchicalResourceQuota;
use hns_cluster::api::Api;
use hns_cluster::api_object::StructureObject;
use hns_cluster::ingest::quotas::{amounts, derived_quota, quota};
use k8s_openapi::api::core::v1::ResourceQuota;
use kube::CustomResourceExt;
use kube::api::{DynamicObject, ListParams};
use kube::core::ApiResource;
use serde_json::json;

use crate::failure::Problem;
use crate::session::Session;

/// What is said of quotas where they are disabled.
pub(crate) const DISABLED: &str = "hierarchical quotas are disabled in this installation, so they limit nothing; the chart's value \
                                   hrq.enabled or the manifest config/hrq.yaml enables them";

/// What is said of a quota with this reason of its condition `Enforced`. The message names the limits.
pub(crate) fn not_enforced(reason: &str) -> &'static str {
    if reason == "LimitsNotCounted" { "not all limits are enforced" } else { "not enforced" }
}

/// All quotas of the cluster, as facts.
///
/// # Errors
/// A list failed, also because of missing rights.
pub(crate) async fn read(session: &Session) -> Result<[Fact; 2], Problem> {
    let resource = HierarchicalResourceQuota::api_resource();
    let quotas = Api::<DynamicObject>::all_with(session.client.clone(), &resource);
    let params = ListParams::default();
    let (quotas, derived) = futures::join!(session.list(&quotas, &params), usage(session));
    let quotas = quotas?.into_iter().map(quota).collect();
    Ok([hnc::Fact::Quotas(quotas), hnc::Fact::DerivedQuotas(derived?, 0)].map(Fact::Hnc))
}

/// The derived quotas of the cluster, with their namespaces.
///
/// # Errors
/// The list failed, also because of missing rights.
pub(crate) async fn usage(session: &Session) -> Result<Vec<(Name, DerivedQuotaFact)>, Problem> {
    let all = Api::<DynamicObject>::all_with(session.client.clone(), &resource());
    let params = ListParams::default().fields(&format!("metadata.name={}", keys::DERIVED_QUOTA));
    Ok(session.list(&all, &params).await?.into_iter().map(fact).collect())
}

/// The derived quota of one namespace, if it has one.
///
/// # Errors
/// The request failed, also because of missing rights.
pub(crate) async fn derived_in(
    session: &Session,
    namespace: &str,
) -> Result<Option<DerivedQuotaFact>, Problem> {
    let api = Api::<DynamicObject>::namespaced_with(session.client.clone(), namespace, &resource());
    let found = session.call(api.get_opt(keys::DERIVED_QUOTA)).await?;
    Ok(found.map(|object| fact(object).1))
}

/// How a `ResourceQuota` of the namespace refuses one of these new objects of a kind, in the API server's words. Quotas that the user
/// may not read are not known.
pub(crate) async fn exceeded_by<K: CustomResourceExt>(
    session: &Session,
    namespace: &str,
    new: &[Name],
) -> Option<String> {
    let quotas =
        session.list(&session.within::<ResourceQuota>(namespace), &ListParams::default()).await.ok()?;
    quotas.iter().find_map(|quota| exceeded(quota, K::crd_name(), new))
}

fn exceeded(quota: &ResourceQuota, resource: &str, new: &[Name]) -> Option<String> {
    let counted = format!("count/{resource}");
    let status = quota.status.as_ref()?;
    let amount = |of: &Option<BTreeMap<String, _>>| amounts(&json!(of)).get(&*counted).copied();
    let (limit, used) = (amount(&status.hard)?, amount(&status.used).unwrap_or_default());
    let room = (1..).zip(new).find(|(number, _)| used + Quantity::whole(*number) > limit);
    room.map(|(number, child)| {
        let used = used + Quantity::whole(number - 1);
        let name = quota.metadata.name.as_deref().unwrap_or_default();
        format!(
            "{resource} {child:?} is forbidden: exceeded quota: {name}, requested: {counted}=1, used: {counted}={used}, limited: \
             {counted}={limit}"
        )
    })
}

fn resource() -> ApiResource {
    ApiResource::erase::<ResourceQuota>(&())
}

fn fact(object: DynamicObject) -> (Name, DerivedQuotaFact) {
    let DynamicObject { metadata, data, .. } = object;
    derived_quota(StructureObject { metadata, data })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anchors_beyond_a_quota_are_refused_in_the_words_of_the_api_server() {
        let resource = "subnamespaceanchors.hnc.x-k8s.io";
        let counted = "count/subnamespaceanchors.hnc.x-k8s.io";
        let quota = |hard: serde_json::Value, used: &str| -> ResourceQuota {
            let status = json!({ "hard": hard, "used": { counted: used } });
            serde_json::from_value(json!({ "metadata": { "name": "q" }, "status": status })).unwrap()
        };
        let new = ["a".into(), "b".into()];
        assert_eq!(exceeded(&quota(json!({ counted: "3" }), "1"), resource, &new), None);
        assert_eq!(
            exceeded(&quota(json!({ counted: "1" }), "1"), "subnamespaces.accurate.cybozu.com", &new),
            None
        );
        assert_eq!(exceeded(&quota(json!({ "pods": "0" }), "1"), resource, &new), None);
        assert_eq!(
            exceeded(&quota(json!({ counted: "2" }), "1"), resource, &new).as_deref(),
            Some(
                "subnamespaceanchors.hnc.x-k8s.io \"b\" is forbidden: exceeded quota: q, requested: \
                 count/subnamespaceanchors.hnc.x-k8s.io=1, used: count/subnamespaceanchors.hnc.x-k8s.io=2, limited: \
                 count/subnamespaceanchors.hnc.x-k8s.io=2"
            )
        );
    }
}
