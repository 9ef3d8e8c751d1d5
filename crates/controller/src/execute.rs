//! Executes the plan of one namespace: the steps in their order, the writes of a step concurrently. The workers call it.
//!
//! A guarding write that fails, such as the removal of a role, holds back the writes that give access in that namespace, and
//! nothing in other namespaces. Users may write anchors and `SubNamespaces`, so that a write of one can fail again and again: it holds
//! back only the creation of its child.

mod consent;
mod initial_pass;
mod overwrite;
mod probe;
mod read;
mod shares;
mod write;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use forest::accurate::AccurateAction;
use forest::core::plan::{Action, Plan, Step};
use forest::plan::HncAction;
use forest::{Fact, Name, Scope, Version};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use hns_cluster::configured_kinds::Configuration;
use hns_cluster::handle::{ForestHandle, ForestWriter};
use hns_cluster::stored::Store;
use kube::Client;
use tokio::sync::Semaphore;
use tokio::sync::watch::Receiver;

pub(crate) use self::initial_pass::{InitialPass, has_every_list, is_listed};
use self::probe::sets_included_label;
use self::read::ReadLock;
use self::shares::{Shares, UnderWay};
use self::write::Written;
use crate::apply::{Applier, Outcome};
use crate::dialect::Dialect;
use crate::events::{EventRecorder, Failure, FailureKind};
use crate::guard::Guard;
use crate::metrics::{ActivePass, Metrics, Pass, Reconcilers, WriteMetrics};
use crate::permission::Permission;
use crate::status_debouncer::{CREATE_DELAY, StatusDebouncer};

/// The number of writes in flight at a time. API priority and fairness limits the rate beyond that.
pub(crate) const WRITES_IN_FLIGHT: usize = 64;

/// How the execution of a plan ended. Of several writes, the greatest value counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Progress {
    /// Every write succeeded.
    Complete,
    /// An object was not in the planned state: plan again at once.
    Conflict,
    /// The API server refused a write.
    Refused,
    /// The API server failed to process a write. Refusals of other writes do not lengthen the delay of its retry.
    Transient,
    /// This process may not write any more.
    Stopped,
}

impl From<&Outcome> for Progress {
    /// A blocked or deferred write needs no retry: an event marks the namespace again.
    fn from(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Done | Outcome::NotFound | Outcome::Deferred => Self::Complete,
            Outcome::Conflict => Self::Conflict,
            Outcome::Transient(..) | Outcome::Unreachable(_) => Self::Transient,
            Outcome::Refused(_) => Self::Refused,
        }
    }
}

impl Progress {
    /// The delay before the first retry, and the longest delay. `None` if there is no retry.
    pub(crate) fn delays(self) -> Option<(Duration, Duration)> {
        let (first, longest) = match self {
            Self::Complete | Self::Stopped => return None,
            Self::Conflict => (50, 2_000),
            Self::Transient => (250, 10_000),
            Self::Refused => (1_000, 300_000),
        };
        Some((Duration::from_millis(first), Duration::from_millis(longest)))
    }
}

/// The result of [`Executor::execute`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Executed {
    pub(crate) progress: Progress,
    /// How long the status update is delayed, if it is. A delay is not a failure.
    pub(crate) report_waits: Option<Duration>,
    /// The same for the status of the hierarchical quotas.
    pub(crate) quotas_wait: Option<Duration>,
}

/// Executes plans. Clones share their state.
#[derive(Clone)]
pub(crate) struct Executor {
    pub(crate) client: Client,
    pub(crate) forest: ForestHandle,
    /// Checked before each write.
    pub(crate) may_write: Permission,
    pub(crate) initial_pass: InitialPass,
    writer: ForestWriter,
    /// The ledger of hierarchical quotas, and the namings of missing parents.
    store: Store,
    configuration: Receiver<Configuration>,
    writes: WriteMetrics,
    reconcilers: Reconcilers,
    pub(crate) recorder: EventRecorder,
    /// For Accurate's API: a plan of one dialect says nothing about the failures of the other.
    pub(crate) accurate_recorder: EventRecorder,
    guard: Guard,
    /// One permit for each request in flight.
    permits: Arc<Semaphore>,
    shares: Shares,
    debouncer: StatusDebouncer,
    read_lock: ReadLock,
}

impl Executor {
    /// Starts a task that writes events, so it must be called within a Tokio runtime.
    pub(crate) fn new(
        client: Client,
        (writer, forest): (ForestWriter, ForestHandle),
        configuration: Receiver<Configuration>,
        metrics: Metrics,
        (guard, may_write): (Guard, Permission),
        store: Store,
    ) -> Self {
        let Metrics { writes, reconcilers, events } = metrics;
        let recorder = EventRecorder::start(client.clone(), forest.clone(), events, may_write.clone());
        Self {
            client,
            forest,
            may_write,
            initial_pass: InitialPass::start(),
            writer,
            store,
            configuration,
            writes,
            reconcilers,
            accurate_recorder: recorder.with_own_history(),
            recorder,
            guard,
            permits: Arc::new(Semaphore::new(WRITES_IN_FLIGHT)),
            shares: Shares::default(),
            debouncer: StatusDebouncer::default(),
            read_lock: ReadLock::default(),
        }
    }

    /// Makes the writes of `plan`, which was made for `scope`. When this returns, the forest contains their results.
    pub(crate) async fn execute(&self, namespace: &Name, scope: &Scope, plan: Plan<HncAction>) -> Executed {
        let _pass = self.start_pass(namespace, scope, &plan);
        self.record_plan(namespace, &plan);
        let report_waits = plan.report.as_ref().and_then(|report| self.report_delay(namespace, report));
        let report = plan.report.filter(|_| report_waits.is_none());
        let (reported, sums, written, read) = tokio::join!(
            self.write_report(namespace, report),
            self.write_quota_statuses(namespace, plan.quota_statuses),
            self.execute_steps(namespace, plan.steps),
            self.read_sources(namespace, &plan.unread)
        );
        let (shown, quotas_wait) = sums;
        Executed { progress: reported.max(shown).max(written).max(read), report_waits, quotas_wait }
    }

    /// The same for a plan of Accurate's API.
    pub(crate) async fn execute_accurate(&self, namespace: &Name, plan: Plan<AccurateAction>) -> Progress {
        self.writes.planned(plan.actions().count());
        self.record_plan(namespace, &plan);
        for (key, why) in &plan.conflicts {
            tracing::warn!(%namespace, name = %key.name, %why, "the object of this name is not a copy and is kept, so the object of the upstream namespace is not copied");
            let source = self.forest.read(|forest| forest.accurate_upstream(namespace).cloned());
            let (source, kind) = (source.as_ref(), FailureKind::Permanent);
            let failure = Failure { namespace, key, source, removal: false, why, kind };
            self.accurate_recorder.record_failure(&failure);
        }
        let (written, read) = tokio::join!(
            self.execute_steps(namespace, plan.steps),
            self.read_sources(namespace, &plan.unread)
        );
        written.max(read)
    }

    fn start_pass(&self, namespace: &Name, scope: &Scope, plan: &Plan<HncAction>) -> ActivePass {
        self.writes.planned(plan.actions().count());
        self.reconcilers.start(self.forest.read(|forest| Pass::of(forest, namespace, scope, plan)))
    }

    /// Records what the plan shows without any write: failures that are over, and conflicts.
    fn record_plan<D: Dialect>(&self, namespace: &Name, plan: &Plan<D>) {
        D::recorder(self).record_plan(namespace, plan);
        let settled = plan.settled.iter().map(|key| Fact::WriteSettled(namespace.clone(), key.clone()));
        let conflicts = plan.conflicts.iter();
        let conflicts =
            conflicts.map(|(key, why)| Fact::Conflict(namespace.clone(), key.clone(), why.clone()));
        self.writer.tell(settled.chain(conflicts));
    }

    /// How long the status update must still wait.
    fn report_delay(&self, namespace: &Name, report: &Action<HncAction>) -> Option<Duration> {
        self.forest.read(|forest| {
            let shown = forest.conditions_shown(namespace);
            if self.initial_pass.suppresses(shown, report) {
                return Some(CREATE_DELAY);
            }
            let version = forest.namespace_version(namespace)?;
            self.debouncer.delay(&version.uid, shown, report)
        })
    }

    async fn write_report(&self, namespace: &Name, report: Option<Action<HncAction>>) -> Progress {
        match report {
            Some(action) => self.write(namespace, &action).await.progress,
            None => Progress::Complete,
        }
    }

    /// Writes each status, or says how long the first one waits.
    async fn write_quota_statuses(
        &self,
        namespace: &Name,
        statuses: Vec<Action<HncAction>>,
    ) -> (Progress, Option<Duration>) {
        let (mut progress, mut waits) = (Progress::Complete, None);
        for action in statuses {
            match self.forest.read(|forest| self.debouncer.quota_delay(forest, namespace, &action)) {
                Some(delay) => waits = Some(waits.map_or(delay, |other: Duration| other.min(delay))),
                None => progress = progress.max(self.write(namespace, &action).await.progress),
            }
        }
        (progress, waits)
    }

    async fn execute_steps<D: Dialect>(&self, namespace: &Name, steps: Vec<Step<D>>) -> Progress {
        let under_way = self.shares.enter();
        let mut worst = Progress::Complete;
        let (mut guarded, mut refused) = (true, Vec::new());
        let (mut version, mut is_labelled) = (None, false);
        let mut unchanged = BTreeSet::new();
        for Step { guards, gives, mut actions } in steps {
            if gives && !guarded {
                tracing::warn!(%namespace, "skipped the writes that give access, because a guarding write failed");
                // Also after a conflict. Otherwise a user who causes conflicts again and again would keep what was withdrawn.
                actions = self.forest.read(|forest| D::withdrawals(forest, namespace, &actions));
            } else if gives && !refused.is_empty() {
                actions =
                    self.forest.read(|forest| D::despite_refusals(forest, namespace, &refused, actions));
            }
            actions.retain(|it| {
                !it.dialect().and_then(D::creates_child).is_some_and(|it| unchanged.contains(it))
            });
            if is_labelled {
                self.await_included_label(namespace, &actions).await;
            }
            is_labelled |= actions.iter().any(sets_included_label);
            let actions = actions.into_iter().map(|action| with_version(action, version.as_ref()));
            let written = self.write_all(namespace, actions, &under_way).await;
            self.withdraw_refused(namespace, &written).await;
            let progress = written.iter().map(|(it, _)| it.progress).max().unwrap_or(Progress::Complete);
            for (it, action) in written.iter().filter(|(it, _)| it.progress != Progress::Complete) {
                match action {
                    Action::Dialect(write) if let Some(child) = D::changes_child(write) => {
                        unchanged.insert(child.clone());
                    }
                    _ if !guards => {}
                    // The labels were written, and annotations refused.
                    Action::Dialect(_) if it.has_failed && it.namespace_version.is_some() => {}
                    Action::Dialect(write) if it.has_failed && write.is_not_retried() => {}
                    Action::Dialect(_) | Action::DeleteCopy { .. } => guarded = false,
                    _ if it.has_failed => refused.push(action.clone()),
                    _ => guarded = false,
                }
            }
            version = written.into_iter().find_map(|(it, _)| it.namespace_version).or(version);
            worst = worst.max(progress);
        }
        worst
    }

    /// Makes the writes of a step, no more at a time than the share of this plan.
    async fn write_all<D: Dialect>(
        &self,
        namespace: &Name,
        mut actions: impl Iterator<Item = Action<D>> + Send,
        under_way: &UnderWay,
    ) -> Vec<(Written, Action<D>)> {
        let (mut in_flight, mut written) = (FuturesUnordered::new(), Vec::new());
        loop {
            let free = under_way.writes().saturating_sub(in_flight.len());
            for action in actions.by_ref().take(free) {
                in_flight.push(async move { (self.write(namespace, &action).await, action) });
            }
            match in_flight.next().await {
                Some(done) => written.push(done),
                None => return written,
            }
        }
    }

    /// Where the API server refuses a replacement or fails to process it, the old copy must not keep giving what the source has
    /// withdrawn.
    async fn withdraw_refused<D: Dialect>(&self, namespace: &Name, written: &[(Written, Action<D>)]) {
        let failed = written.iter().filter(|(written, _)| written.has_failed);
        let refused: Vec<Action<D>> = failed.map(|(_, action)| action.clone()).collect();
        if refused.is_empty() {
            return;
        }
        for action in self.forest.read(|forest| D::after_refusals(forest, namespace, &refused)) {
            tracing::warn!(%namespace, key = ?action.key(), "deleting a copy that the API server does not allow to replace");
            self.write(namespace, &action).await;
        }
    }

    fn applier<'a>(&'a self, namespace: &'a Name) -> Applier<'a> {
        Applier { client: &self.client, namespace, forest: &self.forest, store: &self.store }
    }
}

/// The first patch of a namespace changes its version, so the second patch of the same plan must carry the new one.
fn with_version<D: Dialect>(mut action: Action<D>, current: Option<&Version>) -> Action<D> {
    if let (Action::PatchNamespace { version, .. }, Some(current)) = (&mut action, current) {
        *version = current.clone();
    }
    action
}

#[cfg(test)]
mod tests;
