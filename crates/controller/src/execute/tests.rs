//! Executes plans against a fake API server with prepared responses.

use std::sync::atomic::{AtomicUsize, Ordering};

use forest::configuration::{Served, ServedKind};
use forest::plan::plan;
use forest::{KindSettings, Mode};
use http::{Request, Response};
use kube::client::Body;
use parking_lot::Mutex;
use prometheus::Registry;
use serde_json::{Value, json};
use tower::{BoxError, service_fn};

use super::*;
use crate::fake::{Server, World, copy, failure, secret, secrets_kind};

fn executor(world: &World, server: &Server) -> Executor {
    executor_with(world, &server.client())
}

fn executor_with(world: &World, client: &Client) -> Executor {
    let registry = Registry::new();
    let metrics = Metrics::register(&registry, &crate::queue::Queue::default(), &world.forest, true).unwrap();
    let (writer, forest) = (world.writer.clone(), world.forest.clone());
    let (_, configuration) = tokio::sync::watch::channel(Configuration {
        served: Some(Arc::new(Served { kinds: vec![served_secrets()], ..Served::default() })),
        ..Configuration::default()
    });
    let permission: Permission = Arc::new(|| true);
    let store = Store::new(client.clone(), "hnc-system");
    let guarded = (Guard::disabled(), permission);
    Executor::new(client.clone(), (writer, forest), configuration, metrics, guarded, store)
}

fn served_secrets() -> ServedKind {
    ServedKind {
        kind: secrets_kind(),
        singular: "secret".into(),
        short_names: Vec::new(),
        namespaced: true,
        verbs: ["list", "watch", "create", "update", "delete"].map(str::to_owned).into(),
    }
}

fn configuration(resources: &Value) -> Value {
    json!({
        "apiVersion": "hnc.x-k8s.io/v1alpha2", "kind": "HNCConfiguration",
        "metadata": { "name": "config" }, "spec": { "resources": resources },
    })
}

async fn execute(world: &World, executor: &Executor) -> Progress {
    let (namespace, scope, plan) = world.plan();
    executor.execute(&namespace, &scope, plan).await.progress
}

/// Waits for this number of events, for up to a minute, and returns them.
async fn events(server: &Server, count: usize) -> Vec<Value> {
    let is_event = |path: &str| path.contains("/events");
    let written = || {
        let events = server.asked().into_iter().filter(|(_, path, _)| is_event(path));
        events.map(|(_, _, event)| event).collect::<Vec<_>>()
    };
    let enough = async {
        while written().len() < count {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), enough).await.expect("every event within a minute");
    written()
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_recorded_and_reported_once_in_both_namespaces() {
    let world = World::of(&[secret("root", "1", "10", "new")]);
    let refusal = || failure(422, "Invalid", "no");
    // The API server accepts both events; the executor does not read these responses.
    let server = Server::answering([refusal(), json!({}), json!({}), refusal(), copy("2", "11", "new")]);
    let executor = executor(&world, &server);
    assert_eq!(execute(&world, &executor).await, Progress::Refused);
    let told = events(&server, 2).await;
    let namespaces: Vec<&Value> = told.iter().map(|event| &event["metadata"]["namespace"]).collect();
    assert_eq!(namespaces, ["root", "leaf"]);
    assert_eq!(told[0]["message"], "Could not write to destination namespace \"leaf\": no.");

    assert_eq!(execute(&world, &executor).await, Progress::Refused);
    assert!(!world.plan().2.settled.contains(&world.key), "the write is still planned");
    assert_eq!(execute(&world, &executor).await, Progress::Complete);
    assert!(world.plan().2.is_empty(), "the write clears the failure");
    // The paused clock advances only when no task can run.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(events(&server, 0).await.len(), 2, "the same refusal is not reported again");
    assert!(server.is_exhausted());
}

#[tokio::test(start_paused = true)]
async fn a_write_that_fails_six_times_becomes_a_condition() {
    let conditions = |world: &World| {
        world.forest.read(|forest| {
            let plan = plan(forest, "leaf", &Scope::whole());
            format!("{:?}", plan.report)
        })
    };
    let world = World::of(&[secret("root", "1", "10", "new")]);
    // The fake server answers every request after the first with a failure, events included.
    let server = Server::answering([failure(500, "InternalError", "a webhook said no")]);
    let executor = executor(&world, &server);
    for attempt in 1..=6 {
        assert!(!conditions(&world).contains("CannotPropagateObject"), "before attempt {attempt}");
        assert_eq!(execute(&world, &executor).await, Progress::Transient);
    }
    assert!(conditions(&world).contains("CannotPropagateObject"), "{}", conditions(&world));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_does_not_delay_the_retry_of_a_failure() {
    let mut second = secret("root", "3", "12", "new");
    second["metadata"]["name"] = json!("other");
    let world = World::of(&[secret("root", "1", "10", "new"), second]);
    // The fake server answers every request after the first with a failure, events included.
    let server = Server::answering([failure(422, "Invalid", "no")]);
    let progress = execute(&world, &executor(&world, &server)).await;
    assert_eq!(progress, Progress::Transient);
    assert!(progress.delays() < Progress::Refused.delays());
}

#[tokio::test]
async fn without_permission_the_executor_sends_no_request() {
    let world = World::of(&[secret("root", "1", "10", "new")]);
    let server = Server::answering([]);
    let executor = Executor { may_write: Arc::new(|| false), ..executor(&world, &server) };
    assert_eq!(execute(&world, &executor).await, Progress::Stopped);
    assert_eq!(server.asked().len(), 0);
}

#[tokio::test]
async fn concurrent_plans_read_a_source_once() {
    let mut below = copy("2", "11", "old");
    below["metadata"]["labels"]["hnc.x-k8s.io/inherited-from"] = json!("root");
    let world = World::of(&[secret("root", "1", "10", "new"), below]);
    world.writer.tell([world.without_content(&secret("root", "1", "12", "new"))]);
    let (namespace, scope, first) = world.plan();
    let second = world.plan().2;
    assert_eq!(first.unread, [("root".into(), world.key.clone())]);

    let server = Server::answering([secret("root", "1", "12", "new")]);
    let executor = executor(&world, &server);
    let (first, second) = tokio::join!(
        executor.execute(&namespace, &scope, first),
        executor.execute(&namespace, &scope, second)
    );
    let both = [first.progress, second.progress];
    assert_eq!(both, [Progress::Conflict, Progress::Conflict], "both are planned again");
    assert_eq!(server.methods(), ["GET"]);
    let again = world.forest.read(|forest| plan(forest, &namespace, &scope));
    assert!(again.unread.is_empty() && again.actions().count() == 1, "{again:?}");
}

#[tokio::test]
async fn a_source_that_cannot_be_read_is_read_again_later() {
    let world = World::of(&[secret("root", "1", "10", "new")]);
    world.writer.tell([world.without_content(&secret("root", "1", "12", "new"))]);
    for (answer, progress) in [
        (failure(500, "InternalError", "no"), Progress::Transient),
        (failure(403, "Forbidden", "no"), Progress::Refused),
        (failure(404, "NotFound", "no"), Progress::Conflict),
    ] {
        let server = Server::answering([answer]);
        assert_eq!(execute(&world, &executor(&world, &server)).await, progress);
        let shown = world.forest.read(|forest| format!("{:?}", plan(forest, "leaf", &Scope::whole()).report));
        assert_eq!(shown.contains("cannot be read"), progress == Progress::Refused, "{shown}");
        world.writer.tell([Fact::WriteSettled("leaf".into(), world.key.clone())]);
    }
}

#[tokio::test]
async fn a_users_object_is_overwritten_only_if_the_current_configuration_says_so() {
    let own =
        || World::of(&[secret("root", "1", "10", "new"), secret("leaf", "2", "11", "own")]).overwriting();
    let says = |mode: &str| {
        let entry = json!({ "resource": "secrets", "mode": mode, "onConflict": "Overwrite" });
        configuration(&json!([entry]))
    };
    let silent = json!([{ "resource": "secrets", "mode": "Propagate" }]);
    let reports = json!([{ "resource": "secrets", "mode": "Propagate", "onConflict": "Report" }]);
    for (what, answer, progress) in [
        ("no configuration", failure(404, "NotFound", "no"), Progress::Conflict),
        ("no entry for the kind", configuration(&json!([])), Progress::Conflict),
        ("another mode", says("Ignore"), Progress::Conflict),
        ("a mode without overwriting", says("AllowPropagate"), Progress::Conflict),
        ("onConflict Report", configuration(&reports), Progress::Conflict),
        ("no onConflict", configuration(&silent), Progress::Conflict),
        ("a failed read", failure(500, "InternalError", "no"), Progress::Transient),
        ("a forbidden read", failure(403, "Forbidden", "no"), Progress::Refused),
    ] {
        let (world, server) = (own(), Server::answering([answer]));
        assert_eq!(execute(&world, &executor(&world, &server)).await, progress, "{what}");
        assert_eq!(server.methods(), ["GET"], "{what}");
    }
    let (world, server) = (own(), Server::answering([says("Propagate"), copy("2", "12", "new")]));
    assert_eq!(execute(&world, &executor(&world, &server)).await, Progress::Complete);
    assert_eq!(server.methods()[..2], ["GET", "PUT"]);
    let [event] = &events(&server, 1).await[..] else { panic!("one event") };
    let about = [&event["reason"], &event["involvedObject"]["namespace"], &event["involvedObject"]["uid"]];
    assert_eq!(about, ["ObjectOverwritten", "leaf", "2"]);
}

#[tokio::test]
async fn a_users_object_is_kept_and_the_conflict_is_recorded_without_a_request() {
    let world = World::of(&[secret("root", "1", "10", "new"), secret("leaf", "2", "11", "own")]);
    let server = Server::answering([]);
    assert_eq!(world.plan().2.conflicts.len(), 1);
    assert_eq!(execute(&world, &executor(&world, &server)).await, Progress::Complete);
    assert!(server.methods().is_empty() && world.plan().2.conflicts.is_empty());
}

#[tokio::test]
async fn a_plan_from_before_a_configuration_change_overwrites_nothing() {
    let world = World::of(&[secret("root", "1", "10", "new"), secret("leaf", "2", "11", "own")]);
    let world = world.overwriting();
    let (namespace, scope, old) = world.plan();
    world.writer.tell([Fact::Kinds(vec![KindSettings::new(secrets_kind(), Mode::Ignore)])]);
    let now = configuration(&json!([{ "resource": "secrets", "mode": "Ignore" }]));
    let server = Server::answering([now]);
    let progress = executor(&world, &server).execute(&namespace, &scope, old).await.progress;
    assert_eq!((progress, server.methods()), (Progress::Conflict, vec!["GET".to_owned()]));
}

#[tokio::test]
async fn a_copy_is_replaced_without_reading_the_configuration() {
    let world = World::of(&[secret("root", "1", "10", "new"), copy("2", "11", "old")]);
    let server = Server::answering([copy("2", "12", "new")]);
    assert_eq!(execute(&world, &executor(&world, &server)).await, Progress::Complete);
    assert_eq!(server.methods(), ["PUT"]);
}

/// The stored list with one naming of `p` by `y`, by this time.
fn list(since: &str, consent_to: &[&str]) -> Value {
    let naming =
        json!({ "parent": "p", "child": "y", "consentTo": consent_to, "review": "1", "since": since });
    let data = json!({ "namings.json": json!([naming]).to_string() });
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "hnc-missing-parents" }, "data": data })
}

#[tokio::test]
async fn an_anchor_creates_nothing_above_a_namespace_that_has_not_consented() {
    let now = k8s_openapi::jiff::Timestamp::now().to_string();
    let long_ago = "2026-01-01T00:00:00Z";
    let anchor = json!({
        "apiVersion": "hnc.x-k8s.io/v1alpha2", "kind": "SubnamespaceAnchor",
        "metadata": { "name": "p", "namespace": "root", "uid": "a", "resourceVersion": "2" },
        "status": { "status": "Conflict" },
    });
    let empty =
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "hnc-missing-parents" } });
    let mut garbage = empty.clone();
    garbage["data"] = json!({ "namings.json": "{}" });
    let run = async |answers: &[&Value]| {
        let world = World::of(&[]);
        let version = Version { uid: "a".into(), resource_version: "1".into() };
        let fact = forest::AnchorFact { name: "p".into(), version, ..forest::AnchorFact::default() };
        world.writer.tell([Fact::Hnc(forest::hnc::Fact::Anchor("root".into(), fact))]);
        let server = Server::answering(answers.iter().map(|it| (*it).clone()));
        let outcome = executor(&world, &server).check_consent(&"root".into(), &"p".into()).await;
        let plan = world.forest.read(|forest| format!("{:?}", plan(forest, "root", &Scope::whole())));
        (outcome, server, plan.contains("CreateSubnamespace"))
    };
    for allowed in [&failure(404, "NotFound", "no"), &empty, &list(long_ago, &["x", "root"])] {
        let (outcome, server, _) = run(&[allowed]).await;
        assert_eq!((outcome, server.methods()), (None, vec!["GET".to_owned()]), "{allowed}");
    }
    for unknown in [&failure(403, "Forbidden", "no"), &failure(500, "InternalError", "no"), &garbage] {
        assert!(run(&[unknown]).await.0.is_some(), "{unknown}");
    }
    let (outcome, server, creates) = run(&[&list(&now, &["x"])]).await;
    assert!(matches!(outcome, Some(Outcome::Transient(..))), "{outcome:?}");
    assert_eq!((server.methods(), creates), (vec!["GET".to_owned()], true), "its review may still deny it");
    let (outcome, server, creates) = run(&[&list(long_ago, &["x"]), &anchor]).await;
    assert_eq!((outcome, creates), (Some(Outcome::Conflict), false));
    assert_eq!(server.methods()[..2], ["GET", "PATCH"]);
    assert_eq!(server.asked()[1].2["status"]["status"], "Conflict");
    let [event] = &events(&server, 1).await[..] else { panic!("one event") };
    let about = [&event["reason"], &event["involvedObject"]["namespace"], &event["involvedObject"]["name"]];
    assert_eq!(about, ["CannotCreateSubnamespace", "root", "p"]);
    assert!(event["message"].as_str().unwrap().contains("namespace \"y\" named \"p\""), "{event}");
}

/// Reads and writes wait for permits in the order of their requests: many reads would delay all writes.
#[tokio::test(start_paused = true)]
async fn few_sources_are_read_at_a_time() {
    const SOURCES: usize = 100;
    let world = World::of(&[]);
    for number in 0..SOURCES {
        let mut source = secret("root", &format!("u{number}"), "10", "new");
        source["metadata"]["name"] = json!(format!("s{number}"));
        world.writer.tell([world.without_content(&source)]);
    }
    let (in_flight, counts) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
    let (now, seen) = (in_flight.clone(), counts.clone());
    let service = service_fn(move |_: Request<Body>| {
        let (now, seen) = (now.clone(), seen.clone());
        async move {
            seen.lock().push(now.fetch_add(1, Ordering::Relaxed) + 1);
            tokio::time::sleep(Duration::from_millis(1)).await;
            now.fetch_sub(1, Ordering::Relaxed);
            let gone = failure(404, "NotFound", "it is gone").to_string().into_bytes();
            Ok::<_, BoxError>(Response::builder().status(404).body(Body::from(gone))?)
        }
    });
    let executor = executor_with(&world, &Client::new(service, "default"));
    execute(&world, &executor).await;
    let counts = counts.lock();
    assert_eq!((counts.len(), counts.iter().max()), (SOURCES, Some(&16)));
    assert_eq!(in_flight.load(Ordering::Relaxed), 0);
}
