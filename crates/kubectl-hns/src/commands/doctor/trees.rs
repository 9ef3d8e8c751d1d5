//! Checks the hierarchy: conditions, cycles, missing parents and copies.

use std::collections::{BTreeMap, BTreeSet};

use forest::{Name, Settings};
use hns_api::conditions::{self, activities_halted};
use k8s_openapi::api::core::v1::Namespace;

use super::remedies::{adoption, for_all, former_ancestor, holding_parent, is_about_values, remedy, way_out};
use super::{Finding, Level, anchors, copies, labels, some};
use crate::Failure;
use crate::lines::{count, printable};
use crate::published;
use crate::session::Session;
use crate::structure::{self, Extent, Structure};

/// Runs these checks. For a user who may not list namespaces, around the namespace of `-n`, or not at all.
pub(super) async fn check(session: &Session) -> Vec<Finding> {
    let own = [session.namespace.clone()];
    let extent = if session.names_namespace { Extent::Around(&own) } else { Extent::Below(&[]) };
    let (settings, _) = Box::pin(published::settings(session)).await;
    let mut structure = match structure::read(session, extent).await {
        Ok(structure) if structure.is_whole => structure,
        Ok(structure) if session.names_namespace => return partial(&structure, &settings),
        Ok(_) => {
            let unlisted = structure::lists(session).await.ok().and_then(Result::err);
            let text = format!(
                "you may not list {}, so trees were not checked; with -n, the tree around a namespace of yours is",
                unlisted.unwrap_or("namespaces and hierarchyconfigurations")
            );
            return vec![Finding::note("trees", text)];
        }
        Err(failure) => return vec![unread(session, &failure).await],
    };
    let of_anchors = match structure::add_anchors(session, &mut structure).await {
        Ok(true) => Ok(anchors::check(&structure, &settings)),
        Ok(false) => Err(Finding::note("anchors", "you may not list them, so they were not checked")),
        Err(failure) => Err(Finding::note("anchors", failure.clause())),
    };
    let mut findings = check_structure(&structure, &settings, of_anchors.is_ok());
    findings.extend(of_anchors.unwrap_or_else(|note| vec![note]));
    findings.extend(labels::check(session, &structure, &settings).await);
    if is_fine(&findings) {
        findings.push(fine(&structure, structure.namespaces.keys(), &settings));
    }
    findings.extend(copies::check(session, structure, &settings).await);
    findings
}

/// The trees cannot be read.
async fn unread(session: &Session, failure: &Failure) -> Finding {
    let name = &session.namespace;
    let found = session.call(session.all::<Namespace>().get_metadata_opt(name)).await;
    let (text, hint) = if session.names_namespace && matches!(found, Ok(None)) {
        (format!("there is no namespace {name} (-n)").into(), "`kubectl hns tree -A` shows all namespaces.")
    } else {
        let hint = failure.hint.as_deref().unwrap_or("Check the health of the API server.");
        (failure.clause(), hint)
    };
    Finding::wrong("trees", text, hint)
}

/// The subject of namespaces whose parent does not exist.
const MISSING_PARENT: &str = "missing parent";

/// Whether nothing is found, except namespaces without their parent that are being deleted.
fn is_fine(findings: &[Finding]) -> bool {
    findings.iter().all(|it| it.level == Level::Note && it.subject == MISSING_PARENT)
}

fn fine<'a>(structure: &Structure, names: impl Iterator<Item = &'a Name>, settings: &Settings) -> Finding {
    let (mut managed, excluded): (Vec<&Name>, Vec<&Name>) = names.partition(|it| settings.is_managed(it));
    // Those below a namespace that is being deleted without its parent are halted.
    managed.retain(|name| structure.conditions(name).is_empty());
    let (managed, excluded) = (managed.len(), excluded.len());
    let others = match excluded {
        0 => String::new(),
        1 => "; 1 is excluded".to_owned(),
        _ => format!("; {excluded} are excluded"),
    };
    Finding::ok("trees", format!("{} without conditions{others}", count(managed, "namespace")))
}

/// What is said of copies to a user who may not list all namespaces.
const NOT_CHECKED: &str = "not checked, which needs the rights to list all namespaces and hierarchyconfigurations; `kubectl hns explain KIND/NAME -n \
                           NAMESPACE` shows whether a copy is as it should be";

/// What the user may read around a namespace, without copies.
fn partial(structure: &Structure, settings: &Settings) -> Vec<Finding> {
    let mut findings = check_structure(structure, settings, true);
    findings.extend(anchors::check(structure, settings));
    let read = || structure.hierarchies.keys().filter(|name| !structure.hidden.contains(*name));
    let is_read = read().next().is_some();
    if is_fine(&findings) && is_read {
        findings.push(fine(structure, read(), settings));
    }
    if !is_read {
        findings.push(Finding::note(
            "trees",
            "not checked: you may not read the hierarchy of any of these namespaces",
        ));
    }
    findings.extend(structure.notes.iter().map(|note| Finding::note("trees", note)));
    findings.push(Finding::note("copies", NOT_CHECKED));
    findings
}

/// What the advice for a namespace without its parent depends on: the parent, whether it is a subnamespace, and the nearest ancestor
/// that is there.
type Orphaned<'a> = (Name, bool, Option<&'a str>);

/// Cycles and missing parents of the configured hierarchy, and the conditions that the controller reports, except about anchors if
/// these are checked as well. What is said of excluded namespaces has no effect.
fn check_structure(structure: &Structure, settings: &Settings, checks_anchors: bool) -> Vec<Finding> {
    let forest = structure.forest();
    let mut findings = Vec::new();
    let mut cycles = BTreeSet::new();
    // The advice for one must hold for all.
    let mut orphans: BTreeMap<Orphaned<'_>, Vec<String>> = BTreeMap::new();
    let mut leaving: BTreeMap<&Name, Vec<String>> = BTreeMap::new();
    for (name, namespace) in structure.namespaces.iter().filter(|(name, _)| settings.is_managed(name)) {
        if let Some(cycle) = forest.cycle(name) {
            cycles.insert(cycle);
        // That a parent is excluded is said with its condition.
        } else if let Some(parent) =
            forest.parent(name).filter(|parent| !forest.exists(parent) && settings.is_managed(parent))
        {
            if namespace.terminating {
                leaving.entry(parent).or_default().push(name.to_string());
                continue;
            }
            let ancestor = former_ancestor(structure, parent, name);
            orphans
                .entry((parent.clone(), structure.is_subnamespace(name), ancestor))
                .or_default()
                .push(name.to_string());
        }
    }
    for cycle in cycles {
        let hint = way_out(structure, &cycle);
        let members: Vec<&str> = cycle.iter().map(|it| &**it).collect();
        findings.push(Finding::wrong("cycle", members.join(" <- "), hint));
    }
    for ((parent, ..), orphans) in orphans {
        let hint = for_all(&adoption(structure, &parent, &orphans[0]), &orphans);
        let text = format!("{parent} does not exist; it is the parent of {}", some(&orphans));
        findings.push(Finding::wrong(MISSING_PARENT, text, hint));
    }
    findings.extend(leaving.into_iter().map(|(parent, names)| gone_first(parent, &names)));
    findings.extend(reported(structure, settings, checks_anchors));
    findings
}

/// A parent that may have been deleted before these children: they need no other one, and `move` and `set` refuse them.
fn gone_first(parent: &str, names: &[String]) -> Finding {
    let are = if names.len() == 1 { "is" } else { "are" };
    let text =
        format!("{parent} does not exist; it is the parent of {}, which {are} being deleted", some(names));
    let hint = format!("`kubectl hns describe {}` shows what the deletion waits for.", names[0]);
    Finding { hint: Some(for_all(&hint, names)), ..Finding::note(MISSING_PARENT, text) }
}

/// The reasons that the checks above report already.
const SEEN: [&str; 3] = [
    activities_halted::IN_CYCLE,
    activities_halted::PARENT_MISSING,
    // Descendants of a halted namespace recover with it.
    activities_halted::ANCESTOR_HALT_ACTIVITIES,
];

fn reported(structure: &Structure, settings: &Settings, checks_anchors: bool) -> Vec<Finding> {
    let is_seen = |reason: &str| {
        let is_about_anchors = reason == conditions::bad_namespace::SUBNAMESPACE_ANCHOR_MISSING;
        // The fault may be in an ancestor that the user may not read.
        let is_unread = reason != activities_halted::PARENT_MISSING && !structure.hidden.is_empty();
        (SEEN.contains(&reason) && !is_unread) || (checks_anchors && is_about_anchors)
    };
    let mut shown: BTreeMap<(String, String, bool), Vec<String>> = BTreeMap::new();
    for name in structure.hierarchies.keys().filter(|name| settings.is_managed(name)) {
        for condition in structure.conditions(name).iter().filter(|it| !is_seen(&it.reason)) {
            let kind = format!("{} ({})", condition.type_, condition.reason);
            let message = printable(&condition.message).into_owned();
            // The advice for one must hold for all.
            let is_apart = if is_about_values(&condition.reason) {
                holding_parent(structure, name, checks_anchors).is_some()
            } else {
                *condition.reason == *activities_halted::ILLEGAL_PARENT && structure.is_subnamespace(name)
            };
            shown.entry((kind, message, is_apart)).or_default().push(name.to_string());
        }
    }
    let finding = |((kind, message, _), names): ((String, String, bool), Vec<String>)| {
        let reason = kind.rsplit_once('(').map_or("", |(_, it)| it.trim_end_matches(')'));
        let hint = remedy((reason, &message), &names[0], (structure, checks_anchors));
        let hint = for_all(&hint, &names);
        Finding::wrong(format!("condition {kind}"), format!("{}: {message}", some(&names)), hint)
    };
    shown.into_iter().map(finding).collect()
}

#[cfg(test)]
mod tests {
    use forest::AnchorFact;

    use super::super::remedies::holder;
    use super::super::tests::texts;
    use super::*;
    use crate::structure::settings;
    use crate::structure::tests::sketch;

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
            texts(&check_structure(&structure, &settings(), true)),
            [
                "cycle: x <- y <- x",
                "missing parent: gone does not exist; it is the parent of o",
                "condition BadConfiguration (IllegalManagedLabel): a, b: x/y",
            ]
        );
        assert_eq!(
            check_structure(&structure, &settings(), false).len(),
            4,
            "no check of anchors reports the missing one"
        );
        assert_eq!(check_structure(&sketch(&["a", "b < a"]), &settings(), true), []);
        // `set` refuses subnamespaces, and no anchor can be in a namespace that does not exist.
        let lost = sketch(&["[s] sub < gone"]);
        assert!(
            format!("{:?}", check_structure(&lost, &settings(), true))
                .contains("kubectl hns move sub --to PARENT`.")
        );
        assert_eq!(anchors::check(&lost, &settings()), []);
    }

    #[test]
    fn a_namespace_that_is_being_deleted_may_lose_its_parent_first() {
        let lines = [
            "[s] s < gone",
            "x < gone",
            "y < gone",
            "kid < s ! ActivitiesHalted (AncestorHaltActivities): s",
        ];
        let noted = |names: &str| {
            format!("missing parent: gone does not exist; it is the parent of {names} being deleted")
        };
        let wrong = |names: &str| format!("missing parent: gone does not exist; it is the parent of {names}");
        let checked = "trees: 1 namespace without conditions".to_owned();
        let unread = format!("copies: {NOT_CHECKED}");
        for (lines, terminating, wanted) in [
            (&lines[..3], &["s"][..], vec![wrong("x, y"), noted("s, which is")]),
            (&lines[..3], &["x"], vec![wrong("y"), wrong("s"), noted("x, which is")]),
            (
                &lines[..2],
                &["s", "x"],
                vec![noted("s, x, which are"), "trees: 2 namespaces without conditions".into()],
            ),
            (&lines[..1], &["s"], vec![noted("s, which is"), checked.clone()]),
            // Descendants are halted until the namespace is gone.
            (&[lines[0], lines[3]], &["s"], vec![noted("s, which is"), checked]),
        ] {
            let mut structure = sketch(lines);
            for name in terminating {
                structure.namespaces.get_mut(*name).unwrap().terminating = true;
            }
            let found = partial(&structure, &settings());
            let wanted: Vec<String> = wanted.into_iter().chain([unread.clone()]).collect();
            assert_eq!(texts(&found), wanted);
            let noted = found.iter().find(|it| it.text.contains("which")).unwrap();
            assert_eq!(noted.level, Level::Note);
            let hint = noted.hint.as_ref().unwrap();
            assert!(hint.starts_with(&format!("`kubectl hns describe {}`", terminating[0])), "{hint}");
        }
    }

    /// A user who may read neither the missing namespace nor those above it.
    #[test]
    fn a_fault_above_what_a_user_may_read_is_reported() {
        let mut structure = sketch(&["o < gone ! ActivitiesHalted (ParentMissing): gone"]);
        let marks = [("gone.tree.hnc.x-k8s.io/depth", "1"), ("a.tree.hnc.x-k8s.io/depth", "2")];
        structure.namespaces.get_mut("o").unwrap().labels = marks.into_iter().collect();
        let found = partial(&structure, &settings());
        assert_eq!(found[0].text, "gone does not exist; it is the parent of o");
        assert!(found[0].hint.as_ref().unwrap().contains("`kubectl hns set o --parent a` leaves it there"));

        let mut structure = sketch(&["p ! ActivitiesHalted (AncestorHaltActivities): o is halted"]);
        structure.hidden.insert("o".into());
        let found = partial(&structure, &settings());
        assert_eq!(found[0].text, "p: o is halted");
    }

    #[test]
    fn only_what_was_read_is_called_checked() {
        let mut structure = sketch(&["a", "b < a"]);
        structure.hidden.insert("a".into());
        let b = fine(&structure, [Name::from("b")].iter(), &settings());
        assert_eq!(partial(&structure, &settings())[0], b);
        structure.hidden.insert("b".into());
        let found = partial(&structure, &settings());
        assert!(found.iter().all(|it| it.level == Level::Note), "{found:?}");
        assert!(found[0].text.starts_with("not checked"), "{found:?}");
        assert_eq!(found.last(), Some(&Finding::note("copies", NOT_CHECKED)), "as for an administrator");
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
                SEEN.contains(&reason)
                    || !remedy((reason, ""), "n", (&Structure::default(), true))
                        .contains("shows all conditions"),
                "{reason} has no remedy"
            );
            known += 1;
        }
        assert!(known >= 12, "{known}");
        let finding =
            reported(&sketch(&["a ! BadConfiguration (IllegalManagedLabel): x/y"]), &settings(), true)
                .remove(0);
        let hint = finding.hint.unwrap();
        assert!(
            hint.starts_with("Remove the key from the HierarchyConfiguration of a, or declare it as managed"),
            "{hint}"
        );
    }

    #[test]
    fn the_object_that_sets_a_value_exists() {
        let mut structure = sketch(&["a", "[s] b < a", "[s] c < a", "[s] d < gone"]);
        structure.anchors = vec![("a".into(), AnchorFact { name: "b".into(), ..AnchorFact::default() })];
        for (name, knows_anchors, wanted) in [
            ("b", true, "the anchor b in a"),
            ("c", true, "the HierarchyConfiguration of c"),
            ("c", false, "the anchor c in a"),
            ("d", false, "the HierarchyConfiguration of d"),
            ("a", true, "the HierarchyConfiguration of a"),
        ] {
            assert_eq!(holder(&structure, name, knows_anchors), wanted);
        }
        let shown = "! BadConfiguration (IllegalManagedLabel): x/y";
        let lines = ["a".to_owned(), format!("[s] b < a {shown}"), format!("[s] c < a {shown}")];
        let lines: Vec<&str> = lines.iter().map(|it| &**it).collect();
        structure.hierarchies = sketch(&lines).hierarchies;
        let texts = texts(&reported(&structure, &settings(), true));
        let subject = "condition BadConfiguration (IllegalManagedLabel): ";
        assert_eq!(texts, [format!("{subject}c: x/y"), format!("{subject}b: x/y")], "only b has an anchor");
    }

    #[test]
    fn advice_for_one_namespace_of_several_names_the_others() {
        let hints = |lines: &[&str]| {
            let findings = check_structure(&sketch(lines), &settings(), true);
            findings.into_iter().filter_map(|it| it.hint).collect::<Vec<_>>()
        };
        let overridden = "BadConfiguration (OverriddenByAncestor): x/y";
        let lines = ["b", "c", "d"].map(|name| format!("{name} ! {overridden}"));
        for (lines, end) in [
            (&[&*lines[0]][..], "change theirs."),
            (&[&*lines[0], &*lines[1], &*lines[2]], " change theirs. The same applies to c, d."),
            (&["x < gone", "y < gone"], "--parent PARENT`, or --root. The same applies to y."),
            (
                &["e", "x < e ! A (IllegalParent): e", "y < e ! A (IllegalParent): e"],
                "one in the settings. The same applies to y.",
            ),
            (&["b ! A (QuotaNotInForce): q", "c ! A (QuotaNotInForce): q"], "stop propagating the quota."),
        ] {
            let hints = hints(lines);
            assert!(hints.len() == 1 && hints[0].ends_with(end), "{hints:?}");
        }
        // `set` refuses subnamespaces.
        for lines in [
            &["x < gone", "[s] y < gone"][..],
            &["e", "x < e ! A (IllegalParent): e", "[s] y < e ! A (IllegalParent): e"],
        ] {
            let hints = hints(lines);
            assert!(hints.len() == 2 && !hints.concat().contains("The same applies"), "{hints:?}");
        }
    }

    #[test]
    fn a_subnamespace_is_moved_and_a_full_namespace_is_set() {
        let found =
            |lines: &[&str]| check_structure(&sketch(lines), &settings(), true).remove(0).hint.unwrap();
        let move_ = "kubectl hns move s --to PARENT";
        assert!(found(&["x", "[s] s < x ! ActivitiesHalted (IllegalParent): x"]).contains(move_));
        let cycle = found(&["[s] s < n", "n < s"]);
        assert!(cycle.starts_with("Make n a root (`kubectl hns set n --root`), or a child"), "{cycle}");
        let cycle = found(&["[s] s < t", "[s] t < s"]);
        assert!(cycle.starts_with("Give one of them a parent outside") && cycle.contains(move_), "{cycle}");
    }

    #[test]
    fn excluded_namespaces_have_no_faults() {
        let settings = Settings::new("hnc-system", ["out"], ".*").unwrap();
        let mut structure =
            sketch(&["a", "out < gone ! BadConfiguration (IllegalManagedLabel): x/y", "[s] lone < out"]);
        let anchor = AnchorFact { name: "x".into(), state: Some("Missing".into()), ..AnchorFact::default() };
        structure.anchors = vec![("out".into(), anchor)];
        assert_eq!(check_structure(&structure, &settings, false), []);
        assert_eq!(anchors::check(&structure, &settings), []);
        let text = |names: &[&str]| {
            let names: Vec<Name> = names.iter().map(|it| Name::from(*it)).collect();
            fine(&Structure::default(), names.iter(), &settings).text
        };
        assert_eq!(text(&["a", "b", "out"]), "2 namespaces without conditions; 1 is excluded");
        assert_eq!(text(&["a"]), "1 namespace without conditions");
    }
}
