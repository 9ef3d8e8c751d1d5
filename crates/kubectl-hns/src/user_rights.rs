//! The rights of the user, as the API server evaluates them.

use std::fmt;

use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;

use forest::rules::User;
use hns_cluster::access_review::allowed;

use crate::failure::Problem;
use crate::session::Session;

/// A right on objects of one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Right {
    pub(crate) verb: &'static str,
    pub(crate) group: &'static str,
    pub(crate) resource: &'static str,
    /// The namespace; for a namespace itself, its name. Empty for cluster-scoped objects.
    pub(crate) namespace: String,
    /// The name of the object; empty for all objects.
    pub(crate) name: String,
}

impl Right {
    /// A right on objects of the group `hnc.x-k8s.io`.
    pub(crate) fn ours(verb: &'static str, resource: &'static str, namespace: &str, name: &str) -> Self {
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        Self { verb, group: hns_api::GROUP, resource, namespace, name }
    }

    /// A right on this namespace.
    pub(crate) fn namespace(verb: &'static str, name: &str) -> Self {
        let (namespace, name) = (name.to_owned(), name.to_owned());
        Self { verb, group: "", resource: "namespaces", namespace, name }
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { verb, group, resource, namespace, .. } = self;
        match *resource {
            "namespaces" => write!(f, "{verb} the namespace {namespace}"),
            _ if namespace.is_empty() => write!(f, "{verb} {resource}.{group}"),
            _ => write!(f, "{verb} {resource}.{group} in {namespace}"),
        }
    }
}

/// Whether the user has the right; the inner error says why this is unknown.
pub(crate) async fn is_allowed(session: &Session, right: &Right) -> Result<Result<bool, String>, Problem> {
    let Right { verb, group, resource, namespace, name } = right;
    let attributes = ResourceAttributes {
        verb: Some((*verb).to_owned()),
        group: Some((*group).to_owned()),
        resource: Some((*resource).to_owned()),
        // The API server authorizes the creation of a namespace without a namespace.
        namespace: Some(namespace.clone()).filter(|_| (*verb, *resource) != ("create", "namespaces")),
        name: Some(name.clone()),
        ..ResourceAttributes::default()
    };
    let spec = SelfSubjectAccessReviewSpec {
        resource_attributes: Some(attributes),
        ..SelfSubjectAccessReviewSpec::default()
    };
    let review = SelfSubjectAccessReview { metadata: ObjectMeta::default(), spec, status: None };
    let reviews = session.all::<SelfSubjectAccessReview>();
    let answer = session.call(reviews.create(&PostParams::default(), &review)).await?;
    Ok(allowed(answer.status))
}

/// The user's identity, as the API server sees it.
pub(crate) async fn user(session: &Session) -> Result<User, Problem> {
    let reviews = session.all::<SelfSubjectReview>();
    let review = SelfSubjectReview { metadata: ObjectMeta::default(), status: None };
    let answer = session.call(reviews.create(&PostParams::default(), &review)).await?;
    let info = answer.status.and_then(|status| status.user_info).unwrap_or_default();
    Ok(User { name: info.username.unwrap_or_default(), groups: info.groups.unwrap_or_default() })
}
