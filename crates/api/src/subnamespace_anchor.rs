//! The kind `SubnamespaceAnchor`. The name of an anchor is the child, its namespace the parent. The states
//! are in [`crate::anchor_states`].

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::KeyValue;

/// The managed labels and annotations of the subnamespace.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "hnc.x-k8s.io",
    version = "v1alpha2",
    kind = "SubnamespaceAnchor",
    plural = "subnamespaceanchors",
    singular = "subnamespaceanchor",
    shortname = "subns",
    namespaced,
    status = "SubnamespaceAnchorStatus",
    derive = "Default",
    derive = "PartialEq",
    printcolumn(name = "Status", type_ = "string", json_path = ".status.status"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    doc = "Asks for a subnamespace: a namespace with the name of this object, as a child of the namespace this object is in. Deleting the anchor deletes the subnamespace.",
    attr = "cfg_attr(all(), serde(default))"
)]
#[serde(default, rename_all = "camelCase")]
pub struct SubnamespaceAnchorSpec {
    /// Managed labels for the subnamespace; they replace those in its hierarchy configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub labels: Option<Vec<KeyValue>>,

    /// Managed annotations for the subnamespace; they replace those in its hierarchy configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub annotations: Option<Vec<KeyValue>>,
}

/// The state of the subnamespace.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct SubnamespaceAnchorStatus {
    /// The state of the subnamespace: Missing (it does not exist), Ok (it exists and belongs to this
    /// anchor), Conflict (a namespace of that name exists but does not belong to this anchor) or Forbidden
    /// (the name is excluded, or the subnamespace would be beyond a limit of `spec.trees` in the
    /// `HNCConfiguration`; in the latter case, create the anchor again once the limit allows it).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
}

impl SubnamespaceAnchor {
    /// The recorded state, normally one of [`crate::anchor_states`]; `None` before the first
    /// reconciliation.
    pub fn state(&self) -> Option<&str> {
        self.status.as_ref().and_then(|status| status.status.as_deref())
    }

    /// The managed labels that the anchor sets on its subnamespace.
    pub fn managed_labels(&self) -> &[KeyValue] {
        self.spec.labels.as_deref().unwrap_or_default()
    }

    /// The managed annotations that the anchor sets on its subnamespace.
    pub fn managed_annotations(&self) -> &[KeyValue] {
        self.spec.annotations.as_deref().unwrap_or_default()
    }
}
