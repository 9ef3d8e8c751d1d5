//! `subnamespaceanchors.hnc.x-k8s.io`: reads the request for [`forest::rules::anchor`].

use forest::rules::Denial;
use forest::rules::anchor::Request as RuleRequest;
use hns_api::{SubnamespaceAnchorSpec, annotations};
use hns_runtime::ingest;
use kube::core::DynamicObject;
use serde::Deserialize;

use super::{Request, new, old, operation, pairs, unreadable, user};

/// The rule's request.
pub(crate) fn read(request: &Request) -> Result<RuleRequest, Denial> {
    let operation = operation(request)?;
    let (old, new) = (old(request, operation)?, new(request, operation)?);
    let object = new.or(old).ok_or_else(|| unreadable("it holds no object"))?;
    let namespace = request.namespace.as_deref().filter(|namespace| !namespace.is_empty());
    let spec = spec(new)?;
    Ok(RuleRequest {
        operation,
        parent: namespace.ok_or_else(|| unreadable("it names no namespace"))?.into(),
        child: ingest::name(&object.metadata),
        user: user(request),
        labels: pairs(spec.labels),
        annotations: pairs(spec.annotations),
        initial_admin: (initial_admin(old), initial_admin(new)),
    })
}

fn spec(object: Option<&DynamicObject>) -> Result<SubnamespaceAnchorSpec, Denial> {
    let Some(spec) = object.and_then(|object| object.data.get("spec")) else {
        return Ok(SubnamespaceAnchorSpec::default());
    };
    let spec = Option::<SubnamespaceAnchorSpec>::deserialize(spec);
    Ok(spec.map_err(|error| unreadable(format!("spec: {error}")))?.unwrap_or_default())
}

fn initial_admin(object: Option<&DynamicObject>) -> Option<String> {
    object?.metadata.annotations.as_ref()?.get(annotations::INITIAL_ADMIN).cloned()
}
