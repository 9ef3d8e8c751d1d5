//! Checks the conditions of the `HNCConfiguration`.

use hns_api::{HNCConfiguration, conditions, names};

use super::Finding;
use crate::commands::kinds::ABSENT;
use crate::failure::Problem;
use crate::session::Session;

/// The subject of the summary of the conditions of namespaces.
pub(super) const NAMESPACES: &str = "namespaces";

pub(super) async fn check(session: &Session) -> Vec<Finding> {
    let configs = session.all::<HNCConfiguration>();
    match session.call(configs.get_opt(names::HNC_CONFIGURATION)).await {
        Ok(config) => configuration(config.as_ref()),
        Err(problem) => vec![no_configuration(&problem)],
    }
}

fn no_configuration(problem: &Problem) -> Finding {
    const SUBJECT: &str = "configuration";
    if problem.is_not_installed() { Finding::unserved(SUBJECT) } else { Finding::unread(SUBJECT, problem) }
}

fn configuration(config: Option<&HNCConfiguration>) -> Vec<Finding> {
    let Some(config) = config else {
        return vec![Finding::note("configuration", ABSENT)];
    };
    let all = config.status.as_ref().map_or(&[][..], |it| &it.conditions);
    // Settings are a check of their own.
    let conditions = all.iter().filter(|it| it.reason != conditions::bad_configuration::SETTINGS_REFUSED);
    let finding = |it: &hns_api::Condition| {
        let (subject, hint) = match &*it.type_ {
            conditions::NAMESPACE_CONDITION => (
                NAMESPACES,
                "`kubectl hns describe NAMESPACE` shows the conditions of a namespace that you may read.",
            ),
            conditions::BAD_CONFIGURATION if *it.reason == *conditions::bad_configuration::UNKNOWN => (
                "configuration",
                "The controller tries again by itself. If this lasts, solve what the message says.",
            ),
            conditions::OUT_OF_SYNC => {
                ("configuration", "`kubectl hns config describe` shows all conditions.")
            }
            _ => (
                "configuration",
                "`kubectl hns config set-resource` and `kubectl hns config delete-type` change the configuration.",
            ),
        };
        Finding::wrong(subject, format!("{} ({}): {}", it.type_, it.reason, it.message), hint)
    };
    let mut findings: Vec<Finding> = conditions.map(finding).collect();
    if all.iter().all(|it| it.type_ == conditions::NAMESPACE_CONDITION) {
        findings.insert(0, Finding::ok("configuration", "no conditions of its own"));
    }
    findings
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::super::Level;
    use super::super::tests::texts;
    use super::*;

    fn of<T: DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn each_condition_is_found_once_with_a_solution() {
        let condition = |type_: &str, reason: &str| {
            json!({
                "type": type_, "reason": reason, "message": "m", "status": "True",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            })
        };
        let config: HNCConfiguration = of(json!({
            "metadata": { "name": "config" },
            "status": { "conditions": [
                condition("BadConfiguration", "SettingsRefused"),
                condition("NamespaceCondition", "ParentMissing"),
                condition("BadConfiguration", "ResourceNotFound"),
                condition("BadConfiguration", "Unknown"),
                condition("OutOfSync", "MissingRights"),
            ] },
        }));
        let found = configuration(Some(&config));
        let found: Vec<_> =
            found.iter().map(|it| (&*it.subject, it.hint.as_deref().unwrap_or_default())).collect();
        let [(namespaces, _), (one, changes), (unread, again), (other, shows)] = found[..] else {
            panic!("{found:?}")
        };
        assert_eq!((namespaces, [one, unread, other]), (NAMESPACES, ["configuration"; 3]));
        assert!(changes.contains("set-resource") && !shows.contains("set-resource"), "{found:?}");
        assert!(again.starts_with("The controller tries again by itself."), "{found:?}");
        for (conditions, wanted) in [
            (vec![], vec!["configuration: no conditions of its own"]),
            (vec![condition("BadConfiguration", "SettingsRefused")], vec![]),
            (
                vec![condition("NamespaceCondition", "ParentMissing")],
                vec![
                    "configuration: no conditions of its own",
                    "namespaces: NamespaceCondition (ParentMissing): m",
                ],
            ),
        ] {
            let status = json!({ "conditions": conditions });
            let config = of(json!({ "metadata": { "name": "config" }, "status": status }));
            assert_eq!(texts(&configuration(Some(&config))), wanted);
        }
    }

    #[test]
    fn a_configuration_without_its_definition_is_not_checked() {
        for (code, message, level) in [
            (404, "404 page not found", Level::Note),
            (403, "x is forbidden: User \"u\" cannot get resource", Level::Note),
            (500, "etcd", Level::Wrong),
        ] {
            let status = kube::core::Status::failure(message, "").with_code(code);
            let finding = no_configuration(&Problem::Refused(Box::new(status)));
            assert_eq!(finding.level, level, "{finding:?}");
            assert_eq!(finding.text.contains("because a definition is missing"), code == 404, "{finding:?}");
        }
    }
}
