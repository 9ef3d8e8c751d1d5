//! One look for all who ask for the same at the same time.
//!
//! Whoever asks is answered by a look that begins after they asked. One that is under way may have found already what was before,
//! so it is never shared with somebody who comes later; and nothing is remembered. Knows nothing of what is looked at.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use parking_lot::Mutex;
use tokio::sync::{Mutex as Turn, OwnedMutexGuard};
use tokio::time::timeout;

/// So long a look waits for the one before it to end, which makes it the look of more who ask. One that hangs holds up nobody for
/// longer.
const LONGEST: Duration = Duration::from_millis(100);

type Look<V> = Shared<BoxFuture<'static, V>>;
type Things<K, V> = Arc<Mutex<HashMap<K, Thing<V>>>>;

/// Looks at things that are known by a `K`, each of which finds a `V`.
#[derive(Debug)]
pub(crate) struct Together<K, V> {
    things: Things<K, V>,
}

#[derive(Debug)]
struct Thing<V> {
    /// Held while somebody looks.
    turn: Arc<Turn<()>>,
    /// The look that has not begun.
    next: Option<Look<V>>,
}

impl<K, V> Default for Together<K, V> {
    fn default() -> Self {
        Self { things: Arc::default() }
    }
}

impl<K, V> Together<K, V>
where
    K: Clone + Eq + Hash + Send + 'static,
    V: Clone + Send + Sync + 'static,
{
    /// What is found by `look`, or by somebody else's look at the same thing that had not begun either. It goes on for as long as
    /// anybody waits for it.
    pub(crate) async fn look<F>(&self, key: K, look: impl FnOnce() -> F + Send + 'static) -> V
    where
        F: Future<Output = V> + Send + 'static,
    {
        self.next(key, look).await
    }

    fn next<F>(&self, key: K, look: impl FnOnce() -> F + Send + 'static) -> Look<V>
    where
        F: Future<Output = V> + Send + 'static,
    {
        let mut things = self.things.lock();
        let thing = things.entry(key.clone()).or_insert_with(|| Thing { turn: Arc::default(), next: None });
        if let Some(next) = &thing.next {
            return next.clone();
        }
        let (turn, things) = (thing.turn.clone(), self.things.clone());
        let next = async move {
            let turn = timeout(LONGEST, turn.lock_owned()).await.ok();
            let _under_way = UnderWay::begin(things, key, turn);
            look().await
        };
        let next = next.boxed().shared();
        thing.next = Some(next.clone());
        next
    }
}

/// A look under way: whoever asks from now on has to wait for the next one.
struct UnderWay<K: Eq + Hash, V> {
    things: Things<K, V>,
    key: K,
    turn: Option<OwnedMutexGuard<()>>,
}

impl<K: Eq + Hash, V> UnderWay<K, V> {
    fn begin(things: Things<K, V>, key: K, turn: Option<OwnedMutexGuard<()>>) -> Self {
        if let Some(thing) = things.lock().get_mut(&key) {
            thing.next = None;
        }
        Self { things, key, turn }
    }
}

/// Also when nobody waits for it any more.
impl<K: Eq + Hash, V> Drop for UnderWay<K, V> {
    fn drop(&mut self) {
        self.turn = None;
        let mut things = self.things.lock();
        if things.get(&self.key).is_some_and(|thing| thing.next.is_none()) {
            things.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::task::JoinHandle;
    use tokio::time::{Instant, sleep};

    use super::*;

    const LOOK: Duration = Duration::from_millis(10);
    const MOMENT: Duration = Duration::from_millis(1);

    /// Finds its own number, which says in which order the looks began.
    #[derive(Clone, Default)]
    struct Looks {
        together: Arc<Together<&'static str, usize>>,
        begun: Arc<AtomicUsize>,
    }

    impl Looks {
        fn ask(&self, key: &'static str, takes: Duration) -> JoinHandle<usize> {
            let Self { together, begun } = self.clone();
            tokio::spawn(async move {
                let look = move || async move {
                    let number = begun.fetch_add(1, Ordering::Relaxed) + 1;
                    sleep(takes).await;
                    number
                };
                together.look(key, look).await
            })
        }

        fn is_forgotten(&self) -> bool {
            self.together.things.lock().is_empty()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_asks_during_a_look_waits_for_the_next_with_all_others() {
        let looks = Looks::default();
        let first = looks.ask("a", LOOK);
        sleep(MOMENT).await;
        let later: Vec<_> = (0..5).map(|_| looks.ask("a", LOOK)).collect();
        sleep(MOMENT).await;
        let last = looks.ask("a", LOOK);
        assert_eq!(first.await.unwrap(), 1);
        for later in later {
            assert_eq!(later.await.unwrap(), 2);
        }
        assert_eq!(last.await.unwrap(), 2);
        assert_eq!(looks.ask("a", LOOK).await.unwrap(), 3, "nothing is remembered");
        assert!(looks.is_forgotten());
    }

    #[tokio::test(start_paused = true)]
    async fn other_things_are_looked_at_meanwhile() {
        let (looks, begun) = (Looks::default(), Instant::now());
        let all = ["a", "b", "c"].map(|key| looks.ask(key, LOOK));
        for one in all {
            one.await.unwrap();
        }
        assert_eq!((begun.elapsed(), looks.begun.load(Ordering::Relaxed)), (LOOK, 3));
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_that_hangs_holds_up_others_for_a_moment_only() {
        let looks = Looks::default();
        let hangs = looks.ask("a", Duration::from_hours(1));
        sleep(MOMENT).await;
        let begun = Instant::now();
        assert_eq!(looks.ask("a", LOOK).await.unwrap(), 2);
        assert_eq!(begun.elapsed(), LONGEST + LOOK);
        hangs.abort();
        assert!(hangs.await.unwrap_err().is_cancelled());
        assert!(looks.is_forgotten());
    }

    #[tokio::test(start_paused = true)]
    async fn who_gives_up_takes_nobody_with_them() {
        let looks = Looks::default();
        let first = looks.ask("a", LOOK);
        sleep(MOMENT).await;
        let [gives_up, stays] = [looks.ask("a", LOOK), looks.ask("a", LOOK)];
        sleep(MOMENT).await;
        gives_up.abort();
        assert_eq!((first.await.unwrap(), stays.await.unwrap()), (1, 2));

        let first = looks.ask("a", LOOK);
        sleep(MOMENT).await;
        let gives_up = looks.ask("a", LOOK);
        sleep(MOMENT).await;
        gives_up.abort();
        assert_eq!(first.await.unwrap(), 3);
        // Nobody has begun the look that was given up.
        assert_eq!(looks.ask("a", LOOK).await.unwrap(), 4);
        assert!(looks.is_forgotten());
    }
}
