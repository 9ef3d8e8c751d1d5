//! Reads hierarchical quotas, and the derived quotas with the usage of each namespace.

use forest::hnc::quota::DerivedQuotaFact;
use forest::{Fact, Name, hnc, keys};
use hns_api::HierarchicalResourceQuota;
use hns_cluster::api::Api;
use hns_cluster::api_object::StructureObject;
use hns_cluster::ingest::quotas::{derived_quota, quota};
use k8s_openapi::api::core::v1::ResourceQuota;
use kube::CustomResourceExt;
use kube::api::{DynamicObject, ListParams};
use kube::core::ApiResource;

use crate::failure::Problem;
use crate::session::Session;

/// What is said of quotas where they are disabled.
pub(crate) const DISABLED: &str = "hierarchical quotas are disabled in this installation, so they limit nothing; the chart's value \
                                   hrq.enabled or the manifest config/hrq.yaml enables them";

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

fn resource() -> ApiResource {
    ApiResource::erase::<ResourceQuota>(&())
}

fn fact(object: DynamicObject) -> (Name, DerivedQuotaFact) {
    let DynamicObject { metadata, data, .. } = object;
    derived_quota(StructureObject { metadata, data })
}
