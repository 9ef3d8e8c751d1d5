//! Which clients may connect: those with a certificate of a given authority and one of the given names.
//!
//! The authority's file is followed like the serving certificate. Existing connections are not affected.

#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, convert::Infallible, fmt, path::Path, sync::Arc, time::Duration};

use arc_swap::ArcSwapOption;
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    crypto::{WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, UnixTime, pem::PemObject as _},
    server::{
        WebPkiClientVerifier,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
};
use tokio::sync::watch;
use x509_parser::{extensions::GeneralName, parse_x509_certificate};

use super::directory::{LOOK_EVERY, follow};
use hns_cluster::readiness::Condition;

/// The authority that signs the certificates of clients, and their allowed names.
///
/// Until an authority is loaded no handshake succeeds. A loaded authority is used until a newer one is loaded.
pub struct ClientAuthority {
    names: BTreeSet<String>,
    current: ArcSwapOption<Roots>,
    loaded: watch::Sender<bool>,
    algorithms: WebPkiSupportedAlgorithms,
}

/// Verifies a chain of certificates.
struct Roots(Arc<dyn ClientCertVerifier>);

impl fmt::Debug for ClientAuthority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientAuthority").field("names", &self.names).finish_non_exhaustive()
    }
}

impl ClientAuthority {
    /// An authority that is not loaded yet: run [`ClientAuthority::follow_file`] for that. A certificate needs one of `names` as
    /// its common name or among its DNS names.
    pub fn new(names: impl IntoIterator<Item = String>) -> Arc<Self> {
        Arc::new(Self {
            names: names.into_iter().collect(),
            current: ArcSwapOption::empty(),
            loaded: watch::Sender::new(false),
            algorithms: ring::default_provider().signature_verification_algorithms,
        })
    }

    /// Loads the authority from a file (PEM, one certificate or several), and loads it again whenever the file changes.
    /// `condition` holds from the first one loaded. Never returns; drop the future to stop.
    pub async fn follow_file(&self, file: &Path, condition: Condition) -> Infallible {
        self.follow_every(LOOK_EVERY, file, condition).await
    }

    pub(super) async fn follow_every(
        &self,
        period: Duration,
        file: &Path,
        condition: Condition,
    ) -> Infallible {
        let path = file.to_owned();
        let read = move || std::fs::read(&path).map_err(|error| error.to_string());
        follow(period, read, |found| {
            let loaded = found.map_err(str::to_owned).and_then(|pem| self.load(pem));
            let file = file.display();
            match loaded {
                Ok(count) => {
                    self.loaded.send_replace(true);
                    tracing::info!(%file, authorities = count, names = ?self.names, "authority of clients loaded");
                    condition.ready();
                }
                Err(reason) if self.current.load().is_some() => {
                    tracing::warn!(%file, reason, "authority of clients not loaded; the former one stays");
                }
                Err(reason) => {
                    tracing::warn!(%file, reason, "no authority of clients yet");
                    condition.not_ready(format!("{file}: {reason}"));
                }
            }
        })
        .await
    }

    /// Waits until an authority is loaded. Bind the socket only then.
    pub async fn loaded(&self) {
        let mut loaded = self.loaded.subscribe();
        // Cannot fail: `self` keeps the sender.
        let _ = loaded.wait_for(|loaded| *loaded).await;
    }

    /// Uses it from now on; returns how many certificates it has.
    fn load(&self, pem: &[u8]) -> Result<usize, String> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|error| error.to_string())?;
            roots.add(certificate).map_err(|error| error.to_string())?;
        }
        let count = roots.len();
        if count == 0 {
            return Err("no certificate in it".to_owned());
        }
        let provider = Arc::new(ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
        self.current.store(Some(Arc::new(Roots(verifier.map_err(|error| error.to_string())?))));
        Ok(count)
    }

    fn is_allowed(&self, certificate: &CertificateDer<'_>) -> bool {
        let Ok((_, certificate)) = parse_x509_certificate(certificate) else { return false };
        let common = certificate.subject().iter_common_name().filter_map(|name| name.as_str().ok());
        let alternatives = certificate.subject_alternative_name().ok().flatten();
        let dns =
            alternatives.iter().flat_map(|names| &names.value.general_names).filter_map(|name| match name {
                GeneralName::DNSName(name) => Some(*name),
                _ => None,
            });
        common.chain(dns).any(|name| self.names.contains(name))
    }
}

impl ClientCertVerifier for ClientAuthority {
    /// Empty: a client then sends its certificate without checking its authority against a list, which may be out of date.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let current = self.current.load_full();
        let Some(roots) = current else { return Err(CertificateError::UnknownIssuer.into()) };
        let verified = roots.0.verify_client_cert(end_entity, intermediates, now)?;
        if self.is_allowed(end_entity) {
            Ok(verified)
        } else {
            Err(CertificateError::ApplicationVerificationFailure.into())
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
