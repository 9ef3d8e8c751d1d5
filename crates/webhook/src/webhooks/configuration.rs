//! `hncconfigurations.hnc.x-k8s.io`: reads the request for [`forest::rules::configuration`].

use forest::configuration::{Entry, Served};
use forest::rules::Denial;
use forest::rules::configuration::Request as RuleRequest;
use hns_cluster::configured_kinds::entries_of;
use hns_cluster::ingest::shown::Shown;

use super::{Request, new, old, operation, unreadable};

/// The rule's request, where `served` is what the API server serves.
pub(crate) fn read(request: &Request<'_>, served: Result<Served, String>) -> Result<RuleRequest, Denial> {
    let operation = operation(request)?;
    let (old, new) = (old(request, operation)?, new(request, operation)?);
    let object = new.or(old).ok_or_else(|| unreadable("it holds no object"))?;
    Ok(RuleRequest {
        operation,
        name: object.metadata.name(),
        old: old.map(listed).unwrap_or_default(),
        new: new.map(listed).unwrap_or_default(),
        served,
    })
}

fn listed(object: &Shown<'_>) -> Vec<Result<Entry, String>> {
    entries_of(object.fields.get("spec").as_ref())
}
