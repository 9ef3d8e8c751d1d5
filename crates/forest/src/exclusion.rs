//! What never propagates, whatever its annotations and the hierarchy say (section 3.4 of HNC's contract): objects that
//! somebody else makes in every namespace, or that would do harm in another one.
//!
//! The same for admission and reconciliation; where HNC's two lists differ, an object is excluded in both. What the operator
//! excludes by name depends on the kind and is the forest's to know ([`crate::KindSettings::excluded_names`]).

use crate::{Kind, Settings, keys};

/// What of an object decides whether it is excluded.
pub struct Traits<'a> {
    /// What it is.
    pub kind: &'a Kind,
    /// Its name.
    pub name: &'a str,
    /// The `type` of a Secret; `None` of other kinds, and where only metadata is known.
    pub secret_type: Option<&'a str>,
    /// Whether it has finalizers.
    pub has_finalizers: bool,
    /// Looks up a label.
    pub label: &'a dyn Fn(&str) -> Option<&'a str>,
    /// Looks up an annotation.
    pub annotation: &'a dyn Fn(&str) -> Option<&'a str>,
}

/// The types of Secrets that belong to something in their own namespace. Watches leave them out by these words.
pub const SECRET_TYPES: [&str; 2] = ["helm.sh/release.v1", "kubernetes.io/service-account-token"];

/// Why an object with finalizers is excluded: nobody would take them away from its copies.
pub const FINALIZERS: &str = "objects with finalizers cannot be propagated";

/// The objects, by kind and name, that somebody else makes in every namespace; kinds of the core group.
pub const OBJECTS_OF_EVERY_NAMESPACE: [(&str, &str); 3] =
    [("ConfigMap", "istio-ca-root-cert"), ("ConfigMap", "kube-root-ca.crt"), ("ServiceAccount", "default")];

/// Why an object never propagates, if so. As a clause, it completes "… is not propagated because".
pub fn exclusion(settings: &Settings, object: &Traits<'_>) -> Option<String> {
    let core = object.kind.group.is_empty();
    if let Some(secret_type) = object.secret_type.filter(|it| SECRET_TYPES.contains(it))
        && core
        && object.kind.kind == "Secret"
    {
        return Some(format!("Secrets of type {secret_type} belong to their own namespace"));
    }
    if core && OBJECTS_OF_EVERY_NAMESPACE.contains(&(&object.kind.kind, object.name)) {
        return Some(format!("every namespace has its own {} {:?}", object.kind.kind, object.name));
    }
    let unwanted = settings.nopropagation_labels.iter();
    if let Some((key, value)) = unwanted.into_iter().find(|(key, value)| (object.label)(key) == Some(value)) {
        return Some(format!("objects with the label {key}={value} are excluded by the administrator"));
    }
    if (object.annotation)(keys::OPENSHIFT_DESCRIPTION).is_some() {
        return Some(format!(
            "objects with the annotation {} are not propagated",
            keys::OPENSHIFT_DESCRIPTION
        ));
    }
    object.has_finalizers.then(|| FINALIZERS.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(group: &str, kind: &str) -> Kind {
        Kind { group: group.into(), version: "v1".into(), kind: kind.into(), resource: String::new() }
    }

    #[test]
    fn what_belongs_to_one_namespace_is_excluded_and_nothing_else() {
        let mut settings = Settings::new("hnc-system", [""; 0], ".*").unwrap();
        settings.nopropagation_labels =
            vec![("creator".into(), "norman".into()), ("mark".into(), String::new())];
        let secret = kind("", "Secret");
        let (config, account) = (kind("", "ConfigMap"), kind("", "ServiceAccount"));
        type Pair = (&'static str, &'static str);
        let cases: [(&Kind, &str, Option<&str>, Option<Pair>, Option<Pair>, bool, Option<&str>); 15] = [
            (&secret, "a", Some("Opaque"), None, None, false, None),
            (&secret, "a", Some("helm.sh/release.v1"), None, None, false, Some("helm.sh/release.v1")),
            (&secret, "a", Some(SECRET_TYPES[1]), None, None, false, Some("service-account-token")),
            (&kind("x.io", "Secret"), "a", Some(SECRET_TYPES[1]), None, None, false, None),
            (&config, "kube-root-ca.crt", None, None, None, false, Some("kube-root-ca.crt")),
            (&config, "istio-ca-root-cert", None, None, None, false, Some("istio")),
            (&secret, "kube-root-ca.crt", None, None, None, false, None),
            (&account, "default", None, None, None, false, Some("default")),
            (&config, "default", None, None, None, false, None),
            (&config, "a", None, Some(("creator", "norman")), None, false, Some("creator=norman")),
            (&config, "a", None, Some(("creator", "other")), None, false, None),
            (&config, "a", None, Some(("mark", "")), None, false, Some("mark=")),
            (&config, "a", None, None, Some((keys::OPENSHIFT_DESCRIPTION, "")), false, Some("openshift.io")),
            (&config, "a", None, None, Some(("other", "")), false, None),
            (&config, "a", None, None, None, true, Some("finalizers")),
        ];
        for (kind, name, secret_type, label, annotation, has_finalizers, says) in cases {
            let get = |pair: Option<Pair>| move |key: &str| pair.filter(|it| it.0 == key).map(|it| it.1);
            let (label, annotation) = (get(label), get(annotation));
            let traits =
                Traits { kind, name, secret_type, has_finalizers, label: &label, annotation: &annotation };
            let found = exclusion(&settings, &traits);
            let fits = match says {
                None => found.is_none(),
                Some(says) => found.as_ref().is_some_and(|found| found.contains(says)),
            };
            assert!(fits, "{} {name}: {found:?}, not {says:?}", kind.kind);
        }
    }
}
