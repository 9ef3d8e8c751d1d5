//! The operations and kills, with their times, to find the cause of a failure. Judges nothing.

use std::cell::RefCell;
use std::time::Instant;

use k8s_openapi::jiff::Timestamp;

use super::operation::Operation;

/// Written by every part that acts.
#[derive(Default)]
pub(crate) struct Diary {
    entries: RefCell<Vec<Entry>>,
}

struct Entry {
    /// When it began: from then on something may have come of it.
    at: Instant,
    /// When it was over, as the logs have it.
    stamp: Timestamp,
    /// What was accepted; otherwise the controller was killed and started again.
    accepted: Option<String>,
}

impl Diary {
    /// What was sent at this time has been accepted.
    pub(crate) fn accepted(&self, sent: Instant, operation: &Operation) {
        self.write(sent, Some(format!("{operation:?}")));
    }

    pub(crate) fn killed(&self) {
        self.write(Instant::now(), None);
    }

    fn write(&self, at: Instant, accepted: Option<String>) {
        self.entries.borrow_mut().push(Entry { at, stamp: Timestamp::now(), accepted });
    }

    /// How often the controller was killed.
    pub(crate) fn kills(&self) -> usize {
        self.entries.borrow().iter().filter(|entry| entry.accepted.is_none()).count()
    }

    /// What happened from one time to another, a line each.
    pub(crate) fn between(&self, from: Option<Instant>, to: Instant) -> String {
        let entries = self.entries.borrow();
        let then = entries.iter().filter(|entry| from.is_none_or(|from| entry.at >= from) && entry.at <= to);
        let lines = then.map(|Entry { at, stamp, accepted }| {
            let what = accepted.as_deref().unwrap_or("the controller was killed and started again");
            format!("{stamp}, {:.3} s before: {what}", to.duration_since(*at).as_secs_f64())
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_lies_between_two_times_is_shown_and_all_deaths_are_counted() {
        let (diary, began) = (Diary::default(), Instant::now());
        let at = |seconds| began + Duration::from_secs(seconds);
        for (second, name) in [(1, "first"), (3, "second"), (5, "third")] {
            diary.accepted(at(second), &Operation::Move(name.into(), None));
        }
        diary.killed();
        let shown = diary.between(Some(at(2)), at(4));
        assert!(shown.ends_with(r#", 1.000 s before: Move("second", None)"#), "{shown}");
        assert_eq!(shown.lines().count(), 1, "{shown}");
        assert_eq!(diary.between(None, at(5)).lines().count(), 4);
        assert_eq!(diary.kills(), 1);
    }
}
