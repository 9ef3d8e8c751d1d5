//! Parses certificates. Fields that cannot be parsed count as absent.

use std::collections::BTreeSet;

use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::parse_x509_certificate;

/// A parsed certificate. Times are in seconds since 1970.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Certificate {
    der: Vec<u8>,
    pub(super) not_before: i64,
    pub(super) not_after: i64,
    /// Whether it may sign other certificates.
    pub(super) is_authority: bool,
    /// Whether a server may use it.
    pub(super) is_for_servers: bool,
    /// The host names that it is valid for.
    pub(super) names: BTreeSet<String>,
}

impl Certificate {
    /// The certificates of a PEM text, in order, without those that cannot be parsed.
    pub(super) fn all(pem: &[u8]) -> Vec<Self> {
        CertificateDer::pem_slice_iter(pem).filter_map(|der| Self::read(&der.ok()?)).collect()
    }

    fn read(der: &[u8]) -> Option<Self> {
        let (rest, certificate) = parse_x509_certificate(der).ok()?;
        let validity = certificate.validity();
        let usage = certificate.extended_key_usage().ok()?;
        rest.is_empty().then_some(())?;
        Some(Self {
            der: der.to_owned(),
            not_before: validity.not_before.timestamp(),
            not_after: validity.not_after.timestamp(),
            is_authority: certificate.is_ca(),
            is_for_servers: usage.is_none_or(|usage| usage.value.server_auth || usage.value.any),
            names: names(&certificate),
        })
    }

    /// As PEM text.
    pub(super) fn pem(&self) -> String {
        let config = pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF);
        pem::encode_config(&pem::Pem::new("CERTIFICATE", self.der.clone()), config)
    }

    /// Whether that certificate is this one, self-signed, or an authority that has signed it.
    pub(super) fn is_signed_by(&self, other: &Self) -> bool {
        let parsed = (parse_x509_certificate(&self.der), parse_x509_certificate(&other.der));
        let (Ok((_, own)), Ok((_, theirs))) = parsed else { return false };
        (other.is_authority || other == self)
            && own.issuer().as_raw() == theirs.subject().as_raw()
            && own.verify_signature(Some(theirs.public_key())).is_ok()
    }

    /// Whether this key (PEM) belongs to it, and can be used.
    pub(super) fn has_key(&self, key: &[u8]) -> bool {
        let Ok(key) = PrivateKeyDer::from_pem_slice(key) else { return false };
        let chain = vec![CertificateDer::from(self.der.clone())];
        CertifiedKey::from_der(chain, key, &default_provider()).is_ok()
    }
}

/// Leaves out the bytes.
impl std::fmt::Debug for Certificate {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Certificate")
            .field("not_before", &self.not_before)
            .field("not_after", &self.not_after)
            .field("is_authority", &self.is_authority)
            .field("names", &self.names)
            .finish_non_exhaustive()
    }
}

fn names(certificate: &X509Certificate<'_>) -> BTreeSet<String> {
    let alternatives = certificate.subject_alternative_name().ok().flatten();
    let names = alternatives.iter().flat_map(|extension| &extension.value.general_names);
    names
        .filter_map(|name| match name {
            GeneralName::DNSName(name) => Some((*name).to_owned()),
            _ => None,
        })
        .collect()
}
