//! `namespaces.hnc.x-k8s.io`: reads the request for [`forest::rules::namespace`].
//!
//! The same for `namespaces`, `namespaces/status` and `namespaces/finalize`.

use forest::rules::Denial;
use forest::rules::namespace::{Marks, Request as RuleRequest};
use hns_runtime::ingest;
use kube::core::DynamicObject;

use super::{Request, new, old, operation, unreadable, user};

/// The rule's request.
pub(crate) fn read(request: &Request) -> Result<RuleRequest, Denial> {
    let operation = operation(request)?;
    let (old, new) = (old(request, operation)?, new(request, operation)?);
    // A review of a deleted collection carries no name, and one of a generated name may not either.
    let object = new.or(old).ok_or_else(|| unreadable("it holds no object"))?;
    Ok(RuleRequest {
        operation,
        name: ingest::name(&object.metadata),
        user: user(request),
        old: marks(old),
        new: marks(new),
    })
}

fn marks(object: Option<&DynamicObject>) -> Marks {
    let metadata = object.map(|object| &object.metadata);
    Marks {
        labels: ingest::pairs(metadata.and_then(|metadata| metadata.labels.as_ref())),
        annotations: ingest::pairs(metadata.and_then(|metadata| metadata.annotations.as_ref())),
    }
}
