//! A small cluster for the tests of this dialect, drawn in a line of text.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::content::hop;
use super::fact::{Fact as AccurateFact, SubNamespaceFact};
use super::glob::Keys;
use super::keys;
use super::settings::Settings;
use crate::{
    Fact, Forest, Kind, KindId, KindSettings, Mode, NamespaceFact, ObjectFact, ObjectKey, Version, hnc,
};

pub(crate) fn version(text: &str) -> Version {
    Version { uid: text.into(), resource_version: "1".into() }
}

pub(crate) fn keys_of(patterns: &[&str]) -> Keys {
    Keys::new(patterns).unwrap()
}

pub(crate) fn settings() -> Settings {
    Settings {
        label_keys: keys_of(&["team", "*/type", "*.example.com/*"]),
        annotation_keys: keys_of(&["note*"]),
        sub_namespace_label_keys: keys_of(&["tier", "*/type"]),
        sub_namespace_annotation_keys: keys_of(&["owner"]),
        label_excludes: keys_of(&["*kubernetes.io/*"]),
        annotation_excludes: keys_of(&["*kubernetes.io/*"]),
        watches: kinds(),
        ..Settings::default()
    }
}

fn core(kind: &str, resource: &str) -> Kind {
    Kind { group: String::new(), version: "v1".into(), kind: kind.into(), resource: resource.into() }
}

fn kinds() -> Vec<Kind> {
    vec![
        Kind::role(),
        Kind::role_binding(),
        core("Secret", "secrets"),
        core("ResourceQuota", "resourcequotas"),
    ]
}

/// Of these names: `Role`, `RoleBinding`, `Secret`, `ResourceQuota`.
pub(crate) fn key(kind: &str, name: &str) -> ObjectKey {
    let at = kinds().iter().position(|it| it.kind == kind).unwrap();
    ObjectKey { kind: KindId(at.try_into().unwrap()), name: name.into() }
}

pub(crate) fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()
}

/// The labels of a namespace as drawn.
pub(crate) fn place(text: &str) -> BTreeMap<String, String> {
    let parts = text.split_whitespace().skip(1).filter(|part| !["!"].contains(part));
    let label = |part: &str| match part.split_at(1) {
        ("^", parent) => (keys::PARENT.into(), parent.into()),
        ("~", template) => (keys::TEMPLATE.into(), template.into()),
        _ if part == "root" || part == "template" => (keys::TYPE.into(), part.into()),
        _ => part.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned())).unwrap(),
    };
    parts.map(label).collect()
}

/// An empty cluster that is completely known.
pub(crate) fn empty(settings: Settings) -> Forest {
    let kinds: Vec<KindSettings> =
        settings.watches.iter().map(|kind| KindSettings::new(kind.clone(), Mode::Ignore)).collect();
    let mut forest =
        Forest::unconfigured(Arc::new(crate::cluster::settings())).with_accurate(Arc::new(settings));
    forest.apply(Fact::Kinds(kinds));
    forest.apply(Fact::Namespaces(Vec::new()));
    forest.apply(hnc::Fact::Hierarchies(Vec::new()));
    forest.apply(hnc::Fact::Anchors(Vec::new()));
    forest.apply(AccurateFact::SubNamespaces(Vec::new()));
    let ids: Vec<KindId> = forest.kinds().map(|(id, _)| id).collect();
    for id in ids {
        forest.apply(Fact::Objects(id, Vec::new()));
    }
    forest
}

/// Draws namespaces: `"r root, s ^r, t template, i ~t !, n"`. After `^` stands the parent, after `~` the template; `!` is
/// terminating; `key=value` is any label.
pub(crate) fn draw_with(settings: Settings, text: &str) -> Forest {
    let mut forest = empty(settings);
    for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
        forest.apply(namespace(item, "1"));
    }
    forest
}

pub(crate) fn draw(text: &str) -> Forest {
    draw_with(settings(), text)
}

/// One namespace, drawn.
pub(crate) fn namespace(item: &str, resource_version: &str) -> Fact {
    let name = item.split_whitespace().next().unwrap();
    Fact::Namespace(NamespaceFact {
        name: name.into(),
        version: Version { uid: name.into(), resource_version: resource_version.into() },
        labels: place(item).into_iter().collect(),
        terminating: item.contains('!'),
        ..NamespaceFact::default()
    })
}

/// A `SubNamespace` that is as the controller leaves it.
pub(crate) fn form(child: &str) -> SubNamespaceFact {
    SubNamespaceFact {
        name: child.into(),
        version: version(&format!("form {child}")),
        generation: 1,
        finalizers: vec![keys::FINALIZER.into()],
        status: super::SubNamespaceStatus { observed_generation: 1, stalled: None },
        ..SubNamespaceFact::default()
    }
}

/// An object: `annotations` in the order mode, source; empty for none.
pub(crate) fn object(
    settings: &Settings,
    namespace: &str,
    key: &ObjectKey,
    [mode, from]: [&str; 2],
    body: &Value,
    resource_version: &str,
) -> Fact {
    let kind = &settings.watches[usize::from(key.kind.0)];
    let marks = [(keys::PROPAGATE, mode), (keys::FROM, from)];
    let marks: Vec<_> = marks.into_iter().filter(|(_, value)| !value.is_empty()).collect();
    let creator: &[(&str, &str)] = if from.is_empty() { &[] } else { &[(keys::CREATED_BY, keys::CREATOR)] };
    let role = body["roleRef"]["name"].as_str().filter(|_| body["roleRef"]["kind"] == "Role");
    let uid = format!("{namespace}/{}", key.name);
    let version = Version { uid: uid.into(), resource_version: resource_version.into() };
    let body = body.as_object().unwrap();
    Fact::Object(
        key.kind,
        ObjectFact {
            hop: hop(settings, kind, &labels(creator), &labels(&marks), Some(body)),
            role: role.map(Into::into),
            content: Some(crate::KnownContent::whole(crate::Canonical::new(
                BTreeMap::new(),
                BTreeMap::new(),
                body.clone(),
            ))),
            ..ObjectFact::new(namespace.into(), key.name.clone(), version)
        },
    )
}

/// The body of a binding to a Role.
pub(crate) fn binds(role: &str, user: &str) -> Value {
    json!({ "roleRef": { "kind": "Role", "name": role }, "subjects": [{ "kind": "User", "name": user }] })
}
