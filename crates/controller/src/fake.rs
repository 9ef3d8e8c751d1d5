//! For tests: a fake API server with prepared responses, and a forest of two namespaces.

use std::collections::VecDeque;
use std::sync::Arc;

use forest::hnc;
use forest::plan::{Plan, plan};
use forest::{
    CrdState, Fact, Forest, HierarchyFact, Kind, KindSettings, Mode, Name, NamespaceFact, ObjectKey,
    OnConflict, Scope, Settings, Version,
};
use hns_cluster::handle::{ForestHandle, ForestWriter};
use hns_cluster::ingest;
use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use kube::core::DynamicObject;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tower::{BoxError, service_fn};

/// A request: the method, the path with its query, and the body.
pub(crate) type Received = (String, String, Value);

/// Gives the prepared responses in order, and records the requests.
#[derive(Clone, Default)]
pub(crate) struct Server {
    responses: Arc<Mutex<VecDeque<Value>>>,
    asked: Arc<Mutex<Vec<Received>>>,
}

impl Server {
    pub(crate) fn answering(responses: impl IntoIterator<Item = Value>) -> Self {
        Self { responses: Arc::new(Mutex::new(responses.into_iter().collect())), asked: Arc::default() }
    }

    pub(crate) fn client(&self) -> Client {
        let server = self.clone();
        let service = service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect_bytes().await?;
                let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
                server.asked.lock().push((parts.method.to_string(), parts.uri.to_string(), body));
                let unexpected = || failure(500, "Unexpected", "no response is prepared for this request");
                let response = server.responses.lock().pop_front().unwrap_or_else(unexpected);
                let code = response["code"].as_u64().unwrap_or(200).try_into().unwrap_or(500);
                let response = Response::builder()
                    .status::<u16>(code)
                    .body(Body::from(response.to_string().into_bytes()))?;
                Ok::<_, BoxError>(response)
            }
        });
        Client::new(service, "default")
    }

    /// All requests so far.
    pub(crate) fn asked(&self) -> Vec<Received> {
        self.asked.lock().clone()
    }

    /// The methods of all requests in order, with ` dry` after those of dry runs.
    pub(crate) fn methods(&self) -> Vec<String> {
        let dry_run = |path: &str| if path.contains("dryRun=All") { " dry" } else { "" };
        self.asked().iter().map(|(method, path, _)| format!("{method}{}", dry_run(path))).collect()
    }

    /// Whether every prepared response was used.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.responses.lock().is_empty()
    }
}

/// A failure, about the Secret `s`.
pub(crate) fn failure(code: u16, reason: &str, message: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message,
        "details": { "name": "s", "kind": "secrets" },
    })
}

/// The response to a successful deletion.
pub(crate) fn deleted() -> Value {
    json!({ "apiVersion": "v1", "kind": "Status", "status": "Success" })
}

/// The Secret `s` with this value.
pub(crate) fn secret(namespace: &str, uid: &str, version: &str, value: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": { "name": "s", "namespace": namespace, "uid": uid, "resourceVersion": version },
        "data": { "value": value },
    })
}

/// A copy of the Secret in `root`.
pub(crate) fn copy(uid: &str, version: &str, value: &str) -> Value {
    let mut copy = secret("leaf", uid, version, value);
    copy["metadata"]["labels"] =
        json!({ "hnc.x-k8s.io/inherited-from": "root", "app.kubernetes.io/managed-by": "hnc.x-k8s.io" });
    copy
}

/// The namespaces `root` and `leaf`, a child of `root`, with Secrets.
pub(crate) struct World {
    pub(crate) writer: ForestWriter,
    pub(crate) forest: ForestHandle,
    pub(crate) key: ObjectKey,
}

impl World {
    /// Sets `onConflict: Overwrite` for Secrets.
    pub(crate) fn overwriting(self) -> Self {
        let secrets = KindSettings::new(secrets_kind(), Mode::Propagate);
        let settings = KindSettings { on_conflict: Some(OnConflict::Overwrite), ..secrets };
        self.writer.tell([Fact::Kinds(vec![settings])]);
        self
    }

    pub(crate) fn of(secrets: &[Value]) -> Self {
        let settings = Arc::new(Settings::new("hnc-system", [""; 0], ".*").expect("a legal pattern"));
        let (writer, forest) =
            ForestWriter::new(Forest::new(settings, vec![secrets_kind()]), Box::new(|_| {}));
        let kind = forest.read(|forest| forest.kind_named("", "Secret")).expect("it is configured");
        let world = Self { writer, forest, key: ObjectKey { kind, name: "s".into() } };
        let version = |uid: &str| Version { uid: uid.into(), resource_version: "1".into() };
        let namespace = |name: &str, labels: &[(&str, &str)]| NamespaceFact {
            name: name.into(),
            version: version(name),
            labels: labels.iter().map(|(key, value)| (String::from(*key), String::from(*value))).collect(),
            ..NamespaceFact::default()
        };
        // With these labels, plans contain no change of labels.
        let root = ("root.tree.hnc.x-k8s.io/depth", "0");
        let included = ("hnc.x-k8s.io/included-namespace", "true");
        let leaf = ("leaf.tree.hnc.x-k8s.io/depth", "0");
        let above = ("root.tree.hnc.x-k8s.io/depth", "1");
        let below =
            HierarchyFact { version: version("h"), parent: Some("root".into()), ..HierarchyFact::default() };
        world.writer.tell([
            Fact::Namespaces(vec![
                namespace("root", &[included, root]),
                namespace("leaf", &[included, leaf, above]),
            ]),
            Fact::Hnc(hnc::Fact::Hierarchies(vec![("leaf".into(), below)])),
            Fact::Hnc(hnc::Fact::Anchors(vec![])),
            Fact::Hnc(hnc::Fact::Crds(CrdState::Present)),
            Fact::Objects(kind, secrets.iter().map(|secret| world.fact(secret)).collect()),
        ]);
        world
    }

    /// The fact of a Secret without its content.
    pub(crate) fn without_content(&self, secret: &Value) -> Fact {
        let mut fact = self.fact(secret);
        fact.content = fact.content.map(forest::KnownContent::digests);
        Fact::Object(self.key.kind, fact)
    }

    fn fact(&self, secret: &Value) -> forest::ObjectFact {
        let object: DynamicObject = serde_json::from_value(secret.clone()).expect("an object");
        let settings = self.forest.read(Forest::shared_settings);
        let content = object.data.as_object().cloned();
        ingest::object(&secrets_kind(), &settings, object.metadata, content)
    }

    /// The plan for the objects of `leaf`.
    pub(crate) fn plan(&self) -> (Name, Scope, Plan) {
        let scope = Scope { structure: false, ..Scope::whole() };
        ("leaf".into(), scope.clone(), self.forest.read(|forest| plan(forest, "leaf", &scope)))
    }
}

pub(crate) fn secrets_kind() -> Kind {
    Kind { group: String::new(), version: "v1".into(), kind: "Secret".into(), resource: "secrets".into() }
}
