//! What to do about refusals of the creation and the deletion of sub-namespaces, which have the same text in Accurate.

use std::collections::{BTreeMap, BTreeSet};

use hns_api::accurate::SubNamespace;
use hns_api::accurate::conditions::STALLED;
use hns_api::accurate::labels::{PARENT, TEMPLATE, TYPE_TEMPLATE};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::ListParams;

use super::place::{self, Place};
use crate::Failure;
use crate::session::Session;

/// The reason of a refusal to delete a namespace that others name as their parent or their template.
pub(in crate::commands) const CHILDREN_EXIST: &str = "child namespaces exist";

/// The failure with what to do about this refusal.
pub(super) async fn with_way(failure: Failure, session: &Session, name: &str, reason: &str) -> Failure {
    if reason.ends_with(CHILDREN_EXIST) {
        return failure.with_hint(Box::pin(despite_children(session, name)).await);
    }
    let Some(parent) = no_parent(reason) else { return failure };
    let place = place::read(session, parent).await.unwrap_or_default();
    failure.with_hint(below(name, parent, &place))
}

/// The namespace that cannot have sub-namespaces, if that is the reason of a refusal.
fn no_parent(reason: &str) -> Option<&str> {
    reason.strip_suffix(" is neither a root nor a sub namespace")?.rsplit(' ').next()
}

/// What to do about a parent that cannot have sub-namespaces.
fn below(name: &str, parent: &str, place: &Place) -> String {
    if place.is_in_hnc {
        return format!(
            "{parent} is in HNC's hierarchy: `kubectl hns create {name} -n {parent}` creates a subnamespace."
        );
    }
    if place.kind.as_deref() == Some(TYPE_TEMPLATE) {
        return format!("{parent} is a template, which can have no sub-namespaces.");
    }
    format!("`kubectl accurate namespace set-type {parent} root` makes it a root.")
}

/// Names, and whether each is being deleted; `None` if the user may not list them.
type Names = Option<BTreeMap<String, bool>>;

/// How to delete a namespace that others name as their parent or their template.
pub(in crate::commands) async fn despite_children(session: &Session, name: &str) -> String {
    let namespaces = session.all::<Namespace>();
    let named_in = async |label: &str| -> Names {
        let params = ListParams::default().labels(&format!("{label}={name}"));
        let found = session.list_metadata(&namespaces, &params).await.ok()?;
        Some(found.into_iter().map(|it| named(it.metadata)).collect())
    };
    let forms = session.within::<SubNamespace>(name);
    let forms = async || -> Names {
        let found = session.list(&forms, &ListParams::default()).await.ok()?;
        Some(found.into_iter().filter(|it| !is_stalled(it)).map(|it| named(it.metadata)).collect())
    };
    let (children, forms, instances, place) =
        futures::join!(named_in(PARENT), forms(), named_in(TEMPLATE), place::read(session, name));
    let is_no_template = place.is_ok_and(|it| it.kind.as_deref() != Some(TYPE_TEMPLATE));
    let instances = instances.or(is_no_template.then(BTreeMap::new));
    without_others(name, [&children, &forms], &instances)
}

fn named(metadata: ObjectMeta) -> (String, bool) {
    (metadata.name.unwrap_or_default(), metadata.deletion_timestamp.is_some())
}

/// Whether it has no namespace, and creates none.
fn is_stalled(form: &SubNamespace) -> bool {
    let conditions = form.status.iter().flat_map(|it| it.conditions.iter().flatten());
    conditions.into_iter().any(|it| it.type_ == STALLED && it.status == "True")
}

/// The same; `forms` are the `SubNamespaces` in the namespace.
fn without_others(name: &str, [children, forms]: [&Names; 2], instances: &Names) -> String {
    let known = [children, forms].into_iter().flatten();
    let all: BTreeSet<&str> = known.flat_map(BTreeMap::keys).map(String::as_str).collect();
    // A SubNamespace that stays creates its namespace again.
    let is_ending =
        |it: &str| [forms, children].into_iter().flatten().find_map(|names| names.get(it)) == Some(&true);
    let (ending, staying): (Vec<&str>, Vec<&str>) = all.iter().partition(|it| is_ending(it));
    let has_form = |it: &&str| forms.as_ref().is_none_or(|names| names.contains_key(*it));
    let (owned, labelled): (Vec<&str>, Vec<&str>) = staying.into_iter().partition(has_form);
    let which = if forms.is_some() && !owned.is_empty() { "they" } else { "those with a SubNamespace" };
    let delete = format!(
        "Delete them first. With the setting accurate.allowCascadingDeletion {which} are deleted as well."
    );
    let unset = "First remove their template: `kubectl accurate template unset INSTANCE`.";
    let hidden = |what: &str, how: &str| format!("You may not list the {what} of {name}. {how}");
    let line = |what: &str, names: &[&str], how: &str| {
        (!names.is_empty()).then(|| format!("{what}: {}. {how}", names.join(", ")))
    };
    let lines = [
        line(&format!("Sub-namespaces of {name}"), &owned, &delete),
        line(
            &format!("Sub-namespaces of {name} by their label only"),
            &labelled,
            "Delete them first, or give them another parent: `kubectl accurate sub move NAMESPACE PARENT`; or make them roots: \
             `kubectl accurate sub cut NAMESPACE`. With the setting accurate.allowCascadingDeletion they stay, and lose their parent.",
        ),
        line(
            &format!("Sub-namespaces of {name} that are being deleted"),
            &ending,
            "Try again when they are gone.",
        ),
        (children.is_none() && all.is_empty()).then(|| {
            hidden(
                "sub-namespaces",
                &format!("{delete} If you have deleted them, try again when they are gone."),
            )
        }),
        match instances {
            Some(names) => line(
                &format!("Instances of {name}"),
                &names.keys().map(String::as_str).collect::<Vec<_>>(),
                unset,
            ),
            None => Some(hidden("instances", unset)),
        },
    ];
    lines.into_iter().flatten().collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_to_be_done_before_a_deletion_is_said() {
        // A name that ends with "-" is being deleted.
        let names = |all: &[&str]| -> Names {
            let one = |it: &&str| (it.trim_end_matches('-').to_owned(), it.ends_with('-'));
            Some(all.iter().map(one).collect())
        };
        let as_well = |who: &str| {
            format!("With the setting accurate.allowCascadingDeletion {who} are deleted as well.")
        };
        let they = format!("Delete them first. {}", as_well("they"));
        let some = format!("Delete them first. {}", as_well("those with a SubNamespace"));
        let unset = "First remove their template: `kubectl accurate template unset INSTANCE`.";
        let [none, hidden] = [names(&[]), None];
        for (children, forms, instances, wanted) in [
            (
                names(&["a", "b"]),
                names(&["a", "b"]),
                &none,
                vec![format!("Sub-namespaces of n: a, b. {they}")],
            ),
            (names(&["a"]), None, &none, vec![format!("Sub-namespaces of n: a. {some}")]),
            (names(&[]), names(&["a"]), &none, vec![format!("Sub-namespaces of n: a. {they}")]),
            (None, names(&["a"]), &none, vec![format!("Sub-namespaces of n: a. {they}")]),
            (
                names(&["a", "b", "c-", "d", "e-"]),
                names(&["a", "c", "d-"]),
                &none,
                vec![
                    format!("Sub-namespaces of n: a, c. {they}"),
                    "Sub-namespaces of n by their label only: b. ".to_owned(),
                    "Sub-namespaces of n that are being deleted: d, e. Try again when they are gone."
                        .to_owned(),
                ],
            ),
            (none.clone(), none.clone(), &names(&["c"]), vec![format!("Instances of n: c. {unset}")]),
            (None, none.clone(), &none, vec![format!("You may not list the sub-namespaces of n. {some}")]),
            (
                None,
                None,
                &hidden,
                vec![
                    format!("You may not list the sub-namespaces of n. {some}"),
                    format!("You may not list the instances of n. {unset}"),
                ],
            ),
        ] {
            let found = without_others("n", [&children, &forms], instances);
            let lines: Vec<&str> = found.lines().collect();
            assert_eq!(lines.len(), wanted.len(), "{found}");
            assert!(lines.iter().zip(&wanted).all(|(line, wanted)| line.starts_with(wanted)), "{found}");
        }
    }

    #[test]
    fn a_template_is_not_made_a_root_to_have_sub_namespaces() {
        let place = |kind: &str, is_in_hnc| Place { kind: Some(kind.into()), is_in_hnc, ..Place::default() };
        for (place, wanted) in [
            (place("template", false), "p is a template, which can have no sub-namespaces."),
            (Place::default(), "`kubectl accurate namespace set-type p root` makes it a root."),
            (place("", true), "p is in HNC's hierarchy: `kubectl hns create n -n p` creates a subnamespace."),
        ] {
            assert_eq!(below("n", "p", &place), wanted);
        }
        for (reason, parent) in [
            ("x \"n\" is forbidden: namespace p is neither a root nor a sub namespace", Some("p")),
            (CHILDREN_EXIST, None),
        ] {
            assert_eq!(no_parent(reason), parent);
        }
    }
}
