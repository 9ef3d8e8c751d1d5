//! `objects.hnc.x-k8s.io`: reads the request for [`forest::rules::object`].
//!
//! The same for a resource and its subresources, of any kind.

#[cfg(test)]
mod tests;

use forest::rules::Denial;
use forest::rules::object::{Request as RuleRequest, State, review};
use hns_api::names::{paths, webhooks as names};
use hns_cluster::ingest::request_object::{Metadata, RequestObject};
use serde_json::Value;

use super::{Context, ReadRequest, Request, RequestStates, Subject, Webhook, name, unreadable, user};

/// Reviews objects of propagated kinds. All entries of the registration for objects call it.
pub(super) struct Objects;

impl Webhook for Objects {
    fn name(&self) -> &'static str {
        names::OBJECTS
    }

    fn path(&self) -> &'static str {
        paths::OBJECTS
    }

    fn subject(&self, request: &Request<'_>) -> Subject {
        let namespace = request.namespace.as_deref().unwrap_or_default();
        Subject::object(request, namespace, &name(request))
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
        user: user(request),
        namespace: request.namespace.as_deref().unwrap_or_default().into(),
        group: request.kind.group.clone().into_owned(),
        kind: request.kind.kind.clone().into_owned(),
        name: object.metadata.name(),
        old: old.map(state).transpose()?,
        new: new.map(state).transpose()?,
    })
}

fn state<'a>(RequestObject { metadata, fields, .. }: &RequestObject<'a>) -> Result<State<'a>, Denial> {
    Ok(State {
        labels: metadata.labels.clone().unwrap_or_default(),
        annotations: metadata.annotations.clone().unwrap_or_default(),
        finalizers: metadata.finalizers(),
        owner_references: owner_references(metadata)?,
        terminating: metadata.is_terminating(),
        body: fields.clone(),
    })
}

fn owner_references(metadata: &Metadata<'_>) -> Result<Vec<Value>, Denial> {
    let references = metadata.owner_references().iter().map(serde_json::to_value);
    references
        .collect::<Result<_, _>>()
        .map_err(|error| unreadable(format!("metadata.ownerReferences: {error}")))
}
