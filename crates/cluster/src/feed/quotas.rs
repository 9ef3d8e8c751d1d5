//! The streams of hierarchical quotas and of derived quotas.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use forest::hnc::quota::{DerivedQuotaFact, QuotaFact};
use forest::{Fact, Name, Stream, hnc};
use futures::StreamExt as _;
use hns_api::HierarchicalResourceQuota;
use hns_api::names::DERIVED_QUOTA;
use k8s_openapi::api::core::v1::ResourceQuota;
use kube::api::ListParams;
use kube::core::ApiResource;
use kube::runtime::watcher::{Error, Event, watcher};
use kube::{Api, Client, CustomResourceExt};
use tokio::task::JoinSet;

use super::detail::everything;
use super::stream::{Pump, Translate};
use crate::api_object::StructureObject;
use crate::ingest;

/// Starts both streams.
pub(super) fn start(client: &Client, pump: &Pump, tasks: &mut JoinSet<()>) {
    let resource = HierarchicalResourceQuota::api_resource();
    let quotas = Api::<StructureObject>::all_with(client.clone(), &resource);
    tasks.spawn(pump.clone().run(Quotas, move || watcher(quotas.clone(), everything())));
    let derived = Api::<StructureObject>::all_with(client.clone(), &ApiResource::erase::<ResourceQuota>(&()));
    let listed = Arc::<AtomicU64>::default();
    let translate = DerivedQuotas { listed: listed.clone() };
    tasks.spawn(pump.clone().run(translate, move || {
        let (derived, listed) = (derived.clone(), listed.clone());
        let events = watcher(derived.clone(), everything().fields(&selector()));
        events.then(move |event| with_version(derived.clone(), listed.clone(), event))
    }));
}

fn selector() -> String {
    format!("metadata.name={DERIVED_QUOTA}")
}

/// Before a list begins, notes the resource version that the API server has reached: the list is at least as new. A list of
/// `watcher` does not tell its own.
async fn with_version(
    derived: Api<StructureObject>,
    listed: Arc<AtomicU64>,
    event: Result<Event<StructureObject>, Error>,
) -> Result<Event<StructureObject>, Error> {
    if matches!(event, Ok(Event::Init)) {
        let params = ListParams::default().fields(&selector()).limit(1);
        let reached = derived.list_metadata(&params).await.map_err(Error::InitialListFailed)?;
        let version = reached.metadata.resource_version.and_then(|version| version.parse().ok());
        listed.store(version.unwrap_or_default(), Ordering::Relaxed);
    }
    event
}

struct Quotas;

impl Translate<StructureObject> for Quotas {
    type Item = (Name, QuotaFact);

    fn stream(&self) -> (Stream, String) {
        (Stream::HIERARCHICAL_QUOTAS, Stream::HIERARCHICAL_QUOTAS.to_string())
    }

    fn item(&self, object: StructureObject) -> Self::Item {
        ingest::quotas::quota(object.into())
    }

    fn seen(&self, (namespace, quota): Self::Item) -> Fact {
        Fact::Hnc(hnc::Fact::Quota(namespace, quota))
    }

    fn gone(&self, object: StructureObject) -> Fact {
        let (namespace, quota) = self.item(object);
        Fact::Hnc(hnc::Fact::QuotaGone(namespace, quota.name, quota.version.uid))
    }

    fn all(&self, items: Vec<Self::Item>) -> Fact {
        Fact::Hnc(hnc::Fact::Quotas(items))
    }
}

struct DerivedQuotas {
    /// The resource version that the present list has at least.
    listed: Arc<AtomicU64>,
}

impl Translate<StructureObject> for DerivedQuotas {
    type Item = (Name, DerivedQuotaFact);

    fn stream(&self) -> (Stream, String) {
        (Stream::DERIVED_QUOTAS, Stream::DERIVED_QUOTAS.to_string())
    }

    fn item(&self, object: StructureObject) -> Self::Item {
        ingest::quotas::derived_quota(object)
    }

    fn seen(&self, (namespace, quota): Self::Item) -> Fact {
        Fact::Hnc(hnc::Fact::DerivedQuota(namespace, quota))
    }

    fn gone(&self, object: StructureObject) -> Fact {
        let (namespace, quota) = self.item(object);
        let number = quota.number();
        Fact::Hnc(hnc::Fact::DerivedQuotaGone(namespace, quota.version.uid, number))
    }

    fn all(&self, items: Vec<Self::Item>) -> Fact {
        Fact::Hnc(hnc::Fact::DerivedQuotas(items, self.listed.load(Ordering::Relaxed)))
    }
}
