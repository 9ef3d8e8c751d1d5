//! Probes before a copy is written: does the API server refuse changes of copies by users? See [`crate::guard`].

use std::time::Duration;

use forest::core::plan::Action;
use forest::{Fact, Name, ObjectKey};
use hns_api::labels;
use tokio::time::{Instant, sleep};

use super::Executor;
use crate::apply::{Outcome, ProbeResult};
use crate::dialect::Dialect;
use crate::guard::{GuardState, REPORT_AFTER, Resource};

/// How long an API server may take to see the labels of a namespace, and the pause between two probes.
const LABEL_TIMEOUT: Duration = Duration::from_secs(2);
const LABEL_INTERVAL: Duration = Duration::from_millis(20);

/// The message about a copy that is not written for a long time.
const NOT_GUARDED: &str = "it is not written yet, because the API server does not refuse changes of copies of this kind: neither the \
                           policy hns-copies nor the webhook is in force; see the log of the controller";

impl Executor {
    /// Returns the outcome of `action` if it writes a copy that may not be guarded.
    pub(crate) async fn check_guard<D: Dialect>(
        &self,
        namespace: &Name,
        action: &Action<D>,
    ) -> Option<Outcome> {
        let (key, kind) = self.new_copy(namespace, action)?;
        let epoch = match self.guard.state(&kind, namespace, key) {
            GuardState::Guarded => return None,
            GuardState::Probing => return Some(Outcome::Deferred),
            GuardState::Probe(epoch) => epoch,
        };
        match self.applier(namespace).probe(action).await {
            ProbeResult::Refused if self.guard.probe_refused(&kind, epoch) => None,
            ProbeResult::Refused | ProbeResult::Accepted => {
                if self.guard.wait(&kind, namespace, key) {
                    let (executor, namespace, action) = (self.clone(), namespace.clone(), action.clone());
                    tokio::spawn(
                        async move { executor.repeat_probe(&namespace, &action, &kind, epoch).await },
                    );
                }
                Some(Outcome::Deferred)
            }
            ProbeResult::Failed(outcome) => Some(outcome),
        }
    }

    /// Repeats the probe until its result changes. The namespaces that wait are marked then.
    async fn repeat_probe<D: Dialect>(
        &self,
        namespace: &Name,
        action: &Action<D>,
        kind: &Resource,
        epoch: u64,
    ) {
        let mut is_reported = false;
        while let Some((delay, waited)) = self.guard.next_delay(kind, epoch) {
            if waited > REPORT_AFTER && !is_reported {
                is_reported = true;
                tracing::warn!(group = kind.0, resource = kind.1, %namespace, "a copy waits: {NOT_GUARDED}");
                let key = action.key().cloned();
                let fact = |key| Fact::WriteFailed(namespace.clone(), key, NOT_GUARDED.into());
                self.writer.tell(key.map(fact));
            }
            sleep(delay).await;
            if !(self.may_write)() {
                return;
            }
            match self.applier(namespace).probe(action).await {
                ProbeResult::Refused if self.guard.probe_refused(kind, epoch) => return,
                ProbeResult::Refused | ProbeResult::Accepted => {}
                ProbeResult::Failed(_) => return self.guard.reset(kind),
            }
        }
    }

    /// Copies are guarded in namespaces that have the label. After the plan has set the label, this waits until the API server
    /// sees it.
    pub(super) async fn await_included_label<D: Dialect>(&self, namespace: &Name, actions: &[Action<D>]) {
        let copy = actions.iter().find(|action| self.new_copy(namespace, action).is_some());
        let Some(copy) = copy.filter(|_| self.guard.is_enabled()) else { return };
        let started = Instant::now();
        while started.elapsed() < LABEL_TIMEOUT && (self.may_write)() {
            match self.applier(namespace).probe(copy).await {
                ProbeResult::Accepted => sleep(LABEL_INTERVAL).await,
                ProbeResult::Refused | ProbeResult::Failed(_) => return,
            }
        }
    }

    /// The key and the kind of the object that this action makes a copy. Updates of existing copies need no guard: users could
    /// change these before, too.
    fn new_copy<'a, D: Dialect>(
        &self,
        namespace: &Name,
        action: &'a Action<D>,
    ) -> Option<(&'a ObjectKey, Resource)> {
        let key = match action {
            Action::CreateCopy { key, .. } => key,
            Action::ReplaceCopy { key, .. } if self.forest.read(|forest| forest.is_own(namespace, key)) => {
                key
            }
            _ => return None,
        };
        let kind = self.forest.read(|forest| forest.kind(key.kind).clone());
        Some((key, (kind.group, kind.resource)))
    }
}

/// Whether the action sets the label by which API servers select the namespaces where copies are guarded.
pub(super) fn sets_included_label<D: Dialect>(action: &Action<D>) -> bool {
    matches!(action, Action::PatchNamespace { labels: edit, .. } if edit.set.contains_key(labels::INCLUDED_NAMESPACE))
}
