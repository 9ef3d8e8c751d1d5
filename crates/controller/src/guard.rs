//! Does the API server already refuse changes of copies of a kind by users? No copy of the kind is written before it does.
//!
//! API servers load policies and registrations some time after these were written. So the executor first sends a copy as a dry
//! run, the probe. An annotation makes the policy or the webhook refuse the probe although the controller sends it. While the
//! probe is accepted, one task repeats it with growing delays, and all namespaces that need copies of the kind wait. They are
//! marked when a probe is refused. This module keeps the state; `execute/probe.rs` sends the probes.
//!
//! A kind may leave the registrations and return before API servers have loaded the state without it. Then the earlier state still
//! refuses probes for a moment, although an unguarded one follows. So a refusal counts only when the state without the kind, or
//! the next one, must have been loaded.
//!
//! A probe reaches one API server. In a cluster with several, the others may be a moment behind.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use forest::{Change, Name, ObjectKey, ObjectScope, Scope};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::queue::Queue;

/// The delay between two probes is this share of the time since the first probe, within the limits.
const SHARE: u32 = 5;
const SHORTEST: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_secs(10);
/// API servers reload policies once a second, and not all at the same moment.
pub(crate) const ENFORCED_AFTER: Duration = Duration::from_secs(3);
/// After this time, the executor reports that copies wait.
pub(crate) const REPORT_AFTER: Duration = Duration::from_secs(10);

/// The API group and the plural of a kind.
pub(crate) type Resource = (String, String);

/// Whether the copies of a kind are guarded.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum GuardState {
    Guarded,
    /// A task repeats the probe. The namespace is marked when the result changes.
    Probing,
    /// The caller must send a probe, and report its result with this epoch.
    Probe(u64),
}

/// The state of all kinds. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    /// `None` if this process does not manage registrations and policies: there may be none.
    shared: Option<Arc<Shared>>,
}

#[derive(Debug)]
struct Shared {
    queue: Queue,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Increases when the kinds change. Results of earlier probes are invalid then.
    epoch: u64,
    guarded: BTreeSet<Resource>,
    waiting: HashMap<Resource, Waiting>,
    /// The kinds that left the registrations, also those that have returned.
    left: HashMap<Resource, Left>,
}

/// A kind that left the registrations.
#[derive(Debug, Default)]
struct Left {
    /// When no API server uses the earlier registrations any more: `None` until the later ones are written.
    until: Option<Instant>,
    has_returned: bool,
}

impl Left {
    fn is_over(&self) -> bool {
        self.until.is_some_and(|until| until <= Instant::now())
    }
}

/// A kind whose copies are not guarded yet.
#[derive(Debug)]
struct Waiting {
    since: Instant,
    namespaces: HashMap<Name, Scope>,
}

impl Guard {
    /// Copies wait for the registrations and policies that this process manages. The queue gets the namespaces that waited.
    pub(crate) fn enabled(queue: Queue) -> Self {
        Self { shared: Some(Arc::new(Shared { queue, state: Mutex::default() })) }
    }

    /// Copies are written without a probe.
    pub(crate) fn disabled() -> Self {
        Self { shared: None }
    }

    pub(crate) fn is_enabled(&self) -> bool {
        self.shared.is_some()
    }

    /// Whether copies of a kind may be written. While a task repeats the probe, this adds the copy to those that wait.
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

    /// The policy or the webhook refused a probe. Returns whether the kind is guarded: not if the refusal may be due to earlier
    /// registrations.
    pub(crate) fn probe_refused(&self, kind: &Resource, epoch: u64) -> bool {
        let Some(shared) = &self.shared else { return true };
        let mut state = shared.state.lock();
        if state.epoch != epoch || !state.left.get(kind).is_none_or(Left::is_over) {
            return false;
        }
        state.left.remove(kind);
        state.guarded.insert(kind.clone());
        let waited = state.waiting.remove(kind);
        drop(state);
        shared.mark(waited);
        true
    }

    /// The kind is not guarded yet, so the copy waits. Returns whether the caller must repeat the probe, after
    /// [`Guard::next_delay`].
    pub(crate) fn wait(&self, kind: &Resource, namespace: &Name, key: &ObjectKey) -> bool {
        let Some(shared) = &self.shared else { return false };
        let mut state = shared.state.lock();
        let is_first = !state.waiting.contains_key(kind);
        let begin = || Waiting { since: Instant::now(), namespaces: HashMap::new() };
        state.waiting.entry(kind.clone()).or_insert_with(begin).add(namespace, key);
        is_first
    }

    /// The delay before the next probe, and how long copies of the kind have waited. `None` if the kinds have changed, so that the
    /// probe must not be repeated.
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

    /// Ends the repeated probe without a result. Each namespace that waited sends its own probe.
    pub(crate) fn reset(&self, kind: &Resource) {
        let Some(shared) = &self.shared else { return };
        let waited = shared.state.lock().waiting.remove(kind);
        shared.mark(waited);
    }

    /// Registrations and policies are about to cover the kinds `after` instead of `before`. Other kinds are probed again when they return,
    /// and the results of earlier probes are invalid.
    pub(crate) fn kinds_changed(&self, before: &[Resource], after: &[Resource]) {
        let Some(shared) = &self.shared else { return };
        let mut state = shared.state.lock();
        state.guarded.retain(|kind| after.contains(kind));
        for (_, left) in state.left.iter_mut().filter(|(kind, _)| after.contains(kind)) {
            left.has_returned = true;
        }
        let left = before.iter().filter(|kind| !after.contains(kind));
        state.left.extend(left.map(|kind| (kind.clone(), Left::default())));
        state.epoch += 1;
    }

    /// Registrations or policies were written, or none has to be: API servers use no earlier ones after [`ENFORCED_AFTER`]. What is written
    /// after a kind has returned includes it, so its time is not extended.
    pub(crate) fn written(&self, changed: bool) {
        let Some(shared) = &self.shared else { return };
        let until = Some(Instant::now() + ENFORCED_AFTER);
        let is_later = |left: &&mut Left| left.until.is_none() || (changed && !left.has_returned);
        for left in shared.state.lock().left.values_mut().filter(is_later) {
            left.until = until;
        }
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
        let scope = Scope { objects: ObjectScope::Some(BTreeSet::from([key.clone()])), ..Scope::default() };
        match self.namespaces.get_mut(namespace) {
            Some(waiting) => waiting.merge(scope),
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

    #[tokio::test(start_paused = true)]
    async fn a_kind_is_guarded_from_a_refused_probe_until_the_kinds_change() {
        let guard = Guard::enabled(Queue::default());
        let (leaf, kind) = (Name::from("leaf"), secrets());
        let key = World::of(&[secret("root", "1", "10", "new")]).key;
        let state = || guard.state(&kind, &leaf, &key);
        let GuardState::Probe(epoch) = state() else { panic!("no probe was sent") };
        assert!(guard.wait(&kind, &leaf, &key));
        assert!(!guard.wait(&kind, &leaf, &key), "one task repeats the probe");
        assert_eq!(state(), GuardState::Probing);
        assert_eq!(guard.next_delay(&kind, epoch).map(|(pause, _)| pause), Some(SHORTEST));
        assert!(guard.probe_refused(&kind, epoch));
        assert_eq!((state(), guard.next_delay(&kind, epoch)), (GuardState::Guarded, None));

        let others = (String::new(), "configmaps".into());
        guard.kinds_changed(&[secrets()], &[secrets(), others]);
        assert_eq!(state(), GuardState::Guarded);
        guard.kinds_changed(&[secrets()], &[]);
        assert!(!guard.probe_refused(&kind, epoch), "the result of the earlier probe is invalid");
        let GuardState::Probe(now) = state() else { panic!("the kind is guarded") };
        assert!(guard.wait(&kind, &leaf, &key));
        guard.kinds_changed(&[], &[secrets()]);
        assert_eq!(guard.next_delay(&kind, now), None, "the kinds have changed");
        assert!(matches!(state(), GuardState::Probe(_)));
        assert_eq!(Guard::disabled().state(&kind, &leaf, &key), GuardState::Guarded);
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_by_earlier_registrations_does_not_count() {
        let guard = Guard::enabled(Queue::default());
        let (leaf, kind) = (Name::from("leaf"), secrets());
        let key = World::of(&[secret("root", "1", "10", "new")]).key;
        guard.kinds_changed(&[secrets()], &[]);
        let GuardState::Probe(between) = guard.state(&kind, &leaf, &key) else { panic!("no probe was sent") };
        tokio::time::advance(ENFORCED_AFTER).await;
        assert!(!guard.probe_refused(&kind, between), "the change is not written");
        guard.written(true);
        tokio::time::advance(ENFORCED_AFTER).await;
        guard.written(true);
        guard.kinds_changed(&[], &[secrets()]);
        guard.written(true);
        let GuardState::Probe(now) = guard.state(&kind, &leaf, &key) else { panic!("no probe was sent") };
        assert!(!guard.probe_refused(&kind, now), "API servers may not have loaded it");
        tokio::time::advance(ENFORCED_AFTER).await;
        guard.written(true);
        assert!(guard.probe_refused(&kind, now), "what is written after the return does not extend the time");
        assert_eq!(guard.state(&kind, &leaf, &key), GuardState::Guarded);
    }
}
