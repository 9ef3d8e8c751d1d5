//! HNC's four `CustomResourceDefinition`s: the derived ones, completed with what a derive cannot express.

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionVersion, CustomResourceSubresources, JSON,
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool, ValidationRule,
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
        refuse_scopes(version);
    }
    crd
}

/// Declares the two scope fields of core resource quotas, and refuses them: undeclared fields would be removed
/// without a word, and the quota would limit more than its author meant.
fn refuse_scopes(version: &mut CustomResourceDefinitionVersion) {
    let schema = version.schema.as_mut().and_then(|validation| validation.open_api_v3_schema.as_mut());
    let properties = schema.and_then(|schema| schema.properties.as_mut());
    let Some(spec) = properties.and_then(|properties| properties.get_mut("spec")) else {
        return;
    };
    let scopes = JSONSchemaProps {
        description: Some("Not supported.".into()),
        items: Some(JSONSchemaPropsOrArray::Schema(Box::new(of_type("string")))),
        ..of_type("array")
    };
    let selector = JSONSchemaProps {
        description: Some("Not supported.".into()),
        // Otherwise clients that check fields would name the fields in it, and not the reason.
        x_kubernetes_preserve_unknown_fields: Some(true),
        ..of_type("object")
    };
    let fields = [("scopes", scopes), ("scopeSelector", selector)];
    spec.x_kubernetes_validations = Some(fields.iter().map(|(field, _)| absent(field)).collect());
    let fields = fields.map(|(field, schema)| (field.to_owned(), schema));
    spec.properties.get_or_insert_default().extend(fields);
}

fn absent(field: &str) -> ValidationRule {
    ValidationRule {
        rule: format!("!has(self.{field})"),
        message: Some(format!("a hierarchical quota has no {field}: it limits the usage of all objects")),
        field_path: Some(format!(".{field}")),
        reason: Some("FieldValueForbidden".into()),
        ..ValidationRule::default()
    }
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
pub(crate) fn finish(mut crd: CustomResourceDefinition, only_name: Option<&str>) -> CustomResourceDefinition {
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
/// API server otherwise drops.
fn normalize(schema: &mut JSONSchemaProps) {
    schema.title = None;
    schema.default = None;
    schema.nullable = None;
    schema.description = schema.description.take().map(|text| one_line(&text));
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
