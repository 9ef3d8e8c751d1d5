//! The most of something at a time, lately. Knows nothing of what it counts.

use std::time::Duration;

use tokio::time::Instant;

/// The peak that is shown is of the minute under way and the one before.
const WINDOW: Duration = Duration::from_secs(60);

/// How much there is, and how much there was at most.
#[derive(Debug)]
pub(super) struct Peak {
    now: u64,
    began: Instant,
    highest: u64,
    before: u64,
}

impl Peak {
    pub(super) fn new() -> Self {
        Self { now: 0, began: Instant::now(), highest: 0, before: 0 }
    }

    pub(super) fn more(&mut self) {
        self.turn();
        self.now += 1;
        self.highest = self.highest.max(self.now);
    }

    pub(super) fn less(&mut self) {
        self.turn();
        self.now = self.now.saturating_sub(1);
    }

    pub(super) fn highest(&mut self) -> u64 {
        self.turn();
        self.before.max(self.highest)
    }

    /// Begins another minute when it is time. Between two calls nothing has changed.
    fn turn(&mut self) {
        let passed = self.began.elapsed();
        if passed < WINDOW {
            return;
        }
        self.before = if passed < 2 * WINDOW { self.highest } else { self.now };
        self.highest = self.now;
        self.began = if passed < 2 * WINDOW { self.began + WINDOW } else { Instant::now() };
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_peak_is_shown_for_at_least_a_minute_and_then_what_still_is() {
        let mut peak = Peak::new();
        (0..3).for_each(|_| peak.more());
        (0..2).for_each(|_| peak.less());
        assert_eq!(peak.highest(), 3);
        advance(WINDOW).await;
        assert_eq!(peak.highest(), 3, "in the minute before");
        advance(WINDOW).await;
        assert_eq!(peak.highest(), 1);
        advance(3 * WINDOW).await;
        assert_eq!(peak.highest(), 1, "it is still there");
        peak.less();
        advance(2 * WINDOW).await;
        assert_eq!(peak.highest(), 0);
    }
}
