//! HTTP requests, so that every encoding of a change can be tested. Judges nothing.

use std::fmt::Write;

use http::Method;
use http::header::CONTENT_TYPE;
use kube::Client;
use serde_json::{Value, json};

/// The forms of PATCH.
pub(crate) const MERGE: &str = "application/merge-patch+json";
pub(crate) const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub(crate) const STEPS: &str = "application/json-patch+json";
pub(crate) const APPLY: &str = "application/apply-patch+yaml";

const JSON: &str = "application/json";

/// One request by one user.
#[derive(Clone)]
#[must_use = "nothing happens before `send`"]
pub(crate) struct Request {
    client: Client,
    method: Method,
    path: String,
    content_type: &'static str,
    body: Value,
}

impl Request {
    fn new(client: &Client, method: Method, path: String, content_type: &'static str, body: Value) -> Self {
        Self { client: client.clone(), method, path, content_type, body }
    }

    pub(crate) fn get(client: &Client, path: &str) -> Self {
        Self::new(client, Method::GET, path.into(), JSON, Value::Null)
    }

    pub(crate) fn post(client: &Client, path: &str, body: Value) -> Self {
        Self::new(client, Method::POST, path.into(), JSON, body)
    }

    pub(crate) fn put(client: &Client, path: &str, body: Value) -> Self {
        Self::new(client, Method::PUT, path.into(), JSON, body)
    }

    /// A PATCH in one of the forms above.
    pub(crate) fn patch(client: &Client, path: &str, form: &'static str, body: Value) -> Self {
        let owner = if form == APPLY { "?fieldManager=authority-suite&force=true" } else { "" };
        Self::new(client, Method::PATCH, format!("{path}{owner}"), form, body)
    }

    /// A DELETE with these options.
    pub(crate) fn delete(client: &Client, path: &str, options: Value) -> Self {
        Self::new(client, Method::DELETE, path.into(), JSON, options)
    }

    /// The same as a dry run.
    pub(crate) fn dry(mut self) -> Self {
        if let Some(options) = self.body.as_object_mut().filter(|_| self.method == Method::DELETE) {
            // With options in the body, the API server ignores those of the query.
            options.insert("dryRun".into(), json!(["All"]));
        }
        let mark = if self.path.contains('?') { '&' } else { '?' };
        write!(self.path, "{mark}dryRun=All").expect("a String takes everything");
        self
    }

    pub(crate) async fn send(self) -> Result<Value, kube::Error> {
        let body = if self.body.is_null() { Vec::new() } else { self.body.to_string().into_bytes() };
        let request = http::Request::builder()
            .method(self.method)
            .uri(self.path)
            .header(CONTENT_TYPE, self.content_type);
        self.client.request(request.body(body).map_err(kube::Error::HttpError)?).await
    }
}

/// The path of the hierarchy configurations of a namespace.
pub(crate) fn hierarchies(namespace: &str) -> String {
    format!("/apis/{}/namespaces/{namespace}/hierarchyconfigurations", hns_api::API_VERSION)
}

/// The path of the hierarchy configuration of a namespace.
pub(crate) fn hierarchy(namespace: &str) -> String {
    format!("{}/hierarchy", hierarchies(namespace))
}

/// The path of a namespace.
pub(crate) fn namespace(name: &str) -> String {
    format!("/api/v1/namespaces/{name}")
}

/// A whole hierarchy configuration.
pub(crate) fn configuration(spec: &Value) -> Value {
    json!({
        "apiVersion": hns_api::API_VERSION,
        "kind": "HierarchyConfiguration",
        "metadata": { "name": "hierarchy" },
        "spec": spec,
    })
}

/// Sets a namespace's parent (empty for none), with or without an existing hierarchy configuration.
pub(crate) fn place(client: &Client, child: &str, parent: &str) -> Request {
    Request::patch(client, &hierarchy(child), APPLY, configuration(&json!({ "parent": parent })))
}
