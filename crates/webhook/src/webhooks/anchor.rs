//! `subnamespaceanchors.hnc.x-k8s.io`: reads the request for [`forest::rules::anchor`].

use forest::keys;
use forest::rules::Denial;
use forest::rules::anchor::{Request as RuleRequest, review};
use hns_api::names::{paths, webhooks as names};
use hns_api::{SubnamespaceAnchorSpec, SubnamespaceAnchorStatus, annotations};
use hns_cluster::ingest::request_object::RequestObject;

use super::{
    Context, ReadRequest, Request, RequestStates, Subject, Webhook, adds_owner, loses_finalizer, name,
    namespace_of, pairs, spec, unreadable, user,
};

/// Reviews anchors.
pub(super) struct SubnamespaceAnchors;

impl Webhook for SubnamespaceAnchors {
    fn name(&self) -> &'static str {
        names::SUBNAMESPACE_ANCHORS
    }

    fn path(&self) -> &'static str {
        paths::SUBNAMESPACE_ANCHORS
    }

    fn subject(&self, request: &Request<'_>) -> Subject {
        Subject::anchor(&name(request))
    }

    fn read<'a>(&self, request: &'a Request<'_>, _: Context) -> Result<ReadRequest<'a>, Denial> {
        let request = read(request)?;
        Ok(ReadRequest::rule(move |forest, answers| review(forest, &request, answers)))
    }
}

fn read(request: &Request<'_>) -> Result<RuleRequest, Denial> {
    let RequestStates { operation, old, new, object } = RequestStates::of(request)?;
    let asked: SubnamespaceAnchorSpec = spec(new)?;
    let before: SubnamespaceAnchorSpec = spec(old.filter(|_| new.is_some())).unwrap_or_default();
    Ok(RuleRequest {
        operation,
        parent: namespace_of(request)?,
        child: object.metadata.name(),
        user: user(request),
        labels: pairs(asked.labels),
        annotations: pairs(asked.annotations),
        old: (pairs(before.labels).into_iter().collect(), pairs(before.annotations).into_iter().collect()),
        initial_admin: (initial_admin(old), initial_admin(new)),
        state: (state(old)?, state(new)?),
        adds_owner: adds_owner(old, new),
        removes_finalizer: removes_finalizer(old, new),
    })
}

/// Whether an anchor that is not being deleted loses the controller's finalizer.
fn removes_finalizer(old: Option<&RequestObject<'_>>, new: Option<&RequestObject<'_>>) -> bool {
    let is_going = old.is_some_and(|old| old.metadata.is_terminating());
    !is_going && loses_finalizer(old, new, keys::ANCHOR_FINALIZER)
}

/// The stored or requested `status.status`. The schema allows only an object with a text.
fn state(object: Option<&RequestObject<'_>>) -> Result<Option<String>, Denial> {
    let Some(status) = object.and_then(|object| object.status.as_deref()) else { return Ok(None) };
    let status: Option<SubnamespaceAnchorStatus> =
        serde_json::from_str(status.get()).map_err(|error| unreadable(format!("status: {error}")))?;
    Ok(status.and_then(|status| status.status))
}

fn initial_admin(object: Option<&RequestObject<'_>>) -> Option<String> {
    object?.metadata.annotations.as_ref()?.get(annotations::INITIAL_ADMIN).map(str::to_owned)
}
