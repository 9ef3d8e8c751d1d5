//! `namespacelabel.hnc.x-k8s.io` sets the included label on managed namespaces (section 7.8 of docs/compatibility.md), and
//! `initialadmin.hnc.x-k8s.io` records who creates a subnamespace.
//!
//! Each patches only its one key, and denies nothing: the validating webhooks judge.

use forest::Settings;
use forest::rules::Denial;
use hns_api::names::{paths, webhooks as names};
use hns_api::{annotations, labels};
use hns_cluster::ingest::request_object::Metadata;
use json_patch::Patch;
use serde_json::json;

use super::{Context, ReadRequest, Request, Subject, Webhook, name};

/// Adds the included label to managed namespaces.
pub(super) struct NamespaceLabel;

impl Webhook for NamespaceLabel {
    fn name(&self) -> &'static str {
        names::NAMESPACE_LABEL
    }

    fn path(&self) -> &'static str {
        paths::NAMESPACE_LABEL
    }

    fn subject(&self, request: &Request<'_>) -> Subject {
        Subject::namespace(&name(request))
    }

    fn read<'a>(&self, request: &'a Request<'_>, context: Context) -> Result<ReadRequest<'a>, Denial> {
        let object = request.object.as_ref();
        Ok(ReadRequest::Patch(object.and_then(|it| included_label(&context.settings, &it.metadata))))
    }
}

/// Records who creates a subnamespace or its anchor.
pub(super) struct InitialAdmin;

impl Webhook for InitialAdmin {
    fn name(&self) -> &'static str {
        names::INITIAL_ADMIN
    }

    fn path(&self) -> &'static str {
        paths::INITIAL_ADMIN
    }

    fn subject(&self, request: &Request<'_>) -> Subject {
        Subject::namespace(&name(request))
    }

    fn read<'a>(&self, request: &'a Request<'_>, context: Context) -> Result<ReadRequest<'a>, Denial> {
        let created = request.object.as_ref().zip(request.user_info.username.as_deref());
        let patch = created.and_then(|(it, user)| initial_admin(&context.settings, &it.metadata, user));
        Ok(ReadRequest::Patch(patch))
    }
}

/// The patch that the namespace needs, if any.
fn included_label(settings: &Settings, namespace: &Metadata<'_>) -> Option<Patch> {
    let name = namespace.name();
    let present = namespace.labels.as_ref();
    let has_label = present.is_some_and(|present| present.contains_key(labels::INCLUDED_NAMESPACE));
    if has_label || namespace.is_terminating() || name.is_empty() || !settings.is_managed(&name) {
        return None;
    }
    let operation = if present.is_some() {
        // A slash within a key is written ~1 in a JSON pointer.
        let path = format!("/metadata/labels/{}", labels::INCLUDED_NAMESPACE.replace('/', "~1"));
        json!({ "op": "add", "path": path, "value": labels::TRUE })
    } else {
        json!({ "op": "add", "path": "/metadata/labels", "value": { labels::INCLUDED_NAMESPACE: labels::TRUE } })
    };
    serde_json::from_value(json!([operation])).ok()
}

/// The patch that records the creator of an anchor, or of a new subnamespace, if that is configured. The validating webhook
/// judges a value that is already there.
fn initial_admin(settings: &Settings, object: &Metadata<'_>, user: &str) -> Option<Patch> {
    settings.initial_admin.as_ref()?;
    let present = object.annotations.as_ref();
    if present.is_some_and(|present| present.contains_key(annotations::INITIAL_ADMIN)) {
        return None;
    }
    let operation = if present.is_some() {
        let path = format!("/metadata/annotations/{}", annotations::INITIAL_ADMIN.replace('/', "~1"));
        json!({ "op": "add", "path": path, "value": user })
    } else {
        json!({ "op": "add", "path": "/metadata/annotations", "value": { annotations::INITIAL_ADMIN: user } })
    };
    serde_json::from_value(json!([operation])).ok()
}

#[cfg(test)]
mod tests {
    use hns_cluster::ingest::request_object::RequestObject;
    use serde_json::Value;

    use super::*;

    fn patched(namespace: Value) -> Value {
        let settings = Settings::new("hnc-system", ["kube-system"], ".*").unwrap();
        let text = namespace.to_string();
        let object: RequestObject<'_> = serde_json::from_str(&text).unwrap();
        let mut after = namespace;
        if let Some(patch) = included_label(&settings, &object.metadata) {
            json_patch::patch(&mut after, &patch).unwrap();
        }
        after
    }

    #[test]
    fn only_our_key_is_added_and_unknown_fields_stay() {
        let label = "hnc.x-k8s.io/included-namespace";
        let cases = [
            (
                json!({"metadata": {"name": "a"}, "x": 1}),
                json!({"metadata": {"name": "a", "labels": {label: "true"}}, "x": 1}),
            ),
            (
                json!({"metadata": {"name": "a", "labels": {"b/c": "d"}}}),
                json!({"metadata": {"name": "a", "labels": {"b/c": "d", label: "true"}}}),
            ),
            (
                json!({"metadata": {"name": "a", "labels": {label: "no"}}}),
                json!({"metadata": {"name": "a", "labels": {label: "no"}}}),
            ),
            (json!({"metadata": {"name": "kube-system"}}), json!({"metadata": {"name": "kube-system"}})),
            (json!({"metadata": {"generateName": "a-"}}), json!({"metadata": {"generateName": "a-"}})),
        ];
        for (before, after) in cases {
            assert_eq!(patched(before.clone()), after, "{before}");
        }
    }
}
