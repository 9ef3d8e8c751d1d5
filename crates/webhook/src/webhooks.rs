//! From an admission request to a rule: the table of webhooks, and one file for each.
//!
//! A webhook reads the objects of the request for its rule. It judges nothing.

mod anchor;
mod configuration;
mod hierarchy;
mod mutate;
mod namespace;
mod object;
mod quota;
mod sub_namespace;
mod usage;

use std::borrow::Cow;
use std::sync::Arc;

use forest::configuration::Served;
use forest::hnc::quota::ledger::Increase;
use forest::rules::{Answers, Denial, DenialKind, Operation, User, Verdict};
use forest::{Forest, Name, Settings};
use hns_api::KeyValue;
use hns_cluster::ingest::request_object::RequestObject;
use json_patch::Patch;
use kube::core::admission;
use serde::Deserialize as _;
use serde::de::DeserializeOwned;

use crate::decode::Request;
use crate::respond::Subject;

/// All webhooks. To add one, add a module and a line here.
pub(crate) static WEBHOOKS: [&dyn Webhook; 11] = [
    &hierarchy::HierarchyConfigurations,
    &anchor::SubnamespaceAnchors,
    &namespace::Namespaces,
    &object::Objects,
    &configuration::HncConfigurations,
    &quota::HierarchicalQuotas,
    &usage::Usage,
    &mutate::NamespaceLabel,
    &mutate::InitialAdmin,
    &sub_namespace::SubNamespaces,
    &sub_namespace::SubNamespaceFinalizer,
];

/// One webhook.
pub(crate) trait Webhook: Send + Sync {
    /// Its name in the registration, in metrics and in log lines.
    fn name(&self) -> &'static str;

    /// Its path.
    fn path(&self) -> &'static str;

    /// The object of a denial.
    fn subject(&self, request: &Request<'_>) -> Subject;

    /// Whether it needs to know what the API server serves.
    fn needs_discovery(&self) -> bool {
        false
    }

    /// Reads the objects of a request, and denies what it cannot parse.
    fn read<'a>(&self, request: &'a Request<'_>, context: Context) -> Result<ReadRequest<'a>, Denial>;
}

/// The context of a request.
pub(crate) struct Context {
    /// The settings of the operator.
    pub(crate) settings: Arc<Settings>,
    /// What the API server serves; `None` where the webhook does not need it.
    pub(crate) served: Option<Result<Served, String>>,
}

/// The result of reading a request.
pub(crate) enum ReadRequest<'a> {
    /// A rule must judge it.
    Rule(Rule<'a>),
    /// It is allowed, with this patch if it needs one.
    Patch(Option<Patch>),
    /// The ledger of hierarchical quotas must decide on this increase of usage.
    Increase(Increase),
}

/// A rule with the request that it judges, as a function of a forest and the answers so far.
pub(crate) type Rule<'a> = Box<dyn Fn(&Forest, &Answers) -> Verdict + Send + Sync + 'a>;

impl<'a> ReadRequest<'a> {
    fn rule(rule: impl Fn(&Forest, &Answers) -> Verdict + Send + Sync + 'a) -> Self {
        Self::Rule(Box::new(rule))
    }
}

fn unreadable(what: impl std::fmt::Display) -> Denial {
    Denial::new(DenialKind::BadRequest, format!("the request cannot be judged: {what}"))
}

/// A request as rules read it: the operation, and the object's states before and after.
struct RequestStates<'r, 'a> {
    operation: Operation,
    /// `None` for a new object.
    old: Option<&'r RequestObject<'a>>,
    /// `None` for a deleted object.
    new: Option<&'r RequestObject<'a>>,
    /// The new state, or the old state of a deleted object. It has the name even if the request has none: for a deleted
    /// collection, and for a generated name.
    object: &'r RequestObject<'a>,
}

impl<'r, 'a> RequestStates<'r, 'a> {
    fn of(request: &'r Request<'a>) -> Result<Self, Denial> {
        let old = || request.old_object.as_ref().ok_or_else(|| unreadable("it holds no oldObject"));
        let new = || request.object.as_ref().ok_or_else(|| unreadable("it holds no object"));
        let (operation, old, new) = match request.operation {
            admission::Operation::Create => (Operation::Create, None, Some(new()?)),
            admission::Operation::Update => (Operation::Update, Some(old()?), Some(new()?)),
            admission::Operation::Delete => (Operation::Delete, Some(old()?), None),
            admission::Operation::Connect => {
                return Err(unreadable("CONNECT is not an operation on this resource"));
            }
        };
        let object = new.or(old).ok_or_else(|| unreadable("it holds no object"))?;
        Ok(Self { operation, old, new, object })
    }
}

/// The name of the object of a request. For a deleted collection, and for a generated name, it may be only in the objects.
fn name<'r>(request: &'r Request<'_>) -> Cow<'r, str> {
    let object = match request.operation {
        admission::Operation::Create | admission::Operation::Update => request.object.as_ref(),
        admission::Operation::Delete => request.old_object.as_ref(),
        admission::Operation::Connect => None,
    };
    object.map_or(Cow::Borrowed(&request.name), |object| object.metadata.name().to_string().into())
}

/// The namespace of the object of a request. The review of a deleted collection has no name, but always a namespace.
fn namespace_of(request: &Request<'_>) -> Result<Name, Denial> {
    let namespace = request.namespace.as_deref().filter(|namespace| !namespace.is_empty());
    Ok(namespace.ok_or_else(|| unreadable("it names no namespace"))?.into())
}

/// The field `spec`, if there is one.
fn spec<T: DeserializeOwned + Default>(object: Option<&RequestObject<'_>>) -> Result<T, Denial> {
    let Some(object) = object else { return Ok(T::default()) };
    let text = object.fields.text("spec").map_or("null", |text| text.get());
    if let Ok(spec) = serde_json::from_str::<Option<T>>(text) {
        return Ok(spec.unwrap_or_default());
    }
    // Parsed again for an error without line numbers, which mean nothing to users.
    let spec = object.fields.get("spec").map(Option::<T>::deserialize).transpose();
    Ok(spec.map_err(|error| unreadable(format!("spec: {error}")))?.flatten().unwrap_or_default())
}

/// Whether there is an owner reference that was not there before.
fn adds_owner(old: Option<&RequestObject<'_>>, new: Option<&RequestObject<'_>>) -> bool {
    let owners = |object: Option<&RequestObject<'_>>| {
        object.map_or_else(Vec::new, |it| it.metadata.owner_references().to_vec())
    };
    let known = owners(old);
    owners(new).iter().any(|owner| !known.contains(owner))
}

/// Whether an object loses this finalizer.
fn loses_finalizer(
    old: Option<&RequestObject<'_>>,
    new: Option<&RequestObject<'_>>,
    finalizer: &str,
) -> bool {
    let is_held = |it: &RequestObject<'_>| it.metadata.finalizers().iter().any(|name| name == finalizer);
    old.zip(new).is_some_and(|(old, new)| is_held(old) && !is_held(new))
}

fn user(request: &Request<'_>) -> User {
    let info = &request.user_info;
    User { name: info.username.clone().unwrap_or_default(), groups: info.groups.clone().unwrap_or_default() }
}

fn pairs(listed: Option<Vec<KeyValue>>) -> Vec<(String, String)> {
    listed.into_iter().flatten().map(|pair| (pair.key, pair.value)).collect()
}
