//! What a connection is doing, since when, and how long it may go on.
//!
//! Records requests and reads the clock; closes nothing itself.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    sync::{Notify, SetOnce},
    time::Instant,
};

use super::Limits;

/// The requests of one connection, which come one after the other.
#[derive(Debug)]
pub(super) struct Activity {
    state: Mutex<State>,
    limits: Limits,
    /// Notified when a request is answered.
    idle: Arc<Notify>,
    /// Requested to close, within this time.
    close: SetOnce<Duration>,
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
    /// A request is in flight.
    Busy,
}

/// A request in flight, until dropped.
#[derive(Debug)]
pub(super) struct InFlight(Arc<Activity>);

impl Activity {
    /// Of a connection that has just been accepted. `idle` is notified whenever it becomes idle.
    pub(super) fn new(limits: Limits, idle: Arc<Notify>) -> Arc<Self> {
        let state = State { phase: Phase::Silent, since: Instant::now() };
        Arc::new(Self { state: Mutex::new(state), limits, idle, close: SetOnce::new() })
    }

    /// The TLS handshake is done: the time for the first request begins.
    pub(super) fn handshake_done(&self) {
        self.enter(Phase::Silent);
    }

    /// Since when it has been in its phase.
    pub(super) fn since(&self) -> Instant {
        self.state.lock().since
    }

    /// Whether no request is in flight.
    pub(super) fn is_idle(&self) -> bool {
        self.state.lock().phase != Phase::Busy
    }

    /// Requests that the connection closes within this time, because another one needs its slot.
    pub(super) fn request_close(&self, within: Duration) {
        // An error: it was requested before.
        let _ = self.close.set(within);
    }

    /// How long it may take to close; `None` if it was not requested to.
    #[cfg(test)]
    pub(super) fn time_to_close(&self) -> Option<Duration> {
        self.close.get().copied()
    }

    /// Waits until it is requested to close, and returns how long that may take.
    pub(super) async fn close_requested(&self) -> Duration {
        *self.close.wait().await
    }

    /// A request begins, and ends when the result is dropped.
    pub(super) fn begin(self: &Arc<Self>) -> InFlight {
        self.enter(Phase::Busy);
        InFlight(self.clone())
    }

    fn enter(&self, phase: Phase) {
        *self.state.lock() = State { phase, since: Instant::now() };
    }

    /// Waits until the connection has been in one phase for as long as its limits allow.
    pub(super) async fn expired(&self) -> Phase {
        loop {
            let State { phase, since } = *self.state.lock();
            let limit = match phase {
                Phase::Silent => self.limits.first_request,
                Phase::Idle => self.limits.idle,
                Phase::Busy => self.limits.stalled,
            };
            let deadline = since + limit;
            if Instant::now() >= deadline {
                return phase;
            }
            // A phase that begins meanwhile may expire earlier.
            let shortest = self.limits.idle.min(self.limits.stalled);
            tokio::time::sleep_until(deadline.min(Instant::now() + shortest)).await;
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.enter(Phase::Idle);
        self.0.idle.notify_one();
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

        let request = activity.begin();
        let (phase, after) = expires_after(&activity).await;
        assert_eq!(phase, Phase::Busy);
        assert!(about(limits.stalled).contains(&after), "{after:?}");

        drop(request);
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
        let _stalled = activity.begin();
        let start = Instant::now();
        assert_eq!(waiting.await.unwrap(), Phase::Busy);
        assert!(start.elapsed() <= Duration::from_secs(121), "{:?}", start.elapsed());
    }
}
