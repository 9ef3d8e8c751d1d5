//! Waits until the controller has applied a change, and says on a terminal for what.

use std::pin::pin;
use std::time::Duration;

use clap::Args;
use indicatif::ProgressBar;
use tokio::time::{Instant, sleep};

use crate::flags::Limit;
use crate::{Failure, Terminal};

/// The first interval between checks; later intervals are longer, because a check may need large lists.
const POLL: Duration = Duration::from_millis(250);
const LONGEST_POLL: Duration = Duration::from_secs(3);
/// A request that takes longer is named.
const SLOW: Duration = Duration::from_secs(3);
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(120);

/// Whether and how long to wait. `USUALLY` is the default of the command.
#[derive(Debug, Clone, Args)]
pub(crate) struct WaitArgs<const USUALLY: bool = false> {
    #[arg(long, help = help(USUALLY))]
    wait: Option<bool>,

    /// Do not wait: return as soon as the API server has accepted the change. A change of several steps still waits between them.
    #[arg(long, conflicts_with = "wait")]
    no_wait: Option<bool>,

    /// How long to wait, if the command waits: seconds, or a duration such as 1m30s; 0 for no limit. The default is 2m.
    // A negative number or duration is refused by name.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    timeout: Option<Limit>,
}

const fn help(usually: bool) -> &'static str {
    if usually {
        "Wait until the change has taken effect everywhere. This is the default"
    } else {
        "Wait until the change has taken effect everywhere. By default, the command does not wait"
    }
}

impl<const USUALLY: bool> WaitArgs<USUALLY> {
    /// Whether to wait.
    pub(crate) fn is_wanted(&self) -> bool {
        self.wait.or(self.no_wait.map(|it| !it)).unwrap_or(USUALLY)
    }

    /// How long to wait for one step of a change, which takes at most this time.
    pub(crate) fn patience(&self, most: Duration) -> Duration {
        self.timeout.and_then(|limit| limit.0).map_or(most, |limit| limit.min(most))
    }

    pub(crate) fn deadline(&self) -> Deadline {
        let limit = self.timeout.map_or(Some(DEFAULT_TIMEOUT), |limit| limit.0);
        Deadline { at: limit.map(|limit| Instant::now() + limit), limit }
    }
}

/// When to stop waiting.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    at: Option<Instant>,
    limit: Option<Duration>,
}

/// The progress of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The change is complete.
    Done,
    /// The number of completed parts, the number of all parts, and what is missing.
    Part(u64, u64, String),
}

impl Progress {
    pub(crate) fn missing(what: impl Into<String>) -> Self {
        Self::Part(0, 1, what.into())
    }
}

/// Does one part of the work; says so if that takes long. `whom` is who has to answer.
pub(crate) async fn patiently<T>(
    terminal: &Terminal,
    (whom, what): (&str, &str),
    work: impl Future<Output = T>,
) -> T {
    let mut work = pin!(work);
    tokio::select! {
        done = &mut work => done,
        () = sleep(SLOW) => {
            terminal.note(&format!("waiting for {whom}: {what}"));
            work.await
        }
    }
}

/// Checks repeatedly until the change is complete. `what` is what is waited for, as a noun; `shown_by` is the command that shows its
/// problems.
///
/// # Errors
/// The deadline has passed, or the check failed.
pub(crate) async fn until(
    terminal: &Terminal,
    (what, shown_by): (&str, &str),
    deadline: Deadline,
    mut poll: impl AsyncFnMut() -> Result<Progress, Failure>,
) -> Result<(), Failure> {
    let spinner = if terminal.watched { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
    let mut pause = POLL;
    let outcome = loop {
        match poll().await {
            Err(failure) => break Err(failure),
            Ok(Progress::Done) => break Ok(()),
            Ok(Progress::Part(_, _, missing)) if deadline.at.is_some_and(|at| Instant::now() >= at) => {
                break Err(timed_out((what, shown_by), deadline, &missing));
            }
            Ok(Progress::Part(done, total, missing)) => {
                spinner.set_message(message(what, (done, total), &missing));
            }
        }
        spinner.tick();
        let left = deadline.at.map_or(pause, |at| at.saturating_duration_since(Instant::now()));
        sleep(pause.min(left)).await;
        pause = LONGEST_POLL.min(pause.mul_f32(1.3));
    };
    spinner.finish_and_clear();
    outcome
}

/// The line on a terminal; a count only if there is something to count.
fn message(what: &str, (done, total): (u64, u64), missing: &str) -> String {
    let count = if total > 1 { format!(" ({done} of {total})") } else { String::new() };
    format!("waiting for {what}{count}: {missing}")
}

fn timed_out((what, shown_by): (&str, &str), deadline: Deadline, missing: &str) -> Failure {
    let seconds = deadline.limit.unwrap_or_default().as_secs_f32();
    Failure::new(format!("Error: timed out after {seconds}s waiting for {what}; not yet done: {missing}"))
        .with_hint(format!(
            "The change is stored, and a running controller goes on applying it. `kubectl hns {shown_by}` shows \
             problems, `kubectl hns doctor` checks the controller."
        ))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::flags::tests::parsed;

    #[derive(Parser)]
    struct Line<const USUALLY: bool> {
        #[command(flatten)]
        wait: WaitArgs<USUALLY>,
    }

    fn args<const USUALLY: bool>(line: &str) -> WaitArgs<USUALLY> {
        parsed::<Line<USUALLY>>(line).wait
    }

    #[test]
    fn flags_override_the_default() {
        for (line, usually, otherwise) in [
            ("", true, false),
            ("--wait", true, true),
            ("--wait=false", false, false),
            ("--no-wait", false, false),
        ] {
            let wanted = (args::<true>(line).is_wanted(), args::<false>(line).is_wanted());
            assert_eq!(wanted, (usually, otherwise), "{line}");
        }
    }

    #[test]
    fn a_timeout_shortens_the_time_for_a_step() {
        for (line, seconds) in [("", 60), ("--timeout 3s", 3), ("--timeout 5m", 60), ("--timeout 0", 60)] {
            let patience = args::<false>(line).patience(Duration::from_mins(1));
            assert_eq!(patience, Duration::from_secs(seconds), "{line}");
        }
    }

    #[tokio::test]
    async fn waiting_ends_when_nothing_is_missing() {
        let mut looks = 0;
        let poll = async || {
            looks += 1;
            Ok(if looks == 3 { Progress::Done } else { Progress::missing("x") })
        };
        until(&Terminal::quiet(), ("it", "describe n"), args::<false>("--timeout 1m").deadline(), poll)
            .await
            .unwrap();
        assert_eq!(looks, 3);
        let never = async || Ok(Progress::missing("the label"));
        let failure = until(
            &Terminal::quiet(),
            ("it", "describe n"),
            args::<false>("--timeout 10ms").deadline(),
            never,
        )
        .await
        .unwrap_err();
        assert!(failure.hint.unwrap().contains("`kubectl hns describe n` shows"));
        assert_eq!(failure.text, "Error: timed out after 0.01s waiting for it; not yet done: the label");
    }

    #[test]
    fn a_count_is_shown_only_of_several_parts() {
        assert_eq!(message("namespace x", (0, 1), "the anchor"), "waiting for namespace x: the anchor");
        assert_eq!(
            message("the copies", (3, 9), "secrets s in x"),
            "waiting for the copies (3 of 9): secrets s in x"
        );
    }
}
