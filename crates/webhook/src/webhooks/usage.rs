//! `resourcesquotasstatus.hnc.x-k8s.io`: reads the request for [`forest::rules::usage`].

use forest::hnc::quota::Resources;
use forest::rules::usage::Request as RuleRequest;
use forest::rules::{Denial, Operation};
use hns_api::annotations;
use hns_api::names::{DERIVED_QUOTA, paths, webhooks as names};
use hns_cluster::ingest::quotas::amounts;
use hns_cluster::ingest::request_object::RequestObject;
use serde_json::Value;

use super::{Context, ReadRequest, Request, RequestStates, Subject, Webhook, name, namespace_of, unreadable};

/// Reviews the usage that the status of a derived quota shows.
pub(super) struct Usage;

impl Webhook for Usage {
    fn name(&self) -> &'static str {
        names::RESOURCE_QUOTAS_STATUS
    }

    fn path(&self) -> &'static str {
        paths::RESOURCE_QUOTAS_STATUS
    }

    fn subject(&self, _: &Request<'_>) -> Subject {
        Subject::usage()
    }

    fn read<'a>(&self, request: &'a Request<'_>, _: Context) -> Result<ReadRequest<'a>, Denial> {
        let RequestStates { operation, old, new, .. } = RequestStates::of(request)?;
        let (Some(old), Some(new), Operation::Update, DERIVED_QUOTA) = (old, new, operation, &*name(request))
        else {
            return Ok(ReadRequest::Patch(None));
        };
        let annotations = old.metadata.annotations.as_ref();
        let change = RuleRequest {
            namespace: namespace_of(request)?,
            version: old.metadata.version(),
            sources: annotations.and_then(|it| it.get(annotations::HRQ_SOURCES)).unwrap_or_default().into(),
            old: used(old)?,
            new: used(new)?,
            user: request.user_info.username.clone().unwrap_or_default(),
        };
        Ok(change.increase().map_or(ReadRequest::Patch(None), ReadRequest::Increase))
    }
}

fn used(object: &RequestObject<'_>) -> Result<Resources, Denial> {
    let Some(status) = object.status.as_deref() else { return Ok(Resources::new()) };
    let status: Value =
        serde_json::from_str(status.get()).map_err(|error| unreadable(format!("status: {error}")))?;
    Ok(amounts(&status["used"]))
}
