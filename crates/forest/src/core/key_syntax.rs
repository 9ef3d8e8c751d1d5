//! The syntax of labels and annotations: what is wrong with a key or a value, as a clause.

use super::name::is_namespace_name;

/// The rules of the API server for keys of labels and annotations.
pub(crate) fn qualified_name_fault(key: &str) -> Option<&'static str> {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    if prefix.is_some_and(|prefix| !is_dns_subdomain(prefix)) {
        return Some("the part before the slash must be a DNS subdomain");
    }
    (!is_name(name)).then_some(
        "the name must be at most 63 letters, digits, '-', '_' or '.', the first and last a letter or a digit",
    )
}

/// The rules of the API server for the values of labels.
pub(crate) fn label_value_fault(value: &str) -> Option<&'static str> {
    (!value.is_empty() && !is_name(value)).then_some(
        "a label's value must be at most 63 letters, digits, '-', '_' or '.', the first and last a letter or a digit",
    )
}

fn is_name(text: &str) -> bool {
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    text.len() <= 63
        && ends(text.chars().next())
        && ends(text.chars().last())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_namespace_name)
}
