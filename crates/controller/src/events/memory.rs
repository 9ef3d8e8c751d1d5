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
    pub(crate) gravity: Gravity,
}

/// What is to be expected of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gravity {
    /// It stays until somebody does something.
    Lasting,
    /// It may be over with the next attempt, and its text may be another each time.
    Passing,
}

/// Whether something has to be said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum News {
    New,
    Old,
}

/// What was said of an object's failures.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Said {
    /// Nothing yet: it has failed once, and may not fail again.
    Nothing,
    /// That it fails.
    Failing,
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
fn judge(said: Option<&Said>, gravity: Gravity, why: &str) -> (Said, News) {
    match (said, gravity) {
        (None, Gravity::Passing) => (Said::Nothing, News::Old),
        (Some(Said::Nothing), Gravity::Passing) => (Said::Failing, News::New),
        (Some(said), Gravity::Passing) => (said.clone(), News::Old),
        (Some(Said::Text(text)), Gravity::Lasting) if **text == *why => (Said::Text(why.into()), News::Old),
        (_, Gravity::Lasting) => (Said::Text(why.into()), News::New),
    }
}

impl Memory {
    /// Takes note of a failure.
    pub(super) fn failure(&mut self, failure: &Failure<'_>) -> News {
        let failures = &mut self.of.entry(failure.namespace.clone()).or_default().failures;
        let (said, news) = judge(failures.get(failure.key), failure.gravity, failure.why);
        failures.insert(failure.key.clone(), said);
        news
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
        if let Some(place) = self.of.get_mut(failure.namespace) {
            place.failures.insert(failure.key.clone(), Said::Nothing);
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
