//! The types of `hnc.x-k8s.io/v1alpha2`, and the exact spelling of every label, annotation, finalizer,
//! condition, event and object name that users and other programs compare against. Those of Accurate's API are in [`accurate`].
//!
//! It has types, constants, plain accessors and the conversion between versions only; it has no client, no clock and no rule.
//!
//! The Rust types are **lenient** where the API server is strict: an object without `spec` or `metadata`
//! parses, and so does an object with a mode that the schema does not allow. Fields that were read and not
//! changed are written back with the same meaning; an explicit `allowCascadingDeletion: false` or an empty
//! list stays in place.

#![warn(missing_docs)]

pub mod accurate;
pub mod anchor_states;
pub mod annotations;
pub mod conditions;
pub mod crd;
pub mod events;
pub mod finalizers;
pub mod labels;
pub mod names;

mod hierarchical_resource_quota;
mod hierarchy_configuration;
mod hnc_configuration;
mod key_value;
mod schema;
mod subnamespace_anchor;

pub use hierarchical_resource_quota::{
    HierarchicalResourceQuota, HierarchicalResourceQuotaSpec, HierarchicalResourceQuotaStatus,
};
pub use hierarchy_configuration::{
    HierarchyConfiguration, HierarchyConfigurationSpec, HierarchyConfigurationStatus,
};
pub use hnc_configuration::{
    ConflictPolicy, HNCConfiguration, HNCConfigurationSpec, HNCConfigurationStatus, ResourceSpec,
    ResourceStatus, SynchronizationMode, TreeSpec,
};
pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
pub use key_value::KeyValue;
pub use subnamespace_anchor::{SubnamespaceAnchor, SubnamespaceAnchorSpec, SubnamespaceAnchorStatus};

/// The API group of HNC's four kinds, and the prefix of the labels and annotations of HNC trees.
pub const GROUP: &str = "hnc.x-k8s.io";

/// The only version that is served and stored.
pub const VERSION: &str = "v1alpha2";

/// The `apiVersion` of objects.
pub const API_VERSION: &str = "hnc.x-k8s.io/v1alpha2";
