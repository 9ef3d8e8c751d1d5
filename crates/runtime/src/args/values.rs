//! The parsers of flag values. Values that the settings document has too are checked in [`hns_cluster::settings`].
//!
//! Errors are the end of a sentence that clap begins with the value and the flag's name.

use std::{convert::Infallible, path::PathBuf, time::Duration};

pub(super) use hns_cluster::settings::values::{
    anchored_regex, boolean, cluster_role, external_manager, failure_policy, glob, identity, label,
    managed_key, namespace, object_name, on_conflict,
};

/// A port to listen on.
///
/// # Errors
/// It is none.
pub fn port(value: &str) -> Result<u16, String> {
    let port = value.parse().ok().filter(|port| *port != 0);
    port.ok_or_else(|| "expected a port, 1 to 65535".to_owned())
}

/// A path; an empty text means none, which clap's own parser refuses.
#[expect(clippy::unnecessary_wraps, reason = "the form that clap wants")]
pub(super) fn path(value: &str) -> Result<PathBuf, Infallible> {
    Ok(value.into())
}

/// A rate; HNC, like Go's client, treats a negative one as "no limit".
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

/// A duration in Go's syntax (`1m30s`, `500ms`), or a plain number of seconds; at most an hour.
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
    let wrong = || "expected seconds, or a duration such as 8s, 500ms or 1m30s".to_owned();
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

/// A duration as a flag has it.
pub(super) fn shown(duration: Duration) -> String {
    if duration.is_zero() { "0s".to_owned() } else { format!("{duration:?}") }
}
