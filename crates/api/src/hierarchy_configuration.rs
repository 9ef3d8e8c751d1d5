//! The kind `HierarchyConfiguration`: the singleton `hierarchy`, which sets the parent of its namespace.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{KeyValue, schema};

// An absent field and its zero value mean the same; the types distinguish them so that an object is written
// back unchanged. (This is not a doc comment, because the doc comment becomes the description in the
// CRD.)
/// The place of this namespace in the hierarchy, and what namespaces below inherit.
#[expect(clippy::duplicated_attributes, reason = "three printer columns are strings, and each must say so")]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "hnc.x-k8s.io",
    version = "v1alpha2",
    kind = "HierarchyConfiguration",
    plural = "hierarchyconfigurations",
    singular = "hierarchyconfiguration",
    shortname = "hc",
    namespaced,
    status = "HierarchyConfigurationStatus",
    derive = "Default",
    derive = "PartialEq",
    printcolumn(name = "Parent", type_ = "string", json_path = ".spec.parent"),
    printcolumn(name = "Children", type_ = "string", json_path = ".status.children"),
    printcolumn(name = "Condition", type_ = "string", json_path = ".status.conditions[*].reason"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    doc = "Places the namespace it is in below a parent. There is at most one per namespace, and its name is \"hierarchy\".",
    attr = "cfg_attr(all(), serde(default))"
)]
#[serde(default, rename_all = "camelCase")]
pub struct HierarchyConfigurationSpec {
    /// The parent of this namespace. If it is empty or absent, this namespace is a root. For a
    /// subnamespace, the controller sets it to the namespace of the anchor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,

    /// Whether the deletion of this namespace, or of a subnamespace of it, may also delete the
    /// subnamespaces below. It applies to all namespaces below as well. The default is false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_cascading_deletion: Option<bool>,

    /// Labels of this namespace and all namespaces below. Only keys that the administrator has declared as
    /// managed are accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub labels: Option<Vec<KeyValue>>,

    /// Annotations of this namespace and all namespaces below. Only keys that the administrator has
    /// declared as managed are accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub annotations: Option<Vec<KeyValue>>,
}

/// The observed place of this namespace in the hierarchy.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct HierarchyConfigurationStatus {
    /// The namespaces directly below this one, sorted by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<String>,

    /// Problems of this namespace or, if activities are halted, of an ancestor. Empty if there are no
    /// problems.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

impl HierarchyConfiguration {
    /// The configured parent; `None` for a root, whether the field is absent or empty.
    pub fn parent(&self) -> Option<&str> {
        self.spec.parent.as_deref().filter(|parent| !parent.is_empty())
    }

    /// Whether this object allows cascading deletion. An ancestor may allow it as well.
    pub fn allows_cascading_deletion(&self) -> bool {
        self.spec.allow_cascading_deletion.unwrap_or(false)
    }

    /// The managed labels of this object, in the order of the spec.
    pub fn managed_labels(&self) -> &[KeyValue] {
        self.spec.labels.as_deref().unwrap_or_default()
    }

    /// The managed annotations of this object, in the order of the spec.
    pub fn managed_annotations(&self) -> &[KeyValue] {
        self.spec.annotations.as_deref().unwrap_or_default()
    }
}
