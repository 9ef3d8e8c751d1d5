//! Whether there are settings in force, and whether they are those of the document.

use hns_api::names::{CONFIG_CONFIG_MAP, SETTINGS_CONFIG_MAP};
use hns_cluster::settings::{Data, FLAGS, SOURCE, in_force, refused, version};

use super::Finding;
use crate::published;
use crate::session::Session;

const SUBJECT: &str = "settings";

pub(super) async fn check(session: &Session) -> Finding {
    let namespace = session.installation().await;
    match published::read(session).await {
        Ok(data) => finding(&data.unwrap_or_default(), namespace),
        Err(problem) => Finding::unread(SUBJECT, &problem),
    }
}

fn finding(data: &Data, namespace: &str) -> Finding {
    if let Some(why) = refused(data) {
        return Finding::wrong(
            SUBJECT,
            format!("they are wrong, so earlier ones stay in force: {why}"),
            format!(
                "Correct the ConfigMap {CONFIG_CONFIG_MAP} in namespace {namespace}; no restart is needed."
            ),
        );
    }
    match in_force(data) {
        Ok(Some(_)) if data.get(SOURCE).is_some_and(|source| source == FLAGS) => Finding::ok(
            SUBJECT,
            format!(
                "those of the controller's flags are in force (there is no ConfigMap {CONFIG_CONFIG_MAP})"
            ),
        ),
        Ok(Some(_)) => Finding::ok(SUBJECT, "those of the document are in force"),
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
    use hns_cluster::settings::REFUSED;

    use super::super::Level;
    use super::*;
    use crate::published::tests::data;

    #[test]
    fn settings_must_be_in_force_and_those_of_the_document() {
        let right = data("version: v1");
        let mut wrong = right.clone();
        wrong.insert(REFUSED.to_owned(), "ConfigMap hns-config: x: unknown field".to_owned());
        let mut flags = right.clone();
        flags.insert(SOURCE.to_owned(), FLAGS.to_owned());
        for (data, level, text) in [
            (flags, Level::Ok, "no ConfigMap hns-config"),
            (right, Level::Ok, "those of the document are in force"),
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
