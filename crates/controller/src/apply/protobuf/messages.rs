//! The messages, with the names that their fields have in JSON and the numbers that they have in Kubernetes' `generated.proto`.
//!
//! What is not named here cannot be read from JSON: [`super::object`] relies on that. A field that may be absent and that means something else
//! when it is empty is an `Option`; all others mean the same both ways.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::apimachinery::pkg::util::intstr;
use prost::Message;
use serde::{Deserialize, Deserializer};

/// `k8s.io/apimachinery/pkg/runtime`
#[derive(Message)]
pub(super) struct Unknown {
    #[prost(message, tag = "1")]
    pub(super) type_meta: Option<TypeMeta>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) raw: Vec<u8>,
}

/// `k8s.io/apimachinery/pkg/runtime`
#[derive(Message)]
pub(super) struct TypeMeta {
    #[prost(string, tag = "1")]
    pub(super) api_version: String,
    #[prost(string, tag = "2")]
    pub(super) kind: String,
}

/// `k8s.io/apimachinery/pkg/apis/meta/v1`: what copies have of it.
#[derive(Message, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct ObjectMeta {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    generate_name: String,
    #[prost(string, tag = "3")]
    namespace: String,
    #[prost(string, tag = "5")]
    uid: String,
    #[prost(string, tag = "6")]
    resource_version: String,
    #[prost(btree_map = "string, string", tag = "11")]
    labels: BTreeMap<String, String>,
    #[prost(btree_map = "string, string", tag = "12")]
    annotations: BTreeMap<String, String>,
    #[prost(message, repeated, tag = "17")]
    managed_fields: Vec<ManagedFieldsEntry>,
}

/// `k8s.io/apimachinery/pkg/apis/meta/v1`: one that says nothing, by which all are given up.
#[derive(Message, Deserialize)]
#[serde(deny_unknown_fields)]
struct ManagedFieldsEntry {}

/// `k8s.io/api/core/v1`
#[derive(Message, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct ConfigMap {
    #[prost(message, tag = "1")]
    metadata: Option<ObjectMeta>,
    #[prost(btree_map = "string, string", tag = "2")]
    data: BTreeMap<String, String>,
    #[prost(btree_map = "string, bytes", tag = "3")]
    #[serde(deserialize_with = "base64")]
    binary_data: BTreeMap<String, Vec<u8>>,
    #[prost(bool, optional, tag = "4")]
    immutable: Option<bool>,
}

/// `k8s.io/api/core/v1`
#[derive(Message, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Secret {
    #[prost(message, tag = "1")]
    metadata: Option<ObjectMeta>,
    #[prost(btree_map = "string, bytes", tag = "2")]
    #[serde(deserialize_with = "base64")]
    data: BTreeMap<String, Vec<u8>>,
    #[prost(string, tag = "3")]
    #[serde(rename = "type")]
    type_: String,
    #[prost(bool, optional, tag = "5")]
    immutable: Option<bool>,
}

fn base64<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, Vec<u8>>, D::Error> {
    let all = BTreeMap::<String, ByteString>::deserialize(deserializer)?;
    Ok(all.into_iter().map(|(key, ByteString(bytes))| (key, bytes)).collect())
}

/// `k8s.io/api/rbac/v1`
#[derive(Message, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Role {
    #[prost(message, tag = "1")]
    metadata: Option<ObjectMeta>,
    #[prost(message, repeated, tag = "2")]
    rules: Vec<PolicyRule>,
}

/// `k8s.io/api/rbac/v1`
#[derive(Message, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct PolicyRule {
    #[prost(string, repeated, tag = "1")]
    verbs: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    api_groups: Vec<String>,
    #[prost(string, repeated, tag = "3")]
    resources: Vec<String>,
    #[prost(string, repeated, tag = "4")]
    resource_names: Vec<String>,
    #[prost(string, repeated, tag = "5")]
    #[serde(rename = "nonResourceURLs")]
    non_resource_urls: Vec<String>,
}

/// `k8s.io/api/rbac/v1`
#[derive(Message, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct RoleBinding {
    #[prost(message, tag = "1")]
    metadata: Option<ObjectMeta>,
    #[prost(message, repeated, tag = "2")]
    subjects: Vec<Subject>,
    #[prost(message, tag = "3")]
    role_ref: Option<RoleRef>,
}

/// `k8s.io/api/rbac/v1`
#[derive(Message, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Subject {
    #[prost(string, tag = "1")]
    kind: String,
    #[prost(string, tag = "2")]
    api_group: String,
    #[prost(string, tag = "3")]
    name: String,
    #[prost(string, tag = "4")]
    namespace: String,
}

/// `k8s.io/api/rbac/v1`
#[derive(Message, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct RoleRef {
    #[prost(string, tag = "1")]
    api_group: String,
    #[prost(string, tag = "2")]
    kind: String,
    #[prost(string, tag = "3")]
    name: String,
}

/// `k8s.io/api/networking/v1`
#[derive(Message, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct NetworkPolicy {
    #[prost(message, tag = "1")]
    metadata: Option<ObjectMeta>,
    #[prost(message, tag = "2")]
    spec: Option<NetworkPolicySpec>,
}

/// `k8s.io/api/networking/v1`
#[derive(Message, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct NetworkPolicySpec {
    #[prost(message, tag = "1")]
    pod_selector: Option<LabelSelector>,
    #[prost(message, repeated, tag = "2")]
    ingress: Vec<NetworkPolicyIngressRule>,
    #[prost(message, repeated, tag = "3")]
    egress: Vec<NetworkPolicyEgressRule>,
    #[prost(string, repeated, tag = "4")]
    policy_types: Vec<String>,
}

/// `k8s.io/api/networking/v1`
#[derive(Message, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct NetworkPolicyIngressRule {
    #[prost(message, repeated, tag = "1")]
    ports: Vec<NetworkPolicyPort>,
    #[prost(message, repeated, tag = "2")]
    from: Vec<NetworkPolicyPeer>,
}

/// `k8s.io/api/networking/v1`
#[derive(Message, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct NetworkPolicyEgressRule {
    #[prost(message, repeated, tag = "1")]
    ports: Vec<NetworkPolicyPort>,
    #[prost(message, repeated, tag = "2")]
    to: Vec<NetworkPolicyPeer>,
}

/// `k8s.io/api/networking/v1`
#[derive(Message, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct NetworkPolicyPort {
    #[prost(string, optional, tag = "1")]
    protocol: Option<String>,
    #[prost(message, tag = "2")]
    port: Option<IntOrString>,
    #[prost(int32, optional, tag = "3")]
    end_port: Option<i32>,
}

/// `k8s.io/api/networking/v1`. No selector and one that selects everything are different things.
#[derive(Message, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct NetworkPolicyPeer {
    #[prost(message, tag = "1")]
    pod_selector: Option<LabelSelector>,
    #[prost(message, tag = "2")]
    namespace_selector: Option<LabelSelector>,
    #[prost(message, tag = "3")]
    ip_block: Option<IpBlock>,
}

/// `k8s.io/api/networking/v1`
#[derive(Message, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct IpBlock {
    #[prost(string, tag = "1")]
    cidr: String,
    #[prost(string, repeated, tag = "2")]
    except: Vec<String>,
}

/// `k8s.io/apimachinery/pkg/apis/meta/v1`
#[derive(Message, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct LabelSelector {
    #[prost(btree_map = "string, string", tag = "1")]
    match_labels: BTreeMap<String, String>,
    #[prost(message, repeated, tag = "2")]
    match_expressions: Vec<LabelSelectorRequirement>,
}

/// `k8s.io/apimachinery/pkg/apis/meta/v1`
#[derive(Message, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct LabelSelectorRequirement {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, tag = "2")]
    operator: String,
    #[prost(string, repeated, tag = "3")]
    values: Vec<String>,
}

/// `k8s.io/apimachinery/pkg/util/intstr`
#[derive(Message, Deserialize)]
#[serde(from = "intstr::IntOrString")]
struct IntOrString {
    /// 0 if it is a number, 1 if it is a text.
    #[prost(int64, tag = "1")]
    type_: i64,
    #[prost(int32, tag = "2")]
    int_val: i32,
    #[prost(string, tag = "3")]
    str_val: String,
}

impl From<intstr::IntOrString> for IntOrString {
    fn from(either: intstr::IntOrString) -> Self {
        match either {
            intstr::IntOrString::Int(int_val) => Self { type_: 0, int_val, str_val: String::new() },
            intstr::IntOrString::String(str_val) => Self { type_: 1, int_val: 0, str_val },
        }
    }
}
