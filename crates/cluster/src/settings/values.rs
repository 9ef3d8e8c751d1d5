//! The valid values of settings: a function for each type of value, for the document and for flags.
//!
//! Errors are the end of a sentence that names the key and the value.

use forest::{OnConflict, expression};
use regex::Regex;

use super::FailurePolicy;

/// The literals of a boolean in Go's `strconv.ParseBool`.
///
/// # Errors
/// It is none of them.
pub fn boolean(value: &str) -> Result<bool, String> {
    match value {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("expected true or false".to_owned()),
    }
}

/// How conflicts are treated, in the spelling of the `HNCConfiguration`.
///
/// # Errors
/// What is wrong with it.
pub fn on_conflict(value: &str) -> Result<OnConflict, String> {
    let found = OnConflict::ALL.into_iter().find(|it| it.to_string() == value);
    found.ok_or_else(|| "expected Keep, Report or Overwrite".to_owned())
}

/// What the API server does with a request that no webhook answers.
///
/// # Errors
/// What is wrong with it.
pub fn failure_policy(value: &str) -> Result<FailurePolicy, String> {
    match value {
        "Ignore" => Ok(FailurePolicy::Ignore),
        "Fail" => Ok(FailurePolicy::Fail),
        _ => Err("expected Ignore or Fail".to_owned()),
    }
}

/// The name of a namespace: an RFC 1123 label.
///
/// # Errors
/// What is wrong with it.
pub fn namespace(value: &str) -> Result<String, String> {
    if is_label(value) {
        Ok(value.to_owned())
    } else {
        Err("not the name of a namespace (lower-case letters, digits and '-', at most 63)".to_owned())
    }
}

/// The name of an object: an RFC 1123 subdomain.
///
/// # Errors
/// What is wrong with it.
pub fn object_name(value: &str) -> Result<String, String> {
    if value.len() <= 253 && value.split('.').all(is_label) {
        Ok(value.to_owned())
    } else {
        Err("not the name of an object (lower-case letters, digits, '-' and '.')".to_owned())
    }
}

/// The name of a `ClusterRole`. RBAC allows every name that is one segment of a path.
///
/// # Errors
/// What is wrong with it.
pub fn cluster_role(value: &str) -> Result<String, String> {
    if value.is_empty() || [".", ".."].contains(&value) || value.contains(['/', '%']) {
        Err("not the name of a ClusterRole (not empty, no '.' or '..' alone, no '/' and no '%')".to_owned())
    } else {
        Ok(value.to_owned())
    }
}

fn is_label(value: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&value.len())
        && value.bytes().all(inner)
        && !value.starts_with('-')
        && !value.ends_with('-')
}

/// A pattern that a whole name must match. The API server reads it too.
///
/// # Errors
/// What is wrong with it.
pub fn anchored_regex(value: &str) -> Result<Regex, String> {
    expression::compile_as_in_go(value)?;
    expression::whole(value)
}

/// A pattern of keys. No pattern ever matches the hierarchy's own keys. A pattern that names them is refused.
///
/// # Errors
/// What is wrong with it.
pub fn managed_key(value: &str) -> Result<Regex, String> {
    anchored_regex(value)?;
    if let Some(group) = forest::group_in(&value.replace('\\', "")) {
        return Err(format!("the keys of {group} cannot be managed"));
    }
    Regex::new(value).map_err(|error| expression::fault(&error))
}

/// `VALUE=USER_OR_GROUP`; the value has no `=`.
///
/// # Errors
/// What is wrong with it.
pub fn external_manager(value: &str) -> Result<(String, String), String> {
    match value.split_once('=') {
        Some((manager, identity)) if !manager.is_empty() && !identity.is_empty() => {
            Ok((self::manager(manager)?, identity.to_owned()))
        }
        _ => Err("expected VALUE=USER_OR_GROUP".to_owned()),
    }
}

/// A value of the annotation `managed-by` that names another manager.
///
/// # Errors
/// What is wrong with it.
pub fn manager(value: &str) -> Result<String, String> {
    match value {
        "" => Err("expected a value of the annotation hnc.x-k8s.io/managed-by".to_owned()),
        hns_api::GROUP => Err(format!("{value} is the value that means no other manager")),
        _ => Ok(value.to_owned()),
    }
}

/// The name of a user or a group.
///
/// # Errors
/// What is wrong with it.
pub fn identity(value: &str) -> Result<String, String> {
    if value.is_empty() {
        Err("expected the name of a user or a group".to_owned())
    } else {
        Ok(value.to_owned())
    }
}

/// `KEY=VALUE` of a label; the value may be empty.
///
/// # Errors
/// What is wrong with it.
pub fn label(value: &str) -> Result<(String, String), String> {
    match value.split_once('=') {
        Some((key, value)) if !key.is_empty() && !value.contains('=') => {
            Ok((key.to_owned(), value.to_owned()))
        }
        _ => Err("expected KEY=VALUE".to_owned()),
    }
}

/// The key of a label or an annotation, or a pattern of keys.
///
/// # Errors
/// What is wrong with it.
pub fn glob(value: &str) -> Result<String, String> {
    if value.is_empty() {
        return Err("expected a key or a pattern of keys".to_owned());
    }
    forest::Patterns::new([value]).map_err(|error| error.to_string())?;
    Ok(value.to_owned())
}
