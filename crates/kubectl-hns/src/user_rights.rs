//! The rights of the user, as the API server evaluates them.

use std::collections::BTreeSet;
use std::fmt;

use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::{RoleBinding, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{ListParams, PostParams};

use forest::rules::User;
use hns_api::accurate::annotations::{FROM, MODE_UPDATE, PROPAGATE};
use hns_api::labels;
use hns_cluster::access_review::allowed;

use crate::Failure;
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

    /// A right on `SubNamespaces`.
    pub(crate) fn of_form(verb: &'static str, parent: &str, name: &str) -> Self {
        let (namespace, name) = (parent.to_owned(), name.to_owned());
        Self { verb, group: hns_api::accurate::GROUP, resource: "subnamespaces", namespace, name }
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

/// Fails if the user lacks any of the rights, and names all that are missing.
pub(crate) async fn require(session: &Session, rights: &[Right]) -> Result<(), Failure> {
    let mut missing = Vec::new();
    for right in rights {
        let answer = is_allowed(session, right).await;
        let answer = answer.map_err(|it| Failure::because("cannot check your rights", &it))?;
        if answer != Ok(true) {
            missing.push(right.to_string());
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    missing.dedup();
    Err(Failure::new(format!(
        "Error: you may not {}, which this needs; nothing was changed",
        missing.join(", nor ")
    ))
    .with_hint("Ask an administrator for the rights, or to run the command."))
}

/// The user's identity, as the API server sees it.
pub(crate) async fn user(session: &Session) -> Result<User, Problem> {
    let reviews = session.all::<SelfSubjectReview>();
    let review = SelfSubjectReview { metadata: ObjectMeta::default(), status: None };
    let answer = session.call(reviews.create(&PostParams::default(), &review)).await?;
    let info = answer.status.and_then(|status| status.user_info).unwrap_or_default();
    Ok(User { name: info.username.unwrap_or_default(), groups: info.groups.unwrap_or_default() })
}

/// Whether the user may do everything in all namespaces, and so loses nothing.
async fn has_all(session: &Session) -> bool {
    let (namespace, name) = (String::new(), String::new());
    let all = Right { verb: "*", group: "*", resource: "*", namespace, name };
    is_allowed(session, &all).await == Ok(Ok(true))
}

/// A warning if rights of the user in `name` come from namespaces that are not above it with the new parent, as far as the user may
/// read that.
pub(crate) async fn lost_with(session: &Session, name: &str, parent: Option<&str>) -> Option<String> {
    if has_all(session).await {
        return None;
    }
    let user = user(session).await.ok()?;
    let bindings = session.within::<RoleBinding>(name);
    let bindings = session.list(&bindings, &ListParams::default()).await.ok()?;
    let mut above = BTreeSet::new();
    if let Some(parent) = parent {
        let namespaces = session.all::<Namespace>();
        let parent = session.call(namespaces.get_metadata(parent)).await.ok()?;
        let keys = parent.metadata.labels.unwrap_or_default().into_keys();
        above.extend(keys.filter_map(|key| labels::tree_label_namespace(&key).map(str::to_owned)));
    }
    warning(name, &lost(&bindings, &user, &above))
}

/// The same in Accurate's hierarchy, where `from` stops being the parent of `name` and `to`, if any, becomes it.
pub(crate) async fn lost_in_accurate(
    session: &Session,
    name: &str,
    (from, to): (&str, Option<&str>),
) -> Option<String> {
    if has_all(session).await {
        return None;
    }
    let user = user(session).await.ok()?;
    let list = async |namespace: &str| {
        session.list(&session.within::<RoleBinding>(namespace), &ListParams::default()).await.ok()
    };
    let copies = list(name).await?;
    let remaining = match to {
        Some(to) => list(to).await.unwrap_or_default(),
        None => Vec::new(),
    };
    let sources = loses(from, &copies, &remaining, &user).then_some(from);
    warning(name, &sources.into_iter().collect())
}

/// Whether a copied binding of the user goes with the former parent, and the new one has none to replace it.
fn loses(from: &str, copies: &[RoleBinding], remaining: &[RoleBinding], user: &User) -> bool {
    fn value<'a>(it: &'a RoleBinding, key: &str) -> Option<&'a str> {
        it.metadata.annotations.as_ref()?.get(key).map(String::as_str)
    }
    let is_replaced = |copy: &RoleBinding| {
        remaining.iter().any(|it| {
            it.metadata.name == copy.metadata.name
                && it.role_ref == copy.role_ref
                && binds(it, user)
                && value(it, PROPAGATE).is_some()
        })
    };
    let goes = |it: &RoleBinding| value(it, FROM) == Some(from) && value(it, PROPAGATE) == Some(MODE_UPDATE);
    copies.iter().any(|it| goes(it) && binds(it, user) && !is_replaced(it))
}

/// The sources of copied bindings of the user that are not above.
fn lost<'a>(bindings: &'a [RoleBinding], user: &User, above: &BTreeSet<String>) -> BTreeSet<&'a str> {
    let source = |it: &'a RoleBinding| it.metadata.labels.as_ref()?.get(labels::INHERITED_FROM);
    let sources = bindings.iter().filter(|it| binds(it, user)).filter_map(source);
    sources.filter(|name| !above.contains(*name)).map(String::as_str).collect()
}

fn binds(binding: &RoleBinding, user: &User) -> bool {
    binding.subjects.iter().flatten().any(|subject| is_user(subject, user))
}

fn is_user(subject: &Subject, user: &User) -> bool {
    match &*subject.kind {
        "Group" => user.groups.contains(&subject.name),
        "ServiceAccount" => {
            let namespace = subject.namespace.as_deref().unwrap_or_default();
            user.name == hns_api::names::service_account_user(namespace, &subject.name)
        }
        _ => user.name == subject.name,
    }
}

fn warning(name: &str, lost: &BTreeSet<&str>) -> Option<String> {
    let sources = lost.iter().copied().collect::<Vec<_>>().join(", ");
    (!lost.is_empty()).then(|| format!("you lose the rights in {name} that come from {sources}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rights_from_namespaces_that_are_no_longer_above_are_lost() {
        let binding = |from: &str, kind: &str, name: &str| -> RoleBinding {
            let labels =
                if from.is_empty() { json!({}) } else { json!({ "hnc.x-k8s.io/inherited-from": from }) };
            serde_json::from_value(json!({
                "metadata": { "labels": labels },
                "roleRef": { "apiGroup": "", "kind": "ClusterRole", "name": "admin" },
                "subjects": [{ "kind": kind, "name": name, "namespace": "n" }],
            }))
            .unwrap()
        };
        let bindings = [
            binding("root", "User", "ada"),
            binding("mid", "Group", "team"),
            binding("other", "User", "bob"),
            binding("", "User", "ada"),
        ];
        let user = User { name: "ada".into(), groups: vec!["team".into()] };
        let text = |above: &[&str]| {
            let above = above.iter().map(|it| (*it).to_owned()).collect();
            warning("n", &lost(&bindings, &user, &above))
        };
        assert_eq!(text(&[]).as_deref(), Some("you lose the rights in n that come from mid, root"));
        assert_eq!(text(&["root"]).as_deref(), Some("you lose the rights in n that come from mid"));
        assert_eq!(text(&["root", "mid"]), None);
        let account = User { name: "system:serviceaccount:n:robot".into(), groups: Vec::new() };
        let bindings = [binding("root", "ServiceAccount", "robot")];
        assert_eq!(lost(&bindings, &account, &BTreeSet::new()), BTreeSet::from(["root"]));
    }

    #[test]
    fn rights_from_a_former_parent_are_lost_unless_the_new_one_gives_the_same() {
        let binding = |name: &str, from: &str, mode: &str, subject: &str| -> RoleBinding {
            let annotations = [(FROM, from), (PROPAGATE, mode)].into_iter().filter(|(_, it)| !it.is_empty());
            let annotations: std::collections::BTreeMap<&str, &str> = annotations.collect();
            serde_json::from_value(json!({
                "metadata": { "name": name, "annotations": annotations },
                "roleRef": { "apiGroup": "", "kind": "ClusterRole", "name": "admin" },
                "subjects": [{ "kind": "User", "name": subject }],
            }))
            .unwrap()
        };
        let user = User { name: "ada".into(), groups: Vec::new() };
        let copy = binding("team", "old", MODE_UPDATE, "ada");
        for (copy, there, is_lost) in [
            (copy.clone(), None, true),
            (copy.clone(), Some(binding("team", "", MODE_UPDATE, "ada")), false),
            (copy.clone(), Some(binding("team", "", MODE_UPDATE, "bob")), true),
            (copy.clone(), Some(binding("team", "", "", "ada")), true),
            (copy, Some(binding("other", "", MODE_UPDATE, "ada")), true),
            (binding("team", "old", "create", "ada"), None, false),
            (binding("team", "old", MODE_UPDATE, "bob"), None, false),
            (binding("team", "", MODE_UPDATE, "ada"), None, false),
        ] {
            let there: Vec<RoleBinding> = there.into_iter().collect();
            let loses = loses("old", std::slice::from_ref(&copy), &there, &user);
            assert_eq!(loses, is_lost, "{copy:?} {there:?}");
        }
    }
}
