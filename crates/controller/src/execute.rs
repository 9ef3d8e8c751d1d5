//! Carrying out a plan: the steps in their order, the writes of a step at once, and what is to be said of failures.
//!
//! A removal that fails holds back what would give access in that namespace, and nothing anywhere else. Never plans.

use std::sync::Arc;
use std::time::Duration;

use forest::plan::{Action, Plan, Step};
use forest::{Fact, Forest, KindId, Name, Version};
use futures::future::join_all;
use hns_runtime::handle::{ForestHandle, ForestWriter};
use kube::Client;
use tokio::sync::Semaphore;

use crate::apply::{Applier, Outcome, action_label};
use crate::early::{Early, PATIENCE};
use crate::metrics::WriteMetrics;

/// The longest time that the API server's wish to be left alone is followed.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// How a plan went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Progress {
    /// Every write was made.
    Complete,
    /// One is put off for a moment.
    Early,
    /// Something was not in the state planned for: plan again at once.
    Conflict,
    /// The API server could not.
    Transient,
    /// The API server would not.
    Refused,
    /// Writing is not allowed any more.
    Stopped,
}

impl Progress {
    /// How long to wait before trying again: after the first failure, and at most.
    pub(crate) fn delays(self) -> Option<(Duration, Duration)> {
        let (first, longest) = match self {
            Self::Complete | Self::Stopped => return None,
            Self::Early => return Some((PATIENCE, PATIENCE)),
            Self::Conflict => (50, 2_000),
            Self::Transient => (250, 10_000),
            Self::Refused => (1_000, 300_000),
        };
        Some((Duration::from_millis(first), Duration::from_millis(longest)))
    }
}

/// What writes are made with.
#[derive(Clone)]
pub(crate) struct Executor {
    pub(crate) client: Client,
    pub(crate) forest: ForestHandle,
    pub(crate) writer: ForestWriter,
    pub(crate) metrics: WriteMetrics,
    /// How many writes may be in flight.
    pub(crate) places: Arc<Semaphore>,
    /// What is put off.
    pub(crate) early: Early,
    /// Whether writing is still allowed. Asked before each write.
    pub(crate) may_write: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl Executor {
    /// Makes the writes of `plan`. What they change is in the forest when this returns.
    pub(crate) async fn execute(&self, namespace: &Name, plan: Plan) -> Progress {
        let settled = plan.settled.into_iter().map(|key| Fact::WriteSettled(namespace.clone(), key));
        self.writer.tell(settled);
        let report = async {
            match plan.report {
                Some(action) if self.is_too_early(namespace, &action) => Progress::Early,
                Some(action) => self.write(namespace, &action).await.progress,
                None => Progress::Complete,
            }
        };
        let (reported, made) = tokio::join!(report, self.steps(namespace, plan.steps));
        reported.max(made)
    }

    fn is_too_early(&self, namespace: &Name, report: &Action) -> bool {
        let seen = self.forest.read(|forest| forest.namespace_version(namespace));
        seen.is_some_and(|seen| self.early.is_too_early(&seen.uid, report))
    }

    async fn steps(&self, namespace: &Name, steps: Vec<Step>) -> Progress {
        let mut worst = Progress::Complete;
        let mut guarded = true;
        let mut marked = None;
        for Step { guards, gives, actions } in steps {
            if gives && !guarded {
                tracing::warn!(%namespace, "a guarding write failed, so nothing that gives access is written here");
                continue;
            }
            let actions = actions.into_iter().map(|action| after_mark(action, marked.as_ref()));
            let written = join_all(actions.map(|action| self.write_to(namespace, action))).await;
            let progress = written.iter().map(|it| it.progress).max().unwrap_or(Progress::Complete);
            guarded &= !guards || progress == Progress::Complete;
            marked = written.into_iter().find_map(|it| it.namespace).or(marked);
            worst = worst.max(progress);
        }
        worst
    }

    async fn write_to(&self, namespace: &Name, action: Action) -> Written {
        self.write(namespace, &action).await
    }

    async fn write(&self, namespace: &Name, action: &Action) -> Written {
        let Ok(_place) = self.places.acquire().await else { return Progress::Stopped.into() };
        if !(self.may_write)() {
            return Progress::Stopped.into();
        }
        let kind = |id: KindId| self.forest.read(|forest| forest.kind(id).clone());
        let settings = self.forest.read(Forest::shared_settings);
        let applier = Applier { client: &self.client, namespace, kind: &kind, settings: &settings };
        let outcome = applier.apply(action).await;
        self.metrics.wrote(action_label(action), &outcome);
        if let Outcome::Transient(_, Some(wait)) = &outcome {
            // Keeping the place meanwhile is the point: the API server has asked for less at a time.
            tokio::time::sleep((*wait).min(LONGEST_WAIT)).await;
        }
        self.conclude(namespace, action, outcome)
    }

    fn conclude(&self, namespace: &Name, action: &Action, outcome: Outcome) -> Written {
        let name = action.key().map(|key| &*key.name);
        let what = action_label(action);
        match outcome {
            Outcome::Done(facts) => {
                tracing::debug!(%namespace, name, what, "written");
                let version = facts.iter().find_map(|fact| namespace_version(fact, namespace));
                let settled = action.key().map(|key| Fact::WriteSettled(namespace.clone(), key.clone()));
                self.writer.tell(facts.into_iter().chain(settled));
                return Written { progress: Progress::Complete, namespace: version };
            }
            Outcome::Vacant => Progress::Complete,
            Outcome::Conflict => {
                tracing::debug!(%namespace, name, what, "changed meanwhile; planning again");
                Progress::Conflict
            }
            Outcome::Transient(why, _) => {
                tracing::warn!(%namespace, name, what, why, "could not be written; trying again");
                Progress::Transient
            }
            Outcome::Refused(why) => {
                tracing::warn!(%namespace, name, what, why, "was refused");
                let failed =
                    action.key().map(|key| Fact::WriteFailed(namespace.clone(), key.clone(), why.into()));
                self.writer.tell(failed);
                Progress::Refused
            }
        }
        .into()
    }
}

/// How a write went, and in which state it left the namespace if it changed that.
struct Written {
    progress: Progress,
    namespace: Option<Version>,
}

impl From<Progress> for Written {
    fn from(progress: Progress) -> Self {
        Self { progress, namespace: None }
    }
}

/// A plan that marks a namespace twice was made before the first mark changed its version: the second is of the state that
/// the first one left.
fn after_mark(mut action: Action, left: Option<&Version>) -> Action {
    if let (Action::Mark { version, .. }, Some(left)) = (&mut action, left) {
        *version = left.clone();
    }
    action
}

fn namespace_version(fact: &Fact, namespace: &Name) -> Option<Version> {
    match fact {
        Fact::Namespace(seen) if seen.name == *namespace => Some(seen.version.clone()),
        _ => None,
    }
}
