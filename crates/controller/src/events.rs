//! Telling people, by events on the objects concerned, what cannot be propagated (section 4.4 of docs/compatibility.md).
//!
//! What was said once is not said again until it has changed, or has passed and come back. Saying is best effort: it never
//! holds up a write, and what there is no room for is counted and left out. What is wrong is found out elsewhere.

mod history;
mod writer;

use std::collections::BTreeSet;
use std::sync::Arc;

use forest::plan::{Complaint, ComplaintReason, Plan};
use forest::{Forest, Kind, Name, ObjectKey, ObjectScope, Version};
use hns_api::events::{
    CANNOT_PARSE_SELECTOR, CANNOT_PROPAGATE_OBJECT, CANNOT_UPDATE_OBJECT, OBJECT_OVERWRITTEN,
};
use hns_cluster::handle::ForestHandle;
use kube::Client;
use parking_lot::Mutex;
use tokio::sync::mpsc;

pub(crate) use self::history::{Failure, FailureKind};
use self::history::{Memory, News};
use crate::metrics::EventMetrics;
use crate::permission::Permission;

/// So many events may wait to be written.
const ROOM: usize = 1_000;

/// An event to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Event {
    about: About,
    reason: &'static str,
    message: String,
}

/// The object that an event is about. It is in the same namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
struct About {
    kind: Kind,
    namespace: Name,
    name: Name,
    /// Which state of it; `None` when there is none yet.
    version: Option<Version>,
}

/// Says what cannot be propagated. Clones share what was said.
#[derive(Clone)]
pub(crate) struct EventRecorder {
    forest: ForestHandle,
    memory: Arc<Mutex<Memory>>,
    outbox: mpsc::Sender<Event>,
    metrics: EventMetrics,
}

impl EventRecorder {
    /// Events are written by a task that this starts, as long as `may_write` says yes.
    pub(crate) fn start(
        client: Client,
        forest: ForestHandle,
        metrics: EventMetrics,
        may_write: Permission,
    ) -> Self {
        let (recorder, inbox) = Self::new(forest, metrics.clone());
        tokio::spawn(writer::write_events(client, inbox, metrics, may_write));
        recorder
    }

    fn new(forest: ForestHandle, metrics: EventMetrics) -> (Self, mpsc::Receiver<Event>) {
        let (outbox, inbox) = mpsc::channel(ROOM);
        (Self { forest, memory: Arc::default(), outbox, metrics }, inbox)
    }

    /// A namespace has been planned: says what there is to complain of in it, and forgets what has passed.
    pub(crate) fn planned(&self, namespace: &Name, plan: &Plan) {
        if self.forest.read(|forest| !forest.exists(namespace)) {
            return self.memory.lock().forget(namespace);
        }
        self.complain(namespace, &plan.scope.objects, &plan.complaints);
        // What has to be read first puts off writes that failed before and may fail again: nothing has passed yet.
        if !plan.unread.is_empty() {
            return;
        }
        let written: BTreeSet<&ObjectKey> = plan.actions().filter_map(|action| action.key()).collect();
        self.memory
            .lock()
            .passed(namespace, |key| plan.scope.objects.includes(key) && !written.contains(key));
    }

    /// These are all the complaints about the objects of `namespace` that were looked at.
    pub(crate) fn complain(&self, namespace: &Name, looked_at: &ObjectScope, complaints: &[Complaint]) {
        let news = self.memory.lock().complaints(namespace, looked_at, complaints);
        for complaint in news {
            let event = self.forest.read(|forest| complaint_event(forest, namespace, complaint));
            if !self.say(event) {
                self.memory.lock().unsaid_complaint(namespace, complaint);
            }
        }
    }

    /// A copy could not be written or removed. Gives whether it has now failed so often in a row that it counts as persistent; each time that
    /// happens, this is said once.
    pub(crate) fn failed(&self, failure: &Failure<'_>) -> bool {
        let (news, persists) = self.memory.lock().failure(failure);
        if news == News::New {
            self.say_failure(failure);
        }
        persists
    }

    fn say_failure(&self, failure: &Failure<'_>) {
        let events = self.forest.read(|forest| failure_events(forest, failure));
        let unsaid = events.into_iter().filter(|event| !self.say(event.clone())).count();
        if unsaid > 0 {
            self.memory.lock().unsaid_failure(failure);
        }
    }

    /// A copy was written or removed.
    pub(crate) fn succeeded(&self, namespace: &Name, key: &ObjectKey) {
        self.memory.lock().passed(namespace, |passed| passed == key);
    }

    /// An object that was no copy has been replaced.
    pub(crate) fn overwritten(&self, namespace: &Name, key: &ObjectKey, source: Option<&Name>) {
        let by =
            source.map_or_else(|| "a copy".into(), |source| format!("the one from namespace {source:?}"));
        let event = self.forest.read(|forest| Event {
            about: about(forest, namespace, key),
            reason: OBJECT_OVERWRITTEN,
            message: format!("This object was no copy, and has been replaced by {by}."),
        });
        self.say(event);
    }

    /// Whether there was room for it.
    fn say(&self, event: Event) -> bool {
        let has_room = self.outbox.try_send(event).is_ok();
        if !has_room {
            self.metrics.dropped();
        }
        has_room
    }
}

fn complaint_event(forest: &Forest, namespace: &Name, complaint: &Complaint) -> Event {
    let Complaint { key, version, reason, message } = complaint;
    Event {
        about: About {
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

fn about(forest: &Forest, namespace: &Name, key: &ObjectKey) -> About {
    About {
        kind: forest.kind(key.kind).clone(),
        namespace: namespace.clone(),
        name: key.name.clone(),
        version: forest.object_version(namespace, key),
    }
}

/// For whoever keeps the source, if there is one still, and for those who miss the copy.
fn failure_events(forest: &Forest, failure: &Failure<'_>) -> Vec<Event> {
    let Failure { namespace, key, removal, why, .. } = failure;
    let about = |place: &Name| about(forest, place, key);
    let source = failure.source.or_else(|| forest.inherited_from(namespace, key));
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

#[cfg(test)]
mod tests;
