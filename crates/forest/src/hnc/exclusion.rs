//! The objects that never propagate, for any annotations and any hierarchy (section 3.4 of docs/compatibility.md): objects that
//! another component creates in every namespace, or that would do harm in another namespace.
//!
//! Admission and reconciliation use the same list; where HNC's two lists differ, an object is excluded in both. The names that
//! the operator excludes depend on the kind ([`crate::core::kind::KindSettings::excluded_names`]).

use super::keys;
use super::settings::Settings;
use crate::accurate;
use crate::core::kind::Kind;
pub use crate::core::object::LONGEST_NAME;
use crate::core::object::REPLACEMENT;

/// The parts of an object that decide whether it is excluded.
pub struct Traits<'a> {
    /// Its kind.
    pub kind: &'a Kind,
    /// Its name.
    pub name: &'a str,
    /// The `type` of a Secret; `None` for other kinds, and where only metadata is known.
    pub secret_type: Option<&'a str>,
    /// Whether it has finalizers.
    pub has_finalizers: bool,
    /// Whether it is being deleted.
    pub is_terminating: bool,
    /// Looks up a label.
    pub label: &'a dyn Fn(&str) -> Option<&'a str>,
    /// Looks up an annotation.
    pub annotation: &'a dyn Fn(&str) -> Option<&'a str>,
}

/// The types of Secrets that belong to an owner in their own namespace. Watches exclude them with a field selector.
pub const SECRET_TYPES: [&str; 2] = ["helm.sh/release.v1", "kubernetes.io/service-account-token"];

/// The field selector of all objects of a kind, except Secrets of those types; `None` if that is all.
pub fn field_selector(kind: &Kind) -> Option<String> {
    let is_secret = kind.group.is_empty() && kind.kind == "Secret";
    is_secret.then(|| SECRET_TYPES.map(|it| format!("type!={it}")).join(","))
}

/// Why Secrets of this type are never propagated, if so.
pub fn type_of_secret(type_: &str) -> Option<String> {
    let is_bound = SECRET_TYPES.contains(&type_);
    is_bound.then(|| format!("Secrets of type {type_} belong to their own namespace"))
}

/// Why an object with finalizers is excluded: no controller removes them from its copies.
pub const FINALIZERS: &str = "objects with finalizers cannot be propagated";

/// The objects of the core group, by kind and name, that another component creates in every namespace.
pub const OBJECTS_OF_EVERY_NAMESPACE: [(&str, &str); 3] =
    [("ConfigMap", "istio-ca-root-cert"), ("ConfigMap", "kube-root-ca.crt"), ("ServiceAccount", "default")];

/// Why an object of this name is excluded, if so.
pub fn unfit_name(name: &str) -> Option<&'static str> {
    if name.len() > LONGEST_NAME {
        return Some(
            "objects with a name of more than 1024 bytes cannot be propagated, because a copy of that name might not be deletable",
        );
    }
    name.contains(REPLACEMENT).then_some(
        "objects with a name that contains the character U+FFFD cannot be propagated, because different names can be equal in JSON",
    )
}

/// Why an object is excluded that is nested more deeply than JSON is parsed.
pub const TOO_DEEP: &str = "objects nested more than about 120 levels deep cannot be propagated";

/// Whether the hierarchy is made of objects of this kind, in HNC's API or in Accurate's.
pub(crate) fn is_structure(kind: &Kind) -> bool {
    kind.group == keys::GROUP || kind.group == accurate::keys::GROUP
}

/// Why objects of such a kind are excluded.
pub const STRUCTURE: &str = "the hierarchy is made of objects of its kind";

/// Why Events are excluded. The API server refuses such a copy, and hns reports that with another Event.
pub const EVENTS: &str = "an Event is about an object in its own namespace";

/// Why objects of this kind are never propagated, if so.
pub fn never(kind: &Kind) -> Option<&'static str> {
    if is_structure(kind) {
        return Some(STRUCTURE);
    }
    let is_event = kind.kind == "Event" && ["", "events.k8s.io"].contains(&&*kind.group);
    is_event.then_some(EVENTS)
}

/// Why an object never propagates, if so. As a clause, it completes "… is not propagated because".
pub fn exclusion(settings: &Settings, object: &Traits<'_>) -> Option<String> {
    if let Some(why) = never(object.kind) {
        return Some(why.to_owned());
    }
    if let Some(why) = unfit_name(object.name) {
        return Some(why.to_owned());
    }
    let core = object.kind.group.is_empty();
    if let Some(why) = object.secret_type.and_then(type_of_secret)
        && core
        && object.kind.kind == "Secret"
    {
        return Some(why);
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
    if object.has_finalizers {
        return Some(FINALIZERS.to_owned());
    }
    // A server-side apply can create it so, and then it stays.
    object.is_terminating.then(|| "it is being deleted".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(group: &str, kind: &str) -> Kind {
        Kind { group: group.into(), version: "v1".into(), kind: kind.into(), resource: String::new() }
    }

    type Pair = (&'static str, &'static str);

    /// An object, and a text that its exclusion reason contains.
    struct Case<'a> {
        kind: &'a Kind,
        name: &'a str,
        secret_type: Option<&'static str>,
        label: Option<Pair>,
        annotation: Option<Pair>,
        has_finalizers: bool,
        is_terminating: bool,
        says: Option<&'static str>,
    }

    impl<'a> Case<'a> {
        fn new(kind: &'a Kind, name: &'a str) -> Self {
            Self {
                kind,
                name,
                secret_type: None,
                label: None,
                annotation: None,
                has_finalizers: false,
                is_terminating: false,
                says: None,
            }
        }

        fn of_type(self, secret_type: &'static str) -> Self {
            Self { secret_type: Some(secret_type), ..self }
        }

        fn label(self, key: &'static str, value: &'static str) -> Self {
            Self { label: Some((key, value)), ..self }
        }

        fn annotation(self, key: &'static str) -> Self {
            Self { annotation: Some((key, "")), ..self }
        }

        fn says(self, says: &'static str) -> Self {
            Self { says: Some(says), ..self }
        }
    }

    #[test]
    fn what_belongs_to_one_namespace_is_excluded_and_nothing_else() {
        let mut settings = Settings::new("hnc-system", [""; 0], ".*").unwrap();
        settings.nopropagation_labels =
            vec![("creator".into(), "norman".into()), ("mark".into(), String::new())];
        let (secret, other) = (kind("", "Secret"), kind("x.io", "Secret"));
        let events = ["", "events.k8s.io", "x.io"].map(|group| kind(group, "Event"));
        let (config, account) = (kind("", "ConfigMap"), kind("", "ServiceAccount"));
        let (anchor, sub) =
            (kind(keys::GROUP, "SubnamespaceAnchor"), kind("accurate.cybozu.com", "SubNamespace"));
        let (longest, too_long) = ("n".repeat(LONGEST_NAME), "n".repeat(LONGEST_NAME + 1));
        let cases = [
            Case::new(&secret, "a").of_type("Opaque"),
            Case::new(&secret, "a").of_type("helm.sh/release.v1").says("helm.sh/release.v1"),
            Case::new(&secret, "a").of_type(SECRET_TYPES[1]).says("service-account-token"),
            Case::new(&other, "a").of_type(SECRET_TYPES[1]),
            Case::new(&config, "kube-root-ca.crt").says("kube-root-ca.crt"),
            Case::new(&config, "istio-ca-root-cert").says("istio"),
            Case::new(&secret, "kube-root-ca.crt"),
            Case::new(&account, "default").says("default"),
            Case::new(&config, "default"),
            Case::new(&config, "a").label("creator", "norman").says("creator=norman"),
            Case::new(&config, "a").label("creator", "other"),
            Case::new(&config, "a").label("mark", "").says("mark="),
            Case::new(&config, "a").annotation(keys::OPENSHIFT_DESCRIPTION).says("openshift.io"),
            Case::new(&config, "a").annotation("other"),
            Case { has_finalizers: true, ..Case::new(&config, "a") }.says("finalizers"),
            Case { is_terminating: true, ..Case::new(&config, "a") }.says("is being deleted"),
            Case { has_finalizers: true, ..Case::new(&anchor, "a") }.says(STRUCTURE),
            Case::new(&sub, "a").says(STRUCTURE),
            Case::new(&events[0], "a").says(EVENTS),
            Case::new(&events[1], "a").says(EVENTS),
            Case::new(&events[2], "a"),
            Case::new(&config, &longest),
            Case::new(&config, &too_long).says("1024 bytes"),
            Case::new(&config, "a\u{FFFD}").says("U+FFFD"),
        ];
        for Case { kind, name, secret_type, label, annotation, has_finalizers, is_terminating, says } in cases
        {
            let get = |pair: Option<Pair>| move |key: &str| pair.filter(|it| it.0 == key).map(|it| it.1);
            let (label, annotation) = (get(label), get(annotation));
            let traits = Traits {
                kind,
                name,
                secret_type,
                has_finalizers,
                is_terminating,
                label: &label,
                annotation: &annotation,
            };
            let found = exclusion(&settings, &traits);
            let fits = match says {
                None => found.is_none(),
                Some(says) => found.as_ref().is_some_and(|found| found.contains(says)),
            };
            assert!(fits, "{} {name}: {found:?}, not {says:?}", kind.kind);
        }
    }
}
