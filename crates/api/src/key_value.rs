//! What one managed label or annotation looks like in a spec. It never checks whether a key is legal or
//! managed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One managed label or annotation.
#[derive(Clone, Debug, Default, Eq, Ord, PartialEq, PartialOrd, Deserialize, Serialize, JsonSchema)]
pub struct KeyValue {
    /// The key of the label or annotation.
    pub key: String,
    /// The value it gets on this namespace and on all namespaces below.
    pub value: String,
}
