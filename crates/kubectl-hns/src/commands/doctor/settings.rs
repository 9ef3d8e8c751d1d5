//! Whether there are settings in force, and where they are from.

use hns_api::names::{CONFIG_CONFIG_MAP, SETTINGS_CONFIG_MAP};
use hns_cluster::quota_rights::REMEDY;
use hns_cluster::settings::{
    Data, FLAGS, SOURCE, SharedSettings, in_force, is_deleted, refusal, refused, version,
};

use k8s_openapi::api::rbac::v1::ClusterRole;

use super::Finding;
use crate::published;
use crate::session::Session;

const SUBJECT: &str = "settings";
const INITIAL_ADMIN: &str = "setting initialAdmin";

/// The settings in force, or the defaults. [`check`] reports settings that cannot be read.
pub(in crate::commands) async fn or_default(session: &Session) -> SharedSettings {
    let data = published::read(session).await.ok().flatten().unwrap_or_default();
    in_force(&data).ok().flatten().unwrap_or_default()
}

pub(super) async fn check(session: &Session) -> Finding {
    let namespace = session.installation().await;
    match published::read(session).await {
        Ok(data) => finding(&data.unwrap_or_default(), namespace),
        Err(problem) => Finding::unread(SUBJECT, &problem),
    }
}

/// Whether the `ClusterRole` of `initialAdmin` exists, if the setting is enabled. A binding to a missing one gives no rights.
pub(super) async fn initial_admin(session: &Session) -> Option<Finding> {
    let data = published::read(session).await.ok().flatten()?;
    let role = in_force(&data).ok().flatten()?.initial_admin;
    if !role.enabled {
        return None;
    }
    let roles = session.all::<ClusterRole>();
    Some(match session.call(roles.get_metadata_opt(&role.cluster_role)).await {
        Ok(found) => admin_role(&role.cluster_role, found.is_some()),
        Err(problem) => Finding::unread(INITIAL_ADMIN, &problem),
    })
}

fn admin_role(name: &str, exists: bool) -> Finding {
    if exists {
        return Finding::ok(INITIAL_ADMIN, format!("the ClusterRole {name} exists"));
    }
    Finding::wrong(
        INITIAL_ADMIN,
        format!("there is no ClusterRole {name}, so creators of subnamespaces get no rights in them"),
        "Create it, or correct initialAdmin.clusterRole in the settings.",
    )
}

fn finding(data: &Data, namespace: &str) -> Finding {
    if let Some(why) = refused(data) {
        let hint = match (is_deleted(data), why.contains(REMEDY)) {
            (true, _) => format!("Create the ConfigMap {CONFIG_CONFIG_MAP} in namespace {namespace}"),
            (_, true) => "Do that, or disable hierarchical quotas".to_owned(),
            _ => format!("Correct the ConfigMap {CONFIG_CONFIG_MAP} in namespace {namespace}"),
        };
        return Finding::wrong(SUBJECT, refusal(why), format!("{hint}; no restart is needed."));
    }
    match in_force(data) {
        Ok(Some(_)) if data.get(SOURCE).is_some_and(|source| source == FLAGS) => Finding::ok(
            SUBJECT,
            format!(
                "those of the controller's flags are in force (there is no ConfigMap {CONFIG_CONFIG_MAP})"
            ),
        ),
        // Flags add to the document, and replace its keys.
        Ok(Some(_)) => Finding::ok(
            SUBJECT,
            format!(
                "those of the ConfigMap {CONFIG_CONFIG_MAP} and of the controller's flags are in force (the ConfigMap \
                 {SETTINGS_CONFIG_MAP} has them all)"
            ),
        ),
        Ok(None) => Finding::wrong(
            SUBJECT,
            format!("there are none in the ConfigMap {SETTINGS_CONFIG_MAP} in namespace {namespace}"),
            "The leading hns-controller writes them, if it may: look at its log.",
        ),
        Err(invalid) => Finding::wrong(
            SUBJECT,
            format!("this version does not understand those of version {}: {invalid}", version(data)),
            "Use kubectl-hns of that version.",
        ),
    }
}

#[cfg(test)]
mod tests {
    use hns_cluster::settings::{DELETED, REFUSED, refusal_of_document};

    use super::super::Level;
    use super::*;
    use crate::published::tests::data;

    #[test]
    fn the_role_of_the_first_administrator_must_exist() {
        assert_eq!(admin_role("admin", true).level, Level::Ok);
        let missing = admin_role("nope", false);
        assert_eq!(missing.level, Level::Wrong);
        assert!(missing.text.contains("there is no ClusterRole nope"), "{missing:?}");
    }

    #[test]
    fn a_deleted_document_is_created_again() {
        let mut data = data("version: v1");
        for (why, remedy) in [
            (DELETED, "Create the ConfigMap"),
            ("x: unknown field", "Correct the ConfigMap"),
            (REMEDY, "Do that, or"),
        ] {
            data.insert(REFUSED.to_owned(), format!("ConfigMap hns-config: {why}"));
            assert!(finding(&data, "home").hint.unwrap().starts_with(remedy), "{why}");
        }
    }

    #[test]
    fn a_setting_that_is_refused_alone_is_no_refused_document() {
        let mut data = data("version: v1");
        for (why, said) in [
            (refusal_of_document("x: unknown field"), "the settings document is refused, and the earlier"),
            (refusal_of_document(DELETED), "the settings document is missing, and the earlier"),
            (
                format!("hierarchicalQuotas.enabled: {REMEDY}"),
                "a part of the settings is refused, and the rest is in force",
            ),
        ] {
            data.insert(REFUSED.to_owned(), why);
            assert!(finding(&data, "home").text.starts_with(said), "{said}");
        }
    }

    #[test]
    fn settings_must_be_in_force() {
        let right = data("version: v1");
        let mut wrong = right.clone();
        wrong.insert(REFUSED.to_owned(), "ConfigMap hns-config: x: unknown field".to_owned());
        let mut flags = right.clone();
        flags.insert(SOURCE.to_owned(), FLAGS.to_owned());
        for (data, level, text) in [
            (flags, Level::Ok, "no ConfigMap hns-config"),
            (
                right,
                Level::Ok,
                "those of the ConfigMap hns-config and of the controller's flags are in force",
            ),
            (wrong, Level::Wrong, "hns-config: x: unknown field"),
            (Data::new(), Level::Wrong, "there are none"),
            (data("{version: v1, x: 1}"), Level::Wrong, "version 9.9.9: x: unknown field"),
        ] {
            let finding = finding(&data, "home");
            assert_eq!(finding.level, level, "{finding:?}");
            assert!(finding.text.contains(text), "{finding:?}");
        }
    }
}
