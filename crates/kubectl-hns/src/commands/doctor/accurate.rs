//! Checks Accurate's hierarchy, where its API is enabled: labels that lead nowhere, `SubNamespaces` without a namespace, and moves
//! that were interrupted.

use std::collections::BTreeMap;

use forest::accurate::why::{Frozen, frozen};
use forest::{EdgeKind, Forest};
use hns_api::accurate::annotations::MOVED_FROM;
use hns_api::accurate::conditions::{CONFLICT, STALLED};
use hns_api::accurate::labels::PARENT;
use hns_api::accurate::{GROUP, SubNamespace};
use hns_cluster::settings::SharedSettings;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::ListParams;

use super::{Finding, some};
use crate::accurate_trees;
use crate::session::Session;

const SUBJECT: &str = "trees of Accurate";

pub(super) async fn check(session: &Session, settings: &SharedSettings) -> Vec<Finding> {
    if !settings.accurate.enabled {
        return Vec::new();
    }
    let forest = match accurate_trees::read(session, settings).await {
        Ok(forest) => forest,
        Err(failure) => return vec![Finding::note(SUBJECT, format!("not checked: {failure}"))],
    };
    let params = ListParams::default();
    let (forms_api, namespaces_api) = (session.all::<SubNamespace>(), session.all::<Namespace>());
    let (forms, namespaces) =
        futures::join!(session.list(&forms_api, &params), session.list_metadata(&namespaces_api, &params));
    let (forms, namespaces) = match (forms, namespaces) {
        (Ok(forms), Ok(namespaces)) => (forms, namespaces),
        (Err(problem), _) | (_, Err(problem)) => return vec![Finding::unread(SUBJECT, &problem)],
    };
    let mut findings = misplaced(&forest);
    findings.extend(forms.iter().filter_map(|form| stalled(form, &forest)));
    findings.extend(namespaces.iter().filter_map(|it| {
        let value = |map: &Option<BTreeMap<String, String>>, key| map.as_ref()?.get(key).cloned();
        let from = value(&it.metadata.annotations, MOVED_FROM)?;
        let name = it.metadata.name.as_deref().unwrap_or_default();
        Some(interrupted(name, &from, value(&it.metadata.labels, PARENT).as_deref()))
    }));
    if findings.is_empty() {
        findings
            .push(Finding::ok(SUBJECT, format!("{} SubNamespaces, none without its namespace", forms.len())));
    }
    findings
}

/// The namespaces that nothing reaches, by reason.
fn misplaced(forest: &Forest) -> Vec<Finding> {
    let mut reasons: BTreeMap<(String, &str), Vec<String>> = BTreeMap::new();
    for name in forest.names() {
        let Some(why) = frozen(forest, name) else { continue };
        reasons.entry(reason(&why)).or_default().push(name.to_string());
    }
    let finding = |((why, hint), names): ((String, &str), Vec<String>)| {
        Finding::wrong(SUBJECT, format!("nothing is copied to {}: {why}", some(&names)), hint)
    };
    reasons.into_iter().map(finding).collect()
}

/// Why nothing is copied to a namespace, and what to do.
fn reason(why: &Frozen) -> (String, &'static str) {
    match why {
        Frozen::Crossed(name) => (
            format!("{name} is in a hierarchy of hnc.x-k8s.io, too"),
            "Remove its parent, children and anchors there, or its labels accurate.cybozu.com/….",
        ),
        Frozen::Missing(name) => (
            format!("{name}, the parent or template, does not exist"),
            "Create it; or `kubectl accurate sub cut NAMESPACE`, or `kubectl accurate template unset NAMESPACE`.",
        ),
        Frozen::NotLeading(EdgeKind::Parent, name) => (
            format!("{name}, the parent, is neither a root nor a sub-namespace"),
            "Make it one (`kubectl accurate ns set-type NAMESPACE root`), or move its children elsewhere.",
        ),
        Frozen::NotLeading(EdgeKind::Template, name) => (
            format!("{name}, the template, is neither a template nor a sub-namespace"),
            "Make it one (`kubectl accurate ns set-type NAMESPACE template`), or set another template.",
        ),
        Frozen::Cycle => (
            "they name each other as parents or templates".to_owned(),
            "Move one of them out of the cycle, or cut it: `kubectl accurate sub cut NAMESPACE`.",
        ),
    }
}

/// A `SubNamespace` without its namespace.
fn stalled(form: &SubNamespace, forest: &Forest) -> Option<Finding> {
    let mut conditions = form.status.iter().flat_map(|it| it.conditions.iter().flatten());
    let condition = conditions.find(|it| it.type_ == STALLED && it.status == "True")?;
    let text = |it: &Option<String>| it.clone().unwrap_or_default();
    let (parent, name) = (text(&form.metadata.namespace), text(&form.metadata.name));
    let delete =
        format!("`kubectl delete subnamespaces.{GROUP} {name} -n {parent}` deletes it, and no namespace");
    let hint = if condition.reason == CONFLICT {
        let owner = forest.accurate_upstream(&name).map_or("no other parent", |it| it);
        format!(
            "The namespace {name} has the parent {owner}. {delete}; `kubectl accurate sub move {name} {parent}` moves the namespace here, \
             if it is a sub-namespace."
        )
    } else {
        format!("{delete}.")
    };
    let text = format!("{} ({})", condition.message, condition.reason);
    Some(Finding::wrong(format!("SubNamespace {parent}/{name}"), text, hint))
}

/// A move or a cut that is not finished.
fn interrupted(name: &str, from: &str, parent: Option<&str>) -> Finding {
    let command = parent.map_or_else(|| format!("cut {name}"), |parent| format!("move {name} {parent}"));
    Finding::wrong(
        format!("namespace {name}"),
        format!(
            "it was moved out of {from} by a command that was interrupted, so SubNamespace {from}/{name} may be left"
        ),
        format!("Finish it: `kubectl accurate sub {command}`."),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn said(finding: &Finding) -> String {
        format!("{}: {} {}", finding.subject, finding.text, finding.hint.as_deref().unwrap_or_default())
    }

    #[test]
    fn every_reason_has_a_solution() {
        for (why, wanted) in [
            (Frozen::Missing("p".into()), "p, the parent or template, does not exist"),
            (Frozen::NotLeading(EdgeKind::Parent, "p".into()), "neither a root nor a sub-namespace"),
            (Frozen::NotLeading(EdgeKind::Template, "p".into()), "neither a template"),
            (Frozen::Crossed("p".into()), "hnc.x-k8s.io"),
            (Frozen::Cycle, "each other"),
        ] {
            let (text, hint) = reason(&why);
            assert!(text.contains(wanted) && !hint.is_empty(), "{text}");
        }
    }

    #[test]
    fn a_stalled_sub_namespace_and_an_interrupted_move_name_the_command() {
        let form = |reason: &str| -> SubNamespace {
            let condition = json!({ "type": "Stalled", "status": "True", "reason": reason, "message": "m",
                "lastTransitionTime": "2026-01-01T00:00:00Z" });
            serde_json::from_value(json!({ "metadata": { "name": "n", "namespace": "p" },
                "status": { "conditions": [condition] } }))
            .unwrap()
        };
        let forest = Forest::unconfigured(std::sync::Arc::new(crate::structure::settings()));
        let conflict = said(&stalled(&form(CONFLICT), &forest).unwrap());
        assert!(conflict.starts_with("SubNamespace p/n: m (Conflict)"), "{conflict}");
        assert!(conflict.contains("kubectl accurate sub move n p"), "{conflict}");
        let other = said(&stalled(&form("InvalidParent"), &forest).unwrap());
        assert!(other.contains("kubectl delete") && !other.contains("sub move"), "{other}");
        assert!(stalled(&SubNamespace::default(), &forest).is_none());
        assert!(said(&interrupted("n", "a", Some("b"))).ends_with("`kubectl accurate sub move n b`."));
        assert!(said(&interrupted("n", "a", None)).ends_with("`kubectl accurate sub cut n`."));
    }
}
