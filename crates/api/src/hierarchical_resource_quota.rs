//! What a `HierarchicalResourceQuota` looks like: one sum for a namespace and everything below. It never
//! adds anything up.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// The limits on what a namespace and all namespaces below may use together.
#[expect(clippy::duplicated_attributes, reason = "both printer columns are strings, and each must say so")]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "hnc.x-k8s.io",
    version = "v1alpha2",
    kind = "HierarchicalResourceQuota",
    plural = "hierarchicalresourcequotas",
    singular = "hierarchicalresourcequota",
    shortname = "hrq",
    namespaced,
    status = "HierarchicalResourceQuotaStatus",
    derive = "Default",
    derive = "PartialEq",
    printcolumn(name = "Request", type_ = "string", json_path = ".status.requestsSummary"),
    printcolumn(name = "Limit", type_ = "string", json_path = ".status.limitsSummary"),
    doc = "Limits what the namespace it is in and all namespaces below may use, counted together.",
    attr = "cfg_attr(all(), serde(default))"
)]
#[serde(default, rename_all = "camelCase")]
pub struct HierarchicalResourceQuotaSpec {
    /// The limit for each named resource; any name that a core resource quota takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantities")]
    pub hard: Option<BTreeMap<String, Quantity>>,
}

/// What is used of the limits.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct HierarchicalResourceQuotaStatus {
    /// The limits as they are in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantities")]
    pub hard: Option<BTreeMap<String, Quantity>>,

    /// What this namespace and all namespaces below use together of each limited resource.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantities")]
    pub used: Option<BTreeMap<String, Quantity>>,

    /// Used and allowed amounts of everything but limits, in one line for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_summary: Option<String>,

    /// Used and allowed amounts of the resources whose names start with "limits.", in one line for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits_summary: Option<String>,
}
