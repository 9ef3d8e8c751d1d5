//! The expiry of a certificate. Verifies nothing.

/// The end of a certificate's validity, in seconds since 1970; `None` if it cannot be read.
pub(super) fn not_after(certificate: &[u8]) -> Option<i64> {
    let (_, certificate) = x509_parser::parse_x509_certificate(certificate).ok()?;
    Some(certificate.validity().not_after.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_real_certificates() {
        let key = rcgen::KeyPair::generate().unwrap();
        for (year, expected) in [(2030, 1_893_456_000), (2075, 3_313_526_400)] {
            let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
            params.not_after = rcgen::date_time_ymd(year, 1, 1);
            let certificate = params.self_signed(&key).unwrap();
            assert_eq!(not_after(certificate.der()), Some(expected));
        }
    }

    #[test]
    fn a_truncated_certificate_has_no_expiry_and_does_no_harm() {
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let der = certificate.der();
        assert!(not_after(der).is_some());
        for length in 0..der.len() {
            assert_eq!(not_after(&der[..length]), None);
        }
    }
}
