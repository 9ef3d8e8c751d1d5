//! A line's request, sent as the user of the line, and what the API server said. Always a dry run.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Context, Result, bail};
use hns_api::API_VERSION;
use hns_e2e::Cluster;
use http_body_util::BodyExt;
use kube::client::Body;
use kube::{Client, Error};
use serde_json::{Value, json};

const RBAC: &str = "rbac.authorization.k8s.io/v1";

/// An object that is there.
#[derive(Debug)]
pub(crate) struct Target {
    path: String,
}

#[derive(Debug)]
pub(crate) enum Request {
    Create(String, Value),
    /// The object, a subresource, and what is merged into it.
    Change(Target, Option<String>, Value),
    Delete(Target),
}

impl Target {
    /// `namespace N`, `anchor N in P` or `hierarchy of N`.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let words: Vec<&str> = text.split(' ').collect();
        let path = match words[..] {
            ["namespace", name] => format!("/api/v1/namespaces/{name}"),
            ["anchor", name, "in", parent] => format!("{}/{name}", collection("SubnamespaceAnchor", parent)?),
            ["hierarchy", "of", namespace] => {
                format!("{}/hierarchy", collection("HierarchyConfiguration", namespace)?)
            }
            _ => bail!("no object is called {text:?}"),
        };
        Ok(Self { path })
    }
}

fn collection(kind: &str, namespace: &str) -> Result<String> {
    let (api, plural) = match kind {
        "Namespace" => return Ok("/api/v1/namespaces".into()),
        "SubnamespaceAnchor" => (API_VERSION, "subnamespaceanchors"),
        "HierarchyConfiguration" => (API_VERSION, "hierarchyconfigurations"),
        "Role" => (RBAC, "roles"),
        _ => bail!("no kind is called {kind:?} here"),
    };
    Ok(format!("/apis/{api}/namespaces/{namespace}/{plural}"))
}

impl Request {
    /// The creation of an object; a manifest may leave its `apiVersion` to its kind.
    pub(crate) fn create(mut manifest: Value) -> Result<Self> {
        let kind = manifest["kind"].as_str().context("a manifest has a kind")?;
        let namespace = manifest["metadata"]["namespace"].as_str().unwrap_or_default();
        let path = collection(kind, namespace)?;
        let api = match kind {
            "Namespace" => "v1",
            "Role" => RBAC,
            _ => API_VERSION,
        };
        manifest["apiVersion"] = json!(api);
        Ok(Self::Create(path, manifest))
    }

    /// Creates without dry run, as the administrator of these steps.
    pub(crate) async fn make(&self, client: &Client) -> Result<()> {
        let Self::Create(path, manifest) = self else { bail!("only manifests are made") };
        let request = http::Request::post(path).header("content-type", "application/json");
        client.request::<Value>(request.body(serde_json::to_vec(manifest)?)?).await?;
        Ok(())
    }

    pub(crate) async fn send(&self, cluster: &Cluster, user: &str, groups: &[String]) -> Result<Answer> {
        let groups: Vec<&str> = groups.iter().map(String::as_str).collect();
        let client = cluster.client_as(user, &groups);
        let (method, path, kind, body) = match self {
            Self::Create(path, manifest) => ("POST", path.clone(), "application/json", manifest.clone()),
            Self::Delete(target) => {
                // With a body, the API server does not look at the query.
                let options = json!({ "apiVersion": "v1", "kind": "DeleteOptions", "dryRun": ["All"] });
                ("DELETE", target.path.clone(), "application/json", options)
            }
            // This one knows no PATCH.
            Self::Change(target, Some(finalize), patch) if finalize == "finalize" => {
                let mut object = get(&cluster.admin(), &target.path).await?;
                merge(&mut object, patch);
                ("PUT", format!("{}/{finalize}", target.path), "application/json", object)
            }
            Self::Change(target, through, patch) => {
                let subresource = through.as_ref().map_or_else(String::new, |it| format!("/{it}"));
                (
                    "PATCH",
                    format!("{}{subresource}", target.path),
                    "application/merge-patch+json",
                    patch.clone(),
                )
            }
        };
        let request = http::Request::builder()
            .method(method)
            .uri(format!("{path}?dryRun=All"))
            .header("content-type", kind)
            .body(Body::from(serde_json::to_vec(&body)?))?;
        answer(&client, request).await
    }
}

async fn get(client: &Client, path: &str) -> Result<Value, Error> {
    let request = http::Request::get(path).body(Vec::new()).map_err(Error::HttpError)?;
    client.request(request).await
}

async fn answer(client: &Client, request: http::Request<Body>) -> Result<Answer> {
    let (head, body) = client.send(request).await?.into_parts();
    let body = body.collect().await?.to_bytes();
    let warnings =
        head.headers.get_all("warning").iter().filter_map(|it| it.to_str().ok()).map(str::to_owned);
    Ok(Answer {
        code: head.status.as_u16(),
        warnings: warnings.collect(),
        body: serde_json::from_slice(&body).context("an answer that is no JSON")?,
    })
}

/// RFC 7386.
fn merge(object: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        *object = patch.clone();
        return;
    };
    if !object.is_object() {
        *object = json!({});
    }
    for (key, value) in fields {
        if value.is_null() {
            object.as_object_mut().and_then(|object| object.remove(key));
        } else {
            merge(&mut object[key], value);
        }
    }
}

/// What the API server said.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) warnings: Vec<String>,
    /// The object, or a Status.
    body: Value,
}

impl Answer {
    pub(crate) fn reason(&self) -> &str {
        self.body["reason"].as_str().unwrap_or_default()
    }

    pub(crate) fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }

    /// The fields that are named as causes.
    pub(crate) fn fields(&self) -> Vec<&str> {
        let causes = self.body["details"]["causes"].as_array();
        causes.into_iter().flatten().filter_map(|cause| cause["field"].as_str()).collect()
    }

    /// All labels but the own tree label of a namespace.
    pub(crate) fn labels_of_others(&self) -> BTreeMap<String, String> {
        let metadata = &self.body["metadata"];
        let mut labels: BTreeMap<_, _> =
            serde_json::from_value(metadata["labels"].clone()).unwrap_or_default();
        labels.remove(&hns_api::labels::tree_label(metadata["name"].as_str().unwrap_or_default()));
        labels
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.code < 300 {
            write!(formatter, "{} {:?}", self.code, self.warnings)
        } else {
            write!(formatter, "{} {}: {} {:?}", self.code, self.reason(), self.message(), self.fields())
        }
    }
}
