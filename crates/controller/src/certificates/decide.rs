//! What is to be written next, given what the two Secrets hold. Pure: the same facts give the same decision.
//!
//! The order of a change of authority is what keeps every request answered: first the new authority stands in its Secret
//! with the old one still trusted, then all registrations have both, then the webhook gets a certificate of the new one, and
//! only long after that is the old one forgotten. Each step is read off what the former one has left behind, so that another
//! replica can go on anywhere.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::ByteString;

use super::x509::Certificate;

/// What a Secret holds.
pub(super) type Data = BTreeMap<String, ByteString>;

pub(super) const CERTIFICATE: &str = "tls.crt";
pub(super) const KEY: &str = "tls.key";
/// Every authority that is trusted, the one that signs first.
pub(super) const TRUSTED: &str = "ca.crt";

/// How long before its making a certificate becomes valid, in seconds: clocks differ.
pub(super) const BACKDATED: i64 = 5 * 60;
/// How long API servers may take to trust what is registered.
pub(super) const NOTICED_AFTER: Duration = Duration::from_secs(10);
/// How long the webhook goes without a usable certificate, in seconds, for the sake of one that may still be served from
/// memory.
const PATIENCE: i64 = 30;

/// What certificates are to be like. Times in seconds.
#[derive(Clone, Debug)]
pub(super) struct Terms {
    /// The host names of the webhook.
    pub(super) names: Vec<String>,
    pub(super) validity: i64,
    pub(super) authority_validity: i64,
    /// How long a former authority stays trusted once it signs nothing that is served.
    pub(super) overlap: i64,
}

/// What is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found<'a> {
    /// The Secret of the authority, if there is one.
    pub(super) authority: Option<&'a Data>,
    /// The Secret of the webhook, if there is one.
    pub(super) serving: Option<&'a Data>,
    /// The authorities that were trusted last, as far as this process remembers.
    pub(super) remembered: &'a [Certificate],
    /// What the registrations say.
    pub(super) registered: &'a Registered,
    /// For how long they have said so.
    pub(super) registered_for: Duration,
}

/// Which authorities all our entries of all registrations name.
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

/// An authority that can sign.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Authority {
    pub(super) certificate: Certificate,
    /// PEM.
    pub(super) key: String,
}

/// What to do.
#[derive(Debug, PartialEq)]
pub(super) struct Decision {
    /// The authorities that registrations are to name, the one that signs first. `None` until one can sign.
    pub(super) trusted: Option<Vec<Certificate>>,
    /// The next write; decide again after it.
    pub(super) write: Option<Write>,
    /// When to decide again although nothing has happened, in seconds since 1970.
    pub(super) again_at: i64,
}

/// One write to one of the Secrets.
#[derive(Debug, PartialEq)]
pub(super) enum Write {
    /// A new authority, beside which these stay trusted.
    Authority(Why, Vec<Certificate>),
    /// The authority stays; these are trusted.
    Trusted(Vec<Certificate>),
    /// A new certificate for the webhook.
    Serving(Why),
    /// The webhook's certificate stays; beside it stand the trusted authorities and nothing else.
    Beside,
}

/// Why something is made anew.
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
    /// Nobody who is trusted has signed it.
    Unsigned,
    /// A former authority has signed it.
    FormerAuthority,
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
            Self::Unsigned => "the former one was signed by nobody who is trusted",
            Self::FormerAuthority => "there is a new authority",
        }
    }
}

/// What to write next, and what the registrations should name meanwhile.
pub(super) fn decide(found: &Found<'_>, now: i64, terms: &Terms) -> Decision {
    let authority = match authority(found.authority, now) {
        Ok(authority) => authority,
        Err(why) => return replace_authority(why, None, &rescued(found, terms, now), now),
    };
    let certificate = &authority.certificate;
    let former = former(found, certificate, terms, now);
    let authority_due = certificate.not_after - terms.authority_validity / 3;
    if now >= authority_due {
        let trusted = with(certificate, &former);
        return replace_authority(Why::Due, Some(trusted.clone()), &trusted, now);
    }
    let serving = Served::read(found.serving, certificate, &former, terms, now);
    let (write, again_at) = settled(found, &authority, &former, &serving, terms, now);
    Decision {
        trusted: Some(with(certificate, &former)),
        write,
        again_at: again_at.min(authority_due).max(now + 1),
    }
}

fn replace_authority(
    why: Why,
    trusted: Option<Vec<Certificate>>,
    kept: &[Certificate],
    now: i64,
) -> Decision {
    Decision { trusted, write: Some(Write::Authority(why, kept.to_vec())), again_at: now + 1 }
}

/// With an authority that stays: the next write, or when there will be one.
fn settled(
    found: &Found<'_>,
    authority: &Authority,
    former: &[Certificate],
    serving: &Served,
    terms: &Terms,
    now: i64,
) -> (Option<Write>, i64) {
    let trusted = bundle(&with(&authority.certificate, former));
    let says = |data: Option<&Data>| data.and_then(|data| data.get(TRUSTED)).map(|bytes| bytes.0.clone());
    if says(found.authority).as_deref() != Some(trusted.as_bytes()) {
        return (Some(Write::Trusted(former.to_vec())), now);
    }
    match serving {
        Served::Usable { due, .. } if now >= *due => (Some(Write::Serving(Why::Due)), now),
        Served::Usable { made, .. } if !former.is_empty() && now >= made + terms.overlap => {
            (Some(Write::Trusted(Vec::new())), now)
        }
        Served::Usable { made, due } => {
            let beside = found.serving.is_some_and(|data| data.len() > 3)
                || says(found.serving).as_deref() != Some(trusted.as_bytes());
            let forgotten = former.iter().map(|it| it.not_after).chain([made + terms.overlap]).min();
            let forgotten = forgotten.filter(|_| !former.is_empty()).unwrap_or(*due);
            (beside.then_some(Write::Beside), forgotten.min(*due))
        }
        Served::ByFormer => {
            let ready = is_registered(found, &trusted);
            (ready.then_some(Write::Serving(Why::FormerAuthority)), now + 1)
        }
        Served::Unusable(why) => {
            let made = authority.certificate.not_before + BACKDATED;
            let ready = former.is_empty() || is_registered(found, &trusted) || now >= made + PATIENCE;
            (ready.then_some(Write::Serving(*why)), now + 1)
        }
    }
}

/// Whether API servers trust exactly this by now.
fn is_registered(found: &Found<'_>, trusted: &str) -> bool {
    match found.registered {
        Registered::Unclear => false,
        Registered::Nowhere => true,
        Registered::Everywhere(text) => text == trusted.as_bytes() && found.registered_for >= NOTICED_AFTER,
    }
}

/// The authority of its Secret, if it can sign.
pub(super) fn authority(data: Option<&Data>, now: i64) -> Result<Authority, Why> {
    let (certificate, key) = pair(data, now)?;
    if !certificate.is_authority {
        return Err(Why::Unsuitable);
    }
    let key = String::from_utf8(key.to_vec()).map_err(|_| Why::Unreadable)?;
    Ok(Authority { certificate, key })
}

/// A certificate that is valid now, and its key.
fn pair(data: Option<&Data>, now: i64) -> Result<(Certificate, &[u8]), Why> {
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
    Ok((certificate, key))
}

fn is_valid(certificate: &Certificate, now: i64) -> bool {
    certificate.not_before <= now + BACKDATED && now < certificate.not_after
}

/// The authorities beside the present one that are still trusted.
fn former(found: &Found<'_>, present: &Certificate, terms: &Terms, now: i64) -> Vec<Certificate> {
    let listed = listed(found.authority);
    // A list without its own authority is damaged, and cannot be believed to be whole.
    let all = if listed.contains(present) { listed } else { rescued(found, terms, now) };
    without(all, present, now)
}

/// Whom to go on trusting when the Secret of the authority does not say: whoever this process remembers, whoever that Secret
/// still lists, and whoever has signed what is served.
fn rescued(found: &Found<'_>, terms: &Terms, now: i64) -> Vec<Certificate> {
    let mut all = listed(found.authority);
    all.extend(found.remembered.iter().cloned());
    if let Ok(serving) = serving(found.serving, terms, now) {
        all.extend(listed(found.serving).into_iter().filter(|it| serving.is_signed_by(it)));
    }
    distinct(all, now)
}

fn listed(data: Option<&Data>) -> Vec<Certificate> {
    let text = data.and_then(|data| data.get(TRUSTED));
    text.map(|text| Certificate::all(&text.0)).unwrap_or_default()
}

fn without(all: Vec<Certificate>, present: &Certificate, now: i64) -> Vec<Certificate> {
    distinct(all.into_iter().filter(|it| it != present).collect(), now)
}

/// Each authority that is valid, once.
fn distinct(all: Vec<Certificate>, now: i64) -> Vec<Certificate> {
    let mut once: Vec<Certificate> = Vec::new();
    for certificate in all {
        if certificate.is_authority && is_valid(&certificate, now) && !once.contains(&certificate) {
            once.push(certificate);
        }
    }
    once
}

fn with(present: &Certificate, former: &[Certificate]) -> Vec<Certificate> {
    [std::slice::from_ref(present), former].concat()
}

/// The webhook's certificate, as it stands in its Secret.
#[derive(Debug)]
enum Served {
    /// Signed by the present authority; made and due at these times.
    Usable {
        made: i64,
        due: i64,
    },
    /// Fit to be served, and signed by a former authority.
    ByFormer,
    Unusable(Why),
}

impl Served {
    fn read(
        data: Option<&Data>,
        present: &Certificate,
        former: &[Certificate],
        terms: &Terms,
        now: i64,
    ) -> Self {
        match serving(data, terms, now) {
            Err(why) => Self::Unusable(why),
            Ok(it) if it.is_signed_by(present) => {
                Self::Usable { made: it.not_before + BACKDATED, due: it.not_after - terms.validity / 3 }
            }
            Ok(it) if former.iter().any(|former| it.is_signed_by(former)) => Self::ByFormer,
            Ok(_) => Self::Unusable(Why::Unsigned),
        }
    }
}

/// The certificate in the webhook's Secret, if it is fit to be served, whoever has signed it.
fn serving(data: Option<&Data>, terms: &Terms, now: i64) -> Result<Certificate, Why> {
    let (certificate, _) = pair(data, now)?;
    if certificate.is_authority || !certificate.is_for_servers {
        return Err(Why::Unsuitable);
    }
    // What is taken over from elsewhere need not have all names, only the one that API servers ask for.
    match terms.names.first() {
        Some(name) if !certificate.names.contains(name) => Err(Why::WrongNames),
        _ => Ok(certificate),
    }
}

/// Certificates as one PEM text.
pub(super) fn bundle(certificates: &[Certificate]) -> String {
    certificates.iter().map(Certificate::pem).collect()
}

#[cfg(test)]
mod tests;
