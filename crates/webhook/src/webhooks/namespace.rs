//! `namespaces.hnc.x-k8s.io`: reads the request for [`forest::rules::namespace`].
//!
//! The same for `namespaces`, `namespaces/status` and `namespaces/finalize`.

use forest::Labels;
use forest::rules::namespace::Request as RuleRequest;
use forest::rules::{Denial, Operation};
use kube::core::DynamicObject;

use super::{Request, new, old, operation};

/// The rule's request; `None` where no rule applies.
pub(crate) fn read(request: &Request) -> Result<Option<RuleRequest>, Denial> {
    let operation = operation(request)?;
    if operation == Operation::Delete {
        return Ok(None);
    }
    Ok(Some(RuleRequest { old: labels(old(request, operation)?), new: labels(new(request, operation)?) }))
}

fn labels(object: Option<&DynamicObject>) -> Labels {
    let labels = object.and_then(|object| object.metadata.labels.as_ref());
    labels.into_iter().flatten().map(|(key, value)| (key.as_str(), value.as_str())).collect()
}
