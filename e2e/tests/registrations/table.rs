//! The tables of requests: reading them, trying a row, and saying what came of it.

use std::collections::{BTreeSet, HashMap};
use std::sync::Mutex;

use hns_e2e::Cluster;
use http::{Method, Request, header};
use kube::Client;
use serde::Deserialize;
use serde_json::{Value, json};

/// One table of a file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Table {
    #[serde(rename = "table")]
    pub(crate) title: String,
    pub(crate) rows: Vec<Row>,
}

/// One request, and what is expected of it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Row {
    pub(crate) it: String,
    #[serde(rename = "as", default = "anybody")]
    pub(crate) user: String,
    #[serde(default)]
    groups: Vec<String>,
    #[serde(default)]
    only_in: Option<String>,
    request: String,
    #[serde(default)]
    body: Value,
    #[serde(default)]
    pub(crate) asks: BTreeSet<String>,
    #[serde(default)]
    pub(crate) refused: Option<Refused>,
}

/// Who refuses, in which words.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Refused {
    by: String,
    says: String,
}

/// The group whose members have every right.
const MASTERS: &str = "system:masters";

fn anybody() -> String {
    "carol".to_owned()
}

/// The tables of a YAML file.
pub(crate) fn read(text: &str) -> Vec<Table> {
    serde_saphyr::from_str(text).unwrap()
}

/// Sends requests as anybody. Everybody is in `system:masters`, so that nothing but admission refuses, except in rows about who has
/// rights in one namespace only.
pub(crate) struct Users<'c> {
    cluster: &'c Cluster,
    clients: Mutex<HashMap<(String, Vec<String>), Client>>,
}

impl<'c> Users<'c> {
    pub(crate) fn of(cluster: &'c Cluster) -> Self {
        Self { cluster, clients: Mutex::default() }
    }

    fn client(&self, user: &str, groups: &[&str]) -> Client {
        let key = (user.to_owned(), groups.iter().map(ToString::to_string).collect());
        let mut clients = self.clients.lock().unwrap();
        clients.entry(key).or_insert_with(|| self.cluster.client_as(user, groups)).clone()
    }

    /// Tries a row as a dry run.
    pub(crate) async fn try_out(&self, row: &Row) -> Result<Value, kube::Error> {
        let all_rights = row.only_in.is_none().then_some(MASTERS);
        let groups: Vec<&str> = row.groups.iter().map(String::as_str).chain(all_rights).collect();
        let client = self.client(&row.user, &groups);
        let (method, path) = row.request.split_once(' ').unwrap();
        let method: Method = method.parse().unwrap();
        let mut body = row.body.clone();
        if method == Method::PUT {
            let mut now: Value = client
                .request(request(&Method::GET, path.trim_end_matches("/finalize"), &Value::Null))
                .await?;
            json_merge(&mut now, &body);
            body = now;
        }
        client.request(request(&method, &format!("{path}?dryRun=All&fieldManager=table"), &body)).await
    }

    /// Makes a request in earnest.
    pub(crate) async fn send(
        &self,
        user: &str,
        method: Method,
        path: &str,
        body: &Value,
    ) -> Result<Value, kube::Error> {
        self.client(user, &[MASTERS]).request(request(&method, path, body)).await
    }
}

fn request(method: &Method, path: &str, body: &Value) -> Request<Vec<u8>> {
    let (method, kind) = match method.as_str() {
        "PATCH" => (&Method::PATCH, "application/merge-patch+json"),
        "APPLY" => (&Method::PATCH, "application/apply-patch+yaml"),
        _ => (method, "application/json"),
    };
    let mut body = body.clone();
    expand(&mut body);
    if *method == Method::POST {
        complete(path, &mut body);
    }
    let bytes = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, kind).body(bytes).unwrap()
}

/// What the path says anyway need not be written in a table.
fn complete(path: &str, body: &mut Value) {
    let path = path.split('?').next().unwrap();
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let version = if parts[0] == "api" { parts[1].to_owned() } else { format!("{}/{}", parts[1], parts[2]) };
    let (version, kind) = match *parts.last().unwrap() {
        "namespaces" => (version, "Namespace"),
        "hierarchyconfigurations" => (version, "HierarchyConfiguration"),
        "subnamespaceanchors" => (version, "SubnamespaceAnchor"),
        "hncconfigurations" => (version, "HNCConfiguration"),
        "subnamespaces" => (version, "SubNamespace"),
        "roles" => (version, "Role"),
        "rolebindings" => (version, "RoleBinding"),
        "configmaps" => (version, "ConfigMap"),
        "secrets" => (version, "Secret"),
        "services" => (version, "Service"),
        "serviceaccounts" => (version, "ServiceAccount"),
        "limitranges" => (version, "LimitRange"),
        "leases" => (version, "Lease"),
        "networkpolicies" => (version, "NetworkPolicy"),
        "resourcequotas" => (version, "ResourceQuota"),
        "hierarchicalresourcequotas" => (version, "HierarchicalResourceQuota"),
        "token" => ("authentication.k8s.io/v1".to_owned(), "TokenRequest"),
        other => unreachable!("no table creates {other}"),
    };
    body["apiVersion"] = json!(version);
    body["kind"] = json!(kind);
}

/// Puts in what would be too long to write down.
fn expand(value: &mut Value) {
    match value {
        Value::String(text) if text == "<200 KiB>" => *text = "x".repeat(200 * 1024),
        Value::Object(fields) => {
            for (keys, count) in [("<900 keys>", 900), ("<2000 keys>", 2000)] {
                if let Some(each) = fields.remove(keys) {
                    fields
                        .extend((0..count).map(|number| (format!("example.com/key-{number}"), each.clone())));
                }
            }
            fields.values_mut().for_each(expand);
        }
        Value::Array(items) => items.iter_mut().for_each(expand),
        _ => {}
    }
}

fn json_merge(into: &mut Value, change: &Value) {
    let Some(change) = change.as_object() else {
        *into = change.clone();
        return;
    };
    if !into.is_object() {
        *into = json!({});
    }
    for (key, value) in change {
        if value.is_null() {
            into.as_object_mut().unwrap().remove(key);
        } else {
            json_merge(&mut into[key], value);
        }
    }
}

impl Row {
    /// Why the outcome is not the expected one, if it is not.
    pub(crate) fn objection(&self, outcome: &Result<Value, kube::Error>) -> Option<String> {
        let status = match (outcome, &self.refused) {
            (Ok(_), None) => return None,
            (Ok(_), Some(refused)) => return Some(format!("was not refused by {}", refused.by)),
            (Err(kube::Error::Api(status)), Some(refused)) => return self.wrong_refusal(status, refused),
            (Err(kube::Error::Api(status)), None) => {
                format!("{} {}: {}", status.code, status.reason, status.message)
            }
            (Err(error), _) => error.to_string(),
        };
        Some(format!("was refused: {status}"))
    }

    fn wrong_refusal(&self, status: &kube::core::Status, refused: &Refused) -> Option<String> {
        let (code, reason, by) = match refused.by.as_str() {
            "itself" => (409, "AlreadyExists", "already exists".to_owned()),
            "no answer" => (500, "InternalError", "failed calling webhook".to_owned()),
            policy => (403, "Forbidden", format!("ValidatingAdmissionPolicy '{policy}'")),
        };
        let message = &status.message;
        let right = status.code == code
            && status.reason == reason
            && message.contains(&by)
            && message.contains(&refused.says)
            && (code == 500 || message.contains(&format!("{:?}", self.object())));
        (!right).then(|| format!("got {} {}: {message}", status.code, status.reason))
    }

    /// The object that a refusal must name. When a collection is deleted, the API server does not say which.
    fn object(&self) -> String {
        let (method, path) = self.request.split_once(' ').unwrap();
        if method == "POST" {
            return self.body["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        }
        let parts: Vec<&str> = path.split('/').collect();
        let last = parts.iter().rposition(|part| !["status", "finalize"].contains(part)).unwrap();
        match parts[last] {
            "roles" | "configmaps" | "resourcequotas" | "networkpolicies" => "Unknown".to_owned(),
            name => name.to_owned(),
        }
    }
}

/// Where an object like this one is created.
pub(crate) fn collection_of(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let version = text(&object["apiVersion"]);
    let root = if version.contains('/') { "apis" } else { "api" };
    let namespace = object["metadata"]["namespace"].as_str();
    let within = namespace.map_or_else(String::new, |namespace| format!("/namespaces/{namespace}"));
    let kind = text(&object["kind"]).to_lowercase();
    let plural = kind.strip_suffix('y').map_or_else(|| format!("{kind}s"), |stem| format!("{stem}ies"));
    format!("/{root}/{version}{within}/{plural}")
}

/// What is expected of a row, in a word.
pub(crate) fn shown(row: &Row) -> &'static str {
    if row.refused.is_some() { "refused" } else { "allowed" }
}
