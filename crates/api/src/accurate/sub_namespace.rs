//! The kind `SubNamespace`, and its `CustomResourceDefinition` with all three versions. The name of a `SubNamespace` is the
//! sub-namespace, its namespace the parent.
//!
//! There is one Rust type, that of v2. Version v2alpha1 has the same fields, and v1 differs in its status only.

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceConversion, CustomResourceDefinition, CustomResourceDefinitionVersion,
    CustomResourceSubresourceStatus, CustomResourceSubresources, JSON, JSONSchemaProps, ServiceReference,
    WebhookClientConfig, WebhookConversion,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, CustomResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::conditions::{V1_CONFLICT, V1_OK};
use super::{Version, names};
use crate::schema;

/// The labels and annotations of the sub-namespace.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "accurate.cybozu.com",
    version = "v2",
    kind = "SubNamespace",
    plural = "subnamespaces",
    singular = "subnamespace",
    namespaced,
    status = "SubNamespaceStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "Asks for a sub-namespace: a namespace with the name of this object, below the namespace this object is in. Deleting this object deletes that namespace.",
    attr = "cfg_attr(all(), serde(default))"
)]
#[serde(default, rename_all = "camelCase")]
pub struct SubNamespaceSpec {
    /// Labels for the sub-namespace. Only keys that the configuration allows are used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,

    /// Annotations for the sub-namespace. Only keys that the configuration allows are used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<BTreeMap<String, String>>,
}

/// Whether the sub-namespace exists.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct SubNamespaceStatus {
    /// The generation of this object that the status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Empty if the sub-namespace exists. Stalled is True if it cannot exist, for example because another namespace has its name: the
    /// reason is Conflict then.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::conditions_by_type")]
    pub conditions: Option<Vec<Condition>>,
}

/// The definition, with the webhook of an installation in `namespace` as the converter. The authority of the webhook's certificate
/// is missing: the program that issues the certificate adds it.
pub fn crd(namespace: &str) -> CustomResourceDefinition {
    let mut crd = crate::crd::finish(SubNamespace::crd(), None);
    let stored = crd.spec.versions.pop();
    crd.spec.versions = stored.iter().flat_map(|stored| Version::ALL.map(|it| version(stored, it))).collect();
    crd.spec.conversion = Some(CustomResourceConversion {
        strategy: "Webhook".into(),
        webhook: Some(WebhookConversion {
            client_config: Some(WebhookClientConfig {
                service: Some(ServiceReference {
                    name: crate::names::WEBHOOK_SERVICE.into(),
                    namespace: namespace.into(),
                    path: Some(names::paths::CONVERT.into()),
                    port: Some(crate::names::WEBHOOK_SERVICE_PORT.into()),
                }),
                ..WebhookClientConfig::default()
            }),
            conversion_review_versions: vec!["v1".into()],
        }),
    });
    crd
}

/// The version of this name, made from that of v2.
fn version(v2: &CustomResourceDefinitionVersion, version: Version) -> CustomResourceDefinitionVersion {
    let is_v2 = version == Version::V2;
    let mut made = CustomResourceDefinitionVersion {
        name: version.name().into(),
        served: is_v2,
        storage: is_v2,
        subresources: Some(CustomResourceSubresources {
            status: Some(CustomResourceSubresourceStatus(serde_json::json!({}))),
            ..CustomResourceSubresources::default()
        }),
        ..v2.clone()
    };
    if version == Version::V1 {
        made.subresources = None;
        let schema = made.schema.as_mut().and_then(|validation| validation.open_api_v3_schema.as_mut());
        let properties = schema.and_then(|schema| schema.properties.as_mut());
        properties.map(|fields| fields.insert("status".into(), v1_status()));
    }
    made
}

fn v1_status() -> JSONSchemaProps {
    JSONSchemaProps {
        description: Some(
            "Whether the sub-namespace exists, or its name belongs to another namespace.".into(),
        ),
        type_: Some("string".into()),
        enum_: Some([V1_OK, V1_CONFLICT].map(|word| JSON(word.into())).into()),
        ..JSONSchemaProps::default()
    }
}
