//! Has this process planned every namespace once? Until then the executor keeps the conditions about objects that a namespace
//! shows.
//!
//! Conflicts and refused writes are not stored anywhere else: a new process knows them only after it has planned the namespace.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use forest::plan::{Action, HncAction};
use forest::{Condition, Forest, Stream, StreamState};
use hns_api::events::CANNOT_PROPAGATE_OBJECT;
use tokio::time::Instant;

/// The initial pass ends after this time at the latest: some kinds are never listed, and some clusters always change.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Whether every namespace was planned once. Clones share the state.
#[derive(Debug, Clone)]
pub(crate) struct InitialPass {
    is_complete: Arc<AtomicBool>,
    started: Instant,
}

impl InitialPass {
    pub(super) fn start() -> Self {
        Self { is_complete: Arc::default(), started: Instant::now() }
    }

    /// Call this after each plan, with whether the lists were complete when it was made, and whether the queue is idle now.
    pub(crate) fn record(&self, was_listed: bool, is_idle: bool) {
        if was_listed && is_idle {
            self.is_complete.store(true, Ordering::Relaxed);
        }
    }

    /// Whether `report` must wait, because it removes or changes conditions about objects before the initial pass is complete.
    pub(super) fn suppresses(&self, shown: &[Condition], report: &Action) -> bool {
        if self.is_complete.load(Ordering::Relaxed) || self.started.elapsed() > TIMEOUT {
            return false;
        }
        let Action::Dialect(HncAction::UpdateHierarchy { status: Some(status), .. }) = report else {
            return false;
        };
        let of_objects = |all: &[Condition]| -> Vec<Condition> {
            all.iter().filter(|it| *it.reason == *CANNOT_PROPAGATE_OBJECT).cloned().collect()
        };
        let shown = of_objects(shown);
        !shown.is_empty() && shown != of_objects(&status.conditions)
    }
}

/// Whether every stream was listed or cannot be listed, and every list was verified against the structure.
pub(crate) fn is_listed(forest: &Forest) -> bool {
    has_every_list(forest) && forest.unverified().is_empty()
}

/// Whether every stream was listed or cannot be listed.
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
        Action::Dialect(HncAction::UpdateHierarchy {
            version,
            spec: None,
            finalizers: None,
            status: Some(status),
        })
    }

    #[tokio::test(start_paused = true)]
    async fn conditions_about_objects_stay_until_every_namespace_was_planned() {
        let refused = Condition::new(Reason::CannotPropagateObject, "refused");
        let other = Condition::new(Reason::CannotPropagateObject, "another");
        let cycle = Condition::new(Reason::InCycle, "a <- a");
        let shown = [refused.clone(), cycle.clone()];
        let pass = InitialPass::start();
        let both = [refused.clone(), other.clone()];
        for early in [&[][..], from_ref(&cycle), from_ref(&other), &both] {
            assert!(pass.suppresses(&shown, &report(early)), "{early:?}");
        }
        // Other conditions may change, and a first condition about objects may appear.
        assert!(!pass.suppresses(&shown, &report(from_ref(&refused))));
        assert!(!pass.suppresses(&[cycle], &report(&[other])));

        for (was_listed, is_idle) in [(false, true), (true, false)] {
            pass.record(was_listed, is_idle);
            assert!(pass.suppresses(&shown, &report(&[])));
        }
        pass.clone().record(true, true);
        assert!(!pass.suppresses(&shown, &report(&[])));

        let pass = InitialPass::start();
        tokio::time::advance(TIMEOUT + Duration::from_secs(1)).await;
        assert!(!pass.suppresses(&shown, &report(&[])), "the initial pass ends after the timeout");
    }
}
