//! Checks that anchors and subnamespaces belong together.

use forest::{AnchorFact, Name, Settings};
use hns_api::{anchor_states, annotations};

use super::Finding;
use crate::accurate_trees::is_labelled;
use crate::lines::printable;
use crate::structure::Structure;

/// What to do about a namespace that is to be created.
pub(super) const NOT_CREATED: &str = "The controller has not created the namespace: its log says why, for example because a policy refused it. \
                                      See also the lease above.";

/// What to do about a namespace that is to be deleted.
pub(super) const NOT_DELETED: &str = "The controller has not deleted the namespace: its log says why, for example because a policy refused it. \
                                      See also the lease above.";

pub(super) fn check(structure: &Structure, settings: &Settings) -> Vec<Finding> {
    let managed = || structure.anchors.iter().filter(|(parent, _)| settings.is_managed(parent));
    let (leaving, others): (Vec<_>, Vec<_>) = managed().partition(|it| leaves_its_namespace(structure, it));
    let mut findings: Vec<Finding> = leaving.into_iter().map(undeleted).collect();
    let is_ok = |anchor: &AnchorFact| anchor.state.as_deref() == Some(anchor_states::OK);
    for (parent, anchor) in others.into_iter().filter(|(_, anchor)| !is_ok(anchor)) {
        let (name, state) = (&anchor.name, anchor.state.as_deref().unwrap_or_default());
        let hint = match state {
            anchor_states::CONFLICT if !structure.namespaces.contains_key(name) => format!(
                "The namespace {name} belonged to another anchor or parent, or was named as a missing parent when this anchor was created, \
                 or the anchor was created with this status. `kubectl delete subns {name} -n {parent}` removes the anchor; then \
                 create it again, without `status`."
            ),
            anchor_states::CONFLICT => {
                let hierarchy = structure.hierarchies.get(name);
                let is_child = hierarchy.is_some_and(|it| it.parent.as_ref() == Some(parent));
                let convert = if is_child && !structure.is_subnamespace(name) {
                    format!(" `kubectl hns convert {name} --to sub` makes it, a child of {parent}, the subnamespace.")
                } else {
                    String::new()
                };
                format!(
                    "The namespace {name} does not belong to this anchor. `kubectl delete subns {name} -n {parent}` removes the anchor and \
                     keeps the namespace.{convert} If a move was interrupted, run the same command again."
                )
            }
            anchor_states::FORBIDDEN => match settings.unmanaged(name) {
                Some(why) => format!(
                    "The namespace {name} {why}. If it is a subnamespace, include it again; otherwise \
                     `kubectl delete subns {name} -n {parent}` removes the anchor, and keeps an existing namespace."
                ),
                None => format!(
                    "The subnamespace was beyond a limit of spec.trees when the anchor was created (`kubectl hns config describe` shows \
                     the limits), or the settings excluded its name. If they allow it and the anchor is still Forbidden, delete the anchor \
                     (`kubectl delete subns {name} -n {parent}`) and create it again."
                ),
            },
            "" if structure.namespaces.contains_key(name) => {
                "The namespace exists; the controller has not written the state of the anchor: see its log, and the lease above.".to_owned()
            }
            _ => format!("{NOT_CREATED} `kubectl delete subns {name} -n {parent}` removes the anchor."),
        };
        let is = if state.is_empty() {
            "has no state yet".into()
        } else {
            format!("is in state {}", printable(state))
        };
        findings.push(Finding::wrong("anchor", format!("{name} in {parent} {is}"), hint));
    }
    let forest = structure.forest();
    let is_in_accurate = |it: &Name| {
        let found = structure.namespaces.get(it).filter(|_| settings.is_managed(it));
        found.is_some_and(|it| is_labelled(|key| it.labels.get(key)))
    };
    for (name, namespace) in &structure.namespaces {
        let of = namespace.annotations.get(annotations::SUBNAMESPACE_OF).filter(|it| !it.is_empty());
        // Where the parent is missing, there is another finding.
        if let Some(parent) = of
            && structure.namespaces.contains_key(parent)
            && settings.is_managed(name)
            && settings.is_managed(parent)
            // It goes, whatever becomes of its anchor.
            && !namespace.terminating
            && !has_anchor(structure, parent, name)
        {
            let again = format!(
                "`kubectl hns move {name} --to {parent}` creates the anchor again, with the labels and annotations of {name}"
            );
            // There, an anchor is refused.
            let hint = if structure.namespaces[parent].terminating {
                format!(
                    "{parent} is being deleted. `kubectl hns move {name} --to PARENT` gives {name} another parent; \
                     `kubectl hns convert {name} --to full` makes it a full namespace."
                )
            } else if let Some(halted) = forest.ancestry(parent).into_iter().find(is_in_accurate) {
                // A conversion goes from the leaves to the root, and creates the anchors afterwards.
                format!(
                    "If `kubectl hns convert ROOT --to hnc` was interrupted, run it again. Otherwise, remove the labels \
                     accurate.cybozu.com/… of {halted}; then {again}."
                )
            } else {
                format!(
                    "{again}, also after an interrupted move; `kubectl hns convert {name} --to full` does without."
                )
            };
            let text = format!("{name} is a subnamespace of {parent}, where it has no anchor");
            findings.push(Finding::wrong("anchor", text, hint));
        }
    }
    findings
}

/// Whether the anchor is being deleted, and its subnamespace is not.
fn leaves_its_namespace(structure: &Structure, (parent, anchor): &(Name, AnchorFact)) -> bool {
    anchor.terminating
        && structure.namespaces.get(&anchor.name).is_some_and(|it| {
            !it.terminating && it.annotations.get(annotations::SUBNAMESPACE_OF) == Some(&**parent)
        })
}

fn undeleted((parent, AnchorFact { name, .. }): &(Name, AnchorFact)) -> Finding {
    let hint = format!(
        "{NOT_DELETED} If {name} is to stay, `kubectl hns convert {name} --to full` makes it a full namespace."
    );
    Finding::wrong("anchor", format!("{name} in {parent} is being deleted, but its namespace stays"), hint)
}

pub(super) fn has_anchor(structure: &Structure, parent: &str, name: &str) -> bool {
    structure.anchors.iter().any(|(namespace, anchor)| **namespace == *parent && *anchor.name == *name)
}

#[cfg(test)]
mod tests {
    use hns_api::accurate::labels::{PARENT, TYPE};

    use super::super::tests::texts;
    use super::*;
    use crate::structure::settings;
    use crate::structure::tests::sketch;

    #[test]
    fn anchors_and_subnamespaces_must_match() {
        let mut structure = sketch(&["a", "[s] lost < a", "[s] well < a"]);
        let anchor = |name: &str, state: &str| {
            ("a".into(), AnchorFact { name: name.into(), state: Some(state.into()), ..AnchorFact::default() })
        };
        structure.anchors = vec![anchor("well", "Ok"), anchor("taken", "Conflict")];
        assert_eq!(
            texts(&check(&structure, &settings())),
            [
                "anchor: taken in a is in state Conflict",
                "anchor: lost is a subnamespace of a, where it has no anchor",
            ]
        );
    }

    #[test]
    fn in_a_namespace_of_accurates_hierarchy_no_anchor_is_created() {
        for (label, wanted) in [
            (
                (PARENT, "r"),
                "If `kubectl hns convert ROOT --to hnc` was interrupted, run it again. Otherwise, ",
            ),
            (
                (TYPE, "root"),
                "If `kubectl hns convert ROOT --to hnc` was interrupted, run it again. Otherwise, ",
            ),
            ((PARENT, ""), "`kubectl hns move lost --to a` creates the anchor again, "),
        ] {
            let mut structure = sketch(&["a", "[s] lost < a"]);
            structure.namespaces.get_mut("a").unwrap().labels = [label].into_iter().collect();
            let hint = check(&structure, &settings()).remove(0).hint.unwrap();
            assert!(hint.starts_with(wanted), "{label:?}: {hint}");
        }
        let settings = Settings::new("home", ["out"], ".*").unwrap();
        for (top, wanted) in [
            (
                "a",
                "run it again. Otherwise, remove the labels accurate.cybozu.com/… of a; then `kubectl hns move lost --to b`",
            ),
            ("out", "`kubectl hns convert lost --to full` does without"),
        ] {
            let mut structure = sketch(&[top, &format!("b < {top}"), "[s] lost < b"]);
            structure.namespaces.get_mut(top).unwrap().labels = [(PARENT, "r")].into_iter().collect();
            let hint = check(&structure, &settings).remove(0).hint.unwrap();
            assert!(hint.contains(wanted), "{top}: {hint}");
        }
    }

    #[test]
    fn in_a_namespace_that_is_being_deleted_no_anchor_is_created() {
        let mut structure = sketch(&["a", "[s] lost < a"]);
        structure.namespaces.get_mut("a").unwrap().terminating = true;
        let hint = check(&structure, &settings()).remove(0).hint.unwrap();
        assert!(hint.starts_with("a is being deleted. `kubectl hns move lost --to PARENT` gives"), "{hint}");
    }

    #[test]
    fn a_forbidden_anchor_has_a_name_that_is_excluded_or_is_beyond_a_limit() {
        let settings = Settings::new("hnc-system", ["out"], ".*").unwrap();
        let mut structure = sketch(&["a"]);
        for (name, wanted) in [
            (
                "out",
                "is excluded by excludedNamespaces in the settings of hns. If it is a subnamespace, include it again",
            ),
            ("more", "beyond a limit of spec.trees"),
            ("more", "`kubectl delete subns more -n a`) and create it again"),
        ] {
            let state = Some(anchor_states::FORBIDDEN.into());
            structure.anchors =
                vec![("a".into(), AnchorFact { name: name.into(), state, ..AnchorFact::default() })];
            let hint = check(&structure, &settings).remove(0).hint.unwrap();
            assert!(hint.contains(wanted), "{name}: {hint}");
        }
    }

    #[test]
    fn a_child_of_its_parent_alone_can_be_converted() {
        for (namespace, wanted) in
            [("taken < a", true), ("[s] taken < b", false), ("taken < b", false), ("taken", false)]
        {
            let mut structure = sketch(&["a", "b", namespace]);
            let state = Some(anchor_states::CONFLICT.into());
            structure.anchors =
                vec![("a".into(), AnchorFact { name: "taken".into(), state, ..AnchorFact::default() })];
            let hints: Vec<_> = check(&structure, &settings()).into_iter().filter_map(|it| it.hint).collect();
            assert_eq!(hints[0].contains("convert taken --to sub"), wanted, "{namespace}: {hints:?}");
        }
    }

    #[test]
    fn an_anchor_that_is_being_deleted_takes_its_namespace_with_it() {
        for (namespace, is_going, wanted) in [
            ("[s] n < a", false, &["anchor: n in a is being deleted, but its namespace stays"][..]),
            ("[s] n < a", true, &[]),
            ("n < a", false, &[]),
            ("other", false, &[]),
        ] {
            let mut structure = sketch(&["a", namespace]);
            structure.namespaces.values_mut().for_each(|it| it.terminating = is_going);
            let state = Some(anchor_states::OK.into());
            let anchor = AnchorFact { name: "n".into(), state, terminating: true, ..AnchorFact::default() };
            structure.anchors = vec![("a".into(), anchor)];
            assert_eq!(texts(&check(&structure, &settings())), wanted, "{namespace} {is_going}");
        }
    }

    #[test]
    fn an_anchor_without_a_state_may_have_its_namespace() {
        let mut structure = sketch(&["a", "[s] made < a"]);
        structure.anchors = ["made", "new"]
            .map(|name| ("a".into(), AnchorFact { name: name.into(), ..AnchorFact::default() }))
            .into();
        let hints: Vec<String> =
            check(&structure, &settings()).into_iter().filter_map(|it| it.hint).collect();
        assert!(hints[0].starts_with("The namespace exists; "), "{hints:?}");
        assert!(hints[1].starts_with("The controller has not created the namespace"), "{hints:?}");
    }
}
