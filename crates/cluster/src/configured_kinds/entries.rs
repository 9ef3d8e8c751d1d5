//! Reads the entries of an `HNCConfiguration`.
//!
//! Each entry is read on its own: an invalid entry gives an error and does not affect the others.

use forest::configuration::Entry;
use forest::{Mode, OnConflict, TreeFault, TreeLimit};
use hns_api::{ConflictPolicy, ResourceSpec, SynchronizationMode, TreeSpec};
use kube::core::DynamicObject;
use serde::Deserialize;
use serde_json::Value;

/// The entries of `spec.resources`.
pub fn entries(configuration: &DynamicObject) -> Vec<Result<Entry, String>> {
    entries_of(configuration.data.get("spec"))
}

/// The entries of `resources` in this `spec`.
pub fn entries_of(spec: Option<&Value>) -> Vec<Result<Entry, String>> {
    match spec.and_then(|spec| spec.get("resources")) {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(resources)) => resources.iter().map(entry).collect(),
        Some(_) => vec![Err("spec.resources is not a list".into())],
    }
}

/// The limits of trees in this `spec`.
pub fn trees_of(spec: Option<&Value>) -> Vec<Result<TreeLimit, TreeFault>> {
    match spec.and_then(|spec| spec.get("trees")) {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(trees)) => trees.iter().map(tree).collect(),
        Some(_) => vec![Err("spec.trees is not a list".to_owned().into())],
    }
}

fn tree(value: &Value) -> Result<TreeLimit, TreeFault> {
    let spec = TreeSpec::deserialize(value).map_err(|error| TreeFault::from(error.to_string()))?;
    let number = |limit: Option<u32>| limit.and_then(|it| usize::try_from(it).ok());
    let pattern = spec.name_pattern.as_deref();
    TreeLimit::new(spec.root.as_str().into(), number(spec.max_namespaces), number(spec.max_depth), pattern)
}

fn entry(value: &Value) -> Result<Entry, String> {
    let spec = ResourceSpec::deserialize(value).map_err(|error| error.to_string())?;
    Ok(Entry {
        mode: mode(&spec.mode()),
        on_conflict: spec.on_conflict.as_ref().map(|policy| match policy {
            ConflictPolicy::Keep => OnConflict::Keep,
            ConflictPolicy::Report | ConflictPolicy::Unknown(_) => OnConflict::Report,
            ConflictPolicy::Overwrite => OnConflict::Overwrite,
        }),
        group: spec.group.unwrap_or_default(),
        resource: spec.resource,
        excluded_names: spec.excluded_names.unwrap_or_default(),
    })
}

fn mode(mode: &SynchronizationMode) -> Mode {
    match mode {
        SynchronizationMode::Propagate => Mode::Propagate,
        SynchronizationMode::AllowPropagate => Mode::AllowPropagate,
        SynchronizationMode::Remove => Mode::Remove,
        SynchronizationMode::Ignore | SynchronizationMode::Unknown(_) => Mode::Ignore,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(resources: &Value) -> Vec<Result<Entry, String>> {
        let object = json!({ "metadata": { "name": "config" }, "spec": { "resources": resources } });
        entries(&serde_json::from_value(object).unwrap())
    }

    #[test]
    fn each_entry_is_read_on_its_own() {
        let found = read(&json!([
            { "resource": "secrets" },
            { "resource": "things", "group": "example.com", "mode": "AllowPropagate", "onConflict": "Report",
              "excludedNames": ["a-*"] },
            { "group": "apps" },
            { "resource": "configmaps", "mode": "propagate", "onConflict": "ask" },
            7,
            { "resource": "events", "mode": "Remove" },
        ]));
        let entry = |resource: &str, mode| Entry { resource: resource.into(), mode, ..Entry::default() };
        assert_eq!(found[0], Ok(entry("secrets", Mode::Propagate)));
        let all = Entry {
            group: "example.com".into(),
            on_conflict: Some(OnConflict::Report),
            excluded_names: vec!["a-*".into()],
            ..entry("things", Mode::AllowPropagate)
        };
        assert_eq!(found[1], Ok(all));
        assert!(found[2].as_ref().unwrap_err().contains("resource"));
        let careful = Entry { on_conflict: Some(OnConflict::Report), ..entry("configmaps", Mode::Ignore) };
        assert_eq!(found[3], Ok(careful), "an unknown policy deletes no data");
        assert!(found[4].is_err());
        assert_eq!(found[5], Ok(entry("events", Mode::Remove)));
        assert_eq!(found.len(), 6);
    }

    #[test]
    fn each_tree_is_read_on_its_own() {
        let spec = json!({ "trees": [
            { "root": "acme", "maxNamespaces": 2, "maxDepth": 1, "namePattern": "acme-.*" },
            { "root": "other", "namePattern": "(" },
            { "maxDepth": 1 },
            { "root": "acme", "maxDepth": -1 },
        ] });
        let found = trees_of(Some(&spec));
        assert_eq!(found[0], TreeLimit::new("acme".into(), Some(2), Some(1), Some("acme-.*")));
        for (at, field, why) in [(1, "namePattern", "unclosed group"), (2, "", "root"), (3, "", "-1")] {
            let fault = found[at].as_ref().unwrap_err();
            assert!(fault.field == field && fault.why.contains(why), "{fault:?}");
        }
        assert_eq!(trees_of(None), []);
        assert!(matches!(&trees_of(Some(&json!({ "trees": {} })))[..], [Err(_)]));
    }

    #[test]
    fn a_value_that_is_not_a_list_is_an_error() {
        for absent in [json!({}), json!({ "spec": null }), json!({ "spec": { "resources": null } })] {
            assert_eq!(entries(&serde_json::from_value(absent).unwrap()), []);
        }
        assert_eq!(read(&json!([])), []);
        assert!(matches!(&read(&json!({ "resource": "secrets" }))[..], [Err(_)]));
    }
}
