//! Makes one write of a plan: checks that it is allowed, sends it, and records the outcome in the forest, events, metrics and
//! the log.

use std::time::Duration;

use forest::core::plan::Action;
use forest::{Fact, Name, ObjectKey, Version};
use tokio::time::{Instant, sleep};

use super::{Executor, Progress};
use crate::apply::{Outcome, WriteResult, action_label};
use crate::dialect::Dialect;
use crate::events::{Failure, FailureKind};

/// The longest time to wait when the API server asks for a pause.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(30);

/// The result of one write.
pub(super) struct Written {
    pub(super) progress: Progress,
    /// Whether the API server refused the write, or failed to process it several times.
    pub(super) has_failed: bool,
    /// The version of the namespace, if the write changed it.
    pub(super) namespace_version: Option<Version>,
}

impl From<Progress> for Written {
    fn from(progress: Progress) -> Self {
        Self { progress, has_failed: false, namespace_version: None }
    }
}

impl Executor {
    pub(super) async fn write<D: Dialect>(&self, namespace: &Name, action: &Action<D>) -> Written {
        let Ok(_permit) = self.permits.acquire().await else { return Progress::Stopped.into() };
        if !(self.may_write)() {
            return Progress::Stopped.into();
        }
        let overwritten = self.forest.read(|forest| D::overwritten_by(forest, namespace, action));
        if let Some(outcome) = D::check(self, namespace, action, overwritten).await {
            return self.record_result(namespace, action, outcome.into());
        }
        // The checks send requests, so the permission may have ended.
        if !(self.may_write)() {
            return Progress::Stopped.into();
        }
        self.forest.read(|forest| self.reconcilers.count_write(forest, namespace, action));
        let started = Instant::now();
        let result = D::apply(&self.applier(namespace), action).await;
        self.writes.written(action_label(action), &result.outcome, started.elapsed());
        if let Outcome::Transient(_, Some(wait)) = &result.outcome {
            // Keep the permit while waiting: the API server asks for fewer requests at a time.
            sleep((*wait).min(MAX_RETRY_AFTER)).await;
        }
        if let Some(key) = overwritten
            && result.outcome == Outcome::Done
        {
            D::recorder(self).record_overwrite(namespace, key, action.source());
        }
        self.record_result(namespace, action, result)
    }

    fn record_result<D: Dialect>(
        &self,
        namespace: &Name,
        action: &Action<D>,
        result: WriteResult,
    ) -> Written {
        let WriteResult { outcome, facts } = result;
        let is_known = matches!(outcome, Outcome::Refused(_) | Outcome::Transient(..))
            && self.forest.read(|it| action.key().is_some_and(|key| it.has_failed(namespace, key)));
        log(namespace, action, &outcome, is_known);
        self.record_quota_events(namespace, action, &outcome);
        let is_persistent =
            action.key().is_some_and(|key| self.record_events(namespace, action, key, &outcome));
        let namespace_version = facts.iter().rev().find_map(|fact| namespace_version(fact, namespace));
        let progress = Progress::from(&outcome);
        let has_failed = match outcome {
            Outcome::Refused(_) => true,
            Outcome::Transient(..) => is_persistent || is_known,
            _ => false,
        };
        self.writer.tell(facts.into_iter().chain(failure_fact(namespace, action, outcome, is_persistent)));
        Written { progress, has_failed, namespace_version }
    }

    /// Returns whether this failure makes a series of failures persistent.
    fn record_events<D: Dialect>(
        &self,
        namespace: &Name,
        action: &Action<D>,
        key: &ObjectKey,
        outcome: &Outcome,
    ) -> bool {
        if let Outcome::Done | Outcome::NotFound = outcome {
            D::recorder(self).record_success(namespace, key);
        }
        let Some((why, kind)) = failure(outcome) else { return false };
        let removal = matches!(action, Action::DeleteCopy { .. });
        let failure = Failure { namespace, key, source: action.source(), removal, why, kind };
        D::recorder(self).record_failure(&failure)
    }

    fn record_quota_events<D: Dialect>(&self, namespace: &Name, action: &Action<D>, outcome: &Outcome) {
        let Action::Dialect(action) = action else { return };
        let Some(sources) = action.derived_quota_sources() else { return };
        match failure(outcome) {
            Some(failure) => self.recorder.record_quota_failure(namespace, sources, failure),
            None if *outcome == Outcome::Done => self.recorder.record_quota_success(namespace),
            None => {}
        }
    }
}

/// Why a write failed, and whether a retry may succeed; `None` if it did not fail.
fn failure(outcome: &Outcome) -> Option<(&str, FailureKind)> {
    match outcome {
        Outcome::Done | Outcome::NotFound | Outcome::Conflict | Outcome::Deferred => None,
        Outcome::Transient(why, _) | Outcome::Unreachable(why) => Some((why, FailureKind::Transient)),
        Outcome::Refused(why) => Some((why, FailureKind::Permanent)),
    }
}

/// The fact by which later plans report a failed write, or stop reporting it.
fn failure_fact<D: Dialect>(
    namespace: &Name,
    action: &Action<D>,
    outcome: Outcome,
    is_persistent: bool,
) -> Option<Fact> {
    let (namespace, key) = (namespace.clone(), action.key()?.clone());
    match outcome {
        Outcome::Done => Some(Fact::WriteSettled(namespace, key)),
        Outcome::Refused(why) => Some(Fact::WriteFailed(namespace, key, why.into())),
        Outcome::Transient(why, _) if is_persistent => Some(Fact::WriteFailed(namespace, key, why.into())),
        // An API server that is unreachable says nothing about this object.
        Outcome::NotFound
        | Outcome::Conflict
        | Outcome::Deferred
        | Outcome::Transient(..)
        | Outcome::Unreachable(_) => None,
    }
}

fn namespace_version(fact: &Fact, namespace: &Name) -> Option<Version> {
    match fact {
        Fact::Namespace(seen) if seen.name == *namespace => Some(seen.version.clone()),
        _ => None,
    }
}

/// A user can cause the same refusal again and again, so a known one is not logged as a warning.
fn log<D: Dialect>(namespace: &Name, action: &Action<D>, outcome: &Outcome, is_known: bool) {
    let name = action.key().map(|key| &*key.name);
    let what = action_label(action);
    match outcome {
        Outcome::Done => tracing::debug!(%namespace, name, what, "written"),
        Outcome::NotFound => {}
        Outcome::Conflict => {
            tracing::debug!(%namespace, name, what, "the object has changed; planning again");
        }
        Outcome::Deferred => {
            tracing::debug!(%namespace, name, what, "waiting until copies of the kind are guarded");
        }
        Outcome::Transient(why, _) | Outcome::Unreachable(why) => {
            tracing::warn!(%namespace, name, what, why, "the write failed; trying again");
        }
        Outcome::Refused(why) if is_known => {
            tracing::debug!(%namespace, name, what, why, "the API server refused the write again");
        }
        Outcome::Refused(why) => {
            tracing::warn!(%namespace, name, what, why, "the API server refused the write");
        }
    }
}
