//! Plans carried out against an API server of a few answers.

use forest::plan::plan;
use prometheus::Registry;
use serde_json::{Value, json};

use super::*;
use crate::fake::{Server, World, copy, failure, secret};

fn executor(world: &World, server: &Server) -> Executor {
    let registry = Registry::new();
    let metrics = Metrics::register(&registry, &crate::queue::Queue::default(), &world.forest, true).unwrap();
    let (writer, forest) = (world.writer.clone(), world.forest.clone());
    Executor::new(server.client(), (writer, forest), metrics, Arc::new(|| true))
}

async fn execute(world: &World, executor: &Executor) -> Progress {
    let (namespace, scope, plan) = world.plan();
    executor.execute(&namespace, &scope, plan).await
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
    world.writer.tell([world.without_content(&secret("root", "1", "10", "new"))]);
    let (namespace, scope, first) = world.plan();
    let second = world.plan().2;
    assert_eq!(first.unread, [("root".into(), world.key.clone())]);

    let server = Server::answering([secret("root", "1", "10", "new")]);
    let executor = executor(&world, &server);
    let both = tokio::join!(
        executor.execute(&namespace, &scope, first),
        executor.execute(&namespace, &scope, second)
    );
    assert_eq!(both, (Progress::Conflict, Progress::Conflict), "both are planned again");
    assert_eq!(server.methods(), ["GET"]);
    let again = world.forest.read(|forest| plan(forest, &namespace, &scope));
    assert!(again.unread.is_empty() && again.actions().count() == 1, "{again:?}");
}

#[tokio::test]
async fn a_source_that_cannot_be_read_is_asked_for_again_later() {
    let world = World::of(&[secret("root", "1", "10", "new")]);
    world.writer.tell([world.without_content(&secret("root", "1", "10", "new"))]);
    for (answer, progress) in [
        (failure(500, "InternalError", "no"), Progress::Transient),
        (failure(403, "Forbidden", "no"), Progress::Refused),
        (failure(404, "NotFound", "no"), Progress::Conflict),
    ] {
        let server = Server::answering([answer]);
        assert_eq!(execute(&world, &executor(&world, &server)).await, progress);
    }
}
