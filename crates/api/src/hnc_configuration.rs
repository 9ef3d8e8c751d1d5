//! What the `HNCConfiguration` looks like: the cluster's singleton `config`, which says what kinds are
//! propagated and how. It never resolves a resource name to a kind.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// Which kinds of object are propagated from a namespace to those below, and in which mode.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "hnc.x-k8s.io",
    version = "v1alpha2",
    kind = "HNCConfiguration",
    plural = "hncconfigurations",
    singular = "hncconfiguration",
    status = "HNCConfigurationStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "The configuration of the whole cluster. There is one, and its name is \"config\".",
    attr = "cfg_attr(all(), serde(default))"
)]
#[serde(default, rename_all = "camelCase")]
pub struct HNCConfigurationSpec {
    /// The resources to synchronize. Roles and role bindings are always propagated and do not belong here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<Vec<ResourceSpec>>,
}

/// One resource and how it is synchronized.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceSpec {
    /// The API group of the resource; leave it out for the core group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,

    /// The name of the resource, by preference in the plural.
    pub resource: String,

    /// How the resource is synchronized. Propagate: every object goes to all namespaces below, unless it
    /// opts out. `AllowPropagate`: only objects that opt in do. Remove: existing copies are deleted.
    /// Ignore: nothing is done, existing copies stay. Absent means Propagate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::mode")]
    pub mode: Option<SynchronizationMode>,

    /// What becomes of an object in a namespace below that is not a copy, where one of the same name is
    /// propagated. Keep: a request that leads there is refused; where no request was judged, the object is
    /// kept, and that is shown as a condition. Report: no request is refused, the object is kept, and that is
    /// shown. Overwrite: a request is refused as with Keep; where none was judged, the object is replaced.
    /// Absent means Overwrite for `LimitRange`, `ResourceQuota` and `NetworkPolicy`, and Keep for all others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::conflict_policy")]
    pub on_conflict: Option<ConflictPolicy>,

    /// Objects of these names are never propagated. A star stands for any characters and a question mark for
    /// one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub excluded_names: Option<Vec<String>>,
}

/// What is being synchronized, and what is wrong with it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct HNCConfigurationStatus {
    /// Every resource being synchronized, those that always are included, sorted by group and then by
    /// resource.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<ResourceStatus>,

    /// What is wrong with this configuration, and a summary of what is wrong in namespaces. Empty when all
    /// is well.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

/// One resource as it is being synchronized.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceStatus {
    /// The API group, as the spec names it; empty for the core group.
    pub group: String,

    /// The version that is read and written.
    pub version: String,

    /// The resource, as the spec names it.
    pub resource: String,

    /// The mode in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::text")]
    pub mode: Option<SynchronizationMode>,

    /// How many copies exist. Absent in mode Ignore.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::count")]
    pub num_propagated_objects: Option<u64>,

    /// How many source objects exist. Present only in the modes `Propagate` and `AllowPropagate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::count")]
    pub num_source_objects: Option<u64>,
}

/// How the objects of one resource are synchronized.
#[derive(Clone, Debug, Default, Eq, PartialEq, Deserialize, Serialize)]
pub enum SynchronizationMode {
    /// Every source goes to all namespaces below, unless it opts out.
    #[default]
    Propagate,
    /// Nothing is done; existing copies stay as they are.
    Ignore,
    /// Existing copies are deleted; sources are left alone.
    Remove,
    /// Only sources that opt in are propagated.
    AllowPropagate,
    /// A word that the schema does not know, kept as written. It works as [`SynchronizationMode::Ignore`]
    /// does.
    #[serde(untagged)]
    Unknown(String),
}

/// What becomes of an object that is in the way of a copy.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
pub enum ConflictPolicy {
    /// What leads to a conflict is refused; otherwise the object is kept, and that is shown.
    Keep,
    /// The object is kept, and that is shown; nothing is refused.
    Report,
    /// What leads to a conflict is refused; otherwise the object is replaced by the copy.
    Overwrite,
    /// A word that the schema does not know, kept as written. It works as [`ConflictPolicy::Report`] does:
    /// what is not understood destroys nothing.
    #[serde(untagged)]
    Unknown(String),
}

impl ResourceSpec {
    /// The mode that the entry asks for; an absent mode is [`SynchronizationMode::Propagate`].
    pub fn mode(&self) -> SynchronizationMode {
        self.mode.clone().unwrap_or_default()
    }
}
