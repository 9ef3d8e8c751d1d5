//! Checks Accurate's hierarchy, where its API is enabled: labels that lead nowhere, `SubNamespaces` without a namespace, and moves
//! that were interrupted.

use std::collections::BTreeMap;

use forest::accurate::SubNamespaceFact;
use forest::accurate::why::{Frozen, frozen, idle_template};
use forest::{EdgeKind, Forest, Unmanaged};
use hns_api::accurate::GROUP;
use hns_api::accurate::SubNamespace;
use hns_api::accurate::annotations::MOVED_FROM;
use hns_api::accurate::conditions::CONFLICT;
use hns_api::accurate::labels::{PARENT, TEMPLATE, TYPE, TYPE_ROOT};
use hns_cluster::api::Api;
use hns_cluster::settings::SharedSettings;
use kube::CustomResourceExt;
use kube::api::{DynamicObject, ListParams};
use kube::core::ObjectMeta;

use super::anchors::{NOT_CREATED, NOT_DELETED};
use super::remedies::for_all;
use super::{Finding, some};
use crate::accurate_trees::{self, AccurateTrees};
use crate::commands::accurate::place::Original;
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
    findings.extend(forms.iter().filter_map(|(parent, form)| {
        stalled(parent, form, (&forest, &forms)).or_else(|| unfinished(parent, form, &forest))
    }));
    findings.extend(namespaces.iter().filter_map(|it| {
        let original = Original::read(it.annotations.get(MOVED_FROM)?)?;
        Some(interrupted(&it.name, &original.namespace, it.labels.get(PARENT)))
    }));
    if findings.is_empty() {
        findings.push(Finding::ok(
            SUBJECT,
            format!("{}, none without its namespace", count(forms.len(), "SubNamespace")),
        ));
    }
    findings.extend(idle(&forest));
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

/// The namespaces that nothing reaches, by reason.
fn misplaced(forest: &Forest) -> Vec<Finding> {
    let mut reasons: BTreeMap<(String, bool), (String, Vec<String>)> = BTreeMap::new();
    // Below a namespace that is in both hierarchies, there may be others that only HNC's halts.
    // One that is being deleted cannot be given another place.
    let lasting = |name: &&forest::Name| forest.is_in_accurate(name) && !forest.is_terminating(name);
    for name in forest.names().filter(lasting) {
        let Some(why) = frozen(forest, name) else { continue };
        let has_both = idle_template(forest, name).is_some();
        let (why, hint) = reason_in(forest, name, &why);
        reasons.entry((why, has_both)).or_insert_with(|| (hint, Vec::new())).1.push(name.to_string());
    }
    let finding = |((why, _), (hint, names)): ((String, bool), (String, Vec<String>))| {
        let text = format!("nothing is copied to {}: {why}", some(&names));
        Finding::wrong(SUBJECT, text, for_all(&hint, &names))
    };
    reasons.into_iter().map(finding).collect()
}

/// The templates without effect, of namespaces that are copied to.
fn idle(forest: &Forest) -> Vec<Finding> {
    let reached = forest.names().filter(|name| frozen(forest, name).is_none());
    let finding = |name: &forest::Name| {
        Some(Finding::note(SUBJECT, accurate::without_effect(name, &idle_template(forest, name)?)))
    };
    reached.filter_map(finding).collect()
}

/// Why nothing is copied to this namespace of the forest, and what to do.
pub(crate) fn reason_in(forest: &Forest, namespace: &str, why: &Frozen) -> (String, String) {
    let edge = forest.accurate_edge(namespace);
    if let Frozen::NotLeading(_, above) = why
        && let Some(excluded) = forest.shared_settings().unmanaged(above)
    {
        let what = edge.unwrap_or(EdgeKind::Parent).as_str();
        let hint = match excluded {
            Unmanaged::Own => format!("Choose another {what} for {namespace}."),
            _ => format!("Include {above} again in the settings of hns."),
        };
        return (format!("{above}, the {what}, {excluded}"), hint);
    }
    reason(why, (namespace, edge, idle_template(forest, namespace).is_some()))
}

/// Why nothing is copied to a namespace with this edge to the one above it, and what to do. One with `has_both` has a template label beside
/// its parent: while what they name is missing, only a request that removes both is allowed.
pub(crate) fn reason(
    why: &Frozen,
    (namespace, edge, has_both): (&str, Option<EdgeKind>, bool),
) -> (String, String) {
    let (what, cut) = match edge {
        _ if has_both => {
            let command =
                format!("`kubectl label namespace {namespace} {PARENT}- {TEMPLATE}- {TYPE}={TYPE_ROOT}`");
            ("parent", format!("{command}, which removes its template, too"))
        }
        Some(EdgeKind::Template) => ("template", format!("`kubectl accurate template unset {namespace}`")),
        _ => ("parent", format!("`kubectl accurate sub cut {namespace}`")),
    };
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
        Frozen::Cycle => (
            "they name each other as parents or templates".to_owned(),
            format!("Move one of them out of the cycle, or cut it: {cut}."),
        ),
    }
}

/// A `SubNamespace` without its namespace.
fn stalled(
    parent: &str,
    form: &SubNamespaceFact,
    (forest, forms): (&Forest, &[(forest::Name, SubNamespaceFact)]),
) -> Option<Finding> {
    let (name, condition) = (&form.name, form.status.stalled.as_ref()?);
    let delete = deletion(parent, name);
    let hint = if let Some(why) = forest.shared_settings().unmanaged(name) {
        format!("The namespace {name} {why}: include it again, or delete the SubNamespace. {delete}.")
    } else if *condition.reason == *CONFLICT && **name != *parent {
        taken((parent, form), &delete, (forest, forms))
    } else if let Some(child) = child_above(forest, parent, name) {
        format!(
            "Make {child} a root: `kubectl accurate sub cut {child}`. The controller then creates {name} below {parent}. Or: {delete}."
        )
    } else {
        format!("{delete}.")
    };
    let text = format!("{} ({})", condition.message, condition.reason);
    Some(Finding::wrong(format!("SubNamespace {parent}/{name}"), text, hint))
}

/// The child of `name` that is above `parent`, or is `parent`.
fn child_above<'a>(forest: &'a Forest, parent: &'a str, name: &str) -> Option<&'a str> {
    let above = std::iter::successors(Some(parent), |it| forest.accurate_upstream(it).map(|it| &**it));
    // Those above can be in a cycle.
    above.take(forest.names().count()).find(|it| forest.accurate_parent(it).is_some_and(|it| **it == *name))
}

/// How to delete a `SubNamespace` without a namespace.
fn deletion(parent: &str, name: &str) -> String {
    format!("`kubectl delete subnamespaces.{GROUP} {name} -n {parent}` deletes it, and no namespace")
}

/// A `SubNamespace` whose namespace has still to be created, or to be deleted with it: both take a moment if nothing is wrong.
fn unfinished(parent: &str, form: &SubNamespaceFact, forest: &Forest) -> Option<Finding> {
    let name = &form.name;
    let exists = forest.namespace_version(name).is_some();
    let stays =
        || forest.accurate_parent(name).is_some_and(|it| **it == *parent) && !forest.is_terminating(name);
    let (text, hint) = match (form.terminating, exists) {
        (false, false) => {
            ("its namespace does not exist", format!("{NOT_CREATED} {}.", deletion(parent, name)))
        }
        (true, true) if stays() => (
            "it is being deleted, but its namespace stays",
            format!("{NOT_DELETED} If {name} is to stay, `kubectl accurate sub cut {name}` makes it a root."),
        ),
        _ => return None,
    };
    let subject = format!("SubNamespace {parent}/{name}");
    forest.shared_settings().is_managed(parent).then(|| Finding::wrong(subject, text, hint))
}

/// What to do about a `SubNamespace` whose name another namespace has; `delete` says how to delete it.
fn taken(
    (parent, form): (&str, &SubNamespaceFact),
    delete: &str,
    (forest, forms): (&Forest, &[(forest::Name, SubNamespaceFact)]),
) -> String {
    let name = &form.name;
    let above = forest.accurate_parent(name);
    let (place, way) = match above {
        Some(other) => (format!("has the parent {other}"), "move"),
        None if forest.is_in_hnc(name) => ("is in a hierarchy of hnc.x-k8s.io".to_owned(), "graft"),
        None => ("is no sub-namespace".to_owned(), "graft"),
    };
    // There are no sub-namespaces there any more, for example after a conversion.
    if forest.is_in_hnc(parent) && !forest.is_in_accurate(parent) {
        return format!(
            "The namespace {name} {place}, and {parent} is in a hierarchy of hnc.x-k8s.io. {delete}."
        );
    }
    // Nothing below a halted namespace can be changed.
    if let Some(Frozen::Crossed(halted)) = frozen(forest, name) {
        let way_out = reason(&Frozen::Crossed(halted.clone()), (name, None, false)).1;
        return format!(
            "The namespace {name} {place}; {halted} is halted, because it is in both hierarchies. {way_out}"
        );
    }
    let own = forms.iter().find(|(namespace, it)| Some(namespace) == above && it.name == *name);
    let first = if forest.is_in_hnc(name) {
        "First remove its parent, children and anchors there; then "
    } else if own.is_some_and(|(_, own)| (&own.labels, &own.annotations) != (&form.labels, &form.annotations))
    {
        "Its own SubNamespace has other labels or annotations, so delete this one first; then "
    } else {
        ""
    };
    format!(
        "The namespace {name} {place}. {delete}. {first}`kubectl accurate sub {way} {name} {parent}` puts the namespace here, if your \
         rights and its place allow it."
    )
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
    use forest::accurate::{Stalled, SubNamespaceStatus};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use k8s_openapi::jiff::Timestamp;

    use super::*;
    use crate::structure::tests::sketch;

    fn said(finding: &Finding) -> String {
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
        let include = "Include out again in the settings of hns.";
        for (name, why, hint) in [
            ("s", format!("out, the parent, {excluded}"), include),
            ("i", format!("out, the template, {excluded}"), include),
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

    #[test]
    fn below_a_halted_namespace_a_sub_namespace_in_conflict_waits_for_the_conversion() {
        let mut structure = sketch(&["r", "p", "n < p"]);
        structure.namespaces.get_mut("p").unwrap().labels = [(PARENT, "r")].into_iter().collect();
        let empty = Forest::unconfigured(std::sync::Arc::new(crate::structure::settings()));
        let forest = structure.put_into(empty.with_accurate(std::sync::Arc::default()));
        let stalled = Stalled { reason: CONFLICT.into(), message: "m".into(), observed_generation: 1 };
        let status = SubNamespaceStatus { stalled: Some(stalled), ..SubNamespaceStatus::default() };
        let form = SubNamespaceFact { name: "n".into(), status, ..SubNamespaceFact::default() };
        let text = said(&super::stalled("p", &form, (&forest, &[])).unwrap());
        assert!(text.contains("convert ROOT --to hnc` was interrupted, run it again"), "{text}");
        assert!(!text.contains("sub graft"), "{text}");
    }

    #[test]
    fn a_namespace_is_created_and_deleted_with_its_sub_namespace() {
        let settings = std::sync::Arc::new(forest::Settings::new("home", ["out"], ".*").unwrap());
        let missing = "its namespace does not exist The controller has not created the namespace: its log";
        let stays = "it is being deleted, but its namespace stays The controller has not deleted the namespace: its log";
        for (namespace, label, [terminating, is_going], parent, wanted) in [
            ("other", (PARENT, "p"), [false, false], "p", Some(missing)),
            ("other", (PARENT, "p"), [false, false], "out", None),
            ("other", (PARENT, "p"), [true, false], "p", None),
            ("n", (PARENT, "p"), [false, false], "p", None),
            ("n", (PARENT, "p"), [true, false], "p", Some(stays)),
            ("n", (PARENT, "p"), [true, true], "p", None),
            ("n", (PARENT, "q"), [true, false], "p", None),
            ("n", (TEMPLATE, "p"), [true, false], "p", None),
        ] {
            let mut structure = sketch(&["p", "q", "out", namespace]);
            let fact = structure.namespaces.get_mut(namespace).unwrap();
            (fact.labels, fact.terminating) = ([label].into_iter().collect(), is_going);
            let empty = Forest::unconfigured(settings.clone()).with_accurate(std::sync::Arc::default());
            let form = SubNamespaceFact { name: "n".into(), terminating, ..SubNamespaceFact::default() };
            let found = unfinished(parent, &form, &structure.put_into(empty)).map(|it| said(&it));
            let is_so = match (&found, wanted) {
                (Some(found), Some(wanted)) => found.starts_with(&format!("SubNamespace p/n: {wanted}")),
                (found, wanted) => found.is_none() && wanted.is_none(),
            };
            assert!(is_so, "{namespace} {label:?} {terminating} {is_going} {parent}: {found:?}");
        }
    }

    #[test]
    fn a_stalled_sub_namespace_and_an_interrupted_move_name_the_command() {
        let form = |reason: &str| {
            let stalled = Stalled { reason: reason.into(), message: "m".into(), observed_generation: 1 };
            let status = SubNamespaceStatus { stalled: Some(stalled), ..SubNamespaceStatus::default() };
            SubNamespaceFact { name: "n".into(), status, ..SubNamespaceFact::default() }
        };
        let forest = Forest::unconfigured(std::sync::Arc::new(crate::structure::settings()));
        let conflict = said(&stalled("p", &form(CONFLICT), (&forest, &[])).unwrap());
        assert!(conflict.starts_with("SubNamespace p/n: m (Conflict)"), "{conflict}");
        assert!(conflict.contains("kubectl accurate sub graft n p"), "{conflict}");
        let other = said(&stalled("p", &form("InvalidParent"), (&forest, &[])).unwrap());
        assert!(other.contains("kubectl delete") && !other.contains("sub move"), "{other}");
        let mut structure = sketch(&["p", "q"]);
        for (name, parent) in [("p", "q"), ("q", "n")] {
            structure.namespaces.get_mut(name).unwrap().labels = [(PARENT, parent)].into_iter().collect();
        }
        let empty = Forest::unconfigured(std::sync::Arc::new(crate::structure::settings()));
        let below = structure.put_into(empty.with_accurate(std::sync::Arc::default()));
        let cycle = said(&stalled("p", &form("Cycle"), (&below, &[])).unwrap());
        assert!(cycle.contains("Make q a root: `kubectl accurate sub cut q`."), "{cycle}");
        let itself = said(&stalled("n", &form(CONFLICT), (&forest, &[])).unwrap());
        assert!(itself.ends_with("-n n` deletes it, and no namespace."), "{itself}");
        assert!(stalled("p", &SubNamespaceFact::default(), (&forest, &[])).is_none());
        let settings = forest::Settings::new("home", ["n"], ".*").unwrap();
        let excluding = Forest::unconfigured(std::sync::Arc::new(settings));
        let excluded = said(&stalled("p", &form(CONFLICT), (&excluding, &[])).unwrap());
        assert!(excluded.contains("include it again") && !excluded.contains("sub graft"), "{excluded}");
        let mut structure = sketch(&["p", "a", "n", "h", "c < h"]);
        structure.namespaces.get_mut("n").unwrap().labels = [(PARENT, "a")].into_iter().collect();
        let empty = Forest::unconfigured(std::sync::Arc::new(crate::structure::settings()));
        let forest = structure.put_into(empty.with_accurate(std::sync::Arc::default()));
        let labelled = SubNamespaceFact { labels: [("team", "x")].into_iter().collect(), ..form(CONFLICT) };
        let in_hnc = SubNamespaceFact { name: "c".into(), ..form(CONFLICT) };
        for (form, own, wanted) in [
            (&labelled, &labelled, "and no namespace. `kubectl accurate sub move n p` puts"),
            (
                &labelled,
                &SubNamespaceFact { name: "n".into(), ..SubNamespaceFact::default() },
                "first; then `kubectl accurate sub move n p` puts",
            ),
            (&in_hnc, &labelled, "anchors there; then `kubectl accurate sub graft c p` puts"),
        ] {
            let text = said(&stalled("p", form, (&forest, &[("a".into(), own.clone())])).unwrap());
            assert!(text.contains(wanted), "{text}");
        }
        assert!(said(&interrupted("n", "a", Some("b"))).ends_with("`kubectl accurate sub move n b`."));
        assert!(said(&interrupted("n", "a", None)).ends_with("`kubectl accurate sub cut n`."));
    }
}
