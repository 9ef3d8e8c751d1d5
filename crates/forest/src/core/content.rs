//! What is copied from a source and compared with a copy: the canonical form of section 6.4 of docs/compatibility.md.
//!
//! Never holds what belongs to one object alone (uid, resource version, owners, finalizers, status).

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::num::NonZeroU64;
use std::sync::OnceLock;

use serde_json::{Map, Value, json};

use crate::{Kind, Version};

const OWN_SUFFIX: &str = "hnc.x-k8s.io";
const INHERITED_FROM: &str = "hnc.x-k8s.io/inherited-from";
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// An object reduced to what propagation carries.
#[derive(Debug, Clone, PartialEq)]
pub struct Canonical {
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    body: Map<String, Value>,
}

impl Canonical {
    /// The canonical form of an object with these labels, annotations and further top-level fields. Fields that say
    /// what or where the object is, and its status, are left out.
    pub fn new(
        labels: BTreeMap<String, String>,
        annotations: BTreeMap<String, String>,
        mut body: Map<String, Value>,
    ) -> Self {
        for key in ["apiVersion", "kind", "metadata", "status"] {
            body.remove(key);
        }
        Self { labels: without_own_keys(labels), annotations: without_own_keys(annotations), body }
    }

    /// What the copies of this object look like: the label `app.kubernetes.io/managed-by` says who keeps them.
    #[must_use]
    pub fn as_copy(mut self) -> Self {
        self.labels.insert(MANAGED_BY.into(), OWN_SUFFIX.into());
        self
    }

    /// Without the labels that `is_meant` names.
    #[must_use]
    pub fn without_labels(mut self, is_meant: impl Fn(&str) -> bool) -> Self {
        self.labels.retain(|key, _| !is_meant(key));
        self
    }

    /// A fingerprint: equal forms have equal digests within one process, and nobody outside it can aim at a collision,
    /// because its key is random.
    pub fn digest(&self) -> Digest {
        let mut hasher = hasher();
        self.labels.hash(&mut hasher);
        self.annotations.hash(&mut hasher);
        hash_fields(&self.body, &mut hasher);
        Digest::of(&hasher)
    }

    /// The same for the further top-level fields alone: what a Role allows, whom a `RoleBinding` binds to which role.
    pub fn body_digest(&self) -> Digest {
        let mut hasher = hasher();
        hash_fields(&self.body, &mut hasher);
        Digest::of(&hasher)
    }

    /// The copy's manifest in `namespace`, inherited from `source`. With `version`, it replaces exactly that state.
    pub fn manifest(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        source: &str,
        version: Option<&Version>,
    ) -> Value {
        let mut labels = self.labels.clone();
        labels.insert(INHERITED_FROM.into(), source.into());
        let mut metadata = json!({ "name": name, "namespace": namespace, "labels": labels });
        if !self.annotations.is_empty() {
            metadata["annotations"] = json!(self.annotations);
        }
        if let Some(version) = version {
            metadata["uid"] = json!(version.uid);
            metadata["resourceVersion"] = json!(version.resource_version);
        }
        let mut manifest = self.body.clone();
        manifest.insert("apiVersion".into(), json!(kind.api_version()));
        manifest.insert("kind".into(), json!(kind.kind));
        manifest.insert("metadata".into(), metadata);
        Value::Object(manifest)
    }
}

/// A fingerprint of a [`Canonical`]; see [`Canonical::digest`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest(NonZeroU64);

impl Digest {
    fn of(hasher: &impl Hasher) -> Self {
        Self(NonZeroU64::new(hasher.finish()).unwrap_or(NonZeroU64::MIN))
    }
}

fn hasher() -> impl Hasher {
    static KEY: OnceLock<RandomState> = OnceLock::new();
    KEY.get_or_init(RandomState::new).build_hasher()
}

/// Keys whose prefix ends with the project's group are for the hierarchy and are not carried along. The test is on the
/// end of the string, as HNC's is, so `xhnc.x-k8s.io/…` is left out too.
fn without_own_keys(mut pairs: BTreeMap<String, String>) -> BTreeMap<String, String> {
    pairs.retain(|key, _| !key.split_once('/').is_some_and(|(prefix, _)| prefix.ends_with(OWN_SUFFIX)));
    pairs
}

/// The order of a map's keys is the parser's affair, so it must not reach the digest.
fn hash_fields(fields: &Map<String, Value>, hasher: &mut impl Hasher) {
    let mut keys: Vec<&String> = fields.keys().collect();
    keys.sort_unstable();
    keys.len().hash(hasher);
    for key in keys {
        key.hash(hasher);
        hash_value(&fields[key], hasher);
    }
}

fn hash_value(value: &Value, hasher: &mut impl Hasher) {
    std::mem::discriminant(value).hash(hasher);
    match value {
        Value::Null => {}
        Value::Bool(it) => it.hash(hasher),
        Value::Number(it) => it.hash(hasher),
        Value::String(it) => it.hash(hasher),
        Value::Array(items) => {
            items.len().hash(hasher);
            for item in items {
                hash_value(item, hasher);
            }
        }
        Value::Object(fields) => hash_fields(fields, hasher),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
        pairs.into_iter().map(|(key, value)| (key.into(), value.into())).collect()
    }

    fn fields(value: &Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap()
    }

    #[test]
    fn the_manifest_of_a_copy_carries_content_and_nothing_that_belongs_to_the_source() {
        let source = Canonical::new(
            map([("team", "red"), ("hnc.x-k8s.io/inherited-from", "x"), ("xhnc.x-k8s.io/a", "b")]),
            map([("note", "keep"), ("propagate.hnc.x-k8s.io/none", "false")]),
            fields(&json!({"kind": "Role", "status": {}, "rules": [{"verbs": ["get"]}]})),
        );
        let version = Version { uid: "u".into(), resource_version: "7".into() };
        let manifest = source.as_copy().manifest(&Kind::role(), "child", "reader", "root", Some(&version));
        assert_eq!(
            manifest,
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "Role",
                "metadata": {
                    "name": "reader", "namespace": "child", "uid": "u", "resourceVersion": "7",
                    "labels": {
                        "team": "red",
                        "app.kubernetes.io/managed-by": "hnc.x-k8s.io",
                        "hnc.x-k8s.io/inherited-from": "root",
                    },
                    "annotations": {"note": "keep"},
                },
                "rules": [{"verbs": ["get"]}],
            })
        );
    }

    #[test]
    fn the_digest_of_a_copy_equals_its_sources_until_either_changes() {
        let source =
            Canonical::new(map([("team", "red")]), map([]), fields(&json!({"rules": [], "a": 1}))).as_copy();
        let copy = |labels, body| Canonical::new(labels, map([]), fields(&body)).digest();
        let labels = [
            ("team", "red"),
            ("app.kubernetes.io/managed-by", "hnc.x-k8s.io"),
            ("hnc.x-k8s.io/inherited-from", "root"),
        ];
        assert_eq!(source.digest(), copy(map(labels), json!({"a": 1, "rules": [], "kind": "Role"})));
        assert_ne!(source.digest(), copy(map(labels), json!({"a": 1})));
        assert_ne!(source.digest(), copy(map(labels), json!({"a": 2, "rules": []})));
        assert_ne!(source.digest(), copy(map([("team", "red")]), json!({"a": 1, "rules": []})));
    }

    #[test]
    fn structure_reaches_the_digest_not_only_its_leaves() {
        let digest = |body| Canonical::new(map([]), map([]), fields(&body)).digest();
        assert_ne!(digest(json!({"a": [["x"], []]})), digest(json!({"a": [[], ["x"]]})));
        assert_ne!(digest(json!({"a": {"b": "c"}})), digest(json!({"a": ["b", "c"]})));
        assert_ne!(digest(json!({"a": ""})), digest(json!({"a": null})));
    }
}
