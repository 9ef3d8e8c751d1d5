//! Which lists are verified: the known structure is at least as new as a verified list.
//!
//! Each stream has its own list and watch. A list of objects may hold an object that was created after a namespace left its tree,
//! while the stream that reports the move is behind. A plan would then create a copy that must not exist. So plans use a complete
//! list only when it is verified: the streams of the structure have reported everything that was true when it was read. This
//! module sends no requests: the caller passes separate lists of the structure that are at least as new.

use std::collections::{BTreeMap, HashMap};

use super::Store;
use crate::core::change::Change;
use crate::core::name::Name;
use crate::core::stream::Stream;
use crate::core::version::Version;

/// Complete lists that are not verified yet, so that plans do not use them. Each has a number; a later list has a higher number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unverified(BTreeMap<Stream, u64>);

impl Unverified {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The same without the list of this stream.
    #[must_use]
    pub fn without(mut self, stream: Stream) -> Self {
        self.0.remove(&stream);
        self
    }

    /// The lists of these streams alone.
    #[must_use]
    pub fn only(mut self, streams: &[Stream]) -> Self {
        self.0.retain(|stream, _| streams.contains(stream));
        self
    }

    pub(super) fn contains(&self, stream: Stream) -> bool {
        self.0.contains_key(&stream)
    }
}

/// A namespace and a name.
pub(crate) type NamespacedName = (Name, Name);

/// A separate list of one stream of the structure: the objects and their states.
#[derive(Debug, Default)]
pub struct Listing {
    /// The resource version of the list.
    pub resource_version: Box<str>,
    /// The states of the objects by namespace and name. The namespace of namespaces is empty, and so is the name where one object
    /// of a namespace is known at a time.
    pub objects: HashMap<NamespacedName, Vec<Version>>,
}

/// What a stream has not reported yet of a listing.
#[derive(Debug)]
pub struct Lag {
    stream: Stream,
    resource_version: Box<str>,
    /// These states, or later ones, must be reported.
    missing: Vec<(NamespacedName, Vec<Version>)>,
    /// The deletion of these must be reported.
    surplus: Vec<NamespacedName>,
}

impl Store {
    /// From now on, plans use a complete list only when it is verified.
    pub(crate) fn require_verified_lists(&mut self) {
        self.unverified = Some(Unverified::default());
    }

    /// The lists that are not verified yet.
    pub fn unverified(&self) -> Unverified {
        self.unverified.clone().unwrap_or_default()
    }

    /// Whether the list of this stream is verified, so that plans may use it.
    pub fn is_verified(&self, stream: Stream) -> bool {
        self.unverified.as_ref().is_none_or(|unverified| !unverified.contains(stream))
    }

    /// Whether a list of the structure is not verified yet.
    pub(crate) fn is_structure_unverified(&self) -> bool {
        let structure = self.layout.structure;
        self.unverified.as_ref().is_some_and(|lists| structure.iter().any(|stream| lists.contains(*stream)))
    }

    /// A complete list has arrived; it is not verified yet.
    pub(super) fn mark_unverified(&mut self, stream: Stream) {
        if let Some(unverified) = &mut self.unverified {
            self.lists += 1;
            unverified.0.insert(stream, self.lists);
            self.progress += 1;
        }
    }

    /// The list of this stream is not used any more, so it need not be verified.
    pub(super) fn forget_unverified(&mut self, stream: Stream) {
        if let Some(unverified) = &mut self.unverified {
            unverified.0.remove(&stream);
        }
    }

    /// These lists are verified. A list that arrived later for the same stream is not.
    pub(crate) fn verified(&mut self, lists: &Unverified, change: &mut Change) {
        let Some(unverified) = &mut self.unverified else { return };
        let before = unverified.0.len();
        unverified.0.retain(|stream, number| lists.0.get(stream) != Some(number));
        if unverified.0.len() < before {
            self.progress += 1;
            change.everything = true;
        }
    }
}

/// If a version is not a number, nothing counts as older.
fn is_after(state: &Version, listed_at: &str) -> bool {
    let number = |text: &str| text.parse::<u64>().ok();
    match (number(&state.resource_version), number(listed_at)) {
        (Some(state), Some(list)) => state > list,
        _ => true,
    }
}

impl Lag {
    /// What this stream has not reported yet, compared with a list that was read after all others. `states` are all known states.
    pub(crate) fn new(
        store: &Store,
        stream: Stream,
        listing: Listing,
        states: impl Iterator<Item = (NamespacedName, Version)>,
        state: impl Fn(&NamespacedName) -> Option<Version>,
    ) -> Self {
        let Listing { resource_version, objects } = listing;
        let surplus = states
            .filter(|(place, state)| !objects.contains_key(place) && !is_after(state, &resource_version))
            .map(|(place, _)| place)
            .collect();
        let mut lag = Self { stream, resource_version, missing: objects.into_iter().collect(), surplus };
        let version = lag.resource_version.clone();
        lag.missing.retain(|(place, listed)| !has_reported(store, state(place), &version, listed));
        lag
    }

    /// The stream.
    pub(crate) fn stream(&self) -> Stream {
        self.stream
    }

    /// Whether the stream has reported everything that was missing. `state` looks up what is known.
    pub(crate) fn is_reported(
        &self,
        store: &Store,
        state: impl Fn(&NamespacedName) -> Option<Version>,
    ) -> bool {
        let Self { resource_version, missing, surplus, .. } = self;
        let is_gone =
            |place: &NamespacedName| state(place).is_none_or(|state| is_after(&state, resource_version));
        surplus.iter().all(is_gone)
            && missing
                .iter()
                .all(|(place, listed)| has_reported(store, state(place), resource_version, listed))
    }
}

/// Whether one of these states of an object, a later one, or its deletion is known.
fn has_reported(store: &Store, known: Option<Version>, listed_at: &str, listed: &[Version]) -> bool {
    match known {
        Some(known) => {
            let is_later = |state: &Version| known.uid == state.uid && !known.is_older_than(state);
            listed.iter().any(is_later) || is_after(&known, listed_at)
        }
        None => listed.iter().any(|state| store.has_departed(&state.uid)),
    }
}
