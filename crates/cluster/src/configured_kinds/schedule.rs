//! When to repeat discovery: after changes and after failures, not at regular intervals.
//!
//! The watch may deliver a changed CRD before all API servers act on it, so discovery is repeated a few times
//! after a change. After a failed or incomplete discovery, the interval grows. The module is pure: the caller passes
//! the time.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// The delays after a change of a CRD.
const FOLLOW_UPS: [Duration; 5] = [
    Duration::ZERO,
    Duration::from_millis(300),
    Duration::from_secs(1),
    Duration::from_secs(3),
    Duration::from_secs(10),
];

const FIRST_RETRY: Duration = Duration::from_millis(250);
const LONGEST_RETRY: Duration = Duration::from_secs(60);

/// The outcome of a discovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// All configured kinds were resolved.
    Complete,
    /// A configured kind is not served, or discovery failed.
    Incomplete,
}

/// The times of the next discoveries.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    due: VecDeque<Instant>,
    retry: Option<Duration>,
}

impl Schedule {
    /// When the next discovery is due; `None` if none is planned.
    pub(super) fn next(&self) -> Option<Instant> {
        self.due.front().copied()
    }

    /// Whether a discovery is due.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.next().is_some_and(|next| next <= now)
    }

    /// The configuration has changed.
    pub(super) fn configuration_changed(&mut self, now: Instant) {
        self.retry = None;
        self.due.push_front(now);
    }

    /// A CRD has changed.
    pub(super) fn crd_changed(&mut self, now: Instant) {
        self.retry = None;
        self.due = FOLLOW_UPS.into_iter().map(|after| now + after).collect();
    }

    /// A discovery has ended.
    pub(super) fn completed(&mut self, outcome: Outcome, now: Instant) {
        while self.is_due(now) {
            self.due.pop_front();
        }
        if outcome == Outcome::Complete {
            self.retry = None;
        } else if self.due.is_empty() {
            let wait = self.retry.map_or(FIRST_RETRY, |last| (last * 2).min(LONGEST_RETRY));
            self.retry = Some(wait);
            self.due.push_back(now + wait);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The times of the discoveries in milliseconds, with the given outcomes.
    fn times(schedule: &mut Schedule, start: Instant, outcomes: &[Outcome]) -> Vec<u128> {
        let mut times = Vec::new();
        for outcome in outcomes {
            let Some(next) = schedule.next() else { break };
            times.push((next - start).as_millis());
            schedule.completed(*outcome, next);
        }
        times
    }

    #[test]
    fn a_changed_definition_causes_a_few_discoveries() {
        use Outcome::Complete;
        let start = Instant::now();
        let mut schedule = Schedule::default();
        assert!(!schedule.is_due(start) && schedule.next().is_none());
        schedule.configuration_changed(start);
        assert!(schedule.is_due(start));
        assert_eq!(times(&mut schedule, start, &[Complete; 3]), [0]);

        schedule.crd_changed(start);
        assert_eq!(times(&mut schedule, start, &[Complete; 9]), [0, 300, 1_000, 3_000, 10_000]);

        // Each change restarts the schedule; an overdue discovery runs at once.
        schedule.crd_changed(start);
        schedule.crd_changed(start + Duration::from_millis(200));
        schedule.completed(Complete, start + Duration::from_secs(2));
        assert_eq!(times(&mut schedule, start, &[Complete; 9]), [3_200, 10_200]);
    }

    #[test]
    fn incomplete_discoveries_are_repeated_at_growing_intervals() {
        use Outcome::{Complete, Incomplete};
        let start = Instant::now();
        let mut schedule = Schedule::default();
        schedule.configuration_changed(start);
        let asked = times(&mut schedule, start, &[Incomplete; 14]);
        assert_eq!(asked[..5], [0, 250, 750, 1_750, 3_750]);
        let last = &asked[asked.len() - 2..];
        assert_eq!(last[1] - last[0], 60_000);
        schedule.completed(Complete, start + Duration::from_hours(1));
        assert_eq!(schedule.next(), None);
    }
}
