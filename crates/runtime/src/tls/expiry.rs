//! When a certificate expires: the one field of X.509 that this program looks at.
//!
//! Reads just enough DER to reach `notAfter`; it verifies nothing.

const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// The end of a certificate's validity, in seconds since 1970; `None` if it cannot be read.
pub(super) fn not_after(certificate: &[u8]) -> Option<i64> {
    let (_, certificate, _) = element(certificate, Some(SEQUENCE))?;
    let (_, mut fields, _) = element(certificate, Some(SEQUENCE))?;
    if fields.first() == Some(&VERSION) {
        (_, _, fields) = element(fields, None)?;
    }
    // Serial number, signature algorithm, issuer.
    for _ in 0..3 {
        (_, _, fields) = element(fields, None)?;
    }
    let (_, validity, _) = element(fields, Some(SEQUENCE))?;
    let (_, _, validity) = element(validity, None)?;
    let (tag, time, _) = element(validity, None)?;
    seconds(tag, std::str::from_utf8(time).ok()?)
}

/// Splits off one DER element: its tag, its content, and what follows it.
fn element(input: &[u8], expected: Option<u8>) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = input.split_first()?;
    if expected.is_some_and(|expected| expected != tag) {
        return None;
    }
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = if first < 0x80 {
        (usize::from(first), rest)
    } else {
        let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
        if bytes.is_empty() || bytes.len() > 4 {
            return None;
        }
        let length = bytes.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
        (length, rest)
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

/// Reads `YYMMDDHHMMSSZ` or `YYYYMMDDHHMMSSZ`, the two forms that RFC 5280 allows.
fn seconds(tag: u8, text: &str) -> Option<i64> {
    let digits = text.strip_suffix('Z')?;
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (year, rest) = match (tag, digits.len()) {
        (UTC_TIME, 12) => {
            let year: i16 = digits[..2].parse().ok()?;
            (if year < 50 { 2000 + year } else { 1900 + year }, &digits[2..])
        }
        (GENERALIZED_TIME, 14) => (digits[..4].parse().ok()?, &digits[4..]),
        _ => return None,
    };
    let part = |index: usize| rest[index..index + 2].parse::<i8>().ok();
    let date_time =
        k8s_openapi::jiff::civil::DateTime::new(year, part(0)?, part(2)?, part(4)?, part(6)?, part(8)?, 0);
    let zoned = date_time.ok()?.to_zoned(k8s_openapi::jiff::tz::TimeZone::UTC);
    Some(zoned.ok()?.timestamp().as_second())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_time() {
        let table = [
            (UTC_TIME, "700101000000Z", Some(0)),
            (UTC_TIME, "491231235959Z", Some(2_524_607_999)),
            (UTC_TIME, "240229120000Z", Some(1_709_208_000)),
            (GENERALIZED_TIME, "20500101000000Z", Some(2_524_608_000)),
            (GENERALIZED_TIME, "99991231235959Z", None),
            (GENERALIZED_TIME, "20230229120000Z", None),
            (UTC_TIME, "20500101000000Z", None),
            (UTC_TIME, "7001010000Z", None),
            (UTC_TIME, "70010100000+Z", None),
            (0x02, "700101000000Z", None),
        ];
        for (tag, text, expected) in table {
            assert_eq!(seconds(tag, text), expected, "{tag:#x} {text}");
        }
    }

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
