//! The kind `HierarchicalResourceQuota`: one limit for a namespace and all namespaces below.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// The limits on the total usage of a namespace and all namespaces below.
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
    doc = "Limits the total usage of its namespace and all namespaces below.",
    attr = "cfg_attr(all(), serde(default))"
)]
#[serde(default, rename_all = "camelCase")]
pub struct HierarchicalResourceQuotaSpec {
    /// The limit for each named resource. The resource names of a core resource quota are allowed, except those
    /// that count hierarchy configurations, limit ranges, network policies, resource quotas, roles or role
    /// bindings. A value may be a number or a text.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantities")]
    pub hard: Option<BTreeMap<String, Quantity>>,
}

/// The usage of the limited resources.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct HierarchicalResourceQuotaStatus {
    /// The effective limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantities")]
    pub hard: Option<BTreeMap<String, Quantity>>,

    /// The total usage of each limited resource in this namespace and all namespaces below.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantities")]
    pub used: Option<BTreeMap<String, Quantity>>,

    /// Usage and limits of all resources except limits, in one line for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_summary: Option<String>,

    /// Usage and limits of the resources whose names start with "limits.", in one line for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits_summary: Option<String>,

    /// Whether the quota is enforced, and whether it is exceeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Option<Vec<Condition>>,
}
