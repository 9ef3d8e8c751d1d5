//! `objects.hnc.x-k8s.io`: reads the request for [`forest::rules::object`].
//!
//! The same for a resource and its subresources, of whatever kind.

#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use forest::rules::Denial;
use forest::rules::object::{Request as RuleRequest, State};
use hns_runtime::ingest;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::DynamicObject;
use serde_json::{Map, Value};

use super::{Request, new, old, operation, unreadable, user};

static NOTHING: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);

/// The rule's request.
pub(crate) fn read(request: &Request) -> Result<RuleRequest<'_>, Denial> {
    let operation = operation(request)?;
    let (old, new) = (old(request, operation)?, new(request, operation)?);
    // A generated name stands in the object, not always in the request; a deleted collection has names only in the objects.
    let object = new.or(old).ok_or_else(|| unreadable("it holds no object"))?;
    Ok(RuleRequest {
        operation,
        user: user(request),
        namespace: request.namespace.as_deref().unwrap_or_default().into(),
        group: request.kind.group.clone(),
        kind: request.kind.kind.clone(),
        name: ingest::name(&object.metadata),
        old: old.map(state).transpose()?,
        new: new.map(state).transpose()?,
    })
}

fn state(object: &DynamicObject) -> Result<State<'_>, Denial> {
    let ObjectMeta { labels, annotations, finalizers, deletion_timestamp, .. } = &object.metadata;
    Ok(State {
        labels: labels.clone().unwrap_or_default(),
        annotations: annotations.clone().unwrap_or_default(),
        finalizers: finalizers.clone().unwrap_or_default(),
        owner_references: owner_references(&object.metadata)?,
        terminating: deletion_timestamp.is_some(),
        body: object.data.as_object().unwrap_or(&NOTHING),
    })
}

fn owner_references(metadata: &ObjectMeta) -> Result<Vec<Value>, Denial> {
    let references = metadata.owner_references.iter().flatten().map(serde_json::to_value);
    references
        .collect::<Result<_, _>>()
        .map_err(|error| unreadable(format!("metadata.ownerReferences: {error}")))
}
