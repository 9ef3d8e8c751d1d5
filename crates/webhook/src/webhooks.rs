//! From an admission request to a rule's request: one file per webhook.
//!
//! A webhook reads the objects of the request and names the rule. What it cannot read it denies. Judges nothing.

pub(crate) mod anchor;
pub(crate) mod configuration;
pub(crate) mod hierarchy;
pub(crate) mod mutate;
pub(crate) mod namespace;
pub(crate) mod object;

use std::borrow::Cow;

use forest::rules::{Denial, DenialKind, Operation, User};
use hns_api::KeyValue;
use hns_cluster::ingest::shown::Shown;
use kube::core::admission;
use serde::Deserialize as _;
use serde::de::DeserializeOwned;

use crate::decode::Request;

/// What the rules make of what was read.
mod rules {
    use forest::Forest;
    use forest::rules::adoption::{self, Adoption};
    use forest::rules::{Answers, Verdict, anchor, configuration, hierarchy, namespace, object};

    use crate::judge::Rule;

    impl Rule for hierarchy::Request {
        fn judge(&self, forest: &Forest, answers: &Answers) -> Verdict {
            hierarchy::review(forest, self, answers)
        }

        fn adoption(&self, forest: &Forest) -> Option<Adoption> {
            adoption::of_hierarchy(forest, self)
        }
    }

    impl Rule for namespace::Request<'_> {
        fn judge(&self, forest: &Forest, answers: &Answers) -> Verdict {
            namespace::review(forest, self, answers)
        }

        fn adoption(&self, forest: &Forest) -> Option<Adoption> {
            adoption::of_namespace(forest, self)
        }
    }

    impl Rule for anchor::Request {
        fn judge(&self, forest: &Forest, answers: &Answers) -> Verdict {
            anchor::review(forest, self, answers)
        }
    }

    impl Rule for configuration::Request {
        fn judge(&self, forest: &Forest, answers: &Answers) -> Verdict {
            configuration::review(forest, self, answers)
        }
    }

    impl Rule for object::Request<'_> {
        fn judge(&self, forest: &Forest, answers: &Answers) -> Verdict {
            object::review(forest, self, answers)
        }
    }
}

fn unreadable(what: impl std::fmt::Display) -> Denial {
    Denial::new(DenialKind::BadRequest, format!("the request cannot be judged: {what}"))
}

fn operation(request: &Request<'_>) -> Result<Operation, Denial> {
    match request.operation {
        admission::Operation::Create => Ok(Operation::Create),
        admission::Operation::Update => Ok(Operation::Update),
        admission::Operation::Delete => Ok(Operation::Delete),
        admission::Operation::Connect => Err(unreadable("CONNECT is not an operation on this resource")),
    }
}

/// The state before; a new object has none.
fn old<'r, 'a>(request: &'r Request<'a>, operation: Operation) -> Result<Option<&'r Shown<'a>>, Denial> {
    match (operation, &request.old_object) {
        (Operation::Create, _) => Ok(None),
        (_, Some(object)) => Ok(Some(object)),
        (_, None) => Err(unreadable("it holds no oldObject")),
    }
}

/// The state afterwards; a deleted object has none.
fn new<'r, 'a>(request: &'r Request<'a>, operation: Operation) -> Result<Option<&'r Shown<'a>>, Denial> {
    match (operation, &request.object) {
        (Operation::Delete, _) => Ok(None),
        (_, Some(object)) => Ok(Some(object)),
        (_, None) => Err(unreadable("it holds no object")),
    }
}

/// The name of what is asked about. A review of a deleted collection names nothing but objects, and one of a generated name may
/// not either.
pub(crate) fn name<'r>(request: &'r Request<'_>) -> Cow<'r, str> {
    let object = match request.operation {
        admission::Operation::Create | admission::Operation::Update => request.object.as_ref(),
        admission::Operation::Delete => request.old_object.as_ref(),
        admission::Operation::Connect => None,
    };
    object.map_or(Cow::Borrowed(&request.name), |object| object.metadata.name().to_string().into())
}

/// The field `spec`, if there is one.
fn spec<T: DeserializeOwned + Default>(object: Option<&Shown<'_>>) -> Result<T, Denial> {
    let Some(object) = object else { return Ok(T::default()) };
    let text = object.fields.text("spec").map_or("null", |text| text.get());
    if let Ok(spec) = serde_json::from_str::<Option<T>>(text) {
        return Ok(spec.unwrap_or_default());
    }
    // Read again for an error that does not count lines: what is wrong is what users want to know.
    let spec = object.fields.get("spec").map(Option::<T>::deserialize).transpose();
    Ok(spec.map_err(|error| unreadable(format!("spec: {error}")))?.flatten().unwrap_or_default())
}

fn user(request: &Request<'_>) -> User {
    let info = &request.user_info;
    User { name: info.username.clone().unwrap_or_default(), groups: info.groups.clone().unwrap_or_default() }
}

fn pairs(listed: Option<Vec<KeyValue>>) -> Vec<(String, String)> {
    listed.into_iter().flatten().map(|pair| (pair.key, pair.value)).collect()
}
