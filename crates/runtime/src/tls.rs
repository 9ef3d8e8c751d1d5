//! The serving certificate: read from a directory or a Secret, watched there, presented to new connections.
//!
//! Creates no certificate, and checks only whether the key belongs to it. Existing connections are not affected. Client
//! certificates are verified in `clients`.

mod clients;
mod directory;
mod expiry;
mod secret;

#[cfg(test)]
pub(crate) mod tests;

use std::{io, sync::Arc};

use arc_swap::ArcSwapOption;
use prometheus::{IntGauge, Registry};
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::{ClientHello, NoServerSessionStorage, ResolvesServerCert, WebPkiClientVerifier},
    sign::CertifiedKey,
};
use tokio::sync::watch;

pub use self::clients::ClientAuthority;
use hns_cluster::readiness::Condition;

/// A certificate as `tls.crt` (a chain, the server's own first) and `tls.key`.
///
/// Until a pair is loaded no handshake succeeds. A loaded pair is used until a newer one is loaded.
#[derive(Debug)]
pub struct ServingCertificate {
    current: ArcSwapOption<CertifiedKey>,
    loaded: watch::Sender<bool>,
    not_after: IntGauge,
}

/// When the first certificate of a PEM text expires, in seconds since 1970; `None` if it cannot be read.
pub fn not_after(pem: &[u8]) -> Option<i64> {
    expiry::not_after(&CertificateDer::from_pem_slice(pem).ok()?)
}

/// Why there is no certificate that can be served.
#[derive(Debug, thiserror::Error)]
enum LoadError {
    #[error("{0}: {1}")]
    Read(&'static str, #[source] io::Error),
    #[error("there is no {0}")]
    Missing(&'static str),
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
    /// A certificate that is not loaded yet: run [`ServingCertificate::follow_directory`] or
    /// [`ServingCertificate::follow_secret`] for that.
    ///
    /// # Errors
    /// The metric's name is taken in `registry`.
    pub fn new(registry: &Registry) -> prometheus::Result<Arc<Self>> {
        let not_after = IntGauge::new(
            "hns_serving_certificate_not_after_seconds",
            "When the certificate being served expires, in seconds since 1970; 0 if unknown.",
        )?;
        registry.register(Box::new(not_after.clone()))?;
        Ok(Arc::new(Self { current: ArcSwapOption::empty(), loaded: watch::Sender::new(false), not_after }))
    }

    /// TLS settings of a server for HTTP/1.1, which presents the current certificate in each handshake. With `clients`, a client
    /// needs a certificate of that authority.
    ///
    /// # Errors
    /// The TLS library does not support its own protocol versions.
    pub fn server_config(
        self: &Arc<Self>,
        clients: Option<&Arc<ClientAuthority>>,
    ) -> Result<Arc<ServerConfig>, rustls::Error> {
        let resolver: Arc<dyn ResolvesServerCert> = self.clone();
        let provider = Arc::new(ring::default_provider());
        let verifier = match clients {
            Some(clients) => clients.clone(),
            None => WebPkiClientVerifier::no_client_auth(),
        };
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(resolver);
        if clients.is_some() {
            // A session that is resumed is not verified again.
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    /// Waits until a certificate is loaded. Bind the socket only then.
    pub async fn loaded(&self) {
        let mut loaded = self.loaded.subscribe();
        // Cannot fail: `self` keeps the sender.
        let _ = loaded.wait_for(|loaded| *loaded).await;
    }

    /// Call it once for each change at `origin`: what has been logged is not repeated. `condition` holds from the first
    /// certificate loaded.
    fn take(&self, found: Result<&Files, &str>, origin: &str, condition: &Condition) {
        let loaded = found
            .map_err(str::to_owned)
            .and_then(|files| self.load(files).map_err(|error| error.to_string()));
        match loaded {
            Ok(not_after) => {
                let again = self.loaded.send_replace(true);
                let not_after = not_after.and_then(timestamp);
                tracing::info!(origin, not_after, again, "serving certificate loaded");
                condition.ready();
            }
            Err(reason) if self.current.load().is_some() => {
                tracing::warn!(origin, reason, "serving certificate not loaded; the former one stays");
            }
            Err(reason) => {
                tracing::warn!(origin, reason, "no serving certificate yet");
                condition.not_ready(format!("{origin}: {reason}"));
            }
        }
    }

    /// Uses it for new connections from now on; returns its expiry.
    fn load(&self, files: &Files) -> Result<Option<i64>, LoadError> {
        let key = parse(files)?;
        let not_after = key.cert.first().and_then(|leaf| expiry::not_after(leaf));
        self.not_after.set(not_after.unwrap_or(0));
        self.current.store(Some(Arc::new(key)));
        Ok(not_after)
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
