//! Names of namespaces and objects.

use std::sync::Arc;

/// The name of a namespace or an object, in shared memory.
pub type Name = Arc<str>;

/// The namespaces that the API server never deletes (its admission plugin `NamespaceLifecycle`).
pub const PERMANENT: [&str; 3] = ["default", "kube-system", "kube-public"];

/// Whether a namespace can have this name: a DNS label (RFC 1123). In the path of a request, another text could address something
/// else.
pub fn is_namespace_name(text: &str) -> bool {
    let alphanumeric = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    (1..=63).contains(&text.len())
        && text.starts_with(alphanumeric)
        && text.ends_with(alphanumeric)
        && text.chars().all(|c| alphanumeric(c) || c == '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_name_is_a_dns_label() {
        let longest = "a".repeat(63);
        for name in ["a", "a-1", "team-1", "0", &longest] {
            assert!(is_namespace_name(name), "{name:?}");
        }
        let longer = "a".repeat(64);
        for name in [
            "",
            "-a",
            "a-",
            "Team",
            "A",
            "a.b",
            "a b",
            "a/status",
            "../a",
            "a?watch=1",
            "a#",
            "a%2fb",
            "\u{e4}",
            &longer,
        ] {
            assert!(!is_namespace_name(name), "{name:?}");
        }
    }
}
