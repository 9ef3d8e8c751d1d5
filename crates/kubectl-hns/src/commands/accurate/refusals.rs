//! What to do about refusals, which have the same text in Accurate: of the creation and the deletion of sub-namespaces, of a parent or
//! a template, and of another type.

use std::collections::{BTreeMap, BTreeSet};

use forest::accurate::why::Frozen;
use forest::{EdgeKind, Unmanaged};
use hns_api::accurate::SubNamespace;
use hns_api::accurate::conditions::STALLED;
use hns_api::accurate::labels::{PARENT, TEMPLATE, TYPE_ROOT, TYPE_TEMPLATE};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::ListParams;

use super::labels;
use super::place::{self, Place};
use crate::commands::doctor::accurate::reason;
use crate::session::Session;
use crate::{Failure, published};

/// The reason of a refusal to delete a namespace that others name as their parent or their template.
pub(in crate::commands) const CHILDREN_EXIST: &str = "child namespaces exist";

/// A request that was refused.
#[derive(Debug, Clone, Copy)]
pub(super) enum Request<'a> {
    /// To create a sub-namespace of this name in this parent.
    Create(&'a str, &'a str),
    /// To delete this sub-namespace.
    Delete(&'a str),
    /// To give a namespace this parent or this template.
    Below(EdgeKind, &'a str),
    /// To change the type of a namespace: a cut gives it the type root.
    Type,
}

impl<'a> Request<'a> {
    /// What it names as the parent or the template.
    fn above(self) -> Option<(EdgeKind, &'a str)> {
        match self {
            Self::Create(_, parent) => Some((EdgeKind::Parent, parent)),
            Self::Below(kind, above) => Some((kind, above)),
            Self::Delete(_) | Self::Type => None,
        }
    }
}

/// The result of a write, with what to do about its refusal.
pub(super) async fn explained<T>(
    written: Result<T, Failure>,
    session: &Session,
    request: Request<'_>,
) -> Result<T, Failure> {
    match written {
        Err(failure) => {
            let reason = failure.text.clone();
            Err(Box::pin(with_way(failure, session, request, &reason)).await)
        }
        done => done,
    }
}

/// The failure with what to do about this refusal.
pub(super) async fn with_way(
    failure: Failure,
    session: &Session,
    request: Request<'_>,
    reason: &str,
) -> Failure {
    if let Request::Delete(name) = request
        && reason.ends_with(CHILDREN_EXIST)
    {
        return failure.with_hint(Box::pin(despite_children(session, name)).await);
    }
    if let Some((kind, name)) = named_by(reason) {
        return failure.with_hint(Box::pin(before_change(session, kind, name)).await);
    }
    match (fault(reason), request.above()) {
        (Some(Frozen::NotLeading(_, above)), _) => {
            let place = place::read(session, &above).await.unwrap_or_default();
            let settings = labels::settings(session).await;
            let excluded = settings.and_then(|it| it.unmanaged(&above));
            failure.with_hint(unfit(request, &above, &place, excluded.as_ref()))
        }
        (Some(Frozen::Missing(missing)), Some((kind, above))) if *missing == *above => {
            failure.with_hint(absent(kind, above))
        }
        (Some(Frozen::Missing(missing)), Some((_, above))) => {
            let below = below_missing(session, above, &missing).await;
            failure.with_hint(absent_above(&missing, above, below.as_ref()))
        }
        _ => failure,
    }
}

/// The namespace that cannot be changed, and what it is for the others that name it, if they are the reason of a refusal.
fn named_by(reason: &str) -> Option<(EdgeKind, &str)> {
    let after = |text| reason.rsplit_once(text).map(|(_, name)| name);
    let parent = after("there are sub-namespaces under ").map(|name| (EdgeKind::Parent, name));
    parent.or_else(|| after("there are namespaces referencing ").map(|name| (EdgeKind::Template, name)))
}

/// What is wrong with the parent or the template, or above it, if that is the reason of a refusal.
fn fault(reason: &str) -> Option<Frozen> {
    let before = |end| reason.strip_suffix(end)?.rsplit(' ').next();
    let not_leading = |kind, end| before(end).map(|name| Frozen::NotLeading(kind, name.into()));
    let missing = || {
        let after = reason.rsplit_once("namespace does not exist: ").map(|(_, name)| name);
        after.or_else(|| before(" is not found"))
    };
    not_leading(EdgeKind::Parent, " is neither a root nor a sub namespace")
        .or_else(|| not_leading(EdgeKind::Parent, " is not a valid root namespace"))
        .or_else(|| not_leading(EdgeKind::Template, " is not a valid template namespace"))
        .or_else(|| missing().map(|name| Frozen::Missing(name.into())))
}

/// What to do about a namespace that cannot have sub-namespaces, or cannot be a template.
fn unfit(request: Request<'_>, above: &str, place: &Place, excluded: Option<&Unmanaged>) -> String {
    let is_template = matches!(request, Request::Below(EdgeKind::Template, _));
    if let Some(why) = excluded {
        let effect = if is_template { "is no template" } else { "has no sub-namespaces" };
        return format!("{above} {why}, so it {effect}.");
    }
    match (request, place.kind.as_deref()) {
        (Request::Create(name, _), _) if place.is_in_hnc => format!(
            "{above} is in HNC's hierarchy: `kubectl hns create {name} -n {above}` creates a subnamespace."
        ),
        _ if place.is_in_hnc => {
            format!("{above} is in HNC's hierarchy: see `kubectl hns describe {above}`.")
        }
        (_, Some(TYPE_ROOT)) if is_template => format!("{above} is a root, which can be no template."),
        (_, Some(TYPE_TEMPLATE)) if !is_template => {
            format!("{above} is a template, which can have no sub-namespaces.")
        }
        _ => {
            let kind = if is_template { TYPE_TEMPLATE } else { TYPE_ROOT };
            format!("`kubectl accurate namespace set-type {above} {kind}` makes it a {kind}.")
        }
    }
}

/// What to do about a parent or a template that does not exist. Accurate calls both the parent.
fn absent(kind: EdgeKind, name: &str) -> String {
    match kind {
        EdgeKind::Parent => place::ALL.to_owned(),
        EdgeKind::Template => format!("The template {name} does not exist. {}", place::ALL),
    }
}

/// The namespace, this one or one above it, whose labels name the missing one, and its place.
async fn below_missing(session: &Session, start: &str, missing: &str) -> Option<(String, Place)> {
    let mut seen = BTreeSet::new();
    let mut name = start.to_owned();
    while seen.insert(name.clone()) {
        let place = place::read(session, &name).await.ok()?;
        let next = place.parent.clone().or_else(|| place.template.clone())?;
        if next == missing {
            return Some((name, place));
        }
        name = next;
    }
    None
}

/// What to do about a missing namespace above another one; `below` is the one that names it, if the user may read that.
fn absent_above(missing: &str, above: &str, below: Option<&(String, Place)>) -> String {
    let Some((name, place)) = below else {
        return format!(
            "{missing}, which is above {above}, does not exist; `kubectl accurate doctor` says what to do."
        );
    };
    let (edge, what) = match place.parent {
        Some(_) => (EdgeKind::Parent, "parent"),
        None => (EdgeKind::Template, "template"),
    };
    let has_both = place.parent.is_some() && place.template.is_some();
    let (_, way) = reason(&Frozen::Missing(missing.into()), (name, Some(edge), has_both));
    format!("{missing}, the {what} of {name}, does not exist. {way}")
}

/// Names, and whether each is being deleted; `None` if the user may not list them.
type Names = Option<BTreeMap<String, bool>>;

/// Whether the settings of hns allow that a namespace is deleted together with the namespaces below it. Not, where they are not known.
pub(super) async fn cascades(session: &Session) -> bool {
    matches!(published::accurate(session).await, Ok(Some(settings)) if settings.allow_cascading_deletion)
}

/// How to delete a namespace that others name as their parent or their template.
pub(in crate::commands) async fn despite_children(session: &Session, name: &str) -> String {
    before_deletion(session, name, cascades(session).await).await
}

/// The same; `cascades` says whether the settings allow cascading deletion.
pub(super) async fn before_deletion(session: &Session, name: &str, cascades: bool) -> String {
    let forms = session.within::<SubNamespace>(name);
    let forms = async || -> Names {
        let found = session.list(&forms, &ListParams::default()).await.ok()?;
        Some(found.into_iter().filter(|it| !is_stalled(it)).map(|it| named(it.metadata)).collect())
    };
    let (children, forms, instances, place) = futures::join!(
        named_in(session, PARENT, name),
        forms(),
        named_in(session, TEMPLATE, name),
        place::read(session, name)
    );
    let is_no_template = place.is_ok_and(|it| it.kind.as_deref() != Some(TYPE_TEMPLATE));
    let instances = instances.or(is_no_template.then(BTreeMap::new));
    without_others(name, [&children, &forms], &instances, Some(cascades))
}

/// What to do before another change of a namespace that others name as their parent or their template.
async fn before_change(session: &Session, kind: EdgeKind, name: &str) -> String {
    let none = Some(BTreeMap::new());
    let (children, instances) = match kind {
        EdgeKind::Parent => (named_in(session, PARENT, name).await, none),
        EdgeKind::Template => (none, named_in(session, TEMPLATE, name).await),
    };
    without_others(name, [&children, &None], &instances, None)
}

/// The namespaces that name this one in this label.
async fn named_in(session: &Session, label: &str, name: &str) -> Names {
    let params = ListParams::default().labels(&format!("{label}={name}"));
    let found = session.list_metadata(&session.all::<Namespace>(), &params).await.ok()?;
    Some(found.into_iter().map(|it| named(it.metadata)).collect())
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
    let [delete, keep] = fates(forms.is_some() && !owned.is_empty(), cascades);
    // They are no obstacle to a cascading deletion.
    let (ending, again) = if cascades == Some(true) {
        (Vec::new(), "")
    } else {
        (ending, " If you have deleted them, try again when they are gone.")
    };
    let unset = "First remove their template: `kubectl accurate template unset INSTANCE`.";
    let hidden = |what: &str, how: &str| format!("You may not list the {what} of {name}. {how}");
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
fn fates(are_owned: bool, cascades: Option<bool>) -> [String; 2] {
    let elsewhere = "give them another parent: `kubectl accurate sub move NAMESPACE PARENT`; or make them roots: \
                     `kubectl accurate sub cut NAMESPACE`.";
    let Some(cascades) = cascades else { return [format!("First {elsewhere}"), String::new()] };
    if cascades {
        let which = if are_owned { "They" } else { "Those with a SubNamespace" };
        return [
            format!("{which} are deleted as well."),
            format!("They stay, and lose their parent. To prevent that, first {elsewhere}"),
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
        let referencing = named_by("x \"n\" is forbidden: there are namespaces referencing n");
        assert_eq!(referencing, Some((EdgeKind::Template, "n")));
        assert_eq!(named_by("there are sub-namespaces under n"), Some((EdgeKind::Parent, "n")));
        for (children, instances, wanted) in [
            (
                names("a", false),
                none.clone(),
                "Sub-namespaces of n: a. First give them another parent: `kubectl accurate sub move NAMESPACE PARENT`; or make them \
                 roots: `kubectl accurate sub cut NAMESPACE`.",
            ),
            (names("a", true), none.clone(), "Sub-namespaces of n that are being deleted: a. Try again"),
            (none.clone(), names("i", false), "Instances of n: i. First remove their template: "),
            (none, None, "You may not list the instances of n. First remove their template: "),
        ] {
            let found = without_others("n", [&children, &None], &instances, None);
            assert!(found.starts_with(wanted) && !found.contains("eleted as well"), "{found}");
        }
    }

    #[test]
    fn what_a_cascading_deletion_takes_along_is_said() {
        let names =
            |all: &[&str]| -> Names { Some(all.iter().map(|it| ((*it).to_owned(), false)).collect()) };
        let ending: Names = Some([("a".to_owned(), true)].into());
        for (children, forms, wanted) in [
            (names(&["a"]), names(&["a"]), "Sub-namespaces of n: a. They are deleted as well."),
            (names(&["a"]), None, "Sub-namespaces of n: a. Those with a SubNamespace are deleted as well."),
            (
                names(&["a"]),
                names(&[]),
                "Sub-namespaces of n by their label only: a. They stay, and lose their parent. To",
            ),
            (ending.clone(), ending, ""),
            (names(&[]), names(&[]), ""),
            (
                None,
                None,
                "You may not list the sub-namespaces of n. Those with a SubNamespace are deleted as well.",
            ),
        ] {
            let found = without_others("n", [&children, &forms], &names(&[]), Some(true));
            assert!(found.starts_with(wanted) && found.is_empty() == wanted.is_empty(), "{found}");
        }
    }

    #[test]
    fn a_template_is_not_made_a_root_to_have_sub_namespaces() {
        const TO_ROOT: &str = "`kubectl accurate namespace set-type p root` makes it a root.";
        const TO_TEMPLATE: &str = "`kubectl accurate namespace set-type p template` makes it a template.";
        const IS_TEMPLATE: &str = "p is a template, which can have no sub-namespaces.";
        const IN_HNC: &str = "p is in HNC's hierarchy: see `kubectl hns describe p`.";
        let place = |kind: &str, is_in_hnc| Place { kind: Some(kind.into()), is_in_hnc, ..Place::default() };
        let settings = forest::Settings::new("home", ["p"], ".*").unwrap();
        let (excluded, create) = (settings.unmanaged("p"), Request::Create("n", "p"));
        let [parent, template] = [EdgeKind::Parent, EdgeKind::Template].map(|kind| Request::Below(kind, "p"));
        for (request, place, excluded, wanted) in [
            (create, place("template", false), None, IS_TEMPLATE),
            (parent, place("template", false), None, IS_TEMPLATE),
            (template, place("root", false), None, "p is a root, which can be no template."),
            (create, Place::default(), None, TO_ROOT),
            (parent, Place::default(), None, TO_ROOT),
            (template, Place::default(), None, TO_TEMPLATE),
            (
                create,
                place("", true),
                None,
                "p is in HNC's hierarchy: `kubectl hns create n -n p` creates a subnamespace.",
            ),
            (parent, place("", true), None, IN_HNC),
            (template, place("", true), None, IN_HNC),
            (
                parent,
                Place::default(),
                excluded.as_ref(),
                "p is excluded by excludedNamespaces in the settings of hns, so it has no sub-namespaces.",
            ),
            (
                template,
                place("template", true),
                excluded.as_ref(),
                "p is excluded by excludedNamespaces in the settings of hns, so it is no template.",
            ),
        ] {
            assert_eq!(unfit(request, "p", &place, excluded), wanted);
        }
    }

    #[test]
    fn the_reason_says_which_namespace_is_at_fault() {
        let unfit = |kind| Some(Frozen::NotLeading(kind, "p".into()));
        for (reason, wanted) in [
            (
                "x \"n\" is forbidden: namespace p is neither a root nor a sub namespace",
                unfit(EdgeKind::Parent),
            ),
            ("p is not a valid root namespace", unfit(EdgeKind::Parent)),
            ("x \"n\" is forbidden: p is not a valid template namespace", unfit(EdgeKind::Template)),
            ("x \"n\" is forbidden: parent namespace does not exist: p", Some(Frozen::Missing("p".into()))),
            ("namespace does not exist: p", Some(Frozen::Missing("p".into()))),
            ("x \"n\" is forbidden: namespace p is not found", Some(Frozen::Missing("p".into()))),
            ("namespaces \"p\" not found", None),
            (CHILDREN_EXIST, None),
        ] {
            assert_eq!(fault(reason), wanted, "{reason}");
        }
    }

    #[test]
    fn who_names_a_missing_namespace_is_said() {
        let of = |parent: &str, template: &str| {
            let some = |text: &str| Some(text.to_owned()).filter(|it| !it.is_empty());
            ("n".to_owned(), Place { parent: some(parent), template: some(template), ..Place::default() })
        };
        for (below, wanted) in [
            (
                Some(of("gone", "")),
                "gone, the parent of n, does not exist. As an admin of the cluster, create it, or remove the parent of n: \
                 `kubectl accurate sub cut n`.",
            ),
            (Some(of("", "gone")), "gone, the template of n, does not exist. "),
            (None, "gone, which is above low, does not exist; `kubectl accurate doctor` says what to do."),
        ] {
            let found = absent_above("gone", "low", below.as_ref());
            assert!(found.starts_with(wanted), "{found}");
        }
        assert_eq!(absent(EdgeKind::Parent, "t"), place::ALL);
        assert!(absent(EdgeKind::Template, "t").starts_with("The template t does not exist. `kubectl get"));
    }
}
