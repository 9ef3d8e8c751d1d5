//! Checks Accurate's hierarchy, where its API is enabled: labels that lead nowhere, `SubNamespaces` without a namespace, and moves
//! that were interrupted.

mod forms;

use std::collections::BTreeMap;

use forest::accurate::why::{Frozen, frozen, has_type, idle_template};
use forest::{EdgeKind, Forest, Name, NamespaceFact, Unmanaged};
use hns_api::accurate::SubNamespace;
use hns_api::accurate::labels::{PARENT, TEMPLATE, TYPE, TYPE_ROOT};
use hns_cluster::api::Api;
use hns_cluster::settings::SharedSettings;
use kube::CustomResourceExt;
use kube::api::{DynamicObject, ListParams};
use kube::core::ObjectMeta;

use self::forms::{interrupted, left_over, marked_in_vain, stalled, unfinished};
use super::remedies::for_all;
use super::{Finding, some};
use crate::accurate_trees::{self, AccurateTrees};
use crate::commands::accurate::{self, describe};
use crate::lines::count;
use crate::program::Program;
use crate::session::Session;

const SUBJECT: &str = "trees of Accurate";

pub(super) async fn check(
    (session, program): (&Session, Program),
    settings: &SharedSettings,
) -> Vec<Finding> {
    if !settings.accurate.enabled {
        return off((session, program)).await.into_iter().collect();
    }
    let AccurateTrees { namespaces, forms, forest } = match accurate_trees::read(session, settings).await {
        Ok(trees) => trees,
        Err(failure) => return vec![Finding::note(SUBJECT, format!("not checked: {}", failure.clause()))],
    };
    let mut findings = misplaced(&forest);
    let left = left_over(&namespaces, &forms);
    let others = forms.iter().filter(|(parent, form)| !left.contains(&(parent.clone(), form.name.clone())));
    findings.extend(others.filter_map(|(parent, form)| {
        stalled(parent, form, (&forest, &forms)).or_else(|| unfinished(parent, form, &forest))
    }));
    findings.extend(namespaces.iter().filter_map(|it| interrupted(it, &forms)));
    findings.extend(namespaces.iter().filter_map(|it| typed_in_hnc(it, &forest)));
    if findings.is_empty() {
        findings.push(Finding::ok(
            SUBJECT,
            format!("{}, none without its namespace", count(forms.len(), "SubNamespace")),
        ));
    }
    findings.extend(idle(&forest));
    findings.extend(marked_in_vain(&namespaces, &forms));
    findings.push(Finding::note(
        SUBJECT,
        "the copies in them are not checked; `kubectl accurate explain KIND/NAME -n NAMESPACE` shows whether a copy is as it should be",
    ));
    findings
}

/// What there is to say where hns does not serve the API: `SubNamespaces` that no program processes. Who asks about Accurate is also told
/// that nothing was checked.
async fn off((session, program): (&Session, Program)) -> Option<Finding> {
    let api = Api::<DynamicObject>::all_with(session.client.clone(), &SubNamespace::api_resource());
    let forms = session.list_metadata(&api, &ListParams::default()).await.unwrap_or_default();
    let is_unserved = describe::is_unserved(session).await;
    if is_unserved && !forms.is_empty() {
        return Some(ignored(&forms.into_iter().map(|it| it.metadata).collect::<Vec<_>>()));
    }
    (program == Program::Accurate).then(|| {
        let what = if is_unserved { "nothing acts on its labels" } else { "its trees are not checked" };
        Finding::note("Accurate's API", format!("the settings do not enable it (accurate.enabled): {what}"))
    })
}

fn ignored(forms: &[ObjectMeta]) -> Finding {
    let name = |it: &ObjectMeta| {
        let [namespace, name] = [&it.namespace, &it.name].map(|it| it.as_deref().unwrap_or_default());
        format!("{namespace}/{name}")
    };
    let names: Vec<String> = forms.iter().map(name).collect();
    let deleted: Vec<String> = forms.iter().filter(|it| it.deletion_timestamp.is_some()).map(name).collect();
    let pending = if deleted.is_empty() {
        String::new()
    } else {
        format!("; being deleted, until their finalizers are removed: {}", some(&deleted))
    };
    Finding::wrong(
        SUBJECT,
        format!(
            "nothing acts on the SubNamespaces {}: the settings do not enable Accurate's API{pending}",
            some(&names)
        ),
        "Set accurate.enabled in the settings of hns; or remove their finalizers first, and then delete them. One that is only deleted \
         waits, and takes its namespace with it when the API is enabled again. If Accurate itself runs in another namespace than \
         accurate, all is well.",
    )
}

/// What namespaces have in common that are reported together.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Shared {
    why: String,
    /// Whether each has a template beside its parent.
    has_both: bool,
    cycle: Option<Vec<Name>>,
}

/// The namespaces that nothing reaches, by reason.
fn misplaced(forest: &Forest) -> Vec<Finding> {
    let mut reasons: BTreeMap<Shared, (String, Vec<String>)> = BTreeMap::new();
    // Below a namespace that is in both hierarchies, there may be others that only HNC's halts.
    // One that is being deleted cannot be given another place.
    let lasting = |name: &&Name| forest.is_in_accurate(name) && !forest.is_terminating(name);
    for name in forest.names().filter(lasting) {
        let Some(why) = frozen(forest, name) else { continue };
        let has_both = idle_template(forest, name).is_some();
        let (why, hint) = reason_in(forest, name, &why);
        let shared = Shared { why, has_both, cycle: forest.accurate_cycle(name) };
        reasons.entry(shared).or_insert_with(|| (hint, Vec::new())).1.push(name.to_string());
    }
    let finding = |(Shared { why, cycle, .. }, (hint, names)): (Shared, (String, Vec<String>))| {
        let text = format!("nothing is copied to {}: {why}", some(&names));
        // That of a cycle is about all its members.
        let hint = if cycle.is_some() { hint } else { for_all(&hint, &names) };
        Finding::wrong(SUBJECT, text, hint)
    };
    reasons.into_iter().map(finding).collect()
}

/// A namespace of HNC's hierarchy that has only a type of Accurate: it is not halted, but can get no children.
fn typed_in_hnc(namespace: &NamespaceFact, forest: &Forest) -> Option<Finding> {
    let NamespaceFact { name, labels, .. } = namespace;
    labels.get(TYPE).filter(|it| !it.is_empty())?;
    let is_so =
        forest.is_in_hnc(name) && forest.shared_settings().is_managed(name) && frozen(forest, name).is_none();
    is_so.then(|| {
        Finding::wrong(
            format!("namespace {name}"),
            format!("it is in a hierarchy of hnc.x-k8s.io and has the label {TYPE}, so each API refuses new namespaces below it"),
            format!("Remove the type: `kubectl accurate namespace set-type {name} none`."),
        )
    })
}

/// The templates without effect, of namespaces that are copied to.
fn idle(forest: &Forest) -> Vec<Finding> {
    let reached = forest.names().filter(|name| frozen(forest, name).is_none());
    let finding = |name: &Name| {
        let template = idle_template(forest, name)?;
        Some(Finding::note(SUBJECT, accurate::without_effect(name, &template, has_type(forest, name))))
    };
    reached.filter_map(finding).collect()
}

/// Why nothing is copied to this namespace of the forest, and what to do.
pub(crate) fn reason_in(forest: &Forest, namespace: &str, why: &Frozen) -> (String, String) {
    let edge = forest.accurate_edge(namespace);
    let has_both = idle_template(forest, namespace).is_some();
    if let Frozen::NotLeading(_, above) = why
        && let Some(excluded) = forest.shared_settings().unmanaged(above)
    {
        let what = edge.unwrap_or(EdgeKind::Parent).as_str();
        let include = format!("Include {above} again in the settings of hns.");
        let hint = match excluded {
            Unmanaged::Own => format!("Choose another {what} for {namespace}."),
            // The namespace cannot leave its SubNamespace there.
            _ if forest.has_sub_namespace(above, namespace) => include,
            _ => {
                format!("{include} Or: {}", other_than(edge.unwrap_or(EdgeKind::Parent), namespace, has_both))
            }
        };
        return (format!("{above}, the {what}, {excluded}"), hint);
    }
    if matches!(why, Frozen::Cycle | Frozen::NotLeading(..))
        && let Some(members) = forest.accurate_cycle(namespace)
    {
        return in_cycle(forest, &members);
    }
    let (text, hint) = reason(why, (namespace, edge, has_both));
    match why {
        Frozen::Missing(above) if let Some(excluded) = forest.shared_settings().unmanaged(above) => (
            format!("{text}, and {excluded}"),
            other_than(edge.unwrap_or(EdgeKind::Parent), namespace, has_both),
        ),
        Frozen::NotLeading(kind, above) if !can_lead(forest, above, *kind) => {
            (text, other_than(*kind, namespace, has_both))
        }
        _ => (text, hint),
    }
}

/// Why nothing is copied to the members of a cycle.
const EACH_OTHER: &str = "they name each other as parents or templates";

/// Why nothing is copied to the members of a cycle, and what to do.
fn in_cycle(forest: &Forest, members: &[Name]) -> (String, String) {
    let of = |name: &Name| (forest.accurate_edge(name), idle_template(forest, name).is_some());
    if let [name] = members {
        let (edge, has_both) = of(name);
        let edge = edge.unwrap_or(EdgeKind::Parent);
        return (format!("it names itself as its {}", edge.as_str()), other_than(edge, name, has_both));
    }
    // A root is no template.
    let is_template = |name: &Name| {
        let names_it = |it: &Name| {
            forest.accurate_upstream(it) == Some(name) && forest.accurate_edge(it) == Some(EdgeKind::Template)
        };
        forest.names().any(names_it)
    };
    let removable = members.iter().filter(|it| of(it).0 == Some(EdgeKind::Template) || !is_template(it));
    let command = |name: &Name| {
        let (edge, has_both) = of(name);
        removal(name, edge, has_both).1
    };
    let commands: Vec<String> = removable.map(command).collect();
    (
        EACH_OTHER.to_owned(),
        format!("Give one of them another parent or template, or none: {}.", commands.join(", or ")),
    )
}

/// Whether this namespace may get the type with which it can be the upstream namespace of such an edge: it may not if it is being deleted,
/// or in HNC's hierarchy, or if its own upstream namespace is unfit, or if its present type is the other one and others depend on that.
fn can_lead(forest: &Forest, name: &str, kind: EdgeKind) -> bool {
    let depends_on_other_type = |next: &Name| {
        forest.accurate_upstream(next).is_some_and(|it| **it == *name)
            && forest.accurate_edge(next) != Some(kind)
            && !matches!(frozen(forest, next), Some(Frozen::NotLeading(..)))
    };
    !forest.is_terminating(name)
        && !forest.is_in_hnc(name)
        && (forest.accurate_upstream(name).is_none() || frozen(forest, name).is_none())
        && !forest.names().any(depends_on_other_type)
}

/// How to give a namespace another upstream namespace, or none. A sub-namespace with a template gets no other parent before it has none.
fn other_than(kind: EdgeKind, namespace: &str, has_both: bool) -> String {
    let (_, cut) = removal(namespace, Some(kind), has_both);
    match kind {
        EdgeKind::Parent if has_both => format!("Remove the parent of {namespace}: {cut}."),
        EdgeKind::Parent => format!(
            "Give {namespace} another parent: `kubectl accurate sub move {namespace} PARENT`; or make it a root: {cut}."
        ),
        EdgeKind::Template => format!(
            "Give {namespace} another template: `kubectl accurate template set {namespace} TEMPLATE`; or remove it: {cut}."
        ),
    }
}

/// What the label to the upstream namespace names, and the command that removes it.
fn removal(namespace: &str, edge: Option<EdgeKind>, has_both: bool) -> (&'static str, String) {
    match edge {
        _ if has_both => {
            let command =
                format!("`kubectl label namespace {namespace} {PARENT}- {TEMPLATE}- {TYPE}={TYPE_ROOT}`");
            ("parent", format!("{command}, which removes its template, too"))
        }
        Some(EdgeKind::Template) => ("template", format!("`kubectl accurate template unset {namespace}`")),
        _ => ("parent", format!("`kubectl accurate sub cut {namespace}`")),
    }
}

/// Why nothing is copied to a namespace with this edge to the one above it, and what to do. One with `has_both` has a template label beside
/// its parent: while what they name is missing, only a request that removes both is allowed.
pub(crate) fn reason(
    why: &Frozen,
    (namespace, edge, has_both): (&str, Option<EdgeKind>, bool),
) -> (String, String) {
    let (what, cut) = removal(namespace, edge, has_both);
    match why {
        Frozen::Crossed(name) => (
            format!("{name} is in a hierarchy of hnc.x-k8s.io, too"),
            format!(
                "If `kubectl hns convert ROOT --to hnc` was interrupted, run it again. Otherwise, remove the labels accurate.cybozu.com/… of \
                 {name}, after those of the namespaces that name it, or, if it has no children there, its parent there."
            ),
        ),
        Frozen::Missing(name) => (
            format!("{name}, the {what}, does not exist"),
            format!("As an admin of the cluster, create it, or remove the {what} of {namespace}: {cut}."),
        ),
        Frozen::NotLeading(EdgeKind::Parent, name) => (
            format!("{name}, the parent, is neither a root nor a sub-namespace"),
            format!(
                "Make it one (`kubectl accurate ns set-type {name} root`), or move its children elsewhere."
            ),
        ),
        Frozen::NotLeading(EdgeKind::Template, name) => (
            format!("{name}, the template, is neither a template nor a sub-namespace"),
            format!("Make it one (`kubectl accurate ns set-type {name} template`), or set another template."),
        ),
        Frozen::Cycle => {
            (EACH_OTHER.to_owned(), format!("Move one of them out of the cycle, or cut it: {cut}."))
        }
    }
}

#[cfg(test)]
mod tests {
    use hns_api::accurate::labels::TYPE_TEMPLATE;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use k8s_openapi::jiff::Timestamp;

    use super::*;
    use crate::structure::tests::sketch;

    pub(super) fn said(finding: &Finding) -> String {
        format!("{}: {} {}", finding.subject, finding.text, finding.hint.as_deref().unwrap_or_default())
    }

    #[test]
    fn finalizers_go_before_sub_namespaces_that_nothing_acts_on() {
        let form = |name: &str, is_deleted: bool| ObjectMeta {
            namespace: Some("p".into()),
            name: Some(name.into()),
            deletion_timestamp: is_deleted.then_some(Time(Timestamp::UNIX_EPOCH)),
            ..ObjectMeta::default()
        };
        for (forms, wanted) in [
            (vec![form("a", false)], "SubNamespaces p/a: the settings do not enable Accurate's API Set"),
            (
                vec![form("a", false), form("b", true)],
                "API; being deleted, until their finalizers are removed: p/b Set",
            ),
        ] {
            let text = said(&ignored(&forms));
            assert!(
                text.contains(wanted) && text.contains("remove their finalizers first, and then"),
                "{text}"
            );
        }
    }

    #[test]
    fn every_reason_has_a_solution() {
        let template = Some(EdgeKind::Template);
        let missing = Frozen::Missing("p".into());
        assert_eq!(reason(&missing, ("n", template, false)).0, "p, the template, does not exist");
        for (edge, has_both, wanted) in [
            (template, false, "`kubectl accurate template unset n`."),
            (Some(EdgeKind::Parent), false, "`kubectl accurate sub cut n`."),
            (
                Some(EdgeKind::Parent),
                true,
                "`kubectl label namespace n accurate.cybozu.com/parent- accurate.cybozu.com/template- accurate.cybozu.com/type=root`, which \
                 removes its template, too.",
            ),
        ] {
            let hint = reason(&missing, ("n", edge, has_both)).1;
            assert!(hint.ends_with(wanted), "{hint}");
        }
        for (why, wanted) in [
            (missing, "p, the parent, does not exist"),
            (Frozen::NotLeading(EdgeKind::Parent, "p".into()), "neither a root nor a sub-namespace"),
            (Frozen::NotLeading(EdgeKind::Template, "p".into()), "neither a template"),
            (Frozen::Crossed("p".into()), "hnc.x-k8s.io"),
            (Frozen::Cycle, "each other"),
        ] {
            let (text, hint) = reason(&why, ("n", Some(EdgeKind::Parent), false));
            assert!(text.contains(wanted) && !hint.is_empty(), "{text}");
        }
    }

    #[test]
    fn a_namespace_that_cannot_lead_is_replaced() {
        let mut structure = sketch(&["r", "s", "t", "i", "h", "c < h", "end", "free", "n"]);
        structure.namespaces.get_mut("end").unwrap().terminating = true;
        let own =
            [("r", TYPE, TYPE_ROOT), ("s", PARENT, "r"), ("t", TYPE, TYPE_TEMPLATE), ("i", TEMPLATE, "t")];
        for (name, key, value) in own {
            structure.namespaces.get_mut(name).unwrap().labels = [(key, value)].into_iter().collect();
        }
        let make =
            |name: &str, kind: &str| format!("Make it one (`kubectl accurate ns set-type {name} {kind}`),");
        let parent = "Give n another parent: `kubectl accurate sub move n PARENT`; or make it a root: `kubectl accurate sub cut n`.";
        let template = "Give n another template: `kubectl accurate template set n TEMPLATE`; or remove it: `kubectl accurate template unset n`.";
        let both = "Remove the parent of n: `kubectl label namespace n accurate.cybozu.com/parent- accurate.cybozu.com/template- ";
        for (labels, wanted) in [
            (vec![(PARENT, "free")], make("free", "root")),
            (vec![(TEMPLATE, "free")], make("free", "template")),
            (vec![(PARENT, "t")], parent.to_owned()),
            (vec![(TEMPLATE, "r")], template.to_owned()),
            (vec![(PARENT, "h")], parent.to_owned()),
            (vec![(TEMPLATE, "h")], template.to_owned()),
            (vec![(PARENT, "end")], parent.to_owned()),
            (vec![(PARENT, "t"), (TEMPLATE, "free")], both.to_owned()),
        ] {
            structure.namespaces.get_mut("n").unwrap().labels = labels.iter().copied().collect();
            let empty = Forest::unconfigured(std::sync::Arc::new(crate::structure::settings()));
            let forest = structure.put_into(empty.with_accurate(std::sync::Arc::default()));
            let hint = reason_in(&forest, "n", &frozen(&forest, "n").unwrap()).1;
            assert!(hint.starts_with(&wanted), "{labels:?}: {hint}");
        }
    }

    #[test]
    fn each_cycle_is_named_with_the_commands_for_its_members() {
        let names = ["a", "b", "c", "d", "m", "o", "s", "t", "u"];
        let mut structure = sketch(&names);
        for (name, labels) in [
            ("a", &[(PARENT, "b")][..]),
            ("b", &[(PARENT, "a")]),
            ("c", &[(TEMPLATE, "d"), (TYPE, TYPE_TEMPLATE)]),
            ("d", &[(TEMPLATE, "c"), (TYPE, TYPE_TEMPLATE)]),
            ("m", &[(PARENT, "o")]),
            ("o", &[(TEMPLATE, "m")]),
            ("s", &[(PARENT, "s")]),
            ("t", &[(TEMPLATE, "t")]),
            ("u", &[(TEMPLATE, "t")]),
        ] {
            structure.namespaces.get_mut(name).unwrap().labels = labels.iter().copied().collect();
        }
        let empty = Forest::unconfigured(std::sync::Arc::new(crate::structure::settings()));
        let forest = structure.put_into(empty.with_accurate(std::sync::Arc::default()));
        let found: Vec<String> = misplaced(&forest).iter().map(said).collect();
        let each_other = |one: &str, other: &str, ways: &[&str]| {
            let ways: Vec<String> = ways.iter().map(|way| format!("`kubectl accurate {way}`")).collect();
            format!(
                "trees of Accurate: nothing is copied to {one}, {other}: they name each other as parents or templates Give one of them \
                 another parent or template, or none: {}.",
                ways.join(", or ")
            )
        };
        let itself = |name: &str, what: &str, hint: &str| {
            format!("trees of Accurate: nothing is copied to {name}: it names itself as its {what} {hint}")
        };
        for wanted in [
            each_other("a", "b", &["sub cut a", "sub cut b"]),
            each_other("c", "d", &["template unset c", "template unset d"]),
            // m, which o names as its template, cannot become a root.
            each_other("m", "o", &["template unset o"]),
            itself(
                "s",
                "parent",
                "Give s another parent: `kubectl accurate sub move s PARENT`; or make it a root: `kubectl accurate sub cut s`.",
            ),
            itself(
                "t",
                "template",
                "Give t another template: `kubectl accurate template set t TEMPLATE`; or remove it: `kubectl accurate template unset t`.",
            ),
        ] {
            assert!(found.contains(&wanted), "{wanted}: {found:#?}");
        }
        let below = found.iter().find(|it| it.contains("copied to u:")).unwrap();
        assert!(below.contains("Give u another template: "), "no command makes t a template: {below}");
        assert_eq!(found.len(), 6, "{found:#?}");
    }

    #[test]
    fn only_namespaces_of_accurates_trees_are_misplaced() {
        let mut structure = sketch(&["r", "h1", "h4 < h1"]);
        for (name, label) in [("r", (TYPE, TYPE_ROOT)), ("h1", (PARENT, "r"))] {
            structure.namespaces.get_mut(name).unwrap().labels = [label].into_iter().collect();
        }
        let empty = Forest::unconfigured(std::sync::Arc::new(crate::structure::settings()));
        let forest = structure.put_into(empty.with_accurate(std::sync::Arc::default()));
        let found = misplaced(&forest);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].text.starts_with("nothing is copied to h1: h1 is in a hierarchy"), "{found:?}");
        let typed: Vec<Finding> =
            structure.namespaces.values().filter_map(|it| typed_in_hnc(it, &forest)).collect();
        assert_eq!(typed, []);
        structure.namespaces.get_mut("h1").unwrap().labels = [(TYPE, TYPE_ROOT)].into_iter().collect();
        let empty = Forest::unconfigured(std::sync::Arc::new(crate::structure::settings()));
        let forest = structure.put_into(empty.with_accurate(std::sync::Arc::default()));
        assert!(misplaced(&forest).is_empty());
        let typed: Vec<Finding> =
            structure.namespaces.values().filter_map(|it| typed_in_hnc(it, &forest)).collect();
        assert!(
            typed.len() == 1 && said(&typed[0]).contains("`kubectl accurate namespace set-type h1 none`"),
            "{typed:?}"
        );
    }

    #[test]
    fn below_an_excluded_namespace_the_settings_are_the_reason() {
        let mut structure = sketch(&["out", "home", "s", "i", "o"]);
        for (name, label) in [
            ("out", (TYPE, TYPE_ROOT)),
            ("s", (PARENT, "out")),
            ("i", (TEMPLATE, "out")),
            ("o", (PARENT, "home")),
        ] {
            structure.namespaces.get_mut(name).unwrap().labels = [label].into_iter().collect();
        }
        let settings = forest::Settings::new("home", ["out"], ".*").unwrap();
        let empty = Forest::unconfigured(std::sync::Arc::new(settings));
        let forest = structure.put_into(empty.with_accurate(std::sync::Arc::default()));
        let excluded = "is excluded by excludedNamespaces in the settings of hns";
        for (name, why, hint) in [
            (
                "s",
                format!("out, the parent, {excluded}"),
                "Include out again in the settings of hns. Or: Give s another parent: `kubectl accurate sub move s PARENT`; or make it a root: \
                 `kubectl accurate sub cut s`.",
            ),
            (
                "i",
                format!("out, the template, {excluded}"),
                "Include out again in the settings of hns. Or: Give i another template: `kubectl accurate template set i TEMPLATE`; or remove \
                 it: `kubectl accurate template unset i`.",
            ),
            (
                "o",
                "home, the parent, is excluded, because hns runs in it".to_owned(),
                "Choose another parent for o.",
            ),
        ] {
            let found = reason_in(&forest, name, &frozen(&forest, name).unwrap());
            assert_eq!(found, (why, hint.to_owned()));
        }
    }
}
