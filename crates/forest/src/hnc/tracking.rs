//! The labels and annotations by which deployment tools find their objects.
//!
//! With them on a copy, a tool would treat the copy as its own, and prune or overwrite it. So they are neither copied nor
//! compared, unless the operator asks for HNC's behaviour.

use std::sync::LazyLock;

use crate::core::patterns::Patterns;

/// Argo CD, Flux, kapp, Helm, and `kubectl apply`.
const KEYS: [&str; 10] = [
    "app.kubernetes.io/instance",
    "argocd.argoproj.io/*",
    "kustomize.toolkit.fluxcd.io/*",
    "helm.toolkit.fluxcd.io/*",
    "fluxcd.io/*",
    "kapp.k14s.io/*",
    "meta.helm.sh/*",
    "helm.sh/*",
    "kubectl.kubernetes.io/last-applied-configuration",
    "applyset.kubernetes.io/*",
];

static PATTERNS: LazyLock<Patterns> =
    LazyLock::new(|| Patterns::new(KEYS).expect("the patterns are written above and tested below"));

/// Whether a deployment tool finds its objects by this label or annotation.
pub fn is_tracking_key(key: &str) -> bool {
    PATTERNS.matches(key)
}

/// All patterns, `*` standing for anything.
pub fn tracking_keys() -> impl Iterator<Item = &'static str> {
    KEYS.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_deployment_tools_and_no_others() {
        for (key, is) in [
            ("argocd.argoproj.io/tracking-id", true),
            ("kustomize.toolkit.fluxcd.io/name", true),
            ("kapp.k14s.io/app", true),
            ("meta.helm.sh/release-name", true),
            ("helm.sh/chart", true),
            ("kubectl.kubernetes.io/last-applied-configuration", true),
            ("app.kubernetes.io/instance", true),
            ("app.kubernetes.io/name", false),
            ("team", false),
        ] {
            assert_eq!(is_tracking_key(key), is, "{key}");
        }
    }
}
