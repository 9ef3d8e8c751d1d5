//! The webhook's certificate, made and kept in a Secret for as long as this replica leads.
//!
//! What is damaged is restored, what was deleted or is about to expire is replaced; see [`decide`] for the order. Writes carry
//! what they were planned from (uid and resourceVersion), so that a former leader's late write fails. It puts nothing into
//! registrations: [`crate::keep`] does, and learns here which certificates they should trust.

mod decide;
mod issue;
mod metrics;
mod x509;

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt as _;
use hns_api::names::FORMER_AUTHORITY_SECRET;
use hns_cluster::api::Api;
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
use self::decide::{CERTIFICATE, Data, Decision, Found, KEY, Step, TRUSTED, Terms, bundle, decide};
pub(crate) use self::metrics::CertificateMetrics;
use self::x509::Certificate;

const FIELD_MANAGER: &str = "hns-controller";
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(30);

/// The certificates that registrations should trust, as PEM text; `None` until it is known.
pub(crate) type Bundle = Option<Vec<u8>>;

/// Where the certificate is kept, and what it should be like.
#[derive(Clone, Debug)]
pub(crate) struct CertificateSettings {
    namespace: String,
    secret: String,
    terms: Terms,
}

impl CertificateSettings {
    /// # Errors
    /// A flag says what cannot be.
    pub(crate) fn new(common: &CommonArgs, issuer: &IssuerArgs) -> anyhow::Result<Self> {
        issuer.check()?;
        Ok(Self {
            namespace: common.namespace.clone(),
            secret: common.certificates.cert_secret_name.clone(),
            terms: Terms {
                names: host_names(&issuer.webhook_service_name, &common.namespace),
                validity: seconds(issuer.cert_validity),
                overlap: seconds(issuer.cert_overlap),
            },
        })
    }
}

/// The names that a Service is reached under, the one that API servers ask for first.
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

/// Keeps the Secret until `may_write` says no, or the shutdown begins. A write under way is ended first: when this returns,
/// nothing more comes.
///
/// `trusted` is told which certificates registrations should trust; `registered` tells which they do.
pub(crate) async fn keep(
    client: Client,
    settings: CertificateSettings,
    (trusted, mut registered): (watch::Sender<Bundle>, watch::Receiver<Registered>),
    metrics: CertificateMetrics,
    may_write: impl Fn() -> bool,
    shutdown: Shutdown,
) {
    let secrets: Api<Secret> = Api::namespaced(client, &settings.namespace);
    let mut states = objects::watch(secrets.clone(), &settings.secret);
    let mut keeper = Keeper {
        secrets,
        seen: Seen::Unknown,
        metadata: ObjectMeta { name: Some(settings.secret.clone()), ..ObjectMeta::default() },
        settings,
        next: None,
        held: None,
        remembered: Vec::new(),
        has_former_authority: true,
        trusted,
        registered: (Registered::Unclear, Instant::now()),
        metrics,
        said: String::new(),
    };
    let mut retry = FIRST_RETRY;
    while may_write() {
        let again_in = if let Ok(again_in) = keeper.settle(&may_write).await {
            retry = FIRST_RETRY;
            again_in
        } else {
            let again_in = retry;
            retry = (retry * 2).min(LONGEST_RETRY);
            again_in
        };
        tokio::select! {
            () = shutdown.begun() => return,
            Some(state) = states.next() => keeper.see(state),
            Ok(()) = registered.changed() => {
                keeper.registered = (registered.borrow_and_update().clone(), Instant::now());
            }
            () = tokio::time::sleep(again_in) => {}
        }
    }
}

type State = Result<Option<Secret>, WatchError>;

/// A write did not succeed.
struct Failed;

/// What is known of a Secret.
#[derive(Debug)]
enum Seen {
    Unknown,
    Absent,
    Present(Box<Secret>),
}

impl Seen {
    /// What it holds, if there is one.
    fn data(&self) -> Option<&Data> {
        static EMPTY: Data = BTreeMap::new();
        match self {
            Self::Unknown | Self::Absent => None,
            Self::Present(secret) => Some(secret.data.as_ref().unwrap_or(&EMPTY)),
        }
    }
}

/// A certificate with its key, as in the Secret.
struct Pair {
    certificate: Certificate,
    files: Data,
}

struct Keeper {
    secrets: Api<Secret>,
    settings: CertificateSettings,
    seen: Seen,
    /// What a Secret that was deleted is created again with: by its labels and annotations Helm knows what belongs to a release,
    /// and deletes it with the release.
    metadata: ObjectMeta,
    /// Made, and not in the Secret yet.
    next: Option<Pair>,
    /// The last one of our own making in the Secret.
    held: Option<Pair>,
    /// The certificates that were trusted last.
    remembered: Vec<Certificate>,
    /// Whether there may be a Secret with the key of an authority, from an earlier version.
    has_former_authority: bool,
    trusted: watch::Sender<Bundle>,
    registered: (Registered, Instant),
    metrics: CertificateMetrics,
    /// The last failure that was logged.
    said: String,
}

impl Keeper {
    fn see(&mut self, state: State) {
        let name = &self.settings.secret;
        match state {
            Ok(None) => self.seen = Seen::Absent,
            Ok(Some(secret)) => {
                self.metadata.labels.clone_from(&secret.metadata.labels);
                self.metadata.annotations.clone_from(&secret.metadata.annotations);
                self.seen = Seen::Present(Box::new(secret));
            }
            Err(error) => {
                if let Some(reason) = objects::refusal(&error) {
                    tracing::warn!(reason, "the Secret {name} cannot be read");
                } else {
                    tracing::debug!(%error, "the watch of the Secret {name} was interrupted");
                }
            }
        }
    }

    /// Writes until there is nothing left to do; returns when to look again.
    async fn settle(&mut self, may_write: &impl Fn() -> bool) -> Result<Duration, Failed> {
        loop {
            let now = Timestamp::now().as_second();
            let Some(decision) = self.decide(now) else { return Ok(LONGEST_RETRY) };
            if let Some(trusted) = decision.trusted {
                let text = bundle(&trusted).into_bytes();
                self.remembered = trusted;
                self.trusted.send_if_modified(|known| {
                    let differs = known.as_ref() != Some(&text);
                    *known = Some(text);
                    differs
                });
            }
            if !may_write() {
                return Ok(FIRST_RETRY);
            }
            let Some(step) = decision.step else {
                self.forget_authority().await?;
                return Ok(Duration::from_secs(u64::try_from(decision.again_at - now).unwrap_or_default()));
            };
            self.take(&step, now).await?;
        }
    }

    /// `None` until the Secret is known.
    fn decide(&mut self, now: i64) -> Option<Decision> {
        if matches!(self.seen, Seen::Unknown) {
            return None;
        }
        let (serving, terms) = (self.seen.data(), &self.settings.terms);
        self.metrics.show(serving);
        if let (Some(certificate), Some(data)) = (decide::own(serving, terms, now), serving) {
            self.held = Some(Pair { certificate, files: pair(data) });
        }
        let found = Found {
            serving,
            next: self.next.as_ref().map(|it| &it.certificate),
            held: self.held.as_ref().map(|it| &it.certificate),
            remembered: &self.remembered,
            registered: &self.registered.0,
            registered_for: self.registered.1.elapsed(),
        };
        Some(decide(&found, now, terms))
    }

    async fn take(&mut self, step: &Step, now: i64) -> Result<(), Failed> {
        let data = match step {
            Step::Make => {
                let made = make(&self.settings.terms, now);
                let made =
                    made.map_err(|error| self.complain(&format!("no certificate could be made: {error}")))?;
                self.next = Some(made);
                return Ok(());
            }
            Step::Serve(_, trusted) => files(self.next.as_ref().map(|it| &it.files), trusted),
            Step::Restore(_, trusted) => files(self.held.as_ref().map(|it| &it.files), trusted),
            Step::Beside(trusted) => files(self.seen.data().map(pair).as_ref(), trusted),
        };
        let name = &self.settings.secret;
        match put(&self.secrets, &self.metadata, &self.seen, data).await {
            Ok(secret) => {
                self.seen = Seen::Present(Box::new(secret));
                self.next = None;
                self.said.clear();
                log(step, name);
                Ok(())
            }
            // Somebody was faster; the watch shows what they wrote.
            Err(kube::Error::Api(status)) if status.code == 409 => Err(Failed),
            Err(error) => {
                let name = name.clone();
                Err(self.complain(&format!("the Secret {name} could not be written: {error}")))
            }
        }
    }

    /// Deletes the key of the authority that earlier versions signed with, once the webhook has a certificate that needs none.
    async fn forget_authority(&mut self) -> Result<(), Failed> {
        if !self.has_former_authority || self.held.is_none() {
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
                    tracing::info!("the Secret {name}, with the key of a former authority, was deleted");
                }
                Ok(())
            }
            Err(error) => Err(self.complain(&format!("the Secret {name} could not be deleted: {error}"))),
        }
    }

    /// Once for each reason.
    fn complain(&mut self, reason: &str) -> Failed {
        if self.said != reason {
            tracing::warn!("{reason}; trying again");
            reason.clone_into(&mut self.said);
        }
        Failed
    }
}

fn make(terms: &Terms, now: i64) -> anyhow::Result<Pair> {
    let issued = issue::serving(&terms.names, now, terms.validity)?;
    let certificate = Certificate::all(issued.certificate.as_bytes()).into_iter().next();
    let certificate = certificate.ok_or_else(|| anyhow::anyhow!("it cannot be read"))?;
    // As this program writes it everywhere.
    let texts = [(CERTIFICATE, certificate.pem()), (KEY, issued.key)];
    let files =
        texts.into_iter().map(|(name, text)| (name.to_owned(), ByteString(text.into_bytes()))).collect();
    Ok(Pair { certificate, files })
}

/// The certificate and the key alone.
fn pair(data: &Data) -> Data {
    let ours = data.iter().filter(|(name, _)| [CERTIFICATE, KEY].contains(&name.as_str()));
    ours.map(|(name, bytes)| (name.clone(), bytes.clone())).collect()
}

fn files(pair: Option<&Data>, trusted: &[Certificate]) -> Data {
    let mut files = pair.cloned().unwrap_or_default();
    files.insert(TRUSTED.to_owned(), ByteString(bundle(trusted).into_bytes()));
    files
}

/// Replaces exactly the Secret that was seen, or creates it where there was none.
async fn put(
    secrets: &Api<Secret>,
    metadata: &ObjectMeta,
    seen: &Seen,
    data: Data,
) -> Result<Secret, kube::Error> {
    let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
    match seen {
        Seen::Present(found) => {
            let secret = Secret { data: Some(data), ..Secret::clone(found) };
            let name = metadata.name.as_deref().unwrap_or_default();
            secrets.replace(name, &params, &secret).await
        }
        Seen::Absent | Seen::Unknown => {
            let (metadata, type_) = (metadata.clone(), Some("kubernetes.io/tls".to_owned()));
            secrets.create(&params, &Secret { metadata, type_, data: Some(data), ..Secret::default() }).await
        }
    }
}

fn log(step: &Step, name: &str) {
    match step {
        Step::Make => {}
        Step::Serve(why, _) => {
            tracing::info!("the webhook's certificate, in the Secret {name}, is new: {}", why.text());
        }
        Step::Restore(why, _) => {
            tracing::info!("the webhook's certificate, in the Secret {name}, was restored: {}", why.text());
        }
        Step::Beside(trusted) => {
            tracing::info!(
                trusted = trusted.len(),
                "the Secret {name} lists the certificates that are trusted"
            );
        }
    }
}
