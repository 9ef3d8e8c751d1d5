//! The settings that the installation runs with, which are in the `ConfigMap` `hnc-settings`. Where they cannot be read, the
//! defaults stand in for them, and that is said.

use std::sync::Arc;

use forest::{Forest, Settings};
use hns_api::names::SETTINGS_CONFIG_MAP;
use hns_cluster::settings::{Data, in_force, version};
use k8s_openapi::api::core::v1::ConfigMap;

use crate::failure::Problem;
use crate::session::Session;
use crate::structure;

/// What rules and plans depend on in the installation, and what is uncertain about it, for people.
pub(crate) async fn settings(session: &Session) -> (Settings, Option<String>) {
    conclude(&read(session).await, session.installation().await)
}

/// The same with the rules of Accurate's API, where it is enabled.
pub(crate) async fn both_settings(
    session: &Session,
) -> (Settings, Option<forest::accurate::Settings>, Option<String>) {
    let read = read(session).await;
    let (settings, note) = conclude(&read, session.installation().await);
    (settings, read.ok().flatten().and_then(|data| rules(&data)), note)
}

/// The settings that exclude namespaces, where hns serves Accurate's API. They do not apply to Accurate itself.
pub(crate) async fn settings_beside_accurate(session: &Session) -> Option<Settings> {
    let (settings, rules, _) = both_settings(session).await;
    rules.map(|_| settings)
}

/// An empty forest with these settings, in which Accurate's API is enabled where it is in the installation.
pub(crate) async fn forest(session: &Session, settings: Settings) -> Forest {
    empty(settings, accurate(session).await.unwrap_or_default())
}

/// An empty forest with these settings, in which Accurate's API is enabled if there are rules of it.
pub(crate) fn empty(settings: Settings, accurate: Option<forest::accurate::Settings>) -> Forest {
    let forest = Forest::unconfigured(Arc::new(settings));
    match accurate {
        Some(rules) => forest.with_accurate(Arc::new(rules)),
        None => forest,
    }
}

/// The rules of Accurate's API; `None` where it is not enabled.
pub(crate) async fn accurate(session: &Session) -> Result<Option<forest::accurate::Settings>, Problem> {
    Ok(read(session).await?.and_then(|data| rules(&data)))
}

fn rules(data: &Data) -> Option<forest::accurate::Settings> {
    let shared = in_force(data).ok()?.filter(|it| it.accurate.enabled)?;
    shared.accurate.rules().ok()
}

/// The entries of the `ConfigMap`; `None` where there is none.
pub(crate) async fn read(session: &Session) -> Result<Option<Data>, Problem> {
    let api = session.within::<ConfigMap>(session.installation().await);
    let found = session.call(api.get_opt(SETTINGS_CONFIG_MAP)).await?;
    Ok(found.map(|it| it.data.unwrap_or_default()))
}

fn conclude(read: &Result<Option<Data>, Problem>, namespace: &str) -> (Settings, Option<String>) {
    let assumed = |why: String| {
        let note = format!(
            "the settings of the installation are not known ({why}); they are taken to be the default ones. If hns is installed \
             in another namespace than {namespace}, name it with --installation"
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
    match in_force(data).and_then(|found| found.map(|it| it.within(namespace)).transpose()) {
        Ok(Some(settings)) => (settings, None),
        Ok(None) => assumed(format!("the ConfigMap {SETTINGS_CONFIG_MAP} has none yet")),
        Err(invalid) => assumed(format!(
            "this version of kubectl-hns does not understand those of version {}: {invalid}",
            version(data)
        )),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use hns_cluster::settings::{DOCUMENT, VERSION};
    use kube::core::Status;

    use super::*;

    /// The data with this document.
    pub(crate) fn data(document: &str) -> Data {
        let entries = [(DOCUMENT, document), (VERSION, "9.9.9")];
        entries.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
    }

    #[test]
    fn what_is_in_force_is_taken_without_a_word() {
        let document = "{version: v1, excludedNamespaces: [a], includedNamespaceRegex: '[^x].*'}";
        let (settings, note) = conclude(&Ok(Some(data(document))), "home");
        assert_eq!(note, None);
        for (name, managed) in [("home", false), ("a", false), ("x1", false), ("hnc-system", true)] {
            assert_eq!(settings.is_managed(name), managed, "{name}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_the_default_and_is_said() {
        let forbidden =
            Status::failure("configmaps \"hnc-settings\" is forbidden", "Forbidden").with_code(403);
        for (read, why) in [
            (Err(Problem::Refused(Box::new(forbidden))), "is forbidden"),
            (Ok(None), "there is no ConfigMap hnc-settings in namespace home"),
            (Ok(Some(Data::new())), "has none yet"),
            (Ok(Some(data("{version: v1, toCome: 1}"))), "of version 9.9.9: toCome: unknown field"),
        ] {
            let (settings, note) = conclude(&read, "home");
            let note = note.unwrap_or_default();
            assert!(note.contains(why), "{why}: {note}");
            assert!(settings.is_managed("a") && !settings.is_managed("hnc-system"));
        }
    }
}
