//! `sub move`, `sub graft` and `sub cut`: the writes and their order.
//!
//! The label of the parent decides which `SubNamespace` a namespace belongs to. So the new one is created first, in conflict, with the
//! spec of the old one: whatever refuses it, such as a naming policy, refuses before anything has changed. The label is changed next, and
//! the old one is deleted last. The write of the label records in an annotation whose `SubNamespace` has still to be deleted. After an
//! interruption at any point nothing is lost, and the same command goes on from there.

use clap::Args;
use forest::core::name::PERMANENT;
use forest::{EdgeKind, Settings, Unmanaged};
use hns_api::accurate::annotations::MOVED_FROM;
use hns_api::accurate::labels::TYPE_ROOT;
use hns_api::accurate::{GROUP, SubNamespace, SubNamespaceSpec};

use super::place::{self, Mode, Original, Place};
use super::refusals::{self, Request};
use super::{forms, labels, no_sub_namespace};
use crate::failure::{Done, Problem};
use crate::session::Session;
use crate::user_rights::{self, Right};
use crate::{Failure, Terminal, published};

/// Move a sub-namespace, and everything below it, below another parent.
///
/// The new `SubNamespace` has the spec of the old one. No namespace is deleted at any time. If the command is
/// interrupted, run it again to finish the move.
#[derive(Debug, Args)]
pub(crate) struct Move {
    /// The sub-namespace.
    #[arg(value_name = "NAMESPACE", value_parser = crate::flags::namespace)]
    pub(super) namespace: String,

    /// The new parent.
    #[arg(value_name = "PARENT", value_parser = crate::flags::namespace)]
    pub(super) parent: String,

    /// Leave the original `SubNamespace`, whose status shows a conflict then. When the namespace is deleted with its new
    /// `SubNamespace`, the original creates it again.
    #[arg(long)]
    pub(super) leave_original: bool,
}

/// Make a namespace a sub-namespace.
///
/// The namespace loses its type and its template. If the command is interrupted, run it again to finish.
#[derive(Debug, Args)]
pub(crate) struct Graft {
    /// The namespace, which is not a sub-namespace.
    #[arg(value_name = "NAMESPACE", value_parser = crate::flags::namespace)]
    pub(super) namespace: String,

    /// The parent.
    #[arg(value_name = "PARENT", value_parser = crate::flags::namespace)]
    pub(super) parent: String,
}

/// Make a sub-namespace a root, with everything below it.
///
/// Its `SubNamespace` is deleted, and the namespace is not. If the command is interrupted, run it again to finish.
#[derive(Debug, Args)]
pub(crate) struct Cut {
    /// The sub-namespace.
    #[arg(value_name = "NAMESPACE", value_parser = crate::flags::namespace)]
    pub(super) namespace: String,
}

pub(crate) async fn move_to(arguments: &Move, session: &Session, terminal: &Terminal) -> Done {
    let Move { namespace: name, parent: to, leave_original } = arguments;
    let (place, settings) = to_move(session, name).await?;
    let from = parent_of(session, &place, (name, to)).await?;
    let earlier = unfinished(&place, Some(to)).filter(|_| !leave_original);
    refuse_to_release(&settings, name, earlier)?;
    if from == *to {
        if place.moved_from.is_some() {
            finish_move((session, terminal), name, earlier).await?;
        }
        terminal.line("parent is not changed");
        return Ok(());
    }
    let (spec, original) = forms_to_move(arguments, session, &from).await?;
    refuse_to_release(&settings, name, original.as_ref())?;
    let mut rights = vec![Right::namespace("update", name)];
    rights.extend(spec.is_some().then(|| Right::of_form("create", to, "")));
    rights.extend(original.is_some().then(|| Right::of_form("delete", &from, name)));
    user_rights::require(session, &rights).await?;
    if earlier.is_some() {
        finish_move((session, terminal), name, earlier).await?;
    }
    let next = |place| moved(place, name, (&from, to), original.as_ref());
    let tried = place::change(session, name, Mode::DryRun, next).await;
    refusals::explained(tried, session, Request::Below(EdgeKind::Parent, name, to)).await?;
    let is_new = match &spec {
        Some(spec) => forms::ensure((session, terminal), to, name, spec).await?,
        None => false,
    };
    // Afterwards, the rights to read this may be lost.
    let lost = user_rights::lost_in_accurate(session, name, (&from, Some(to))).await;
    place::change(session, name, Mode::Store, next).await.map_err(Failure::resumable)?;
    terminal.line(&format!("the parent has changed to {to}"));
    if original.is_some() {
        finish_move((session, terminal), name, original.as_ref()).await?;
    }
    if is_new {
        terminal.line(&format!("created SubNamespace {to}/{name}"));
    }
    if let Some(warning) = lost {
        terminal.warn(&warning);
    }
    Ok(())
}

pub(crate) async fn graft(arguments: &Graft, session: &Session, terminal: &Terminal) -> Done {
    let Graft { namespace: name, parent: to } = arguments;
    let (place, settings) = to_move(session, name).await?;
    let earlier = unfinished(&place, Some(to)).cloned();
    refuse_to_release(&settings, name, earlier.as_ref())?;
    let next = |place| grafted(&place, name, to);
    // An interrupted command of Accurate may have set the parent already.
    let wanted = to_graft(session, &place, (name, to)).await?;
    let mut rights = vec![Right::namespace("update", name)];
    let exists = forms::get(session, to, name).await?.is_some();
    rights.extend((!exists).then(|| Right::of_form("create", to, "")));
    user_rights::require(session, &rights).await?;
    if earlier.is_some() {
        finish_move((session, terminal), name, earlier.as_ref()).await?;
    }
    let tried = place::change(session, name, Mode::DryRun, next).await;
    refusals::explained(tried, session, Request::Below(EdgeKind::Parent, name, to)).await?;
    let lost = lost(session, name, (&place, &wanted)).await;
    let is_new = forms::ensure((session, terminal), to, name, &SubNamespaceSpec::default()).await?;
    let changes = place::change(session, name, Mode::Store, next).await.map_err(Failure::resumable)?;
    if is_new || place.labels() != wanted.labels() {
        terminal.line(&format!("grafted {name} under {to}"));
    } else if changes {
        terminal.line(&unmarked(name));
    } else if earlier.is_none() {
        terminal.line(&already(name, to));
    }
    if let Some(warning) = lost {
        terminal.warn(&warning);
    }
    if PERMANENT.contains(&&**name) {
        terminal.note(&format!(
            "Kubernetes never deletes namespace {name}, so SubNamespace {to}/{name} cannot be deleted; `kubectl accurate sub cut {name}` \
             makes it a root namespace"
        ));
    }
    Ok(())
}

pub(crate) async fn cut(arguments: &Cut, session: &Session, terminal: &Terminal) -> Done {
    let name = &arguments.namespace;
    let (place, settings) = to_move(session, name).await?;
    let earlier = unfinished(&place, None);
    refuse_to_release(&settings, name, earlier)?;
    let Some(from) = &place.parent else {
        let Some(earlier) = earlier else { return Err(not_to_cut(&place, name)) };
        let is_deleted =
            finish((session, terminal), name, Some(earlier)).await.map_err(Failure::resumable)?;
        if place.kind.as_deref() == Some(TYPE_ROOT) {
            terminal.line(&format!("cut {name} as a root namespace"));
        } else if is_deleted {
            terminal.line(&deleted(&earlier.namespace, name));
        }
        return Ok(());
    };
    let original = original(from, forms::get(session, from, name).await?.as_ref());
    refuse_to_release(&settings, name, original.as_ref())?;
    let mut rights = vec![Right::namespace("update", name)];
    rights.extend(original.is_some().then(|| Right::of_form("delete", from, name)));
    user_rights::require(session, &rights).await?;
    if earlier.is_some() {
        finish((session, terminal), name, earlier).await.map_err(Failure::resumable)?;
    }
    let lost = user_rights::lost_in_accurate(session, name, (from, None)).await;
    let next = |place| cut_off(place, name, from, original.as_ref());
    let done = place::change(session, name, Mode::Store, next).await;
    refusals::explained(done, session, Request::Own(name)).await?;
    terminal.line(&format!("cut {name} as a root namespace"));
    if original.is_some() {
        finish((session, terminal), name, original.as_ref()).await.map_err(Failure::resumable)?;
    }
    if let Some(warning) = lost {
        terminal.warn(&warning);
    }
    Ok(())
}

/// The place of a namespace that is to be moved, and the settings. An excluded one is in no tree, whatever its labels say.
pub(super) async fn to_move(session: &Session, name: &str) -> Result<(Place, Settings), Failure> {
    let place = place::to_move(session, name).await?;
    let (settings, _) = published::settings(session).await;
    labels::refuse_unmanaged(&settings, name)?;
    Ok((place, settings))
}

/// Fails if the `SubNamespace` that is to be deleted is in an excluded namespace. The controller does not update its status there, for
/// which the deletion would wait in vain.
pub(super) fn refuse_to_release(settings: &Settings, name: &str, original: Option<&Original>) -> Done {
    let Some(Original { namespace, .. }) = original else { return Ok(()) };
    let Some(why) = settings.unmanaged(namespace) else { return Ok(()) };
    Err(Failure::new(format!(
        "Error: namespace {namespace} {why}, so {name} cannot leave its SubNamespace {namespace}/{name}"
    ))
    .with_hint(match why {
        Unmanaged::Own => format!(
            "First delete the SubNamespace, which deletes no namespace: `kubectl delete subnamespaces.{GROUP} {name} -n {namespace}`."
        ),
        _ => format!("Include {namespace} again in the settings first."),
    }))
}

/// The parent of a sub-namespace that is to be moved.
pub(super) async fn parent_of(
    session: &Session,
    place: &Place,
    (name, to): (&str, &str),
) -> Result<String, Failure> {
    match &place.parent {
        Some(parent) => Ok(parent.clone()),
        None => {
            Err(no_sub_namespace(name, place, None).with_hint(way_below(session, place, (name, to)).await))
        }
    }
}

/// How an existing namespace comes below another parent, or why it cannot: a dry run tells, because the API server refuses it for many
/// reasons.
pub(super) async fn way_below(session: &Session, place: &Place, (name, to): (&str, &str)) -> String {
    if let Some(why) = labels::excluded(session, name).await {
        return format!("It cannot be made a sub-namespace of {to}: it {why}.");
    }
    let verb = match place.parent.as_deref() {
        Some(parent) if parent == to => return format!("It is a sub-namespace of {to} already."),
        Some(_) => "move",
        None => "graft",
    };
    // A move keeps the other labels, which can be a reason to refuse it.
    let next = |place: Place| {
        let kept = if place.parent.is_some() { place } else { Place::default() };
        Ok(Place { parent: Some(to.to_owned()), ..kept })
    };
    let tried = async {
        place::change(session, name, Mode::DryRun, next).await?;
        forms::try_to_create(session, to, name).await?;
        if let Some(from) = place.parent.as_deref() {
            let original = forms::get(session, from, name).await?;
            spec_there(session, (from, original.as_ref()), to, name).await?;
        }
        Ok(())
    };
    way((verb, name, to), place.is_in_hnc, tried.await.err().as_ref())
}

fn way((verb, name, to): (&str, &str, &str), is_in_hnc: bool, refused: Option<&Failure>) -> String {
    match refused {
        None => {
            format!("To make it a sub-namespace of {to}, use `kubectl accurate sub {verb} {name} {to}`.")
        }
        Some(_) if is_in_hnc => {
            format!(
                "It is in HNC's hierarchy, so it cannot be made a sub-namespace of {to}: see `kubectl hns describe {name}`, and \
                 `kubectl hns move --help`."
            )
        }
        Some(failure) => {
            format!("It cannot be made a sub-namespace of {to}: {}.", failure.clause())
        }
    }
}

/// A warning of the rights that the user loses in the namespace if its parent or template changes so.
pub(super) async fn lost(session: &Session, name: &str, (old, new): (&Place, &Place)) -> Option<String> {
    let ((from, _), to) = (old.upstream()?, new.upstream().map(|it| it.0));
    if to == Some(from) { None } else { user_rights::lost_in_accurate(session, name, (from, to)).await }
}

/// The failure of a cut of what is no sub-namespace.
pub(super) fn not_to_cut(place: &Place, name: &str) -> Failure {
    let is_root = place.kind.as_deref() == Some(TYPE_ROOT);
    no_sub_namespace(name, place, is_root.then_some("It is a root namespace already."))
}

/// The spec of the `SubNamespace` that a move has to create, if any, and the original, if it has to be deleted.
pub(super) async fn forms_to_move(
    arguments: &Move,
    session: &Session,
    from: &str,
) -> Result<(Option<SubNamespaceSpec>, Option<Original>), Failure> {
    let Move { namespace: name, parent: to, leave_original } = arguments;
    let found = forms::get(session, from, name).await?;
    let spec = spec_there(session, (from, found.as_ref()), to, name).await?;
    Ok((spec, original(from, found.as_ref()).filter(|_| !leave_original)))
}

pub(super) fn original(namespace: &str, found: Option<&SubNamespace>) -> Option<Original> {
    let uid = found?.metadata.uid.clone()?;
    Some(Original { namespace: namespace.to_owned(), uid })
}

/// The place below the new parent. The original `SubNamespace`, if any, is deleted afterwards.
pub(super) fn moved(
    place: Place,
    name: &str,
    (from, to): (&str, &str),
    original: Option<&Original>,
) -> Result<Place, Failure> {
    match place.parent.as_deref() {
        Some(parent) if parent == from => {
            Ok(Place { parent: Some(to.to_owned()), moved_from: original.cloned(), ..place })
        }
        Some(parent) if parent == to => Ok(place),
        _ => Err(changed_meanwhile(name)),
    }
}

/// The place of a namespace that becomes a sub-namespace.
pub(super) fn grafted(place: &Place, name: &str, to: &str) -> Result<Place, Failure> {
    match place.parent.as_deref().filter(|parent| *parent != to) {
        Some(parent) => Err(Failure::new(format!(
            "Error: {name} is a sub-namespace of {parent}, so it cannot be grafted"
        ))),
        None => Ok(Place { parent: Some(to.to_owned()), is_in_hnc: place.is_in_hnc, ..Place::default() }),
    }
}

/// The same; the failure says how the namespace comes there, or why it cannot.
pub(super) async fn to_graft(
    session: &Session,
    place: &Place,
    (name, to): (&str, &str),
) -> Result<Place, Failure> {
    match grafted(place, name, to) {
        Err(failure) => Err(failure.with_hint(way_below(session, place, (name, to)).await)),
        next => next,
    }
}

/// What is said of a graft that changes nothing.
pub(super) fn already(name: &str, to: &str) -> String {
    format!("{name} is a sub-namespace of {to} already; unchanged")
}

/// The place of a sub-namespace that becomes a root. The original `SubNamespace`, if any, is deleted afterwards.
pub(super) fn cut_off(
    place: Place,
    name: &str,
    from: &str,
    original: Option<&Original>,
) -> Result<Place, Failure> {
    if place.parent.as_deref() != Some(from) {
        return Err(changed_meanwhile(name));
    }
    Ok(Place { parent: None, kind: Some(TYPE_ROOT.to_owned()), moved_from: original.cloned(), ..place })
}

/// The `SubNamespace` that an interrupted command has left to be deleted. The one in `to` is needed again.
pub(super) fn unfinished<'a>(place: &'a Place, to: Option<&str>) -> Option<&'a Original> {
    let is_needed = |namespace: &str| [to, place.parent.as_deref()].contains(&Some(namespace));
    place.moved_from.as_ref().filter(|it| !is_needed(&it.namespace))
}

/// [`finish`], with the line that says what was done.
async fn finish_move(
    (session, terminal): (&Session, &Terminal),
    name: &str,
    original: Option<&Original>,
) -> Done {
    let is_deleted = finish((session, terminal), name, original).await.map_err(Failure::resumable)?;
    if let Some(Original { namespace, .. }) = original.filter(|_| is_deleted) {
        terminal.line(&deleted(namespace, name));
    }
    Ok(())
}

/// Deletes the `SubNamespace` that the namespace has left, and the mark that this was still to be done. False if it was gone already.
/// Another one of its name stays. The mark stays if the user's right to remove it came from the namespaces above, and was lost.
async fn finish(
    (session, terminal): (&Session, &Terminal),
    name: &str,
    original: Option<&Original>,
) -> Result<bool, Failure> {
    let is_deleted = match original {
        Some(Original { namespace, uid }) => {
            forms::release((session, terminal), namespace, name, Some(uid)).await?
        }
        None => false,
    };
    let without_mark = |place| Ok(Place { moved_from: None, ..place });
    match place::attempt(session, name, Mode::Store, without_mark).await? {
        Ok(_) if !is_deleted => terminal.line(&unmarked(name)),
        Ok(_) => {}
        Err(problem) => match original.and_then(|it| mark_stays(name, it, &problem)) {
            Some(note) => terminal.note(&note),
            None => return Err(place::unchanged(name, &problem)),
        },
    }
    Ok(is_deleted)
}

fn unmarked(name: &str) -> String {
    format!("removed the annotation {MOVED_FROM} of {name}")
}

/// What is said if the user may not remove the mark. Nothing else is left to be done.
fn mark_stays(name: &str, original: &Original, problem: &Problem) -> Option<String> {
    problem.is_forbidden().then(|| {
        format!(
            "you may no longer update namespace {name}: your rights there came from {}. The annotation {MOVED_FROM} stays on {name} and \
             has no effect; the same command, run by a user who may update {name}, removes it",
            original.namespace
        )
    })
}

/// The spec with which to create the `SubNamespace` in `to`: that of the original. `None` if there is one already. It must not differ
/// from the original, because the namespace would lose labels.
async fn spec_there(
    session: &Session,
    (from, original): (&str, Option<&SubNamespace>),
    to: &str,
    name: &str,
) -> Result<Option<SubNamespaceSpec>, Failure> {
    let spec = original.map(|it| it.spec.clone());
    let Some(there) = forms::get(session, to, name).await? else { return Ok(Some(spec.unwrap_or_default())) };
    if spec.is_none_or(|spec| pairs(&spec) == pairs(&there.spec)) {
        return Ok(None);
    }
    Err(Failure::new(format!(
        "Error: SubNamespace {to}/{name} exists with other labels or annotations than {from}/{name}"
    ))
    .with_hint(format!("Nothing was changed. Make them equal, or delete it: `kubectl delete subnamespaces.{GROUP} {name} -n {to}`.")))
}

/// The labels and annotations of a spec; absent ones are empty ones.
fn pairs(spec: &SubNamespaceSpec) -> [Vec<(&String, &String)>; 2] {
    [&spec.labels, &spec.annotations].map(|map| map.iter().flatten().collect())
}

fn deleted(parent: &str, name: &str) -> String {
    format!("deleted the original SubNamespace {parent}/{name}")
}

fn changed_meanwhile(name: &str) -> Failure {
    Failure::new(format!("Error: the parent of {name} was changed meanwhile"))
        .with_hint("See where it is with `kubectl accurate list`, and run the command again.")
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    fn place(kind: &str, parent: &str, template: &str, moved_from: &str) -> Place {
        let some = |text: &str| Some(text.to_owned()).filter(|it| !it.is_empty());
        let moved_from = some(moved_from).map(|it| of(&it));
        Place {
            kind: some(kind),
            parent: some(parent),
            template: some(template),
            moved_from,
            ..Place::default()
        }
    }

    fn of(namespace: &str) -> Original {
        Original { namespace: namespace.to_owned(), uid: "1".to_owned() }
    }

    #[test]
    fn a_move_changes_the_parent_and_notes_what_is_left_to_do() {
        let from_a =
            |original: Option<&Original>| moved(place("", "a", "", "older"), "n", ("a", "b"), original);
        assert_eq!(from_a(Some(&of("a"))), Ok(place("", "b", "", "a")));
        assert_eq!(from_a(None), Ok(place("", "b", "", "")));
        let there = place("", "b", "", "a");
        assert_eq!(moved(there.clone(), "n", ("a", "b"), Some(&of("a"))), Ok(there));
        for parent in ["c", ""] {
            let failure = moved(place("", parent, "", ""), "n", ("a", "b"), None).unwrap_err();
            assert_eq!(failure.text, "Error: the parent of n was changed meanwhile");
        }
    }

    #[test]
    fn a_graft_takes_type_and_template_away_and_no_sub_namespace() {
        assert_eq!(grafted(&place("root", "", "t", ""), "n", "p"), Ok(place("", "p", "", "")));
        let there = place("", "p", "", "");
        assert_eq!(grafted(&there, "n", "p").as_ref(), Ok(&there));
        let failure = grafted(&place("", "q", "", ""), "n", "p").unwrap_err();
        assert_eq!(failure.text, "Error: n is a sub-namespace of q, so it cannot be grafted");
    }

    #[test]
    fn a_way_that_the_api_server_refuses_is_not_shown() {
        assert!(way(("graft", "n", "p"), false, None).ends_with("use `kubectl accurate sub graft n p`."));
        let refused = Failure::new("Error: namespace n cannot be changed: there are sub-namespaces under n");
        assert_eq!(
            way(("move", "n", "p"), false, Some(&refused)),
            "It cannot be made a sub-namespace of p: namespace n cannot be changed: there are sub-namespaces under n."
        );
        assert_eq!(
            way(("graft", "n", "p"), true, Some(&refused)),
            "It is in HNC's hierarchy, so it cannot be made a sub-namespace of p: see `kubectl hns describe n`, and \
             `kubectl hns move --help`."
        );
    }

    #[test]
    fn no_sub_namespace_in_an_excluded_namespace_is_given_up() {
        let settings = Settings::new("home", ["out"], ".*").unwrap();
        let refuse = |original: Option<&Original>| refuse_to_release(&settings, "n", original);
        assert_eq!((refuse(None), refuse(Some(&of("in")))), (Ok(()), Ok(())));
        let failure = refuse(Some(&of("out"))).unwrap_err();
        assert_eq!(
            failure.text,
            "Error: namespace out is excluded by excludedNamespaces in the settings of hns, so n cannot leave its SubNamespace out/n"
        );
    }

    #[test]
    fn a_cut_makes_a_root() {
        let cut = |place, original: Option<&Original>| cut_off(place, "n", "p", original);
        assert_eq!(cut(place("", "p", "", ""), Some(&of("p"))), Ok(place("root", "", "", "p")));
        assert_eq!(cut(place("", "p", "", ""), None), Ok(place("root", "", "", "")));
        assert!(cut(place("root", "", "", "p"), Some(&of("p"))).is_err());
    }

    #[test]
    fn a_mark_stays_only_if_the_user_has_lost_the_right_to_remove_it() {
        let refused =
            |code, message: &str| Problem::Refused(Box::new(Status { code, ..Status::failure(message, "") }));
        for (problem, wanted) in [
            (
                refused(403, "namespaces \"n\" is forbidden: User \"u\" cannot get resource \"namespaces\""),
                true,
            ),
            (refused(403, "admission webhook \"w\" denied the request: forbidden"), false),
            (refused(404, "namespaces \"n\" not found"), false),
            (Problem::Unreachable("no answer".to_owned()), false),
        ] {
            let note = mark_stays("n", &of("a"), &problem);
            assert_eq!(note.is_some(), wanted, "{problem}");
            let words = "you may no longer update namespace n: your rights there came from a. The annotation";
            assert!(note.is_none_or(|it| it.starts_with(words)));
        }
    }

    #[test]
    fn an_original_is_left_over_if_neither_the_owner_nor_the_target_has_it() {
        let left = place("", "b", "", "a");
        assert_eq!(unfinished(&left, Some("c")), Some(&of("a")));
        assert_eq!(unfinished(&left, Some("b")), Some(&of("a")));
        assert_eq!(unfinished(&left, Some("a")), None, "on the way back");
        assert_eq!(unfinished(&place("", "a", "", "a"), None), None, "it owns the namespace");
        assert_eq!(unfinished(&place("root", "", "", "a"), None), Some(&of("a")));
    }
}
