//! How many writes of a plan may be in flight: an equal share for each plan under way.
//!
//! Writes wait for their permits in the order of their requests. If a plan requested permits for all its writes at once, the
//! thousands of copies of one team would delay the withdrawal of a right in all other namespaces.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::WRITES_IN_FLIGHT;

/// The plans under way. Clones share the number.
#[derive(Clone, Debug, Default)]
pub(super) struct Shares(Arc<AtomicUsize>);

/// One plan under way, until it is dropped.
pub(super) struct UnderWay(Shares);

impl Shares {
    pub(super) fn enter(&self) -> UnderWay {
        self.0.fetch_add(1, Ordering::Relaxed);
        UnderWay(self.clone())
    }
}

impl UnderWay {
    /// How many writes of this plan may be in flight now.
    pub(super) fn writes(&self) -> usize {
        (WRITES_IN_FLIGHT / self.0.0.load(Ordering::Relaxed).max(1)).max(1)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_under_way_have_equal_shares() {
        let shares = Shares::default();
        let first = shares.enter();
        assert_eq!(first.writes(), WRITES_IN_FLIGHT);
        let others: Vec<UnderWay> = (0..3).map(|_| shares.enter()).collect();
        assert_eq!([first.writes(), others[2].writes()], [WRITES_IN_FLIGHT / 4; 2]);
        let many: Vec<UnderWay> = (0..WRITES_IN_FLIGHT).map(|_| shares.enter()).collect();
        assert_eq!(first.writes(), 1);
        drop((others, many));
        assert_eq!(first.writes(), WRITES_IN_FLIGHT);
    }
}
