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

/// The rules of the API server for the labels of namespaces: what is wrong with the value of this one. It would refuse every write that
/// contains such a value, and so all labels of the namespace.
pub(crate) fn label_value_fault(key: &str, value: &str) -> Option<&'static str> {
    let pod_security = key.strip_prefix("pod-security.kubernetes.io/");
    match pod_security {
        _ if key == "kubernetes.io/metadata.name" => Some("the API server sets this label"),
        _ if !value.is_empty() && !is_name(value) => Some(
            "a label's value must be at most 63 letters, digits, '-', '_' or '.', the first and last a letter or a digit",
        ),
        Some("enforce" | "audit" | "warn") => {
            let is_level = matches!(value, "privileged" | "baseline" | "restricted");
            (!is_level)
                .then_some("a level of Pod Security must be \"privileged\", \"baseline\" or \"restricted\"")
        }
        Some("enforce-version" | "audit-version" | "warn-version") => (!is_pod_security_version(value))
            .then_some("a version of Pod Security must be \"latest\" or like \"v1.36\""),
        _ => None,
    }
}

fn is_pod_security_version(value: &str) -> bool {
    let minor = value.strip_prefix("v1.");
    value == "latest"
        || minor.is_some_and(|minor| {
            minor.parse::<i64>().is_ok_and(|number| number.to_string() == minor && number >= 0)
        })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_that_the_api_server_refuses_on_namespaces_have_a_fault() {
        let is_valid = |key: &str, value: &str| label_value_fault(key, value).is_none();
        for (key, valid, invalid) in [
            ("team", &["", "red"][..], &["-red", "a b"][..]),
            ("kubernetes.io/metadata.name", &[], &["a", ""]),
            (
                "pod-security.kubernetes.io/enforce",
                &["privileged", "baseline", "restricted"],
                &["", "Baseline", "x"],
            ),
            (
                "pod-security.kubernetes.io/warn-version",
                &["latest", "v1.0", "v1.36"],
                &["", "1.36", "v1.036", "v1.", "v1.-1", "v1.+1", "v2.1", "v1.99999999999999999999"],
            ),
            ("pod-security.kubernetes.io/other", &["x"], &["-"]),
        ] {
            assert!(valid.iter().all(|value| is_valid(key, value)), "{key}");
            assert!(!invalid.iter().any(|value| is_valid(key, value)), "{key}");
        }
    }
}
