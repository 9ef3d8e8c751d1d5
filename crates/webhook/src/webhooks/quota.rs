//! `hrq.hnc.x-k8s.io`: reads the request for [`forest::rules::quota`].

use forest::rules::Denial;
use forest::rules::quota::{Request as RuleRequest, review};
use hns_api::names::{paths, webhooks as names};
use hns_cluster::ingest::quotas::quantities;

use super::{Context, ReadRequest, Request, RequestStates, Subject, Webhook, name, namespace_of};

/// Reviews hierarchical quotas.
pub(super) struct HierarchicalQuotas;

impl Webhook for HierarchicalQuotas {
    fn name(&self) -> &'static str {
        names::HIERARCHICAL_RESOURCE_QUOTAS
    }

    fn path(&self) -> &'static str {
        paths::HIERARCHICAL_RESOURCE_QUOTAS
    }

    fn subject(&self, request: &Request<'_>) -> Subject {
        Subject::quota(&name(request))
    }

    fn read<'a>(&self, request: &'a Request<'_>, _: Context) -> Result<ReadRequest<'a>, Denial> {
        let RequestStates { new, object, .. } = RequestStates::of(request)?;
        let spec = new.and_then(|new| new.fields.get("spec")).unwrap_or_default();
        let request = RuleRequest {
            namespace: namespace_of(request)?,
            name: object.metadata.name(),
            hard: quantities(&spec["hard"]),
        };
        Ok(ReadRequest::rule(move |forest, _| review(forest, &request)))
    }
}
