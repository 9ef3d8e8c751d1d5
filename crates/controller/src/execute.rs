//! Carrying out a plan: the steps in their order, the writes of a step at once, and what is to be said of failures.
//!
//! A removal that fails holds back what would give access in that namespace, and nothing anywhere else. Never plans.

mod guarded;
mod initial_pass;
mod overwrite;
mod read;

use std::sync::Arc;
use std::time::Duration;

use forest::plan::{Action, Plan, Step};
use forest::{Fact, Forest, KindId, Name, ObjectKey, Scope, Version};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use hns_cluster::configured_kinds::Configuration;
use hns_cluster::handle::{ForestHandle, ForestWriter};
use kube::Client;
use tokio::sync::Semaphore;
use tokio::sync::watch::Receiver;
use tokio::time::Instant;

use self::guarded::includes;
pub(crate) use self::initial_pass::{InitialPass, has_every_list, is_listed};
use self::overwrite::lost_by;
pub(crate) use self::read::Reader;
use crate::apply::{Applier, Outcome, WriteResult, action_label};
use crate::events::{EventRecorder, Failure, FailureKind};
use crate::guard::Guard;
use crate::metrics::{ActivePass, Metrics, Pass, Reconcilers, WriteMetrics};
use crate::permission::Permission;
use crate::status_debouncer::{CREATION, StatusDebouncer};

/// How many writes may be in flight at a time. The API server governs itself beyond that.
pub(crate) const WRITES_IN_FLIGHT: usize = 64;

/// The longest time that the API server's wish to be left alone is followed.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// How a plan went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Progress {
    /// Every write was made.
    Complete,
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
    /// How far one write has got. What is held by others comes again when it is gone.
    fn after(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Done | Outcome::NotFound | Outcome::Blocked(_) | Outcome::Deferred => Self::Complete,
            Outcome::Conflict => Self::Conflict,
            Outcome::Transient(..) | Outcome::Unreachable(_) => Self::Transient,
            Outcome::Refused(_) => Self::Refused,
        }
    }

    /// How long to wait before trying again: after the first failure, and at most.
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

/// What came of a plan.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Executed {
    pub(crate) progress: Progress,
    /// For how long the report was put off, which is no failure.
    pub(crate) report_waits: Option<Duration>,
}

/// What writes are made with.
#[derive(Clone)]
pub(crate) struct Executor {
    pub(crate) client: Client,
    pub(crate) forest: ForestHandle,
    /// Asked before each write.
    pub(crate) may_write: Permission,
    writer: ForestWriter,
    configuration: Receiver<Configuration>,
    writes: WriteMetrics,
    reconcilers: Reconcilers,
    recorder: EventRecorder,
    guard: Guard,
    /// How many requests may be in flight.
    places: Arc<Semaphore>,
    /// What is put off.
    early: StatusDebouncer,
    /// Whether everything was planned once.
    pub(crate) looked: InitialPass,
    reader: Reader,
}

impl Executor {
    /// Needs a runtime: events are written by a task of their own.
    pub(crate) fn new(
        client: Client,
        (writer, forest): (ForestWriter, ForestHandle),
        configuration: Receiver<Configuration>,
        metrics: Metrics,
        (guard, may_write): (Guard, Permission),
    ) -> Self {
        let Metrics { writes, reconcilers, events } = metrics;
        let recorder = EventRecorder::start(client.clone(), forest.clone(), events, may_write.clone());
        let places = Arc::new(Semaphore::new(WRITES_IN_FLIGHT));
        let (early, looked, reader) = (StatusDebouncer::default(), InitialPass::begin(), Reader::default());
        Self {
            client,
            forest,
            may_write,
            writer,
            configuration,
            writes,
            reconcilers,
            recorder,
            guard,
            places,
            early,
            looked,
            reader,
        }
    }

    /// Makes the writes of `plan`, which was made for this scope. What they change is in the forest when this returns.
    pub(crate) async fn execute(&self, namespace: &Name, scope: &Scope, plan: Plan) -> Executed {
        let _under_way = self.begin(namespace, scope, &plan);
        self.recorder.planned(namespace, &plan);
        self.record(namespace, &plan);
        let report_waits = plan.report.as_ref().and_then(|report| self.wait(namespace, report));
        let report = plan.report.filter(|_| report_waits.is_none());
        let (reported, made, read) = tokio::join!(
            self.report(namespace, report),
            self.steps(namespace, plan.steps),
            self.read(namespace, &plan.unread)
        );
        Executed { progress: reported.max(made).max(read), report_waits }
    }

    fn begin(&self, namespace: &Name, scope: &Scope, plan: &Plan) -> ActivePass {
        self.writes.planned(plan.actions().count());
        self.reconcilers.begin(self.forest.read(|forest| Pass::of(forest, namespace, scope, plan)))
    }

    /// What is known without any write.
    fn record(&self, namespace: &Name, plan: &Plan) {
        let settled = plan.settled.iter().map(|key| Fact::WriteSettled(namespace.clone(), key.clone()));
        let conflicts = plan.conflicts.iter();
        let conflicts =
            conflicts.map(|(key, why)| Fact::Conflict(namespace.clone(), key.clone(), why.clone()));
        self.writer.tell(settled.chain(conflicts));
    }

    /// How long a report has to wait yet.
    fn wait(&self, namespace: &Name, report: &Action) -> Option<Duration> {
        self.forest.read(|forest| {
            let shown = forest.conditions_shown(namespace);
            if self.looked.is_too_early(shown, report) {
                return Some(CREATION);
            }
            let seen = forest.namespace_version(namespace)?;
            self.early.wait(&seen.uid, shown, report)
        })
    }

    async fn report(&self, namespace: &Name, report: Option<Action>) -> Progress {
        match report {
            Some(action) => self.write(namespace, &action).await.progress,
            None => Progress::Complete,
        }
    }

    async fn steps(&self, namespace: &Name, steps: Vec<Step>) -> Progress {
        let mut worst = Progress::Complete;
        let mut guarded = true;
        let (mut marked, mut is_new) = (None, false);
        for Step { guards, gives, actions } in steps {
            if gives && !guarded {
                tracing::warn!(%namespace, "a guarding write failed, so nothing that gives access is written here");
                continue;
            }
            if is_new {
                self.included(namespace, &actions).await;
            }
            is_new |= actions.iter().any(includes);
            let actions = actions.into_iter().map(|action| after_mark(action, marked.as_ref()));
            // Of many that wait for their answers only the one whose answer has come is looked at.
            let writes: FuturesUnordered<_> =
                actions.map(|action| self.write_to(namespace, action)).collect();
            let written: Vec<Written> = writes.collect().await;
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
        let lost = self.forest.read(|forest| lost_by(forest, namespace, action));
        if let Some(key) = lost
            && let Some(outcome) = self.held_back(namespace, action, key).await
        {
            return self.conclude(namespace, action, outcome.into());
        }
        if let Some(outcome) = self.unguarded(namespace, action).await {
            return self.conclude(namespace, action, outcome.into());
        }
        // That may have taken its time.
        if !(self.may_write)() {
            return Progress::Stopped.into();
        }
        self.forest.read(|forest| self.reconcilers.write(forest, namespace, action));
        let begun = Instant::now();
        let answer = self.apply(namespace, action).await;
        self.writes.wrote(action_label(action), &answer.outcome, begun.elapsed());
        if let Outcome::Transient(_, Some(wait)) = &answer.outcome {
            // Keeping the place meanwhile is the point: the API server has asked for less at a time.
            tokio::time::sleep((*wait).min(LONGEST_WAIT)).await;
        }
        if let Some(key) = lost
            && matches!(answer.outcome, Outcome::Done)
        {
            self.recorder.overwritten(namespace, key, action.source());
        }
        self.conclude(namespace, action, answer)
    }

    async fn apply(&self, namespace: &Name, action: &Action) -> WriteResult {
        let kind = |id: KindId| self.forest.read(|forest| forest.kind(id).clone());
        let settings = self.forest.read(Forest::shared_settings);
        let applier = Applier { client: &self.client, namespace, kind: &kind, settings: &settings };
        applier.apply(action).await
    }

    fn conclude(&self, namespace: &Name, action: &Action, answer: WriteResult) -> Written {
        let WriteResult { outcome, facts } = answer;
        log(namespace, action, &outcome);
        let persists = action.key().is_some_and(|key| self.announce(namespace, action, key, &outcome));
        let left = facts.iter().find_map(|fact| namespace_version(fact, namespace));
        let progress = Progress::after(&outcome);
        self.writer.tell(facts.into_iter().chain(fate(namespace, action, outcome, persists)));
        Written { progress, namespace: left }
    }

    /// Gives whether this write has now failed so often in a row that it counts as persistent.
    fn announce(&self, namespace: &Name, action: &Action, key: &ObjectKey, outcome: &Outcome) -> bool {
        let (why, failure_kind) = match outcome {
            Outcome::Done | Outcome::NotFound => {
                self.recorder.succeeded(namespace, key);
                return false;
            }
            Outcome::Conflict | Outcome::Deferred => return false,
            Outcome::Transient(why, _) | Outcome::Unreachable(why) => (why, FailureKind::Transient),
            Outcome::Blocked(why) | Outcome::Refused(why) => (why, FailureKind::Permanent),
        };
        let removal = matches!(action, Action::Delete { .. });
        self.recorder.failed(&Failure { namespace, key, source: action.source(), removal, why, failure_kind })
    }
}

/// What a plan has to know of a write that was tried; `persists` is whether it has failed so often that people have to know.
fn fate(namespace: &Name, action: &Action, outcome: Outcome, persists: bool) -> Option<Fact> {
    let key = action.key()?.clone();
    match outcome {
        Outcome::Done => Some(Fact::WriteSettled(namespace.clone(), key)),
        Outcome::Refused(why) => Some(Fact::WriteFailed(namespace.clone(), key, why.into())),
        // An API server that cannot be reached is no matter of this object.
        Outcome::Transient(why, _) if persists => Some(Fact::WriteFailed(namespace.clone(), key, why.into())),
        Outcome::NotFound
        | Outcome::Conflict
        | Outcome::Blocked(_)
        | Outcome::Deferred
        | Outcome::Transient(..)
        | Outcome::Unreachable(_) => None,
    }
}

fn log(namespace: &Name, action: &Action, outcome: &Outcome) {
    let name = action.key().map(|key| &*key.name);
    let what = action_label(action);
    match outcome {
        Outcome::Done => tracing::debug!(%namespace, name, what, "written"),
        Outcome::NotFound => {}
        Outcome::Conflict => {
            tracing::debug!(%namespace, name, what, "changed meanwhile; planning again");
        }
        Outcome::Deferred => {
            tracing::debug!(%namespace, name, what, "waits until copies of the kind are guarded");
        }
        Outcome::Blocked(why) => {
            tracing::warn!(%namespace, name, what, why, "waits until the old one is gone")
        }
        Outcome::Transient(why, _) | Outcome::Unreachable(why) => {
            tracing::warn!(%namespace, name, what, why, "could not be written; trying again");
        }
        Outcome::Refused(why) => tracing::warn!(%namespace, name, what, why, "was refused"),
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

#[cfg(test)]
mod tests;
