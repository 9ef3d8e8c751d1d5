//! The four `CustomResourceDefinition`s to install: the derived ones, completed with what a derive cannot
//! express.

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionVersion, CustomResourceSubresources, JSON,
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;

use crate::{HNCConfiguration, HierarchicalResourceQuota, HierarchyConfiguration, SubnamespaceAnchor, names};

/// All four CRDs, sorted by name and ready to install.
pub fn all() -> Vec<CustomResourceDefinition> {
    vec![
        hierarchical_resource_quotas(),
        hierarchy_configurations(),
        hnc_configurations(),
        subnamespace_anchors(),
    ]
}

/// The CRD of hierarchical quotas. As in HNC, the key `subresources` is present and empty: there is
/// no status subresource.
pub fn hierarchical_resource_quotas() -> CustomResourceDefinition {
    let mut crd = finish(HierarchicalResourceQuota::crd(), None);
    for version in &mut crd.spec.versions {
        version.subresources = Some(CustomResourceSubresources::default());
    }
    crd
}

/// The CRD of hierarchy configurations. The only allowed name is `hierarchy`.
pub fn hierarchy_configurations() -> CustomResourceDefinition {
    finish(HierarchyConfiguration::crd(), Some(names::HIERARCHY_CONFIGURATION))
}

/// The CRD of the cluster's configuration. The only allowed name is `config`.
pub fn hnc_configurations() -> CustomResourceDefinition {
    finish(HNCConfiguration::crd(), Some(names::HNC_CONFIGURATION))
}

/// The CRD of anchors.
pub fn subnamespace_anchors() -> CustomResourceDefinition {
    finish(SubnamespaceAnchor::crd(), None)
}

/// Adds what the derive omits and removes what it adds; `only_name` is the only allowed name, if there is
/// one.
fn finish(mut crd: CustomResourceDefinition, only_name: Option<&str>) -> CustomResourceDefinition {
    crd.spec.names.list_kind = Some(format!("{}List", crd.spec.names.kind));
    for version in &mut crd.spec.versions {
        finish_version(version, only_name);
    }
    crd
}

fn finish_version(version: &mut CustomResourceDefinitionVersion, only_name: Option<&str>) {
    // HNC's clients write the status together with the whole object. With a status subresource, such a
    // write would lose the status without an error.
    version.subresources = None;
    let Some(schema) = version.schema.as_mut().and_then(|validation| validation.open_api_v3_schema.as_mut())
    else {
        return;
    };
    normalize(schema);
    schema.required = None;
    let properties = schema.properties.get_or_insert_default();
    properties
        .insert("apiVersion".into(), text("The group and version of this representation of the object."));
    properties.insert("kind".into(), text("The kind of the object."));
    properties.insert("metadata".into(), metadata(only_name));
}

/// Removes what schema generators add: titles, defaults, and `nullable`, which would store a null that the
/// API server otherwise drops. Restores the two types of an integer-or-string, which they omit.
fn normalize(schema: &mut JSONSchemaProps) {
    schema.title = None;
    schema.default = None;
    schema.nullable = None;
    schema.description = schema.description.take().map(|text| one_line(&text));
    if schema.x_kubernetes_int_or_string == Some(true) {
        schema.any_of = Some(["integer", "string"].map(of_type).to_vec());
    }
    for property in schema.properties.iter_mut().flat_map(BTreeMap::values_mut) {
        normalize(property);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        normalize(items);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        normalize(values);
    }
}

/// A description as `kubectl explain` shows it: one line without markup.
fn one_line(text: &str) -> String {
    let words: Vec<_> = text.split_whitespace().collect();
    words.join(" ").replace('`', "")
}

fn of_type(type_: &str) -> JSONSchemaProps {
    JSONSchemaProps { type_: Some(type_.into()), ..JSONSchemaProps::default() }
}

fn text(description: &str) -> JSONSchemaProps {
    JSONSchemaProps { description: Some(description.into()), ..of_type("string") }
}

fn metadata(only_name: Option<&str>) -> JSONSchemaProps {
    let name =
        only_name.map(|name| JSONSchemaProps { enum_: Some(vec![JSON(name.into())]), ..of_type("string") });
    JSONSchemaProps {
        properties: name.map(|name| BTreeMap::from([("name".to_owned(), name)])),
        ..of_type("object")
    }
}
