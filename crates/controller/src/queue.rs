//! Which namespaces have to be planned, and how far.
//!
//! Marks for one namespace merge while it waits, and no namespace is worked on twice at a time. While the gate is closed
//! marks are dropped, because opening it marks everything. Knows nothing of what the work is.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use forest::{Change, Name, Scope};
use hns_runtime::handle::ForestHandle;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// A queue. Clones share it.
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
    /// Every namespace is marked, and has yet to be listed.
    everything: bool,
    waiting: HashMap<Name, Scope>,
    order: VecDeque<Name>,
    at_work: HashSet<Name>,
    /// How often in a row the work on a namespace has failed.
    failures: HashMap<Name, u32>,
}

impl State {
    fn mark(&mut self, namespace: Name, scope: Scope) {
        if let Some(waiting) = self.waiting.get_mut(&namespace) {
            return waiting.merge(scope);
        }
        if !self.at_work.contains(&namespace) {
            self.order.push_back(namespace.clone());
        }
        self.waiting.insert(namespace, scope);
    }

    fn take(&mut self) -> Option<(Name, Scope)> {
        let namespace = self.order.pop_front()?;
        let scope = self.waiting.remove(&namespace)?;
        self.at_work.insert(namespace.clone());
        Some((namespace, scope))
    }
}

impl Queue {
    /// Marks what a change has touched.
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
        self.shared.marked.notify_waiters();
    }

    /// Opens the gate: everything is to be planned.
    pub(crate) fn open(&self) {
        let mut state = self.shared.state.lock();
        state.open = true;
        state.everything = true;
        drop(state);
        self.shared.marked.notify_waiters();
    }

    /// The next namespace; nobody else gets it before [`Queue::done`].
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
        // The forest's lock is not taken under the queue's: its writer may be marking.
        let names = if everything { forest.read(|forest| forest.names().cloned().collect()) } else { vec![] };
        let mut state = self.shared.state.lock();
        for name in names {
            state.mark(name, Scope::whole());
        }
        let work = state.take();
        drop(state);
        if everything {
            self.shared.marked.notify_waiters();
        }
        work
    }

    /// The work on a namespace has succeeded.
    pub(crate) fn done(&self, namespace: &Name) {
        self.shared.state.lock().failures.remove(namespace);
        self.back_from_work(namespace);
    }

    /// The work on a namespace has failed: it is marked again after a delay that doubles with each failure in a row, from
    /// `delays.0` to `delays.1`.
    pub(crate) fn failed(&self, namespace: Name, scope: Scope, delays: (Duration, Duration)) {
        let failures = {
            let mut state = self.shared.state.lock();
            let failures = state.failures.entry(namespace.clone()).or_default();
            *failures = failures.saturating_add(1);
            *failures
        };
        self.back_from_work(&namespace);
        let delay = delays.0.saturating_mul(2_u32.saturating_pow(failures - 1)).min(delays.1);
        let queue = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            queue.mark(Change { everything: false, namespaces: HashMap::from([(namespace, scope)]) });
        });
    }

    fn back_from_work(&self, namespace: &Name) {
        let mut state = self.shared.state.lock();
        state.at_work.remove(namespace);
        if state.waiting.contains_key(namespace) {
            state.order.push_back(namespace.clone());
            drop(state);
            self.shared.marked.notify_waiters();
        }
    }

    /// How many namespaces wait.
    pub(crate) fn depth(&self) -> usize {
        self.shared.state.lock().waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use forest::{Forest, Settings};
    use hns_runtime::handle::ForestWriter;
    use tokio::time::{Instant, timeout};

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
    async fn a_closed_gate_drops_marks() {
        let queue = Queue::default();
        queue.mark(change(&["a"]));
        queue.open();
        assert_eq!(next(&queue).await, None);
        queue.mark(change(&["a"]));
        assert_eq!(next(&queue).await.as_deref(), Some("a"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_namespace_at_work_comes_again_only_afterwards_and_once() {
        let queue = Queue::default();
        queue.open();
        queue.mark(change(&["a"]));
        assert_eq!(next(&queue).await.as_deref(), Some("a"));
        queue.mark(change(&["a"]));
        queue.mark(change(&["a"]));
        assert_eq!(next(&queue).await, None, "it is at work");
        queue.done(&"a".into());
        assert_eq!(next(&queue).await.as_deref(), Some("a"));
        queue.done(&"a".into());
        assert_eq!((next(&queue).await, queue.depth()), (None, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn failures_come_again_after_doubling_delays_until_one_succeeds() {
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
                queue.done(&name);
                queue.mark(change(&["a"]));
            }
        }
        assert_eq!(waited, [0, 1, 2, 3, 0, 1]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiting_taker_is_woken() {
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
