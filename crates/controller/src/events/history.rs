//! What has been said of which object, so that nothing is said twice: pure data.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use forest::plan::{Complaint, ComplaintReason};
use forest::{Name, ObjectKey, ObjectScope};

/// A copy that could not be written or removed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Failure<'a> {
    /// Where the copy is, or would be.
    pub(crate) namespace: &'a Name,
    pub(crate) key: &'a ObjectKey,
    /// The source's namespace, where it is not the one that the copy names.
    pub(crate) source: Option<&'a Name>,
    /// It was to be removed.
    pub(crate) removal: bool,
    pub(crate) why: &'a str,
    pub(crate) failure_kind: FailureKind,
}

/// What is to be expected of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// It stays until somebody does something.
    Permanent,
    /// It may be over with the next attempt, and its text may be another each time.
    Transient,
}

/// Whether something has to be said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum News {
    New,
    Old,
}

/// So many failures in a row count as persistent. With the delays between them, this is after about eight seconds.
const PERSISTENT: u32 = 6;

/// What was said of an object's failures.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Said {
    /// It has failed so often, and may succeed the next time; whether that was said, which it is not of the first time.
    Failing { times: u32, is_told: bool },
    /// This.
    Text(Box<str>),
}

/// What was said. Holds an entry for each object that something is wrong with, and nothing for the others.
#[derive(Debug, Default)]
pub(super) struct Memory {
    of: HashMap<Name, Place>,
}

#[derive(Debug, Default)]
struct Place {
    failures: BTreeMap<ObjectKey, Said>,
    /// With the uid of the object that it was said of.
    complaints: BTreeMap<(ObjectKey, ComplaintReason), (Box<str>, Box<str>)>,
}

/// What to say of a failure, given what was said before.
fn judge(said: Option<&Said>, failure_kind: FailureKind, why: &str) -> (Said, News) {
    match (said, failure_kind) {
        (None, FailureKind::Transient) => (Said::Failing { times: 1, is_told: false }, News::Old),
        (Some(Said::Failing { times, is_told }), FailureKind::Transient) => {
            let news = if *is_told { News::Old } else { News::New };
            (Said::Failing { times: times.saturating_add(1), is_told: true }, news)
        }
        (Some(said), FailureKind::Transient) => (said.clone(), News::Old),
        (Some(Said::Text(text)), FailureKind::Permanent) if **text == *why => {
            (Said::Text(why.into()), News::Old)
        }
        (_, FailureKind::Permanent) => (Said::Text(why.into()), News::New),
    }
}

impl Memory {
    /// Takes note of a failure. Gives what there is to say, and whether this is the failure with which it counts as persistent.
    pub(super) fn failure(&mut self, failure: &Failure<'_>) -> (News, bool) {
        let failures = &mut self.of.entry(failure.namespace.clone()).or_default().failures;
        let (said, news) = judge(failures.get(failure.key), failure.failure_kind, failure.why);
        let persists = matches!(said, Said::Failing { times: PERSISTENT, .. });
        failures.insert(failure.key.clone(), said);
        (news, persists)
    }

    /// Takes note of all complaints about the objects that were looked at; gives those that are new.
    pub(super) fn complaints<'a>(
        &mut self,
        namespace: &Name,
        looked_at: &ObjectScope,
        complaints: &'a [Complaint],
    ) -> Vec<&'a Complaint> {
        let place = self.of.entry(namespace.clone()).or_default();
        let hold: BTreeSet<(ObjectKey, ComplaintReason)> = complaints.iter().map(topic).collect();
        place.complaints.retain(|of, _| !looked_at.includes(&of.0) || hold.contains(of));
        let is_new = |complaint: &&Complaint| {
            let now = (complaint.version.uid.clone(), complaint.message.clone());
            place.complaints.insert(topic(complaint), now.clone()) != Some(now)
        };
        let news = complaints.iter().filter(is_new).collect();
        self.tidy(namespace);
        news
    }

    /// Forgets the failures of these objects: they are over.
    pub(super) fn passed(&mut self, namespace: &Name, is_meant: impl Fn(&ObjectKey) -> bool) {
        if let Some(place) = self.of.get_mut(namespace) {
            place.failures.retain(|key, _| !is_meant(key));
            self.tidy(namespace);
        }
    }

    /// There was no room to say it.
    pub(super) fn unsaid_complaint(&mut self, namespace: &Name, complaint: &Complaint) {
        if let Some(place) = self.of.get_mut(namespace) {
            place.complaints.remove(&topic(complaint));
            self.tidy(namespace);
        }
    }

    /// There was no room to say it.
    pub(super) fn unsaid_failure(&mut self, failure: &Failure<'_>) {
        let said = self.of.get_mut(failure.namespace).and_then(|place| place.failures.get_mut(failure.key));
        match said {
            Some(Said::Failing { is_told, .. }) => *is_told = false,
            Some(said) => *said = Said::Failing { times: 1, is_told: false },
            None => {}
        }
    }

    /// Forgets everything about a namespace.
    pub(super) fn forget(&mut self, namespace: &Name) {
        self.of.remove(namespace);
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    fn tidy(&mut self, namespace: &Name) {
        let is_empty = |place: &Place| place.failures.is_empty() && place.complaints.is_empty();
        if self.of.get(namespace).is_some_and(is_empty) {
            self.of.remove(namespace);
        }
    }
}

fn topic(complaint: &Complaint) -> (ObjectKey, ComplaintReason) {
    (complaint.key.clone(), complaint.reason)
}
