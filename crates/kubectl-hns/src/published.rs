//! The settings that the installation runs with, as its binaries say them in the `ConfigMap` `hnc-settings`. Where they cannot be
//! had, the defaults stand in for them, and that is said.

use std::collections::BTreeMap;

use forest::Settings;
use hns_api::names::SETTINGS_CONFIG_MAP;
use hns_runtime::settings::{Component, Document, difference};
use k8s_openapi::api::core::v1::ConfigMap;

use crate::failure::Problem;
use crate::session::Session;
use crate::structure;

/// What rules and plans depend on in the installation, and what is uncertain about it, for people. The controller's word counts
/// before the webhook's.
pub(crate) async fn settings(session: &Session) -> (Settings, Option<String>) {
    conclude(&read(session).await, session.installation().await)
}

/// The entries of the `ConfigMap`; `None` where there is none.
pub(crate) async fn read(session: &Session) -> Result<Option<BTreeMap<String, String>>, Problem> {
    let api = session.within::<ConfigMap>(session.installation().await);
    let found = session.call(api.get_opt(SETTINGS_CONFIG_MAP)).await?;
    Ok(found.map(|it| it.data.unwrap_or_default()))
}

fn conclude(
    read: &Result<Option<BTreeMap<String, String>>, Problem>,
    namespace: &str,
) -> (Settings, Option<String>) {
    let assumed = |why: String| {
        let note = format!(
            "the settings of the installation are not known ({why}); flags are taken to be the default ones. If hns is \
             installed in another namespace than {namespace}, name it with --installation"
        );
        (structure::settings(), Some(note))
    };
    let data = match read {
        Ok(Some(data)) => data,
        Ok(None) => {
            return assumed(format!("there is no ConfigMap {SETTINGS_CONFIG_MAP} in namespace {namespace}"));
        }
        Err(problem) => return assumed(problem.to_string()),
    };
    let [controller, webhook] =
        [Component::Controller, Component::Webhook].map(|component| Document::read(data, component));
    let Some(document) = controller.as_ref().or(webhook.as_ref()) else {
        return assumed(format!("neither binary has said them in the ConfigMap {SETTINGS_CONFIG_MAP}"));
    };
    match document.common.settings() {
        Err(stop) => assumed(stop.to_string()),
        Ok((settings, unknown)) if !unknown.is_empty() => {
            let note = format!(
                "the installation (version {}) has settings that this version of kubectl-hns does not know: --{}",
                document.version,
                unknown.join(", --")
            );
            (settings, Some(note))
        }
        Ok((settings, _)) => {
            let note = difference(controller.as_ref(), webhook.as_ref());
            let note = note.map(|clauses| {
                format!("the controller and the webhook run with different settings: {clauses}; the controller's are used here")
            });
            (settings, note)
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use kube::core::Status;
    use serde_json::{Value, json};

    use super::*;

    /// The entries of a component with these common settings.
    pub(crate) fn entries(component: Component, common: &Value) -> BTreeMap<String, String> {
        let document = json!({ "version": "9.9.9", "common": common, "own": {} });
        serde_json::from_value::<Document>(document).unwrap().data(component)
    }

    fn both(controller: &Value, webhook: &Value) -> BTreeMap<String, String> {
        let mut data = entries(Component::Controller, controller);
        data.extend(entries(Component::Webhook, webhook));
        data
    }

    fn excluding(names: &[&str]) -> Value {
        json!({ "namespace": "home", "excluded-namespace": names, "included-namespace-regex": "[^x].*" })
    }

    fn note(data: BTreeMap<String, String>) -> (Settings, String) {
        let (settings, note) = conclude(&Ok(Some(data)), "home");
        (settings, note.unwrap_or_default())
    }

    #[test]
    fn what_both_say_is_taken_without_a_word() {
        let (settings, note) = note(both(&excluding(&["home", "a"]), &excluding(&["a", "home"])));
        assert_eq!(note, "");
        for (name, managed) in [("home", false), ("a", false), ("x1", false), ("hnc-system", true)] {
            assert_eq!(settings.is_managed(name), managed, "{name}");
        }
    }

    #[test]
    fn where_they_differ_the_controller_is_believed_and_it_is_said() {
        let (settings, said) = note(both(&excluding(&["a"]), &excluding(&["b"])));
        assert!(!settings.is_managed("a") && settings.is_managed("b"));
        assert!(
            said.contains("only hns-controller has --excluded-namespace=a") && said.contains("=b"),
            "{said}"
        );
        let (settings, said) = note(entries(Component::Webhook, &excluding(&["b"])));
        assert!(!settings.is_managed("b") && said.is_empty(), "{said}");
    }

    #[test]
    fn flags_to_come_are_named() {
        let (settings, said) =
            note(entries(Component::Controller, &json!({ "excluded-namespace": ["a"], "made-up": "true" })));
        assert!(!settings.is_managed("a"));
        assert!(said.contains("9.9.9") && said.contains("--made-up"), "{said}");
    }

    #[test]
    fn what_cannot_be_read_is_the_default_and_is_said() {
        let forbidden =
            Status::failure("configmaps \"hnc-settings\" is forbidden", "Forbidden").with_code(403);
        let mut forged = entries(Component::Controller, &excluding(&["a"]));
        forged.insert("controller.digest".into(), "sha256:0".into());
        for (read, why) in [
            (Err(Problem::Refused(Box::new(forbidden))), "is forbidden"),
            (Ok(None), "there is no ConfigMap hnc-settings in namespace home"),
            (Ok(Some(BTreeMap::new())), "neither binary has said them"),
            (Ok(Some(forged)), "neither binary has said them"),
            (Ok(Some(entries(Component::Webhook, &json!({ "namespace": "?" })))), "--namespace"),
        ] {
            let (settings, note) = conclude(&read, "home");
            let note = note.unwrap_or_default();
            assert!(note.contains(why), "{why}: {note}");
            assert!(settings.is_managed("a") && !settings.is_managed("hnc-system"));
        }
    }
}
