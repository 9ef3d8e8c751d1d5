//! Checks the rights of the two service accounts, as the API server evaluates them.

use std::fmt;

use hns_api::accurate::{self, SubNamespace};
use hns_api::{HNCConfiguration, SynchronizationMode, names};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::CustomResourceExt as _;
use kube::api::PostParams;

use hns_cluster::configured_kinds::discover_groups;
use hns_cluster::quota_rights::{self, REMEDY};
use hns_cluster::settings::accurate::{VERBS, Watch};
use hns_cluster::settings::{SharedSettings, in_force};

use super::{Finding, some};
use crate::failure::Problem;
use crate::published;
use crate::session::Session;

const RBAC: &str = "rbac.authorization.k8s.io";

/// A right that an account needs in all namespaces.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Right {
    verb: &'static str,
    group: String,
    /// With the subresource, as in `pods/status`.
    resource: String,
    /// Only on the object of this name.
    name: Option<&'static str>,
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dot = if self.group.is_empty() { "" } else { "." };
        let (resource, subresource) = self.resource.split_once('/').unwrap_or((&self.resource, ""));
        let slash = if subresource.is_empty() { "" } else { "/" };
        write!(f, "{} {resource}{dot}{}{slash}{subresource}", self.verb, self.group)?;
        self.name.map_or(Ok(()), |name| write!(f, " {name}"))
    }
}

fn rights(verbs: &[&'static str], group: &str, resource: &str) -> Vec<Right> {
    let right =
        |verb: &&'static str| Right { verb, group: group.into(), resource: resource.into(), name: None };
    verbs.iter().map(right).collect()
}

const READ: [&str; 3] = ["get", "list", "watch"];
const COPY: [&str; 6] = ["get", "list", "watch", "create", "update", "delete"];

/// The rights that the controller needs; `kinds` are the propagated kinds (group and resource) besides roles and role
/// bindings.
fn of_controller(kinds: &[Kind]) -> Vec<Right> {
    let mut all = rights(&["get", "list", "watch", "create", "patch", "delete"], "", "namespaces");
    all.extend(rights(
        &["get", "list", "watch", "create", "update"],
        hns_api::GROUP,
        "hierarchyconfigurations",
    ));
    all.extend(rights(&["get", "list", "watch", "update"], hns_api::GROUP, "subnamespaceanchors"));
    all.extend(rights(&READ, hns_api::GROUP, "hncconfigurations"));
    all.extend(rights(&COPY, RBAC, "roles"));
    all.extend(rights(&["escalate", "bind"], RBAC, "roles"));
    all.extend(rights(&COPY, RBAC, "rolebindings"));
    all.extend(rights(&["bind"], RBAC, "clusterroles"));
    all.extend(kinds.iter().flat_map(|(group, resource)| rights(&COPY, group, resource)));
    all
}

/// The rights that the controller needs for Accurate's API, beside those on the kinds that it copies.
fn of_controller_for_accurate() -> Vec<Right> {
    let mut all = rights(&["get", "list", "watch", "patch"], accurate::GROUP, "subnamespaces");
    all.extend(rights(&["patch"], accurate::GROUP, "subnamespaces/status"));
    let definition = rights(&["patch"], "apiextensions.k8s.io", "customresourcedefinitions");
    all.extend(definition.into_iter().map(|it| Right { name: Some(SubNamespace::crd_name()), ..it }));
    all
}

/// The rights that the webhook needs.
fn of_webhook(kinds: &[Kind]) -> Vec<Right> {
    let mut all = rights(&READ, "", "namespaces");
    all.extend(rights(&READ, hns_api::GROUP, "hierarchyconfigurations"));
    for resource in ["subnamespaceanchors", "hncconfigurations"] {
        all.extend(rights(&["list", "watch"], hns_api::GROUP, resource));
    }
    for resource in ["roles", "rolebindings"] {
        all.extend(rights(&["list", "watch"], RBAC, resource));
    }
    all.extend(kinds.iter().flat_map(|(group, resource)| rights(&["list", "watch"], group, resource)));
    all.extend(rights(&["create"], "authorization.k8s.io", "subjectaccessreviews"));
    all
}

pub(super) async fn check(session: &Session, settings: &SharedSettings) -> Vec<Finding> {
    let namespace = session.installation().await;
    let kinds = kinds(session).await;
    let accounts = [
        (names::CONTROLLER_SERVICE_ACCOUNT, of_controller(&kinds)),
        (names::WEBHOOK_SERVICE_ACCOUNT, of_webhook(&kinds)),
    ];
    let mut findings = Vec::new();
    for (account, rights) in accounts {
        findings.push(account_has(session, (namespace, account), rights, &kinds).await);
    }
    findings.extend(for_quotas(session, namespace).await);
    if settings.accurate.enabled {
        findings.push(for_accurate(session, namespace, &settings.accurate.config.watches).await);
    }
    findings
}

/// What both accounts lack for Accurate's API.
async fn for_accurate(session: &Session, namespace: &str, watches: &[Watch]) -> Finding {
    const SUBJECT: &str = "rights for Accurate's API";
    let groups = match discover_groups(&session.client).await {
        Ok(groups) => groups,
        Err(why) => return Finding::note(SUBJECT, format!("not checked: {why}")),
    };
    // The controller names those that are not served.
    let kinds = watches.iter().filter_map(|it| it.resolve(&groups).ok());
    let of_copies = kinds.flat_map(|kind| rights(&VERBS, &kind.group, &kind.resource));
    let of_controller = of_controller_for_accurate().into_iter().chain(of_copies).collect();
    let of_webhook = rights(&["list", "watch"], accurate::GROUP, "subnamespaces");
    let mut lacks = Vec::new();
    for (account, rights) in
        [(names::CONTROLLER_SERVICE_ACCOUNT, of_controller), (names::WEBHOOK_SERVICE_ACCOUNT, of_webhook)]
    {
        match missing(session, (namespace, account), rights).await {
            Ok(missing) if missing.is_empty() => {}
            Ok(missing) => lacks.push(format!("{account} may not {}", some(&words(&missing)))),
            Err(problem) => return Finding::unread(SUBJECT, &problem),
        }
    }
    if lacks.is_empty() {
        return Finding::ok(SUBJECT, "sufficient");
    }
    Finding::wrong(
        SUBJECT,
        lacks.join("; "),
        "Set accurate.enabled in the chart, and add the kinds of accurate.config.watches to accurate.additionalRBAC.rules; without Helm, \
         `kubectl auth reconcile -f config/accurate.yaml`, with these kinds in the ClusterRoles there: it changes only roles and \
         bindings, and skips the rest with \"unable to decode\" and exit code 1.",
    )
}

/// What both accounts lack for hierarchical quotas, if these are enabled.
async fn for_quotas(session: &Session, namespace: &str) -> Option<Finding> {
    // Another check reports settings that cannot be read.
    let data = published::read(session).await.ok().flatten()?;
    in_force(&data).ok().flatten().filter(|it| it.hierarchical_quotas.enabled)?;
    let subject = "rights for hierarchical quotas";
    Some(match session.call(quota_rights::missing(&session.client, namespace)).await {
        Ok(lacks) if lacks.is_empty() => Finding::ok(subject, "sufficient"),
        Ok(lacks) => Finding::wrong(
            subject,
            quota_rights::text(&lacks),
            format!("Objects that a quota counts may not be created. To change this, {REMEDY}."),
        ),
        Err(problem) => Finding::unread(subject, &problem),
    })
}

/// The group and the resource of a kind.
type Kind = (String, String);

async fn account_has(
    session: &Session,
    (namespace, account): (&str, &str),
    rights: Vec<Right>,
    kinds: &[Kind],
) -> Finding {
    match missing(session, (namespace, account), rights).await {
        Ok(missing) => finding(account, &missing, kinds),
        Err(problem) => Finding::unread(format!("rights of {account}"), &problem),
    }
}

/// Which of these rights the account lacks.
async fn missing(
    session: &Session,
    (namespace, account): (&str, &str),
    rights: Vec<Right>,
) -> Result<Vec<Right>, Problem> {
    let api = session.all::<SubjectAccessReview>();
    let mut missing = Vec::new();
    for right in rights {
        let review = review(namespace, account, &right);
        let answer = session.call(api.create(&PostParams::default(), &review)).await?;
        if !answer.status.is_some_and(|it| it.allowed) {
            missing.push(right);
        }
    }
    Ok(missing)
}

fn words(rights: &[Right]) -> Vec<String> {
    rights.iter().map(ToString::to_string).collect()
}

fn finding(account: &str, missing: &[Right], kinds: &[Kind]) -> Finding {
    let subject = format!("rights of {account}");
    if missing.is_empty() {
        return Finding::ok(subject, "sufficient");
    }
    let is_of_kind =
        |right: &&Right| kinds.iter().any(|(group, name)| (group, name) == (&right.group, &right.resource));
    let (of_kinds, own): (Vec<&Right>, Vec<&Right>) = missing.iter().partition(is_of_kind);
    let mut hints = Vec::new();
    if !own.is_empty() {
        hints.push(format!(
            "The ClusterRole {account} lacks them, or its binding. `helm upgrade` restores both; without Helm, `kubectl auth reconcile -f \
             config/default.yaml` does, or with the file that was installed: it changes only roles and bindings, and skips \
             the rest with \"unable to decode\" and exit code 1."
        ));
    }
    if !of_kinds.is_empty() {
        hints.push(format!(
            "To allow a kind, add it to propagation.resources of the chart, or to the ClusterRole {account}-propagation. To propagate \
             it no more: `kubectl hns config delete-type`."
        ));
    }
    Finding::wrong(subject, format!("it may not {}", some(&words(missing))), hints.join("\n"))
}

fn review(namespace: &str, account: &str, right: &Right) -> SubjectAccessReview {
    let groups =
        ["system:serviceaccounts", &format!("system:serviceaccounts:{namespace}"), "system:authenticated"];
    let (resource, subresource) = match right.resource.split_once('/') {
        Some((resource, subresource)) => (resource, Some(subresource)),
        None => (&*right.resource, None),
    };
    SubjectAccessReview {
        metadata: ObjectMeta::default(),
        spec: SubjectAccessReviewSpec {
            user: Some(names::service_account_user(namespace, account)),
            groups: Some(groups.map(ToString::to_string).into()),
            resource_attributes: Some(ResourceAttributes {
                verb: Some(right.verb.to_owned()),
                group: Some(right.group.clone()),
                resource: Some(resource.to_owned()),
                subresource: subresource.map(ToOwned::to_owned),
                name: right.name.map(ToOwned::to_owned),
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        },
        status: None,
    }
}

/// The configured kinds that are propagated; empty if they cannot be read, which another check reports.
async fn kinds(session: &Session) -> Vec<Kind> {
    let api = session.all::<HNCConfiguration>();
    let config = session.call(api.get_opt(names::HNC_CONFIGURATION)).await;
    let status = config.ok().flatten().and_then(|it| it.status).unwrap_or_default();
    let is_written = |mode: &Option<SynchronizationMode>| {
        !matches!(mode, Some(SynchronizationMode::Ignore | SynchronizationMode::Unknown(_)))
    };
    let resources = status.resources.into_iter().filter(|it| is_written(&it.mode) && it.group != RBAC);
    resources.map(|it| (it.group, it.resource)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;

    #[test]
    fn both_accounts_need_rights_on_configured_kinds() {
        let kinds = [(String::new(), "secrets".to_owned())];
        let wanted = rights(&["list"], "", "secrets").remove(0);
        assert!(of_controller(&kinds).contains(&wanted) && of_webhook(&kinds).contains(&wanted));
        assert!(!of_controller(&[]).contains(&wanted));
        let deletes = |rights: &[Right]| rights.iter().any(|it| it.verb == "delete");
        assert!(
            deletes(&of_controller(&kinds)) && !deletes(&of_webhook(&kinds)),
            "the webhook deletes nothing"
        );
    }

    #[test]
    fn missing_rights_are_named() {
        let right = rights(&["bind"], RBAC, "roles").remove(0);
        let own = finding("x", std::slice::from_ref(&right), &[]);
        assert_eq!(own.level, Level::Wrong);
        assert_eq!(own.text, "it may not bind roles.rbac.authorization.k8s.io");
        let hint = own.hint.unwrap();
        assert!(hint.contains("kubectl auth reconcile") && !hint.contains("x-propagation"), "{hint}");
        let of_kind = rights(&["list"], "batch", "jobs").remove(0);
        let kinds = [("batch".to_owned(), "jobs".to_owned())];
        let hint = finding("x", &[of_kind], &kinds).hint.unwrap();
        assert!(hint.contains("ClusterRole x-propagation") && !hint.contains("reconcile"), "{hint}");
    }

    #[test]
    fn a_right_on_a_subresource_or_one_object_is_asked_for_and_named() {
        let all = of_controller_for_accurate();
        let [.., status, definition] = &words(&all)[..] else { panic!("{all:?}") };
        assert_eq!(status, "patch subnamespaces.accurate.cybozu.com/status");
        assert_eq!(
            definition,
            "patch customresourcedefinitions.apiextensions.k8s.io subnamespaces.accurate.cybozu.com"
        );
        let asked = |right: &Right| review("home", "x", right).spec.resource_attributes.unwrap();
        let [.., status, definition] = &all[..] else { panic!("{all:?}") };
        let status = asked(status);
        assert_eq!(
            (status.resource.as_deref(), status.subresource.as_deref()),
            (Some("subnamespaces"), Some("status"))
        );
        assert_eq!(asked(definition).name.as_deref(), Some("subnamespaces.accurate.cybozu.com"));
    }
}
