//! The kinds of object that the suite plays with: how each is named and how an object of it is written. Nothing of the
//! rules of propagation but what becomes of conflicts of each.

use std::collections::BTreeMap;
use std::fmt;

use hns_api::ConflictPolicy;
use k8s_openapi::ByteString;
use kube::api::{ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};

pub(crate) const RBAC: &str = "rbac.authorization.k8s.io";

/// Two kinds that are always propagated, two that are configured, and one that has a definition of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Role,
    RoleBinding,
    ConfigMap,
    Secret,
    Widget,
}

/// What is in an object besides its labels and annotations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Content {
    /// Every change gives another number.
    pub(crate) number: u64,
    /// Of `ConfigMaps` and Secrets only.
    pub(crate) immutable: bool,
    /// The role that a binding is about, which cannot be changed.
    pub(crate) role: &'static str,
}

/// An object as far as it is compared: everything but `status` and what the API server writes into `metadata`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Form {
    pub(crate) body: Value,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) annotations: BTreeMap<String, String>,
}

impl Kind {
    pub(crate) const ALL: [Self; 5] =
        [Self::Role, Self::RoleBinding, Self::ConfigMap, Self::Secret, Self::Widget];
    /// The kinds whose mode can be chosen.
    pub(crate) const CONFIGURED: [Self; 3] = [Self::ConfigMap, Self::Secret, Self::Widget];

    /// Group, plural name and kind.
    pub(crate) fn names(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Role => (RBAC, "roles", "Role"),
            Self::RoleBinding => (RBAC, "rolebindings", "RoleBinding"),
            Self::ConfigMap => ("", "configmaps", "ConfigMap"),
            Self::Secret => ("", "secrets", "Secret"),
            Self::Widget => ("chaos.example.com", "widgets", "Widget"),
        }
    }

    pub(crate) fn resource(self) -> ApiResource {
        let (group, plural, kind) = self.names();
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, "v1", kind), plural)
    }

    /// What it is configured with.
    pub(crate) fn on_conflict(self) -> Option<ConflictPolicy> {
        match self {
            Self::Secret => Some(ConflictPolicy::Report),
            Self::Widget => Some(ConflictPolicy::Overwrite),
            _ => None,
        }
    }

    /// Whether users' own objects are kept.
    pub(crate) fn keeps(self) -> bool {
        self.on_conflict() != Some(ConflictPolicy::Overwrite)
    }

    /// The body of an object with this content.
    pub(crate) fn body(self, content: &Content) -> Value {
        let number = content.number.to_string();
        let mut body = match self {
            Self::Role => {
                json!({ "rules": [{ "apiGroups": [""], "resources": ["pods"], "verbs": ["get", format!("verb-{number}")] }] })
            }
            Self::RoleBinding => json!({
                "roleRef": { "apiGroup": RBAC, "kind": "Role", "name": content.role },
                "subjects": [{ "apiGroup": RBAC, "kind": "User", "name": format!("user-{number}") }],
            }),
            Self::ConfigMap => json!({ "data": { "number": number } }),
            Self::Secret => {
                json!({ "type": "Opaque", "data": { "number": ByteString(number.into_bytes()) } })
            }
            Self::Widget => json!({ "spec": { "size": content.number } }),
        };
        if content.immutable && matches!(self, Self::ConfigMap | Self::Secret) {
            body["immutable"] = json!(true);
        }
        body
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.names().2)
    }
}

impl Form {
    pub(crate) fn of(object: &DynamicObject) -> Self {
        let mut body = object.data.clone();
        if let Value::Object(fields) = &mut body {
            fields.remove("status");
        }
        let metadata = object.metadata.clone();
        let labels = metadata.labels.unwrap_or_default();
        Self { body, labels, annotations: metadata.annotations.unwrap_or_default() }
    }
}

/// The definition of the kind that only this suite has.
pub(crate) fn definition() -> Value {
    let (group, plural, kind) = Kind::Widget.names();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.{group}") },
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": { "kind": kind, "plural": plural, "singular": "widget" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": {
                    "type": "object",
                    "properties": { "spec": { "type": "object", "properties": { "size": { "type": "integer" } } } },
                } },
            }],
        },
    })
}
