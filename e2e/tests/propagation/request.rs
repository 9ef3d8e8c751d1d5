//! A request of a user, and the response of the API server. Contains no rule.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use hns_cluster::api::path_segment;
use hns_e2e::product::CONTROLLER_USER;
use hns_e2e::{Cluster, Steps, eventually, steps};
use http::{Method, Request, header};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::Instant;

/// How long a request is repeated after "try again" (503).
const PATIENCE: Duration = Duration::from_secs(10);

/// The API version and the kind of a resource.
pub(crate) fn kind(plural: &str) -> (String, String) {
    let (api, kind) = match plural {
        "configmaps" => ("v1", "ConfigMap"),
        "secrets" => ("v1", "Secret"),
        "serviceaccounts" => ("v1", "ServiceAccount"),
        "limitranges" => ("v1", "LimitRange"),
        "resourcequotas" => ("v1", "ResourceQuota"),
        "roles" => ("rbac.authorization.k8s.io/v1", "Role"),
        "rolebindings" => ("rbac.authorization.k8s.io/v1", "RoleBinding"),
        "networkpolicies" => ("networking.k8s.io/v1", "NetworkPolicy"),
        "leases" => ("coordination.k8s.io/v1", "Lease"),
        other => {
            let mut letters = other.trim_end_matches('s').chars();
            let first = letters.next().map(|it| it.to_ascii_uppercase());
            return ("propagation.test/v1".into(), first.into_iter().chain(letters).collect());
        }
    };
    (api.into(), kind.into())
}

/// An object of this kind and name; `fields` is anything it has beside them.
pub(crate) fn object(plural: &str, name: &str, mut fields: Value) -> Value {
    let (api, kind) = kind(plural);
    (fields["apiVersion"], fields["kind"]) = (json!(api), json!(kind));
    fields["metadata"]["name"] = json!(name);
    fields
}

/// Where an object is, or, with an empty name, where all of its kind are.
pub(crate) fn object_path(plural: &str, namespace: &str, name: &str) -> String {
    let (api, _) = kind(plural);
    let root = if api.contains('/') { "apis" } else { "api" };
    let name = if name.is_empty() { String::new() } else { format!("/{}", path_segment(name)) };
    format!("/{root}/{api}/namespaces/{namespace}/{plural}{name}")
}

/// Sends a request again while something is in the way (409): the webhook may not have seen yet that it is not any more. Every other
/// answer counts at once.
pub(crate) async fn while_in_the_way(mut send: impl AsyncFnMut() -> Result<Answer>) -> Result<Answer> {
    eventually("nothing is in the way", steps::PATIENCE, async || match send().await {
        Ok(answer) if answer.code == 409 => Err(answer.to_string()),
        other => Ok(other),
    })
    .await?
}

/// Sends requests as any user. `admin` is in `system:masters`, `slipped` uses the exempt account, which no rule judges; others
/// have the rights that RBAC gives.
pub(crate) struct Users {
    cluster: &'static Cluster,
    clients: Mutex<HashMap<String, Client>>,
}

impl Users {
    pub(crate) fn of(cluster: &'static Cluster) -> Self {
        Self { cluster, clients: Mutex::default() }
    }

    fn client(&self, who: &str) -> Client {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || match who.split_once(" of ") {
            Some((user, group)) => self.cluster.client_as(user, &[group]),
            None if who == "admin" => self.cluster.admin(),
            None if who == "slipped" => self.cluster.client_as(CONTROLLER_USER, &["system:masters"]),
            None => self.cluster.client_as(who, &[]),
        };
        clients.entry(who.to_owned()).or_insert_with(new).clone()
    }

    /// The steps of a user.
    pub(crate) fn steps(&self, who: &str) -> Steps {
        Steps::of(self.client(who))
    }

    /// Makes a request and returns the response, of any kind. A PATCH with a field manager is a server-side apply.
    pub(crate) async fn send(&self, who: &str, method: Method, path: &str, body: &Value) -> Result<Answer> {
        let client = self.client(who);
        let kind = match (&method, body) {
            (&Method::PATCH, _) if path.contains("?fieldManager=") => "application/apply-patch+yaml",
            (&Method::PATCH, Value::Array(_)) => "application/json-patch+json",
            (&Method::PATCH, _) => "application/merge-patch+json",
            _ => "application/json",
        };
        let body = if body.is_null() { Vec::new() } else { serde_json::to_vec(body)? };
        let deadline = Instant::now() + PATIENCE;
        loop {
            let request = Request::builder().method(&method).uri(path).header(header::CONTENT_TYPE, kind);
            let (head, body) = client.send(request.body(Body::from(body.clone()))?).await?.into_parts();
            let read = body.collect().await?.to_bytes();
            let warnings = head.headers.get_all("warning").iter().filter_map(|it| it.to_str().ok());
            let answer = Answer {
                code: head.status.as_u16(),
                warnings: warnings.map(str::to_owned).collect(),
                body: serde_json::from_slice(&read).context("an answer that is no JSON")?,
            };
            if answer.code != 503 || Instant::now() > deadline {
                return Ok(answer);
            }
        }
    }
}

/// What the API server said.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) warnings: Vec<String>,
    /// The object, or a Status.
    pub(crate) body: Value,
}

impl Answer {
    pub(crate) fn is_allowed(&self) -> bool {
        (200..300).contains(&self.code)
    }

    /// The same, or an error that says what it was.
    pub(crate) fn allowed(self, what: &str) -> Result<Self> {
        anyhow::ensure!(self.is_allowed(), "{what}: {self}");
        Ok(self)
    }

    /// The code and the reason of a refusal.
    pub(crate) fn refusal(&self) -> String {
        format!("{} {}", self.code, self.body["reason"].as_str().unwrap_or_default())
    }

    pub(crate) fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }

    /// The fields that are named as causes, each with the reason.
    pub(crate) fn causes(&self) -> Vec<String> {
        let causes = self.body["details"]["causes"].as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        causes.iter().map(|cause| format!("{} {}", text(&cause["reason"]), text(&cause["field"]))).collect()
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_allowed() {
            write!(formatter, "{} {:?}", self.code, self.warnings)
        } else {
            write!(
                formatter,
                "{}: {} {:?} {:?}",
                self.refusal(),
                self.message(),
                self.causes(),
                self.warnings
            )
        }
    }
}
