//! What to do about refusals, which have the same text in Accurate: of the creation and the deletion of sub-namespaces, of a parent or
//! a template, and of another type.

mod others;

use std::collections::BTreeSet;

use forest::accurate::why::Frozen;
use forest::{EdgeKind, Unmanaged};
use hns_api::accurate::labels::{TYPE_ROOT, TYPE_TEMPLATE};

use self::others::before_change;
pub(in crate::commands) use self::others::{before_deletion, cascades, despite_children};
use super::place::{self, Mode, Place};
use super::untyped;
use crate::Failure;
use crate::commands::doctor::accurate::reason;
use crate::published;
use crate::session::Session;

/// The reason of a refusal to delete a namespace that others name as their parent or their template.
pub(in crate::commands) const CHILDREN_EXIST: &str = "child namespaces exist";

/// A request that was refused.
#[derive(Debug, Clone, Copy)]
pub(super) enum Request<'a> {
    /// To create a sub-namespace of this name in this parent.
    Create(&'a str, &'a str),
    /// To delete this sub-namespace.
    Delete(&'a str),
    /// To give this namespace such an upstream namespace, the last one.
    Below(EdgeKind, &'a str, &'a str),
    /// To change the type of this namespace, or to remove its template. A cut gives it the type root.
    Own(&'a str),
}

impl<'a> Request<'a> {
    /// What it names as the parent or the template.
    fn above(self) -> Option<(EdgeKind, &'a str)> {
        match self {
            Self::Create(_, parent) => Some((EdgeKind::Parent, parent)),
            Self::Below(kind, _, above) => Some((kind, above)),
            Self::Delete(_) | Self::Own(_) => None,
        }
    }

    /// The namespace that it changes.
    fn changed(self) -> Option<&'a str> {
        match self {
            Self::Below(_, name, _) | Self::Own(name) => Some(name),
            Self::Create(..) | Self::Delete(_) => None,
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
    if let Some(way) = of_sub_namespace(request, reason) {
        if let Some(typed) = request.changed()
            && let Ok(place) = place::read(session, typed).await
            && let Some(hint) = of_typed(typed, &place)
        {
            return failure.with_hint(hint);
        }
        return failure.with_hint(match way {
            Way::Unset(name) => {
                let way = format!("`kubectl accurate template unset {name}` removes its template.");
                let next = |place| Ok(Place { template: None, ..place });
                Box::pin(unless_denied(session, name, next, way)).await
            }
            Way::Cut(name, needs) => format!("{needs}{}", Box::pin(way_to_cut(session, name)).await),
        });
    }
    match (fault(reason), request.above()) {
        (Some(Frozen::NotLeading(kind, above)), _) => {
            let Ok(mut place) = place::read(session, &above).await else {
                return failure.with_hint(unread(kind, &above));
            };
            let is_marked = place.is_in_hnc;
            place.look_into_hnc(session, &above).await;
            let settings = published::settings_beside_accurate(session).await;
            let excluded = settings.and_then(|it| it.unmanaged(&above));
            let (hint, new_type) = unfit((request, kind), &above, (&place, is_marked), excluded.as_ref());
            let Some(new_type) = new_type else { return failure.with_hint(hint) };
            let next = |place| Ok(Place { kind: Some(new_type.to_owned()), ..place });
            failure.with_hint(Box::pin(unless_denied(session, &above, next, hint)).await)
        }
        (Some(Frozen::Missing(missing)), Some((kind, above))) if *missing == *above => {
            failure.with_hint(absent(kind, above))
        }
        (Some(Frozen::Missing(missing)), Some((_, above))) => {
            let mut below = below_missing(session, above, &missing).await;
            if let (None, Request::Below(_, name, _)) = (&below, request) {
                below = below_missing(session, name, &missing).await;
            }
            failure.with_hint(absent_above(&missing, below.as_ref()))
        }
        (Some(Frozen::Missing(missing)), None) if let Request::Own(name) = request => {
            match below_missing(session, name, &missing).await {
                None => failure,
                below => failure.with_hint(absent_above(&missing, below.as_ref())),
            }
        }
        _ => failure,
    }
}

/// What makes a type or a template possible.
#[derive(Debug, PartialEq, Eq)]
enum Way<'a> {
    /// To remove the template of the namespace.
    Unset(&'a str),
    /// To make the namespace a root. The text says why that may not be needed.
    Cut(&'a str, &'static str),
}

/// What to do if the reason of a refusal is that a sub-namespace has no type and no template.
fn of_sub_namespace<'a>(request: Request<'a>, reason: &str) -> Option<Way<'a>> {
    let has_template = reason.ends_with("a sub-namespace cannot have a template");
    match request {
        Request::Below(EdgeKind::Parent, name, _) if has_template => Some(Way::Unset(name)),
        Request::Own(name) | Request::Below(_, name, _)
            if has_template || reason.ends_with("a sub-namespace cannot be a root or a template") =>
        {
            let needs = if has_template { "" } else { "A sub-namespace needs no type to be a template. " };
            Some(Way::Cut(name, needs))
        }
        _ => None,
    }
}

/// What to do about a sub-namespace that has a type already: then every change of its place is refused.
fn of_typed(name: &str, place: &Place) -> Option<String> {
    let (Some(_), Some(kind)) = (&place.parent, &place.kind) else { return None };
    let (what, command) = match &place.template {
        None => ("it", untyped(name, false)),
        Some(_) => ("it and the template", untyped(name, true)),
    };
    Some(format!("{name} has the type {kind}, which a sub-namespace cannot have: {command} removes {what}."))
}

/// The way to change the place of a namespace, with the reason why that is refused at present, if it is: a dry run tells.
async fn unless_denied(
    session: &Session,
    name: &str,
    next: impl Fn(Place) -> Result<Place, Failure>,
    way: String,
) -> String {
    match place::change(session, name, Mode::DryRun, next).await {
        Err(refused) if refused.text.contains(" denied the request: ") => {
            format!("{way} At present, this is refused: {}.", refused.clause())
        }
        _ => way,
    }
}

/// How a sub-namespace becomes a root, or why it cannot: a dry run tells.
async fn way_to_cut(session: &Session, name: &str) -> String {
    let next = |place| Ok(Place { parent: None, kind: Some(TYPE_ROOT.to_owned()), ..place });
    let Err(refused) = place::change(session, name, Mode::DryRun, next).await else {
        return cut(name, None, None);
    };
    let first = match named_by(&refused.text) {
        Some((kind, name)) => Some(before_change(session, kind, name).await),
        None => None,
    };
    cut(name, Some(&refused), first.as_deref())
}

/// The same; `first` is what to do before.
fn cut(name: &str, refused: Option<&Failure>, first: Option<&str>) -> String {
    let way = format!("`kubectl accurate sub cut {name}` makes it a root, and no sub-namespace any more.");
    match (refused, first) {
        (None, _) => way,
        (Some(_), Some(first)) => format!("{first}\nThen {way}"),
        (Some(refused), None) => format!("It cannot be made a root: {}.", refused.clause()),
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

/// What to do about a namespace that cannot have sub-namespaces, or cannot be a template, and the type that it needs, if that helps. In one
/// that is in HNC's hierarchy, but not marked so, activities are halted: no subnamespace can be created.
fn unfit(
    (request, kind): (Request<'_>, EdgeKind),
    above: &str,
    (place, is_marked): (&Place, bool),
    excluded: Option<&Unmanaged>,
) -> (String, Option<&'static str>) {
    let is_template = kind == EdgeKind::Template;
    if let Some(why) = excluded {
        let effect = if is_template { "is no template" } else { "has no sub-namespaces" };
        return (format!("{above} {why}, so it {effect}."), None);
    }
    let hint = match (request, place.kind.as_deref()) {
        (Request::Create(name, _), _) if is_marked => format!(
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
            let new_type = new_type(kind);
            let way =
                format!("`kubectl accurate namespace set-type {above} {new_type}` makes it a {new_type}.");
            return (way, Some(new_type));
        }
    };
    (hint, None)
}

/// The same for a namespace that cannot be read.
fn unread(kind: EdgeKind, above: &str) -> String {
    let new_type = new_type(kind);
    format!(
        "You cannot read namespace {above}. If it is in no hierarchy, an admin of it can make it a {new_type}: `kubectl accurate namespace \
         set-type {above} {new_type}`."
    )
}

/// The type of a namespace that can be such an upstream namespace.
fn new_type(kind: EdgeKind) -> &'static str {
    match kind {
        EdgeKind::Parent => TYPE_ROOT,
        EdgeKind::Template => TYPE_TEMPLATE,
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
fn absent_above(missing: &str, below: Option<&(String, Place)>) -> String {
    let Some((name, place)) = below else {
        return format!("{missing} does not exist; `kubectl accurate doctor` says what to do.");
    };
    let (edge, what) = match place.parent {
        Some(_) => (EdgeKind::Parent, "parent"),
        None => (EdgeKind::Template, "template"),
    };
    let has_both = place.parent.is_some() && place.template.is_some();
    let (_, way) = reason(&Frozen::Missing(missing.into()), (name, Some(edge), has_both));
    format!("{missing}, the {what} of {name}, does not exist. {way}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_is_not_made_a_root_to_have_sub_namespaces() {
        const TO_ROOT: &str = "`kubectl accurate namespace set-type p root` makes it a root.";
        const TO_TEMPLATE: &str = "`kubectl accurate namespace set-type p template` makes it a template.";
        const IS_TEMPLATE: &str = "p is a template, which can have no sub-namespaces.";
        const IN_HNC: &str = "p is in HNC's hierarchy: see `kubectl hns describe p`.";
        let place = |kind: &str, is_in_hnc| Place { kind: Some(kind.into()), is_in_hnc, ..Place::default() };
        let settings = forest::Settings::new("home", ["p"], ".*").unwrap();
        let (excluded, create) = (settings.unmanaged("p"), (Request::Create("n", "p"), EdgeKind::Parent));
        let [parent, template] =
            [EdgeKind::Parent, EdgeKind::Template].map(|kind| (Request::Below(kind, "n", "p"), kind));
        for (request, place, excluded, wanted) in [
            (create, place("template", false), None, IS_TEMPLATE),
            (parent, place("template", false), None, IS_TEMPLATE),
            (template, place("root", false), None, "p is a root, which can be no template."),
            (create, Place::default(), None, TO_ROOT),
            (parent, Place::default(), None, TO_ROOT),
            (template, Place::default(), None, TO_TEMPLATE),
            ((Request::Own("n"), EdgeKind::Template), Place::default(), None, TO_TEMPLATE),
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
            let (hint, new_type) = unfit(request, "p", (&place, place.is_in_hnc), excluded);
            assert_eq!((&*hint, new_type.is_some()), (wanted, wanted.contains(" set-type ")));
        }
    }

    #[test]
    fn no_subnamespace_is_offered_where_activities_are_halted() {
        let place = Place { is_in_hnc: true, ..Place::default() };
        let found = unfit((Request::Create("n", "p"), EdgeKind::Parent), "p", (&place, false), None).0;
        assert_eq!(found, "p is in HNC's hierarchy: see `kubectl hns describe p`.");
    }

    #[test]
    fn how_a_sub_namespace_gets_a_type_or_loses_its_template_is_said() {
        let (typed, templated) =
            ("a sub-namespace cannot be a root or a template", "a sub-namespace cannot have a template");
        let below = |kind| Request::Below(kind, "n", "p");
        let needs = "A sub-namespace needs no type to be a template. ";
        for (request, reason, wanted) in [
            (Request::Own("n"), typed, Some(Way::Cut("n", needs))),
            (Request::Own("n"), templated, Some(Way::Cut("n", ""))),
            (below(EdgeKind::Template), templated, Some(Way::Cut("n", ""))),
            (below(EdgeKind::Parent), templated, Some(Way::Unset("n"))),
            (below(EdgeKind::Parent), "circular reference is not permitted", None),
            (Request::Delete("n"), templated, None),
        ] {
            assert_eq!(of_sub_namespace(request, reason), wanted, "{reason}");
        }
    }

    #[test]
    fn a_type_that_a_sub_namespace_cannot_have_is_removed_with_its_template() {
        let text = |it: &str| Some(it.to_owned());
        for (parent, template, kind, wanted) in [
            (None, None, text("root"), None),
            (text("p"), text("t"), None, None),
            (
                text("p"),
                None,
                text("root"),
                Some(("`kubectl accurate namespace set-type n none`", " removes it.")),
            ),
            (
                text("p"),
                text("t"),
                text("root"),
                Some((
                    "`kubectl label namespace n accurate.cybozu.com/type- accurate.cybozu.com/template-`",
                    " removes it and the template.",
                )),
            ),
        ] {
            let wanted = wanted.map(|(command, end)| {
                format!("n has the type root, which a sub-namespace cannot have: {command}{end}")
            });
            assert_eq!(of_typed("n", &Place { kind, parent, template, ..Place::default() }), wanted);
        }
    }

    #[test]
    fn a_cut_that_would_be_refused_is_not_shown_alone() {
        let way = "`kubectl accurate sub cut n` makes it a root, and no sub-namespace any more.";
        assert_eq!(cut("n", None, None), way);
        let refused = Failure::new("Error: no");
        assert_eq!(cut("n", Some(&refused), Some("First a.")), format!("First a.\nThen {way}"));
        assert_eq!(cut("n", Some(&refused), None), "It cannot be made a root: no.");
    }

    #[test]
    fn the_reason_says_which_namespace_is_at_fault() {
        let referencing = named_by("x \"n\" is forbidden: there are namespaces referencing n");
        assert_eq!(referencing, Some((EdgeKind::Template, "n")));
        assert_eq!(named_by("there are sub-namespaces under n"), Some((EdgeKind::Parent, "n")));
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
            (None, "gone does not exist; `kubectl accurate doctor` says what to do."),
        ] {
            let found = absent_above("gone", below.as_ref());
            assert!(found.starts_with(wanted), "{found}");
        }
        assert_eq!(absent(EdgeKind::Parent, "t"), place::ALL);
        assert!(absent(EdgeKind::Template, "t").starts_with("The template t does not exist. `kubectl get"));
    }
}
