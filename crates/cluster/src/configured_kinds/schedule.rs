//! When the API server is to be asked again what it serves: never at regular intervals, but when there is a reason to.
//!
//! A definition that comes or goes is seen by its watch before all API servers act on it, so after a change it is asked a few
//! times more. While it cannot be had, or leaves something open, it is asked less and less often. Pure: the time is given.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// After a definition has changed.
const FOLLOW_UPS: [Duration; 5] = [
    Duration::ZERO,
    Duration::from_millis(300),
    Duration::from_secs(1),
    Duration::from_secs(3),
    Duration::from_secs(10),
];

const FIRST_RETRY: Duration = Duration::from_millis(250);
const LONGEST_RETRY: Duration = Duration::from_secs(60);

/// How it went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Everything is known.
    Complete,
    /// Something that is configured is not served, or nothing could be found out.
    Incomplete,
}

/// When to ask.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    due: VecDeque<Instant>,
    retry: Option<Duration>,
}

impl Schedule {
    /// When to ask next; `None` when there is no reason to.
    pub(super) fn next(&self) -> Option<Instant> {
        self.due.front().copied()
    }

    /// Whether it is time.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.next().is_some_and(|next| next <= now)
    }

    /// The configuration has changed.
    pub(super) fn configuration_changed(&mut self, now: Instant) {
        self.retry = None;
        self.due.push_front(now);
    }

    /// A definition has changed.
    pub(super) fn definition_changed(&mut self, now: Instant) {
        self.retry = None;
        self.due = FOLLOW_UPS.into_iter().map(|after| now + after).collect();
    }

    /// It has been asked.
    pub(super) fn asked(&mut self, outcome: Outcome, now: Instant) {
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

    /// When it is asked, in milliseconds, if each time it goes as given.
    fn times(schedule: &mut Schedule, start: Instant, outcomes: &[Outcome]) -> Vec<u128> {
        let mut times = Vec::new();
        for outcome in outcomes {
            let Some(next) = schedule.next() else { break };
            times.push((next - start).as_millis());
            schedule.asked(*outcome, next);
        }
        times
    }

    #[test]
    fn a_complete_answer_ends_it_and_after_a_definition_it_is_asked_a_few_times() {
        use Outcome::Complete;
        let start = Instant::now();
        let mut schedule = Schedule::default();
        assert!(!schedule.is_due(start) && schedule.next().is_none());
        schedule.configuration_changed(start);
        assert!(schedule.is_due(start));
        assert_eq!(times(&mut schedule, start, &[Complete; 3]), [0]);

        schedule.definition_changed(start);
        assert_eq!(times(&mut schedule, start, &[Complete; 9]), [0, 300, 1_000, 3_000, 10_000]);

        // Each change begins it anew; what was due meanwhile is done at once.
        schedule.definition_changed(start);
        schedule.definition_changed(start + Duration::from_millis(200));
        schedule.asked(Complete, start + Duration::from_secs(2));
        assert_eq!(times(&mut schedule, start, &[Complete; 9]), [3_200, 10_200]);
    }

    #[test]
    fn what_is_left_open_is_asked_less_and_less_often() {
        use Outcome::{Complete, Incomplete};
        let start = Instant::now();
        let mut schedule = Schedule::default();
        schedule.configuration_changed(start);
        let asked = times(&mut schedule, start, &[Incomplete; 14]);
        assert_eq!(asked[..5], [0, 250, 750, 1_750, 3_750]);
        let last = &asked[asked.len() - 2..];
        assert_eq!(last[1] - last[0], 60_000);
        schedule.asked(Complete, start + Duration::from_hours(1));
        assert_eq!(schedule.next(), None);
    }
}
