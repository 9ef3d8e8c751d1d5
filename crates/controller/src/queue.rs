//! Which namespaces have to be planned, and how far.
//!
//! Marks for one namespace merge while it waits, and no namespace is worked on twice at a time. While the gate is closed
//! marks are dropped, because opening it marks everything. Knows nothing of what the work is.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use forest::{Change, Name, ObjectScope, Scope};
use hns_cluster::handle::ForestHandle;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};

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
    failures: HashMap<Name, Failing>,
    /// What is to be marked in a moment.
    put_off: HashMap<Name, Scope>,
}

/// A namespace on which some work has failed and is to be tried again.
#[derive(Debug, Default)]
struct Failing {
    /// How often, and never all of it has succeeded since.
    count: u32,
    /// How far it is to be tried again.
    scope: Scope,
    /// When; `None` while that is waiting or under way.
    due: Option<Instant>,
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
        self.shared.marked.notify_one();
    }

    /// Opens the gate: everything is to be planned.
    pub(crate) fn open(&self) {
        let mut state = self.shared.state.lock();
        state.open = true;
        state.everything = true;
        drop(state);
        self.shared.marked.notify_one();
    }

    /// Whether this process plans and writes.
    pub(crate) fn is_open(&self) -> bool {
        self.shared.state.lock().open
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
        let is_more = !state.order.is_empty();
        drop(state);
        // Who takes something wakes the next one, so that a mark need not wake everybody.
        if is_more {
            self.shared.marked.notify_one();
        }
        work
    }

    /// The work on a namespace has succeeded, as far as `scope`. What has failed there before and is no part of that stays
    /// failed, or whatever else happens in the namespace would have it tried again at the pace of a first failure.
    pub(crate) fn done(&self, namespace: &Name, scope: &Scope) {
        let mut state = self.shared.state.lock();
        if state.failures.get(namespace).is_some_and(|failing| covers(scope, &failing.scope)) {
            state.failures.remove(namespace);
        }
        drop(state);
        self.back_from_work(namespace);
    }

    /// The work on a namespace has failed: it is marked again after a delay that doubles with each failure, from `delays.0` to
    /// `delays.1`, or at once with what has failed there before if that comes earlier. However often it fails in the
    /// meantime, it is marked once.
    pub(crate) fn failed(&self, namespace: Name, scope: Scope, delays: (Duration, Duration)) {
        let mut state = self.shared.state.lock();
        let failing = state.failures.entry(namespace.clone()).or_default();
        failing.count = failing.count.saturating_add(1);
        failing.scope.merge(scope);
        let delay = delays.0.saturating_mul(2_u32.saturating_pow(failing.count - 1)).min(delays.1);
        let due = Instant::now() + delay;
        let is_next = failing.due.is_none_or(|earlier| due < earlier);
        failing.due = Some(failing.due.map_or(due, |earlier| due.min(earlier)));
        drop(state);
        self.back_from_work(&namespace);
        if is_next {
            let queue = self.clone();
            tokio::spawn(async move {
                sleep_until(due).await;
                queue.again(namespace);
            });
        }
    }

    /// Marks a namespace again after `delay`, or with what is put off there already. That is no failure: what has failed there
    /// is neither hastened nor slowed down.
    pub(crate) fn put_off(&self, namespace: Name, scope: Scope, delay: Duration) {
        let mut state = self.shared.state.lock();
        if let Some(already) = state.put_off.get_mut(&namespace) {
            return already.merge(scope);
        }
        state.put_off.insert(namespace.clone(), scope);
        drop(state);
        let queue = self.clone();
        tokio::spawn(async move {
            sleep(delay).await;
            let scope = queue.shared.state.lock().put_off.remove(&namespace);
            queue.mark_one(namespace, scope);
        });
    }

    /// Marks what has failed, if its time has come.
    fn again(&self, namespace: Name) {
        let mut state = self.shared.state.lock();
        let due = state.failures.get_mut(&namespace).and_then(|failing| {
            failing.due.take_if(|due| *due <= Instant::now())?;
            Some(failing.scope.clone())
        });
        drop(state);
        self.mark_one(namespace, due);
    }

    fn mark_one(&self, namespace: Name, scope: Option<Scope>) {
        let namespaces = scope.map(|scope| (namespace, scope)).into_iter().collect();
        self.mark(Change { everything: false, namespaces });
    }

    fn back_from_work(&self, namespace: &Name) {
        let mut state = self.shared.state.lock();
        state.at_work.remove(namespace);
        if state.waiting.contains_key(namespace) {
            state.order.push_back(namespace.clone());
            drop(state);
            self.shared.marked.notify_one();
        }
    }

    /// Whether nothing waits and nothing is under way. What has failed and is to be tried again later does not count.
    pub(crate) fn is_idle(&self) -> bool {
        let state = self.shared.state.lock();
        state.open && !state.everything && state.waiting.is_empty() && state.at_work.is_empty()
    }

    /// How many namespaces wait.
    pub(crate) fn depth(&self) -> usize {
        self.shared.state.lock().waiting.len()
    }
}

/// Whether everything in `part` is in `whole`.
fn covers(whole: &Scope, part: &Scope) -> bool {
    let objects = match (&whole.objects, &part.objects) {
        (ObjectScope::All, _) | (_, ObjectScope::None) => true,
        (ObjectScope::Some(whole), ObjectScope::Some(part)) => part.is_subset(whole),
        _ => false,
    };
    objects && (whole.structure || !part.structure)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use forest::{Forest, Settings};
    use hns_cluster::handle::ForestWriter;
    use tokio::time::timeout;

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
        queue.done(&"a".into(), &Scope::whole());
        assert_eq!(next(&queue).await.as_deref(), Some("a"));
        assert!(!queue.is_idle(), "it is at work");
        queue.done(&"a".into(), &Scope::whole());
        assert!(queue.is_idle());
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
                queue.done(&name, &scope);
                queue.mark(change(&["a"]));
            }
        }
        assert_eq!(waited, [0, 1, 2, 3, 0, 1]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_else_happens_neither_hastens_nor_multiplies_what_failed() {
        let queue = Queue::default();
        queue.open();
        let delays = (Duration::from_secs(1), Duration::from_secs(60));
        let start = Instant::now();
        let object = Scope { structure: false, objects: ObjectScope::All };
        queue.mark(change(&["a"]));
        let mut tried = Vec::new();
        while start.elapsed() < Duration::from_secs(40) {
            // Ten times a second something else is done, with success.
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
    async fn what_failed_stays_failed_when_its_time_comes_while_something_else_is_done() {
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
            // After 1, 2, 4 and 8 seconds it is marked, after 10 the namespace is free for it.
            sleep(Duration::from_secs(10)).await;
            queue.done(&name, &scope);
        }
        let failing = queue.shared.state.lock().failures["a"].count;
        assert_eq!(failing, 4, "nothing of what failed has succeeded");
    }

    #[tokio::test(start_paused = true)]
    async fn many_failures_come_again_once_and_as_early_as_the_first_of_them() {
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

        // One that is to come soon does not wait for one that is to come late.
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
    async fn what_is_put_off_comes_once_and_leaves_failures_alone() {
        let queue = Queue::default();
        queue.open();
        let seconds = Duration::from_secs;
        queue.mark(change(&["a"]));
        let (name, scope) = queue.next(&forest()).await;
        queue.failed(name, scope, (seconds(3), seconds(60)));
        let (start, mut taken) = (Instant::now(), Vec::new());
        for _ in 0..3 {
            queue.put_off("a".into(), Scope::structure(), seconds(1));
        }
        while let Ok((name, scope)) = timeout(seconds(30), queue.next(&forest())).await {
            taken.push((start.elapsed().as_secs(), scope.clone()));
            queue.done(&name, &scope);
        }
        assert_eq!(taken, [(1, Scope::structure()), (3, Scope::whole())]);
    }

    #[test]
    fn a_scope_covers_its_parts() {
        let scope = |structure, objects| Scope { structure, objects };
        let whole = Scope::whole();
        for part in [&whole, &Scope::structure(), &Scope::default()] {
            assert!(covers(&whole, part) && covers(part, part));
        }
        assert!(!covers(&Scope::structure(), &whole));
        assert!(!covers(&scope(false, ObjectScope::All), &whole));
        assert!(!covers(&scope(true, ObjectScope::Some([].into())), &whole));
    }

    #[tokio::test(start_paused = true)]
    async fn as_many_takers_are_woken_as_there_is_work() {
        const MOMENT: Duration = Duration::from_millis(1);
        let queue = Queue::default();
        queue.open();
        assert_eq!(next(&queue).await, None);
        let take = |_| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.next(&forest()).await })
        };
        let takers: Vec<_> = (0..5).map(take).collect();
        let busy = || takers.iter().filter(|taker| taker.is_finished()).count();
        sleep(MOMENT).await;
        queue.mark(change(&["a", "b", "c"]));
        sleep(MOMENT).await;
        assert_eq!((busy(), queue.depth()), (3, 0), "three marked at once");
        queue.mark(change(&["a"]));
        sleep(MOMENT).await;
        assert_eq!((busy(), queue.depth()), (3, 1), "it is being worked on");
        queue.done(&"a".into(), &Scope::whole());
        sleep(MOMENT).await;
        assert_eq!((busy(), queue.depth()), (4, 0), "it has come back");
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
