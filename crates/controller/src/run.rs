//! Starts and ends `hns-controller`.

use hns_api::names::CONFIG_CONFIG_MAP;
use hns_cluster::metrics::StreamMetrics;
use hns_cluster::settings::{Follower, watch_config_map};
use hns_runtime::client;
use hns_runtime::lease::{self, Leadership};
use hns_runtime::process::Process;
use kube::Client;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::args::Args;
use crate::certificates::{CertificateMetrics, CertificateSettings, Registered};
use crate::finalizer_cleanup;
use crate::lead::{Controller, Trust, finish};
use crate::metrics::LeaderMetrics;
use crate::permission::permission;
use crate::settings::{Source, publish};

/// Runs until the shutdown, or until the lease is lost.
///
/// # Errors
/// The lease is lost, so that another replica may act on the same plans; or the configuration is wrong in a way that waiting does
/// not solve: the value of a flag, an address, a kubeconfig.
pub async fn run(args: Args, process: Process) -> anyhow::Result<()> {
    if args.release_finalizers {
        let client = client::connect(&args.common, process.program).await?;
        return tokio::select! {
            removed = finalizer_cleanup::run(&client, &args.common.namespace) => removed,
            () = process.shutdown.begun() => anyhow::bail!("interrupted before all finalizers were removed"),
        };
    }
    let certificates = CertificateSettings::new(&args.common, &args.issuer);
    let client = client::connect(&args.common, process.program).await?;
    let streams = StreamMetrics::register(&process.registry)?;
    let watched = (&streams, &process.registry);
    let settings = Follower::start(&client, &args.common.namespace, watched, &process.readiness)?;
    process.serve_admin(&args.common).await?;
    let leadership = seek(&args, &process).await?;
    LeaderMetrics::register(&process.registry, leadership.clone())?;
    let (workers, trust) =
        start_keepers((&args, certificates), &process, &client, &leadership, &settings, &streams)?;
    let controller = Controller { args, process, client, streams, leadership, trust };
    controller.follow(settings).await?;
    finish(workers).await;
    controller.leadership.release().await;
    Ok(())
}

async fn seek(args: &Args, process: &Process) -> anyhow::Result<Leadership> {
    let identity = lease::identity()?;
    tracing::info!(identity, lease = args.election.leader_election_id, "seeking the lease");
    let (common, program) = (args.common.clone(), process.program);
    let connect = async move { client::connect_unthrottled(&common, program).await };
    let lease = (&*args.common.namespace, &*args.election.leader_election_id);
    Leadership::seek(connect, lease, identity, args.election.timing()?).await
}

/// Starts the writers of the settings and of the certificate, which do not depend on the settings. The lease must not be released
/// while one of them writes.
fn start_keepers(
    (args, certificates): (&Args, CertificateSettings),
    process: &Process,
    client: &Client,
    leadership: &Leadership,
    settings: &Follower,
    streams: &StreamMetrics,
) -> anyhow::Result<(JoinSet<()>, Trust)> {
    let mut workers = JoinSet::new();
    let may_write = permission(leadership, &process.shutdown);
    let namespace = &args.common.namespace;
    let source = Source {
        document: watch_config_map(client, namespace, CONFIG_CONFIG_MAP, streams),
        flags: args.shared.clone(),
        version: process.program.version,
    };
    let (place, seen) = ((client.clone(), namespace.clone()), settings.seen.clone());
    let (acquired, permitted, shutdown) = (leadership.clone(), may_write.clone(), process.shutdown.clone());
    workers.spawn(async move {
        tokio::select! {
            () = acquired.acquired() => {}
            () = shutdown.begun() => return,
        }
        publish(place, source, seen, || permitted(), shutdown).await;
    });
    let (trusted, bundle) = watch::channel(args.webhook_ca_bundle.as_ref().map(|it| it.to_vec()));
    let (registered, names_authority) = watch::channel(Registered::default());
    if args.common.certificates.enable_internal_cert_management {
        let metrics = CertificateMetrics::register(&process.registry)?;
        let (client, both) = (client.clone(), (trusted, names_authority));
        let (acquired, shutdown) = (leadership.clone(), process.shutdown.clone());
        workers.spawn(async move {
            tokio::select! {
                () = acquired.acquired() => {}
                () = shutdown.begun() => return,
            }
            crate::certificates::keep(client, certificates, both, metrics, || may_write(), shutdown).await;
        });
    }
    Ok((workers, Trust { bundle, registered }))
}
