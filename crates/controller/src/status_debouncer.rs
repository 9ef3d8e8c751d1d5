//! Reports that can wait: none of them is waited for by anybody, and a moment later there is less to write.
//!
//! Whoever makes a namespace often makes its `HierarchyConfiguration` right after, in two requests, and "already exists" is no
//! answer to somebody who has looked and found none. So an object that would only list children waits a little. And children
//! rarely come alone, so a list that changes waits for the next child, once. Bindings wait for a quota as a rule for a moment
//! only, and are worth no word then. Everything else is written at once. Decides nothing else.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use forest::plan::Action;
use forest::{Condition, HierarchyStatus, Reason};
use parking_lot::Mutex;
use tokio::time::Instant;

/// How long an object that is not there yet waits. Less than anybody waits for a list of children.
pub(crate) const CREATION: Duration = Duration::from_secs(1);

/// How long a list that changes waits. Less than anybody notices.
const CHANGE: Duration = Duration::from_millis(100);

/// How long bindings wait for a quota before that is said. The control plane takes much less as long as it is well.
const QUOTA: Duration = Duration::from_secs(5);

/// What was wanted longer ago is wanted anew.
const FORGOTTEN: Duration = Duration::from_secs(10);

/// Since when reports wait, by the uid of their namespace. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct StatusDebouncer {
    waiting: Arc<Mutex<HashMap<Box<str>, Instant>>>,
}

impl StatusDebouncer {
    /// How long this report about the namespace with this uid, which shows these conditions, has to wait yet. Its wait ends
    /// with the first time that the answer is `None`.
    pub(crate) fn wait(&self, uid: &str, shown: &[Condition], report: &Action) -> Option<Duration> {
        let patience = patience(shown, report)?;
        let now = Instant::now();
        let mut waiting = self.waiting.lock();
        waiting.retain(|_, since| now < *since + FORGOTTEN);
        let since = *waiting.entry(uid.into()).or_insert(now);
        let left = (since + patience).saturating_duration_since(now);
        if left.is_zero() {
            waiting.remove(uid);
        }
        (!left.is_zero()).then_some(left)
    }
}

/// How long such a report waits, if it does.
fn patience(shown: &[Condition], report: &Action) -> Option<Duration> {
    let awaits_quota = |it: &&Condition| *it.reason == *Reason::QuotaNotInForce.as_str();
    let says_so = |all: &[Condition]| all.iter().any(|it| awaits_quota(&it));
    let others = |all: &[Condition]| -> Vec<Condition> {
        all.iter().filter(|it| !awaits_quota(it)).cloned().collect()
    };
    match report {
        Action::CreateHierarchy { spec: None, held: false, status }
        | Action::ChangeHierarchy { spec: None, finalizers: None, status: Some(status), .. }
            if says_so(&status.conditions)
                && !says_so(shown)
                && others(&status.conditions) == others(shown) =>
        {
            Some(QUOTA)
        }
        Action::CreateHierarchy { spec: None, held: false, .. } => Some(CREATION),
        Action::ChangeHierarchy {
            spec: None,
            finalizers: None,
            status: Some(HierarchyStatus { conditions, .. }),
            ..
        } if conditions == shown => Some(CHANGE),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use forest::Version;

    use super::*;

    fn creation(held: bool) -> Action {
        Action::CreateHierarchy { spec: None, held, status: HierarchyStatus::default() }
    }

    fn change(finalizers: Option<Vec<Box<str>>>, conditions: &[Condition]) -> Action {
        let version = Version { uid: "1".into(), resource_version: "1".into() };
        let status = HierarchyStatus { children: vec!["b".into()], conditions: conditions.to_vec() };
        Action::ChangeHierarchy { version, spec: None, finalizers, status: Some(status) }
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_list_of_children_waits_and_each_for_itself() {
        let early = StatusDebouncer::default();
        let wait = |uid: &str, held| early.wait(uid, &[], &creation(held));
        assert_eq!(wait("a", true), None, "an anchor has to be held at once");
        assert_eq!(wait("a", false), Some(CREATION));
        tokio::time::advance(CREATION / 2).await;
        assert_eq!((wait("a", false), wait("b", false)), (Some(CREATION / 2), Some(CREATION)));
        tokio::time::advance(CREATION / 2).await;
        assert_eq!(wait("a", false), None, "asking again does not put it off");
        assert_eq!(wait("b", false), Some(CREATION / 2));
        tokio::time::advance(FORGOTTEN).await;
        assert_eq!(wait("a", false), Some(CREATION), "another one, much later");
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_that_changes_waits_and_nothing_else_that_changes_does() {
        let early = StatusDebouncer::default();
        let cycle = [Condition::new(Reason::InCycle, "a <- a")];
        let wait = |shown: &[Condition], report| early.wait("a", shown, &report);
        for (shown, conditions) in [(&[][..], &cycle[..]), (&cycle, &[])] {
            assert_eq!(wait(shown, change(None, conditions)), None, "a condition comes or goes");
        }
        assert_eq!(wait(&cycle, change(Some(vec!["x".into()]), &cycle)), None, "an anchor has to be held");
        assert_eq!(wait(&cycle, change(None, &cycle)), Some(CHANGE));
        tokio::time::advance(CHANGE).await;
        assert_eq!(wait(&cycle, change(None, &cycle)), None);
        assert_eq!(wait(&cycle, change(None, &cycle)), Some(CHANGE), "the next change waits for itself");
    }

    #[tokio::test(start_paused = true)]
    async fn that_bindings_wait_is_said_after_five_seconds_and_taken_back_at_once() {
        let early = StatusDebouncer::default();
        let quota = Condition::new(Reason::QuotaNotInForce, "\"size\"");
        let cycle = Condition::new(Reason::InCycle, "a <- a");
        let wait = |shown: &[Condition], wanted: &[Condition]| early.wait("a", shown, &change(None, wanted));
        let both = [cycle.clone(), quota.clone()];
        assert_eq!(wait(&[], &both), None, "there is other news");
        assert_eq!(wait(&both, std::slice::from_ref(&cycle)), None, "it is over");
        assert_eq!(wait(std::slice::from_ref(&cycle), &both), Some(QUOTA));
        tokio::time::advance(QUOTA / 2).await;
        assert_eq!(wait(std::slice::from_ref(&cycle), &both), Some(QUOTA / 2));
        tokio::time::advance(QUOTA / 2).await;
        assert_eq!(wait(&[cycle], &both), None);
        let created = |status| Action::CreateHierarchy { spec: None, held: false, status };
        let status = HierarchyStatus { conditions: vec![quota], ..HierarchyStatus::default() };
        assert_eq!(early.wait("b", &[], &created(status)), Some(QUOTA));
    }
}
