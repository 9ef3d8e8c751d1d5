//! Whether the definitions (CRDs) of hns exist and are served.

use hns_api::accurate::SubNamespace;
use hns_api::{HierarchyConfiguration, crd, names};
use hns_cluster::settings::SharedSettings;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt as _;

use super::Finding;
use crate::session::Session;

/// The subject of the check as a whole.
const SUBJECT: &str = "definitions";

pub(super) async fn check(session: &Session, settings: &SharedSettings) -> Vec<Finding> {
    let api = session.all::<CustomResourceDefinition>();
    let mut all = Vec::new();
    for wanted in crd::all() {
        let name = wanted.metadata.name.unwrap_or_default();
        match session.call(api.get_opt(&name)).await {
            Ok(found) => all.push((name, found)),
            Err(problem) => return vec![Finding::unread(SUBJECT, &problem)],
        }
    }
    let installation = session.installation().await;
    let some_go = all.iter().any(|(_, found)| found.as_ref().is_some_and(goes));
    let findings =
        all.iter().filter_map(|(name, found)| finding(name, found.as_ref(), (installation, some_go)));
    let mut findings: Vec<Finding> = findings.collect();
    if settings.accurate.enabled {
        match session.call(api.get_opt(SubNamespace::crd_name())).await {
            Ok(found) => findings.extend(of_accurate(found.as_ref())),
            Err(problem) => return vec![Finding::unread(SUBJECT, &problem)],
        }
    }
    if findings.is_empty() {
        findings.push(Finding::ok(SUBJECT, "all exist and are served"));
    }
    findings
}

/// The definition of `SubNamespace`, where Accurate's API is enabled.
fn of_accurate(found: Option<&CustomResourceDefinition>) -> Option<Finding> {
    const APPLY: &str =
        "kubectl apply --server-side -f config/accurate/accurate.cybozu.com_subnamespaces.yaml";
    let (text, hint) = match found {
        None => (
            "does not exist, although Accurate's API is enabled",
            format!(
                "Set accurate.enabled in the chart, or apply config/accurate.yaml, which also replaces the settings: both have the definition and \
                 the rights. The definition alone: `{APPLY}`. Or set accurate.enabled to false in the settings."
            ),
        ),
        Some(found) if goes(found) => (
            "is being deleted, and every SubNamespace",
            format!(
                "Apply it when it is gone (`{APPLY}`), and create the SubNamespaces again; or set accurate.enabled to false."
            ),
        ),
        Some(_) => return None,
    };
    // The trees do not depend on it, so this is not one of the definitions that they need.
    Some(Finding::wrong(format!("Accurate's definition {}", SubNamespace::crd_name()), text, hint))
}

fn goes(definition: &CustomResourceDefinition) -> bool {
    definition.metadata.deletion_timestamp.is_some()
}

/// The namespace of the controller, and whether a definition is still being deleted.
type Restoration<'a> = (&'a str, bool);

fn finding(
    name: &str,
    found: Option<&CustomResourceDefinition>,
    restoration: Restoration<'_>,
) -> Option<Finding> {
    let subject = format!("definition {name}");
    let Some(found) = found else {
        return Some(Finding::wrong(subject, "does not exist", restore(name, restoration)));
    };
    if goes(found) {
        let text = "is being deleted, with all its objects";
        return Some(Finding::wrong(subject, text, restore(name, restoration)));
    }
    let served = found.spec.versions.iter().any(|it| it.name == hns_api::VERSION && it.served);
    let conditions = found.status.iter().flat_map(|it| it.conditions.iter().flatten());
    let established = conditions.clone().any(|it| it.type_ == "Established" && it.status == "True");
    (!served || !established).then(|| {
        Finding::wrong(
            subject,
            format!("version {} is not served", hns_api::VERSION),
            "Apply the definitions: `kubectl apply -f config/crds.yaml`.",
        )
    })
}

/// What to do about a definition whose objects are lost.
fn restore(name: &str, (installation, some_go): Restoration<'_>) -> String {
    let lost = if name == HierarchyConfiguration::crd_name() {
        "The controller would treat full namespaces as roots, and delete the copies in them."
    } else {
        "Its objects are lost: create them again before the controller starts."
    };
    let (wait, stop) = if some_go {
        (
            "Let the controller run, or start it, until no definition is left: only it removes the finalizers of the objects. Until then, the \
             hierarchy does not change. ",
            "Then stop it",
        )
    } else {
        ("", "Stop it")
    };
    format!(
        "{wait}Do not apply the definitions while the controller runs. {lost}\n{stop} (`kubectl scale deployment {} -n {installation} \
         --replicas=0`), and follow docs/repair.md, \"The definitions were deleted by mistake\".",
        names::CONTROLLER_DEPLOYMENT
    )
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;

    fn of<T: DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn what_enables_the_api_of_accurate_is_named() {
        let hint = of_accurate(None).unwrap().hint.unwrap();
        assert!(hint.contains("accurate.enabled in the chart, or apply config/accurate.yaml"), "{hint}");
    }

    #[test]
    fn definitions_must_exist_and_not_be_deleted() {
        let name = "hierarchyconfigurations.hnc.x-k8s.io";
        let finding = |found: Option<&CustomResourceDefinition>| {
            finding(name, found, ("home", found.is_some_and(goes)))
        };
        let mut whole = crd::hierarchy_configurations();
        let unserved = finding(Some(&whole)).unwrap();
        assert!(unserved.hint.unwrap().contains("config/crds.yaml"), "no object is lost");
        whole.status = Some(of(json!({
            "acceptedNames": { "kind": "x", "plural": "x" }, "storedVersions": [],
            "conditions": [{ "type": "Established", "status": "True" }],
        })));
        assert_eq!(finding(Some(&whole)), None);
        let missing = finding(None).unwrap();
        assert!(missing.text.contains("does not exist"), "{missing:?}");
        whole.metadata.deletion_timestamp = Some(of(json!("2026-01-01T00:00:00Z")));
        let deleted = finding(Some(&whole)).unwrap();
        assert!(deleted.text.contains("being deleted"), "{deleted:?}");
        let [missing, deleted] = [missing, deleted].map(|it| it.hint.unwrap());
        assert!(missing.contains("\nStop it") && !missing.contains("start it"), "{missing}");
        assert!(
            deleted.starts_with("Let the controller run, or start it") && deleted.contains("\nThen stop it")
        );
        for hint in [missing, deleted] {
            for said in ["-n home --replicas=0", "docs/repair.md", "full namespaces as roots"] {
                assert!(hint.contains(said), "{said}: {hint}");
            }
        }
    }
}
