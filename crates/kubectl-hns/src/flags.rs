//! Flag values in the syntax of Go's command lines, which clap does not parse itself.

use std::str::FromStr;
use std::time::Duration;

use forest::is_namespace_name;
use hns_cluster::settings::values::boolean;

/// The value of a flag that can only be true.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct True;

/// Parses it; `instead` says what to use for false.
pub(crate) fn only_true(text: &str, instead: &str) -> Result<True, String> {
    if boolean(text)? { Ok(True) } else { Err(format!("must be true, or no value: {instead}")) }
}

/// The name of something, which has one.
pub(crate) fn named(text: &str, what: &str) -> Result<String, String> {
    if text.is_empty() { Err(format!("the name of the {what} is empty")) } else { Ok(text.to_owned()) }
}

/// The name of a namespace.
pub(crate) fn namespace(text: &str) -> Result<String, String> {
    named(text, "namespace")?;
    if is_namespace_name(text) {
        return Ok(text.to_owned());
    }
    let what_to_do = match text.rsplit_once('/') {
        Some((before, name)) if is_namespace_name(name) => format!("leave out \"{before}/\""),
        _ => "a name has lower-case letters, digits and -, begins and ends with a letter or a digit, and has at most 63 characters"
            .into(),
    };
    Err(format!("{text:?} is not a valid name of a namespace; {what_to_do}"))
}

/// A timeout in kubectl's syntax: whole seconds, or units (`1m30s`, `500ms`). Zero means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limit(pub(crate) Option<Duration>);

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // Another value with a hyphen is a flag: the value of this one is missing.
        if text.starts_with('-') && text[1..].starts_with(|it: char| it.is_ascii_digit()) {
            return Err("may not be negative; 0 means no limit".into());
        }
        let wrong = || "must be a number of seconds, or a duration such as 1m30s".to_owned();
        let duration = match text.parse::<u64>() {
            Ok(seconds) => Duration::from_secs(seconds),
            Err(_) => with_units(text).ok_or_else(wrong)?,
        };
        Ok(Self(Some(duration).filter(|it| !it.is_zero())))
    }
}

fn with_units(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut sum = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|it: char| !it.is_ascii_digit() && it != '.')?;
        let (number, unit) = rest.split_at(digits);
        let letters = unit.find(|it: char| it.is_ascii_digit()).unwrap_or(unit.len());
        let (unit, after) = unit.split_at(letters);
        let seconds = match unit {
            "ms" => 0.001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        sum = sum.checked_add(Duration::try_from_secs_f64(number.parse::<f64>().ok()? * seconds).ok()?)?;
        rest = after;
    }
    (!text.is_empty()).then_some(sum)
}

#[cfg(test)]
pub(crate) mod tests {
    use clap::Parser;

    use super::*;

    /// Parses a line of flags as the commands do.
    pub(crate) fn parsed<T: Parser>(line: &str) -> T {
        let words = ["x"].into_iter().chain(line.split_whitespace());
        T::from_arg_matches(&hns_runtime::args::with_booleans(T::command()).get_matches_from(words)).unwrap()
    }

    #[test]
    fn timeouts_are_seconds_or_have_units() {
        let limit = |text: &str| text.parse::<Limit>().map(|it| it.0.map(|it| it.as_millis()));
        assert_eq!(limit("30"), Ok(Some(30_000)));
        assert_eq!(limit("1m30s"), Ok(Some(90_000)));
        assert_eq!(limit("500ms"), Ok(Some(500)));
        assert_eq!(limit("1.5h"), Ok(Some(5_400_000)));
        assert_eq!(limit("0"), Ok(None));
        assert_eq!(limit("0s"), Ok(None));
        for wrong in ["", "s", "5 s", "1x", "1.2.3s", "-n"] {
            assert!(limit(wrong).is_err(), "{wrong}");
        }
        for negative in ["-1", "-1m30s"] {
            assert_eq!(limit(negative), Err("may not be negative; 0 means no limit".into()), "{negative}");
        }
    }

    #[test]
    fn an_invalid_name_of_a_namespace_is_refused_with_what_to_do() {
        assert_eq!(namespace("acme-1").as_deref(), Ok("acme-1"));
        for (text, wanted) in [
            ("", "the name of the namespace is empty"),
            ("ns/acme", "\"ns/acme\" is not a valid name of a namespace; leave out \"ns/\""),
            ("Ü", "\"Ü\" is not a valid name of a namespace; a name has lower-case letters"),
            ("ns/", "\"ns/\" is not a valid name of a namespace; a name has lower-case letters"),
        ] {
            let found = namespace(text).unwrap_err();
            assert!(found.starts_with(wanted), "{found}");
        }
    }

    #[test]
    fn only_true_is_true() {
        assert_eq!(only_true("t", "x"), Ok(True));
        assert!(only_true("0", "leave it out").unwrap_err().ends_with("leave it out"));
        assert!(only_true("yes", "x").is_err());
    }
}
