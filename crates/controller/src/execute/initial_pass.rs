//! What was said of objects is not taken back by a process that has not looked at them yet.
//!
//! Which objects stand in each other's way, or were refused, is known only after their namespaces were planned, and nobody
//! remembers it over a restart. So until everything was planned once, what a namespace shows about objects stays. Says
//! nothing of what is shown about anything else.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use forest::plan::Action;
use forest::{Condition, Forest, Stream, StreamState};
use hns_api::events::CANNOT_PROPAGATE_OBJECT;
use tokio::time::Instant;

/// Where there is always something to do, or something that is never listed, it is not waited for longer.
const LONGEST: Duration = Duration::from_secs(60);

/// Whether everything was planned once. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct InitialPass {
    everywhere: Arc<AtomicBool>,
    since: Instant,
}

impl InitialPass {
    pub(super) fn begin() -> Self {
        Self { everywhere: Arc::default(), since: Instant::now() }
    }

    /// Some work was done; at its beginning it was known what there is, or not, and now nothing else waits, or something does.
    pub(crate) fn worked(&self, was_listed: bool, nothing_waits: bool) {
        if was_listed && nothing_waits {
            self.everywhere.store(true, Ordering::Relaxed);
        }
    }

    /// Whether `report` would take back, or say otherwise, what a namespace shows about objects, too early.
    pub(super) fn is_too_early(&self, shown: &[Condition], report: &Action) -> bool {
        if self.everywhere.load(Ordering::Relaxed) || self.since.elapsed() > LONGEST {
            return false;
        }
        let Action::ChangeHierarchy { status: Some(status), .. } = report else { return false };
        let of_objects = |all: &[Condition]| -> Vec<Condition> {
            all.iter().filter(|it| *it.reason == *CANNOT_PROPAGATE_OBJECT).cloned().collect()
        };
        let shown = of_objects(shown);
        !shown.is_empty() && shown != of_objects(&status.conditions)
    }
}

/// Whether all there is has been listed, or cannot be, and plans rest on it.
pub(crate) fn is_listed(forest: &Forest) -> bool {
    has_every_list(forest) && forest.unmatched().is_empty()
}

/// Whether all there is has been listed, or cannot be.
pub(crate) fn has_every_list(forest: &Forest) -> bool {
    let waits = |id| forest.stream(Stream::Kind(id)) == StreamState::Waiting;
    let structure = forest.is_configured() && forest.structure_gap().is_none();
    structure && !forest.kinds().any(|(id, _)| waits(id))
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use forest::{HierarchyStatus, Reason, Version};

    use super::*;

    fn report(conditions: &[Condition]) -> Action {
        let status = HierarchyStatus { conditions: conditions.to_vec(), ..HierarchyStatus::default() };
        let version = Version { uid: "1".into(), resource_version: "1".into() };
        Action::ChangeHierarchy { version, spec: None, finalizers: None, status: Some(status) }
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_said_of_objects_is_taken_back_before_everything_was_planned() {
        let refused = Condition::new(Reason::CannotPropagateObject, "refused");
        let other = Condition::new(Reason::CannotPropagateObject, "another");
        let cycle = Condition::new(Reason::InCycle, "a <- a");
        let shown = [refused.clone(), cycle.clone()];
        let looked = InitialPass::begin();
        let both = [refused.clone(), other.clone()];
        for early in [&[][..], from_ref(&cycle), from_ref(&other), &both] {
            assert!(looked.is_too_early(&shown, &report(early)), "{early:?}");
        }
        // What is shown about anything else may change, and what was not shown may be.
        assert!(!looked.is_too_early(&shown, &report(from_ref(&refused))));
        assert!(!looked.is_too_early(&[cycle], &report(&[other])));

        for (was_listed, nothing_waits) in [(false, true), (true, false)] {
            looked.worked(was_listed, nothing_waits);
            assert!(looked.is_too_early(&shown, &report(&[])));
        }
        looked.clone().worked(true, true);
        assert!(!looked.is_too_early(&shown, &report(&[])));

        let looked = InitialPass::begin();
        tokio::time::advance(LONGEST + Duration::from_secs(1)).await;
        assert!(!looked.is_too_early(&shown, &report(&[])), "it is not waited for ever");
    }
}
