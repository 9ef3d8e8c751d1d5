//! How long does a status update wait? The executor asks before it writes a report. Fewer updates are written this way.
//!
//! - A `HierarchyConfiguration` that would only list children is created later. Users often create a namespace and then its
//!   `HierarchyConfiguration`, and their second request must not fail with `AlreadyExists`.
//! - A changed list of children waits a moment, because children are often created several at a time.
//! - Changed usage of a hierarchical quota waits a moment, because it changes with every object.
//! - The annotation of a derived quota for people waits longer: each change of a derived quota competes with the API server, which
//!   stores usage in it, and there is one in each namespace of the subtree.
//! - The condition `QuotaNotInForce` waits, because quotas are usually in force after a moment.
//!
//! Every other update is written at once.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use forest::plan::{Action, HncAction};
use forest::{Condition, Forest, HierarchyStatus, Name, Reason};
use parking_lot::Mutex;
use tokio::time::Instant;

/// The delay of the creation of an object that only lists children.
pub(crate) const CREATE_DELAY: Duration = Duration::from_secs(1);

/// The delay of a changed list of children.
const UPDATE_DELAY: Duration = Duration::from_millis(100);

/// The delay of the condition that bindings wait for a quota. A healthy control plane takes much less.
const QUOTA_DELAY: Duration = Duration::from_secs(5);

/// The delay of changed usage of a hierarchical quota.
const USAGE_DELAY: Duration = Duration::from_secs(1);

/// The delay of the annotation of a derived quota for people.
const TEXT_DELAY: Duration = Duration::from_secs(30);

/// When an update has not been written after this time beyond its delay, the delay starts again.
const EXPIRY: Duration = Duration::from_secs(10);

/// When the wait of each pending update ends, by the uid of its namespace or object. Clones share the state.
#[derive(Clone, Debug, Default)]
pub(crate) struct StatusDebouncer {
    ends: Arc<Mutex<HashMap<Box<str>, Instant>>>,
}

impl StatusDebouncer {
    /// How long this report must still wait; `None` if it must be written now. `shown` are the conditions that the namespace with
    /// this uid shows at present.
    pub(crate) fn delay(&self, uid: &str, shown: &[Condition], report: &Action) -> Option<Duration> {
        self.remaining(uid, full_delay(shown, report)?)
    }

    /// The same for what quotas show. Usage changes with every object; conditions are shown at once.
    pub(crate) fn quota_delay(&self, forest: &Forest, namespace: &Name, action: &Action) -> Option<Duration> {
        if let Action::Dialect(HncAction::WriteDerivedQuota { version: Some(version), .. }) = action {
            return self.remaining(&version.uid, TEXT_DELAY);
        }
        let Action::Dialect(HncAction::UpdateQuotaStatus { name, version, status, .. }) = action else {
            return None;
        };
        let shown = forest.quota_status(namespace, name)?;
        let only_usage = shown.hard == status.hard
            && shown.conditions.len() == status.conditions.len()
            && shown.conditions.iter().zip(&status.conditions).all(|(old, new)| old.holds == new.holds);
        if only_usage { self.remaining(&version.uid, USAGE_DELAY) } else { None }
    }

    fn remaining(&self, uid: &str, delay: Duration) -> Option<Duration> {
        let now = Instant::now();
        let mut ends = self.ends.lock();
        ends.retain(|_, end| now < *end + EXPIRY);
        let end = *ends.entry(uid.into()).or_insert(now + delay);
        let remaining = end.saturating_duration_since(now);
        if remaining.is_zero() {
            ends.remove(uid);
            return None;
        }
        Some(remaining)
    }
}

/// The whole delay of such a report.
fn full_delay(shown: &[Condition], report: &Action) -> Option<Duration> {
    let is_quota_condition = |it: &&Condition| *it.reason == *Reason::QuotaNotInForce.as_str();
    let has_quota_condition = |all: &[Condition]| all.iter().any(|it| is_quota_condition(&it));
    let others = |all: &[Condition]| -> Vec<Condition> {
        all.iter().filter(|it| !is_quota_condition(it)).cloned().collect()
    };
    match report {
        Action::Dialect(
            HncAction::CreateHierarchy { spec: None, with_finalizer: false, status }
            | HncAction::UpdateHierarchy { spec: None, finalizers: None, status: Some(status), .. },
        ) if has_quota_condition(&status.conditions)
            && !has_quota_condition(shown)
            && others(&status.conditions) == others(shown) =>
        {
            Some(QUOTA_DELAY)
        }
        Action::Dialect(HncAction::CreateHierarchy { spec: None, with_finalizer: false, .. }) => {
            Some(CREATE_DELAY)
        }
        Action::Dialect(HncAction::UpdateHierarchy {
            spec: None,
            finalizers: None,
            status: Some(HierarchyStatus { conditions, .. }),
            ..
        }) if conditions == shown => Some(UPDATE_DELAY),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use forest::Version;

    use super::*;

    fn creation(with_finalizer: bool) -> Action {
        Action::Dialect(HncAction::CreateHierarchy {
            spec: None,
            with_finalizer,
            status: HierarchyStatus::default(),
        })
    }

    fn change(finalizers: Option<Vec<Box<str>>>, conditions: &[Condition]) -> Action {
        let version = Version { uid: "1".into(), resource_version: "1".into() };
        let status = HierarchyStatus { children: vec!["b".into()], conditions: conditions.to_vec() };
        Action::Dialect(HncAction::UpdateHierarchy { version, spec: None, finalizers, status: Some(status) })
    }

    #[tokio::test(start_paused = true)]
    async fn the_creation_of_a_list_of_children_waits_in_each_namespace() {
        let debouncer = StatusDebouncer::default();
        let wait = |uid: &str, with_finalizer| debouncer.delay(uid, &[], &creation(with_finalizer));
        assert_eq!(wait("a", true), None, "an anchor gets its finalizer at once");
        assert_eq!(wait("a", false), Some(CREATE_DELAY));
        tokio::time::advance(CREATE_DELAY / 2).await;
        assert_eq!((wait("a", false), wait("b", false)), (Some(CREATE_DELAY / 2), Some(CREATE_DELAY)));
        tokio::time::advance(CREATE_DELAY / 2).await;
        assert_eq!(wait("a", false), None, "a second call does not extend the delay");
        assert_eq!(wait("b", false), Some(CREATE_DELAY / 2));
        tokio::time::advance(EXPIRY).await;
        assert_eq!(wait("a", false), Some(CREATE_DELAY), "another creation, much later");
    }

    #[tokio::test(start_paused = true)]
    async fn a_changed_list_of_children_waits_and_no_other_change_does() {
        let debouncer = StatusDebouncer::default();
        let cycle = [Condition::new(Reason::InCycle, "a <- a")];
        let wait = |shown: &[Condition], report| debouncer.delay("a", shown, &report);
        for (shown, conditions) in [(&[][..], &cycle[..]), (&cycle, &[])] {
            assert_eq!(wait(shown, change(None, conditions)), None, "a condition appears or disappears");
        }
        assert_eq!(
            wait(&cycle, change(Some(vec!["x".into()]), &cycle)),
            None,
            "an anchor gets its finalizer"
        );
        assert_eq!(wait(&cycle, change(None, &cycle)), Some(UPDATE_DELAY));
        tokio::time::advance(UPDATE_DELAY).await;
        assert_eq!(wait(&cycle, change(None, &cycle)), None);
        assert_eq!(
            wait(&cycle, change(None, &cycle)),
            Some(UPDATE_DELAY),
            "the next change has its own delay"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn the_annotation_of_a_derived_quota_is_written_every_half_minute() {
        let debouncer = StatusDebouncer::default();
        let settings = forest::Settings::new("hnc-system", [""; 0], ".*").unwrap();
        let forest = Forest::new(Arc::new(settings), vec![]);
        let text = Action::Dialect(HncAction::WriteDerivedQuota {
            version: Some(Version { uid: "1".into(), resource_version: "1".into() }),
            hard: [].into(),
            dropped: vec![],
            sources: "".into(),
            limits: "pods: a/budget, 5% of 9 left".into(),
        });
        let wait = || debouncer.quota_delay(&forest, &"a".into(), &text);
        assert_eq!(wait(), Some(TEXT_DELAY));
        tokio::time::advance(TEXT_DELAY / 2).await;
        assert_eq!(wait(), Some(TEXT_DELAY / 2), "a longer delay does not expire earlier");
        tokio::time::advance(TEXT_DELAY / 2).await;
        assert_eq!((wait(), wait()), (None, Some(TEXT_DELAY)));
    }

    #[tokio::test(start_paused = true)]
    async fn the_quota_condition_appears_after_five_seconds_and_disappears_at_once() {
        let debouncer = StatusDebouncer::default();
        let quota = Condition::new(Reason::QuotaNotInForce, "\"size\"");
        let cycle = Condition::new(Reason::InCycle, "a <- a");
        let wait =
            |shown: &[Condition], wanted: &[Condition]| debouncer.delay("a", shown, &change(None, wanted));
        let both = [cycle.clone(), quota.clone()];
        assert_eq!(wait(&[], &both), None, "another condition changes too");
        assert_eq!(wait(&both, std::slice::from_ref(&cycle)), None, "the quota is in force");
        assert_eq!(wait(std::slice::from_ref(&cycle), &both), Some(QUOTA_DELAY));
        tokio::time::advance(QUOTA_DELAY / 2).await;
        assert_eq!(wait(std::slice::from_ref(&cycle), &both), Some(QUOTA_DELAY / 2));
        tokio::time::advance(QUOTA_DELAY / 2).await;
        assert_eq!(wait(&[cycle], &both), None);
        let created = |status| {
            Action::Dialect(HncAction::CreateHierarchy { spec: None, with_finalizer: false, status })
        };
        let status = HierarchyStatus { conditions: vec![quota], ..HierarchyStatus::default() };
        assert_eq!(debouncer.delay("b", &[], &created(status)), Some(QUOTA_DELAY));
    }
}
