//! From an admission request to a rule: the table of webhooks, and one file for each.
//!
//! A webhook reads the objects of the request for its rule. It judges nothing.

mod anchor;
mod configuration;
mod hierarchy;
mod mutate;
mod namespace;
mod object;

use std::borrow::Cow;
use std::sync::Arc;

use forest::configuration::Served;
use forest::rules::{Answers, Denial, DenialKind, Operation, User, Verdict};
use forest::{Forest, Settings};
use hns_api::KeyValue;
use hns_cluster::ingest::request_object::RequestObject;
use json_patch::Patch;
use kube::core::admission;
use serde::Deserialize as _;
use serde::de::DeserializeOwned;

use crate::decode::Request;
use crate::respond::Subject;

/// All webhooks. Another one is a module and a line here.
pub(crate) static WEBHOOKS: [&dyn Webhook; 7] = [
    &hierarchy::HierarchyConfigurations,
    &anchor::SubnamespaceAnchors,
    &namespace::Namespaces,
    &object::Objects,
    &configuration::HncConfigurations,
    &mutate::NamespaceLabel,
    &mutate::InitialAdmin,
];

/// One webhook.
pub(crate) trait Webhook: Send + Sync {
    /// Its name in the registration, in metrics and in log lines.
    fn name(&self) -> &'static str;

    /// Where it is served.
    fn path(&self) -> &'static str;

    /// What a denial is about.
    fn subject(&self, request: &Request<'_>) -> Subject;

    /// Whether it must know what the API server serves.
    fn needs_discovery(&self) -> bool {
        false
    }

    /// Reads the objects of a request. What it cannot read it denies.
    fn read<'a>(&self, request: &'a Request<'_>, context: Context) -> Result<Reading<'a>, Denial>;
}

/// What is known beside the request.
pub(crate) struct Context {
    /// What the operator has decided.
    pub(crate) settings: Arc<Settings>,
    /// What the API server serves; `None` where the webhook does not need it.
    pub(crate) served: Option<Result<Served, String>>,
}

/// What is made of a request.
pub(crate) enum Reading<'a> {
    /// A rule judges it.
    Rule(Rule<'a>),
    /// It is allowed, with this patch if it needs one.
    Patch(Option<Patch>),
}

/// A rule with the request that it judges: it answers for a forest and the answers so far.
pub(crate) type Rule<'a> = Box<dyn Fn(&Forest, &Answers) -> Verdict + Send + Sync + 'a>;

impl<'a> Reading<'a> {
    fn rule(rule: impl Fn(&Forest, &Answers) -> Verdict + Send + Sync + 'a) -> Self {
        Self::Rule(Box::new(rule))
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
fn old<'r, 'a>(
    request: &'r Request<'a>,
    operation: Operation,
) -> Result<Option<&'r RequestObject<'a>>, Denial> {
    match (operation, &request.old_object) {
        (Operation::Create, _) => Ok(None),
        (_, Some(object)) => Ok(Some(object)),
        (_, None) => Err(unreadable("it holds no oldObject")),
    }
}

/// The state afterwards; a deleted object has none.
fn new<'r, 'a>(
    request: &'r Request<'a>,
    operation: Operation,
) -> Result<Option<&'r RequestObject<'a>>, Denial> {
    match (operation, &request.object) {
        (Operation::Delete, _) => Ok(None),
        (_, Some(object)) => Ok(Some(object)),
        (_, None) => Err(unreadable("it holds no object")),
    }
}

/// The name of the object of a request. A review of a deleted collection has names only in the objects, and so may one of a
/// generated name.
fn name<'r>(request: &'r Request<'_>) -> Cow<'r, str> {
    let object = match request.operation {
        admission::Operation::Create | admission::Operation::Update => request.object.as_ref(),
        admission::Operation::Delete => request.old_object.as_ref(),
        admission::Operation::Connect => None,
    };
    object.map_or(Cow::Borrowed(&request.name), |object| object.metadata.name().to_string().into())
}

/// The field `spec`, if there is one.
fn spec<T: DeserializeOwned + Default>(object: Option<&RequestObject<'_>>) -> Result<T, Denial> {
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
