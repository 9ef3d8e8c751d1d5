//! Which namespaces must be planned, and which parts of them? The forest marks them here, and the workers take them.
//!
//! Marks of a waiting namespace are merged, and two workers never process the same namespace. A closed queue drops marks, because
//! opening it marks every namespace.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use forest::{Change, Name, ObjectScope, Scope};
use hns_cluster::handle::ForestHandle;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// The queue of namespaces. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queue {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    marked: Notify,
}

#[derive(Debug, Default)]
struct State {
    open: bool,
    /// Every namespace is marked, but not in `waiting` yet.
    everything: bool,
    waiting: HashMap<Name, Scope>,
    order: VecDeque<Name>,
    processing: HashSet<Name>,
    failures: HashMap<Name, Failure>,
    /// Marked after a delay.
    delayed: HashMap<Name, (Instant, Scope)>,
}

/// A namespace with failed work that is retried.
#[derive(Debug, Default)]
struct Failure {
    /// The number of failures since all of it last succeeded.
    count: u32,
    /// The parts to retry.
    scope: Scope,
    /// The time of the retry; `None` while the retry waits or is running.
    due: Option<Instant>,
}

impl State {
    fn mark(&mut self, namespace: Name, scope: Scope) {
        if let Some(waiting) = self.waiting.get_mut(&namespace) {
            return waiting.merge(scope);
        }
        if !self.processing.contains(&namespace) {
            self.order.push_back(namespace.clone());
        }
        self.waiting.insert(namespace, scope);
    }

    fn take(&mut self) -> Option<(Name, Scope)> {
        let namespace = self.order.pop_front()?;
        let scope = self.waiting.remove(&namespace)?;
        self.processing.insert(namespace.clone());
        Some((namespace, scope))
    }
}

impl Queue {
    /// Marks the namespaces of a change.
    pub(crate) fn mark(&self, change: Change) {
        let mut state = self.shared.state.lock();
        if !state.open {
            return;
        }
        state.everything |= change.everything;
        for (namespace, scope) in change.namespaces {
            state.mark(namespace, scope);
        }
        drop(state);
        self.shared.marked.notify_one();
    }

    /// Opens the queue and marks every namespace.
    pub(crate) fn open(&self) {
        let mut state = self.shared.state.lock();
        state.open = true;
        state.everything = true;
        drop(state);
        self.shared.marked.notify_one();
    }

    /// Whether the queue is open: this process plans and writes.
    pub(crate) fn is_open(&self) -> bool {
        self.shared.state.lock().open
    }

    /// The next namespace. No other worker gets it before [`Queue::done`] or [`Queue::failed`].
    pub(crate) async fn next(&self, forest: &ForestHandle) -> (Name, Scope) {
        loop {
            let marked = self.shared.marked.notified();
            tokio::pin!(marked);
            marked.as_mut().enable();
            if let Some(work) = self.try_next(forest) {
                return work;
            }
            marked.await;
        }
    }

    fn try_next(&self, forest: &ForestHandle) -> Option<(Name, Scope)> {
        let everything = std::mem::take(&mut self.shared.state.lock().everything);
        // Release the lock of the queue before taking that of the forest: a writer of the forest may be waiting in `mark`.
        let names = if everything { forest.read(|forest| forest.names().cloned().collect()) } else { vec![] };
        let mut state = self.shared.state.lock();
        for name in names {
            state.mark(name, Scope::whole());
        }
        let work = state.take();
        let has_more = !state.order.is_empty();
        drop(state);
        // Each worker that takes a namespace wakes the next worker, so that a mark wakes only one.
        if has_more {
            self.shared.marked.notify_one();
        }
        work
    }

    /// The work on `scope` in a namespace has succeeded. Earlier failures outside `scope` remain, so that other changes in the
    /// namespace do not reset their retry delay.
    pub(crate) fn done(&self, namespace: &Name, scope: &Scope) {
        let mut state = self.shared.state.lock();
        if state.failures.get(namespace).is_some_and(|failure| includes(scope, &failure.scope)) {
            state.failures.remove(namespace);
        }
        drop(state);
        self.finish(namespace);
    }

    /// The work on a namespace has failed. It is marked again after a delay that doubles with each failure, from `delays.0` to
    /// `delays.1`, or together with an earlier failure that is due before that. Several failures lead to one retry.
    pub(crate) fn failed(&self, namespace: Name, scope: Scope, delays: (Duration, Duration)) {
        let mut state = self.shared.state.lock();
        let failure = state.failures.entry(namespace.clone()).or_default();
        failure.count = failure.count.saturating_add(1);
        failure.scope.merge(scope);
        let delay = delays.0.saturating_mul(2_u32.saturating_pow(failure.count - 1)).min(delays.1);
        let due = Instant::now() + delay;
        let is_earliest = failure.due.is_none_or(|earlier| due < earlier);
        failure.due = Some(failure.due.map_or(due, |earlier| due.min(earlier)));
        drop(state);
        self.finish(&namespace);
        if is_earliest {
            let queue = self.clone();
            tokio::spawn(async move {
                sleep_until(due).await;
                queue.retry(namespace);
            });
        }
    }

    /// Marks a namespace again after `delay`, or together with an earlier delayed mark; a later one is made then too. This does not change the retries of
    /// failures.
    pub(crate) fn mark_later(&self, namespace: Name, scope: Scope, delay: Duration) {
        let due = Instant::now() + delay;
        let mut state = self.shared.state.lock();
        match state.delayed.get_mut(&namespace) {
            Some((earlier, delayed)) if *earlier <= due => return delayed.merge(scope),
            Some((later, delayed)) => {
                *later = due;
                delayed.merge(scope);
            }
            None => drop(state.delayed.insert(namespace.clone(), (due, scope))),
        }
        drop(state);
        let queue = self.clone();
        tokio::spawn(async move {
            sleep_until(due).await;
            queue.mark_due(namespace);
        });
    }

    /// Makes the delayed mark of a namespace, if it is due.
    fn mark_due(&self, namespace: Name) {
        let mut state = self.shared.state.lock();
        let is_due = state.delayed.get(&namespace).is_some_and(|(due, _)| *due <= Instant::now());
        let due = if is_due { state.delayed.remove(&namespace) } else { None };
        drop(state);
        self.mark_one(namespace, due.map(|(_, scope)| scope));
    }

    /// Marks the failed parts of a namespace, if they are due.
    fn retry(&self, namespace: Name) {
        let mut state = self.shared.state.lock();
        let due = state.failures.get_mut(&namespace).and_then(|failure| {
            failure.due.take_if(|due| *due <= Instant::now())?;
            Some(failure.scope.clone())
        });
        drop(state);
        self.mark_one(namespace, due);
    }

    fn mark_one(&self, namespace: Name, scope: Option<Scope>) {
        let namespaces = scope.map(|scope| (namespace, scope)).into_iter().collect();
        self.mark(Change { everything: false, namespaces });
    }

    fn finish(&self, namespace: &Name) {
        let mut state = self.shared.state.lock();
        state.processing.remove(namespace);
        if state.waiting.contains_key(namespace) {
            state.order.push_back(namespace.clone());
            drop(state);
            self.shared.marked.notify_one();
        }
    }

    /// Whether no namespace waits or is processed. Later retries do not count.
    pub(crate) fn is_idle(&self) -> bool {
        let state = self.shared.state.lock();
        state.open && !state.everything && state.waiting.is_empty() && state.processing.is_empty()
    }

    /// The number of waiting namespaces.
    pub(crate) fn depth(&self) -> usize {
        self.shared.state.lock().waiting.len()
    }
}

/// Whether `whole` includes all of `part`.
fn includes(whole: &Scope, part: &Scope) -> bool {
    let objects = match (&whole.objects, &part.objects) {
        (ObjectScope::All, _) | (_, ObjectScope::None) => true,
        (ObjectScope::Some(whole), ObjectScope::Some(part)) => part.is_subset(whole),
        _ => false,
    };
    objects && (whole.structure || !part.structure) && (whole.quotas || !part.quotas)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use forest::{Forest, Settings};
    use hns_cluster::handle::ForestWriter;
    use tokio::time::{sleep, timeout};

    use super::*;

    fn forest() -> ForestHandle {
        let settings = Settings::new("hnc-system", [""; 0], ".*").unwrap();
        ForestWriter::new(Forest::new(Arc::new(settings), vec![]), Box::new(|_| {})).1
    }

    fn change(names: &[&str]) -> Change {
        let namespaces = names.iter().map(|name| (Name::from(*name), Scope::whole())).collect();
        Change { everything: false, namespaces }
    }

    async fn next(queue: &Queue) -> Option<String> {
        let next = timeout(Duration::from_millis(1), queue.next(&forest())).await;
        next.ok().map(|(name, _)| name.to_string())
    }

    #[tokio::test(start_paused = true)]
    async fn a_closed_queue_drops_marks() {
        let queue = Queue::default();
        queue.mark(change(&["a"]));
        queue.open();
        assert_eq!(next(&queue).await, None);
        queue.mark(change(&["a"]));
        assert_eq!(next(&queue).await.as_deref(), Some("a"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_namespace_marked_while_it_is_processed_comes_once_afterwards() {
        let queue = Queue::default();
        queue.open();
        queue.mark(change(&["a"]));
        assert_eq!(next(&queue).await.as_deref(), Some("a"));
        queue.mark(change(&["a"]));
        queue.mark(change(&["a"]));
        assert_eq!(next(&queue).await, None, "it is being processed");
        queue.done(&"a".into(), &Scope::whole());
        assert_eq!(next(&queue).await.as_deref(), Some("a"));
        assert!(!queue.is_idle(), "it is being processed");
        queue.done(&"a".into(), &Scope::whole());
        assert!(queue.is_idle());
        assert_eq!((next(&queue).await, queue.depth()), (None, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn retry_delays_double_until_a_success() {
        let queue = Queue::default();
        queue.open();
        let delays = (Duration::from_secs(1), Duration::from_secs(3));
        queue.mark(change(&["a"]));
        let mut waited = Vec::new();
        for fails in [true, true, true, false, true, true] {
            let start = Instant::now();
            let (name, scope) = queue.next(&forest()).await;
            waited.push(start.elapsed().as_secs());
            if fails {
                queue.failed(name, scope, delays);
            } else {
                queue.done(&name, &scope);
                queue.mark(change(&["a"]));
            }
        }
        assert_eq!(waited, [0, 1, 2, 3, 0, 1]);
    }

    #[tokio::test(start_paused = true)]
    async fn other_work_does_not_change_the_retries_of_a_failure() {
        let queue = Queue::default();
        queue.open();
        let delays = (Duration::from_secs(1), Duration::from_secs(60));
        let start = Instant::now();
        let object = Scope { objects: ObjectScope::All, ..Scope::default() };
        queue.mark(change(&["a"]));
        let mut tried = Vec::new();
        while start.elapsed() < Duration::from_secs(40) {
            // Other work succeeds ten times a second.
            let Ok((name, scope)) = timeout(Duration::from_millis(100), queue.next(&forest())).await else {
                let other = Change {
                    everything: false,
                    namespaces: HashMap::from([("a".into(), Scope::structure())]),
                };
                queue.mark(other);
                continue;
            };
            if scope.objects == ObjectScope::All {
                tried.push(start.elapsed().as_secs());
                queue.failed(name, object.clone(), delays);
            } else {
                queue.done(&name, &scope);
            }
        }
        assert_eq!(tried, [0, 1, 3, 7, 15, 31]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_that_is_due_during_other_work_remains() {
        let queue = Queue::default();
        queue.open();
        let delays = (Duration::from_secs(1), Duration::from_secs(60));
        queue.mark(change(&["a"]));
        for _ in 0..4 {
            let (name, scope) = queue.next(&forest()).await;
            assert_eq!(scope, Scope::whole());
            queue.failed(name, scope, delays);
            let other =
                Change { everything: false, namespaces: HashMap::from([("a".into(), Scope::structure())]) };
            queue.mark(other);
            let (name, scope) = queue.next(&forest()).await;
            assert_eq!(scope, Scope::structure());
            // It is marked after 1, 2, 4 and 8 seconds, and processed after 10.
            sleep(Duration::from_secs(10)).await;
            queue.done(&name, &scope);
        }
        let failure = queue.shared.state.lock().failures["a"].count;
        assert_eq!(failure, 4, "the failed part has not succeeded");
    }

    #[tokio::test(start_paused = true)]
    async fn several_failures_lead_to_one_retry_at_the_earliest_time() {
        let queue = Queue::default();
        queue.open();
        let delays = (Duration::from_secs(1), Duration::from_secs(60));
        for _ in 0..5 {
            queue.mark(change(&["a"]));
            let (name, scope) = queue.next(&forest()).await;
            queue.failed(name, scope, delays);
        }
        let start = Instant::now();
        let (name, scope) = queue.next(&forest()).await;
        assert_eq!(start.elapsed().as_secs(), 1);
        queue.done(&name, &scope);
        assert!(timeout(Duration::from_secs(600), queue.next(&forest())).await.is_err());

        // An early retry does not wait for a late one.
        queue.mark(change(&["a"]));
        let (name, scope) = queue.next(&forest()).await;
        queue.failed(name, scope, (Duration::from_secs(300), Duration::from_secs(300)));
        queue.mark(change(&["a"]));
        let (name, scope) = queue.next(&forest()).await;
        let start = Instant::now();
        queue.failed(name, scope, (Duration::from_secs(1), Duration::from_secs(2)));
        queue.next(&forest()).await;
        assert_eq!(start.elapsed().as_secs(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_delayed_mark_comes_once_and_does_not_change_retries() {
        let queue = Queue::default();
        queue.open();
        let seconds = Duration::from_secs;
        queue.mark(change(&["a"]));
        let (name, scope) = queue.next(&forest()).await;
        queue.failed(name, scope, (seconds(3), seconds(60)));
        let (start, mut taken) = (Instant::now(), Vec::new());
        for _ in 0..3 {
            queue.mark_later("a".into(), Scope::structure(), seconds(1));
        }
        while let Ok((name, scope)) = timeout(seconds(30), queue.next(&forest())).await {
            taken.push((start.elapsed().as_secs(), scope.clone()));
            queue.done(&name, &scope);
        }
        assert_eq!(taken, [(1, Scope::structure()), (3, Scope::whole())]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_delayed_mark_does_not_wait_for_a_later_one() {
        let queue = Queue::default();
        queue.open();
        let (start, mut taken) = (Instant::now(), Vec::new());
        queue.mark_later("a".into(), Scope::quotas(), Duration::from_secs(9));
        queue.mark_later("a".into(), Scope::structure(), Duration::from_secs(1));
        while let Ok((name, scope)) = timeout(Duration::from_secs(30), queue.next(&forest())).await {
            taken.push((start.elapsed().as_secs(), scope.clone()));
            queue.done(&name, &scope);
        }
        let mut both = Scope::quotas();
        both.merge(Scope::structure());
        assert_eq!(taken, [(1, both)]);
    }

    #[test]
    fn a_scope_includes_its_parts() {
        let scope = |structure, objects| Scope { structure, objects, ..Scope::default() };
        let whole = Scope::whole();
        for part in [&whole, &Scope::structure(), &Scope::default()] {
            assert!(includes(&whole, part) && includes(part, part));
        }
        assert!(!includes(&Scope::structure(), &whole));
        assert!(!includes(&scope(false, ObjectScope::All), &whole));
        assert!(!includes(&scope(true, ObjectScope::Some([].into())), &whole));
    }

    #[tokio::test(start_paused = true)]
    async fn as_many_workers_wake_as_there_are_namespaces() {
        const MOMENT: Duration = Duration::from_millis(1);
        let queue = Queue::default();
        queue.open();
        assert_eq!(next(&queue).await, None);
        let take = |_| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.next(&forest()).await })
        };
        let workers: Vec<_> = (0..5).map(take).collect();
        let busy = || workers.iter().filter(|worker| worker.is_finished()).count();
        sleep(MOMENT).await;
        queue.mark(change(&["a", "b", "c"]));
        sleep(MOMENT).await;
        assert_eq!((busy(), queue.depth()), (3, 0), "three marked at once");
        queue.mark(change(&["a"]));
        sleep(MOMENT).await;
        assert_eq!((busy(), queue.depth()), (3, 1), "it is being processed");
        queue.done(&"a".into(), &Scope::whole());
        sleep(MOMENT).await;
        assert_eq!((busy(), queue.depth()), (4, 0), "its processing has ended");
    }

    #[tokio::test(start_paused = true)]
    async fn a_mark_wakes_a_waiting_worker() {
        let queue = Queue::default();
        queue.open();
        let waiting = tokio::spawn({
            let queue = queue.clone();
            async move { queue.next(&forest()).await.0 }
        });
        tokio::task::yield_now().await;
        queue.mark(change(&["a"]));
        assert_eq!(&*waiting.await.unwrap(), "a");
    }
}
