//! What is written next, given what the Secret of the webhook's certificate holds. Pure: the same facts give the same decision.
//!
//! The certificate is self-signed, and API servers trust exactly that certificate. The order of a change is what keeps every
//! request answered: first the next certificate is made and kept in memory, then all registrations name it beside the present
//! one, then it replaces the present one in the Secret, and only long after that the former one is removed from the
//! registrations. Each step is read off the cluster, so that another replica can go on anywhere; one that finds no next
//! certificate makes another one, which nothing serves yet.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::ByteString;

use super::x509::Certificate;

/// What a Secret holds.
pub(super) type Data = BTreeMap<String, ByteString>;

pub(super) const CERTIFICATE: &str = "tls.crt";
pub(super) const KEY: &str = "tls.key";
/// Every certificate that is trusted, the one beside it first.
pub(super) const TRUSTED: &str = "ca.crt";

/// How long before its making a certificate becomes valid, in seconds: clocks differ.
pub(super) const BACKDATED: i64 = 5 * 60;
/// How long API servers may take to trust what is registered.
pub(super) const NOTICED_AFTER: Duration = Duration::from_secs(10);
/// How long the webhook goes without a usable certificate, in seconds, for the sake of one that replicas may still serve from
/// memory.
const PATIENCE: i64 = 30;
/// How old the next certificate may become before it is used, in seconds. The overlap counts from its making.
const FRESH: i64 = 3600;

/// What certificates should be like. Times in seconds.
#[derive(Clone, Debug)]
pub(super) struct Terms {
    /// The host names of the webhook.
    pub(super) names: Vec<String>,
    pub(super) validity: i64,
    /// How long a former certificate stays trusted.
    pub(super) overlap: i64,
}

/// What is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found<'a> {
    /// The Secret of the webhook, if there is one.
    pub(super) serving: Option<&'a Data>,
    /// The certificate that this process has made and not written yet.
    pub(super) next: Option<&'a Certificate>,
    /// The certificate of our own that the Secret held last, as far as this process remembers.
    pub(super) held: Option<&'a Certificate>,
    /// The certificates that were trusted last, as far as this process remembers.
    pub(super) remembered: &'a [Certificate],
    /// What the registrations say.
    pub(super) registered: &'a Registered,
    /// For how long they have said so.
    pub(super) registered_for: Duration,
}

/// Which certificates all our entries of all registrations trust.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Registered {
    /// Not known yet, or not the same everywhere.
    #[default]
    Unclear,
    /// There is no entry of ours.
    Nowhere,
    /// This PEM text.
    Everywhere(Vec<u8>),
}

/// What to do.
#[derive(Debug, PartialEq)]
pub(super) struct Decision {
    /// The certificates that registrations should trust, the newest first. `None` while there is none.
    pub(super) trusted: Option<Vec<Certificate>>,
    /// The next step; decide again after it.
    pub(super) step: Option<Step>,
    /// When to decide again although nothing has happened, in seconds since 1970.
    pub(super) again_at: i64,
}

#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// Make the next certificate, in memory.
    Make,
    /// The next certificate becomes the webhook's; beside it stand these.
    Serve(Why, Vec<Certificate>),
    /// The certificate that the Secret held last is put back; beside it stand these.
    Restore(Why, Vec<Certificate>),
    /// The webhook's certificate stays; beside it stand these and nothing else.
    Beside(Vec<Certificate>),
}

/// Why there is a new certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    Missing,
    /// One of the keys is not there or empty.
    Incomplete,
    Unreadable,
    /// It is for another use.
    Unsuitable,
    WrongKey,
    WrongNames,
    Expired,
    /// Its end is near.
    Due,
    /// Nothing that is trusted has signed it.
    Unsigned,
    /// An authority has signed it: HNC's, or that of an earlier version.
    ByAuthority,
}

impl Why {
    /// As the end of a sentence.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Missing => "there was none",
            Self::Incomplete => "the Secret held none",
            Self::Unreadable => "the former one could not be read",
            Self::Unsuitable => "the former one was made for another use",
            Self::WrongKey => "the key did not belong to the former one",
            Self::WrongNames => "the former one was for other host names",
            Self::Expired => "the former one was not valid any more, or not yet",
            Self::Due => "the former one would soon have expired",
            Self::Unsigned => "the former one was signed by nothing that is trusted",
            Self::ByAuthority => "the former one was signed by an authority",
        }
    }
}

/// What to do next, and what the registrations should trust meanwhile.
pub(super) fn decide(found: &Found<'_>, now: i64, terms: &Terms) -> Decision {
    match serving(found.serving, terms, now) {
        Ok(present) if present.is_signed_by(&present) => settled(found, &present, terms, now),
        Ok(present) => {
            let signers: Vec<_> =
                known(found, now).into_iter().filter(|it| present.is_signed_by(it)).collect();
            if signers.is_empty() {
                return repaired(found, Why::Unsigned, now, terms);
            }
            replaced(found, Why::ByAuthority, &signers, now)
        }
        Err(why) => repaired(found, why, now, terms),
    }
}

/// The certificate in the Secret, if it is one of our own making that can be served.
pub(super) fn own(serving: Option<&Data>, terms: &Terms, now: i64) -> Option<Certificate> {
    self::serving(serving, terms, now).ok().filter(|it| it.is_signed_by(it))
}

/// With a Secret that is damaged. One that was deleted asks for a new certificate.
fn repaired(found: &Found<'_>, why: Why, now: i64, terms: &Terms) -> Decision {
    let lasts = |held: &&Certificate| why != Why::Missing && now < held.not_after - terms.validity / 3;
    let Some(held) = found.held.filter(lasts) else {
        return replaced(found, why, &known(found, now), now);
    };
    let trusted = with(held, &distinct(found.remembered.to_vec(), Some(held), now));
    Decision { trusted: Some(trusted.clone()), step: Some(Step::Restore(why, trusted)), again_at: now + 1 }
}

/// With a certificate of our own making.
fn settled(found: &Found<'_>, present: &Certificate, terms: &Terms, now: i64) -> Decision {
    let made = present.not_before + BACKDATED;
    let due = present.not_after - terms.validity / 3;
    let former = former(found, present, now);
    let trusted = with(present, &former);
    if now >= due {
        return replaced(found, Why::Due, &trusted, now);
    }
    let is_over = now >= made + terms.overlap;
    let kept = if is_over { vec![present.clone()] } else { trusted };
    let says = found.serving.and_then(|data| data.get(TRUSTED)).map(|bytes| bytes.0.as_slice());
    let differs = says != Some(bundle(&kept).as_bytes()) || found.serving.is_some_and(|data| data.len() > 3);
    let ends = kept.iter().skip(1).map(|it| it.not_after.min(made + terms.overlap));
    Decision {
        again_at: ends.chain([due]).min().unwrap_or(due).max(now + 1),
        step: differs.then(|| Step::Beside(kept.clone())),
        trusted: Some(kept),
    }
}

/// With a certificate that must be replaced, while these stay trusted: by one that registrations trust already.
fn replaced(found: &Found<'_>, why: Why, former: &[Certificate], now: i64) -> Decision {
    let again_at = now + 1;
    let is_fresh = |next: &&Certificate| now < next.not_before + BACKDATED + FRESH && is_valid(next, now);
    let Some(next) = found.next.filter(is_fresh) else {
        let trusted = (!former.is_empty()).then(|| former.to_vec());
        return Decision { trusted, step: Some(Step::Make), again_at };
    };
    let trusted = with(next, &distinct(former.to_vec(), Some(next), now));
    let is_usable = matches!(why, Why::Due | Why::ByAuthority);
    let ready = former.is_empty()
        || is_registered(found, &trusted)
        || (!is_usable && now >= next.not_before + BACKDATED + PATIENCE);
    let step = ready.then(|| Step::Serve(why, trusted.clone()));
    Decision { trusted: Some(trusted), step, again_at }
}

/// Whether API servers trust exactly these by now.
fn is_registered(found: &Found<'_>, trusted: &[Certificate]) -> bool {
    match found.registered {
        Registered::Unclear => false,
        Registered::Nowhere => true,
        Registered::Everywhere(text) => {
            text == bundle(trusted).as_bytes() && found.registered_for >= NOTICED_AFTER
        }
    }
}

/// The certificate in the Secret, if it can be served, whatever has signed it.
fn serving(data: Option<&Data>, terms: &Terms, now: i64) -> Result<Certificate, Why> {
    let data = data.ok_or(Why::Missing)?;
    let content = |name| data.get(name).map(|bytes| bytes.0.as_slice()).filter(|it| !it.is_empty());
    let (Some(certificate), Some(key)) = (content(CERTIFICATE), content(KEY)) else {
        return Err(Why::Incomplete);
    };
    let certificate = Certificate::all(certificate).into_iter().next().ok_or(Why::Unreadable)?;
    if !certificate.has_key(key) {
        return Err(Why::WrongKey);
    }
    if !is_valid(&certificate, now) {
        return Err(Why::Expired);
    }
    if certificate.is_authority || !certificate.is_for_servers {
        return Err(Why::Unsuitable);
    }
    // What is taken over from elsewhere need not have all names, only the one that API servers ask for.
    match terms.names.first() {
        Some(name) if !certificate.names.contains(name) => Err(Why::WrongNames),
        _ => Ok(certificate),
    }
}

fn is_valid(certificate: &Certificate, now: i64) -> bool {
    certificate.not_before <= now + BACKDATED && now < certificate.not_after
}

/// The certificates beside the present one that are still trusted.
fn former(found: &Found<'_>, present: &Certificate, now: i64) -> Vec<Certificate> {
    let listed = listed(found.serving);
    // A list without the certificate beside it is damaged, and may not be whole.
    let all = if listed.contains(present) { listed } else { found.remembered.to_vec() };
    distinct(all, Some(present), now)
}

/// What is trusted as far as this process remembers, or else as the Secret lists it.
fn known(found: &Found<'_>, now: i64) -> Vec<Certificate> {
    let all = if found.remembered.is_empty() { listed(found.serving) } else { found.remembered.to_vec() };
    distinct(all, found.next, now)
}

fn listed(data: Option<&Data>) -> Vec<Certificate> {
    let text = data.and_then(|data| data.get(TRUSTED));
    text.map(|text| Certificate::all(&text.0)).unwrap_or_default()
}

/// Each certificate that is valid, once, without this one.
fn distinct(all: Vec<Certificate>, without: Option<&Certificate>, now: i64) -> Vec<Certificate> {
    let mut once: Vec<Certificate> = Vec::new();
    for certificate in all {
        if is_valid(&certificate, now) && Some(&certificate) != without && !once.contains(&certificate) {
            once.push(certificate);
        }
    }
    once
}

fn with(present: &Certificate, former: &[Certificate]) -> Vec<Certificate> {
    [std::slice::from_ref(present), former].concat()
}

/// Certificates as one PEM text.
pub(super) fn bundle(certificates: &[Certificate]) -> String {
    certificates.iter().map(Certificate::pem).collect()
}

#[cfg(test)]
mod tests;
