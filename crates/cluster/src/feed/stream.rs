//! One stream, pumped into the forest for as long as the process lives.
//!
//! A complete list is told as one fact, so that what disappeared during a gap disappears from the forest too, and a stream
//! counts as synced at the *end* of its first list. After an error the next attempt comes within two seconds.

use std::time::Duration;

use forest::{Fact, Stream};
use futures::{Stream as Events, StreamExt, pin_mut};
use k8s_openapi::jiff::Timestamp;
use kube::Resource;
use kube::runtime::watcher::{Error, Event};
use tokio::time::Instant;

use crate::handle::ForestWriter;
use crate::metrics::StreamMetrics;

const FIRST_DELAY: Duration = Duration::from_millis(50);
const LONGEST_DELAY: Duration = Duration::from_secs(2);

/// So long an API server that starts may take to know who may do what.
const LONGEST_START: Duration = Duration::from_secs(5);

/// How the objects of one stream become facts.
pub(super) trait Translate<K>: Send + 'static {
    type Item: Send;

    /// What the stream is called, for the forest and for people.
    fn stream(&self) -> (Stream, String);
    fn item(&self, object: K) -> Self::Item;
    fn seen(&self, item: Self::Item) -> Fact;
    fn gone(&self, object: K) -> Fact;
    fn all(&self, items: Vec<Self::Item>) -> Fact;
}

/// What a stream writes to.
#[derive(Clone)]
pub(super) struct Pump {
    pub(super) writer: ForestWriter,
    pub(super) metrics: StreamMetrics,
}

impl Pump {
    /// Watches for ever. `open` opens a new watch, which begins with a complete list. While the API server refuses, nothing is
    /// known of the objects; while it cannot be reached, what was known last still stands.
    pub(super) async fn run<K, S, T>(self, translate: T, open: impl Fn() -> S + Send)
    where
        S: Events<Item = Result<Event<K>, Error>> + Send,
        T: Translate<K> + Sync,
        K: Resource + Send,
    {
        let (stream, name) = translate.stream();
        let tell = |told| {
            self.writer.tell([match told {
                WatchEvent::Listed(items) => translate.all(items),
                WatchEvent::Applied(item) => translate.seen(item),
                WatchEvent::Deleted(object) => translate.gone(object),
                WatchEvent::Refused(why) => Fact::StreamLost(stream, why.into()),
            }]);
        };
        watch(&name, &self.metrics, open, |object| translate.item(object), tell).await;
    }
}

/// What a watch has to say of objects that have been read as items.
#[derive(Debug)]
pub enum WatchEvent<I, K> {
    /// These are all there are.
    Listed(Vec<I>),
    /// One was created or changed.
    Applied(I),
    /// One was deleted.
    Deleted(K),
    /// The API server will not say, for a reason that will not pass by itself; this is what it said instead.
    Refused(String),
}

/// Watches for ever and tells what is seen; `open` opens a new watch.
pub async fn watch<K, I, S>(
    name: &str,
    metrics: &StreamMetrics,
    open: impl Fn() -> S + Send,
    item: impl Fn(K) -> I + Send,
    tell: impl Fn(WatchEvent<I, K>) + Send,
) where
    S: Events<Item = Result<Event<K>, Error>> + Send,
    I: Send,
    K: Resource + Send,
{
    let mut delay = Delay::default();
    let mut denied = DenialGrace::default();
    loop {
        let events = open();
        pin_mut!(events);
        let mut listed = Vec::new();
        while let Some(event) = events.next().await {
            match event {
                // Every attempt to list begins with this one, also one that fails.
                Ok(Event::Init) => {
                    listed.clear();
                    continue;
                }
                Ok(Event::InitApply(object)) => listed.push(item(object)),
                Ok(Event::InitDone) => {
                    tracing::debug!(stream = name, objects = listed.len(), "listed");
                    metrics.listed(name);
                    tell(WatchEvent::Listed(std::mem::take(&mut listed)));
                    denied.has_listed = true;
                }
                Ok(Event::Apply(object)) => {
                    metrics.seen(name, object.meta(), Timestamp::now());
                    tell(WatchEvent::Applied(item(object)));
                }
                Ok(Event::Delete(object)) => tell(WatchEvent::Deleted(object)),
                Err(error) => {
                    let passes = denied.is_transient(&error);
                    let lists_anew = failed(name, metrics, &error, passes, &tell);
                    tokio::time::sleep(delay.next()).await;
                    if lists_anew {
                        break;
                    }
                    continue;
                }
            }
            delay = Delay::default();
            denied.since = None;
        }
    }
}

/// A refusal for want of rights that may yet turn out to be none.
#[derive(Default)]
struct DenialGrace {
    /// Whether there was ever a complete list.
    has_listed: bool,
    /// Since when there has been nothing but refusals.
    since: Option<Instant>,
}

impl DenialGrace {
    /// An API server that has just started refuses everybody for a moment, until it has read who may do what. What was known
    /// before still stands then.
    fn is_transient(&mut self, error: &Error) -> bool {
        let denies = matches!(
            error,
            Error::InitialListFailed(kube::Error::Api(status)) | Error::WatchStartFailed(kube::Error::Api(status))
                if matches!(status.code, 401 | 403)
        );
        denies && self.has_listed && self.since.get_or_insert_with(Instant::now).elapsed() < LONGEST_START
    }
}

/// Whether only a new list can help.
fn failed<I, K>(
    name: &str,
    metrics: &StreamMetrics,
    error: &Error,
    passes: bool,
    tell: &impl Fn(WatchEvent<I, K>),
) -> bool {
    metrics.failed(name);
    let Some(why) = refusal(error).filter(|_| !passes) else {
        tracing::info!(stream = name, %error, "watch interrupted");
        return is_expired(error);
    };
    tracing::warn!(stream = name, %error, "cannot be listed or watched");
    tell(WatchEvent::Refused(why));
    true
}

/// What the API server said, if it was asked for a list or a watch and refused for a reason that will not pass by itself.
fn refusal(error: &Error) -> Option<String> {
    let (Error::InitialListFailed(kube::Error::Api(status))
    | Error::WatchStartFailed(kube::Error::Api(status))) = error
    else {
        return None;
    };
    matches!(status.code, 400..=409 | 411..=428).then(|| status.message.clone())
}

/// Whether the API server has forgotten the version to go on from. The watcher lists anew by itself when a running watch is
/// told so, but not when that is the answer to a new one.
fn is_expired(error: &Error) -> bool {
    matches!(error, Error::WatchStartFailed(kube::Error::Api(status)) if status.code == 410)
}

/// Waiting times between attempts: doubling, never over [`LONGEST_DELAY`].
#[derive(Default)]
struct Delay(Option<Duration>);

impl Delay {
    fn next(&mut self) -> Duration {
        let delay = self.0.map_or(FIRST_DELAY, |last| (last * 2).min(LONGEST_DELAY));
        self.0 = Some(delay);
        delay
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Namespace;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use kube::core::Status;

    use super::*;

    #[test]
    fn a_forgotten_version_needs_a_new_list_and_says_nothing_of_what_is_known() {
        let answer = |code| kube::Error::Api(Status { code, ..Status::default() }.boxed());
        let start = |code| Error::WatchStartFailed(answer(code));
        for (error, refused, expired) in [
            (start(410), false, true),
            (start(403), true, false),
            (start(404), true, false),
            (start(429), false, false),
            (start(500), false, false),
            (Error::InitialListFailed(answer(403)), true, false),
            // A list is begun anew anyway.
            (Error::InitialListFailed(answer(410)), false, false),
        ] {
            assert_eq!((refusal(&error).is_some(), is_expired(&error)), (refused, expired), "{error}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_for_want_of_rights_may_pass_for_a_moment_and_only_after_a_list() {
        let denial =
            |code| Error::WatchStartFailed(kube::Error::Api(Status { code, ..Status::default() }.boxed()));
        let mut never_listed = DenialGrace::default();
        assert!(!never_listed.is_transient(&denial(403)));
        let mut denied = DenialGrace { has_listed: true, since: None };
        assert!(!denied.is_transient(&denial(404)), "a definition that is gone does not come back by itself");
        assert!(denied.is_transient(&denial(403)));
        tokio::time::advance(LONGEST_START / 2).await;
        assert!(denied.is_transient(&denial(401)));
        tokio::time::advance(LONGEST_START / 2).await;
        assert!(!denied.is_transient(&denial(403)));
    }

    struct Nothing;

    impl Translate<Namespace> for Nothing {
        type Item = ();

        fn stream(&self) -> (Stream, String) {
            (Stream::Namespaces, "namespaces".into())
        }

        fn item(&self, _: Namespace) {}

        fn seen(&self, (): ()) -> Fact {
            Fact::Namespaces(vec![])
        }

        fn gone(&self, _: Namespace) -> Fact {
            Fact::Namespaces(vec![])
        }

        fn all(&self, _: Vec<()>) -> Fact {
            Fact::Namespaces(vec![])
        }
    }

    #[tokio::test(start_paused = true)]
    async fn lists_that_fail_are_tried_less_and_less_often() {
        let settings = forest::Settings::new("hnc-system", [""; 0], ".*").unwrap();
        let (writer, _) =
            ForestWriter::new(forest::Forest::new(Arc::new(settings), vec![]), Box::new(|_| {}));
        let metrics = StreamMetrics::register(&prometheus::Registry::new()).unwrap();
        let attempts = Arc::new(AtomicU32::new(0));
        let watch = {
            let attempts = attempts.clone();
            move || {
                attempts.fetch_add(1, Ordering::Relaxed);
                let refused = kube::Error::Api(Status { code: 404, ..Status::default() }.boxed());
                futures::stream::iter([Ok(Event::<Namespace>::Init), Err(Error::InitialListFailed(refused))])
            }
        };
        let pump = Pump { writer, metrics }.run(Nothing, watch);
        assert!(tokio::time::timeout(Duration::from_secs(20), pump).await.is_err(), "it never ends");
        // 50, 100, … 1600 ms, then every two seconds.
        let attempts = attempts.load(Ordering::Relaxed);
        assert!((14..=16).contains(&attempts), "{attempts} attempts in twenty seconds");
    }

    #[test]
    fn delays_double_up_to_two_seconds() {
        let mut delay = Delay::default();
        let delays: Vec<u128> = (0..8).map(|_| delay.next().as_millis()).collect();
        assert_eq!(delays, [50, 100, 200, 400, 800, 1600, 2000, 2000]);
    }
}
