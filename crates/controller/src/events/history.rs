//! Which problems were reported already? Pure data: the recorder uses it to report each problem once.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use forest::plan::{Complaint, ComplaintReason};
use forest::{Name, ObjectKey, ObjectScope};

/// A copy that could not be written or removed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Failure<'a> {
    /// The namespace of the copy.
    pub(crate) namespace: &'a Name,
    pub(crate) key: &'a ObjectKey,
    /// The source's namespace, if it is not the one that the copy names.
    pub(crate) source: Option<&'a Name>,
    /// Whether the copy was to be removed.
    pub(crate) removal: bool,
    pub(crate) why: &'a str,
    pub(crate) kind: FailureKind,
}

/// Whether a retry may succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// It fails until a user changes something.
    Permanent,
    /// The next attempt may succeed. The text may differ each time.
    Transient,
}

/// The number of successive failures that count as persistent. With the delays between the retries, this takes about eight seconds.
const PERSISTENT: u32 = 6;

/// What was reported about the failures of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Reported {
    /// Transient failures: their number, and whether an event was written. The first one is not reported.
    Transient { count: u32, has_event: bool },
    /// A permanent failure with this text.
    Permanent(Box<str>),
}

impl Reported {
    /// What is reported after another failure, and whether that needs an event.
    fn next(earlier: Option<&Self>, kind: FailureKind, why: &str) -> (Self, bool) {
        match (earlier, kind) {
            (None, FailureKind::Transient) => (Self::Transient { count: 1, has_event: false }, false),
            (Some(Self::Transient { count, has_event }), FailureKind::Transient) => {
                (Self::Transient { count: count.saturating_add(1), has_event: true }, !has_event)
            }
            (Some(permanent), FailureKind::Transient) => (permanent.clone(), false),
            (earlier, FailureKind::Permanent) => {
                let reported = Self::Permanent(why.into());
                let is_new = earlier != Some(&reported);
                (reported, is_new)
            }
        }
    }
}

/// The problems that were reported, and no entry for objects without problems.
#[derive(Debug, Default)]
pub(super) struct History {
    namespaces: HashMap<Name, Problems>,
}

/// The problems in one namespace.
#[derive(Debug, Default)]
struct Problems {
    failures: BTreeMap<ObjectKey, Reported>,
    /// Of the derived quota.
    quota_failure: Option<Reported>,
    /// The uid of the object, and the message.
    complaints: BTreeMap<(ObjectKey, ComplaintReason), (Box<str>, Box<str>)>,
}

impl History {
    /// Returns whether the failure needs an event, and whether it makes a series of failures persistent.
    pub(super) fn add_failure(&mut self, failure: &Failure<'_>) -> (bool, bool) {
        let failures = &mut self.namespaces.entry(failure.namespace.clone()).or_default().failures;
        let (reported, is_new) = Reported::next(failures.get(failure.key), failure.kind, failure.why);
        let is_persistent = matches!(reported, Reported::Transient { count: PERSISTENT, .. });
        failures.insert(failure.key.clone(), reported);
        (is_new, is_persistent)
    }

    /// Returns whether the failure to write the derived quota needs an event.
    pub(super) fn add_quota_failure(&mut self, namespace: &Name, kind: FailureKind, why: &str) -> bool {
        let failure = &mut self.namespaces.entry(namespace.clone()).or_default().quota_failure;
        let (reported, is_new) = Reported::next(failure.as_ref(), kind, why);
        *failure = Some(reported);
        is_new
    }

    /// The derived quota was written, or needs no write. This is also so when an event was dropped: the next failure needs one.
    pub(super) fn remove_quota_failure(&mut self, namespace: &Name) {
        if let Some(problems) = self.namespaces.get_mut(namespace) {
            problems.quota_failure = None;
            self.remove_if_empty(namespace);
        }
    }

    /// Replaces the complaints about the objects in `planned`, and returns the new ones.
    pub(super) fn add_complaints<'a>(
        &mut self,
        namespace: &Name,
        planned: &ObjectScope,
        complaints: &'a [Complaint],
    ) -> Vec<&'a Complaint> {
        let problems = self.namespaces.entry(namespace.clone()).or_default();
        let current: BTreeSet<(ObjectKey, ComplaintReason)> = complaints.iter().map(topic).collect();
        problems.complaints.retain(|topic, _| !planned.includes(&topic.0) || current.contains(topic));
        let is_new = |complaint: &&Complaint| {
            let content = (complaint.version.uid.clone(), complaint.message.clone());
            problems.complaints.insert(topic(complaint), content.clone()) != Some(content)
        };
        let new = complaints.iter().filter(is_new).collect();
        self.remove_if_empty(namespace);
        new
    }

    /// Removes the failures of these objects, which are over.
    pub(super) fn remove_failures(&mut self, namespace: &Name, is_over: impl Fn(&ObjectKey) -> bool) {
        if let Some(problems) = self.namespaces.get_mut(namespace) {
            problems.failures.retain(|key, _| !is_over(key));
            self.remove_if_empty(namespace);
        }
    }

    /// Removes a complaint whose event was dropped, so that it is reported later.
    pub(super) fn remove_complaint(&mut self, namespace: &Name, complaint: &Complaint) {
        if let Some(problems) = self.namespaces.get_mut(namespace) {
            problems.complaints.remove(&topic(complaint));
            self.remove_if_empty(namespace);
        }
    }

    /// An event of this failure was dropped: the next failure needs an event.
    pub(super) fn mark_unreported(&mut self, failure: &Failure<'_>) {
        let problems = self.namespaces.get_mut(failure.namespace);
        match problems.and_then(|problems| problems.failures.get_mut(failure.key)) {
            Some(Reported::Transient { has_event, .. }) => *has_event = false,
            Some(permanent) => *permanent = Reported::Transient { count: 1, has_event: false },
            None => {}
        }
    }

    pub(super) fn remove_namespace(&mut self, namespace: &Name) {
        self.namespaces.remove(namespace);
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.namespaces.is_empty()
    }

    fn remove_if_empty(&mut self, namespace: &Name) {
        let is_empty = |problems: &Problems| {
            problems.failures.is_empty() && problems.complaints.is_empty() && problems.quota_failure.is_none()
        };
        if self.namespaces.get(namespace).is_some_and(is_empty) {
            self.namespaces.remove(namespace);
        }
    }
}

fn topic(complaint: &Complaint) -> (ObjectKey, ComplaintReason) {
    (complaint.key.clone(), complaint.reason)
}
