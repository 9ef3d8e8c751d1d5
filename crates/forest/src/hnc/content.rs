//! The content of HNC's copies (section 6.4 of docs/compatibility.md).

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::keys::{GROUP, INHERITED_FROM};
use crate::core::content::Canonical;
use crate::core::kind::Kind;
use crate::core::version::Version;

const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

impl Canonical {
    /// As [`Canonical::of`], without HNC's own keys. All objects of HNC trees are read with this one.
    pub fn new(
        labels: BTreeMap<String, String>,
        annotations: BTreeMap<String, String>,
        body: Map<String, Value>,
    ) -> Self {
        Self::of(labels, annotations, body).without_keys(is_own_key)
    }

    /// The content of the copies of this object: the label `app.kubernetes.io/managed-by` names HNC.
    #[must_use]
    pub fn as_copy(self) -> Self {
        self.with_label(MANAGED_BY, GROUP)
    }

    /// The copy's manifest in `namespace`, inherited from `source`. With `version`, it replaces only that state.
    pub fn manifest(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        source: &str,
        version: Option<&Version>,
    ) -> Value {
        self.clone().with_label(INHERITED_FROM, source).into_object(kind, namespace, name, version)
    }
}

/// Whether the prefix of a key ends with HNC's group. As in HNC, the end of the text decides, so `xhnc.x-k8s.io/…` is included.
fn is_own_key(key: &str) -> bool {
    key.split_once('/').is_some_and(|(prefix, _)| prefix.ends_with(GROUP))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
