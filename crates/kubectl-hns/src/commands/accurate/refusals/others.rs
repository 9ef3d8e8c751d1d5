//! The namespaces that name one as their parent or their template, and what to do about them before it is changed or deleted.

use std::collections::{BTreeMap, BTreeSet};

use forest::{EdgeKind, Settings};
use hns_api::accurate::SubNamespace;
use hns_api::accurate::conditions::STALLED;
use hns_api::accurate::labels::{PARENT, TEMPLATE};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::ListParams;

use crate::commands::accurate::place;
use crate::published;
use crate::session::Session;

/// Names, and whether each is being deleted; `None` if the user may not list them.
type Names = Option<BTreeMap<String, bool>>;

/// Without those that the settings exclude: they are no obstacle.
fn managed(names: Names, settings: Option<&Settings>) -> Names {
    let is_managed = |name: &str| settings.is_none_or(|it| it.is_managed(name));
    names.map(|it| it.into_iter().filter(|(name, _)| is_managed(name)).collect())
}

/// Whether the settings of hns allow that a namespace is deleted together with the namespaces below it. Not, where they are not known.
pub(in crate::commands) async fn cascades(session: &Session) -> bool {
    matches!(published::accurate(session).await, Ok(Some(settings)) if settings.allow_cascading_deletion)
}

/// How to delete a namespace that others name as their parent or their template.
pub(in crate::commands) async fn despite_children(session: &Session, name: &str) -> String {
    before_deletion(session, name, cascades(session).await).await
}

/// The same; `cascades` says whether the settings allow cascading deletion.
pub(in crate::commands) async fn before_deletion(session: &Session, name: &str, cascades: bool) -> String {
    let (children, forms, instances, place, settings) = futures::join!(
        named_in(session, PARENT, name),
        forms_in(session, name),
        named_in(session, TEMPLATE, name),
        place::read(session, name),
        Box::pin(published::settings_beside_accurate(session))
    );
    let [children, forms, instances] = [children, forms, instances].map(|it| managed(it, settings.as_ref()));
    let is_no_template = place.is_ok_and(|it| !it.leads(EdgeKind::Template));
    let instances = instances.or(is_no_template.then(BTreeMap::new));
    without_others(name, [&children, &forms], &instances, Some(cascades))
}

/// What to do before another change of a namespace that others name as their parent or their template.
pub(super) async fn before_change(session: &Session, kind: EdgeKind, name: &str) -> String {
    let none = Some(BTreeMap::new());
    let (children, instances) = match kind {
        EdgeKind::Parent => match named_in(session, PARENT, name).await {
            None => (forms_in(session, name).await, none),
            children => (children, none),
        },
        EdgeKind::Template => (none, named_in(session, TEMPLATE, name).await),
    };
    let settings = published::settings_beside_accurate(session).await;
    let [children, instances] = [children, instances].map(|it| managed(it, settings.as_ref()));
    without_others(name, [&children, &None], &instances, None)
}

/// The namespaces that name this one in this label.
async fn named_in(session: &Session, label: &str, name: &str) -> Names {
    let params = ListParams::default().labels(&format!("{label}={name}"));
    let found = session.list_metadata(&session.all::<Namespace>(), &params).await.ok()?;
    Some(found.into_iter().map(|it| named(it.metadata)).collect())
}

/// The `SubNamespaces` in this namespace that have a namespace, or create one.
async fn forms_in(session: &Session, name: &str) -> Names {
    let forms = session.within::<SubNamespace>(name);
    let found = session.list(&forms, &ListParams::default()).await.ok()?;
    Some(found.into_iter().filter(|it| !is_stalled(it)).map(|it| named(it.metadata)).collect())
}

fn named(metadata: ObjectMeta) -> (String, bool) {
    (metadata.name.unwrap_or_default(), metadata.deletion_timestamp.is_some())
}

/// Whether it has no namespace, and creates none.
fn is_stalled(form: &SubNamespace) -> bool {
    let conditions = form.status.iter().flat_map(|it| it.conditions.iter().flatten());
    conditions.into_iter().any(|it| it.type_ == STALLED && it.status == "True")
}

/// The same; `forms` are the `SubNamespaces` in the namespace. `cascades` is `None` if the namespace is not to be deleted.
fn without_others(
    name: &str,
    [children, forms]: [&Names; 2],
    instances: &Names,
    cascades: Option<bool>,
) -> String {
    let known = [children, forms].into_iter().flatten();
    let all: BTreeSet<&str> = known.flat_map(BTreeMap::keys).map(String::as_str).collect();
    // A SubNamespace that stays creates its namespace again.
    let is_ending =
        |it: &str| [forms, children].into_iter().flatten().find_map(|names| names.get(it)) == Some(&true);
    let (ending, staying): (Vec<&str>, Vec<&str>) = all.iter().partition(|it| is_ending(it));
    let has_form = |it: &&str| forms.as_ref().is_none_or(|names| names.contains_key(*it));
    let (owned, labelled): (Vec<&str>, Vec<&str>) = staying.into_iter().partition(has_form);
    let [delete, keep] = fates(name, forms.is_some() && !owned.is_empty(), cascades);
    // They are no obstacle to a cascading deletion.
    let (ending, again) = if cascades == Some(true) {
        (Vec::new(), "")
    } else {
        (ending, " If you have deleted them, try again when they are gone.")
    };
    let unset = "First remove their template: `kubectl accurate template unset INSTANCE`.";
    let hidden = |what: &str, how: &str| {
        format!("You may not list namespaces, so {name} may have {what} that are not named here. {how}")
    };
    let line = |what: &str, names: &[&str], how: &str| {
        (!names.is_empty()).then(|| format!("{what}: {}. {how}", names.join(", ")))
    };
    let lines = [
        line(&format!("Sub-namespaces of {name}"), &owned, &delete),
        line(&format!("Sub-namespaces of {name} by their label only"), &labelled, &keep),
        line(
            &format!("Sub-namespaces of {name} that are being deleted"),
            &ending,
            "Try again when they are gone.",
        ),
        (children.is_none() && all.is_empty()).then(|| hidden("sub-namespaces", &format!("{delete}{again}"))),
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

/// What becomes of sub-namespaces with a `SubNamespace`, and of those by their label only, or what to do about them first. `are_owned` says
/// whether the first are known to have one. Another change than a deletion does not ask which have one.
fn fates(name: &str, are_owned: bool, cascades: Option<bool>) -> [String; 2] {
    let elsewhere = "give them another parent: `kubectl accurate sub move NAMESPACE PARENT`; or make them roots: \
                     `kubectl accurate sub cut NAMESPACE`.";
    let Some(cascades) = cascades else { return [format!("First {elsewhere}"), String::new()] };
    if cascades {
        let which = if are_owned { "they" } else { "those with a SubNamespace" };
        return [
            format!("If {name} is deleted, {which} are deleted as well, with those below them."),
            format!(
                "If {name} is deleted, they stay, and lose their parent. To prevent that, first {elsewhere}"
            ),
        ];
    }
    let which = if are_owned { "they" } else { "those with a SubNamespace" };
    let setting = "With the setting accurate.allowCascadingDeletion";
    [
        format!("Delete them first. {setting} {which} are deleted as well."),
        format!("Delete them first, or {elsewhere} {setting} they stay, and lose their parent."),
    ]
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
            (
                None,
                none.clone(),
                &none,
                vec![format!(
                    "You may not list namespaces, so n may have sub-namespaces that are not named here. {some}"
                )],
            ),
            (
                None,
                None,
                &hidden,
                vec![
                    format!(
                        "You may not list namespaces, so n may have sub-namespaces that are not named here. {some}"
                    ),
                    format!(
                        "You may not list namespaces, so n may have instances that are not named here. {unset}"
                    ),
                ],
            ),
        ] {
            let found = without_others("n", [&children, &forms], instances, Some(false));
            let lines: Vec<&str> = found.lines().collect();
            assert_eq!(lines.len(), wanted.len(), "{found}");
            assert!(lines.iter().zip(&wanted).all(|(line, wanted)| line.starts_with(wanted)), "{found}");
        }
    }

    #[test]
    fn a_change_deletes_nothing() {
        let names = |name: &str, is_ending| -> Names { Some([(name.to_owned(), is_ending)].into()) };
        let none = Some(BTreeMap::new());
        for (children, instances, wanted) in [
            (
                names("a", false),
                none.clone(),
                "Sub-namespaces of n: a. First give them another parent: `kubectl accurate sub move NAMESPACE PARENT`; or make them \
                 roots: `kubectl accurate sub cut NAMESPACE`.",
            ),
            (names("a", true), none.clone(), "Sub-namespaces of n that are being deleted: a. Try again"),
            (none.clone(), names("i", false), "Instances of n: i. First remove their template: "),
            (
                none,
                None,
                "You may not list namespaces, so n may have instances that are not named here. First remove their template: ",
            ),
        ] {
            let found = without_others("n", [&children, &None], &instances, None);
            assert!(found.starts_with(wanted) && !found.contains("eleted as well"), "{found}");
        }
    }

    #[test]
    fn excluded_namespaces_are_no_obstacle() {
        let settings = Settings::new("home", ["out"], ".*").unwrap();
        let names: Names = Some([("a".to_owned(), false), ("out".to_owned(), false)].into());
        assert_eq!(managed(names.clone(), Some(&settings)), Some([("a".to_owned(), false)].into()));
        assert_eq!(managed(names.clone(), None), names);
    }

    #[test]
    fn what_a_cascading_deletion_takes_along_is_said() {
        let names =
            |all: &[&str]| -> Names { Some(all.iter().map(|it| ((*it).to_owned(), false)).collect()) };
        let ending: Names = Some([("a".to_owned(), true)].into());
        for (children, forms, wanted) in [
            (
                names(&["a"]),
                names(&["a"]),
                "Sub-namespaces of n: a. If n is deleted, they are deleted as well, with those below them.",
            ),
            (
                names(&["a"]),
                None,
                "Sub-namespaces of n: a. If n is deleted, those with a SubNamespace are deleted as well, with those below them.",
            ),
            (
                names(&["a"]),
                names(&[]),
                "Sub-namespaces of n by their label only: a. If n is deleted, they stay, and lose their parent. To",
            ),
            (ending.clone(), ending, ""),
            (names(&[]), names(&[]), ""),
            (
                None,
                None,
                "You may not list namespaces, so n may have sub-namespaces that are not named here. If n is deleted, those with a SubNamespace are deleted as well, with those below them.",
            ),
        ] {
            let found = without_others("n", [&children, &forms], &names(&[]), Some(true));
            assert!(found.starts_with(wanted) && found.is_empty() == wanted.is_empty(), "{found}");
        }
    }
}
