//! Making keys and certificates: ECDSA on P-256, as everything that Kubernetes runs with can verify. Decides nothing.

use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, Error, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, date_time_ymd,
};

use super::decide::{Authority, BACKDATED};

const AUTHORITY_NAME: &str = "hns-webhook-authority";
const SERVER_NAME: &str = "hns-webhook";

/// A certificate with its key, both PEM.
pub(super) struct Issued {
    pub(super) certificate: String,
    pub(super) key: String,
}

/// A new authority, which may sign servers and no further authorities.
pub(super) fn authority(now: i64, validity: i64) -> Result<Issued, Error> {
    let mut params = params(AUTHORITY_NAME, now, now.saturating_add(validity));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign];
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    Ok(Issued { certificate: certificate.pem(), key: key.serialize_pem() })
}

/// A certificate for a server of these names. It ends with its authority at the latest.
pub(super) fn serving(
    authority: &Authority,
    names: &[String],
    now: i64,
    validity: i64,
) -> Result<Issued, Error> {
    let not_after = now.saturating_add(validity).min(authority.certificate.not_after);
    let mut params = params(SERVER_NAME, now, not_after);
    params.subject_alt_names = CertificateParams::new(names)?.subject_alt_names;
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let issuer = Issuer::from_ca_cert_pem(&authority.certificate.pem(), KeyPair::from_pem(&authority.key)?)?;
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, &issuer)?;
    Ok(Issued { certificate: certificate.pem(), key: key.serialize_pem() })
}

fn params(name: &str, now: i64, not_after: i64) -> CertificateParams {
    let since_1970 = |seconds: i64| {
        date_time_ymd(1970, 1, 1) + Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
    };
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = since_1970(now - BACKDATED);
    params.not_after = since_1970(not_after);
    params
}
