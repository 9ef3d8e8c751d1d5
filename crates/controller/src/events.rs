//! Reports objects that cannot be propagated, and derived quotas that cannot be written, by events on these objects and on the
//! hierarchical quotas (section 4.4 of docs/compatibility.md).
//!
//! The executor calls the recorder. A problem is reported again only when it changes, or when it returns. Events are best effort:
//! they never delay a write, and events that do not fit into the queue are counted and dropped.

mod history;
mod writer;

use std::collections::BTreeSet;
use std::sync::Arc;

use forest::core::plan::{Action, Complaint, ComplaintReason, Plan};
use forest::{Forest, Kind, Name, ObjectKey, ObjectScope, Version};
use hns_api::events::{
    CANNOT_CREATE_SUBNAMESPACE, CANNOT_PARSE_SELECTOR, CANNOT_PROPAGATE_OBJECT, CANNOT_UPDATE_OBJECT,
    CANNOT_WRITE_RESOURCE_QUOTA, OBJECT_OVERWRITTEN,
};
use hns_api::{HierarchicalResourceQuota, SubnamespaceAnchor};
use hns_cluster::handle::ForestHandle;
use kube::{Client, CustomResourceExt};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use self::history::History;
pub(crate) use self::history::{Failure, FailureKind};
use crate::dialect::Dialect;
use crate::metrics::EventMetrics;
use crate::permission::Permission;

/// The number of events that may wait to be written.
const QUEUE_CAPACITY: usize = 1_000;

/// An event to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Event {
    about: InvolvedObject,
    reason: &'static str,
    message: String,
}

/// The object that an event is about. The event is in the same namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
struct InvolvedObject {
    kind: Kind,
    namespace: Name,
    name: Name,
    /// `None` if the object does not exist yet.
    version: Option<Version>,
}

/// Records events. Clones share the history.
#[derive(Clone)]
pub(crate) struct EventRecorder {
    forest: ForestHandle,
    history: Arc<Mutex<History>>,
    queue: mpsc::Sender<Event>,
    metrics: EventMetrics,
}

impl EventRecorder {
    /// Starts a task that writes the events while `may_write` returns true.
    pub(crate) fn start(
        client: Client,
        forest: ForestHandle,
        metrics: EventMetrics,
        may_write: Permission,
    ) -> Self {
        let (recorder, events) = Self::new(forest, metrics.clone());
        tokio::spawn(writer::write_events(client, events, metrics, may_write));
        recorder
    }

    fn new(forest: ForestHandle, metrics: EventMetrics) -> (Self, mpsc::Receiver<Event>) {
        let (queue, events) = mpsc::channel(QUEUE_CAPACITY);
        (Self { forest, history: Arc::default(), queue, metrics }, events)
    }

    /// A recorder with a history of its own, which writes to the same queue.
    pub(crate) fn with_own_history(&self) -> Self {
        Self { history: Arc::default(), ..self.clone() }
    }

    /// Reports the complaints of a plan, and forgets the failures that are over.
    pub(crate) fn record_plan<D: Dialect>(&self, namespace: &Name, plan: &Plan<D>) {
        if self.forest.read(|forest| !forest.exists(namespace)) {
            return self.history.lock().remove_namespace(namespace);
        }
        self.record_complaints(namespace, &plan.scope.objects, &plan.complaints);
        // A plan with unread sources leaves out writes that may fail again, so no failure is over.
        if !plan.unread.is_empty() {
            return;
        }
        if plan.scope.quotas && !plan.actions().any(writes_derived_quota) {
            self.record_quota_success(namespace);
        }
        let written: BTreeSet<&ObjectKey> = plan.actions().filter_map(|action| action.key()).collect();
        self.history
            .lock()
            .remove_failures(namespace, |key| plan.scope.objects.includes(key) && !written.contains(key));
    }

    /// Reports new complaints. `complaints` are all about the objects of `namespace` in `planned`.
    pub(crate) fn record_complaints(
        &self,
        namespace: &Name,
        planned: &ObjectScope,
        complaints: &[Complaint],
    ) {
        let new = self.history.lock().add_complaints(namespace, planned, complaints);
        for complaint in new {
            let event = self.forest.read(|forest| complaint_event(forest, namespace, complaint));
            if !self.send(event) {
                self.history.lock().remove_complaint(namespace, complaint);
            }
        }
    }

    /// Reports that a copy could not be written or removed. Returns whether this failure makes a series of failures persistent.
    pub(crate) fn record_failure(&self, failure: &Failure<'_>) -> bool {
        let (is_new, is_persistent) = self.history.lock().add_failure(failure);
        if is_new {
            self.send_failure(failure);
        }
        is_persistent
    }

    fn send_failure(&self, failure: &Failure<'_>) {
        let events = self.forest.read(|forest| failure_events(forest, failure));
        let dropped = events.into_iter().filter(|event| !self.send(event.clone())).count();
        if dropped > 0 {
            self.history.lock().mark_unreported(failure);
        }
    }

    /// A copy was written or removed.
    pub(crate) fn record_success(&self, namespace: &Name, key: &ObjectKey) {
        self.history.lock().remove_failures(namespace, |failed| failed == key);
    }

    /// Reports on each hierarchical quota of `namespace` and above that the derived quota could not be written. `sources` are its
    /// sources: a failure is reported again when they change.
    pub(crate) fn record_quota_failure(
        &self,
        namespace: &Name,
        sources: &str,
        (why, kind): (&str, FailureKind),
    ) {
        if !self.history.lock().add_quota_failure(namespace, kind, &format!("{sources}: {why}")) {
            return;
        }
        let events = self.forest.read(|forest| quota_events(forest, namespace, why));
        let dropped = events.into_iter().filter(|event| !self.send(event.clone())).count();
        if dropped > 0 {
            self.record_quota_success(namespace);
        }
    }

    /// The derived quota was written, or needs no write.
    pub(crate) fn record_quota_success(&self, namespace: &Name) {
        self.history.lock().remove_quota_failure(namespace);
    }

    /// A copy has replaced an object that was not a copy.
    pub(crate) fn record_overwrite(&self, namespace: &Name, key: &ObjectKey, source: Option<&Name>) {
        let by = source
            .map_or_else(|| "a copy".into(), |source| format!("a copy of the one in namespace {source:?}"));
        let event = self.forest.read(|forest| Event {
            about: involved_object(forest, namespace, key),
            reason: OBJECT_OVERWRITTEN,
            message: format!("This object was not a copy. It has been replaced by {by}."),
        });
        self.send(event);
    }

    /// An anchor creates nothing. This happens once to an anchor.
    pub(crate) fn record_anchor_conflict(&self, namespace: &Name, name: &Name, message: String) {
        let (kind, version) =
            (custom_kind::<SubnamespaceAnchor>(), self.forest.read(|it| it.anchor_version(namespace, name)));
        let about = InvolvedObject { kind, namespace: namespace.clone(), name: name.clone(), version };
        self.send(Event { about, reason: CANNOT_CREATE_SUBNAMESPACE, message });
    }

    /// Returns whether the queue had room for the event.
    fn send(&self, event: Event) -> bool {
        let has_room = self.queue.try_send(event).is_ok();
        if !has_room {
            self.metrics.dropped();
        }
        has_room
    }
}

fn complaint_event(forest: &Forest, namespace: &Name, complaint: &Complaint) -> Event {
    let Complaint { key, version, reason, message } = complaint;
    Event {
        about: InvolvedObject {
            kind: forest.kind(key.kind).clone(),
            namespace: namespace.clone(),
            name: key.name.clone(),
            version: Some(version.clone()),
        },
        reason: match reason {
            ComplaintReason::CannotParseSelector => CANNOT_PARSE_SELECTOR,
            ComplaintReason::CannotPropagateObject => CANNOT_PROPAGATE_OBJECT,
        },
        message: message.to_string(),
    }
}

fn involved_object(forest: &Forest, namespace: &Name, key: &ObjectKey) -> InvolvedObject {
    InvolvedObject {
        kind: forest.kind(key.kind).clone(),
        namespace: namespace.clone(),
        name: key.name.clone(),
        version: forest.object_version(namespace, key),
    }
}

/// One event on the source, if it exists, and one on the copy.
fn failure_events(forest: &Forest, failure: &Failure<'_>) -> Vec<Event> {
    let Failure { namespace, key, removal, why, .. } = failure;
    let about = |namespace: &Name| involved_object(forest, namespace, key);
    let source = failure.source.or_else(|| forest.copied_from(namespace, key));
    let what = if *removal { "remove" } else { "write" };
    let why = why.trim_end_matches('.');
    let on_source = source.map(about).filter(|source| source.version.is_some()).map(|about| Event {
        about,
        reason: CANNOT_PROPAGATE_OBJECT,
        message: format!("Could not {what} to destination namespace {:?}: {why}.", &***namespace),
    });
    let from = source.map_or("", |source| &**source);
    let on_copy = Event {
        about: about(namespace),
        reason: CANNOT_UPDATE_OBJECT,
        message: format!("Could not {what} from source namespace {from:?}: {why}."),
    };
    on_source.into_iter().chain([on_copy]).collect()
}

/// Whether the action creates or changes a derived quota.
fn writes_derived_quota<D: Dialect>(action: &Action<D>) -> bool {
    matches!(action, Action::Dialect(action) if action.derived_quota_sources().is_some())
}

fn custom_kind<K: CustomResourceExt>() -> Kind {
    let kind = K::api_resource();
    Kind { group: kind.group, version: kind.version, kind: kind.kind, resource: kind.plural }
}

fn quota_events(forest: &Forest, namespace: &Name, why: &str) -> Vec<Event> {
    let kind = custom_kind::<HierarchicalResourceQuota>();
    let event = |(at, name, version)| Event {
        about: InvolvedObject { kind: kind.clone(), namespace: at, name, version: Some(version) },
        reason: CANNOT_WRITE_RESOURCE_QUOTA,
        message: format!(
            "could not create/update lower-level ResourceQuota in namespace {:?}: {why}",
            &**namespace
        ),
    };
    forest.quotas_over(namespace).into_iter().map(event).collect()
}

#[cfg(test)]
mod tests;
