//! The webhook's certificate and its authority, made and kept in two Secrets for as long as this replica leads.
//!
//! What is damaged, deleted or about to expire is made anew; see [`decide`] for the order in which. Writes carry what they
//! were planned from (uid and resourceVersion), so that a former leader's late write fails. It puts nothing into
//! registrations: [`crate::keep`] does, and is told here which authorities they are to name.

mod decide;
mod issue;
mod metrics;
mod x509;

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use hns_runtime::api::Api;
use hns_runtime::args::{AuthorityArgs, CommonArgs};
use hns_runtime::objects;
use hns_runtime::shutdown::Shutdown;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::PostParams;
use kube::runtime::watcher::Error as WatchError;
use tokio::sync::watch;
use tokio::time::Instant;

pub(crate) use self::decide::Registered;
use self::decide::{CERTIFICATE, Data, Decision, Found, KEY, TRUSTED, Terms, Write, bundle, decide};
use self::issue::Issued;
pub(crate) use self::metrics::CertificateMetrics;
use self::x509::Certificate;

const FIELD_MANAGER: &str = "hns-controller";
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(30);

/// The authorities that registrations are to name, as PEM text; `None` until it is known.
pub(crate) type Bundle = Option<Vec<u8>>;

/// Where the certificates are kept, and what they are to be like.
#[derive(Clone, Debug)]
pub(crate) struct CertificateSettings {
    namespace: String,
    authority: String,
    serving: String,
    terms: Terms,
}

impl CertificateSettings {
    /// # Errors
    /// The flags contradict each other.
    pub(crate) fn new(common: &CommonArgs, authority: &AuthorityArgs) -> anyhow::Result<Self> {
        authority.check()?;
        let serving = common.certificates.cert_secret_name.clone();
        anyhow::ensure!(
            serving != authority.cert_authority_secret_name,
            "--cert-secret-name and --cert-authority-secret-name must be two Secrets"
        );
        Ok(Self {
            namespace: common.namespace.clone(),
            authority: authority.cert_authority_secret_name.clone(),
            serving,
            terms: Terms {
                names: host_names(&authority.webhook_service_name, &common.namespace),
                validity: seconds(authority.cert_validity),
                authority_validity: seconds(authority.cert_authority_validity),
                overlap: seconds(authority.cert_authority_overlap),
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

/// Keeps both Secrets until `may_write` says no, or the shutdown begins. A write under way is ended first: when this
/// returns, nothing more comes.
///
/// `trusted` is told which authorities registrations are to name; `registered` tells which they do.
pub(crate) async fn keep(
    client: Client,
    settings: CertificateSettings,
    (trusted, mut registered): (watch::Sender<Bundle>, watch::Receiver<Registered>),
    metrics: CertificateMetrics,
    may_write: impl Fn() -> bool,
    shutdown: Shutdown,
) {
    let secrets: Api<Secret> = Api::namespaced(client, &settings.namespace);
    let mut authorities = objects::watch(secrets.clone(), &settings.authority);
    let mut servings = objects::watch(secrets.clone(), &settings.serving);
    let mut keeper = Keeper {
        secrets,
        settings,
        authority: Seen::Unknown,
        serving: Seen::Unknown,
        remembered: Vec::new(),
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
            state = next(&mut authorities) => keeper.authority.see(state, &keeper.settings.authority),
            state = next(&mut servings) => keeper.serving.see(state, &keeper.settings.serving),
            Ok(()) = registered.changed() => {
                keeper.registered = (registered.borrow_and_update().clone(), Instant::now());
            }
            () = tokio::time::sleep(again_in) => {}
        }
    }
}

type State = Result<Option<Secret>, WatchError>;

async fn next(states: &mut BoxStream<'static, State>) -> State {
    match states.next().await {
        Some(state) => state,
        // A watch has no end.
        None => std::future::pending().await,
    }
}

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
    fn see(&mut self, state: State, name: &str) {
        match state {
            Ok(None) => *self = Self::Absent,
            Ok(Some(secret)) => *self = Self::Present(Box::new(secret)),
            Err(error) => {
                if let Some(reason) = objects::refusal(&error) {
                    tracing::warn!(reason, "the Secret {name} cannot be read");
                } else {
                    tracing::debug!(%error, "the watch of the Secret {name} was interrupted");
                }
            }
        }
    }

    fn is_known(&self) -> bool {
        !matches!(self, Self::Unknown)
    }

    /// What it holds, if there is one.
    fn data(&self) -> Option<&Data> {
        static EMPTY: Data = BTreeMap::new();
        match self {
            Self::Unknown | Self::Absent => None,
            Self::Present(secret) => Some(secret.data.as_ref().unwrap_or(&EMPTY)),
        }
    }
}

struct Keeper {
    secrets: Api<Secret>,
    settings: CertificateSettings,
    authority: Seen,
    serving: Seen,
    /// The authorities that were trusted last.
    remembered: Vec<Certificate>,
    trusted: watch::Sender<Bundle>,
    registered: (Registered, Instant),
    metrics: CertificateMetrics,
    /// The last failure that was logged.
    said: String,
}

impl Keeper {
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
            let Some(write) = decision.write else {
                return Ok(Duration::from_secs(u64::try_from(decision.again_at - now).unwrap_or_default()));
            };
            if !may_write() {
                return Ok(FIRST_RETRY);
            }
            self.write(&write, now).await?;
        }
    }

    /// `None` until both Secrets are known.
    fn decide(&self, now: i64) -> Option<Decision> {
        if !self.authority.is_known() || !self.serving.is_known() {
            return None;
        }
        let (authority, serving) = (self.authority.data(), self.serving.data());
        self.metrics.show(authority, serving);
        let found = Found {
            authority,
            serving,
            remembered: &self.remembered,
            registered: &self.registered.0,
            registered_for: self.registered.1.elapsed(),
        };
        Some(decide(&found, now, &self.settings.terms))
    }

    async fn write(&mut self, write: &Write, now: i64) -> Result<(), Failed> {
        let data = self.content(write, now);
        let data = data.map_err(|error| self.complain(&format!("no certificate could be made: {error}")))?;
        let settings = &self.settings;
        let (seen, name) = match write {
            Write::Authority(..) | Write::Trusted(_) => (&mut self.authority, &settings.authority),
            Write::Serving(_) | Write::Beside => (&mut self.serving, &settings.serving),
        };
        match put(&self.secrets, name, seen, data).await {
            Ok(secret) => {
                *seen = Seen::Present(Box::new(secret));
                self.said.clear();
                log(write, name);
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

    /// What the Secret is to hold after this write.
    fn content(&self, write: &Write, now: i64) -> anyhow::Result<Data> {
        let terms = &self.settings.terms;
        let present = |seen: &Seen, name| {
            let data = seen.data();
            data.and_then(|data| data.get(name)).cloned().unwrap_or_default()
        };
        let authority = || {
            let authority = decide::authority(self.authority.data(), now);
            authority.map_err(|why| anyhow::anyhow!("there is no authority: {}", why.text()))
        };
        Ok(match write {
            Write::Authority(_, kept) => {
                let issued = issue::authority(now, terms.authority_validity)?;
                let trusted = format!("{}{}", canonical(&issued.certificate), bundle(kept));
                files(issued, trusted)
            }
            Write::Trusted(former) => {
                let trusted = [vec![authority()?.certificate], former.clone()].concat();
                let mut data = self.authority.data().cloned().unwrap_or_default();
                data.insert(TRUSTED.to_owned(), ByteString(bundle(&trusted).into_bytes()));
                data
            }
            Write::Serving(_) => {
                let issued = issue::serving(&authority()?, &terms.names, now, terms.validity)?;
                files(issued, bundle(&self.remembered))
            }
            Write::Beside => {
                let kept = [CERTIFICATE, KEY].map(|name| (name.to_owned(), present(&self.serving, name)));
                let trusted = ByteString(bundle(&self.remembered).into_bytes());
                kept.into_iter().chain([(TRUSTED.to_owned(), trusted)]).collect()
            }
        })
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

/// As this program writes it.
fn canonical(certificate: &str) -> String {
    bundle(&Certificate::all(certificate.as_bytes()))
}

fn files(issued: Issued, trusted: String) -> Data {
    let texts = [(CERTIFICATE, issued.certificate), (KEY, issued.key), (TRUSTED, trusted)];
    texts.into_iter().map(|(name, text)| (name.to_owned(), ByteString(text.into_bytes()))).collect()
}

/// Replaces exactly the Secret that was seen, or creates it where there was none.
async fn put(secrets: &Api<Secret>, name: &str, seen: &Seen, data: Data) -> Result<Secret, kube::Error> {
    let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
    match seen {
        Seen::Present(found) => {
            let secret = Secret { data: Some(data), ..Secret::clone(found) };
            secrets.replace(name, &params, &secret).await
        }
        Seen::Absent | Seen::Unknown => {
            let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
            let type_ = Some("kubernetes.io/tls".to_owned());
            secrets.create(&params, &Secret { metadata, type_, data: Some(data), ..Secret::default() }).await
        }
    }
}

fn log(write: &Write, name: &str) {
    match write {
        Write::Authority(why, _) => {
            tracing::info!(
                "the authority of the webhook's certificate, in the Secret {name}, is new: {}",
                why.text()
            );
        }
        Write::Serving(why) => {
            tracing::info!("the webhook's certificate, in the Secret {name}, is new: {}", why.text());
        }
        Write::Trusted(former) => {
            tracing::info!(former = former.len(), "the Secret {name} lists the authorities that are trusted");
        }
        Write::Beside => {
            tracing::info!("the Secret {name} holds the authorities that are trusted, and nothing else");
        }
    }
}
