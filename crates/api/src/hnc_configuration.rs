//! The kind `HNCConfiguration`: the singleton `config`, which lists the propagated kinds and their modes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// Which kinds of object are propagated from a namespace to those below, in which mode, and the limits of trees.
#[expect(clippy::duplicated_attributes, reason = "two printer columns are strings, and each must say so")]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "hnc.x-k8s.io",
    version = "v1alpha2",
    kind = "HNCConfiguration",
    plural = "hncconfigurations",
    singular = "hncconfiguration",
    shortname = "hncconfig",
    status = "HNCConfigurationStatus",
    derive = "Default",
    derive = "PartialEq",
    printcolumn(name = "Resources", type_ = "string", json_path = ".status.resourcesSummary"),
    printcolumn(name = "Condition", type_ = "string", json_path = ".status.conditions[*].reason"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    doc = "The configuration of the cluster. There is one object, and its name is \"config\".",
    attr = "cfg_attr(all(), serde(default))"
)]
#[serde(default, rename_all = "camelCase")]
pub struct HNCConfigurationSpec {
    /// The resources to synchronize. Roles and role bindings are always propagated and need not be listed. They can be
    /// listed with the mode `AllowPropagate` alone, and then also with `onConflict` and `excludedNames`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<Vec<ResourceSpec>>,

    /// Limits of trees. Each holds for all namespaces below its root, wherever the root is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trees: Option<Vec<TreeSpec>>,
}

/// The limits of one tree. What exists already stays; nothing beyond a limit is added.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TreeSpec {
    /// The namespace below which the limits hold.
    pub root: String,

    /// The largest number of namespaces below the root, on all levels together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::limit")]
    pub max_namespaces: Option<u32>,

    /// The largest number of levels below the root. With 1, children of the root can have no children.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::limit")]
    pub max_depth: Option<u32>,

    /// A regular expression that the whole name of every namespace below the root must match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_pattern: Option<String>,
}

/// One resource and how it is synchronized.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceSpec {
    /// The API group of the resource. It may be omitted if only one group has a resource of that name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,

    /// The name of the resource, preferably in the plural.
    pub resource: String,

    /// How the resource is synchronized. Propagate: every object is copied to all namespaces below, unless
    /// it opts out. `AllowPropagate`: only objects that opt in are copied. Remove: existing copies are
    /// deleted. Ignore: nothing is done; existing copies stay and are no longer protected. The default is
    /// Propagate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::mode")]
    pub mode: Option<SynchronizationMode>,

    /// What happens if an object that is not a copy has the same name as an object that is propagated to
    /// its namespace. Keep: a request that causes the conflict is refused; if a conflict arises without a
    /// reviewed request, the object is kept and a condition reports it. Report: no request is refused; the
    /// object is kept and a condition reports it. Overwrite: a request is refused as with Keep; if a
    /// conflict arises without a reviewed request, the object is replaced. The default is Overwrite for
    /// `LimitRange`, `ResourceQuota` and `NetworkPolicy`; for roles and role bindings, it is the setting
    /// propagation.rbacOnConflict; for all other kinds, it is Keep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::conflict_policy")]
    pub on_conflict: Option<ConflictPolicy>,

    /// Names of objects that are never propagated. An asterisk matches any characters, a question mark
    /// matches one character.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub excluded_names: Option<Vec<String>>,
}

/// The synchronized resources, and the conditions of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct HNCConfigurationStatus {
    /// All synchronized resources, including roles and role bindings, sorted by group and then by resource.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<ResourceStatus>,

    /// The synchronized resources in one line for people, with the mode of each unless it is Propagate.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resources_summary: String,

    /// Problems of this configuration, and a summary of the conditions of namespaces. Empty if there are no
    /// problems.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

/// The status of one resource.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceStatus {
    /// The API group, as in the spec; empty for the core group.
    pub group: String,

    /// The version that is read and written.
    pub version: String,

    /// The resource, as in the spec.
    pub resource: String,

    /// The effective mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::text")]
    pub mode: Option<SynchronizationMode>,

    /// The number of copies. Absent in mode Ignore.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::count")]
    pub num_propagated_objects: Option<u64>,

    /// The number of source objects. Present only in the modes `Propagate` and `AllowPropagate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::count")]
    pub num_source_objects: Option<u64>,
}

/// How the objects of one resource are synchronized.
#[derive(Clone, Debug, Default, Eq, PartialEq, Deserialize, Serialize)]
pub enum SynchronizationMode {
    /// Every source is copied to all namespaces below, unless it opts out.
    #[default]
    Propagate,
    /// Nothing is done; existing copies stay and are no longer protected.
    Ignore,
    /// Existing copies are deleted; sources stay.
    Remove,
    /// Only sources that opt in are propagated.
    AllowPropagate,
    /// An unknown value, kept as written. It has the effect of [`SynchronizationMode::Ignore`].
    #[serde(untagged)]
    Unknown(String),
}

/// How a conflict between a copy and an object that is not a copy is handled.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
pub enum ConflictPolicy {
    /// A request that causes a conflict is refused. Otherwise the object is kept, and a condition reports
    /// it.
    Keep,
    /// The object is kept, and a condition reports it. No request is refused.
    Report,
    /// A request that causes a conflict is refused. Otherwise the copy replaces the object.
    Overwrite,
    /// An unknown value, kept as written. It has the effect of [`ConflictPolicy::Report`], which deletes no
    /// data.
    #[serde(untagged)]
    Unknown(String),
}

impl ResourceSpec {
    /// The requested mode; the default is [`SynchronizationMode::Propagate`].
    pub fn mode(&self) -> SynchronizationMode {
        self.mode.clone().unwrap_or_default()
    }
}
