//! Whether the hierarchical quotas limit what they should.

use std::collections::BTreeSet;

use forest::Name;
use futures::future::join_all;
use hns_api::conditions::{ENFORCED, EXCEEDED, STATUS_TRUE};
use hns_api::{Condition, HierarchicalResourceQuota};
use kube::api::ListParams;

use super::{Finding, some};
use crate::lines::printable;
use crate::session::Session;
use crate::structure::{self, Extent};
use crate::{published, quotas};

const SUBJECT: &str = "hierarchical quotas";
/// The reason for which a quota is usually not enforced for a moment only.
const NOT_IN_FORCE_YET: &str = "LimitsNotInForce";

/// Nothing if there are no quotas.
pub(super) async fn check(session: &Session) -> Vec<Finding> {
    let (settings, unknown) = published::settings(session).await;
    if unknown.is_some() {
        return Vec::new();
    }
    let all = session.all::<HierarchicalResourceQuota>();
    match session.list(&all, &ListParams::default()).await {
        Ok(found) => judged(&found, settings.hierarchical_quotas),
        // Another check reports that the definition is missing.
        Err(problem) if problem.is_not_installed() => Vec::new(),
        Err(problem) if problem.is_forbidden() && session.names_namespace => {
            around(session, settings.hierarchical_quotas).await
        }
        Err(problem) => vec![Finding::unread(SUBJECT, &problem)],
    }
}

fn judged(quotas: &[HierarchicalResourceQuota], is_enabled: bool) -> Vec<Finding> {
    if is_enabled {
        return enforced(quotas);
    }
    without_effect(&quotas.iter().map(full_name).collect::<Vec<_>>()).into_iter().collect()
}

/// The quotas of the tree around the namespace of -n, as far as the user may list them.
async fn around(session: &Session, is_enabled: bool) -> Vec<Finding> {
    let own = [session.namespace.clone()];
    // Another check reports that the tree cannot be read.
    let Ok(structure) = structure::read(session, Extent::Around(&own)).await else { return Vec::new() };
    let names: BTreeSet<&Name> = structure.namespaces.keys().chain(structure.hierarchies.keys()).collect();
    let lists = names.into_iter().map(async |name| {
        let quotas = session.within::<HierarchicalResourceQuota>(name);
        (name, session.list(&quotas, &ListParams::default()).await)
    });
    let (mut found, mut unread) = (Vec::new(), Vec::new());
    for (name, list) in join_all(lists).await {
        match list {
            Ok(quotas) => found.extend(quotas),
            Err(_) => unread.push(name.to_string()),
        }
    }
    let mut findings = judged(&found, is_enabled);
    if !unread.is_empty() {
        let text = format!("you may not list those in {}, so they were not checked", some(&unread));
        findings.push(Finding::note(SUBJECT, text));
    }
    findings
}

fn full_name(quota: &HierarchicalResourceQuota) -> String {
    let part = |it: &Option<String>| it.clone().unwrap_or_default();
    format!("{}/{}", part(&quota.metadata.namespace), part(&quota.metadata.name))
}

/// The conditions of quotas where these are enabled. A limit that is not in force yet, and one that is exceeded, need no action.
fn enforced(quotas: &[HierarchicalResourceQuota]) -> Vec<Finding> {
    let shown = |quota: &HierarchicalResourceQuota| {
        let conditions = quota.status.as_ref().and_then(|it| it.conditions.clone()).unwrap_or_default();
        let problems =
            conditions.into_iter().filter(|it| (it.type_ == ENFORCED) != (it.status == STATUS_TRUE));
        problems.map(|it| problem(&full_name(quota), &it)).collect::<Vec<_>>()
    };
    let problems: Vec<Finding> = quotas.iter().flat_map(shown).collect();
    if problems.is_empty() && !quotas.is_empty() {
        return vec![Finding::ok(SUBJECT, "the controller reports that all are enforced")];
    }
    problems
}

fn problem(name: &str, condition: &Condition) -> Finding {
    let Condition { type_, reason, message, .. } = condition;
    let subject = format!("hierarchical quota {name}");
    let message = printable(message);
    if type_ == EXCEEDED {
        return Finding::note(subject, format!("it is exceeded; only more usage is refused: {message}"));
    }
    let text = format!("{} ({reason}): {message}", quotas::not_enforced(reason));
    if reason == NOT_IN_FORCE_YET {
        return Finding::note(subject, text);
    }
    Finding::wrong(subject, text, "docs/quotas.md, \"If a quota does not limit\", says what to do.")
}

fn without_effect(names: &[String]) -> Option<Finding> {
    let exist = if names.len() == 1 { "exists" } else { "exist" };
    let text = || format!("{} {exist}: {}; {}", names.len(), some(names), quotas::DISABLED);
    (!names.is_empty()).then(|| Finding::note(SUBJECT, text()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Level;
    use super::*;

    #[test]
    fn quotas_that_are_not_enforced_are_found() {
        let quota = |conditions: &[(&str, &str, &str)]| {
            let conditions: Vec<_> = conditions
                .iter()
                .map(|(type_, status, reason)| {
                    json!({
                        "type": type_, "status": status, "reason": reason, "message": "m",
                        "lastTransitionTime": "2026-01-01T00:00:00Z",
                    })
                })
                .collect();
            let quota: HierarchicalResourceQuota = serde_json::from_value(json!({
                "metadata": { "name": "team", "namespace": "acme" }, "spec": {}, "status": { "conditions": conditions },
            }))
            .unwrap();
            let found = enforced(&[quota]);
            found.into_iter().map(|it| (it.level, it.text)).collect::<Vec<_>>()
        };
        let level = |conditions: &[(&str, &str, &str)]| quota(conditions)[0].0;
        let holds = ("Enforced", "True", "LimitsInForce");
        assert_eq!(level(&[holds, ("Exceeded", "False", "WithinLimits")]), Level::Ok);
        assert_eq!(level(&[holds, ("Exceeded", "True", "AboveLimits")]), Level::Note);
        assert_eq!(level(&[("Enforced", "False", "LimitsNotInForce")]), Level::Note);
        let wrong = quota(&[("Enforced", "False", "LimitsNotCounted")]);
        assert_eq!(wrong, [(Level::Wrong, "not all limits are enforced (LimitsNotCounted): m".to_owned())]);
        assert!(enforced(&[]).is_empty());
    }

    #[test]
    fn quotas_without_an_effect_are_noted() {
        assert_eq!(without_effect(&[]), None);
        for (names, wanted) in
            [(&["acme/team"][..], "1 exists: acme/team; "), (&["a/b", "a/c"], "2 exist: a/b, a/c; ")]
        {
            let names: Vec<String> = names.iter().map(|it| (*it).to_owned()).collect();
            let found = without_effect(&names).unwrap();
            assert_eq!(found.level, Level::Note);
            assert!(
                found.text.starts_with(&format!("{wanted}hierarchical quotas are disabled")),
                "{found:?}"
            );
        }
    }
}
