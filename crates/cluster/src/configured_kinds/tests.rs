//! Follows the configuration on a fake API server.

use std::collections::BTreeMap;
use std::time::Duration;

use forest::{Forest, Settings, StreamState};
use http::{Request, Response};
use kube::client::Body;
use parking_lot::Mutex;
use prometheus::{Registry, TextEncoder};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tower::{BoxError, service_fn};

use super::*;

const CONFIGS: &str = "/apis/hnc.x-k8s.io/v1alpha2/hncconfigurations";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Answers by path; other paths are not found. A watch delivers no events.
#[derive(Clone, Default)]
struct Server {
    answers: Arc<Mutex<BTreeMap<String, Value>>>,
    changed: Arc<Notify>,
}

impl Server {
    fn set(&self, path: &str, answer: Value) {
        self.answers.lock().insert(path.to_owned(), answer);
    }

    async fn answer(&self, uri: http::Uri) -> Value {
        let path = uri.path().to_owned();
        if uri.query().is_some_and(|query| query.contains("watch=true")) {
            self.changed.notified().await;
            return refusal(410);
        }
        self.answers.lock().get(&path).cloned().unwrap_or_else(|| refusal(404))
    }

    fn client(&self) -> Client {
        let server = self.clone();
        let service = service_fn(move |request: Request<Body>| {
            let server = server.clone();
            let uri = request.uri().clone();
            async move {
                let answer = server.answer(uri).await;
                let code = answer["code"].as_u64().unwrap_or(200).try_into().unwrap_or(500);
                let body = Body::from(answer.to_string().into_bytes());
                Ok::<_, BoxError>(Response::builder().status::<u16>(code).body(body)?)
            }
        });
        Client::new(service, "default")
    }

    /// Serves secrets and, in a group of their own, things.
    fn serves_things(&self, versions: &Value) {
        let secrets = resource("secrets", "Secret");
        let core = json!([{ "version": "v1", "freshness": "Current", "resources": [secrets] }]);
        self.set("/api", json!({ "items": [{ "metadata": {}, "versions": core }] }));
        self.set("/apis", json!({ "items": [{ "metadata": { "name": "x.io" }, "versions": versions }] }));
    }

    fn defines(&self, uids: &[&str]) {
        let of = |uid: &&str| json!({ "metadata": { "name": "things.x.io", "uid": uid } });
        self.set(CRDS, list(&uids.iter().map(of).collect::<Vec<_>>()));
    }

    fn configures(&self, resources: &Value) {
        let config = json!({
            "apiVersion": "hnc.x-k8s.io/v1alpha2", "kind": "HNCConfiguration",
            "metadata": { "name": "config" }, "spec": { "resources": resources },
        });
        self.set(CONFIGS, list(&[config]));
    }
}

fn resource(plural: &str, kind: &str) -> Value {
    let verbs = ["list", "watch", "create", "update", "delete"];
    json!({ "resource": plural, "responseKind": { "kind": kind }, "scope": "Namespaced", "verbs": verbs })
}

fn things(freshness: &str, resources: &[Value]) -> Value {
    json!([{ "version": "v1", "freshness": freshness, "resources": resources }])
}

fn list(items: &[Value]) -> Value {
    json!({ "kind": "List", "metadata": { "resourceVersion": "1" }, "items": items })
}

fn refusal(code: u16) -> Value {
    json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": "denied", "reason": "" })
}

struct Followed {
    server: Server,
    forest: ForestHandle,
    configuration: Receiver<Configuration>,
    readiness: Readiness,
    _tasks: JoinSet<()>,
    registry: Registry,
}

fn follow(server: Server, detail: Detail) -> Followed {
    let settings = Settings::new("hnc-system", [""; 0], ".*").unwrap();
    let (writer, forest) = ForestWriter::new(Forest::unconfigured(Arc::new(settings)), Box::new(|_| {}));
    let (readiness, registry) = (Readiness::new(), Registry::new());
    let metrics = StreamMetrics::register(&registry).unwrap();
    let mut tasks = JoinSet::new();
    let configuration = start(&server.client(), (&writer, &forest), detail, &metrics, &readiness, &mut tasks);
    Followed { server, forest, configuration, readiness, registry, _tasks: tasks }
}

impl Followed {
    /// The kinds in the forest, except roles and role bindings.
    fn kinds(&self) -> Vec<String> {
        let line = |it: &forest::KindSettings| format!("{} {}", it.kind.group_resource(), it.mode);
        self.forest.read(|forest| forest.kinds().skip(2).map(|(_, it)| line(it)).collect())
    }

    /// The watched resources.
    fn watched(&self) -> Vec<String> {
        let text = TextEncoder::new().encode_to_string(&self.registry.gather()).unwrap();
        let lines = text.lines().filter_map(|line| line.strip_prefix("hns_watches{resource=\""));
        let names = lines.filter_map(|line| line.split_once('"')).map(|(name, _)| name.to_owned());
        names.filter(|name| !name.contains("rbac")).collect()
    }

    /// Waits until everything is listed again. The clock is paused.
    async fn until_all_is_listed(&self) {
        self.server.changed.notify_waiters();
        tokio::time::sleep(Duration::from_secs(30)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn kinds_follow_the_configuration_and_what_is_served() {
    let server = Server::default();
    server.serves_things(&things("Current", &[resource("things", "Thing")]));
    server.defines(&["1"]);
    server.configures(&json!([{ "resource": "things" }, { "resource": "secrets", "mode": "Ignore" }]));
    server.set("/apis/x.io/v1/things", list(&[]));
    let followed = follow(server, Detail::Content);
    assert!(!followed.readiness.is_ready(), "the kinds are not known yet");
    followed.until_all_is_listed().await;
    assert!(followed.readiness.is_ready());
    assert_eq!(followed.kinds(), ["things.x.io Propagate"], "ignored kinds are not watched");
    assert_eq!(followed.watched(), ["things.x.io"]);
    let all: Vec<String> = {
        let configuration = followed.configuration.borrow();
        let resolution = configuration.resolution.as_ref().unwrap();
        resolution.kinds.iter().skip(2).map(|it| it.resource.clone()).collect()
    };
    assert_eq!(all, ["things", "secrets"]);

    // A group that is unavailable, or missing for a moment, keeps its kinds.
    for versions in [things("Stale", &[]), things("Current", &[])] {
        followed.server.serves_things(&versions);
        followed.server.defines(&["1"]);
        followed.until_all_is_listed().await;
        assert_eq!((followed.kinds().len(), followed.watched().len()), (1, 1), "{versions}");
    }

    followed.server.defines(&[]);
    followed.until_all_is_listed().await;
    assert_eq!((followed.kinds(), followed.watched()), (vec![], vec![]));

    followed.server.serves_things(&things("Current", &[resource("things", "Thing")]));
    followed.server.defines(&["2"]);
    followed.server.configures(&json!([{ "resource": "things", "mode": "Remove" }]));
    followed.until_all_is_listed().await;
    assert_eq!(followed.kinds(), ["things.x.io Remove"]);

    followed.server.configures(&json!([]));
    followed.until_all_is_listed().await;
    assert_eq!((followed.kinds(), followed.watched()), (vec![], vec![]));
}

#[tokio::test(start_paused = true)]
async fn a_kind_with_a_new_definition_is_listed_again() {
    let server = Server::default();
    server.serves_things(&things("Current", &[resource("things", "Thing")]));
    server.defines(&["1"]);
    server.configures(&json!([{ "resource": "things" }]));
    server.set("/apis/x.io/v1/things", list(&[]));
    let followed = follow(server, Detail::Metadata);
    followed.until_all_is_listed().await;
    let stream = || {
        followed
            .forest
            .read(|forest| forest.stream(Stream::Kind(forest.kind_named("x.io", "Thing").unwrap())))
    };
    assert_eq!(stream(), StreamState::Synced);

    followed.server.set("/apis/x.io/v1/things", refusal(503));
    followed.server.defines(&["2"]);
    followed.until_all_is_listed().await;
    assert!(matches!(stream(), StreamState::Lost(why) if why.contains("replaced")));
    followed.server.set("/apis/x.io/v1/things", list(&[]));
    followed.until_all_is_listed().await;
    assert_eq!(stream(), StreamState::Synced);
    assert_eq!(followed.watched(), ["things.x.io"]);
}

#[tokio::test(start_paused = true)]
async fn roles_are_propagated_if_the_configuration_cannot_be_read() {
    let server = Server::default();
    server.serves_things(&things("Current", &[resource("things", "Thing")]));
    server.defines(&["1"]);
    server.set(CONFIGS, refusal(403));
    let followed = follow(server, Detail::Content);
    followed.until_all_is_listed().await;
    assert!(followed.readiness.is_ready());
    assert!(followed.forest.read(|forest| forest.is_configured()));
    assert_eq!(followed.forest.read(|forest| forest.kinds().count()), 2);
    let shown = followed.readiness.report().text;
    assert!(shown.contains("[-]configuration degraded: it cannot be read: denied"), "{shown}");
    assert!(!followed.configuration.borrow().is_known);

    followed.server.configures(&json!([{ "resource": "things" }]));
    followed.until_all_is_listed().await;
    assert_eq!(followed.kinds(), ["things.x.io Propagate"]);
    assert!(!followed.readiness.report().text.contains("degraded"));

    // The last configuration stays in force.
    followed.server.set(CONFIGS, refusal(403));
    followed.until_all_is_listed().await;
    assert_eq!(followed.kinds(), ["things.x.io Propagate"]);
    assert!(followed.readiness.report().text.contains("the last configuration that was read stays in force"));
}

#[tokio::test(start_paused = true)]
async fn roles_are_propagated_if_discovery_fails() {
    let server = Server::default();
    server.defines(&["1"]);
    server.configures(&json!([{ "resource": "things" }]));
    let followed = follow(server, Detail::Content);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!followed.forest.read(|forest| forest.is_configured()), "there are a few attempts first");
    followed.until_all_is_listed().await;
    assert_eq!(followed.forest.read(|forest| forest.kinds().count()), 2);
    assert!(followed.readiness.report().text.contains("discovery failed"));

    followed.server.serves_things(&things("Current", &[resource("things", "Thing")]));
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(followed.kinds(), ["things.x.io Propagate"], "discovery is retried");
}

#[tokio::test(start_paused = true)]
async fn unreadable_definitions_do_not_block_readiness() {
    for answer in [refusal(403), refusal(500)] {
        let server = Server::default();
        server.serves_things(&things("Current", &[resource("things", "Thing")]));
        server.set(CRDS, answer);
        server.configures(&json!([{ "resource": "things" }]));
        let followed = follow(server, Detail::Content);
        followed.until_all_is_listed().await;
        assert_eq!(followed.kinds(), ["things.x.io Propagate"]);
        assert!(followed.readiness.is_ready());
    }
}
