//! How `hns-controller` starts, works and ends.

use std::sync::Arc;
use std::time::Duration;

use forest::plan::plan;
use forest::{Forest, Scope};
use hns_cluster::configured_kinds::{self, Configuration};
use hns_cluster::feed::{self, Detail};
use hns_cluster::handle::{ForestHandle, ForestWriter};
use hns_cluster::metrics::{ForestMetrics, StreamMetrics};
use hns_runtime::client;
use hns_runtime::lease::{self, Leadership};
use hns_runtime::settings::{self, Claim, Component, Seen};
use hns_runtime::shutdown::Shutdown;
use hns_runtime::start::Process;
use kube::Client;
use tokio::sync::watch::{self, Receiver};
use tokio::task::JoinSet;

use crate::args::Args;
use crate::certificates::{CertificateMetrics, CertificateSettings, Registered};
use crate::configuration as status;
use crate::definitions;
use crate::execute::{Executed, Executor, WRITES_IN_FLIGHT, is_listed};
use crate::finalizer_cleanup;
use crate::guard::Guard;
use crate::keep::{Charge, follow, keep};
use crate::metrics::{LeaderMetrics, Metrics};
use crate::permission::permission;
use crate::queue::Queue;
use crate::structure_sync;

/// How many namespaces are worked on at a time: as many as writes may be in flight, for often there is one write in each.
const WORKERS: usize = WRITES_IN_FLIGHT;

/// How long the end may take. Below the pod's termination grace period.
const LAST_WRITES: Duration = Duration::from_secs(5);

/// Runs until the process is told to end, or loses the lease.
///
/// # Errors
/// When the lease is lost: what was planned may be another replica's business by now. And when something that cannot be
/// waited for is wrong: a flag's value, an address, a kubeconfig.
pub async fn run(args: Args, process: Process) -> anyhow::Result<()> {
    if args.release_finalizers {
        let client = client::connect(&args.common, process.program).await?;
        return tokio::select! {
            removed = finalizer_cleanup::run(&client, &args.common.namespace) => removed,
            () = process.shutdown.begun() => anyhow::bail!("interrupted before all finalizers were removed"),
        };
    }
    // Not only once it leads: what the flags say is wrong from the start.
    let certificates = CertificateSettings::new(&args.common, &args.issuer)?;
    let client = client::connect(&args.common, process.program).await?;
    let queue = Queue::default();
    let (writer, forest, seen) = watch(&args, &process, &client, &queue)?;
    let metrics = Metrics::register(&process.registry, &queue, &forest, args.suppress_object_tags)?;
    process.serve_admin(&args.common).await?;

    let leadership = seek(&args, &process).await?;
    LeaderMetrics::register(&process.registry, leadership.clone())?;
    tokio::select! {
        () = leadership.acquired() => {}
        () = process.shutdown.begun() => return leave(&leadership).await,
    }
    tracing::info!("leading: everything is planned from now on");
    queue.open();
    let may_write = permission(&leadership, &process.shutdown);
    let guard = if args.manage_registrations { Guard::enabled(queue.clone()) } else { Guard::disabled() };
    let (configuration, both) = (seen.configuration.clone(), (guard.clone(), may_write));
    let executor = Executor::new(client, (writer, forest), configuration, metrics, both);
    let mut workers = start_workers(&executor, &queue, &process.shutdown);
    start_keepers(&mut workers, (&args, certificates, guard), &process, &executor, seen)?;
    tokio::select! {
        () = leadership.lost() => anyhow::bail!("the lease is lost; another replica leads"),
        () = process.shutdown.begun() => {}
    }
    finish(workers).await;
    leave(&leadership).await
}

/// What is followed beside the forest.
struct Followed {
    configuration: Receiver<Configuration>,
    settings: Receiver<Seen>,
}

fn watch(
    args: &Args,
    process: &Process,
    client: &Client,
    queue: &Queue,
) -> anyhow::Result<(ForestWriter, ForestHandle, Followed)> {
    let listener = {
        let queue = queue.clone();
        Box::new(move |change| queue.mark(change))
    };
    let forest = Forest::unconfigured(Arc::new(args.common.settings()?)).matching();
    let (writer, forest) = ForestWriter::new(forest, listener);
    ForestMetrics::register(&process.registry, forest.clone())?;
    let metrics = StreamMetrics::register(&process.registry)?;
    let is_leading = {
        let queue = queue.clone();
        move || queue.is_open()
    };
    feed::start(client, &writer, &metrics, is_leading).detach_all();
    tokio::spawn(feed::show(process.readiness.clone(), forest.clone()));
    let both = (&writer, &forest);
    let configuration = configured_kinds::start(client, both, Detail::Content, &metrics, &process.readiness);
    tokio::spawn(definitions::follow(client.clone(), forest.clone(), writer.clone()));
    tokio::spawn(structure_sync::follow(client.clone(), forest.clone(), writer.clone()));
    let namespace = &args.common.namespace;
    let settings = settings::follow(client, namespace, &process.settings, &metrics, &process.registry)?;
    Ok((writer, forest, Followed { configuration, settings }))
}

async fn seek(args: &Args, process: &Process) -> anyhow::Result<Leadership> {
    let client = client::connect_unthrottled(&args.common, process.program).await?;
    let identity = lease::identity()?;
    tracing::info!(identity, lease = args.election.leader_election_id, "seeking the lease");
    let (namespace, lease) = (&args.common.namespace, &args.election.leader_election_id);
    Ok(Leadership::seek(client, namespace, lease, identity, args.election.timing()?))
}

fn start_workers(executor: &Executor, queue: &Queue, shutdown: &Shutdown) -> JoinSet<()> {
    let mut workers = JoinSet::new();
    for _ in 0..WORKERS {
        workers.spawn(work(executor.clone(), queue.clone(), shutdown.clone()));
    }
    workers
}

/// Starts what keeps certificates, registrations, the status of the configuration and what is said of the settings. They are
/// workers too: the lease must not be given back while one of them writes.
fn start_keepers(
    workers: &mut JoinSet<()>,
    (args, certificates, guard): (&Args, CertificateSettings, Guard),
    process: &Process,
    executor: &Executor,
    Followed { configuration, settings }: Followed,
) -> anyhow::Result<()> {
    let (client, forest) = (executor.client.clone(), executor.forest.clone());
    let internal = args.common.certificates.enable_internal_cert_management;
    let (trusted, authority) = watch::channel(None);
    let (registered, names_authority) = watch::channel(Registered::default());
    if internal {
        let metrics = CertificateMetrics::register(&process.registry)?;
        let (client, both) = (client.clone(), (trusted, names_authority));
        let (may_write, shutdown) = (executor.may_write.clone(), process.shutdown.clone());
        workers.spawn(async move {
            crate::certificates::keep(client, certificates, both, metrics, || may_write(), shutdown).await;
        });
    }
    if args.manage_registrations || internal {
        let (settings, kinds) = (args.registrations()?, follow(forest.clone()));
        let only_authority = !args.manage_registrations;
        let charge = Charge { settings, only_authority, kinds, authority, registered, guard };
        let (client, may_write, shutdown) =
            (client.clone(), executor.may_write.clone(), process.shutdown.clone());
        workers.spawn(async move { keep(client, charge, || may_write(), shutdown).await });
    }
    let (may_write, shutdown) = (executor.may_write.clone(), process.shutdown.clone());
    let (place, own) = ((client.clone(), args.common.namespace.clone()), process.settings.clone());
    let seen = settings.clone();
    workers.spawn(async move {
        let own = (Component::Controller, own, Claim::Sole);
        settings::publish(place, own, seen, || may_write(), shutdown).await;
    });
    let (may_write, shutdown) = (executor.may_write.clone(), process.shutdown.clone());
    let followed = status::Followed { forest, configuration, settings, own: process.settings.clone() };
    let namespace = args.common.namespace.clone();
    workers.spawn(async move {
        status::keep(client, followed, &namespace, || may_write(), shutdown).await;
    });
    Ok(())
}

/// Takes one namespace after the other: plan, write, and say how it went.
async fn work(executor: Executor, queue: Queue, shutdown: Shutdown) {
    loop {
        let (namespace, mut scope) = tokio::select! {
            next = queue.next(&executor.forest) => next,
            () = shutdown.begun() => return,
        };
        definitions::known(&executor.forest).await;
        let (was_listed, planned) =
            executor.forest.read(|forest| (is_listed(forest), plan(forest, &namespace, &scope)));
        // What the plan looked at beyond that is not seen by anybody else if it fails.
        scope.merge(planned.scope.clone());
        let Executed { progress, report_waits } = executor.execute(&namespace, &scope, planned).await;
        if let Some(delay) = report_waits {
            queue.mark_later(namespace.clone(), Scope::structure(), delay);
        }
        match progress.delays() {
            None => queue.done(&namespace, &scope),
            Some(delays) => queue.failed(namespace, scope, delays),
        }
        executor.initial_pass.record(was_listed, queue.is_idle());
    }
}

/// Lets the writes under way end; no new ones begin.
async fn finish(mut workers: JoinSet<()>) {
    let ended =
        tokio::time::timeout(LAST_WRITES, async { while workers.join_next().await.is_some() {} }).await;
    if ended.is_err() {
        tracing::warn!("writes were still under way at the end");
    }
}

/// Gives the lease back, so that another replica goes on at once.
async fn leave(leadership: &Leadership) -> anyhow::Result<()> {
    leadership.release().await;
    Ok(())
}
