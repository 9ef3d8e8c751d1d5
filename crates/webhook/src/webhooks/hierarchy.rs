//! `hierarchyconfigurations.hnc.x-k8s.io`: reads the request for [`forest::rules::hierarchy`].

use forest::Name;
use forest::rules::Denial;
use forest::rules::hierarchy::{Request as RuleRequest, Spec};
use hns_api::HierarchyConfigurationSpec;
use hns_cluster::ingest::shown::Shown;

use super::{Request, new, old, operation, pairs, unreadable, user};

/// The rule's request.
pub(crate) fn read(request: &Request<'_>) -> Result<RuleRequest, Denial> {
    let operation = operation(request)?;
    let old = old(request, operation)?;
    let new = new(request, operation)?;
    // A review of a deleted collection carries no name, but always the namespace.
    let namespace = request.namespace.as_deref().filter(|namespace| !namespace.is_empty());
    Ok(RuleRequest {
        operation,
        namespace: namespace.ok_or_else(|| unreadable("it names no namespace"))?.into(),
        user: user(request),
        terminating: old.is_some_and(|old| old.metadata.is_terminating()),
        old: spec(old)?,
        new: spec(new)?,
    })
}

fn spec(object: Option<&Shown<'_>>) -> Result<Spec, Denial> {
    let spec: HierarchyConfigurationSpec = super::spec(object)?;
    Ok(Spec {
        parent: spec.parent.filter(|parent| !parent.is_empty()).map(Name::from),
        labels: pairs(spec.labels),
        annotations: pairs(spec.annotations),
    })
}
