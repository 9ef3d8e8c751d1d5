//! `vsubnamespace.kb.io`: reads the request for [`forest::accurate::rules::sub_namespace`]. `subnamespace.accurate.cybozu.io` adds
//! the finalizer to a new `SubNamespace`, and keeps the others.

use std::collections::BTreeMap;

use forest::accurate::keys;
use forest::accurate::rules::sub_namespace::{Request as RuleRequest, review, with_finalizer};
use forest::rules::Denial;
use hns_api::accurate::SubNamespaceSpec;
use hns_api::accurate::names::{paths, webhooks as names};
use hns_cluster::ingest::request_object::Metadata;
use json_patch::Patch;
use serde_json::json;

use super::{
    Context, ReadRequest, Request, RequestStates, Subject, Webhook, adds_owner, loses_finalizer, name,
    namespace_of, spec, user,
};

/// Reviews `SubNamespaces`.
pub(super) struct SubNamespaces;

impl Webhook for SubNamespaces {
    fn name(&self) -> &'static str {
        names::SUB_NAMESPACE
    }

    fn path(&self) -> &'static str {
        paths::SUB_NAMESPACE
    }

    fn subject(&self, request: &Request<'_>) -> Subject {
        Subject::sub_namespace(&name(request))
    }

    fn read<'a>(&self, request: &'a Request<'_>, _: Context) -> Result<ReadRequest<'a>, Denial> {
        let request = read(request)?;
        Ok(ReadRequest::rule(move |forest, answers| review(forest, &request, answers)))
    }
}

fn read(request: &Request<'_>) -> Result<RuleRequest, Denial> {
    let RequestStates { operation, old, new, object } = RequestStates::of(request)?;
    let asked: SubNamespaceSpec = spec(new)?;
    let pairs = |map: Option<BTreeMap<String, String>>| map.into_iter().flatten().collect();
    Ok(RuleRequest {
        operation,
        namespace: namespace_of(request)?,
        name: object.metadata.name(),
        user: user(request),
        labels: pairs(asked.labels),
        annotations: pairs(asked.annotations),
        adds_owner: adds_owner(old, new),
        removes_finalizer: loses_finalizer(old, new, keys::FINALIZER),
    })
}

/// Adds the finalizer to new `SubNamespaces`.
pub(super) struct SubNamespaceFinalizer;

impl Webhook for SubNamespaceFinalizer {
    fn name(&self) -> &'static str {
        names::SUB_NAMESPACE_FINALIZER
    }

    fn path(&self) -> &'static str {
        paths::SUB_NAMESPACE_FINALIZER
    }

    fn subject(&self, request: &Request<'_>) -> Subject {
        Subject::sub_namespace(&name(request))
    }

    fn read<'a>(&self, request: &'a Request<'_>, _: Context) -> Result<ReadRequest<'a>, Denial> {
        Ok(ReadRequest::Patch(request.object.as_ref().and_then(|object| finalizer(&object.metadata))))
    }
}

/// The patch that the `SubNamespace` needs, if any.
fn finalizer(metadata: &Metadata<'_>) -> Option<Patch> {
    let present: Vec<Box<str>> = metadata.finalizers().into_iter().map(Into::into).collect();
    let wanted = with_finalizer(&present)?;
    serde_json::from_value(json!([{ "op": "add", "path": "/metadata/finalizers", "value": wanted }])).ok()
}

#[cfg(test)]
mod tests {
    use hns_cluster::ingest::request_object::RequestObject;

    use super::*;

    #[test]
    fn the_finalizer_is_added_to_those_that_are_there() {
        let ours = "accurate.cybozu.com/finalizer";
        for (present, wanted) in [
            (json!(null), json!([ours])),
            (json!([]), json!([ours])),
            (json!(["a.io/b"]), json!(["a.io/b", ours])),
            (json!([ours, "a.io/b"]), json!([ours, "a.io/b"])),
        ] {
            let mut object = json!({ "metadata": { "name": "a" } });
            if !present.is_null() {
                object["metadata"]["finalizers"] = present;
            }
            let text = object.to_string();
            let read: RequestObject<'_> = serde_json::from_str(&text).unwrap();
            if let Some(patch) = finalizer(&read.metadata) {
                json_patch::patch(&mut object, &patch).unwrap();
            }
            assert_eq!(object, json!({ "metadata": { "name": "a", "finalizers": wanted } }));
        }
    }
}
