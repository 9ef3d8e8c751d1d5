//! The requests to a fake API server, and the events that its answers give.

use std::sync::Arc;
use std::time::Duration;

use http::{Response, StatusCode};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::*;

/// The relevant part of each query, and the requested representation.
type Requests = Arc<Mutex<Vec<(String, &'static str)>>>;

fn secret(name: &str, copy: bool) -> Value {
    let labels = if copy { json!({ "hnc.x-k8s.io/inherited-from": "root" }) } else { json!({}) };
    json!({ "metadata": { "name": name, "namespace": "a", "uid": name, "resourceVersion": "1", "labels": labels },
            "data": { "k": "dg==" } })
}

fn list(items: &[Value], next: &str) -> Value {
    json!({ "kind": "SecretList", "apiVersion": "v1", "items": items,
            "metadata": { "resourceVersion": "5", "continue": next } })
}

fn without_content(mut list: Value) -> Value {
    for item in list["items"].as_array_mut().into_iter().flatten() {
        item["kind"] = json!("PartialObjectMetadata");
        item.as_object_mut().unwrap().remove("data");
    }
    list
}

/// Two copies on a page each, and a source. The first request for the second page of copies fails.
fn client(asked: Requests) -> Client {
    let failed = Arc::new(Mutex::new(false));
    let answer = move |request: Request<Body>| {
        let query = request.uri().query().unwrap_or_default().to_owned();
        let accept = request.headers().get(ACCEPT).map_or("", |accept| accept.to_str().unwrap());
        let representation = match accept {
            it if it.contains("as=PartialObjectMetadataList") => "metadata",
            it if it.contains("as=PartialObjectMetadata") => "metadata of each",
            _ => "whole",
        };
        let is_watch = query.contains("watch=true");
        assert!(is_watch || query.contains(&format!("limit={PAGE}")), "a page fits into memory: {query}");
        let of_copies = query.contains("labelSelector=hnc.x-k8s.io%2Finherited-from");
        let second = query.contains("continue=second");
        let what = match (is_watch, of_copies, second) {
            (true, ..) => "watch",
            (_, false, _) => "list",
            (_, _, false) => "copies",
            (..) => "more copies",
        };
        asked.lock().push((what.to_owned(), representation));
        let [one, two, source] = [secret("one", true), secret("two", true), secret("source", false)];
        let all = list(&[one.clone(), source, two.clone()], "");
        let answer = match what {
            "watch" => None,
            "list" if representation == "metadata" => Some(without_content(all)),
            "list" => Some(all),
            "copies" => Some(list(&[one], "second")),
            _ if !std::mem::replace(&mut *failed.lock(), true) => {
                Some(json!({ "code": 500, "message": "no" }))
            }
            _ => Some(list(&[two], "")),
        };
        async move {
            let Some(answer) = answer else { return std::future::pending().await };
            let status =
                answer["code"].as_u64().map_or(StatusCode::OK, |_| StatusCode::INTERNAL_SERVER_ERROR);
            let body = Body::from(serde_json::to_vec(&answer).unwrap());
            Ok::<_, std::io::Error>(Response::builder().status(status).body(body).unwrap())
        }
    };
    Client::new(service_fn(answer), "default")
}

fn kind(kind: &str, resource: &str) -> Kind {
    Kind { group: String::new(), version: "v1".into(), kind: kind.into(), resource: resource.into() }
}

/// The events up to the end of the list, as texts, and the requests until shortly after.
async fn events_seen(kind: &Kind, detail: Detail) -> (Vec<String>, Vec<(String, &'static str)>) {
    let asked = Requests::default();
    let mut events =
        watched(&client(asked.clone()), kind, detail, &["hnc.x-k8s.io/inherited-from".to_owned()]);
    let mut events_seen = Vec::new();
    while events_seen.last().is_none_or(|last| last != "end of list") {
        let event = timeout(Duration::from_secs(10), events.next()).await.unwrap().unwrap();
        events_seen.push(match event {
            Ok(Event::Init) => "begin".to_owned(),
            Ok(Event::InitApply(object)) => {
                let representation = if object.content.is_some() { "whole" } else { "metadata" };
                format!("{} {representation}", object.metadata.name.unwrap())
            }
            Ok(Event::InitDone) => "end of list".to_owned(),
            Ok(other) => format!("{other:?}"),
            Err(error) => {
                assert!(error.to_string().contains("failed to perform initial object list"), "{error:?}");
                "failed".to_owned()
            }
        });
        assert!(events_seen.len() < 20, "the list does not end: {events_seen:?}");
    }
    assert!(timeout(Duration::from_millis(50), events.next()).await.is_err(), "the watch is quiet");
    let asked = asked.lock().clone();
    (events_seen, asked)
}

#[tokio::test]
async fn only_copies_of_large_kinds_are_read_whole() {
    for kind in [kind("Secret", "secrets"), kind("ConfigMap", "configmaps")] {
        let (events_seen, asked) = events_seen(&kind, Detail::Content).await;
        assert_eq!(
            events_seen,
            [
                "begin",
                "one metadata",
                "source metadata",
                "two metadata",
                "one whole",
                "failed",
                "one whole",
                "two whole",
                "end of list",
            ]
        );
        let asked: Vec<_> =
            asked.iter().map(|(what, representation)| (what.as_str(), *representation)).collect();
        let copies = [("copies", "whole"), ("more copies", "whole")];
        assert_eq!(asked[..1], [("list", "metadata")]);
        assert_eq!((&asked[1..3], &asked[3..5]), (&copies[..], &copies[..]));
        assert_eq!(asked[5..], [("watch", "whole")]);
    }
}

#[tokio::test]
async fn other_kinds_are_read_whole_unless_metadata_suffices() {
    let role = Kind::role();
    let (whole, asked) = events_seen(&role, Detail::Content).await;
    assert_eq!(whole, ["begin", "one whole", "source whole", "two whole", "end of list"]);
    assert_eq!(asked, [("list".into(), "whole"), ("watch".into(), "whole")]);
    for kind in [role, kind("Secret", "secrets")] {
        let (metadata, asked) = events_seen(&kind, Detail::Metadata).await;
        assert_eq!(metadata, ["begin", "one metadata", "source metadata", "two metadata", "end of list"]);
        assert_eq!(asked, [("list".into(), "metadata"), ("watch".into(), "metadata of each")]);
    }
}
