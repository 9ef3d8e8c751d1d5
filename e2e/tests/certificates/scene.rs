//! hns with its own certificates, installed from the manifests, and checks of them. Changes nothing by itself.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use hns_api::{SubnamespaceAnchor, SubnamespaceAnchorSpec, names};
use hns_e2e::product::{NAMESPACE, WEBHOOK_USER};
use hns_e2e::{Balancer, Cluster, Component, Launch, Options, Product, Replica, Steps, eventually, ports};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, Client};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// The Secret of the webhook's certificate.
pub(crate) const SERVING: &str = names::WEBHOOK_CERTIFICATE_SECRET;
/// The Secret with the key of the authority that earlier versions had.
pub(crate) const FORMER_AUTHORITY: &str = names::FORMER_AUTHORITY_SECRET;
/// The namespace of the reviews.
pub(crate) const REVIEWED: &str = "reviewed";

/// API servers need ten seconds to load a new certificate, plus the time in the test's flags.
const CHANGED_OVER: Duration = Duration::from_secs(60);

/// Replicas of the webhook behind a Service.
pub(crate) struct Scene<'c> {
    pub(crate) product: Product<'c>,
    pub(crate) webhooks: Vec<Replica>,
    _balancer: Balancer,
}

/// The webhook's certificate, DER, once all parts agree on it.
pub(crate) type Settled = Vec<u8>;

impl<'c> Scene<'c> {
    /// Installs everything and starts the replicas, which have no certificate yet.
    pub(crate) async fn install(cluster: &'c Cluster, replicas: usize) -> Result<Self> {
        let options = Options { internal_certificates: true, ..Options::default() };
        let product = Product::install(cluster, options).await?;
        let mut webhooks = Vec::new();
        for _ in 0..replicas {
            let [port] = ports::free()?;
            let launch = Launch { webhook_port: Some(port), ..Launch::default() };
            webhooks.push(product.launch(Component::Webhook, launch).await?);
        }
        let backends = webhooks.iter().map(Replica::webhook_port).collect();
        let balancer = Balancer::start(product.webhook_port(), backends).await?;
        Ok(Self { product, webhooks, _balancer: balancer })
    }

    pub(crate) async fn start_controller(&self, args: &[&str]) -> Result<Replica> {
        let args = args.iter().map(|&arg| arg.to_owned()).collect();
        self.product.start(Component::Controller, Launch { args, ..Launch::default() }).await
    }

    pub(crate) fn steps(&self) -> Steps {
        Steps::of(self.product.cluster().admin())
    }

    pub(crate) fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.product.cluster().admin(), NAMESPACE)
    }

    pub(crate) async fn delete_secret(&self, name: &str) -> Result<()> {
        self.secrets().delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Waits until the webhook answers reviews.
    pub(crate) async fn reviewed(&self) -> Result<()> {
        let steps = self.steps();
        eventually("a review is answered", CHANGED_OVER, async || {
            match steps.create_namespace(REVIEWED).await {
                Err(kube::Error::Api(status)) if status.reason != "AlreadyExists" => {
                    return Err(status.to_string());
                }
                _ => {}
            }
            review(&steps.client, "first").await.map_err(|error| error.to_string())
        })
        .await
    }

    /// Waits until all parts agree: one certificate in the Secret, trusted by every registration, and served by every replica.
    /// With `former`, it must differ from that.
    pub(crate) async fn settled(&self, former: Option<&Settled>) -> Result<Settled> {
        eventually("certificates agree everywhere", CHANGED_OVER, async || {
            let settled = self.look().await.map_err(|error| format!("{error:#}"))?;
            if former == Some(&settled) { Err("the same as before".to_owned()) } else { Ok(settled) }
        })
        .await
    }

    async fn look(&self) -> Result<Settled> {
        let (certificate, _, trusted) = self.secret(SERVING).await?;
        let registered = registered(&self.product.cluster().admin()).await?;
        anyhow::ensure!(registered == BTreeSet::from([trusted.clone()]), "registrations trust others");
        let all = certificates(&trusted);
        let leaf = certificates(&certificate).first().cloned().context("no certificate")?;
        anyhow::ensure!(all == [leaf.clone()], "{} are trusted", all.len());
        for webhook in &self.webhooks {
            let served = handshake(webhook.webhook_port(), &trusted).await?;
            let shown = served.get_ref().1.peer_certificates().and_then(|chain| chain.first()).cloned();
            anyhow::ensure!(shown.as_ref() == Some(&leaf), "{} serves another", webhook.pod_name());
        }
        Ok(leaf.to_vec())
    }

    /// Everything that the webhook's account can read of Secrets in the namespace of the installation.
    pub(crate) async fn readable_by_the_webhook(&self) -> Result<Vec<Secret>> {
        let client = self.product.cluster().client_as(WEBHOOK_USER, &[]);
        Ok(Api::<Secret>::namespaced(client, NAMESPACE).list(&ListParams::default()).await?.items)
    }

    /// `tls.crt`, `tls.key` and `ca.crt`, and nothing else.
    async fn secret(&self, name: &str) -> Result<(Vec<u8>, Vec<u8>, Vec<u8>)> {
        let mut data = self.secrets().get(name).await?.data.unwrap_or_default();
        let mut take =
            |key| data.remove(key).map(|bytes| bytes.0).with_context(|| format!("no {key} in {name}"));
        let content = (take("tls.crt")?, take("tls.key")?, take("ca.crt")?);
        anyhow::ensure!(data.is_empty(), "there is more in {name}: {:?}", data.keys());
        Ok(content)
    }

    /// Waits until every replica of the webhook is ready.
    pub(crate) async fn wait_ready(&self) -> Result<()> {
        for webhook in &self.webhooks {
            webhook.wait_ready().await?;
        }
        Ok(())
    }
}

/// One request that the webhook reviews and that changes nothing.
pub(crate) async fn review(client: &Client, name: &str) -> Result<(), kube::Error> {
    let anchor = SubnamespaceAnchor::new(name, SubnamespaceAnchorSpec::default());
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    let anchors: Api<SubnamespaceAnchor> = Api::namespaced(client.clone(), REVIEWED);
    anchors.create(&dry_run, &anchor).await.map(drop)
}

/// The bundles in both registrations; one text, unless they differ.
pub(crate) async fn registered(client: &Client) -> Result<BTreeSet<Vec<u8>>> {
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let validating = validating.get(names::VALIDATING_WEBHOOK_CONFIGURATION).await?;
    let mutating = mutating.get(names::MUTATING_WEBHOOK_CONFIGURATION).await?;
    let first = validating.webhooks.into_iter().flatten().map(|it| it.client_config);
    let second = mutating.webhooks.into_iter().flatten().map(|it| it.client_config);
    let bundle = |ByteString(text)| text;
    Ok(first.chain(second).map(|it| it.ca_bundle.map(bundle).unwrap_or_default()).collect())
}

/// Every certificate of a PEM text, DER.
pub(crate) fn certificates(pem: &[u8]) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(pem).filter_map(Result::ok).collect()
}

/// A new connection to the webhook at this port, as an API server makes it: under the Service's name.
pub(crate) async fn handshake(port: u16, trusted: &[u8]) -> Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(trusted) {
        roots.add(certificate)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(names::webhook_host(NAMESPACE))?;
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
    Ok(TlsConnector::from(Arc::new(config)).connect(name, stream).await?)
}
