//! What is copied from a source and compared with a copy: the canonical form of an object.
//!
//! It has the labels, the annotations and all other top-level fields except `status`. `cluster::ingest` decides which metadata arrives
//! here: owners, finalizers and versions belong to one object alone. Admission compares copies too and must agree with this file: see
//! "A field of a copy" in docs/architecture.md.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::num::NonZeroU64;
use std::sync::OnceLock;

use serde_json::{Map, Value, json};

use super::kind::Kind;
use super::version::Version;

/// The part of an object that propagation copies.
#[derive(Debug, Clone, PartialEq, Hash)]
pub struct Canonical {
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    /// The fields as JSON with sorted keys: a value takes up to ten times the memory of its text.
    body: BTreeMap<String, Box<str>>,
}

impl Canonical {
    /// The canonical form of an object with these labels, annotations and further top-level fields, except `apiVersion`, `kind`,
    /// `metadata` and `status`. A dialect has its own constructor, which also leaves out the dialect's keys.
    pub fn of(
        labels: BTreeMap<String, String>,
        annotations: BTreeMap<String, String>,
        body: Map<String, Value>,
    ) -> Self {
        let is_copied = |field: &String| !["apiVersion", "kind", "metadata", "status"].contains(&&**field);
        let text = |(field, mut value): (String, Value)| {
            value.sort_all_objects();
            (field, value.to_string().into())
        };
        let body = body.into_iter().filter(|(field, _)| is_copied(field)).map(text).collect();
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
        Digest::of(self)
    }

    /// The same for the further top-level fields alone: the rules of a Role, the subjects and the role of a `RoleBinding`.
    pub fn body_digest(&self) -> Digest {
        Digest::of(&self.body)
    }

    /// The manifest of such an object. With `version`, it replaces only that state.
    #[must_use]
    #[expect(clippy::missing_panics_doc, reason = "the text was written from a value")]
    pub fn into_object(self, kind: &Kind, namespace: &str, name: &str, version: Option<&Version>) -> Value {
        let mut metadata = json!({ "name": name, "namespace": namespace, "labels": self.labels });
        if !self.annotations.is_empty() {
            metadata["annotations"] = json!(self.annotations);
        }
        if let Some(version) = version {
            metadata["uid"] = json!(version.uid);
            metadata["resourceVersion"] = json!(version.resource_version);
        }
        let value = |text: &str| serde_json::from_str(text).expect("it was written from a value");
        let mut manifest: Map<String, Value> =
            self.body.into_iter().map(|(field, text)| (field, value(&text))).collect();
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
    fn of(content: &impl Hash) -> Self {
        static KEY: OnceLock<RandomState> = OnceLock::new();
        let hash = KEY.get_or_init(RandomState::new).hash_one(content);
        Self(NonZeroU64::new(hash).unwrap_or(NonZeroU64::MIN))
    }
}
