//! What a copy contains (section 9 of Accurate's contract), and what an object says about its propagation.
//!
//! A copy equals its source whole, so that what is removed from a source is removed from its copies: the body, the labels and the
//! annotations. Excluded keys are neither copied nor compared; other tools may set them on copies.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::keys;
use super::settings::Settings;
use crate::core::content::Canonical;
use crate::core::hop::{Hop, HopMode};
use crate::core::kind::Kind;
use crate::core::name::Name;
use crate::core::object::KnownContent;
use crate::core::version::Version;

type Pairs = BTreeMap<String, String>;

/// What an object of a watched kind says; `None` if it is neither a source nor a copy. `body` has the top-level fields; `None` from
/// streams that carry metadata only.
pub fn hop(
    settings: &Settings,
    kind: &Kind,
    labels: &Pairs,
    annotations: &Pairs,
    body: Option<&Map<String, Value>>,
) -> Option<Box<Hop>> {
    let value = |key: &str| annotations.get(key).map(String::as_str).filter(|value| !value.is_empty());
    let mode = value(keys::PROPAGATE).map(|mode| match mode {
        "create" => HopMode::Create,
        "update" => HopMode::Update,
        _ => HopMode::Unknown,
    });
    let from = value(keys::FROM).map(Name::from);
    if mode.is_none() && from.is_none() || !settings.watches(kind) {
        return None;
    }
    let marked = labels.get(keys::CREATED_BY).is_some_and(|creator| creator == keys::CREATOR);
    let content = body.map(|body| KnownContent::whole(copied(settings, kind, labels, annotations, body)));
    Some(Box::new(Hop::new(mode, from, marked, content)))
}

/// The content of the copies of an object.
fn copied(
    settings: &Settings,
    kind: &Kind,
    labels: &Pairs,
    annotations: &Pairs,
    body: &Map<String, Value>,
) -> Canonical {
    let mut labels = labels.clone();
    labels.retain(|key, _| !settings.label_excludes.matches(key));
    labels.insert(keys::CREATED_BY.into(), keys::CREATOR.into());
    let mut annotations = annotations.clone();
    annotations.retain(|key, _| key != keys::FROM && !settings.annotation_excludes.matches(key));
    let mut body = body.clone();
    if kind.group.is_empty() && kind.kind == "ServiceAccount" {
        body.remove("secrets");
    }
    Canonical::of(labels, annotations, body)
}

/// The manifest of a copy in `namespace` whose source is in `source`. With `version`, it replaces only that state.
pub fn manifest(
    content: &Canonical,
    kind: &Kind,
    [namespace, name, source]: [&str; 3],
    version: Option<&Version>,
) -> Value {
    let mut manifest = content.clone().into_object(kind, namespace, name, version);
    let annotations = &mut manifest["metadata"]["annotations"];
    if annotations.is_null() {
        *annotations = json!({});
    }
    annotations[keys::FROM] = json!(source);
    manifest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accurate::glob::Keys;

    fn pairs(pairs: &[(&str, &str)]) -> Pairs {
        pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()
    }

    fn settings(kinds: &[&Kind]) -> Settings {
        let excludes = Keys::new(["*kubernetes.io/*"]).unwrap();
        let watches = kinds.iter().map(|kind| (*kind).clone()).collect();
        Settings {
            label_excludes: excludes.clone(),
            annotation_excludes: excludes,
            watches,
            ..Settings::default()
        }
    }

    fn body(value: &Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap()
    }

    #[test]
    fn a_copy_has_everything_of_its_source_but_what_is_excluded() {
        let account = Kind {
            group: String::new(),
            version: "v1".into(),
            kind: "ServiceAccount".into(),
            resource: "serviceaccounts".into(),
        };
        let seen = hop(
            &settings(&[&account]),
            &account,
            &pairs(&[("team", "red"), ("app.kubernetes.io/name", "x")]),
            &pairs(&[
                (keys::PROPAGATE, "update"),
                (keys::FROM, "top"),
                ("kubectl.kubernetes.io/a", "b"),
                ("c", "d"),
            ]),
            Some(&body(
                &json!({"kind": "ServiceAccount", "metadata": {}, "status": {}, "secrets": [{"name": "t"}],
                "imagePullSecrets": [{"name": "p"}]}),
            )),
        )
        .unwrap();
        assert_eq!(
            (seen.mode, seen.from.as_deref(), seen.marked),
            (Some(HopMode::Update), Some("top"), false)
        );
        let content = seen.content.unwrap().canonical.unwrap();
        let version = Version { uid: "u".into(), resource_version: "7".into() };
        assert_eq!(
            manifest(&content, &account, ["child", "a", "root"], Some(&version)),
            json!({
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {
                    "name": "a", "namespace": "child", "uid": "u", "resourceVersion": "7",
                    "labels": {"team": "red", "app.kubernetes.io/created-by": "accurate"},
                    "annotations": {keys::PROPAGATE: "update", "c": "d", keys::FROM: "root"},
                },
                "imagePullSecrets": [{"name": "p"}],
            })
        );
    }

    #[test]
    fn a_copy_of_any_level_has_the_digest_of_its_source_and_any_other_difference_shows() {
        let role = Kind::role();
        let settings = settings(&[&role]);
        let seen = |labels: &[(&str, &str)], annotations: &[(&str, &str)], rules: Value| {
            hop(
                &settings,
                &role,
                &pairs(labels),
                &pairs(annotations),
                Some(&body(&json!({ "rules": rules }))),
            )
            .unwrap()
        };
        let update = (keys::PROPAGATE, "update");
        let copy = |labels: &[(&str, &str)], rules| {
            seen(
                &[&[(keys::CREATED_BY, "accurate")], labels].concat(),
                &[update, (keys::FROM, "root")],
                rules,
            )
        };
        let source = seen(&[("team", "red")], &[update], json!([1]));
        let root = Name::from("root");
        assert!(copy(&[("team", "red")], json!([1])).is_of(&root, &source));
        assert!(copy(&[("team", "red"), ("app.kubernetes.io/x", "y")], json!([1])).is_of(&root, &source));
        assert!(!copy(&[("team", "red")], json!([1])).is_of(&"other".into(), &source));
        assert!(!copy(&[("team", "red")], json!([1, 2])).is_of(&root, &source));
        assert!(!copy(&[("team", "red"), ("more", "x")], json!([1])).is_of(&root, &source));
        assert!(!copy(&[], json!([1])).is_of(&root, &source));
        let unmarked = seen(&[("team", "red")], &[update, (keys::FROM, "root")], json!([1]));
        assert!(!unmarked.is_of(&root, &source));
    }

    #[test]
    fn an_object_without_the_annotations_or_of_another_kind_says_nothing() {
        let says = |kind: &Kind, annotations: &[(&str, &str)]| {
            hop(&settings(&[&Kind::role()]), kind, &Pairs::new(), &pairs(annotations), None).map(|it| it.mode)
        };
        assert_eq!(says(&Kind::role(), &[("a", "b"), (keys::PROPAGATE, "")]), None);
        assert_eq!(says(&Kind::role_binding(), &[(keys::PROPAGATE, "create")]), None);
        assert_eq!(says(&Kind::role(), &[(keys::PROPAGATE, "create")]), Some(Some(HopMode::Create)));
        assert_eq!(says(&Kind::role(), &[(keys::PROPAGATE, "always")]), Some(Some(HopMode::Unknown)));
        assert_eq!(says(&Kind::role(), &[(keys::FROM, "root")]), Some(None));
    }
}
