//! One call for all tasks that need the same answer at the same time.
//!
//! A task is answered by a call that begins after the task asked. A call that is under way may already have read an older state, so
//! later tasks never share it; and nothing is cached.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use parking_lot::Mutex;
use tokio::sync::{Mutex as Turn, OwnedMutexGuard};
use tokio::time::timeout;

/// A call waits this long for the one before it to end, so that more tasks can share it. A call that hangs delays others no
/// longer than this.
const LONGEST: Duration = Duration::from_millis(100);

type Call<V> = Shared<BoxFuture<'static, V>>;
type Flights<K, V> = Arc<Mutex<HashMap<K, Flight<V>>>>;

/// Shares calls that have the same `K`; each returns a `V`.
#[derive(Debug)]
pub(crate) struct SingleFlight<K, V> {
    flights: Flights<K, V>,
}

#[derive(Debug)]
struct Flight<V> {
    /// Held during a call.
    turn: Arc<Turn<()>>,
    /// The call that has not begun.
    next: Option<Call<V>>,
}

impl<K, V> Default for SingleFlight<K, V> {
    fn default() -> Self {
        Self { flights: Arc::default() }
    }
}

impl<K, V> SingleFlight<K, V>
where
    K: Clone + Eq + Hash + Send + 'static,
    V: Clone + Send + Sync + 'static,
{
    /// The result of `call`, or of another task's call with the same key that has not begun either. The call runs for as long as
    /// a task waits for it.
    pub(crate) async fn run<F>(&self, key: K, call: impl FnOnce() -> F + Send + 'static) -> V
    where
        F: Future<Output = V> + Send + 'static,
    {
        self.next(key, call).await
    }

    fn next<F>(&self, key: K, call: impl FnOnce() -> F + Send + 'static) -> Call<V>
    where
        F: Future<Output = V> + Send + 'static,
    {
        let mut flights = self.flights.lock();
        let flight =
            flights.entry(key.clone()).or_insert_with(|| Flight { turn: Arc::default(), next: None });
        if let Some(next) = &flight.next {
            return next.clone();
        }
        let (turn, flights) = (flight.turn.clone(), self.flights.clone());
        let next = async move {
            let turn = timeout(LONGEST, turn.lock_owned()).await.ok();
            let _under_way = UnderWay::begin(flights, key, turn);
            call().await
        };
        let next = next.boxed().shared();
        flight.next = Some(next.clone());
        next
    }
}

/// A call in flight: a task that asks from now on waits for the next one.
struct UnderWay<K: Eq + Hash, V> {
    flights: Flights<K, V>,
    key: K,
    turn: Option<OwnedMutexGuard<()>>,
}

impl<K: Eq + Hash, V> UnderWay<K, V> {
    fn begin(flights: Flights<K, V>, key: K, turn: Option<OwnedMutexGuard<()>>) -> Self {
        if let Some(flight) = flights.lock().get_mut(&key) {
            flight.next = None;
        }
        Self { flights, key, turn }
    }
}

/// Also when no task waits for it any more.
impl<K: Eq + Hash, V> Drop for UnderWay<K, V> {
    fn drop(&mut self) {
        self.turn = None;
        let mut flights = self.flights.lock();
        if flights.get(&self.key).is_some_and(|flight| flight.next.is_none()) {
            flights.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::task::JoinHandle;
    use tokio::time::{Instant, sleep};

    use super::*;

    const CALL: Duration = Duration::from_millis(10);
    const MOMENT: Duration = Duration::from_millis(1);

    /// Returns its own number, which gives the order in which the calls began.
    #[derive(Clone, Default)]
    struct Calls {
        flights: Arc<SingleFlight<&'static str, usize>>,
        begun: Arc<AtomicUsize>,
    }

    impl Calls {
        fn ask(&self, key: &'static str, takes: Duration) -> JoinHandle<usize> {
            let Self { flights, begun } = self.clone();
            tokio::spawn(async move {
                let call = move || async move {
                    let number = begun.fetch_add(1, Ordering::Relaxed) + 1;
                    sleep(takes).await;
                    number
                };
                flights.run(key, call).await
            })
        }

        fn is_forgotten(&self) -> bool {
            self.flights.flights.lock().is_empty()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_asks_during_a_call_shares_the_next_one() {
        let calls = Calls::default();
        let first = calls.ask("a", CALL);
        sleep(MOMENT).await;
        let later: Vec<_> = (0..5).map(|_| calls.ask("a", CALL)).collect();
        sleep(MOMENT).await;
        let last = calls.ask("a", CALL);
        assert_eq!(first.await.unwrap(), 1);
        for later in later {
            assert_eq!(later.await.unwrap(), 2);
        }
        assert_eq!(last.await.unwrap(), 2);
        assert_eq!(calls.ask("a", CALL).await.unwrap(), 3, "nothing is cached");
        assert!(calls.is_forgotten());
    }

    #[tokio::test(start_paused = true)]
    async fn calls_with_other_keys_run_at_the_same_time() {
        let (calls, begun) = (Calls::default(), Instant::now());
        let all = ["a", "b", "c"].map(|key| calls.ask(key, CALL));
        for one in all {
            one.await.unwrap();
        }
        assert_eq!((begun.elapsed(), calls.begun.load(Ordering::Relaxed)), (CALL, 3));
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_hangs_delays_others_for_a_moment_only() {
        let calls = Calls::default();
        let hangs = calls.ask("a", Duration::from_hours(1));
        sleep(MOMENT).await;
        let begun = Instant::now();
        assert_eq!(calls.ask("a", CALL).await.unwrap(), 2);
        assert_eq!(begun.elapsed(), LONGEST + CALL);
        hangs.abort();
        assert!(hangs.await.unwrap_err().is_cancelled());
        assert!(calls.is_forgotten());
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_gives_up_does_not_end_the_call_of_others() {
        let calls = Calls::default();
        let first = calls.ask("a", CALL);
        sleep(MOMENT).await;
        let [gives_up, stays] = [calls.ask("a", CALL), calls.ask("a", CALL)];
        sleep(MOMENT).await;
        gives_up.abort();
        assert_eq!((first.await.unwrap(), stays.await.unwrap()), (1, 2));

        let first = calls.ask("a", CALL);
        sleep(MOMENT).await;
        let gives_up = calls.ask("a", CALL);
        sleep(MOMENT).await;
        gives_up.abort();
        assert_eq!(first.await.unwrap(), 3);
        // The call that was given up has not begun.
        assert_eq!(calls.ask("a", CALL).await.unwrap(), 4);
        assert!(calls.is_forgotten());
    }
}
