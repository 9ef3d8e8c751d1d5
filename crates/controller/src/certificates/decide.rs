//! Which step does the webhook's certificate need next? Pure: the same observation gives the same decision.
//!
//! The certificate is self-signed, and API servers trust exactly this certificate. A replacement takes four steps, in an order in
//! which no request fails:
//!
//! 1. issue the next certificate, and keep it in memory;
//! 2. add it to all registrations, beside the current one;
//! 3. replace the current one in the Secret;
//! 4. after the overlap, remove the former one from the registrations.
//!
//! The decision depends on the state of the cluster, so that another replica can continue at any step. A new leader has no next
//! certificate in memory, and issues another one.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::ByteString;

use super::x509::Certificate;

/// The data of a Secret.
pub(super) type Data = BTreeMap<String, ByteString>;

pub(super) const CERTIFICATE: &str = "tls.crt";
pub(super) const KEY: &str = "tls.key";
/// The trusted certificates, the current one first.
pub(super) const TRUSTED: &str = "ca.crt";

/// A certificate is valid from this time before it was issued, in seconds, because clocks differ.
pub(super) const BACKDATED: i64 = 5 * 60;
/// How long API servers may take to load changed registrations.
pub(super) const REGISTRATION_DELAY: Duration = Duration::from_secs(10);
/// Without a usable certificate in the Secret, replicas may still serve the former one from memory. The next certificate waits for
/// the registrations up to this time, in seconds.
const REGISTRATION_TIMEOUT: i64 = 30;
/// The greatest age of the next certificate when it is first used, in seconds. The overlap counts from its issue.
const MAX_UNUSED_AGE: i64 = 3600;

/// The requirements for certificates. Times are in seconds.
#[derive(Clone, Debug)]
pub(super) struct Requirements {
    /// The host names of the webhook.
    pub(super) names: Vec<String>,
    pub(super) validity: i64,
    /// How long a former certificate is trusted.
    pub(super) overlap: i64,
}

/// The observed state.
#[derive(Clone, Copy, Debug)]
pub(super) struct Observed<'a> {
    /// The data of the webhook's Secret, if the Secret exists.
    pub(super) serving: Option<&'a Data>,
    /// The certificate that this process has issued and not written yet.
    pub(super) next: Option<&'a Certificate>,
    /// The last certificate in the Secret that this program issued, if this process has seen one.
    pub(super) last_own: Option<&'a Certificate>,
    /// The certificates that this process last trusted.
    pub(super) last_trusted: &'a [Certificate],
    /// The certificates in the registrations.
    pub(super) registered: &'a Registered,
    /// How long the registrations have had these certificates.
    pub(super) registered_for: Duration,
}

/// The certificates in our entries of all registrations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Registered {
    /// Unknown, or not the same in all entries.
    #[default]
    Unclear,
    /// No entry exists.
    Nowhere,
    /// All entries have this PEM text.
    Everywhere(Vec<u8>),
}

/// The next step, and the certificates to trust.
#[derive(Debug, PartialEq)]
pub(super) struct Decision {
    /// The certificates that registrations should trust, the newest first. `None` if none exists.
    pub(super) trusted: Option<Vec<Certificate>>,
    /// The next step; decide again after it.
    pub(super) step: Option<Step>,
    /// When to decide again at the latest, in seconds since 1970.
    pub(super) next_check: i64,
}

#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// Issue the next certificate and keep it in memory.
    Issue,
    /// Write the next certificate, with these trusted certificates.
    Serve(Cause, Vec<Certificate>),
    /// Write the last own certificate again, with these trusted certificates.
    Restore(Cause, Vec<Certificate>),
    /// Keep the certificate, and write these trusted certificates.
    UpdateTrusted(Vec<Certificate>),
}

/// Why the certificate is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    Missing,
    /// `tls.crt` or `tls.key` is missing or empty.
    Incomplete,
    Unreadable,
    /// It is not a server certificate.
    Unsuitable,
    WrongKey,
    WrongNames,
    Expired,
    /// It expires soon.
    Due,
    /// No trusted certificate signed it.
    Unsigned,
    /// A CA signed it: that of HNC or of an earlier version.
    SignedByCa,
}

impl Cause {
    /// As the end of a sentence.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Missing => "it did not exist",
            Self::Incomplete => "the Secret was incomplete",
            Self::Unreadable => "it could not be parsed",
            Self::Unsuitable => "it was not a server certificate",
            Self::WrongKey => "the key did not match it",
            Self::WrongNames => "it was for other host names",
            Self::Expired => "it had expired or was not valid yet",
            Self::Due => "it would have expired soon",
            Self::Unsigned => "no trusted certificate had signed it",
            Self::SignedByCa => "a CA had signed it",
        }
    }
}

pub(super) fn decide(observed: &Observed<'_>, now: i64, requirements: &Requirements) -> Decision {
    match serving_certificate(observed.serving, requirements, now) {
        Ok(current) if current.is_signed_by(&current) => with_own(observed, &current, requirements, now),
        Ok(current) => {
            let signers: Vec<_> =
                known_trusted(observed, now).into_iter().filter(|it| current.is_signed_by(it)).collect();
            if signers.is_empty() {
                return with_damaged(observed, Cause::Unsigned, now, requirements);
            }
            replace(observed, Cause::SignedByCa, &signers, now)
        }
        Err(cause) => with_damaged(observed, cause, now, requirements),
    }
}

/// The certificate in the Secret, if this program issued it and it can be served.
pub(super) fn own_certificate(
    serving: Option<&Data>,
    requirements: &Requirements,
    now: i64,
) -> Option<Certificate> {
    serving_certificate(serving, requirements, now).ok().filter(|it| it.is_signed_by(it))
}

/// The decision for a damaged Secret. A deleted Secret means that the user wants a new certificate.
fn with_damaged(observed: &Observed<'_>, cause: Cause, now: i64, requirements: &Requirements) -> Decision {
    let is_usable =
        |own: &&Certificate| cause != Cause::Missing && now < own.not_after - requirements.validity / 3;
    let Some(own) = observed.last_own.filter(is_usable) else {
        return replace(observed, cause, &known_trusted(observed, now), now);
    };
    let trusted = prepend(own, &valid(observed.last_trusted.to_vec(), Some(own), now));
    Decision {
        trusted: Some(trusted.clone()),
        step: Some(Step::Restore(cause, trusted)),
        next_check: now + 1,
    }
}

/// The decision for a usable certificate of our own.
fn with_own(
    observed: &Observed<'_>,
    current: &Certificate,
    requirements: &Requirements,
    now: i64,
) -> Decision {
    let issued_at = current.not_before + BACKDATED;
    let due = current.not_after - requirements.validity / 3;
    let former = former(observed, current, now);
    let trusted = prepend(current, &former);
    if now >= due {
        return replace(observed, Cause::Due, &trusted, now);
    }
    let is_overlap_over = now >= issued_at + requirements.overlap;
    let kept = if is_overlap_over { vec![current.clone()] } else { trusted };
    let stored = observed.serving.and_then(|data| data.get(TRUSTED)).map(|bytes| bytes.0.as_slice());
    let differs =
        stored != Some(bundle(&kept).as_bytes()) || observed.serving.is_some_and(|data| data.len() > 3);
    let ends = kept.iter().skip(1).map(|it| it.not_after.min(issued_at + requirements.overlap));
    Decision {
        next_check: ends.chain([due]).min().unwrap_or(due).max(now + 1),
        step: differs.then(|| Step::UpdateTrusted(kept.clone())),
        trusted: Some(kept),
    }
}

/// The decision for a certificate that must be replaced, while the former ones stay trusted. The next one must be in the
/// registrations first.
fn replace(observed: &Observed<'_>, cause: Cause, former: &[Certificate], now: i64) -> Decision {
    let next_check = now + 1;
    let is_fresh =
        |next: &&Certificate| now < next.not_before + BACKDATED + MAX_UNUSED_AGE && is_valid(next, now);
    let Some(next) = observed.next.filter(is_fresh) else {
        let trusted = (!former.is_empty()).then(|| former.to_vec());
        return Decision { trusted, step: Some(Step::Issue), next_check };
    };
    let trusted = prepend(next, &valid(former.to_vec(), Some(next), now));
    let is_usable = matches!(cause, Cause::Due | Cause::SignedByCa);
    let ready = former.is_empty()
        || is_registered(observed, &trusted)
        || (!is_usable && now >= next.not_before + BACKDATED + REGISTRATION_TIMEOUT);
    let step = ready.then(|| Step::Serve(cause, trusted.clone()));
    Decision { trusted: Some(trusted), step, next_check }
}

/// Whether API servers trust exactly these certificates.
fn is_registered(observed: &Observed<'_>, trusted: &[Certificate]) -> bool {
    match observed.registered {
        Registered::Unclear => false,
        Registered::Nowhere => true,
        Registered::Everywhere(text) => {
            text == bundle(trusted).as_bytes() && observed.registered_for >= REGISTRATION_DELAY
        }
    }
}

/// The certificate in the Secret, if it can be served. Any issuer counts.
fn serving_certificate(
    data: Option<&Data>,
    requirements: &Requirements,
    now: i64,
) -> Result<Certificate, Cause> {
    let data = data.ok_or(Cause::Missing)?;
    let content = |name| data.get(name).map(|bytes| bytes.0.as_slice()).filter(|it| !it.is_empty());
    let (Some(certificate), Some(key)) = (content(CERTIFICATE), content(KEY)) else {
        return Err(Cause::Incomplete);
    };
    let certificate = Certificate::all(certificate).into_iter().next().ok_or(Cause::Unreadable)?;
    if !certificate.has_key(key) {
        return Err(Cause::WrongKey);
    }
    if !is_valid(&certificate, now) {
        return Err(Cause::Expired);
    }
    if certificate.is_authority || !certificate.is_for_servers {
        return Err(Cause::Unsuitable);
    }
    // A certificate of HNC need not have all names, only the one that API servers use.
    match requirements.names.first() {
        Some(name) if !certificate.names.contains(name) => Err(Cause::WrongNames),
        _ => Ok(certificate),
    }
}

fn is_valid(certificate: &Certificate, now: i64) -> bool {
    certificate.not_before <= now + BACKDATED && now < certificate.not_after
}

/// The trusted certificates other than the current one.
fn former(observed: &Observed<'_>, current: &Certificate, now: i64) -> Vec<Certificate> {
    let listed = listed(observed.serving);
    // A list without the current certificate is damaged, and may be incomplete.
    let all = if listed.contains(current) { listed } else { observed.last_trusted.to_vec() };
    valid(all, Some(current), now)
}

/// The certificates that this process last trusted, or else those in the Secret.
fn known_trusted(observed: &Observed<'_>, now: i64) -> Vec<Certificate> {
    let all = if observed.last_trusted.is_empty() {
        listed(observed.serving)
    } else {
        observed.last_trusted.to_vec()
    };
    valid(all, observed.next, now)
}

fn listed(data: Option<&Data>) -> Vec<Certificate> {
    let text = data.and_then(|data| data.get(TRUSTED));
    text.map(|text| Certificate::all(&text.0)).unwrap_or_default()
}

/// The valid certificates, without duplicates and without the given one.
fn valid(all: Vec<Certificate>, without: Option<&Certificate>, now: i64) -> Vec<Certificate> {
    let mut result: Vec<Certificate> = Vec::new();
    for certificate in all {
        if is_valid(&certificate, now) && Some(&certificate) != without && !result.contains(&certificate) {
            result.push(certificate);
        }
    }
    result
}

fn prepend(current: &Certificate, former: &[Certificate]) -> Vec<Certificate> {
    [std::slice::from_ref(current), former].concat()
}

/// One PEM text of all certificates.
pub(super) fn bundle(certificates: &[Certificate]) -> String {
    certificates.iter().map(Certificate::pem).collect()
}

#[cfg(test)]
mod tests;
