//! The tables of requests: reading them, and trying a row.

use std::collections::BTreeMap;

use hns_api::accurate::KEY_PREFIX;
use http::{Method, Request, header};
use kube::Client;
use serde::Deserialize;
use serde_json::{Value, json};

use super::scene::Scene;

/// One table of a file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Table {
    #[serde(rename = "table")]
    title: String,
    rows: Vec<Row>,
}

/// One request, and the expected answer.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Row {
    it: String,
    #[serde(rename = "as")]
    user: String,
    request: String,
    #[serde(default)]
    body: Value,
    /// Labels of a namespace, without Accurate's prefix.
    #[serde(default)]
    place: BTreeMap<String, Value>,
    /// `ok`, or a code, and a part of the message.
    answer: String,
}

/// Tries all rows of a file, and fails with those that had another answer.
pub(crate) async fn try_out(scene: &Scene, text: &str) {
    let tables: Vec<Table> = serde_saphyr::from_str(text).unwrap();
    let mut wrong = Vec::new();
    for table in &tables {
        println!("\n{}", table.title);
        for row in &table.rows {
            let answer = row.answer(scene).await;
            println!("  {:<70} {:<8} {answer}", row.it, row.user);
            if !row.expects(&answer) {
                wrong.push(format!("{}, {}: {answer}, not {}", table.title, row.it, row.answer));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

impl Row {
    async fn answer(&self, scene: &Scene) -> String {
        let (method, path) = self.request.split_once(' ').unwrap();
        let mut body = self.body.clone();
        for (key, value) in &self.place {
            body["metadata"]["labels"][format!("{KEY_PREFIX}{key}")] = value.clone();
        }
        let sent = send(&scene.user(&self.user), method, &format!("{path}?dryRun=All"), body).await;
        match sent {
            Ok(_) => "ok".to_owned(),
            Err(kube::Error::Api(status)) => format!("{} {}", status.code, status.message),
            Err(error) => error.to_string(),
        }
    }

    fn expects(&self, answer: &str) -> bool {
        match self.answer.split_once(' ') {
            Some((code, words)) => answer.starts_with(&format!("{code} ")) && answer.contains(words),
            None => answer == self.answer,
        }
    }
}

/// Sends a request. A PATCH is a merge patch; what the path of a POST says need not be in the body.
pub(crate) async fn send(
    client: &Client,
    method: &str,
    path: &str,
    mut body: Value,
) -> Result<Value, kube::Error> {
    let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    if method == "POST" {
        let (version, kind) = type_of(path);
        body["apiVersion"] = json!(version);
        body["kind"] = json!(kind);
    }
    let bytes = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let method: Method = method.parse().unwrap();
    let request = Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, kind).body(bytes);
    client.request(request.unwrap()).await
}

fn type_of(path: &str) -> (String, &'static str) {
    let parts: Vec<&str> = path.split('?').next().unwrap().trim_matches('/').split('/').collect();
    let version = if parts[0] == "api" { parts[1].to_owned() } else { parts[1..3].join("/") };
    let kind = match *parts.last().unwrap() {
        "namespaces" => "Namespace",
        "subnamespaces" => "SubNamespace",
        "hierarchyconfigurations" => "HierarchyConfiguration",
        "subnamespaceanchors" => "SubnamespaceAnchor",
        "rolebindings" => "RoleBinding",
        "secrets" => "Secret",
        other => unreachable!("no table creates {other}"),
    };
    (version, kind)
}
