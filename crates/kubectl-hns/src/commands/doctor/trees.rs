//! Checks the hierarchy: conditions, cycles, missing parents, anchors and copies.

use std::collections::{BTreeMap, BTreeSet};

use forest::{AnchorFact, Name, Settings};
use hns_api::conditions::{self, activities_halted};
use hns_api::{anchor_states, annotations, labels};

use super::{Finding, some};
use crate::copies::{Objects, Wrong};
use crate::lines::printable;
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
            let text = "you may not list namespaces and hierarchyconfigurations, so trees were not checked; with -n, the tree \
                        around a namespace of yours is";
            return vec![Finding::note("trees", text)];
        }
        Err(failure) => {
            let hint = failure.hint.unwrap_or_else(|| "Check the health of the API server.".into());
            return vec![Finding::wrong("trees", failure.text, hint)];
        }
    };
    let of_anchors = match structure::add_anchors(session, &mut structure).await {
        Ok(true) => Ok(anchors(&structure, &settings)),
        Ok(false) => Err(Finding::note("anchors", "you may not list them, so they were not checked")),
        Err(failure) => Err(Finding::note("anchors", failure.text)),
    };
    let mut findings = check_structure(&structure, &settings, of_anchors.is_ok());
    findings.extend(of_anchors.unwrap_or_else(|note| vec![note]));
    if findings.is_empty() {
        findings.push(fine(structure.namespaces.len()));
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

fn fine(namespaces: usize) -> Finding {
    Finding::ok("trees", format!("{namespaces} namespaces, none with a condition"))
}

/// What the user may read around a namespace, without copies.
fn partial(structure: &Structure, settings: &Settings) -> Vec<Finding> {
    let mut findings = check_structure(structure, settings, true);
    findings.extend(anchors(structure, settings));
    let read = structure.hierarchies.keys().filter(|name| !structure.hidden.contains(*name)).count();
    if findings.is_empty() && read > 0 {
        findings.push(fine(read));
    }
    if read == 0 {
        findings.push(Finding::note(
            "trees",
            "not checked: you may not read the hierarchy of any of these namespaces",
        ));
    }
    let notes = structure.notes.iter().map(String::as_str).chain(["copies were not checked"]);
    findings.extend(notes.map(|note| Finding::note("trees", note)));
    findings
}

/// Cycles and missing parents of the configured hierarchy, and the conditions that the controller reports, except about anchors if
/// these are checked as well. What is said of excluded namespaces has no effect.
fn check_structure(structure: &Structure, settings: &Settings, checks_anchors: bool) -> Vec<Finding> {
    let forest = structure.forest();
    let mut findings = Vec::new();
    let mut cycles = BTreeSet::new();
    let mut orphans: BTreeMap<Name, Vec<String>> = BTreeMap::new();
    for name in structure.namespaces.keys().filter(|name| settings.is_managed(name)) {
        if let Some(cycle) = forest.cycle(name) {
            cycles.insert(cycle);
        } else if let Some(parent) = forest.parent(name).filter(|parent| !forest.exists(parent)) {
            orphans.entry(parent.clone()).or_default().push(name.to_string());
        }
    }
    for cycle in cycles {
        let hint = way_out(structure, &cycle);
        let members: Vec<&str> = cycle.iter().map(|it| &**it).collect();
        findings.push(Finding::wrong("cycle", members.join(" <- "), hint));
    }
    for (parent, orphans) in orphans {
        let hint = for_all(&adoption(structure, &parent, &orphans[0]), &orphans);
        let text = format!("{parent} does not exist; it is the parent of {}", some(&orphans));
        findings.push(Finding::wrong("missing parent", text, hint));
    }
    findings.extend(reported(structure, settings, checks_anchors));
    findings
}

/// How a member leaves a cycle. A subnamespace cannot become a root.
fn way_out(structure: &Structure, cycle: &[Name]) -> String {
    let elsewhere = |name: &str| elsewhere(structure, name, "PARENT");
    match cycle.iter().find(|name| !structure.is_subnamespace(name)) {
        Some(name) => format!(
            "Make {name} a root (`kubectl hns set {name} --root`), or a child of a namespace outside the cycle ({}).",
            elsewhere(name)
        ),
        None => format!("Give one of them a parent outside the cycle, such as: {}.", elsewhere(&cycle[0])),
    }
}

/// The command that gives a namespace another parent.
fn elsewhere(structure: &Structure, name: &str, to: &str) -> String {
    if structure.is_subnamespace(name) {
        format!("`kubectl hns move {name} --to {to}`")
    } else {
        format!("`kubectl hns set {name} --parent {to}`")
    }
}

/// What to do about a namespace whose parent is missing. Its tree labels still say where it was.
fn adoption(structure: &Structure, parent: &str, orphan: &str) -> String {
    let elsewhere = |to: &str| elsewhere(structure, orphan, to);
    let Some(ancestor) = former_ancestor(structure, parent, orphan) else {
        return format!("Create namespace {parent}, or set another parent: {}.", elsewhere("PARENT"));
    };
    format!(
        "It was below {ancestor}, whose copies and restrictions it keeps: {} leaves it there. If you create {parent} as a root, \
         {orphan} leaves the tree of {ancestor}, and loses these.",
        elsewhere(ancestor)
    )
}

/// The nearest ancestor in the tree labels of `orphan`, other than its missing parent, that exists or cannot be read.
fn former_ancestor<'a>(structure: &'a Structure, parent: &str, orphan: &str) -> Option<&'a str> {
    let marks = structure.namespaces.get(orphan)?.labels.iter();
    let depth = |(key, value): (&'a str, &str)| {
        let ancestor = labels::tree_label_namespace(key)?;
        let may_exist = !structure.is_whole || structure.namespaces.contains_key(ancestor);
        let is_other = ancestor != orphan && ancestor != parent && may_exist;
        Some((value.parse::<u64>().ok().filter(|_| is_other)?, ancestor))
    };
    marks.filter_map(depth).min().map(|(_, ancestor)| ancestor)
}

/// What the controller says of conflicts.
const IN_THE_WAY: &str = "stand in the way of";

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
            let names_anchor = is_about_values(&condition.reason)
                && holding_parent(structure, name, checks_anchors).is_some();
            shown.entry((kind, message, names_anchor)).or_default().push(name.to_string());
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

/// The advice for the first of these namespaces, as one for all of them.
fn for_all(hint: &str, names: &[String]) -> String {
    let others = &names[1..];
    let mut words = hint.split(|it: char| it != '-' && !it.is_ascii_alphanumeric());
    if others.is_empty() || !words.any(|it| it == names[0]) {
        return hint.to_owned();
    }
    format!("{hint} The same applies to {}.", some(others))
}

/// Whether the advice names the object that sets the managed values.
fn is_about_values(reason: &str) -> bool {
    use conditions::bad_namespace::{ILLEGAL_MANAGED_ANNOTATION, ILLEGAL_MANAGED_LABEL};
    [ILLEGAL_MANAGED_LABEL, ILLEGAL_MANAGED_ANNOTATION, "OverriddenByAncestor"].contains(&reason)
}

/// The object that sets the managed values of a namespace: those of a subnamespace follow its anchor, if it has one.
fn holder(structure: &Structure, name: &str, knows_anchors: bool) -> String {
    match holding_parent(structure, name, knows_anchors) {
        Some(parent) => format!("the anchor {name} in {parent}"),
        None => format!("the HierarchyConfiguration of {name}"),
    }
}

/// The parent that has the anchor of a namespace. Where anchors are not known, every parent that exists is taken to have it.
fn holding_parent<'a>(structure: &'a Structure, name: &str, knows_anchors: bool) -> Option<&'a str> {
    let annotations = structure.namespaces.get(name).map(|it| &it.annotations);
    let has_anchor = |parent: &&str| {
        if knows_anchors {
            has_anchor(structure, parent, name)
        } else {
            structure.namespaces.contains_key(*parent)
        }
    };
    annotations?.get(annotations::SUBNAMESPACE_OF).filter(has_anchor)
}

fn has_anchor(structure: &Structure, parent: &str, name: &str) -> bool {
    structure.anchors.iter().any(|(namespace, anchor)| **namespace == *parent && *anchor.name == *name)
}

/// What to do about a condition with this reason and message in the namespace `name`; the table of conditions in docs/concepts.md says the same.
fn remedy(
    (reason, message): (&str, &str),
    name: &str,
    (structure, knows_anchors): (&Structure, bool),
) -> String {
    use conditions::bad_namespace;
    let holder = holder(structure, name, knows_anchors);
    match reason {
        activities_halted::ILLEGAL_PARENT => {
            let elsewhere = elsewhere(structure, name, "PARENT");
            format!("Choose another parent: {elsewhere}; or include the excluded one in the settings; or, if it is in a hierarchy of Accurate, remove its labels accurate.cybozu.com/….")
        }
        activities_halted::IN_CYCLE | activities_halted::ANCESTOR_HALT_ACTIVITIES => {
            "Ask an admin of the namespaces that the message names: `kubectl hns doctor` tells them what to do.".to_owned()
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
            "Remove the key from {holder}, or declare it as managed in the settings (docs/settings.md). Namespaces keep a value that was set \
             while the key was managed, until somebody removes it."
        ),
        "OverriddenByAncestor" => format!(
            "Remove the value from {holder}, or ask an administrator of the ancestor to change theirs."
        ),
        "QuotaNotInForce" => {
            "Wait. If it lasts, check that kube-controller-manager runs its resourcequota controller, or stop propagating the quota."
                .to_owned()
        }
        "CannotPropagateObject" => {
            let what = if message.contains("exceeded quota") {
                "A ResourceQuota leaves no room for the copy: raise it, or delete objects that it counts"
            } else if message.contains(IN_THE_WAY) {
                "Rename or delete one of the two objects of the same name"
            } else {
                "Solve what the message says; the controller tries again"
            };
            let (object, place) = first_object(message, name).unwrap_or_else(|| ("KIND/NAME".to_owned(), name));
            format!("{what}. `kubectl hns explain {object} -n {place}` shows the reason for one object.")
        }
        _ => format!("`kubectl hns describe {name}` shows all conditions and the recent events."),
    }
}

/// The first object that a condition of the namespace `name` is about, as KIND/NAME, and its namespace. `None` if its name cannot be
/// part of a command line.
fn first_object<'a>(message: &'a str, name: &'a str) -> Option<(String, &'a str)> {
    let (_, line) = message.split_once(": ")?;
    let (place, line) = match line.strip_prefix("in namespace \"") {
        Some(line) => line.split_once("\", ")?,
        None => (name, line),
    };
    let (resource, line) = line.split_once(" \"")?;
    let (object, _) = line.split_once("\": ")?;
    let is_plain = |it: char| it.is_ascii_alphanumeric() || ".-_:".contains(it);
    (resource.chars().chain(object.chars()).all(is_plain)).then(|| (format!("{resource}/{object}"), place))
}

fn anchors(structure: &Structure, settings: &Settings) -> Vec<Finding> {
    let mut findings = Vec::new();
    let not_ok = |(parent, anchor): &&(Name, AnchorFact)| {
        anchor.state.as_deref() != Some(anchor_states::OK) && settings.is_managed(parent)
    };
    for (parent, anchor) in structure.anchors.iter().filter(not_ok) {
        let (name, state) = (&anchor.name, anchor.state.as_deref().unwrap_or_default());
        let hint = match state {
            anchor_states::CONFLICT if !structure.namespaces.contains_key(name) => format!(
                "The namespace {name} belonged to another anchor or parent, or was named as a missing parent when this anchor was created, \
                 or the anchor was created with this status. `kubectl delete subns {name} -n {parent}` removes the anchor; then \
                 create it again, without `status`."
            ),
            anchor_states::CONFLICT => format!(
                "The namespace {name} does not belong to this anchor. `kubectl delete subns {name} -n {parent}` removes the anchor and keeps \
                 the namespace; `kubectl hns convert {name} --to sub` makes a child of {parent} its subnamespace. If a move was interrupted, run the same \
                 command again."
            ),
            anchor_states::FORBIDDEN => {
                format!(
                    "A namespace of that name cannot be in a tree. If the settings exclude a subnamespace, include it again; \
                     otherwise `kubectl delete subns {name} -n {parent}` removes the anchor, and keeps an existing namespace."
                )
            }
            "" if structure.namespaces.contains_key(name) => {
                "The namespace exists; the controller has not written the state of the anchor: see its log, and the lease above.".to_owned()
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
    for (name, namespace) in &structure.namespaces {
        let of = namespace.annotations.get(annotations::SUBNAMESPACE_OF).filter(|it| !it.is_empty());
        // Where the parent is missing, there is another finding.
        if let Some(parent) = of
            && structure.namespaces.contains_key(parent)
            && settings.is_managed(name)
            && settings.is_managed(parent)
            && !has_anchor(structure, parent, name)
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
    use crate::structure::settings;
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
                .contains("kubectl hns move sub --to PARENT")
        );
        assert_eq!(anchors(&lost, &settings()), []);
    }

    /// A new root of the name of the missing parent would take the namespace out of its tree.
    #[test]
    fn an_orphan_is_advised_to_stay_in_its_tree() {
        let mut structure = sketch(&["a", "b < a", "o < gone", "x < gone"]);
        structure.is_whole = true;
        let mark = |name: &str, depth: &str| (format!("{name}.tree.hnc.x-k8s.io/depth"), depth.to_owned());
        let marks = [mark("a", "3"), mark("b", "2"), mark("gone", "1"), mark("o", "0"), mark("lost", "1")];
        let labels = marks.iter().map(|(key, value)| (&**key, &**value)).collect();
        structure.namespaces.get_mut("o").unwrap().labels = labels;
        let hint = adoption(&structure, "gone", "o");
        assert!(
            hint.contains("below b") && hint.contains("`kubectl hns set o --parent b` leaves it"),
            "{hint}"
        );
        assert!(hint.contains("o leaves the tree of b, and loses"), "{hint}");
        assert!(
            adoption(&structure, "gone", "x").starts_with("Create namespace gone, or set another parent")
        );
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
        assert_eq!(partial(&structure, &settings())[0], fine(1));
        structure.hidden.insert("b".into());
        let found = partial(&structure, &settings());
        assert!(found.iter().all(|it| it.level == Level::Note), "{found:?}");
        assert!(found[0].text.starts_with("not checked"), "{found:?}");
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
            (&["x < gone", "y < gone"], "--parent PARENT`. The same applies to y."),
            (&["b ! A (QuotaNotInForce): q", "c ! A (QuotaNotInForce): q"], "stop propagating the quota."),
        ] {
            let hints = hints(lines);
            assert!(hints.len() == 1 && hints[0].ends_with(end), "{hints:?}");
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
    fn what_could_not_be_written_is_solved_by_its_cause() {
        let said =
            |message: &str| remedy(("CannotPropagateObject", message), "n", (&Structure::default(), true));
        assert!(said("secrets \"s\": exceeded quota: q").contains("raise it"));
        let said_of =
            |objects: &str| said(&format!("These objects stand in the way of others from above: {objects}"));
        let conflict =
            said_of("in namespace \"low\", configmaps \"c1\": x; in namespace \"n\", secrets \"s\": y");
        assert!(
            conflict.contains("Rename or delete") && conflict.contains("configmaps/c1 -n low`"),
            "{conflict}"
        );
        let failed = said("These objects could not be written or removed: jobs.batch \"j\": no");
        assert!(failed.contains("explain jobs.batch/j -n n`"), "{failed}");
        assert!(said_of("roles \"a b\": x").contains("explain KIND/NAME -n n`"));
        assert!(said("too rich").starts_with("Solve what the message says"));
    }

    #[test]
    fn excluded_namespaces_have_no_faults() {
        let settings = Settings::new("hnc-system", ["out"], ".*").unwrap();
        let mut structure =
            sketch(&["a", "out < gone ! BadConfiguration (IllegalManagedLabel): x/y", "[s] lone < out"]);
        let anchor = AnchorFact { name: "x".into(), state: Some("Missing".into()), ..AnchorFact::default() };
        structure.anchors = vec![("out".into(), anchor)];
        assert_eq!(check_structure(&structure, &settings, false), []);
        assert_eq!(anchors(&structure, &settings), []);
    }

    #[test]
    fn anchors_and_subnamespaces_must_match() {
        let mut structure = sketch(&["a", "[s] lost < a", "[s] well < a"]);
        let anchor = |name: &str, state: &str| {
            ("a".into(), AnchorFact { name: name.into(), state: Some(state.into()), ..AnchorFact::default() })
        };
        structure.anchors = vec![anchor("well", "Ok"), anchor("taken", "Conflict")];
        assert_eq!(
            texts(&anchors(&structure, &settings())),
            [
                "anchor: taken in a is in state Conflict",
                "anchor: lost is a subnamespace of a, where it has no anchor",
            ]
        );
    }

    #[test]
    fn an_anchor_without_a_state_may_have_its_namespace() {
        let mut structure = sketch(&["a", "[s] made < a"]);
        structure.anchors = ["made", "new"]
            .map(|name| ("a".into(), AnchorFact { name: name.into(), ..AnchorFact::default() }))
            .into();
        let hints: Vec<String> =
            anchors(&structure, &settings()).into_iter().filter_map(|it| it.hint).collect();
        assert!(hints[0].starts_with("The namespace exists; "), "{hints:?}");
        assert!(hints[1].starts_with("The controller has not created the namespace"), "{hints:?}");
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
