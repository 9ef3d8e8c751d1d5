//! The registrations and policies as the chart has them: what the code makes of the settings, with a template of the chart in
//! the place of each setting, and without what the controller alone knows. It renders nothing.

use anyhow::Context;
use hns_api::names;
use hns_controller::registrations::{self, Admission, RegistrationSettings};
use serde::Serialize;
use serde_json::Value;

use super::{Generated, document, documents};

const FOLDER: &str = "charts/hns/files/admission";

// Each stands for a setting until it is replaced. None can be part of anything else.
const EXCLUDED: &str = "EXCLUDED-NAMESPACES";
const PATTERN: &str = "INCLUDED-PATTERN";
const RESTORER: &str = "RESTORE-IDENTITY";
const MANAGER: &str = "EXTERNAL-MANAGER";
const MANAGING: &str = "MANAGING-IDENTITY";
const LABEL: &str = "NOPROPAGATION-LABEL";
const LABEL_VALUE: &str = "NOPROPAGATION-VALUE";

/// All of them.
pub(super) fn files() -> anyhow::Result<Vec<Generated>> {
    let settings = placeholders();
    let alone = RegistrationSettings { policies: false, ..settings.clone() };
    let tracking = |settings: &RegistrationSettings| {
        let settings = RegistrationSettings { propagate_tracking_metadata: true, ..settings.clone() };
        registrations::admission(&settings)
    };
    let [with, without] = [&settings, &alone].map(registrations::admission);
    let (with_tracking, without_tracking) = (tracking(&settings), tracking(&alone));
    Ok(vec![
        file("validating.yaml", &[template(&with.validating)?])?,
        file("validating-without-policies.yaml", &[template(&without.validating)?])?,
        file("validating-without-policies-tracking.yaml", &[template(&without_tracking.validating)?])?,
        file("mutating.yaml", &[template(&with.mutating)?])?,
        file("policies.yaml", &policies(&with)?)?,
        file("policies-tracking.yaml", &policies(&with_tracking)?)?,
    ])
}

fn placeholders() -> RegistrationSettings {
    let owned = |word: &str| word.to_owned();
    RegistrationSettings {
        namespace: owned("{{.Release.Namespace}}"),
        excluded: vec![owned(EXCLUDED)],
        included_pattern: owned(PATTERN),
        restore_identities: vec![owned(RESTORER)],
        external_managers: vec![(owned(MANAGER), owned(MANAGING))],
        nopropagation_labels: vec![(owned(LABEL), owned(LABEL_VALUE))],
        initial_admin: true,
        ..RegistrationSettings::default()
    }
}

fn file(name: &str, parts: &[Value]) -> anyhow::Result<Generated> {
    let parts: Vec<String> = parts.iter().map(document).collect::<Result<_, _>>()?;
    Ok(Generated { path: format!("{FOLDER}/{name}").into(), contents: documents(&parts) })
}

fn policies(all: &Admission) -> anyhow::Result<Vec<Value>> {
    let mut documents = Vec::new();
    for (policy, binding) in all.policies.iter().zip(&all.bindings) {
        documents.extend([template(policy)?, template(binding)?]);
    }
    Ok(documents)
}

/// The object as the chart has it.
fn template(object: &impl Serialize) -> anyhow::Result<Value> {
    let mut value = serde_json::to_value(object)?;
    leave_to_the_controller(&mut value);
    put_templates(&mut value)?;
    Ok(value)
}

/// Takes out which kinds are propagated. Who applies the manifests again then says nothing of it, and it stays.
pub(super) fn leave_to_the_controller(object: &mut Value) {
    let about_objects =
        [names::webhooks::OBJECTS, names::webhooks::TREE_OBJECTS, names::webhooks::LATE_OBJECTS];
    let entries = object.get_mut("webhooks").and_then(Value::as_array_mut);
    for entry in entries.into_iter().flatten() {
        if about_objects.iter().any(|name| entry["name"] == **name) {
            remove(entry, "rules");
        }
    }
    // Of a binding; a policy has `matchConstraints`.
    if let Some(spec) = object.get_mut("spec") {
        remove(spec, "matchResources");
    }
}

fn remove(object: &mut Value, field: &str) {
    object.as_object_mut().and_then(|fields| fields.remove(field));
}

/// Replaces what stands for a setting by the template that says it.
fn put_templates(value: &mut Value) -> anyhow::Result<()> {
    match value {
        Value::Array(items) => items.iter_mut().try_for_each(put_templates)?,
        Value::Object(fields) => fields.values_mut().try_for_each(put_templates)?,
        Value::String(text) => {
            for (placeholder, template) in templates() {
                *text = text.replace(&placeholder, template);
            }
            let left = [EXCLUDED, PATTERN, RESTORER, MANAGER, MANAGING, LABEL, LABEL_VALUE];
            let left = left.into_iter().find(|word| text.contains(word));
            left.map_or(Some(()), |_| None).with_context(|| {
                format!("an expression has a setting in a way that the chart has no template for: {text}")
            })?;
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
    Ok(())
}

/// What the code makes of each setting that stands for one, longest first, and the template that says the same.
fn templates() -> Vec<(String, &'static str)> {
    let requested_by = |identity: &str| {
        format!(
            "(request.userInfo.username in ['{identity}'] || request.userInfo.?groups.orValue([]).exists(g, g in ['{identity}']))"
        )
    };
    let kept = |manager: &str| format!("(({manager} == '{MANAGER}' && {}))", requested_by(MANAGING));
    let withheld =
        |object: &str| format!(" ||\n{object}.metadata.?labels[?'{LABEL}'] == optional.of('{LABEL_VALUE}')");
    vec![
        (
            format!("(request.operation == 'CREATE' && {})", requested_by(RESTORER)),
            r#"{{include "hns.restoring" .}}"#,
        ),
        (requested_by(RESTORER), r#"{{include "hns.requestedBy" .Values.restoreIdentities}}"#),
        (
            kept("variables.manager"),
            r#"{{include "hns.keptBy" (dict "manager" "variables.manager" "managers" .Values.externalManagers)}}"#,
        ),
        (
            kept("variables.oldManager"),
            r#"{{include "hns.keptBy" (dict "manager" "variables.oldManager" "managers" .Values.externalManagers)}}"#,
        ),
        (
            withheld("object"),
            r#"{{include "hns.withheld" (dict "object" "object" "labels" .Values.propagation.nopropagationLabels)}}"#,
        ),
        (
            withheld("oldObject"),
            r#"{{include "hns.withheld" (dict "object" "oldObject" "labels" .Values.propagation.nopropagationLabels)}}"#,
        ),
        (format!("['{EXCLUDED}']"), r#"{{include "hns.excluded" .}}"#),
        (format!("'{PATTERN}'"), r#"{{include "hns.includedPattern" .}}"#),
    ]
}
