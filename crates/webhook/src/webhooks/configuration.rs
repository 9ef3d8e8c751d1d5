//! `hncconfigurations.hnc.x-k8s.io`: reads the request for [`forest::rules::configuration`].

use forest::configuration::Served;
use forest::rules::Denial;
use forest::rules::configuration::{Request as RuleRequest, review};
use hns_api::names::{paths, webhooks as names};
use hns_cluster::configured_kinds::{entries_of, trees_of};
use hns_cluster::ingest::request_object::RequestObject;

use super::{Context, ReadRequest, Request, RequestStates, Subject, Webhook};

/// Reviews the `HNCConfiguration`.
pub(super) struct HncConfigurations;

impl Webhook for HncConfigurations {
    fn name(&self) -> &'static str {
        names::HNC_CONFIGURATIONS
    }

    fn path(&self) -> &'static str {
        paths::HNC_CONFIGURATIONS
    }

    fn subject(&self, _: &Request<'_>) -> Subject {
        Subject::configuration()
    }

    /// Only the API server knows a CRD that was just created.
    fn needs_discovery(&self) -> bool {
        true
    }

    fn read<'a>(&self, request: &'a Request<'_>, context: Context) -> Result<ReadRequest<'a>, Denial> {
        let unknown = || Err("it was not asked".to_owned());
        let request = read(request, context.served.unwrap_or_else(unknown))?;
        Ok(ReadRequest::rule(move |forest, answers| review(forest, &request, answers)))
    }
}

fn read(request: &Request<'_>, served: Result<Served, String>) -> Result<RuleRequest, Denial> {
    let RequestStates { operation, old, new, object } = RequestStates::of(request)?;
    let spec = |object: Option<&RequestObject<'_>>| object.and_then(|it| it.fields.get("spec"));
    let (old, new) = (spec(old), spec(new));
    Ok(RuleRequest {
        operation,
        name: object.metadata.name(),
        old: entries_of(old.as_ref()),
        new: entries_of(new.as_ref()),
        trees: [old, new].map(|spec| trees_of(spec.as_ref())),
        served,
    })
}
