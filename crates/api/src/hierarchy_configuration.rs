//! What a `HierarchyConfiguration` looks like: the singleton `hierarchy` that places its namespace in the
//! forest. It never says whether that place is legal.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{KeyValue, schema};

// An absent field and its zero value mean the same; they are told apart only so that an object is written
// back as its owner wrote it. (Not for users: the text below becomes the description in the definition.)
/// Where this namespace stands in the hierarchy, and what it hands down.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "hnc.x-k8s.io",
    version = "v1alpha2",
    kind = "HierarchyConfiguration",
    plural = "hierarchyconfigurations",
    singular = "hierarchyconfiguration",
    namespaced,
    status = "HierarchyConfigurationStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "Places the namespace it is in below a parent. There is at most one per namespace, and its name is \"hierarchy\".",
    attr = "cfg_attr(all(), serde(default))"
)]
#[serde(default, rename_all = "camelCase")]
pub struct HierarchyConfigurationSpec {
    /// The namespace that this one is a child of. Empty or absent makes this namespace a root. For a
    /// subnamespace the controller sets it to the namespace of the anchor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,

    /// Whether deleting this namespace, or a subnamespace of it, may delete the subnamespaces below as
    /// well. It holds for all namespaces below too. Absent means false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_cascading_deletion: Option<bool>,

    /// Labels that this namespace and all namespaces below must have. Only keys that the administrator has
    /// declared as managed are accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<Vec<KeyValue>>,

    /// Annotations that this namespace and all namespaces below must have. Only keys that the administrator
    /// has declared as managed are accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Vec<KeyValue>>,
}

/// What the controller has found out about this namespace's place in the hierarchy.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct HierarchyConfigurationStatus {
    /// The namespaces directly below this one, sorted by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<String>,

    /// What is wrong with this namespace or, when activities are halted, with an ancestor. Empty when all
    /// is well.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

impl HierarchyConfiguration {
    /// The configured parent; `None` for a root, whether the field is absent or empty.
    pub fn parent(&self) -> Option<&str> {
        self.spec.parent.as_deref().filter(|parent| !parent.is_empty())
    }

    /// Whether this object itself allows cascading deletion. What ancestors allow is not known here.
    pub fn allows_cascading_deletion(&self) -> bool {
        self.spec.allow_cascading_deletion.unwrap_or(false)
    }

    /// The managed labels of this object alone, in the order written.
    pub fn managed_labels(&self) -> &[KeyValue] {
        self.spec.labels.as_deref().unwrap_or_default()
    }

    /// The managed annotations of this object alone, in the order written.
    pub fn managed_annotations(&self) -> &[KeyValue] {
        self.spec.annotations.as_deref().unwrap_or_default()
    }
}
