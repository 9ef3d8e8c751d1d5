//! How `hns-webhook` starts and ends.

use std::sync::{Arc, OnceLock};

use anyhow::Context;
use forest::Forest;
use hns_cluster::api::Api;
use hns_cluster::configured_kinds::{self, Configuration};
use hns_cluster::feed::{self, Detail};
use hns_cluster::handle::{ForestHandle, ForestWriter};
use hns_cluster::metrics::{ForestMetrics, StreamMetrics};
use hns_runtime::client;
use hns_runtime::serve::{Grace, Limits, Server};
use hns_runtime::settings::{self, Claim, Component};
use hns_runtime::start::Process;
use hns_runtime::tls::{ClientAuthority, ServingCertificate};
use kube::Client;
use tokio::sync::watch::Receiver;

use crate::args::Args;
use crate::in_flight::InFlight;
use crate::metrics::AdmissionMetrics;
use crate::questions::Calls;
use crate::router::{App, router};

/// Runs until the process is told to end.
///
/// # Errors
/// When something that cannot be waited for is wrong: a flag's value, an address, a kubeconfig.
pub async fn run(args: Args, process: Process) -> anyhow::Result<()> {
    let client = client::connect(&args.common, process.program).await?;
    let certificate = certificate(&args, &process, &client)?;
    let clients = clients(&args, &process);
    let in_flight = Arc::<InFlight>::default();
    let (forest, configuration) = watch(&args, &process, &client, &in_flight)?;
    let app = App {
        forest,
        client,
        controller: args.controller(),
        webhook: args.webhook(),
        configuration,
        in_flight,
        bodies: Arc::default(),
        calls: Calls::default(),
        metrics: AdmissionMetrics::register(&process.registry)?,
    };
    process.serve_admin(&args.common).await?;
    serve(&args, &process, (&certificate, clients.as_ref()), app).await
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

/// Whose reviews are accepted, if that is restricted.
fn clients(args: &Args, process: &Process) -> Option<Arc<ClientAuthority>> {
    let file = args.server.client_ca_file.clone()?;
    let clients = ClientAuthority::new(args.server.client_allowed_names.iter().cloned());
    let condition = process.readiness.condition("client-authority", "not loaded yet");
    let following = clients.clone();
    tokio::spawn(async move { following.follow_file(&file, condition).await });
    Some(clients)
}

fn watch(
    args: &Args,
    process: &Process,
    client: &Client,
    in_flight: &Arc<InFlight>,
) -> anyhow::Result<(ForestHandle, Receiver<Configuration>)> {
    let seen = Arc::new(OnceLock::<ForestHandle>::new());
    let listener = {
        let (seen, in_flight) = (seen.clone(), in_flight.clone());
        Box::new(move |_| {
            if let Some(forest) = seen.get() {
                forest.read(|forest| in_flight.settle(forest));
            }
        })
    };
    let (writer, handle) =
        ForestWriter::new(Forest::unconfigured(Arc::new(args.common.settings()?)), listener);
    // It was empty before, so nothing has been let through by it.
    let _ = seen.set(handle.clone());
    ForestMetrics::register(&process.registry, handle.clone())?;
    let metrics = StreamMetrics::register(&process.registry)?;
    say_settings(args, process, client, &metrics)?;
    feed::start(client, &writer, &metrics, || false).detach_all();
    tokio::spawn(feed::show(process.readiness.clone(), handle.clone()));
    let both = (&writer, &handle);
    let configuration = configured_kinds::start(client, both, Detail::Metadata, &metrics, &process.readiness);
    Ok((handle, configuration))
}

/// Says with which settings this replica judges, once it does.
fn say_settings(
    args: &Args,
    process: &Process,
    client: &Client,
    metrics: &StreamMetrics,
) -> anyhow::Result<()> {
    let (namespace, own) = (args.common.namespace.clone(), process.settings.clone());
    let seen = settings::follow(client, &namespace, &own, metrics, &process.registry)?;
    let (client, readiness, shutdown) = (client.clone(), process.readiness.clone(), process.shutdown.clone());
    tokio::spawn(async move {
        readiness.ready().await;
        let own = (Component::Webhook, own, Claim::Shared);
        settings::publish((client, namespace), own, seen, || true, shutdown).await;
    });
    Ok(())
}

/// Opens the socket once there is a certificate to answer with. Requests are judged from then on; until the streams of
/// the structure are complete, the answer to what needs them is 503.
async fn serve(
    args: &Args,
    process: &Process,
    (certificate, clients): (&Arc<ServingCertificate>, Option<&Arc<ClientAuthority>>),
    app: App,
) -> anyhow::Result<()> {
    let loaded = async {
        certificate.loaded().await;
        if let Some(clients) = clients {
            clients.loaded().await;
        }
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
    let cut_off = server.serve(router(app), process.shutdown.begun(), grace).await;
    if cut_off > 0 {
        tracing::warn!(connections = cut_off, "requests were still under way at the end");
    }
    Ok(())
}
