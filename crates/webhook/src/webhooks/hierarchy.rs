//! `hierarchyconfigurations.hnc.x-k8s.io`: reads the request for [`forest::rules::hierarchy`].

use forest::Name;
use forest::rules::Denial;
use forest::rules::hierarchy::{Request as RuleRequest, Spec, review};
use hns_api::HierarchyConfigurationSpec;
use hns_api::names::{paths, webhooks as names};
use hns_cluster::ingest::request_object::RequestObject;

use super::{Context, ReadRequest, Request, RequestStates, Subject, Webhook, namespace_of, pairs, user};

/// Reviews `HierarchyConfigurations`.
pub(super) struct HierarchyConfigurations;

impl Webhook for HierarchyConfigurations {
    fn name(&self) -> &'static str {
        names::HIERARCHY_CONFIGURATIONS
    }

    fn path(&self) -> &'static str {
        paths::HIERARCHY_CONFIGURATIONS
    }

    fn subject(&self, _: &Request<'_>) -> Subject {
        Subject::hierarchy()
    }

    fn read<'a>(&self, request: &'a Request<'_>, _: Context) -> Result<ReadRequest<'a>, Denial> {
        let request = read(request)?;
        Ok(ReadRequest::rule(move |forest, answers| review(forest, &request, answers)))
    }
}

fn read(request: &Request<'_>) -> Result<RuleRequest, Denial> {
    let RequestStates { operation, old, new, .. } = RequestStates::of(request)?;
    Ok(RuleRequest {
        operation,
        namespace: namespace_of(request)?,
        user: user(request),
        terminating: old.is_some_and(|old| old.metadata.is_terminating()),
        old: spec(old)?,
        new: spec(new)?,
    })
}

fn spec(object: Option<&RequestObject<'_>>) -> Result<Spec, Denial> {
    let spec: HierarchyConfigurationSpec = super::spec(object)?;
    Ok(Spec {
        parent: spec.parent.filter(|parent| !parent.is_empty()).map(Name::from),
        labels: pairs(spec.labels),
        annotations: pairs(spec.annotations),
        allow_cascading_deletion: spec.allow_cascading_deletion == Some(true),
    })
}
