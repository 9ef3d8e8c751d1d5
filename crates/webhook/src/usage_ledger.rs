//! Decides on increases of usage, and records them in the ledger before they are allowed ([`forest::hnc::quota::ledger`]).
//!
//! One task decides on all requests that wait, in their order, and writes the ledger once for them. If another replica has written
//! it in the meantime, the task reads it and decides again.
//!
//! The API server checks the quotas of all namespaces with a few threads, and tries again what is not decided. While a request
//! waits here, it keeps one of them from all others. So only few wait, and for a short time: for what the watch is about to report.

use std::sync::Arc;
use std::time::Duration;

use forest::hnc::quota::ledger::{Decision, Increase, Ledger, Pending};
use forest::rules::usage::{exceeded, outdated, undecided};
use forest::rules::{Denial, DenialKind};
use hns_api::names::QUOTA_LEDGER;
use hns_cluster::error_text::error_text;
use hns_cluster::handle::ForestHandle;
use hns_cluster::quota_rights::REMEDY;
use hns_cluster::stored::{Store, Stored};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use crate::metrics::UsageMetrics;

/// How long an increase that cannot be decided yet is decided again. The watch usually reports a change within milliseconds.
const PATIENCE: Duration = Duration::from_millis(100);

/// The most increases that are decided again at a time.
const WAITING: usize = 4;

/// An increase that waits for others is decided again after this time at the latest: other replicas change the ledger too.
const PAUSE: Duration = Duration::from_millis(25);

/// If increases wait for states that the ledger requires, the ledger is read again after this time.
const FRESH: Duration = Duration::from_millis(500);

/// The most increases that are decided together.
const BATCH: usize = 256;

/// An increase, whether it is a dry run, and where to send the decision.
type Asked = (Increase, bool, oneshot::Sender<Result<Decision, String>>);

/// Asks the task.
#[derive(Clone)]
pub(crate) struct UsageLedger {
    forest: ForestHandle,
    asked: mpsc::Sender<Asked>,
    waiting: Arc<Semaphore>,
    metrics: UsageMetrics,
}

impl UsageLedger {
    /// Starts the task.
    pub(crate) fn start(
        store: Store,
        forest: &ForestHandle,
        metrics: UsageMetrics,
        tasks: &mut JoinSet<()>,
    ) -> Self {
        let (asked, inbox) = mpsc::channel(BATCH);
        let keeper = Keeper {
            store,
            forest: forest.clone(),
            stored: None,
            read: Instant::now(),
            metrics: metrics.clone(),
        };
        tasks.spawn(keeper.run(inbox));
        Self { forest: forest.clone(), asked, waiting: Arc::new(Semaphore::new(WAITING)), metrics }
    }

    /// Allows an increase, which the ledger contains then, or denies it. A dry run is not recorded.
    pub(crate) async fn decide(
        &self,
        increase: &Increase,
        dry_run: bool,
        deadline: Instant,
    ) -> Result<(), Denial> {
        let patience = deadline.min(Instant::now() + PATIENCE);
        let mut permit = None;
        let mut last = Pending::StatesUnknown;
        loop {
            match timeout_at(deadline, self.ask(increase, dry_run)).await {
                Err(_) => break,
                Ok(Err(why)) => return Err(Denial::new(DenialKind::Unavailable, why)),
                Ok(Ok(Decision::Allow)) => return Ok(()),
                Ok(Ok(Decision::Deny(excess))) => return Err(exceeded(&excess)),
                Ok(Ok(Decision::Outdated)) => return Err(outdated(&increase.namespace)),
                Ok(Ok(Decision::Wait(pending))) => last = pending,
            }
            permit = permit.or_else(|| self.waiting.try_acquire().ok());
            if !is_brief(last) || permit.is_none() || Instant::now() >= patience {
                break;
            }
            self.metrics.waited();
            let mut forest = self.forest.clone();
            // The forest may change, or the ledger.
            let _ = timeout_at(patience.min(Instant::now() + PAUSE), forest.changed()).await;
        }
        Err(undecided(&increase.namespace, last))
    }

    async fn ask(&self, increase: &Increase, dry_run: bool) -> Result<Decision, String> {
        let (answer, decision) = oneshot::channel();
        let asked = self.asked.send((increase.clone(), dry_run, answer)).await;
        let ended = || "the webhook is being stopped; try again in a moment".to_owned();
        asked.map_err(|_| ended())?;
        decision.await.map_err(|_| ended())?
    }
}

/// Whether the reason to wait is usually over within milliseconds. Users can change limits all the time.
fn is_brief(pending: Pending) -> bool {
    match pending {
        Pending::StatesUnknown | Pending::OthersPending => true,
        Pending::LimitsUnknown | Pending::Full => false,
    }
}

/// Owns the ledger of this replica: the last known state.
struct Keeper {
    store: Store,
    forest: ForestHandle,
    stored: Option<Stored<Ledger>>,
    /// When the ledger was last read.
    read: Instant,
    metrics: UsageMetrics,
}

impl Keeper {
    async fn run(mut self, mut inbox: mpsc::Receiver<Asked>) {
        let mut batch = Vec::new();
        while inbox.recv_many(&mut batch, BATCH).await > 0 {
            let decisions = self.settle(&batch).await;
            if decisions.is_err() {
                self.stored = None;
            }
            for (at, (_, _, answer)) in batch.drain(..).enumerate() {
                let decision = decisions.as_ref().map(|all| all[at].clone()).map_err(Clone::clone);
                self.metrics.decided(&decision);
                // The request may have ended.
                let _ = answer.send(decision);
            }
        }
    }

    /// Decides on all, and stores the ledger that contains those that are allowed.
    async fn settle(&mut self, batch: &[Asked]) -> Result<Vec<Decision>, String> {
        loop {
            let stored = if let Some(stored) = self.stored.take() {
                stored
            } else {
                self.read = Instant::now();
                self.store.read().await.map_err(|error| unusable(&error))?
            };
            let (decisions, ledger) = self.decide(&stored.content, batch);
            if ledger.reservations == stored.content.reservations || !decisions.contains(&Decision::Allow) {
                // The ledger may be of another cluster, and corrected meanwhile.
                let waits = decisions.contains(&Decision::Wait(Pending::StatesUnknown));
                self.stored = Some(stored).filter(|_| !waits || self.read.elapsed() < FRESH);
                return Ok(decisions);
            }
            self.stored = self.store.replace(&stored, &ledger).await.map_err(|error| unusable(&error))?;
            if self.stored.is_some() {
                return Ok(decisions);
            }
            self.metrics.conflict();
        }
    }

    fn decide(&self, ledger: &Ledger, batch: &[Asked]) -> (Vec<Decision>, Ledger) {
        let mut ledger = ledger.clone();
        let decide = |(increase, dry_run, _): &Asked| {
            // Others can read and write the forest between two decisions.
            self.forest.read(|forest| {
                if *dry_run {
                    ledger.clone().decide(forest, increase)
                } else {
                    ledger.decide(forest, increase)
                }
            })
        };
        (batch.iter().map(decide).collect(), ledger)
    }
}

/// Without a right, trying again does not help.
fn unusable(error: &kube::Error) -> String {
    let what_to_do = match error {
        kube::Error::Api(status) if status.code == 403 => REMEDY,
        _ => "try again in a moment",
    };
    format!(
        "the hierarchical quotas cannot be checked, because the ConfigMap {QUOTA_LEDGER} cannot be used: {}; {what_to_do}",
        error_text(error)
    )
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn a_missing_right_is_named_with_its_remedy() {
        let answer = |code, message: &str| {
            unusable(&kube::Error::Api(Box::new(Status::failure(message, "").with_code(code))))
        };
        let start = "the hierarchical quotas cannot be checked, because the ConfigMap hnc-quota-ledger cannot be used: ";
        let denied = answer(403, "configmaps \"hnc-quota-ledger\" is forbidden");
        assert_eq!(denied, format!("{start}configmaps \"hnc-quota-ledger\" is forbidden; {REMEDY}"));
        assert_eq!(answer(500, "etcd is down"), format!("{start}etcd is down; try again in a moment"));
    }
}
