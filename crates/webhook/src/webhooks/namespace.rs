//! `namespaces.hnc.x-k8s.io`: reads the request for [`forest::rules::namespace`].
//!
//! The same for `namespaces`, `namespaces/status` and `namespaces/finalize`.

use forest::rules::Denial;
use forest::rules::namespace::{Marks, Request as RuleRequest, review};
use hns_api::names::{paths, webhooks as names};
use hns_cluster::ingest::request_object::RequestObject;

use super::{Context, ReadRequest, Request, RequestStates, Subject, Webhook, name, user};

/// Reviews namespaces.
pub(super) struct Namespaces;

impl Webhook for Namespaces {
    fn name(&self) -> &'static str {
        names::NAMESPACES
    }

    fn path(&self) -> &'static str {
        paths::NAMESPACES
    }

    fn subject(&self, request: &Request<'_>) -> Subject {
        Subject::namespace(&name(request))
    }

    fn read<'a>(&self, request: &'a Request<'_>, _: Context) -> Result<ReadRequest<'a>, Denial> {
        let request = read(request)?;
        Ok(ReadRequest::rule(move |forest, answers| review(forest, &request, answers)))
    }
}

fn read<'a>(request: &Request<'a>) -> Result<RuleRequest<'a>, Denial> {
    let RequestStates { operation, old, new, object } = RequestStates::of(request)?;
    Ok(RuleRequest {
        operation,
        name: object.metadata.name(),
        user: user(request),
        old: marks(old),
        new: marks(new),
    })
}

fn marks<'a>(object: Option<&RequestObject<'a>>) -> Marks<'a> {
    let Some(RequestObject { metadata, .. }) = object else { return Marks::default() };
    Marks {
        labels: metadata.labels.clone().unwrap_or_default(),
        annotations: metadata.annotations.clone().unwrap_or_default(),
    }
}
