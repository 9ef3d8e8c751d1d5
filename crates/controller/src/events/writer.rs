//! Writes events, one at a time. An event that cannot be written is counted and dropped.

use std::time::Duration;

use forest::text::limited;
use hns_api::events::{COMPONENT, TYPE_WARNING};
use hns_cluster::api::Api;
use hns_cluster::error_text::error_text;
use k8s_openapi::api::core::v1::{Event as CoreEvent, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::PostParams;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::{Event, InvolvedObject};
use crate::metrics::EventMetrics;
use crate::permission::Permission;

/// The time limit of one write.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest message in bytes: the limit of the Kubernetes events API.
const MAX_MESSAGE: usize = 1_024;

/// Writes events until every recorder is dropped.
pub(super) async fn write_events(
    client: Client,
    mut events: mpsc::Receiver<Event>,
    metrics: EventMetrics,
    may_write: Permission,
) {
    while let Some(event) = events.recv().await {
        if !may_write() {
            continue;
        }
        let api: Api<CoreEvent> = Api::namespaced(client.clone(), &event.about.namespace);
        let event = core_event(event, Timestamp::now());
        match timeout(WRITE_TIMEOUT, api.create(&PostParams::default(), &event)).await {
            Ok(Ok(_)) => metrics.written(),
            Ok(Err(error)) => {
                metrics.failed();
                tracing::debug!(error = error_text(&error), "could not write an event");
            }
            Err(_) => metrics.failed(),
        }
    }
}

/// The event as core/v1 defines it. Clients filter on `source.component`.
fn core_event(event: Event, now: Timestamp) -> CoreEvent {
    let Event { about: InvolvedObject { kind, namespace, name, version }, reason, message } = event;
    let (uid, resource_version) =
        version.map(|it| (it.uid.to_string(), it.resource_version.to_string())).unzip();
    CoreEvent {
        metadata: ObjectMeta {
            // The API server shortens a long name.
            generate_name: Some(format!("{}.", if is_event_name(&name) { &*name } else { "object" })),
            namespace: Some(namespace.to_string()),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: Some(kind.api_version()),
            kind: Some(kind.kind),
            namespace: Some(namespace.to_string()),
            name: Some(name.to_string()),
            uid,
            resource_version,
            ..ObjectReference::default()
        },
        type_: Some(TYPE_WARNING.into()),
        reason: Some(reason.into()),
        message: Some(limited(&message, MAX_MESSAGE).into()),
        source: Some(EventSource { component: Some(COMPONENT.into()), host: None }),
        reporting_component: Some(COMPONENT.into()),
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        count: Some(1),
        ..CoreEvent::default()
    }
}

/// Whether the name is valid for an event. Some kinds allow other names.
fn is_event_name(name: &str) -> bool {
    let is_word = |part: &str| part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    name.split(['.', '-']).all(|part| !part.is_empty() && is_word(part))
}

#[cfg(test)]
mod tests {
    use forest::{Kind, Version};
    use serde_json::json;

    use super::*;

    fn event(message: &str) -> Event {
        let version = Some(Version { uid: "u".into(), resource_version: "7".into() });
        let about =
            InvolvedObject { kind: Kind::role(), namespace: "a".into(), name: "reader".into(), version };
        Event { about, reason: "CannotPropagateObject", message: message.into() }
    }

    #[test]
    fn events_have_the_component_that_clients_filter_on() {
        let now: Timestamp = "2025-06-01T12:00:00Z".parse().unwrap();
        let written = serde_json::to_value(core_event(event("No."), now)).unwrap();
        let wanted = json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": { "generateName": "reader.", "namespace": "a" },
            "involvedObject": {
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "namespace": "a", "name": "reader",
                "uid": "u", "resourceVersion": "7",
            },
            "type": "Warning",
            "reason": "CannotPropagateObject",
            "message": "No.",
            "source": { "component": "hnc.x-k8s.io" },
            "reportingComponent": "hnc.x-k8s.io",
            "firstTimestamp": "2025-06-01T12:00:00Z",
            "lastTimestamp": "2025-06-01T12:00:00Z",
            "count": 1,
        });
        let mut written = written;
        // The schema requires these fields, so the serializer writes them even when empty.
        for absent in ["eventTime", "series", "action"] {
            assert!(written.as_object_mut().unwrap().remove(absent).is_none_or(|value| value.is_null()));
        }
        assert_eq!(written, wanted);
    }

    #[test]
    fn long_messages_and_invalid_event_names_are_accepted() {
        let mut long = event(&"é".repeat(1_000));
        long.about.name = "on call?".into();
        let written = core_event(long, Timestamp::now());
        assert!(written.message.is_some_and(|it| it.len() <= MAX_MESSAGE));
        assert_eq!(written.metadata.generate_name.as_deref(), Some("object."));
        assert_eq!(written.involved_object.name.as_deref(), Some("on call?"));
    }
}
