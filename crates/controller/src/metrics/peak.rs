//! A counter with its highest recent value.

use std::time::Duration;

use tokio::time::Instant;

/// The peak covers the current window and the one before.
const WINDOW: Duration = Duration::from_secs(60);

/// The current value and its peak.
#[derive(Debug)]
pub(super) struct Peak {
    current: u64,
    window_start: Instant,
    highest: u64,
    previous: u64,
}

impl Peak {
    pub(super) fn new() -> Self {
        Self { current: 0, window_start: Instant::now(), highest: 0, previous: 0 }
    }

    pub(super) fn increment(&mut self) {
        self.advance();
        self.current += 1;
        self.highest = self.highest.max(self.current);
    }

    pub(super) fn decrement(&mut self) {
        self.advance();
        self.current = self.current.saturating_sub(1);
    }

    pub(super) fn highest(&mut self) -> u64 {
        self.advance();
        self.previous.max(self.highest)
    }

    /// Starts a new window when the current one is over. Between two calls the value does not change.
    fn advance(&mut self) {
        let elapsed = self.window_start.elapsed();
        if elapsed < WINDOW {
            return;
        }
        self.previous = if elapsed < 2 * WINDOW { self.highest } else { self.current };
        self.highest = self.current;
        self.window_start = if elapsed < 2 * WINDOW { self.window_start + WINDOW } else { Instant::now() };
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_peak_lasts_for_at_least_a_minute() {
        let mut peak = Peak::new();
        (0..3).for_each(|_| peak.increment());
        (0..2).for_each(|_| peak.decrement());
        assert_eq!(peak.highest(), 3);
        advance(WINDOW).await;
        assert_eq!(peak.highest(), 3, "in the previous window");
        advance(WINDOW).await;
        assert_eq!(peak.highest(), 1);
        advance(3 * WINDOW).await;
        assert_eq!(peak.highest(), 1, "the current value");
        peak.decrement();
        advance(2 * WINDOW).await;
        assert_eq!(peak.highest(), 0);
    }
}
