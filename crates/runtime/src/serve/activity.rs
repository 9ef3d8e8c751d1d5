//! What a connection has been doing lately, and until when it may go on like that.
//!
//! Counts requests and looks at the clock; it closes nothing itself.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};

use super::Limits;

/// The requests of one connection.
#[derive(Debug)]
pub(super) struct Activity {
    state: Mutex<State>,
    limits: Limits,
    /// Told when all requests have been answered.
    idle: Arc<Notify>,
    has_to_go: AtomicBool,
    leave: Notify,
}

#[derive(Clone, Copy, Debug)]
struct State {
    phase: Phase,
    since: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// No request has arrived yet.
    Silent,
    /// All requests so far are answered.
    Idle,
    /// So many requests are under way.
    Busy(usize),
}

/// A request under way, until dropped.
#[derive(Debug)]
pub(super) struct Request(Arc<Activity>);

impl Activity {
    /// Of a connection that has just been made; `idle` is told whenever it has become idle.
    pub(super) fn new(limits: Limits, idle: Arc<Notify>) -> Arc<Self> {
        let state = State { phase: Phase::Silent, since: Instant::now() };
        Arc::new(Self {
            state: Mutex::new(state),
            limits,
            idle,
            has_to_go: AtomicBool::new(false),
            leave: Notify::new(),
        })
    }

    /// The handshake is over: requests may come.
    pub(super) fn is_open(&self) {
        self.change(|phase| phase);
    }

    /// Since when it has been in its phase.
    pub(super) fn since(&self) -> Instant {
        self.state.lock().since
    }

    /// Whether no request is under way.
    pub(super) fn is_idle(&self) -> bool {
        !matches!(self.state.lock().phase, Phase::Busy(_))
    }

    /// Asks the connection to end, because another one needs its place.
    pub(super) fn leave(&self) {
        self.has_to_go.store(true, Ordering::Relaxed);
        self.leave.notify_one();
    }

    /// Whether it was asked to end.
    pub(super) fn has_to_go(&self) -> bool {
        self.has_to_go.load(Ordering::Relaxed)
    }

    /// Waits until it is asked to end.
    pub(super) async fn asked_to_leave(&self) {
        self.leave.notified().await;
    }

    /// Counts a request until the result is dropped.
    pub(super) fn begin(self: &Arc<Self>) -> Request {
        self.change(|phase| match phase {
            Phase::Silent | Phase::Idle => Phase::Busy(1),
            Phase::Busy(count) => Phase::Busy(count + 1),
        });
        Request(self.clone())
    }

    fn change(&self, change: impl FnOnce(Phase) -> Phase) {
        let mut state = self.state.lock();
        state.phase = change(state.phase);
        state.since = Instant::now();
        if state.phase == Phase::Idle {
            self.idle.notify_one();
        }
    }

    /// Waits until the connection has been in one phase for as long as its limits allow.
    pub(super) async fn expired(&self) -> Phase {
        loop {
            let State { phase, since } = *self.state.lock();
            let limit = match phase {
                Phase::Silent => self.limits.first_request,
                Phase::Idle => self.limits.idle,
                Phase::Busy(_) => self.limits.stalled,
            };
            let deadline = since + limit;
            if Instant::now() >= deadline {
                return phase;
            }
            // A phase that began meanwhile may end sooner than the one being waited for.
            let shortest = self.limits.idle.min(self.limits.stalled);
            tokio::time::sleep_until(deadline.min(Instant::now() + shortest)).await;
        }
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        self.0.change(|phase| match phase {
            Phase::Busy(count) if count > 1 => Phase::Busy(count - 1),
            _ => Phase::Idle,
        });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    async fn expires_after(activity: &Activity) -> (Phase, Duration) {
        let start = Instant::now();
        (activity.expired().await, start.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn each_phase_has_its_limit() {
        let limits = Limits::WEBHOOK;
        let about = |limit: Duration| limit..limit + Duration::from_millis(5);
        let activity = Activity::new(limits, Arc::default());
        let (phase, after) = expires_after(&activity).await;
        assert_eq!(phase, Phase::Silent);
        assert!(about(limits.first_request).contains(&after), "{after:?}");

        let first = activity.begin();
        let second = activity.begin();
        let (phase, after) = expires_after(&activity).await;
        assert_eq!(phase, Phase::Busy(2));
        assert!(about(limits.stalled).contains(&after), "{after:?}");

        drop(first);
        drop(second);
        let (phase, after) = expires_after(&activity).await;
        assert_eq!(phase, Phase::Idle);
        assert!(about(limits.idle).contains(&after), "{after:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_shorter_phase_that_begins_later_is_seen() {
        let activity = Activity::new(Limits::WEBHOOK, Arc::default());
        drop(activity.begin());
        let waiting = tokio::spawn({
            let activity = activity.clone();
            async move { activity.expired().await }
        });
        tokio::time::sleep(Duration::from_secs(1)).await;
        let _stuck = activity.begin();
        let start = Instant::now();
        assert_eq!(waiting.await.unwrap(), Phase::Busy(1));
        assert!(start.elapsed() <= Duration::from_secs(121), "{:?}", start.elapsed());
    }
}
