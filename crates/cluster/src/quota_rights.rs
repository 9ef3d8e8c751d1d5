//! The rights of both service accounts that hierarchical quotas need, beside those that the accounts always have: what
//! `hrq.enabled` of the chart and `config/hrq.yaml` grant.

use std::fmt;

use futures::future::join_all;
use hns_api::names::{
    CONTROLLER_SERVICE_ACCOUNT, QUOTA_LEDGER, WEBHOOK_SERVICE_ACCOUNT, service_account_user,
};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview};
use kube::Client;
use kube::api::PostParams;

use crate::access_review::{allowed, of_account};
use crate::api::Api;

/// How to grant them.
pub const REMEDY: &str =
    "grant the rights for hierarchical quotas: set hrq.enabled=true in the chart, or apply config/hrq.yaml";

const QUOTAS: &str = "hierarchicalresourcequotas";
const DERIVED: &str = "resourcequotas";
const LEDGER: &str = "configmaps";

/// The verbs that each account needs for each resource. Only the ledger is one object, in the namespace of the installation.
const NEEDED: [(&str, &str, &[&str]); 6] = [
    (CONTROLLER_SERVICE_ACCOUNT, QUOTAS, &["list", "watch", "update", "patch"]),
    (CONTROLLER_SERVICE_ACCOUNT, DERIVED, &["get", "list", "watch", "create", "update", "patch", "delete"]),
    (CONTROLLER_SERVICE_ACCOUNT, LEDGER, &["get", "list", "watch", "create", "update", "patch", "delete"]),
    (WEBHOOK_SERVICE_ACCOUNT, QUOTAS, &["list", "watch"]),
    (WEBHOOK_SERVICE_ACCOUNT, DERIVED, &["list", "watch"]),
    (WEBHOOK_SERVICE_ACCOUNT, LEDGER, &["get", "update"]),
];

/// The verbs that an account lacks for a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lack {
    account: &'static str,
    resource: &'static str,
    verbs: Vec<&'static str>,
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { account, resource, verbs } = self;
        let (verbs, attributes) = (verbs.join(", "), attributes("", resource, ""));
        write!(f, "the service account {account} may not {verbs} {resource}")?;
        match (attributes.group, attributes.name) {
            (Some(group), _) if !group.is_empty() => write!(f, ".{group}"),
            (_, Some(name)) => write!(f, "/{name}"),
            _ => Ok(()),
        }
    }
}

/// All lacks in one clause.
pub fn text(lacks: &[Lack]) -> String {
    lacks.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Asks the API server which of these rights are missing in the installation in `namespace`. A right is not missing if the
/// authorizers cannot answer.
///
/// # Errors
/// A question was not answered.
pub async fn missing(client: &Client, namespace: &str) -> kube::Result<Vec<Lack>> {
    let api = Api::<SubjectAccessReview>::all(client.clone());
    let mut lacks = Vec::new();
    for (account, resource, verbs) in NEEDED {
        let ask = async |verb: &'static str| {
            let answer =
                api.create(&PostParams::default(), &review(namespace, account, resource, verb)).await?;
            kube::Result::Ok((allowed(answer.status) == Ok(false)).then_some(verb))
        };
        let answers: kube::Result<Vec<_>> =
            join_all(verbs.iter().map(|verb| ask(verb))).await.into_iter().collect();
        let verbs: Vec<_> = answers?.into_iter().flatten().collect();
        lacks.extend((!verbs.is_empty()).then_some(Lack { account, resource, verbs }));
    }
    Ok(lacks)
}

fn review(namespace: &str, account: &str, resource: &str, verb: &str) -> SubjectAccessReview {
    let user = service_account_user(namespace, account);
    of_account(namespace, user, attributes(namespace, resource, verb))
}

fn attributes(namespace: &str, resource: &str, verb: &str) -> ResourceAttributes {
    let is_ledger = resource == LEDGER;
    ResourceAttributes {
        verb: Some(verb.to_owned()),
        group: Some(if resource == QUOTAS { hns_api::GROUP } else { "" }.to_owned()),
        resource: Some(resource.to_owned()),
        namespace: is_ledger.then(|| namespace.to_owned()),
        name: is_ledger.then(|| QUOTA_LEDGER.to_owned()),
        ..ResourceAttributes::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_right_is_named_with_its_account_and_resource() {
        let lack =
            |resource| Lack { account: WEBHOOK_SERVICE_ACCOUNT, resource, verbs: vec!["get", "update"] };
        let said = text(&[lack(QUOTAS), lack(DERIVED), lack(LEDGER)]);
        assert_eq!(
            said,
            "the service account hns-webhook may not get, update hierarchicalresourcequotas.hnc.x-k8s.io; the service account \
             hns-webhook may not get, update resourcequotas; the service account hns-webhook may not get, update \
             configmaps/hnc-quota-ledger"
        );
    }

    #[test]
    fn only_the_right_to_the_ledger_is_asked_for_one_object() {
        let asked = |resource| {
            let spec = review("home", CONTROLLER_SERVICE_ACCOUNT, resource, "list").spec;
            assert_eq!(spec.user.as_deref(), Some("system:serviceaccount:home:hns-controller"));
            let asked = spec.resource_attributes.unwrap();
            (asked.namespace, asked.name)
        };
        assert_eq!(asked(QUOTAS), (None, None));
        assert_eq!(asked(DERIVED), (None, None));
        assert_eq!(asked(LEDGER), (Some("home".into()), Some(QUOTA_LEDGER.into())));
    }
}
