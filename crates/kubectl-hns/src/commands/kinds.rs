//! Edits of the `HNCConfiguration`: adds, changes and removes entries.

use clap::Args;
use hns_api::HNCConfiguration;
use hns_api::names::HNC_CONFIGURATION as NAME;
use hns_cluster::api::Api;
use kube::api::DynamicObject;
use kube::core::ApiResource;
use serde_json::{Value, json};

use crate::Failure;
use crate::failure::Problem;
use crate::flags::Switch;
use crate::session::Session;

#[derive(Debug, Args)]
pub(super) struct SetResource {
    /// The resource in the plural, such as secrets.
    #[arg(value_name = "RESOURCE")]
    pub(super) resource: String,

    /// The API group of the resource; empty for the core group.
    #[arg(long, value_name = "GROUP", default_value = "", hide_default_value = true)]
    pub(super) group: String,

    /// Propagate (every object is copied to all namespaces below), `AllowPropagate` (only objects that opt in), Remove
    /// (copies are deleted) or Ignore (nothing is done). Case does not matter.
    #[arg(long, value_name = "MODE")]
    pub(super) mode: String,

    /// Allow the change from Ignore to Propagate or `AllowPropagate`, which may replace or delete objects in namespaces
    /// below.
    #[arg(short, long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "BOOL")]
    pub(super) force: Option<Switch>,
}

#[derive(Debug, Args)]
pub(super) struct DeleteType {
    /// The API group of the resource; empty for the core group.
    #[arg(long, value_name = "GROUP", default_value = "", hide_default_value = true)]
    pub(super) group: String,

    /// The resource.
    #[arg(long, value_name = "RESOURCE")]
    pub(super) resource: String,
}

pub(super) fn propagates(mode: &str) -> bool {
    matches!(mode, "Propagate" | "AllowPropagate")
}

/// The entries with the requested change.
///
/// # Errors
/// The change is dangerous and not forced.
pub(super) fn with_resource(
    arguments: &SetResource,
    present: Vec<Value>,
    force: bool,
) -> Result<Vec<Value>, Failure> {
    let mode = mode(&arguments.mode);
    let named = (&*arguments.group, &*arguments.resource);
    with(present, named, &mode, force).map_err(|()| risky(named.1, &mode))
}

impl SetResource {
    /// The resource, as in the command line.
    pub(super) fn words(&self) -> String {
        let Self { resource, group, .. } = self;
        if group.is_empty() { resource.clone() } else { format!("{resource} --group {group}") }
    }
}

/// The entries without those of the resource.
pub(super) fn without_type(arguments: &DeleteType, mut present: Vec<Value>) -> Vec<Value> {
    present.retain(|it| !is_about(it, (&arguments.group, &arguments.resource)));
    present
}

pub(super) fn full_name(group: &str, resource: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}

/// A mode in the API's spelling, whatever its case. An unknown mode is kept, and the API server refuses it.
pub(super) fn mode(typed: &str) -> String {
    let lower = typed.to_lowercase();
    if lower == "allowpropagate" {
        return "AllowPropagate".into();
    }
    let mut letters = lower.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

pub(super) fn entries(object: &DynamicObject) -> Vec<Value> {
    object.data["spec"]["resources"].as_array().cloned().unwrap_or_default()
}

fn is_about(entry: &Value, (group, resource): (&str, &str)) -> bool {
    entry["group"].as_str().unwrap_or_default() == group && entry["resource"].as_str() == Some(resource)
}

/// The entries with this one replaced or added; an error if the change is dangerous and not forced.
fn with(mut entries: Vec<Value>, named: (&str, &str), mode: &str, force: bool) -> Result<Vec<Value>, ()> {
    let mut found = false;
    for entry in entries.iter_mut().filter(|entry| is_about(entry, named)) {
        if entry["mode"] == "Ignore" && propagates(mode) && !force {
            return Err(());
        }
        entry["mode"] = json!(mode);
        found = true;
    }
    if !found {
        let (group, resource) = named;
        let mut entry = json!({ "resource": resource, "mode": mode });
        if !group.is_empty() {
            entry["group"] = json!(group);
        }
        entries.push(entry);
    }
    Ok(entries)
}

fn risky(resource: &str, mode: &str) -> Failure {
    Failure::new(format!(
        "Switching {resource} from Ignore straight to {mode} is dangerous: copies in namespaces below that are out of \
         date are replaced or deleted at once."
    ))
    .with_hint(format!(
        "`kubectl hns plan config set-resource {resource} --mode {mode} --force` lists what would happen. To go ahead: \
         `kubectl hns config set-resource {resource} --mode {mode} --force`."
    ))
}

pub(super) fn api(session: &Session) -> Api<DynamicObject> {
    Api::all_with(session.client.clone(), &ApiResource::erase::<HNCConfiguration>(&()))
}

pub(super) async fn read(session: &Session) -> Result<DynamicObject, Failure> {
    let found = session.call(api(session).get_opt(NAME)).await.map_err(|problem| unreadable(&problem))?;
    let mut object = found.unwrap_or_else(|| {
        let mut object = DynamicObject::new(NAME, &ApiResource::erase::<HNCConfiguration>(&()));
        object.data = json!({});
        object
    });
    if !object.data["spec"].is_object() {
        object.data["spec"] = json!({});
    }
    Ok(object)
}

pub(super) fn unreadable(problem: &Problem) -> Failure {
    let failure = Failure::because("the HNCConfiguration cannot be read", problem);
    if problem.is_not_found() {
        return failure.with_hint(
            "Nothing is configured, so only roles and rolebindings are propagated; `kubectl hns config set-resource` adds others.",
        );
    }
    failure
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_case_of_modes_is_ignored() {
        for (typed, wanted) in [
            ("propagate", "Propagate"),
            ("REMOVE", "Remove"),
            ("allowPropagate", "AllowPropagate"),
            ("AllowPropagate", "AllowPropagate"),
            ("nonsense", "Nonsense"),
            ("", ""),
        ] {
            assert_eq!(mode(typed), wanted);
        }
    }

    #[test]
    fn an_entry_is_replaced_or_added() {
        let entries = vec![
            json!({ "resource": "secrets", "mode": "Remove", "other": 1 }),
            json!({ "group": "apps", "resource": "secrets", "mode": "Ignore" }),
        ];
        let replaced = with(entries.clone(), ("", "secrets"), "Propagate", false).unwrap();
        assert_eq!(replaced[0], json!({ "resource": "secrets", "mode": "Propagate", "other": 1 }));
        assert_eq!(replaced[1], entries[1]);
        let added = with(entries.clone(), ("batch", "jobs"), "Ignore", false).unwrap();
        assert_eq!(added[2], json!({ "group": "batch", "resource": "jobs", "mode": "Ignore" }));
        for (mode, force, refused) in [
            ("Propagate", false, true),
            ("AllowPropagate", false, true),
            ("Propagate", true, false),
            ("Remove", false, false),
        ] {
            let outcome = with(entries.clone(), ("apps", "secrets"), mode, force);
            assert_eq!(outcome.is_err(), refused, "{mode} {force}");
        }
    }
}
