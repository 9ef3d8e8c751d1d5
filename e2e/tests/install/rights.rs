//! What somebody can do who has stolen the token of one of the installation's service accounts: every right that the API server
//! says the token has, against the list in `rights.yaml`, and requests made with the token.
//!
//! No binary of the product runs here; what the webhook's account can read of certificates is in `certificates`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hns_e2e::{Cluster, Steps, eventually};
use http::{Method, Request};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::authorization::v1::{ResourceRule, SelfSubjectRulesReview, SelfSubjectRulesReviewSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::PostParams;
use kube::{Api, Client};
use serde::Deserialize;
use serde_json::{Value, json};

use super::helm::{Helm, checkout};
use super::works::turn;

const LIST: &str = include_str!("rights.yaml");
const NAMESPACE: &str = "stolen-system";
const ELSEWHERE: &str = "stolen-elsewhere";
/// Has no rights but those that everybody has.
const NOBODY: &str = "stolen-nobody";
const NODE: &str = "stolen-node";
/// API servers know new roles within a moment.
const KNOWN: Duration = Duration::from_secs(5);

/// Kinds that give rights, and those that they are given to.
const KINDS: [&str; 5] = ["ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"];

/// Verbs of each resource, the resource written as `plural.group`, with `/name` where the right is for one object.
type Rights = BTreeMap<String, BTreeSet<String>>;

/// One entry of the list: an account of one way to install.
#[derive(Debug, Deserialize)]
struct Listed {
    /// The chart's values, or none for `config/default.yaml`.
    values: Option<Vec<String>>,
    account: String,
    everywhere: Rights,
    #[serde(default)]
    own_namespace: Rights,
    /// Methods and paths that are answered with 403. A path may end with a user to impersonate: `PATH as USER`.
    #[serde(default)]
    refused: Vec<[String; 2]>,
    /// Those that are answered with anything else.
    #[serde(default)]
    allowed: Vec<[String; 2]>,
}

#[tokio::test]
async fn a_stolen_token_can_do_what_is_listed_and_nothing_else() -> Result<()> {
    let (_turn, cluster) = turn().await;
    let helm = Helm::on(cluster).await;
    let steps = Steps::of(cluster.admin());
    for namespace in [NAMESPACE, ELSEWHERE] {
        steps.create_namespace(namespace).await?;
    }
    targets(cluster).await?;
    let listed: Vec<Listed> = serde_saphyr::from_str(LIST)?;
    let mut faults = Vec::new();
    for entry in &listed {
        let objects = objects(&helm, entry.values.as_deref()).await?;
        apply(cluster, &objects).await?;
        let thief = Thief::of(cluster, &entry.account).await?;
        let found = thief.check(entry).await;
        faults.extend(found.into_iter().map(|it| format!("{:?} {}: {it}", entry.values, entry.account)));
        with(cluster, &["delete", "--ignore-not-found", "-f", "-"], &objects).await?;
    }
    cluster.kubectl().args(["delete", "node", NODE]).ok().await?;
    for namespace in [NAMESPACE, ELSEWHERE] {
        steps.delete_namespace(namespace).await?;
    }
    ensure!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
    println!("  {} accounts have the rights that are listed", listed.len());
    Ok(())
}

/// A node and a pod, so that a request that is allowed does not end with "not found".
async fn targets(cluster: &Cluster) -> Result<()> {
    let account = |name: &str, namespace: &str| json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": name, "namespace": namespace } });
    let objects = [
        json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": NODE } }),
        account(NOBODY, NAMESPACE),
        account("target", ELSEWHERE),
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "target", "namespace": ELSEWHERE },
            "spec": {
                "serviceAccountName": "target",
                "containers": [{ "name": "target", "image": "none" }],
            },
        }),
    ];
    apply(cluster, &objects).await
}

/// What gives rights, as the chart with these values has it, the hooks of an uninstallation included; or else as the plain
/// manifests do, in the same namespace.
async fn objects(helm: &Helm, values: Option<&[String]>) -> Result<Vec<Value>> {
    let all = match values {
        Some(values) => {
            let values = values.iter().flat_map(|value| ["--set", value]);
            let args: Vec<&str> = ["--namespace", NAMESPACE].into_iter().chain(values).collect();
            helm.template(&args).await?
        }
        None => plain(&checkout().join("config/default.yaml"))?,
    };
    Ok(all.into_iter().filter(|object| KINDS.iter().any(|kind| object["kind"] == *kind)).collect())
}

fn plain(path: &Path) -> Result<Vec<Value>> {
    let text =
        std::fs::read_to_string(path)?.replace("namespace: hnc-system", &format!("namespace: {NAMESPACE}"));
    let all: Vec<Value> = serde_saphyr::from_multiple(&text)?;
    Ok(all.into_iter().filter(|object| !object.is_null()).collect())
}

async fn apply(cluster: &Cluster, objects: &[Value]) -> Result<()> {
    with(cluster, &["apply", "--server-side", "--force-conflicts", "-f", "-"], objects).await
}

async fn with(cluster: &Cluster, args: &[&str], objects: &[Value]) -> Result<()> {
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects });
    cluster.kubectl().args(args).stdin(list.to_string()).ok().await.map(drop)
}

/// Somebody with a token, and somebody with a token that is worth nothing.
struct Thief {
    client: Client,
    nobody: Client,
}

impl Thief {
    async fn of(cluster: &Cluster, account: &str) -> Result<Self> {
        Ok(Self { client: with_token(cluster, account).await?, nobody: with_token(cluster, NOBODY).await? })
    }

    /// What is not as listed.
    async fn check(&self, listed: &Listed) -> Vec<String> {
        let mut faults = Vec::new();
        let as_listed = eventually("the rights are those of the list", KNOWN, async || {
            let (everywhere, own) = self.rights().await.map_err(|error| format!("{error:#}"))?;
            let differences = [
                differences("everywhere", &listed.everywhere, &everywhere),
                differences("in its own namespace", &listed.own_namespace, &own),
            ]
            .concat();
            if differences.is_empty() { Ok(()) } else { Err(differences.join("\n")) }
        });
        faults.extend(as_listed.await.err().map(|error| format!("{error:#}")));
        for (requests, refused) in [(&listed.refused, true), (&listed.allowed, false)] {
            for request in requests {
                let code = self.try_out(request).await;
                let is_refused = matches!(code, Ok(403));
                if is_refused != refused {
                    faults.push(format!("{request:?} was answered with {code:?}"));
                }
            }
        }
        faults
    }

    /// The rights in every namespace, and those only in the namespace of the installation.
    async fn rights(&self) -> Result<(Rights, Rights)> {
        let everywhere = rights(&self.client, ELSEWHERE).await?;
        let (own, basic) = (rights(&self.client, NAMESPACE).await?, rights(&self.nobody, NAMESPACE).await?);
        Ok((without(&everywhere, &basic), without(&without(&own, &everywhere), &basic)))
    }

    /// The status that the API server answers with.
    async fn try_out(&self, [method, path]: &[String; 2]) -> Result<u16> {
        let (path, user) = path.split_once(" as ").map_or((&**path, None), |(path, user)| (path, Some(user)));
        let body = if method == "GET" { Vec::new() } else { b"{}".to_vec() };
        let content = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let mut request = Request::builder().method(Method::from_bytes(method.as_bytes())?).uri(path);
        request = request.header("Content-Type", content);
        if let Some(user) = user {
            request = request.header("Impersonate-User", user);
        }
        match self.client.request_text(request.body(body)?).await {
            Ok(_) => Ok(200),
            Err(kube::Error::Api(status)) => Ok(status.code),
            Err(error) => Err(error.into()),
        }
    }
}

async fn with_token(cluster: &Cluster, account: &str) -> Result<Client> {
    let accounts: Api<ServiceAccount> = Api::namespaced(cluster.admin(), NAMESPACE);
    let spec = TokenRequestSpec { expiration_seconds: Some(3600), ..TokenRequestSpec::default() };
    let request = TokenRequest { spec, ..TokenRequest::default() };
    let answer = accounts.create_token_request(account, &PostParams::default(), &request).await?;
    let token = answer.status.context("no token")?.token;
    let mut config = cluster.config();
    config.auth_info = serde_json::from_value(json!({ "token": token }))?;
    Ok(Client::try_from(config)?)
}

async fn rights(client: &Client, namespace: &str) -> Result<Rights> {
    let reviews: Api<SelfSubjectRulesReview> = Api::all(client.clone());
    let spec = SelfSubjectRulesReviewSpec { namespace: Some(namespace.to_owned()) };
    let review = SelfSubjectRulesReview { spec, ..SelfSubjectRulesReview::default() };
    let status = reviews.create(&PostParams::default(), &review).await?.status.context("no answer")?;
    ensure!(!status.incomplete, "the API server does not know all rules: {status:?}");
    let mut rights = Rights::new();
    for (resource, verbs) in status.resource_rules.iter().flat_map(of_rule) {
        rights.entry(resource).or_default().extend(verbs);
    }
    Ok(rights)
}

fn of_rule(rule: &ResourceRule) -> impl Iterator<Item = (String, Vec<String>)> {
    let list = |list: &Option<Vec<String>>| list.clone().unwrap_or_default();
    let (groups, resources) = (list(&rule.api_groups), list(&rule.resources));
    let names = rule.resource_names.clone().filter(|names| !names.is_empty());
    let names: Vec<String> =
        names.map_or_else(|| vec![String::new()], |names| names.iter().map(|it| format!("/{it}")).collect());
    let mut all = Vec::new();
    for group in &groups {
        let dot = if group.is_empty() { "" } else { "." };
        for resource in &resources {
            all.extend(
                names.iter().map(|name| (format!("{resource}{dot}{group}{name}"), rule.verbs.clone())),
            );
        }
    }
    all.into_iter()
}

/// Verbs that are in `all` and not in `known`.
fn without(all: &Rights, known: &Rights) -> Rights {
    let left = all.iter().map(|(resource, verbs)| {
        let verbs = verbs.iter().filter(|verb| !known.get(resource).is_some_and(|it| it.contains(*verb)));
        (resource.clone(), verbs.cloned().collect::<BTreeSet<_>>())
    });
    left.filter(|(_, verbs)| !verbs.is_empty()).collect()
}

fn differences(scope: &str, listed: &Rights, found: &Rights) -> Vec<String> {
    let say = |what: &str, rights: Rights| {
        let lines = rights.into_iter().map(|(resource, verbs)| {
            let verbs = verbs.into_iter().collect::<Vec<_>>().join(", ");
            format!("{what} {scope}: {resource}: [{verbs}]")
        });
        lines.collect::<Vec<_>>()
    };
    [say("not listed,", without(found, listed)), say("listed and missing,", without(listed, found))].concat()
}
