//! Issues keys and certificates: ECDSA with P-256, which every Kubernetes component can verify.

use std::time::Duration;

use rcgen::{
    CertificateParams, DistinguishedName, DnType, Error, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};

use super::decide::BACKDATED;

const SERVER_NAME: &str = "hns-webhook";

/// A certificate with its key, both PEM.
pub(super) struct Issued {
    pub(super) certificate: String,
    pub(super) key: String,
}

/// A self-signed server certificate for these names. It cannot sign other certificates.
pub(super) fn self_signed(names: &[String], now: i64, validity: i64) -> Result<Issued, Error> {
    let since_1970 = |seconds: i64| {
        date_time_ymd(1970, 1, 1) + Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
    };
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, SERVER_NAME);
    params.is_ca = IsCa::ExplicitNoCa;
    params.not_before = since_1970(now - BACKDATED);
    params.not_after = since_1970(now.saturating_add(validity));
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    Ok(Issued { certificate: certificate.pem(), key: key.serialize_pem() })
}
