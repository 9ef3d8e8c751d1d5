//! Whether the API server already refuses what users would do to copies of a kind: none is written before.
//!
//! API servers take up policies and registrations some time after these were written. So a copy of a kind that is not known to
//! be guarded is first sent as a dry run with an annotation that makes the controller's own request one that must be refused.
//! While it is not, one request after the other asks again, with growing pauses, and every namespace that needs copies of the
//! kind waits; they are marked when one is refused. Knows nothing of requests ([`crate::execute`] makes them).
//!
//! Only the API server that answers is asked. Where there are several, the others may be a moment behind.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use forest::{Change, Name, ObjectKey, ObjectScope, Scope};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::queue::Queue;

/// The pause between two requests is this share of the time since the first one, within limits.
const SHARE: u32 = 5;
const SHORTEST: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_secs(10);
/// After so long it is reported that copies wait.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// API group and plural.
pub(crate) type Resource = (String, String);

/// What is known of a kind.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum GuardState {
    /// Its copies are guarded.
    Guarded,
    /// Somebody asks already, and the namespace will be marked.
    Probing,
    /// Ask, and say what was answered, with this number.
    Probe(u64),
}

/// Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    /// `None`: registrations and policies are somebody else's, who may have none.
    shared: Option<Arc<Shared>>,
}

#[derive(Debug)]
struct Shared {
    queue: Queue,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// How often kinds were forgotten. What was asked before says nothing.
    epoch: u64,
    guarded: BTreeSet<Resource>,
    waiting: HashMap<Resource, Waiting>,
}

/// A kind whose copies are not guarded yet.
#[derive(Debug)]
struct Waiting {
    since: Instant,
    namespaces: HashMap<Name, Scope>,
}

impl Guard {
    /// Waits for the registrations and policies that this process keeps. Namespaces that waited are marked in the queue.
    pub(crate) fn enabled(queue: Queue) -> Self {
        Self { shared: Some(Arc::new(Shared { queue, state: Mutex::default() })) }
    }

    /// Waits for nothing.
    pub(crate) fn disabled() -> Self {
        Self { shared: None }
    }

    /// Whether it waits for anything.
    pub(crate) fn is_enabled(&self) -> bool {
        self.shared.is_some()
    }

    /// Whether copies of a kind may be written. Where somebody asks already, this copy waits for the answer.
    pub(crate) fn state(&self, kind: &Resource, namespace: &Name, key: &ObjectKey) -> GuardState {
        let Some(shared) = &self.shared else { return GuardState::Guarded };
        let mut state = shared.state.lock();
        if state.guarded.contains(kind) {
            return GuardState::Guarded;
        }
        let epoch = state.epoch;
        match state.waiting.get_mut(kind) {
            Some(waiting) => {
                waiting.add(namespace, key);
                GuardState::Probing
            }
            None => GuardState::Probe(epoch),
        }
    }

    /// A request was refused by what guards copies of this kind.
    pub(crate) fn probe_refused(&self, kind: &Resource, epoch: u64) {
        let Some(shared) = &self.shared else { return };
        let mut state = shared.state.lock();
        if state.epoch == epoch {
            state.guarded.insert(kind.clone());
        }
        let waited = state.waiting.remove(kind);
        drop(state);
        shared.mark(waited);
    }

    /// A request was not refused, and the copy waits. Whether this one goes on asking, after [`Guard::next_delay`].
    pub(crate) fn probe_accepted(&self, kind: &Resource, namespace: &Name, key: &ObjectKey) -> bool {
        let Some(shared) = &self.shared else { return false };
        let mut state = shared.state.lock();
        let is_first = !state.waiting.contains_key(kind);
        let begin = || Waiting { since: Instant::now(), namespaces: HashMap::new() };
        state.waiting.entry(kind.clone()).or_insert_with(begin).add(namespace, key);
        is_first
    }

    /// The pause before the next request, and for how long the kind has been waited for; `None` when it need not be asked about
    /// any more, because the kinds are others.
    pub(crate) fn next_delay(&self, kind: &Resource, epoch: u64) -> Option<(Duration, Duration)> {
        let shared = self.shared.as_ref()?;
        let state = shared.state.lock();
        let waited = state.waiting.get(kind)?.since.elapsed();
        let is_current = state.epoch == epoch;
        drop(state);
        if !is_current {
            self.reset(kind);
            return None;
        }
        Some(((waited / SHARE).clamp(SHORTEST, LONGEST), waited))
    }

    /// It is not known whether copies of this kind are guarded, and nobody asks any more: each that waits asks for itself.
    pub(crate) fn reset(&self, kind: &Resource) {
        let Some(shared) = &self.shared else { return };
        let waited = shared.state.lock().waiting.remove(kind);
        shared.mark(waited);
    }

    /// From now on registrations and policies are about these kinds. The guard of another one is asked for anew when it comes
    /// back, and what was asked before says nothing.
    pub(crate) fn keep_only(&self, kinds: &[Resource]) {
        let Some(shared) = &self.shared else { return };
        let mut state = shared.state.lock();
        state.guarded.retain(|kind| kinds.contains(kind));
        state.epoch += 1;
    }
}

impl Shared {
    fn mark(&self, waited: Option<Waiting>) {
        if let Some(Waiting { namespaces, .. }) = waited {
            let namespaces = namespaces.into_iter().collect();
            self.queue.mark(Change { everything: false, namespaces });
        }
    }
}

impl Waiting {
    fn add(&mut self, namespace: &Name, key: &ObjectKey) {
        let scope = Scope { structure: false, objects: ObjectScope::Some(BTreeSet::from([key.clone()])) };
        match self.namespaces.get_mut(namespace) {
            Some(known) => known.merge(scope),
            None => drop(self.namespaces.insert(namespace.clone(), scope)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{World, secret};

    fn secrets() -> Resource {
        (String::new(), "secrets".into())
    }

    #[tokio::test]
    async fn a_kind_is_guarded_once_a_request_was_refused_and_until_the_kinds_are_others() {
        let guard = Guard::enabled(Queue::default());
        let (leaf, kind) = (Name::from("leaf"), secrets());
        let key = World::of(&[secret("root", "1", "10", "new")]).key;
        let known = || guard.state(&kind, &leaf, &key);
        let GuardState::Probe(epoch) = known() else { panic!("nothing is known") };
        assert!(guard.probe_accepted(&kind, &leaf, &key));
        assert!(!guard.probe_accepted(&kind, &leaf, &key), "one goes on asking");
        assert_eq!(known(), GuardState::Probing);
        assert_eq!(guard.next_delay(&kind, epoch).map(|(pause, _)| pause), Some(SHORTEST));
        guard.probe_refused(&kind, epoch);
        assert_eq!((known(), guard.next_delay(&kind, epoch)), (GuardState::Guarded, None));

        guard.keep_only(&[secrets(), (String::new(), "configmaps".into())]);
        assert_eq!(known(), GuardState::Guarded);
        guard.keep_only(&[]);
        guard.probe_refused(&kind, epoch);
        let GuardState::Probe(now) = known() else { panic!("what was asked before says nothing") };
        assert_ne!(now, epoch);
        assert!(guard.probe_accepted(&kind, &leaf, &key));
        guard.keep_only(&[secrets()]);
        assert_eq!(guard.next_delay(&kind, now), None, "who asks begins anew");
        assert!(matches!(known(), GuardState::Probe(_)));
        assert_eq!(Guard::disabled().state(&kind, &leaf, &key), GuardState::Guarded);
    }
}
