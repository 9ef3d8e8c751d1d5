//! How the value of one flag is read: a function per kind of value.
//!
//! Errors are the end of a sentence that clap begins with the value and the flag's name.

use std::{convert::Infallible, path::PathBuf, time::Duration};

use forest::OnConflict;
use regex::Regex;

/// The words for a boolean that Go's `strconv.ParseBool` knows.
pub(super) fn boolean(value: &str) -> Result<bool, String> {
    match value {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("expected true or false".to_owned()),
    }
}

/// What becomes of conflicts, as the `HNCConfiguration` spells it.
pub(super) fn on_conflict(value: &str) -> Result<OnConflict, String> {
    let found = OnConflict::ALL.into_iter().find(|it| it.to_string() == value);
    found.ok_or_else(|| "expected Keep, Report or Overwrite".to_owned())
}

/// A path; empty means none, which clap's own parser refuses.
#[expect(clippy::unnecessary_wraps, reason = "the form that clap wants")]
pub(super) fn path(value: &str) -> Result<PathBuf, Infallible> {
    Ok(value.into())
}

/// The name of a namespace: an RFC 1123 label.
pub(super) fn namespace(value: &str) -> Result<String, String> {
    if is_label(value) {
        Ok(value.to_owned())
    } else {
        Err("not the name of a namespace (lower-case letters, digits and '-', at most 63)".to_owned())
    }
}

/// The name of an object: an RFC 1123 subdomain.
pub(super) fn object_name(value: &str) -> Result<String, String> {
    if value.len() <= 253 && value.split('.').all(is_label) {
        Ok(value.to_owned())
    } else {
        Err("not the name of an object (lower-case letters, digits, '-' and '.')".to_owned())
    }
}

fn is_label(value: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&value.len())
        && value.bytes().all(inner)
        && !value.starts_with('-')
        && !value.ends_with('-')
}

/// A pattern that a whole name must match.
pub(super) fn anchored_regex(value: &str) -> Result<Regex, String> {
    // On its own first: "a)|(b" is no pattern, but would become one between our parentheses.
    Regex::new(value).and_then(|_| Regex::new(&format!("^(?:{value})$"))).map_err(|error| error.to_string())
}

/// A rate; HNC, like Go's client, takes a negative one for "no limit".
pub(super) fn requests_per_second(value: &str) -> Result<u32, String> {
    let number: i32 = value.parse().map_err(|_| "expected a whole number".to_owned())?;
    Ok(u32::try_from(number).unwrap_or(0))
}

/// A host name or an address without port; empty for all interfaces.
pub(super) fn host(value: &str) -> Result<String, String> {
    let bare = value.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(value);
    let is_address = bare.parse::<std::net::IpAddr>().is_ok();
    if is_address || (!value.contains([':', '/', '[', ']']) && !value.contains(char::is_whitespace)) {
        Ok(bare.to_owned())
    } else {
        Err("expected a host name or an address, without port".to_owned())
    }
}

/// A duration as Go writes it (`1m30s`, `500ms`), or a plain number of seconds; at most an hour.
pub(super) fn duration(value: &str) -> Result<Duration, String> {
    match seconds(value)? {
        seconds if (0.0..=3600.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("expected a duration between 0 and 1h".to_owned()),
    }
}

/// The same, up to a hundred years.
pub(super) fn long_duration(value: &str) -> Result<Duration, String> {
    match seconds(value)? {
        seconds if (0.0..=100.0 * 8760.0 * 3600.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("expected a duration between 0 and 876000h".to_owned()),
    }
}

fn seconds(value: &str) -> Result<f64, String> {
    let wrong = || "expected a duration such as 8s, 500ms or 1m30s".to_owned();
    if let Ok(plain) = value.parse::<f64>() {
        return Ok(plain);
    }
    if value.is_empty() {
        return Err(wrong());
    }
    let (mut seconds, mut rest) = (0.0, value);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
        let (number, unit) = rest.split_at(digits);
        let number: f64 = number.parse().map_err(|_| wrong())?;
        let letters = unit.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(unit.len());
        let (unit, next) = unit.split_at(letters);
        seconds += number * unit_in_seconds(unit).ok_or_else(wrong)?;
        rest = next;
    }
    Ok(seconds)
}

fn unit_in_seconds(unit: &str) -> Option<f64> {
    match unit {
        "ms" => Some(0.001),
        "s" => Some(1.0),
        "m" => Some(60.0),
        "h" => Some(3600.0),
        _ => None,
    }
}

/// A pattern of keys. Those of the hierarchy itself are never matched, whatever the pattern; one that is about nothing else
/// is refused.
pub(super) fn managed_key(value: &str) -> Result<Regex, String> {
    anchored_regex(value)?;
    if value.contains("hnc.x-k8s.io") || value.contains(r"hnc\.x-k8s\.io") {
        return Err("the keys of hnc.x-k8s.io cannot be managed".to_owned());
    }
    Regex::new(value).map_err(|error| error.to_string())
}

/// `VALUE=USER_OR_GROUP`; the value has no `=`.
pub(super) fn external_manager(value: &str) -> Result<(String, String), String> {
    match value.split_once('=') {
        Some((manager, identity)) if !manager.is_empty() && !identity.is_empty() => {
            if manager == "hnc.x-k8s.io" {
                return Err("hnc.x-k8s.io is the value that means no other manager".to_owned());
            }
            Ok((manager.to_owned(), identity.to_owned()))
        }
        _ => Err("expected VALUE=USER_OR_GROUP".to_owned()),
    }
}

/// The name of a user or a group.
pub(super) fn identity(value: &str) -> Result<String, String> {
    if value.is_empty() {
        Err("expected the name of a user or a group".to_owned())
    } else {
        Ok(value.to_owned())
    }
}

/// `KEY=VALUE` of a label; the value may be empty.
pub(super) fn label(value: &str) -> Result<(String, String), String> {
    match value.split_once('=') {
        Some((key, value)) if !key.is_empty() && !value.contains('=') => {
            Ok((key.to_owned(), value.to_owned()))
        }
        _ => Err("expected KEY=VALUE".to_owned()),
    }
}

/// The key of a label or an annotation, or a pattern of keys.
pub(super) fn glob(value: &str) -> Result<String, String> {
    if value.is_empty() {
        return Err("expected a key or a pattern of keys".to_owned());
    }
    forest::Patterns::new([value]).map_err(|error| error.to_string())?;
    Ok(value.to_owned())
}
