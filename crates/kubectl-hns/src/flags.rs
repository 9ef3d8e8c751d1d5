//! Flag values in the syntax of Go's command lines, which clap does not parse itself.

use std::str::FromStr;
use std::time::Duration;

use forest::is_namespace_name;

/// A boolean flag with an optional value: `-a`, `-a=true`, `--root=false`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Switch(bool);

impl Switch {
    /// Whether the flag was given and is not false.
    pub(crate) fn is_on(switch: Option<Self>) -> bool {
        switch.is_some_and(|it| it.0)
    }
}

impl FromStr for Switch {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(Self(true)),
            "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(Self(false)),
            _ => Err("must be true or false".into()),
        }
    }
}

/// The value of a flag that can only be true; `instead` says what to use for false.
pub(crate) fn only_true(text: &str, instead: &str) -> Result<Switch, String> {
    match text.parse::<Switch>()? {
        Switch(true) => Ok(Switch(true)),
        Switch(false) => Err(format!("must be true, or no value: {instead}")),
    }
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
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_seconds_or_have_units() {
        let limit = |text: &str| text.parse::<Limit>().map(|it| it.0.map(|it| it.as_millis()));
        assert_eq!(limit("30"), Ok(Some(30_000)));
        assert_eq!(limit("1m30s"), Ok(Some(90_000)));
        assert_eq!(limit("500ms"), Ok(Some(500)));
        assert_eq!(limit("1.5h"), Ok(Some(5_400_000)));
        assert_eq!(limit("0"), Ok(None));
        assert_eq!(limit("0s"), Ok(None));
        for wrong in ["", "s", "5 s", "1x", "-1", "1.2.3s"] {
            assert!(limit(wrong).is_err(), "{wrong}");
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
    fn switches_accept_the_values_of_go() {
        assert!(Switch::is_on(Some("T".parse().unwrap())));
        assert!(!Switch::is_on(Some("0".parse().unwrap())));
        assert!(!Switch::is_on(None));
        assert!("yes".parse::<Switch>().is_err());
        assert!(Switch::is_on(only_true("t", "x").ok()));
        assert!(only_true("0", "leave it out").unwrap_err().ends_with("leave it out"));
        assert!(only_true("yes", "x").is_err());
    }
}
