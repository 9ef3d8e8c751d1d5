//! One stream of watch events, written to the forest while the process runs.
//!
//! A complete list becomes one fact, so that objects that were deleted during a gap disappear from the forest as well.
//! A stream is synced at the *end* of its first list. After an error the next attempt follows within two seconds, from the last
//! version that was seen. If the API server no longer has that version (410 Gone), the stream lists again.
//!
//! Until the new list arrives, both programs use the last known state. When it has arrived, the controller plans nothing that uses
//! this list until `structure_sync` has verified it.

use std::time::Duration;

use forest::{Fact, Stream};
use futures::{Stream as Events, StreamExt, pin_mut};
use k8s_openapi::jiff::Timestamp;
use kube::Resource;
use kube::runtime::watcher::{Error, Event};
use tokio::time::Instant;

use crate::error_text::error_text;
use crate::handle::ForestWriter;
use crate::metrics::{NewestWrite, StreamMetrics};
use crate::objects::is_expired;

const FIRST_DELAY: Duration = Duration::from_millis(50);
const LONGEST_DELAY: Duration = Duration::from_secs(2);

/// The longest time that a starting API server may refuse requests because it has not read its roles yet.
const LONGEST_START: Duration = Duration::from_secs(5);

/// Converts the objects of one stream to facts.
pub(super) trait Translate<K>: Send + 'static {
    type Item: Send;

    /// The stream, for the forest and for logs.
    fn stream(&self) -> (Stream, String);
    fn item(&self, object: K) -> Self::Item;
    fn seen(&self, item: Self::Item) -> Fact;
    fn gone(&self, object: K) -> Fact;
    fn all(&self, items: Vec<Self::Item>) -> Fact;

    /// The API server refuses the stream with this code and message.
    fn lost(&self, _code: u16, why: String) -> Fact {
        Fact::StreamLost(self.stream().0, why.into())
    }
}

/// Writes a stream to the forest.
#[derive(Clone)]
pub(super) struct Pump {
    pub(super) writer: ForestWriter,
    pub(super) metrics: StreamMetrics,
}

impl Pump {
    /// Watches without end. `open` opens a new watch, which begins with a complete list. If the API server refuses the
    /// watch, the stream is reported as lost; if it cannot be reached, the last known state stays valid.
    pub(super) async fn run<K, S, T>(self, translate: T, open: impl Fn() -> S + Send)
    where
        S: Events<Item = Result<Event<K>, Error>> + Send,
        T: Translate<K> + Sync,
        K: Resource + Send,
    {
        let (_, name) = translate.stream();
        let tell = |told| {
            self.writer.tell([match told {
                WatchEvent::Listed(items) => translate.all(items),
                WatchEvent::Applied(item) => translate.seen(item),
                WatchEvent::Deleted(object) => translate.gone(object),
                WatchEvent::Refused(code, why) => translate.lost(code, why),
            }]);
        };
        watch(&name, &self.metrics, open, |object| translate.item(object), tell).await;
    }
}

/// An event of a watch, with objects converted to items.
#[derive(Debug)]
pub enum WatchEvent<I, K> {
    /// The complete list.
    Listed(Vec<I>),
    /// An object was created or changed.
    Applied(I),
    /// An object was deleted.
    Deleted(K),
    /// The API server refuses the watch permanently, with this code and message.
    Refused(u16, String),
}

/// Watches without end and reports each event; `open` opens a new watch.
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
    let mut newest = NewestWrite::default();
    loop {
        let events = open();
        pin_mut!(events);
        let mut listed = Vec::new();
        while let Some(event) = events.next().await {
            match event {
                // Every attempt to list, also a failing one, begins with this event.
                Ok(Event::Init) => {
                    listed.clear();
                    continue;
                }
                Ok(Event::InitApply(object)) => {
                    newest.advance(object.meta());
                    listed.push(item(object));
                }
                Ok(Event::InitDone) => {
                    tracing::debug!(stream = name, objects = listed.len(), "listed");
                    metrics.listed(name);
                    tell(WatchEvent::Listed(std::mem::take(&mut listed)));
                    denied.has_listed = true;
                }
                Ok(Event::Apply(object)) => {
                    if let Some(written) = newest.advance(object.meta()) {
                        metrics.seen(name, written, Timestamp::now());
                    }
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

/// Tracks refusals for missing rights that may be temporary.
#[derive(Default)]
struct DenialGrace {
    /// Whether there was a complete list.
    has_listed: bool,
    /// The time of the first refusal since the last success.
    since: Option<Instant>,
}

impl DenialGrace {
    /// Whether the refusal may be temporary: an API server that has just started refuses all requests until it has read
    /// its roles. The known state stays valid during this time.
    fn is_transient(&mut self, error: &Error) -> bool {
        let denies = matches!(
            error,
            Error::InitialListFailed(kube::Error::Api(status)) | Error::WatchStartFailed(kube::Error::Api(status))
                if matches!(status.code, 401 | 403)
        );
        denies && self.has_listed && self.since.get_or_insert_with(Instant::now).elapsed() < LONGEST_START
    }
}

/// Reports an error; returns whether a new list is needed.
fn failed<I, K>(
    name: &str,
    metrics: &StreamMetrics,
    error: &Error,
    passes: bool,
    tell: &impl Fn(WatchEvent<I, K>),
) -> bool {
    metrics.failed(name);
    let Some((code, why)) = refusal(error).filter(|_| !passes) else {
        tracing::info!(stream = name, error = error_text(error), "watch interrupted");
        return is_expired(error);
    };
    tracing::warn!(stream = name, error = error_text(error), "list or watch failed");
    tell(WatchEvent::Refused(code, why));
    true
}

/// The code and the message of the API server if it refused a list or a watch permanently.
fn refusal(error: &Error) -> Option<(u16, String)> {
    let (Error::InitialListFailed(kube::Error::Api(status))
    | Error::WatchStartFailed(kube::Error::Api(status))) = error
    else {
        return None;
    };
    matches!(status.code, 400..=409 | 411..=428).then(|| (status.code, status.message.clone()))
}

/// The delays between attempts: they double up to [`LONGEST_DELAY`].
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
    fn an_expired_version_needs_a_new_list_and_keeps_the_known_state() {
        let answer = |code| kube::Error::Api(Status { code, ..Status::default() }.boxed());
        let start = |code| Error::WatchStartFailed(answer(code));
        for (error, refused, expired) in [
            (start(410), false, true),
            (start(403), true, false),
            (start(404), true, false),
            (start(429), false, false),
            (start(500), false, false),
            (Error::InitialListFailed(answer(403)), true, false),
            // The list starts again in any case.
            (Error::InitialListFailed(answer(410)), false, false),
        ] {
            assert_eq!((refusal(&error).is_some(), is_expired(&error)), (refused, expired), "{error}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn missing_rights_are_temporary_only_shortly_after_a_list() {
        let denial =
            |code| Error::WatchStartFailed(kube::Error::Api(Status { code, ..Status::default() }.boxed()));
        let mut never_listed = DenialGrace::default();
        assert!(!never_listed.is_transient(&denial(403)));
        let mut denied = DenialGrace { has_listed: true, since: None };
        assert!(!denied.is_transient(&denial(404)), "a deleted definition is permanent");
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
            (Stream::NAMESPACES, "namespaces".into())
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
    async fn failing_lists_are_retried_at_growing_intervals() {
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
        assert!(tokio::time::timeout(Duration::from_secs(20), pump).await.is_err(), "the watch does not end");
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
