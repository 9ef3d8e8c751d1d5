//! Before a copy is written: whether users would be refused who change it. See [`crate::guard`].

use std::time::Duration;

use forest::plan::Action;
use forest::{Fact, KindId, Name, ObjectKey};
use hns_api::labels;
use tokio::time::{Instant, sleep};

use super::Executor;
use super::overwrite::is_own;
use crate::apply::{Outcome, ProbeResult};
use crate::guard::{GuardState, PATIENCE, Resource};

/// How long an API server may take to see the labels of a namespace, and between two looks.
const LABELS: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(20);

/// What is said of a copy that waits for long.
const WAITS: &str = "it is not written yet, because the API server does not refuse changes of copies of this kind: neither the \
                     policy hns-copies nor the webhook is in force; see the log of the controller";

impl Executor {
    /// What to do instead of `action`, if it writes a copy that may not be guarded.
    pub(super) async fn unguarded(&self, namespace: &Name, action: &Action) -> Option<Outcome> {
        let (key, kind) = self.copied(namespace, action)?;
        let epoch = match self.guard.state(&kind, namespace, key) {
            GuardState::Guarded => return None,
            GuardState::Probing => return Some(Outcome::Deferred),
            GuardState::Probe(epoch) => epoch,
        };
        match self.probe(namespace, action).await {
            ProbeResult::Refused => {
                self.guard.probe_refused(&kind, epoch);
                None
            }
            ProbeResult::Accepted => {
                if self.guard.probe_accepted(&kind, namespace, key) {
                    let (executor, namespace, action) = (self.clone(), namespace.clone(), action.clone());
                    tokio::spawn(
                        async move { executor.go_on_asking(&namespace, &action, &kind, epoch).await },
                    );
                }
                Some(Outcome::Deferred)
            }
            ProbeResult::Failed(outcome) => Some(outcome),
        }
    }

    /// Until the answer is another one. All that wait are marked then.
    async fn go_on_asking(&self, namespace: &Name, action: &Action, kind: &Resource, epoch: u64) {
        let mut is_said = false;
        while let Some((pause, waited)) = self.guard.next_delay(kind, epoch) {
            if waited > PATIENCE && !is_said {
                is_said = true;
                tracing::warn!(group = kind.0, resource = kind.1, %namespace, "copies wait: {WAITS}");
                let key = action.key().cloned();
                self.writer.tell(key.map(|key| Fact::WriteFailed(namespace.clone(), key, WAITS.into())));
            }
            sleep(pause).await;
            if !(self.may_write)() {
                return;
            }
            match self.probe(namespace, action).await {
                ProbeResult::Refused => return self.guard.probe_refused(kind, epoch),
                ProbeResult::Accepted => {}
                ProbeResult::Failed(_) => return self.guard.reset(kind),
            }
        }
    }

    /// Copies are guarded in namespaces that have the label. Where this plan has set it, waits until the API server has seen it.
    pub(super) async fn included(&self, namespace: &Name, actions: &[Action]) {
        let copy = actions.iter().find(|action| self.copied(namespace, action).is_some());
        let Some(copy) = copy.filter(|_| self.guard.is_enabled()) else { return };
        let begun = Instant::now();
        while begun.elapsed() < LABELS && (self.may_write)() {
            match self.probe(namespace, copy).await {
                ProbeResult::Accepted => sleep(LOOK).await,
                ProbeResult::Refused | ProbeResult::Failed(_) => return,
            }
        }
    }

    async fn probe(&self, namespace: &Name, action: &Action) -> ProbeResult {
        let kind = |id: KindId| self.forest.read(|forest| forest.kind(id).clone());
        let settings = self.forest.read(forest::Forest::shared_settings);
        let applier =
            crate::apply::Applier { client: &self.client, namespace, kind: &kind, settings: &settings };
        applier.probe(action).await
    }

    /// The key and the kind of what becomes a copy by this action. What is one already stays as open as it is.
    fn copied<'a>(&self, namespace: &Name, action: &'a Action) -> Option<(&'a ObjectKey, Resource)> {
        let key = match action {
            Action::Create { key, .. } => key,
            Action::Replace { key, .. } if self.forest.read(|forest| is_own(forest, namespace, key)) => key,
            _ => return None,
        };
        let kind = self.forest.read(|forest| forest.kind(key.kind).clone());
        Some((key, (kind.group, kind.resource)))
    }
}

/// Whether it sets the label by which API servers know a namespace in which copies are guarded.
pub(super) fn includes(action: &Action) -> bool {
    matches!(action, Action::Mark { labels: edit, .. } if edit.set.contains_key(labels::INCLUDED_NAMESPACE))
}
