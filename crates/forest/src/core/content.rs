//! What is copied from a source and compared with a copy: the canonical form of an object.
//!
//! It has the labels, the annotations and all other top-level fields except `status`. `cluster::ingest` decides which metadata arrives
//! here: owners, finalizers and versions belong to one object alone. Admission compares copies too and must agree with this file: see
//! "A field of a copy" in docs/architecture.md.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::num::NonZeroU64;
use std::sync::OnceLock;

use serde_json::{Map, Value, json};

use super::kind::Kind;
use super::version::Version;

/// The part of an object that propagation copies.
#[derive(Debug, Clone, PartialEq)]
pub struct Canonical {
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    body: Map<String, Value>,
}

impl Canonical {
    /// The canonical form of an object with these labels, annotations and further top-level fields, except `apiVersion`, `kind`,
    /// `metadata` and `status`. A dialect has its own constructor, which also leaves out the dialect's keys.
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

    /// The same without the labels and annotations for which `is_meant` returns true.
    #[must_use]
    pub fn without_keys(mut self, is_meant: impl Fn(&str) -> bool) -> Self {
        self.labels.retain(|key, _| !is_meant(key));
        self.annotations.retain(|key, _| !is_meant(key));
        self
    }

    /// The same without the labels for which `is_meant` returns true.
    #[must_use]
    pub fn without_labels(mut self, is_meant: impl Fn(&str) -> bool) -> Self {
        self.labels.retain(|key, _| !is_meant(key));
        self
    }

    /// A fingerprint: within one process, equal forms have equal digests. Its key is random, so no user can construct a
    /// collision.
    pub fn digest(&self) -> Digest {
        let mut hasher = hasher();
        self.labels.hash(&mut hasher);
        self.annotations.hash(&mut hasher);
        hash_fields(&self.body, &mut hasher);
        Digest::of(&hasher)
    }

    /// The same for the further top-level fields alone: the rules of a Role, the subjects and the role of a `RoleBinding`.
    pub fn body_digest(&self) -> Digest {
        let mut hasher = hasher();
        hash_fields(&self.body, &mut hasher);
        Digest::of(&hasher)
    }

    /// The manifest of such an object. With `version`, it replaces only that state.
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

/// The parser decides the order of the keys, so the digest does not depend on it.
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
