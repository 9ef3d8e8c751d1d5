//! The decision about a lease, from its observed state.
//!
//! A pure function of its arguments.

use std::time::Duration;

use tokio::time::Instant;

/// A Lease as last observed.
#[derive(Clone, Debug)]
pub(super) struct Observed<'a> {
    /// Empty if it has no holder.
    pub(super) holder: &'a str,
    /// The duration that its holder set.
    pub(super) duration: Duration,
    /// When this process first saw this version of it.
    pub(super) unchanged_since: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// Write the Lease with this replica as the new holder.
    Acquire,
    /// Write the Lease again.
    Renew,
    /// Wait until then, unless the Lease changes before.
    Wait(Instant),
}

/// Decides for the replica `me` at the time `now`; `seen` is `None` if there is no Lease.
pub(super) fn decide(seen: Option<&Observed<'_>>, now: Instant, me: &str) -> Decision {
    let Some(seen) = seen else {
        return Decision::Acquire;
    };
    if seen.holder == me {
        return Decision::Renew;
    }
    let expires = seen.unchanged_since + seen.duration;
    if seen.holder.is_empty() || now >= expires { Decision::Acquire } else { Decision::Wait(expires) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table() {
        const LONG: Duration = Duration::from_secs(15);
        const SHORT: Duration = Duration::from_secs(1);
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let table = [
            ("without a holder", "", LONG, 0, Decision::Acquire),
            ("ours", "me", LONG, 0, Decision::Renew),
            ("ours, from before a restart long ago", "me", LONG, 999, Decision::Renew),
            ("another's, just seen", "you", LONG, 0, Decision::Wait(at(15))),
            ("another's, almost expired", "you", LONG, 14, Decision::Wait(at(15))),
            ("another's, expired", "you", LONG, 15, Decision::Acquire),
            ("another's, with a duration of its own", "you", SHORT, 1, Decision::Acquire),
            ("of one whose name only begins like ours", "me-too", LONG, 0, Decision::Wait(at(15))),
        ];
        for (case, holder, duration, seconds, expected) in table {
            let seen = Observed { holder, duration, unchanged_since: start };
            assert_eq!(decide(Some(&seen), at(seconds), "me"), expected, "{case}");
        }
        assert_eq!(decide(None, start, "me"), Decision::Acquire, "no lease");
    }
}
