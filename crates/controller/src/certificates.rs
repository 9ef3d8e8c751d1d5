//! Maintains the webhook's certificate in its Secret while this replica is the leader.
//!
//! A damaged Secret is restored; a certificate that was deleted or expires soon is replaced. See [`decide`] for the order of the
//! steps. Writes have the uid and the resource version as a precondition, so that a late write of a former leader fails.
//! [`crate::registrations::reconciler`] writes the certificates to trust into the registrations.

mod decide;
mod issue;
mod metrics;
mod x509;

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt as _;
use hns_api::names::FORMER_AUTHORITY_SECRET;
use hns_cluster::api::Api;
use hns_cluster::error_text::error_text;
use hns_cluster::objects;
use hns_runtime::args::{CommonArgs, IssuerArgs};
use hns_runtime::shutdown::Shutdown;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::{DeleteParams, PostParams};
use kube::runtime::watcher::Error as WatchError;
use tokio::sync::watch;
use tokio::time::Instant;

pub(crate) use self::decide::Registered;
use self::decide::{CERTIFICATE, Data, Decision, KEY, Observed, Requirements, Step, TRUSTED, bundle, decide};
pub(crate) use self::metrics::CertificateMetrics;
use self::x509::Certificate;
use crate::owner;

const FIELD_MANAGER: &str = "hns-controller";
const MIN_RETRY_DELAY: Duration = Duration::from_secs(1);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(30);

/// The certificates that registrations should trust, as PEM text; `None` until it is known.
pub(crate) type Bundle = Option<Vec<u8>>;

/// The Secret of the certificate, and the requirements.
#[derive(Clone, Debug)]
pub(crate) struct CertificateSettings {
    namespace: String,
    secret: String,
    requirements: Requirements,
}

impl CertificateSettings {
    pub(crate) fn new(common: &CommonArgs, issuer: &IssuerArgs) -> Self {
        Self {
            namespace: common.namespace.clone(),
            secret: common.certificates.cert_secret_name.clone(),
            requirements: Requirements {
                names: host_names(&issuer.webhook_service_name, &common.namespace),
                validity: seconds(issuer.cert_validity),
                overlap: seconds(issuer.cert_overlap),
            },
        }
    }
}

/// The host names of a Service. API servers use the first one.
fn host_names(service: &str, namespace: &str) -> Vec<String> {
    vec![
        format!("{service}.{namespace}.svc"),
        format!("{service}.{namespace}.svc.cluster.local"),
        format!("{service}.{namespace}"),
        service.to_owned(),
    ]
}

fn seconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_secs()).unwrap_or(i64::MAX)
}

/// Maintains the Secret until `may_write` returns false or the shutdown begins. It completes its current write before it returns.
///
/// `trusted` receives the certificates that registrations should trust; `registered` has those that they do trust.
pub(crate) async fn keep(
    client: Client,
    settings: CertificateSettings,
    (trusted, mut registered): (watch::Sender<Bundle>, watch::Receiver<Registered>),
    metrics: CertificateMetrics,
    may_write: impl Fn() -> bool,
    shutdown: Shutdown,
) {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), &settings.namespace);
    let mut states = objects::watch(secrets.clone(), &settings.secret);
    let mut reconciler = CertificateReconciler {
        client,
        secrets,
        current: CurrentSecret::Unknown,
        settings,
        next: None,
        last_own: None,
        last_trusted: Vec::new(),
        has_former_authority: true,
        trusted,
        registered: (Registered::Unclear, Instant::now()),
        metrics,
        last_error: String::new(),
    };
    let mut retry_delay = MIN_RETRY_DELAY;
    while may_write() {
        let delay = if let Ok(delay) = reconciler.reconcile(&may_write).await {
            retry_delay = MIN_RETRY_DELAY;
            delay
        } else {
            let delay = retry_delay;
            retry_delay = (retry_delay * 2).min(MAX_RETRY_DELAY);
            delay
        };
        tokio::select! {
            () = shutdown.begun() => return,
            Some(state) = states.next() => reconciler.observe(state),
            Ok(()) = registered.changed() => {
                reconciler.registered = (registered.borrow_and_update().clone(), Instant::now());
            }
            () = tokio::time::sleep(delay) => {}
        }
    }
}

type State = Result<Option<Secret>, WatchError>;

/// A write failed, and was logged.
struct Failed;

/// The Secret as last observed.
#[derive(Debug)]
enum CurrentSecret {
    Unknown,
    Absent,
    Present(Box<Secret>),
}

impl CurrentSecret {
    /// The Secret's data; `None` if there is no Secret.
    fn data(&self) -> Option<&Data> {
        static EMPTY: Data = BTreeMap::new();
        match self {
            Self::Unknown | Self::Absent => None,
            Self::Present(secret) => Some(secret.data.as_ref().unwrap_or(&EMPTY)),
        }
    }
}

/// A certificate with its key, as in the Secret.
struct KeyPair {
    certificate: Certificate,
    files: Data,
}

struct CertificateReconciler {
    client: Client,
    secrets: Api<Secret>,
    settings: CertificateSettings,
    current: CurrentSecret,
    /// Issued, but not in the Secret yet.
    next: Option<KeyPair>,
    /// The last certificate in the Secret that this program issued.
    last_own: Option<KeyPair>,
    last_trusted: Vec<Certificate>,
    /// Whether the Secret with the CA key of an earlier version may exist.
    has_former_authority: bool,
    trusted: watch::Sender<Bundle>,
    registered: (Registered, Instant),
    metrics: CertificateMetrics,
    /// The last error that was logged.
    last_error: String,
}

impl CertificateReconciler {
    fn observe(&mut self, state: State) {
        let name = &self.settings.secret;
        match state {
            Ok(None) => self.current = CurrentSecret::Absent,
            Ok(Some(secret)) => self.current = CurrentSecret::Present(Box::new(secret)),
            Err(error) => {
                if let Some(reason) = objects::refusal(&error) {
                    tracing::warn!(reason, "could not read the Secret {name}");
                } else {
                    tracing::debug!(
                        error = error_text(&error),
                        "the watch of the Secret {name} was interrupted"
                    );
                }
            }
        }
    }

    /// Takes steps until none is left. Returns the delay until the next check.
    async fn reconcile(&mut self, may_write: &impl Fn() -> bool) -> Result<Duration, Failed> {
        loop {
            let now = Timestamp::now().as_second();
            let Some(decision) = self.decide(now) else { return Ok(MAX_RETRY_DELAY) };
            if let Some(trusted) = decision.trusted {
                let text = bundle(&trusted).into_bytes();
                self.last_trusted = trusted;
                self.trusted.send_if_modified(|known| {
                    let differs = known.as_ref() != Some(&text);
                    *known = Some(text);
                    differs
                });
            }
            if !may_write() {
                return Ok(MIN_RETRY_DELAY);
            }
            let Some(step) = decision.step else {
                self.delete_former_authority().await?;
                return Ok(Duration::from_secs(u64::try_from(decision.next_check - now).unwrap_or_default()));
            };
            self.take(&step, now).await?;
        }
    }

    /// `None` until the Secret has been observed.
    fn decide(&mut self, now: i64) -> Option<Decision> {
        if matches!(self.current, CurrentSecret::Unknown) {
            return None;
        }
        let (serving, requirements) = (self.current.data(), &self.settings.requirements);
        self.metrics.show(serving);
        if let (Some(certificate), Some(data)) =
            (decide::own_certificate(serving, requirements, now), serving)
        {
            self.last_own = Some(KeyPair { certificate, files: key_pair(data) });
        }
        let observed = Observed {
            serving,
            next: self.next.as_ref().map(|it| &it.certificate),
            last_own: self.last_own.as_ref().map(|it| &it.certificate),
            last_trusted: &self.last_trusted,
            registered: &self.registered.0,
            registered_for: self.registered.1.elapsed(),
        };
        Some(decide(&observed, now, requirements))
    }

    async fn take(&mut self, step: &Step, now: i64) -> Result<(), Failed> {
        let data = match step {
            Step::Issue => {
                let issued = issue_pair(&self.settings.requirements, now);
                let issued =
                    issued.map_err(|error| self.fail(&format!("could not issue a certificate: {error}")))?;
                self.next = Some(issued);
                return Ok(());
            }
            Step::Serve(_, trusted) => files(self.next.as_ref().map(|it| &it.files), trusted),
            Step::Restore(_, trusted) => files(self.last_own.as_ref().map(|it| &it.files), trusted),
            Step::UpdateTrusted(trusted) => files(self.current.data().map(key_pair).as_ref(), trusted),
        };
        let name = &self.settings.secret;
        match self.put(data).await {
            Ok(secret) => {
                self.current = CurrentSecret::Present(Box::new(secret));
                self.next = None;
                self.last_error.clear();
                log(step, name);
                Ok(())
            }
            // Another client changed the Secret; the watch reports the change.
            Err(kube::Error::Api(status)) if status.code == 409 => Err(Failed),
            Err(error) => {
                let name = name.clone();
                Err(self.fail(&format!("could not write the Secret {name}: {}", error_text(&error))))
            }
        }
    }

    /// Replaces the Secret in the observed version, or creates it if it does not exist.
    async fn put(&self, data: Data) -> Result<Secret, kube::Error> {
        let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        let name = &self.settings.secret;
        match &self.current {
            CurrentSecret::Present(found) => {
                let secret = Secret { data: Some(data), ..Secret::clone(found) };
                self.secrets.replace(name, &params, &secret).await
            }
            CurrentSecret::Absent | CurrentSecret::Unknown => {
                let metadata = ObjectMeta {
                    name: Some(name.clone()),
                    owner_references: Some(vec![owner::reference(&self.client).await?]),
                    ..ObjectMeta::default()
                };
                let type_ = Some("kubernetes.io/tls".to_owned());
                let secret = Secret { metadata, type_, data: Some(data), ..Secret::default() };
                self.secrets.create(&params, &secret).await
            }
        }
    }

    /// Deletes the CA key of earlier versions, once the webhook has a self-signed certificate.
    async fn delete_former_authority(&mut self) -> Result<(), Failed> {
        if !self.has_former_authority || self.last_own.is_none() {
            return Ok(());
        }
        let name = FORMER_AUTHORITY_SECRET;
        let deleted = match self.secrets.get_opt(name).await {
            Ok(None) => Ok(false),
            Ok(Some(_)) => self.secrets.delete(name, &DeleteParams::default()).await.map(|_| true),
            Err(error) => Err(error),
        };
        match deleted {
            Ok(deleted) => {
                self.has_former_authority = false;
                if deleted {
                    tracing::info!("deleted the Secret {name} with the CA key of an earlier version");
                }
                Ok(())
            }
            Err(error) => {
                Err(self.fail(&format!("could not delete the Secret {name}: {}", error_text(&error))))
            }
        }
    }

    /// Logs each new error once.
    fn fail(&mut self, reason: &str) -> Failed {
        if self.last_error != reason {
            tracing::warn!("{reason}; trying again");
            reason.clone_into(&mut self.last_error);
        }
        Failed
    }
}

fn issue_pair(requirements: &Requirements, now: i64) -> anyhow::Result<KeyPair> {
    let issued = issue::self_signed(&requirements.names, now, requirements.validity)?;
    let certificate = Certificate::all(issued.certificate.as_bytes()).into_iter().next();
    let certificate = certificate.ok_or_else(|| anyhow::anyhow!("the new certificate cannot be parsed"))?;
    // Encode it as this program does everywhere else.
    let texts = [(CERTIFICATE, certificate.pem()), (KEY, issued.key)];
    let files =
        texts.into_iter().map(|(name, text)| (name.to_owned(), ByteString(text.into_bytes()))).collect();
    Ok(KeyPair { certificate, files })
}

/// The certificate and the key alone.
fn key_pair(data: &Data) -> Data {
    let ours = data.iter().filter(|(name, _)| [CERTIFICATE, KEY].contains(&name.as_str()));
    ours.map(|(name, bytes)| (name.clone(), bytes.clone())).collect()
}

fn files(pair: Option<&Data>, trusted: &[Certificate]) -> Data {
    let mut files = pair.cloned().unwrap_or_default();
    files.insert(TRUSTED.to_owned(), ByteString(bundle(trusted).into_bytes()));
    files
}

fn log(step: &Step, name: &str) {
    match step {
        Step::Issue => {}
        Step::Serve(why, _) => {
            tracing::info!("replaced the webhook's certificate in the Secret {name}: {}", why.text());
        }
        Step::Restore(why, _) => {
            tracing::info!("restored the webhook's certificate in the Secret {name}: {}", why.text());
        }
        Step::UpdateTrusted(trusted) => {
            tracing::info!(trusted = trusted.len(), "updated the trusted certificates in the Secret {name}");
        }
    }
}
