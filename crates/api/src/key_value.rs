//! A managed label or annotation in the spec of a `HierarchyConfiguration` or a `SubnamespaceAnchor`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One managed label or annotation.
#[derive(Clone, Debug, Default, Eq, Ord, PartialEq, PartialOrd, Deserialize, Serialize, JsonSchema)]
pub struct KeyValue {
    /// The key of the label or annotation.
    pub key: String,
    /// The value on this namespace and on all namespaces below.
    pub value: String,
}
