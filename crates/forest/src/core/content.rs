//! What is copied from a source and compared with a copy: the canonical form of an object.
//!
//! Never holds what belongs to one object alone (uid, resource version, owners, finalizers, status).

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::num::NonZeroU64;
use std::sync::OnceLock;

use serde_json::{Map, Value, json};

use super::kind::Kind;
use super::version::Version;

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
    pub fn of(
        labels: BTreeMap<String, String>,
        annotations: BTreeMap<String, String>,
        mut body: Map<String, Value>,
    ) -> Self {
        for key in ["apiVersion", "kind", "metadata", "status"] {
            body.remove(key);
        }
        Self { labels, annotations, body }
    }

    /// The same with this label.
    #[must_use]
    pub fn with_label(mut self, key: &str, value: &str) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// The same without the labels and annotations that `is_meant` selects.
    #[must_use]
    pub fn without_keys(mut self, is_meant: impl Fn(&str) -> bool) -> Self {
        self.labels.retain(|key, _| !is_meant(key));
        self.annotations.retain(|key, _| !is_meant(key));
        self
    }

    /// The same without the labels that `is_meant` selects.
    #[must_use]
    pub fn without_labels(mut self, is_meant: impl Fn(&str) -> bool) -> Self {
        self.labels.retain(|key, _| !is_meant(key));
        self
    }

    /// A fingerprint: equal forms have equal digests within one process, and no user can aim at a collision,
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

    /// The manifest of such an object. With `version`, it replaces exactly that state.
    #[must_use]
    pub fn into_object(self, kind: &Kind, namespace: &str, name: &str, version: Option<&Version>) -> Value {
        let mut metadata = json!({ "name": name, "namespace": namespace, "labels": self.labels });
        if !self.annotations.is_empty() {
            metadata["annotations"] = json!(self.annotations);
        }
        if let Some(version) = version {
            metadata["uid"] = json!(version.uid);
            metadata["resourceVersion"] = json!(version.resource_version);
        }
        let mut manifest = self.body;
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
