//! Plans carried out against an API server of a few answers.

use forest::configuration::{Served, ServedKind};
use forest::plan::plan;
use forest::{KindSettings, Mode};
use prometheus::Registry;
use serde_json::{Value, json};

use super::*;
use crate::fake::{Server, World, copy, failure, secret, secrets_kind};

fn executor(world: &World, server: &Server) -> Executor {
    let registry = Registry::new();
    let metrics = Metrics::register(&registry, &crate::queue::Queue::default(), &world.forest, true).unwrap();
    let (writer, forest) = (world.writer.clone(), world.forest.clone());
    let (_, configuration) = tokio::sync::watch::channel(Configuration {
        served: Some(Arc::new(Served { kinds: vec![served_secrets()], ..Served::default() })),
        ..Configuration::default()
    });
    let permission: Permission = Arc::new(|| true);
    Executor::new(server.client(), (writer, forest), configuration, metrics, (Guard::disabled(), permission))
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

/// The events that were written, once there are so many; they must be there within a minute.
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
async fn a_refusal_is_recorded_and_told_once_in_both_namespaces() {
    let world = World::of(&[secret("root", "1", "10", "new")]);
    let refusal = || failure(422, "Invalid", "no");
    // Both events are taken; the answer to an event is not looked at.
    let server = Server::answering([refusal(), json!({}), json!({}), refusal(), copy("2", "11", "new")]);
    let executor = executor(&world, &server);
    assert_eq!(execute(&world, &executor).await, Progress::Refused);
    let told = events(&server, 2).await;
    let namespaces: Vec<&Value> = told.iter().map(|event| &event["metadata"]["namespace"]).collect();
    assert_eq!(namespaces, ["root", "leaf"]);
    assert_eq!(told[0]["message"], "Could not write to destination namespace \"leaf\": no.");

    assert_eq!(execute(&world, &executor).await, Progress::Refused);
    assert!(!world.plan().2.settled.contains(&world.key), "it is still to be written");
    assert_eq!(execute(&world, &executor).await, Progress::Complete);
    assert!(world.plan().2.is_empty(), "the failure is settled with the write");
    // The clock stands until nothing else can run.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(events(&server, 0).await.len(), 2, "the same refusal is no news");
    assert!(server.is_exhausted());
}

#[tokio::test(start_paused = true)]
async fn what_fails_again_and_again_becomes_a_condition() {
    let conditions = |world: &World| {
        world.forest.read(|forest| {
            let plan = plan(forest, "leaf", &Scope::whole());
            format!("{:?}", plan.report)
        })
    };
    let world = World::of(&[secret("root", "1", "10", "new")]);
    // Whatever comes after the first answer is unexpected, also of events.
    let server = Server::answering([failure(500, "InternalError", "a webhook said no")]);
    let executor = executor(&world, &server);
    for attempt in 1..=6 {
        assert!(!conditions(&world).contains("CannotPropagateObject"), "before attempt {attempt}");
        assert_eq!(execute(&world, &executor).await, Progress::Transient);
    }
    assert!(conditions(&world).contains("CannotPropagateObject"), "{}", conditions(&world));
}

#[tokio::test]
async fn nothing_is_written_or_told_when_it_is_not_allowed() {
    let world = World::of(&[secret("root", "1", "10", "new")]);
    let server = Server::answering([]);
    let executor = Executor { may_write: Arc::new(|| false), ..executor(&world, &server) };
    assert_eq!(execute(&world, &executor).await, Progress::Stopped);
    assert_eq!(server.asked().len(), 0);
}

#[tokio::test]
async fn sources_whose_content_was_not_kept_are_read_once_however_many_ask() {
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
async fn a_source_that_cannot_be_read_is_asked_for_again_later() {
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
async fn an_object_that_is_no_copy_is_overwritten_only_if_the_configuration_still_says_so() {
    let own =
        || World::of(&[secret("root", "1", "10", "new"), secret("leaf", "2", "11", "own")]).overwriting();
    let says = |mode: &str| {
        let entry = json!({ "resource": "secrets", "mode": mode, "onConflict": "Overwrite" });
        configuration(&json!([entry]))
    };
    let silent = json!([{ "resource": "secrets", "mode": "Propagate" }]);
    let reports = json!([{ "resource": "secrets", "mode": "Propagate", "onConflict": "Report" }]);
    for (what, answer, progress) in [
        ("not at all", failure(404, "NotFound", "no"), Progress::Conflict),
        ("nothing of the kind", configuration(&json!([])), Progress::Conflict),
        ("another mode", says("Ignore"), Progress::Conflict),
        ("a mode that overwrites nothing", says("AllowPropagate"), Progress::Conflict),
        ("that it be left alone", configuration(&reports), Progress::Conflict),
        ("nothing of conflicts", configuration(&silent), Progress::Conflict),
        ("what cannot be read", failure(500, "InternalError", "no"), Progress::Transient),
        ("what may not be read", failure(403, "Forbidden", "no"), Progress::Refused),
    ] {
        let (world, server) = (own(), Server::answering([answer]));
        assert_eq!(execute(&world, &executor(&world, &server)).await, progress, "{what}");
        assert_eq!(server.methods(), ["GET"], "{what}");
    }
    let (world, server) = (own(), Server::answering([says("Propagate"), copy("2", "12", "new")]));
    assert_eq!(execute(&world, &executor(&world, &server)).await, Progress::Complete);
    assert_eq!(server.methods()[..2], ["GET", "PUT"]);
    let [event] = &events(&server, 1).await[..] else { panic!("it is told once") };
    let about = [&event["reason"], &event["involvedObject"]["namespace"], &event["involvedObject"]["uid"]];
    assert_eq!(about, ["ObjectOverwritten", "leaf", "2"]);
}

#[tokio::test]
async fn an_object_that_is_no_copy_is_kept_and_that_is_recorded_without_a_request() {
    let world = World::of(&[secret("root", "1", "10", "new"), secret("leaf", "2", "11", "own")]);
    let server = Server::answering([]);
    assert_eq!(world.plan().2.conflicts.len(), 1);
    assert_eq!(execute(&world, &executor(&world, &server)).await, Progress::Complete);
    assert!(server.methods().is_empty() && world.plan().2.conflicts.is_empty());
}

#[tokio::test]
async fn what_was_planned_before_the_configuration_changed_overwrites_nothing() {
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
async fn a_copy_is_replaced_without_asking() {
    let world = World::of(&[secret("root", "1", "10", "new"), copy("2", "11", "old")]);
    let server = Server::answering([copy("2", "12", "new")]);
    assert_eq!(execute(&world, &executor(&world, &server)).await, Progress::Complete);
    assert_eq!(server.methods(), ["PUT"]);
}
