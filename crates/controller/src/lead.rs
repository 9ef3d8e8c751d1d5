//! The work of the controller under the settings in force: it reads the cluster into a forest and, while it leads, executes the
//! plans. When the settings change, it stops and starts again with an empty forest. It keeps the lease.

use std::sync::Arc;
use std::time::Duration;

use forest::plan::plan;
use forest::{Scope, accurate};
use hns_cluster::configured_kinds::{self, Configuration};
use hns_cluster::feed::{self, Detail};
use hns_cluster::handle::{ForestHandle, ForestWriter};
use hns_cluster::metrics::{ForestMetrics, StreamMetrics};
use hns_cluster::settings::{Follower, InForce};
use hns_cluster::stored::Store;
use hns_runtime::lease::Leadership;
use hns_runtime::process::{Part, Process};
use hns_runtime::shutdown::Shutdown;
use kube::Client;
use tokio::sync::watch::{Receiver, Sender};
use tokio::task::JoinSet;

use crate::accurate_rights;
use crate::args::Args;
use crate::certificates::{Bundle, Registered};
use crate::configuration as status;
use crate::execute::{Executed, Executor, WRITES_IN_FLIGHT, is_listed};
use crate::generated;
use crate::guard::Guard;
use crate::metrics::Metrics;
use crate::namings;
use crate::permission::permission;
use crate::queue::Queue;
use crate::quotas;
use crate::registrations::reconciler::{self, Inputs, reconcile};
use crate::structure_sync;
use crate::{conversion, definitions};

/// The number of namespaces that are processed at a time. A namespace often has one write. More than the concurrent writes, so that
/// a team that changes many namespaces at once does not delay the others.
const WORKERS: usize = 4 * WRITES_IN_FLIGHT;

/// The time limit of the shutdown, below the pod's termination grace period.
const LAST_WRITES: Duration = Duration::from_secs(5);

/// What the reconcilers of the certificate and of the registrations tell each other.
pub(crate) struct Trust {
    /// The certificates that registrations should trust.
    pub(crate) bundle: Receiver<Bundle>,
    /// The certificates that they contain.
    pub(crate) registered: Sender<Registered>,
}

/// What does not depend on the settings.
pub(crate) struct Controller {
    pub(crate) args: Args,
    pub(crate) process: Process,
    pub(crate) client: Client,
    pub(crate) streams: StreamMetrics,
    pub(crate) leadership: Leadership,
    pub(crate) trust: Trust,
}

/// A forest for some settings, and everything that depends on it. `feeds` updates it.
struct FedForest {
    queue: Queue,
    writer: ForestWriter,
    forest: ForestHandle,
    configuration: Receiver<Configuration>,
    metrics: Metrics,
    part: Part,
    feeds: JoinSet<()>,
}

impl Controller {
    /// Works under the present settings, and under the next ones after each change, until the shutdown.
    ///
    /// # Errors
    /// The lease is lost.
    pub(crate) async fn follow(&self, mut settings: Follower) -> anyhow::Result<()> {
        while !self.process.shutdown.has_begun() {
            let in_force = tokio::select! {
                Some(in_force) = settings.next() => in_force,
                () = self.leadership.lost() => anyhow::bail!(LOST),
                () = self.process.shutdown.begun() => break,
            };
            self.work_under(&in_force, &mut settings).await?;
        }
        Ok(())
    }

    /// Works until the settings change or the shutdown begins.
    async fn work_under(&self, in_force: &InForce, settings: &mut Follower) -> anyhow::Result<()> {
        let fed = self.read(in_force)?;
        self.process.current.store(Arc::new(fed.part.clone()));
        let shutdown = &self.process.shutdown;
        tokio::select! {
            () = self.leadership.acquired() => {}
            Ok(()) = settings.in_force.changed() => return Ok(()),
            () = shutdown.begun() => return Ok(()),
        }
        tracing::info!("leading: everything is planned from now on");
        fed.queue.open();
        let end = shutdown.child();
        let (workers, _feeds) = self.start_workers(fed, in_force, settings, &end);
        tokio::select! {
            () = self.leadership.lost() => anyhow::bail!(LOST),
            Ok(()) = settings.in_force.changed() => tracing::info!("settings have changed; everything is read and planned anew"),
            () = shutdown.begun() => {}
        }
        end.begin();
        finish(workers).await;
        Ok(())
    }

    fn read(&self, in_force: &InForce) -> anyhow::Result<FedForest> {
        let (queue, part, mut feeds) = (Queue::default(), Part::default(), JoinSet::new());
        let listener = {
            let queue = queue.clone();
            Box::new(move |change| queue.mark(change))
        };
        let forest = in_force.forest().with_verified_lists();
        let (writer, forest) = ForestWriter::new(forest, listener);
        ForestMetrics::register(&part.registry, forest.clone())?;
        let is_leading = {
            let queue = queue.clone();
            move || queue.is_open()
        };
        let streams = feed::start(&self.client, (&writer, &forest), &self.streams, is_leading);
        feeds.spawn(async move { drop(streams.join_all().await) });
        feeds.spawn(feed::show(part.readiness.clone(), forest.clone()));
        let (both, readiness) = ((&writer, &forest), &part.readiness);
        let configuration = configured_kinds::start(
            &self.client,
            both,
            Detail::Content,
            &self.streams,
            readiness,
            &mut feeds,
        );
        feeds.spawn(definitions::follow(self.client.clone(), forest.clone(), writer.clone()));
        feeds.spawn(structure_sync::follow(self.client.clone(), forest.clone(), writer.clone()));
        if in_force.accurate.is_some() {
            let readiness = part.readiness.clone();
            feeds.spawn(accurate_rights::report(self.client.clone(), forest.clone(), readiness));
        }
        let metrics = Metrics::register(&part.registry, &queue, &forest, self.args.suppress_object_tags)?;
        Ok(FedForest { queue, writer, forest, configuration, metrics, part, feeds })
    }

    /// Starts the workers, and the reconcilers of the registrations and of the configuration's status.
    fn start_workers(
        &self,
        fed: FedForest,
        in_force: &InForce,
        settings: &Follower,
        end: &Shutdown,
    ) -> (JoinSet<()>, JoinSet<()>) {
        let FedForest { queue, writer, forest, configuration, metrics, part: _, feeds } = fed;
        let may_write = permission(&self.leadership, end);
        let guard =
            if self.args.manage_registrations { Guard::enabled(queue.clone()) } else { Guard::disabled() };
        let both = (guard.clone(), may_write.clone());
        let executor = Executor::new(
            self.client.clone(),
            (writer, forest.clone()),
            configuration.clone(),
            metrics,
            both,
            Store::new(self.client.clone(), &self.args.common.namespace),
        );
        let mut workers = JoinSet::new();
        for _ in 0..WORKERS {
            workers.spawn(work(executor.clone(), queue.clone(), end.clone()));
        }
        let internal = self.args.common.certificates.enable_internal_cert_management;
        if self.args.manage_registrations || internal {
            let inputs = Inputs {
                settings: self.args.registrations(in_force),
                only_bundle: !self.args.manage_registrations,
                followed: reconciler::follow(forest.clone()),
                bundle: self.trust.bundle.clone(),
                registered: self.trust.registered.clone(),
                guard,
            };
            let (client, may_write, end) = (self.client.clone(), may_write.clone(), end.clone());
            workers.spawn(async move { reconcile(client, inputs, || may_write(), end).await });
        }
        if in_force.accurate.is_some() {
            let (client, may_write, end) = (self.client.clone(), may_write.clone(), end.clone());
            let (namespace, bundle) = (self.args.common.namespace.clone(), self.trust.bundle.clone());
            workers.spawn(async move {
                conversion::keep(client, namespace, bundle, || may_write(), end).await;
            });
        }
        let asks_owners = in_force.shared.accurate.gates().is_ok_and(|gates| gates.propagate_generated);
        if in_force.accurate.is_some() && asks_owners {
            let (client, may_write) = (self.client.clone(), may_write.clone());
            let (forest, configuration) = (forest.clone(), configuration.clone());
            workers.spawn(generated::keep(client, forest, configuration, may_write, end.clone()));
        }
        {
            let (client, forest, end) = (self.client.clone(), forest.clone(), end.clone());
            let store = Store::new(client.clone(), &self.args.common.namespace);
            let may_write = may_write.clone();
            workers.spawn(async move { quotas::keep(client, forest, store, || may_write(), end).await });
        }
        {
            let (client, may_write, end) = (self.client.clone(), may_write.clone(), end.clone());
            let store = Store::new(client.clone(), &self.args.common.namespace);
            workers.spawn(async move { namings::keep(client, store, || may_write(), end).await });
        }
        let followed = status::Followed { forest, configuration, settings: settings.seen.clone() };
        let (client, namespace, end) = (self.client.clone(), self.args.common.namespace.clone(), end.clone());
        workers.spawn(async move { status::keep(client, followed, &namespace, || may_write(), end).await });
        (workers, feeds)
    }
}

const LOST: &str = "the lease is lost: it was not renewed in time, or another replica has it";

/// Processes one namespace after the other: it plans, writes, and reports the result.
async fn work(executor: Executor, queue: Queue, shutdown: Shutdown) {
    loop {
        let (namespace, mut scope) = tokio::select! {
            next = queue.next(&executor.forest) => next,
            () = shutdown.begun() => return,
        };
        definitions::known(&executor.forest).await;
        let (was_listed, planned) =
            executor.forest.read(|forest| (is_listed(forest), plan(forest, &namespace, &scope)));
        // If it fails, the retry must cover everything that the plan read.
        scope.merge(planned.scope.clone());
        let Executed { progress, report_waits, quotas_wait } =
            executor.execute(&namespace, &scope, planned).await;
        if let Some(delay) = report_waits {
            queue.mark_later(namespace.clone(), Scope::structure(), delay);
        }
        if let Some(delay) = quotas_wait {
            queue.mark_later(namespace.clone(), Scope::quotas(), delay);
        }
        let in_accurate = executor.forest.read(|forest| accurate::plan::plan(forest, &namespace, &scope));
        let progress = if in_accurate.is_empty() {
            progress
        } else {
            progress.max(executor.execute_accurate(&namespace, in_accurate).await)
        };
        match progress.delays() {
            None => queue.done(&namespace, &scope),
            Some(delays) => queue.failed(namespace, scope, delays),
        }
        executor.initial_pass.record(was_listed, queue.is_idle());
    }
}

/// Waits for writes in progress; new ones do not begin.
pub(crate) async fn finish(mut workers: JoinSet<()>) {
    let ended =
        tokio::time::timeout(LAST_WRITES, async { while workers.join_next().await.is_some() {} }).await;
    if ended.is_err() {
        tracing::warn!("writes were still under way at the end");
    }
}
