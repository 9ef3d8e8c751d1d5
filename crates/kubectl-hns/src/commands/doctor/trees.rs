//! Checks the hierarchy: conditions, cycles, missing parents, anchors and copies.

use std::collections::{BTreeMap, BTreeSet};

use forest::{AnchorFact, Name};
use hns_api::{anchor_states, annotations, conditions};

use super::{Finding, some};
use crate::copies::{Objects, Wrong};
use crate::lines::printable;
use crate::session::Session;
use crate::structure::{self, Extent, Structure};

/// Runs these checks. If the user may not list namespaces, only a note is returned.
pub(super) async fn check(session: &Session) -> Vec<Finding> {
    let mut structure = match structure::read(session, Extent::Below(&[])).await {
        Ok(structure) if structure.notes.is_empty() => structure,
        Ok(_) => {
            let text = "you may not list namespaces and hierarchyconfigurations, so trees were not checked";
            return vec![Finding::note("trees", text)];
        }
        Err(failure) => {
            let hint = failure.hint.unwrap_or_else(|| "Check the health of the API server.".into());
            return vec![Finding::wrong("trees", failure.text, hint)];
        }
    };
    let of_anchors = match structure::add_anchors(session, &mut structure).await {
        Ok(true) => Ok(anchors(&structure)),
        Ok(false) => Err(Finding::note("anchors", "you may not list them, so they were not checked")),
        Err(failure) => Err(Finding::note("anchors", failure.text)),
    };
    let mut findings = check_structure(&structure, of_anchors.is_ok());
    findings.extend(of_anchors.unwrap_or_else(|note| vec![note]));
    if findings.is_empty() {
        let text = format!("{} namespaces, none with a condition", structure.namespaces.len());
        findings.push(Finding::ok("trees", text));
    }
    let everywhere: BTreeSet<Name> = structure.namespaces.keys().cloned().collect();
    findings.extend(match Objects::read(session, structure).await {
        Ok(objects) => {
            let mut findings = vec![copies(&objects.wrong(&everywhere), objects.copies(&everywhere))];
            findings.extend(objects.notes().iter().map(|note| Finding::note("copies", note)));
            findings
        }
        Err(failure) => vec![Finding::note("copies", failure.text)],
    });
    findings
}

/// Cycles and missing parents of the configured hierarchy, and the conditions that the controller reports, except about anchors if
/// these are checked as well.
fn check_structure(structure: &Structure, checks_anchors: bool) -> Vec<Finding> {
    let forest = structure.forest();
    let mut findings = Vec::new();
    let mut cycles = BTreeSet::new();
    let mut orphans: BTreeMap<Name, Vec<String>> = BTreeMap::new();
    for name in structure.namespaces.keys() {
        if let Some(cycle) = forest.cycle(name) {
            cycles.insert(cycle.iter().map(ToString::to_string).collect::<Vec<_>>().join(" <- "));
        } else if let Some(parent) = forest.parent(name).filter(|parent| !forest.exists(parent)) {
            orphans.entry(parent.clone()).or_default().push(name.to_string());
        }
    }
    for cycle in cycles {
        let hint = "Make one of them a root (`kubectl hns set NAMESPACE --root`), or a child of a namespace outside the cycle (`--parent PARENT`).";
        findings.push(Finding::wrong("cycle", cycle, hint));
    }
    for (parent, orphans) in orphans {
        let orphan = &orphans[0];
        let hint = if structure.is_subnamespace(orphan) {
            format!(
                "Create namespace {parent}, or move the subnamespace: `kubectl hns move {orphan} --to PARENT`."
            )
        } else {
            format!(
                "Create namespace {parent}, or set another parent: `kubectl hns set {orphan} --parent PARENT`, or --root."
            )
        };
        let text = format!("{parent} does not exist; it is the parent of {}", some(&orphans));
        findings.push(Finding::wrong("missing parent", text, hint));
    }
    findings.extend(reported(structure, checks_anchors));
    findings
}

/// The reasons that the checks above report already.
const SEEN: [&str; 3] = [
    conditions::activities_halted::IN_CYCLE,
    conditions::activities_halted::PARENT_MISSING,
    // Descendants of a halted namespace recover with it.
    conditions::activities_halted::ANCESTOR_HALT_ACTIVITIES,
];

fn reported(structure: &Structure, checks_anchors: bool) -> Vec<Finding> {
    let is_seen = |reason: &str| {
        let is_about_anchors = reason == conditions::bad_namespace::SUBNAMESPACE_ANCHOR_MISSING;
        SEEN.contains(&reason) || (checks_anchors && is_about_anchors)
    };
    let mut shown: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for name in structure.hierarchies.keys() {
        for condition in structure.conditions(name).iter().filter(|it| !is_seen(&it.reason)) {
            let kind = format!("{} ({})", condition.type_, condition.reason);
            shown
                .entry((kind, printable(&condition.message).into_owned()))
                .or_default()
                .push(name.to_string());
        }
    }
    let finding = |((kind, message), names): ((String, String), Vec<String>)| {
        let reason = kind.rsplit_once('(').map_or("", |(_, it)| it.trim_end_matches(')'));
        let hint = remedy(reason, &names[0]);
        Finding::wrong(format!("condition {kind}"), format!("{}: {message}", some(&names)), hint)
    };
    shown.into_iter().map(finding).collect()
}

/// What to do about a condition with this reason in the namespace `name`; the table of conditions in docs/concepts.md says the same.
fn remedy(reason: &str, name: &str) -> String {
    use conditions::{activities_halted, bad_namespace};
    match reason {
        activities_halted::ILLEGAL_PARENT => {
            format!("Choose another parent: `kubectl hns set {name} --parent PARENT`; or include the excluded one in the settings; or, if it is in a hierarchy of Accurate, remove its labels accurate.cybozu.com/….")
        }
        activities_halted::DELETING_CRD => {
            "Wait until the definitions are deleted. Before you apply them again, read docs/repair.md, \"The definitions were deleted by \
             mistake\"."
                .to_owned()
        }
        "Unreadable" => format!("Correct the object that the message names: `kubectl edit hierarchyconfiguration hierarchy -n {name}`."),
        bad_namespace::SUBNAMESPACE_ANCHOR_MISSING => format!(
            "Create the anchor again: `kubectl hns create {name} -n PARENT`; or make it a full namespace: `kubectl hns convert {name} \
             --to full`."
        ),
        bad_namespace::ILLEGAL_MANAGED_LABEL | bad_namespace::ILLEGAL_MANAGED_ANNOTATION => format!(
            "Remove the key from the anchor of {name} or from its HierarchyConfiguration, or declare it as managed in the settings \
             (docs/settings.md)."
        ),
        "OverriddenByAncestor" => format!(
            "Remove the value from the anchor of {name} or from its HierarchyConfiguration, or ask an administrator of the ancestor to \
             change theirs."
        ),
        "QuotaNotInForce" => {
            "Wait. If it lasts, check that kube-controller-manager runs its resourcequota controller, or stop propagating the quota."
                .to_owned()
        }
        "CannotPropagateObject" => format!(
            "Remove what the message names, or delete the object that is in the way; `kubectl hns explain KIND/NAME -n {name}` shows \
             the reason for one object."
        ),
        _ => format!("`kubectl hns describe {name}` shows all conditions and the recent events."),
    }
}

fn anchors(structure: &Structure) -> Vec<Finding> {
    let mut findings = Vec::new();
    let not_ok = |(_, anchor): &&(Name, AnchorFact)| anchor.state.as_deref() != Some(anchor_states::OK);
    for (parent, anchor) in structure.anchors.iter().filter(not_ok) {
        let (name, state) = (&anchor.name, anchor.state.as_deref().unwrap_or_default());
        let hint = match state {
            anchor_states::CONFLICT => format!(
                "The namespace {name} does not belong to this anchor. `kubectl delete subns {name} -n {parent}` removes the anchor and keeps \
                 the namespace; `kubectl hns convert {name} --to sub` makes a child of {parent} its subnamespace. If a move was interrupted, run the same \
                 command again."
            ),
            anchor_states::FORBIDDEN => {
                format!(
                    "A namespace of that name cannot be in a tree: `kubectl delete subns {name} -n {parent}`."
                )
            }
            _ => "The controller has not created the namespace: see its log, and the lease above.".to_owned(),
        };
        let is = if state.is_empty() {
            "has no state yet".into()
        } else {
            format!("is in state {}", printable(state))
        };
        findings.push(Finding::wrong("anchor", format!("{name} in {parent} {is}"), hint));
    }
    let anchor = |parent: &str, name: &Name| {
        structure.anchors.iter().any(|(namespace, anchor)| **namespace == *parent && anchor.name == *name)
    };
    for (name, namespace) in &structure.namespaces {
        let of = namespace.annotations.get(annotations::SUBNAMESPACE_OF).filter(|it| !it.is_empty());
        // Where the parent is missing, there is another finding.
        if let Some(parent) = of
            && structure.namespaces.contains_key(parent)
            && !anchor(parent, name)
        {
            findings.push(Finding::wrong(
                "anchor",
                format!("{name} is a subnamespace of {parent}, where it has no anchor"),
                format!(
                    "If a move was interrupted, run the same command again: `kubectl hns move {name} --to {parent}`. Otherwise \
                     `kubectl hns create {name} -n {parent}` restores the anchor, or `kubectl hns convert {name} --to full` does without."
                ),
            ));
        }
    }
    findings
}

fn copies(wrong: &[Wrong], all: usize) -> Finding {
    if wrong.is_empty() {
        return Finding::ok("copies", format!("{all} copies, all in the right namespaces"));
    }
    let line = |it: &Wrong| {
        let (object, namespace) = (format!("{} {}", it.resource, printable(&it.name)), &it.namespace);
        match (&it.source, &it.why) {
            (Some(source), _) => format!("{object} of {source} is not in {namespace}"),
            (None, None) => format!("{object} should not be in {namespace}"),
            (None, Some(why)) => format!("{object} should not be in {namespace}: {why}"),
        }
    };
    let lines: Vec<String> = wrong.iter().map(line).collect();
    Finding::wrong(
        "copies",
        format!("{} are not right: {}", wrong.len(), some(&lines)),
        "The controller writes them, if it runs and may: see above. Flags that keep objects from being propagated are not \
         known here.",
    )
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;
    use crate::structure::tests::sketch;

    fn texts(findings: &[Finding]) -> Vec<String> {
        findings.iter().map(|it| format!("{}: {}", it.subject, it.text)).collect()
    }

    #[test]
    fn cycles_orphans_and_conditions_are_reported_once() {
        let structure = sketch(&[
            "a ! BadConfiguration (IllegalManagedLabel): x/y",
            "b < a ! BadConfiguration (IllegalManagedLabel): x/y; BadConfiguration (SubnamespaceAnchorMissing): a",
            "o < gone ! ActivitiesHalted (ParentMissing): gone",
            "p < o ! ActivitiesHalted (AncestorHaltActivities): o",
            "x < y",
            "y < x",
        ]);
        assert_eq!(
            texts(&check_structure(&structure, true)),
            [
                "cycle: x <- y <- x",
                "missing parent: gone does not exist; it is the parent of o",
                "condition BadConfiguration (IllegalManagedLabel): a, b: x/y",
            ]
        );
        assert_eq!(
            check_structure(&structure, false).len(),
            4,
            "no check of anchors reports the missing one"
        );
        assert_eq!(check_structure(&sketch(&["a", "b < a"]), true), []);
        // `set` refuses subnamespaces, and no anchor can be in a namespace that does not exist.
        let lost = sketch(&["[s] sub < gone"]);
        assert!(format!("{:?}", check_structure(&lost, true)).contains("kubectl hns move sub --to PARENT"));
        assert_eq!(anchors(&lost), []);
    }

    #[test]
    fn each_reason_has_a_remedy() {
        let concepts = include_str!("../../../../../docs/concepts.md");
        let rows = concepts
            .lines()
            .filter(|it| it.starts_with("| `ActivitiesHalted`") || it.starts_with("| `BadConf"));
        let mut known = 0;
        for reason in rows.flat_map(|row| row.split('|').nth(1).unwrap().split('`').skip(3).step_by(2)) {
            assert!(
                SEEN.contains(&reason) || !remedy(reason, "n").contains("shows all conditions"),
                "{reason} has no remedy"
            );
            known += 1;
        }
        assert!(known >= 12, "{known}");
        let finding = reported(&sketch(&["a ! BadConfiguration (IllegalManagedLabel): x/y"]), true).remove(0);
        assert!(finding.hint.unwrap().contains("declare it as managed"));
    }

    #[test]
    fn anchors_and_subnamespaces_must_match() {
        let mut structure = sketch(&["a", "[s] lost < a", "[s] well < a"]);
        let anchor = |name: &str, state: &str| {
            ("a".into(), AnchorFact { name: name.into(), state: Some(state.into()), ..AnchorFact::default() })
        };
        structure.anchors = vec![anchor("well", "Ok"), anchor("taken", "Conflict")];
        assert_eq!(
            texts(&anchors(&structure)),
            [
                "anchor: taken in a is in state Conflict",
                "anchor: lost is a subnamespace of a, where it has no anchor",
            ]
        );
    }

    #[test]
    fn wrong_copies_are_counted_and_the_first_ones_named() {
        let wrong = Wrong {
            namespace: "b".into(),
            resource: "roles.rbac.authorization.k8s.io".into(),
            name: "r".into(),
            source: Some("a".into()),
            why: None,
        };
        let surplus = Wrong { source: None, why: Some("no reason".into()), ..wrong.clone() };
        let finding = copies(&[wrong, surplus], 3);
        assert_eq!(finding.level, Level::Wrong);
        assert_eq!(
            finding.text,
            "2 are not right: roles.rbac.authorization.k8s.io r of a is not in b, roles.rbac.authorization.k8s.io r should \
             not be in b: no reason"
        );
        assert_eq!(copies(&[], 3), Finding::ok("copies", "3 copies, all in the right namespaces"));
    }
}
