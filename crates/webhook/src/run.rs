//! How `hns-webhook` starts and ends.

use std::sync::Arc;

use anyhow::Context;
use hns_cluster::api::Api;
use hns_cluster::metrics::StreamMetrics;
use hns_cluster::settings::Follower;
use hns_runtime::client;
use hns_runtime::process::Process;
use hns_runtime::serve::{Grace, Limits, Server};
use hns_runtime::tls::{ClientAuthority, ServingCertificate};
use kube::Client;
use tokio::sync::watch::{Receiver, Sender};

use crate::args::Args;
use crate::current::{Current, Reader, router_in_use};
use crate::metrics::{AdmissionMetrics, UsageMetrics};

/// Runs until the process is shut down.
///
/// # Errors
/// An error that a retry does not solve: the value of a flag, an address, a kubeconfig.
pub async fn run(args: Args, process: Process) -> anyhow::Result<()> {
    let client = client::connect(&args.common, process.program).await?;
    let certificate = certificate(&args, &process, &client)?;
    let clients = clients(&args, &process);
    let streams = StreamMetrics::register(&process.registry)?;
    let watched = (&streams, &process.registry);
    let settings = Follower::start(&client, &args.common.namespace, watched, &process.readiness)?;
    let reader = Reader {
        client,
        controller: args.controller(),
        webhook: args.webhook(),
        in_flight: Arc::default(),
        bodies: Arc::default(),
        metrics: AdmissionMetrics::register(&process.registry)?,
        usage: UsageMetrics::register(&process.registry)?,
        namespace: args.common.namespace.clone(),
        streams,
        process: process.clone(),
        current: Sender::new(None),
    };
    process.serve_admin(&args.common).await?;
    let current = reader.current.subscribe();
    tokio::select! {
        read = reader.follow(settings) => read,
        served = serve(&args, &process, (&certificate, clients.as_ref()), current) => served,
    }
}

fn certificate(args: &Args, process: &Process, client: &Client) -> anyhow::Result<Arc<ServingCertificate>> {
    let certificate = ServingCertificate::new(&process.registry)?;
    let condition = process.readiness.condition("certificate", "not loaded yet");
    let following = certificate.clone();
    if args.common.certificates.enable_internal_cert_management {
        let secrets = Api::namespaced(client.clone(), &args.common.namespace);
        let name = args.common.certificates.cert_secret_name.clone();
        tokio::spawn(async move { following.follow_secret(secrets, &name, condition).await });
    } else {
        let directory = args.server.cert_dir.clone();
        tokio::spawn(async move { following.follow_directory(&directory, condition).await });
    }
    Ok(certificate)
}

/// Which clients may send reviews, if that is restricted.
fn clients(args: &Args, process: &Process) -> Option<Arc<ClientAuthority>> {
    let file = args.server.client_ca_file.clone()?;
    let clients = ClientAuthority::new(args.server.client_allowed_names.iter().cloned());
    let condition = process.readiness.condition("client-authority", "not loaded yet");
    let following = clients.clone();
    tokio::spawn(async move { following.follow_file(&file, condition).await });
    Some(clients)
}

/// Opens the socket once settings and a certificate are loaded. Requests are judged from then on; until the streams of the
/// structure are complete, requests that need them are answered with 503.
async fn serve(
    args: &Args,
    process: &Process,
    (certificate, clients): (&Arc<ServingCertificate>, Option<&Arc<ClientAuthority>>),
    mut current: Receiver<Option<Current>>,
) -> anyhow::Result<()> {
    let loaded = async {
        certificate.loaded().await;
        if let Some(clients) = clients {
            clients.loaded().await;
        }
        // Cannot fail: the sender lives as long as the process.
        let _ = current.wait_for(Option::is_some).await;
    };
    tokio::select! {
        () = loaded => {}
        () = process.shutdown.begun() => return Ok(()),
    }
    let address = args.server.listen_address();
    let listener =
        address.listen().await.with_context(|| format!("the webhook server cannot listen on {address}"))?;
    let listener = listener.context("the webhook server needs a port")?;
    tracing::info!(%address, "serving webhooks");
    let server = Server::https(listener, certificate.server_config(clients)?, Limits::WEBHOOK);
    let grace = Grace { delay: args.server.shutdown_delay, timeout: args.server.shutdown_timeout };
    let cut_off = server.serve(router_in_use(current.clone()), process.shutdown.begun(), grace).await;
    if cut_off > 0 {
        tracing::warn!(connections = cut_off, "requests were still under way at the end");
    }
    Ok(())
}
