//! Checks `SubNamespaces`: those without a namespace, and those that an interrupted move left.

use std::collections::BTreeSet;

use forest::accurate::SubNamespaceFact;
use forest::accurate::why::{Frozen, frozen};
use forest::{Forest, Name, NamespaceFact};
use hns_api::accurate::annotations::MOVED_FROM;
use hns_api::accurate::conditions::CONFLICT;
use hns_api::accurate::labels::PARENT;

use super::super::anchors::{NOT_CREATED, NOT_DELETED};
use super::super::{Finding, some};
use super::{SUBJECT, reason};
use crate::commands::accurate::place::Original;
use crate::commands::accurate::sub;

/// A `SubNamespace` without its namespace.
pub(super) fn stalled(
    parent: &str,
    form: &SubNamespaceFact,
    (forest, forms): (&Forest, &[(Name, SubNamespaceFact)]),
) -> Option<Finding> {
    let (name, condition) = (&form.name, form.status.stalled.as_ref()?);
    let delete = deletion(parent, name);
    let hint = if let Some(why) = forest.shared_settings().unmanaged(name) {
        format!("The namespace {name} {why}: include it again, or delete the SubNamespace. {delete}.")
    } else if *condition.reason == *CONFLICT && **name != *parent {
        taken((parent, form), &delete, (forest, forms))
    } else if let Some(child) = child_above(forest, parent, name) {
        // Namespaces that name a missing one keep it from being created.
        let is_other =
            |it: &Name| **it != *child && forest.accurate_upstream(it).is_some_and(|it| *it == *name);
        if forest.names().any(is_other) {
            format!("{delete}.")
        } else {
            format!(
                "Make {child} a root: `kubectl accurate sub cut {child}`. The controller then creates {name} below {parent}. Or: {delete}."
            )
        }
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
    format!("{}, and no namespace", sub::to_delete_form(parent, name))
}

/// A `SubNamespace` whose namespace has still to be created, or to be deleted with it: both take a moment if nothing is wrong.
pub(super) fn unfinished(parent: &str, form: &SubNamespaceFact, forest: &Forest) -> Option<Finding> {
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
    (forest, forms): (&Forest, &[(Name, SubNamespaceFact)]),
) -> String {
    let name = &form.name;
    let above = forest.accurate_parent(name);
    if forest.namespace_version(name).is_none() {
        return format!(
            "There is no namespace {name}: other namespaces name it as their parent or template, or another SubNamespace of that name \
             creates it. {delete}."
        );
    }
    let own = forms.iter().find(|(namespace, it)| Some(namespace) == above && it.name == *name);
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
    if forest.is_terminating(name) {
        let what_next = match own.filter(|(_, own)| !own.terminating) {
            Some((other, _)) => {
                format!(
                    "its own SubNamespace {other}/{name} creates it again. This one stays in conflict: {delete}."
                )
            }
            None => format!(
                "this SubNamespace creates it again below {parent}. To prevent that, delete the SubNamespace. {delete}."
            ),
        };
        return format!("The namespace {name} is being deleted; when it is gone, {what_next}");
    }
    // Nothing below a halted namespace can be changed.
    if let Some(Frozen::Crossed(halted)) = frozen(forest, name) {
        let way_out = reason(&Frozen::Crossed(halted.clone()), (name, None, false)).1;
        return format!(
            "The namespace {name} {place}; {halted} is halted, because it is in both hierarchies. {way_out}"
        );
    }
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

/// A move or a cut that is not finished: the `SubNamespace` that it still had to delete is left.
pub(super) fn interrupted(namespace: &NamespaceFact, forms: &[(Name, SubNamespaceFact)]) -> Option<Finding> {
    let Original { namespace: from, .. } = left(namespace, forms)?;
    let NamespaceFact { name, labels, .. } = namespace;
    let command =
        labels.get(PARENT).map_or_else(|| format!("cut {name}"), |parent| format!("move {name} {parent}"));
    Some(Finding::wrong(
        format!("namespace {name}"),
        format!(
            "it was moved out of {from} by a command that was interrupted, so SubNamespace {from}/{name} is left"
        ),
        format!("Finish it: `kubectl accurate sub {command}`."),
    ))
}

/// The parents and names of the `SubNamespaces` that interrupted commands left, which [`interrupted`] reports.
pub(super) fn left_over(
    namespaces: &[NamespaceFact],
    forms: &[(Name, SubNamespaceFact)],
) -> BTreeSet<(Name, Name)> {
    let place = |it: &NamespaceFact| Some((left(it, forms)?.namespace.as_str().into(), it.name.clone()));
    namespaces.iter().filter_map(place).collect()
}

/// The namespaces with the mark of a move or a cut that has nothing left to do. Who loses the rights in a namespace by moving it cannot
/// remove the mark.
pub(super) fn marked_in_vain(
    namespaces: &[NamespaceFact],
    forms: &[(Name, SubNamespaceFact)],
) -> Option<Finding> {
    let in_vain = |it: &&NamespaceFact| mark(it).is_some_and(|mark| !is_left(it, &mark, forms));
    let names: Vec<String> = namespaces.iter().filter(in_vain).map(|it| it.name.to_string()).collect();
    (!names.is_empty()).then(|| {
        Finding::note(
            SUBJECT,
            format!(
                "the annotation {MOVED_FROM} of {} has no effect; `kubectl annotate namespace {} {MOVED_FROM}-` removes it",
                some(&names),
                names.join(" ")
            ),
        )
    })
}

/// The `SubNamespace` that the mark of a move or a cut names. A namespace that is being deleted cannot be moved; a `SubNamespace` that is
/// left then is in conflict.
fn mark(namespace: &NamespaceFact) -> Option<Original> {
    Original::read(namespace.annotations.get(MOVED_FROM)?).filter(|_| !namespace.terminating)
}

/// The `SubNamespace` that an interrupted command left.
fn left(namespace: &NamespaceFact, forms: &[(Name, SubNamespaceFact)]) -> Option<Original> {
    mark(namespace).filter(|it| is_left(namespace, it, forms))
}

/// Whether the `SubNamespace` exists, and the namespace does not belong to it.
fn is_left(namespace: &NamespaceFact, original: &Original, forms: &[(Name, SubNamespaceFact)]) -> bool {
    let Original { namespace: from, uid } = original;
    let is_it = |(parent, form): &(Name, SubNamespaceFact)| {
        **parent == **from && form.name == namespace.name && *form.version.uid == **uid && !form.terminating
    };
    namespace.labels.get(PARENT) != Some(from) && forms.iter().any(is_it)
}

#[cfg(test)]
mod tests {
    use forest::Version;
    use forest::accurate::{Stalled, SubNamespaceStatus};
    use hns_api::accurate::labels::TEMPLATE;

    use super::*;
    use crate::commands::doctor::accurate::tests::said;
    use crate::structure::tests::sketch;

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
    fn a_sub_namespace_in_conflict_creates_a_namespace_again_that_is_being_deleted() {
        let stalled = Stalled { reason: CONFLICT.into(), message: "m".into(), observed_generation: 1 };
        let status = SubNamespaceStatus { stalled: Some(stalled), ..SubNamespaceStatus::default() };
        let form = SubNamespaceFact { name: "n".into(), status, ..SubNamespaceFact::default() };
        let own = |terminating| {
            [("q".into(), SubNamespaceFact { name: "n".into(), terminating, ..SubNamespaceFact::default() })]
        };
        for (is_going, others, creator) in [
            (true, &[][..], "this SubNamespace creates it again below p."),
            (true, &own(true), "this SubNamespace creates it again below p."),
            (true, &own(false), "its own SubNamespace q/n creates it again."),
            (false, &own(false), "n has the parent q."),
        ] {
            let mut structure = sketch(&["p", "q", "n"]);
            let namespace = structure.namespaces.get_mut("n").unwrap();
            namespace.terminating = is_going;
            namespace.labels = others.iter().map(|_| (PARENT, "q")).collect();
            let empty = Forest::unconfigured(std::sync::Arc::new(crate::structure::settings()));
            let forest = structure.put_into(empty.with_accurate(std::sync::Arc::default()));
            let text = said(&super::stalled("p", &form, (&forest, others)).unwrap());
            assert!(text.contains(creator), "{text}");
            assert_eq!(text.contains("n is being deleted; when it is gone, "), is_going, "{text}");
            assert_eq!(text.contains("To prevent that"), creator.starts_with("this"), "{text}");
            assert_eq!(text.contains("sub move n p"), !is_going, "{text}");
            assert!(text.contains("kubectl delete subnamespaces.accurate.cybozu.com n -n p"), "{text}");
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
        assert!(
            conflict.contains("There is no namespace n: ") && !conflict.contains("sub graft"),
            "{conflict}"
        );
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
        let mut other = structure.namespaces["q"].clone();
        other.name = "o".into();
        structure.namespaces.insert(other.name.clone(), other);
        let empty = Forest::unconfigured(std::sync::Arc::new(crate::structure::settings()));
        let below = structure.put_into(empty.with_accurate(std::sync::Arc::default()));
        let cycle = said(&stalled("p", &form("Cycle"), (&below, &[])).unwrap());
        assert!(!cycle.contains("The controller then creates"), "{cycle}");
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
        let left = |parent: &str, uid: &str, terminating| {
            let version = Version { uid: uid.into(), ..Version::default() };
            let form =
                SubNamespaceFact { name: "n".into(), version, terminating, ..SubNamespaceFact::default() };
            [(Name::from(parent), form)]
        };
        let in_vain = Some(
            "trees of Accurate: the annotation internal.accurate.cybozu.com/moved-from of n has no effect;",
        );
        for (parent, terminating, forms, wanted, note) in [
            (
                Some("b"),
                false,
                left("a", "uid", false),
                Some("is left Finish it: `kubectl accurate sub move n b`."),
                None,
            ),
            (
                None,
                false,
                left("a", "uid", false),
                Some("is left Finish it: `kubectl accurate sub cut n`."),
                None,
            ),
            (Some("b"), true, left("a", "uid", false), None, None),
            (None, false, left("a", "other", false), None, in_vain),
            (None, false, left("a", "uid", true), None, in_vain),
            (Some("b"), false, left("b", "uid", false), None, in_vain),
            (Some("a"), false, left("a", "uid", false), None, in_vain),
        ] {
            let namespace = NamespaceFact {
                name: "n".into(),
                labels: parent.map(|it| (PARENT, it)).into_iter().collect(),
                annotations: [(MOVED_FROM, "a/uid")].into_iter().collect(),
                terminating,
                ..NamespaceFact::default()
            };
            let vain = marked_in_vain(std::slice::from_ref(&namespace), &forms).map(|it| said(&it));
            assert!(
                vain.is_some() == note.is_some()
                    && vain.unwrap_or_default().starts_with(note.unwrap_or_default())
            );
            let found = interrupted(&namespace, &forms).map(|it| said(&it));
            assert_eq!(found.is_some(), wanted.is_some(), "{found:?}");
            assert!(found.unwrap_or_default().ends_with(wanted.unwrap_or_default()), "{parent:?}");
        }
    }
}
