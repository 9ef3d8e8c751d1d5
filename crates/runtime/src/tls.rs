//! The serving certificate: read from a directory, followed there, given to new connections.
//!
//! It makes no certificate, judges none beyond "does the key belong to it", and never disturbs a
//! connection that exists.

mod expiry;

#[cfg(test)]
pub(crate) mod tests;

use std::{
    convert::Infallible,
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use arc_swap::ArcSwapOption;
use prometheus::{IntGauge, Registry};
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use tokio::{sync::watch, time::MissedTickBehavior};

use crate::readiness::Condition;

/// How often the directory is looked at. The files are compared by content: the kubelet replaces
/// them by switching a symbolic link, which file notifications follow only once.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The certificate in a directory, as `tls.crt` (a chain, the server's own first) and `tls.key`.
///
/// Without a loadable pair no handshake succeeds; once one was loaded, it serves until a newer
/// loadable one takes its place.
#[derive(Debug)]
pub struct ServingCertificate {
    directory: PathBuf,
    current: ArcSwapOption<CertifiedKey>,
    loaded: watch::Sender<bool>,
    not_after: IntGauge,
}

/// When the first certificate of a PEM text expires, in seconds since 1970; `None` if it cannot be read.
pub fn not_after(pem: &[u8]) -> Option<i64> {
    expiry::not_after(&CertificateDer::from_pem_slice(pem).ok()?)
}

/// Why a directory holds no certificate that can be served.
#[derive(Debug, thiserror::Error)]
enum LoadError {
    #[error("{0}: {1}")]
    Read(&'static str, #[source] io::Error),
    #[error("{0}: {1}")]
    Parse(&'static str, #[source] rustls::pki_types::pem::Error),
    #[error("{0}: no certificate in it")]
    Empty(&'static str),
    #[error("{0} and {1}: {2}")]
    Pair(&'static str, &'static str, #[source] rustls::Error),
}

const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";

#[derive(Debug, PartialEq, Eq)]
struct Files {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl ServingCertificate {
    /// A certificate that is not loaded yet: run [`ServingCertificate::follow`] for that.
    ///
    /// # Errors
    /// The metric's name is taken in `registry`.
    pub fn new(directory: PathBuf, registry: &Registry) -> prometheus::Result<Arc<Self>> {
        let not_after = IntGauge::new(
            "hns_serving_certificate_not_after_seconds",
            "When the certificate being served expires, in seconds since 1970; 0 if unknown.",
        )?;
        registry.register(Box::new(not_after.clone()))?;
        Ok(Arc::new(Self {
            directory,
            current: ArcSwapOption::empty(),
            loaded: watch::Sender::new(false),
            not_after,
        }))
    }

    /// A server's TLS settings, with whatever certificate is current at each handshake, for HTTP/2
    /// and HTTP/1.1.
    ///
    /// # Errors
    /// The TLS library offers none of its own protocol versions.
    pub fn server_config(self: &Arc<Self>) -> Result<Arc<ServerConfig>, rustls::Error> {
        let resolver: Arc<dyn ResolvesServerCert> = self.clone();
        let provider = Arc::new(ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(resolver);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    /// Waits until a certificate is loaded. Bind the socket only then.
    pub async fn loaded(&self) {
        let mut loaded = self.loaded.subscribe();
        // Cannot fail: `self` keeps the sender.
        let _ = loaded.wait_for(|loaded| *loaded).await;
    }

    /// Loads the certificate, and loads it again whenever the files change. `condition` holds from
    /// the first one loaded. Never returns; dropping it stops the following.
    pub async fn follow(&self, condition: Condition) -> Infallible {
        self.follow_every(LOOK_EVERY, condition).await
    }

    async fn follow_every(&self, period: Duration, condition: Condition) -> Infallible {
        let mut ticks = tokio::time::interval(period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut seen: Option<Result<Files, String>> = None;
        loop {
            ticks.tick().await;
            let directory = self.directory.clone();
            // A network file system may keep this waiting.
            let read = tokio::task::spawn_blocking(move || read(&directory)).await;
            let found = match read {
                Ok(files) => files.map_err(|error| error.to_string()),
                Err(error) => Err(error.to_string()),
            };
            if seen.as_ref() == Some(&found) {
                continue;
            }
            let loaded = found
                .as_ref()
                .map_err(Clone::clone)
                .and_then(|files| self.load(files).map_err(|error| error.to_string()));
            match loaded {
                Ok(()) => condition.ready(),
                Err(reason) => self.refused(&reason, &condition),
            }
            seen = Some(found);
        }
    }

    fn load(&self, files: &Files) -> Result<(), LoadError> {
        let key = parse(files)?;
        let not_after = key.cert.first().and_then(|leaf| expiry::not_after(leaf));
        self.not_after.set(not_after.unwrap_or(0));
        self.current.store(Some(Arc::new(key)));
        let again = self.loaded.send_replace(true);
        tracing::info!(
            directory = %self.directory.display(),
            not_after = not_after.and_then(timestamp),
            again,
            "serving certificate loaded"
        );
        Ok(())
    }

    /// Reached once for each change of the files: what has been logged is not repeated.
    fn refused(&self, reason: &str, condition: &Condition) {
        let directory = self.directory.display();
        if self.current.load().is_some() {
            tracing::warn!(%directory, reason, "serving certificate not loaded; the former one stays");
        } else {
            tracing::warn!(%directory, reason, "no serving certificate yet");
            condition.not_ready(format!("{directory}: {reason}"));
        }
    }
}

impl ResolvesServerCert for ServingCertificate {
    fn resolve(&self, _client_hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.current.load_full()
    }
}

fn timestamp(seconds: i64) -> Option<String> {
    let time = k8s_openapi::jiff::Timestamp::from_second(seconds).ok()?;
    Some(time.to_string())
}

fn read(directory: &Path) -> Result<Files, LoadError> {
    let file = |name| std::fs::read(directory.join(name)).map_err(|error| LoadError::Read(name, error));
    let mut certificate = file(CERTIFICATE)?;
    // The directory may be switched between two reads; a pair from both sides of the switch would
    // be refused, and reported, for no reason.
    for _ in 0..3 {
        let key = file(KEY)?;
        let again = file(CERTIFICATE)?;
        if again == certificate {
            return Ok(Files { certificate, key });
        }
        certificate = again;
    }
    let key = file(KEY)?;
    Ok(Files { certificate, key })
}

fn parse(files: &Files) -> Result<CertifiedKey, LoadError> {
    let chain = CertificateDer::pem_slice_iter(&files.certificate)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| LoadError::Parse(CERTIFICATE, error))?;
    if chain.is_empty() {
        return Err(LoadError::Empty(CERTIFICATE));
    }
    let key = PrivateKeyDer::from_pem_slice(&files.key).map_err(|error| LoadError::Parse(KEY, error))?;
    CertifiedKey::from_der(chain, key, &ring::default_provider())
        .map_err(|error| LoadError::Pair(CERTIFICATE, KEY, error))
}
