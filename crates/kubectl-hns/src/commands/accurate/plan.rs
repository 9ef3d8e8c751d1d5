//! `plan`: shows the effects of a change in Accurate's trees without making it. It has the same arguments as the command that makes
//! the change.

use std::collections::BTreeSet;

use clap::{Args, Subcommand};
use forest::preview::{Intent, NamespaceState, Outcome};
use forest::{EdgeKind, Forest, Labels, Name};
use hns_api::accurate::annotations::MOVED_FROM;
use hns_api::accurate::labels::TYPE_ROOT;
use hns_api::accurate::{SubNamespace, SubNamespaceSpec};
use k8s_openapi::api::core::v1::Namespace as Object;

use super::place::{self, Mode, Original, Place};
use super::refusals::Request;
use super::{describe, forms, labels, refusals, relocation, sub};
use crate::cluster_preview::{ClusterPreview, Decision, Document};
use crate::commands::plan::{show, would_have};
use crate::failure::Done;
use crate::format::DataFormat;
use crate::session::Session;
use crate::{Failure, Terminal, user_rights};

/// Show the effects of a change without making it.
///
/// Lists all objects that would be created, updated, overwritten or deleted, from namespace to namespace (as text without the objects of
/// namespaces that would be deleted), all labels and annotations of namespaces that would change, and totals. Leaves out Secrets of
/// types that are never propagated, also where they are deleted with their namespace. Shows whether the change would be refused, with
/// the code and the message; the exit code is 1 in that case. It is 0 if the change would be allowed, and also if it is unknown whether
/// it would be. Nothing is written.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,

    /// Output format.
    #[arg(short, long, value_name = "FORMAT", global = true)]
    output: Option<DataFormat>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The effects of creating, deleting or moving a sub-namespace.
    #[command(subcommand)]
    Sub(Sub),
    /// The effects of setting or removing a template.
    #[command(subcommand)]
    Template(Template),
    /// The effects of setting a type.
    #[command(visible_alias = "ns", subcommand)]
    Namespace(Namespace),
}

#[derive(Debug, Subcommand)]
enum Sub {
    /// The effects of creating a sub-namespace.
    Create(sub::Create),
    /// The effects of deleting a sub-namespace.
    Delete(sub::Delete),
    /// The effects of moving a sub-namespace.
    Move(relocation::Move),
    /// The effects of making a namespace a sub-namespace.
    Graft(relocation::Graft),
    /// The effects of making a sub-namespace a root.
    Cut(relocation::Cut),
}

#[derive(Debug, Subcommand)]
enum Template {
    /// The effects of setting the template of a namespace.
    Set(labels::SetTemplate),
    /// The effects of removing the template of a namespace.
    Unset(labels::UnsetTemplate),
}

#[derive(Debug, Subcommand)]
enum Namespace {
    /// The effects of setting the type of a namespace.
    SetType(labels::SetType),
}

pub(crate) async fn run(arguments: &Arguments, session: &Session, terminal: &Terminal) -> Done {
    describe::served(session).await?;
    let Change { namespaces, lines, intents, lost, notes } = change(&arguments.command, session).await?;
    let concerned: Vec<&str> = namespaces.iter().map(String::as_str).collect();
    let preview = Box::pin(ClusterPreview::open_accurate(session, &concerned, &intents)).await?;
    let mut result = Box::pin(preview.try_all(&intents)).await?;
    if let Some(warning) = lost {
        result.warn(warning);
    }
    // What is refused has no effect.
    if !result.decisions.iter().any(Decision::is_refusal) {
        result.notes.extend(notes);
        result.notes.extend(orphaned(&result.forest, &result.outcome, &result.unread));
    }
    let document = Document::new(lines, &result);
    let Some(failure) = show(&document, arguments.output, terminal)? else { return Ok(()) };
    let reason = document.verdict.message.as_deref().unwrap_or_default();
    Err(refusals::with_way(failure, session, request(&arguments.command), reason).await)
}

/// The request, for an explanation of its refusal.
fn request(command: &Command) -> Request<'_> {
    match command {
        Command::Sub(Sub::Create(it)) => Request::Create(&it.name, &it.parent),
        Command::Sub(Sub::Delete(it)) => Request::Delete(&it.name),
        Command::Sub(
            Sub::Move(relocation::Move { namespace, parent, .. })
            | Sub::Graft(relocation::Graft { namespace, parent }),
        ) => Request::Below(EdgeKind::Parent, namespace, parent),
        Command::Template(Template::Set(it)) => {
            Request::Below(EdgeKind::Template, &it.namespace, &it.template)
        }
        Command::Sub(Sub::Cut(relocation::Cut { namespace }))
        | Command::Template(Template::Unset(labels::UnsetTemplate { namespace }))
        | Command::Namespace(Namespace::SetType(labels::SetType { namespace, .. })) => {
            Request::Own(namespace)
        }
    }
}

/// What a command would do.
#[derive(Debug, Default)]
struct Change {
    /// The namespaces concerned; the first one must exist.
    namespaces: Vec<String>,
    /// In words.
    lines: Vec<String>,
    /// The requests. That for the namespace is the first one: the commands ask about it before they make any.
    intents: Vec<Intent>,
    /// A warning if the user would lose rights.
    lost: Option<String>,
    notes: Vec<String>,
}

async fn change(command: &Command, session: &Session) -> Result<Change, Failure> {
    match command {
        Command::Sub(Sub::Create(it)) => create(it, session).await,
        Command::Sub(Sub::Delete(it)) => delete(it, session).await,
        Command::Sub(Sub::Move(it)) => move_to(it, session).await,
        Command::Sub(Sub::Graft(it)) => graft(it, session).await,
        Command::Sub(Sub::Cut(it)) => cut(it, session).await,
        Command::Template(Template::Set(it)) => {
            labels::refuse_excluded(session, &it.namespace).await?;
            let new = Some(it.template.as_str());
            set(session, (&it.namespace, "template"), |place| &mut place.template, new).await
        }
        Command::Template(Template::Unset(it)) => {
            set(session, (&it.namespace, "template"), |place| &mut place.template, None).await
        }
        Command::Namespace(Namespace::SetType(it)) => {
            let new = labels::label_of(&it.kind)?;
            if new.is_some() {
                labels::refuse_excluded(session, &it.namespace).await?;
            }
            set(session, (&it.namespace, "type"), |place| &mut place.kind, new).await
        }
    }
}

async fn create(arguments: &sub::Create, session: &Session) -> Result<Change, Failure> {
    let sub::Create { name, parent, .. } = arguments;
    let unknown = arguments.is_new(session).await?;
    if let Err(problem) = session.call(session.all::<Object>().get_metadata(parent)).await
        && problem.is_not_found()
    {
        return Err(place::unreadable(parent, &problem));
    }
    Ok(Change {
        namespaces: vec![parent.clone()],
        lines: vec![format!("SubNamespace {name} would be created in {parent}")],
        intents: vec![created(parent, name, &arguments.spec())],
        notes: arguments.without_effect(session).await.into_iter().chain(unknown).collect(),
        ..Change::default()
    })
}

async fn delete(arguments: &sub::Delete, session: &Session) -> Result<Change, Failure> {
    let (name, parent) = (&arguments.name, arguments.parent(session, Mode::DryRun).await?);
    let form = session.call(session.within::<SubNamespace>(&parent).get_metadata_opt(name)).await;
    if matches!(form, Ok(None)) {
        place::to_move(session, name).await?;
        return Err(sub::by_label_only(session, name).await);
    }
    if let Ok(Some(form)) = form
        && let Some(line) = sub::has_begun(&parent, &form.metadata)
    {
        return Ok(Change { namespaces: vec![name.clone(), parent], lines: vec![line], ..Change::default() });
    }
    Ok(Change {
        lines: vec![would_be_deleted(&parent, name)],
        intents: vec![deleted(&parent, name)],
        notes: arguments.keeps(session, &parent).await.into_iter().collect(),
        namespaces: vec![name.clone(), parent],
        ..Change::default()
    })
}

async fn move_to(arguments: &relocation::Move, session: &Session) -> Result<Change, Failure> {
    let relocation::Move { namespace: name, parent: to, leave_original } = arguments;
    let (place, settings) = relocation::to_move(session, name).await?;
    let from = relocation::parent_of(session, &place, (name, to)).await?;
    let earlier = relocation::unfinished(&place, Some(to)).filter(|_| !leave_original);
    relocation::refuse_to_release(&settings, name, earlier)?;
    let left = left_over(session, name, earlier).await?;
    let mut change = Change { namespaces: vec![name.clone(), to.clone(), from.clone()], ..Change::default() };
    if from == *to {
        change.lines.push(format!("The parent of {name} is already {to}; unchanged"));
        change.notes.extend(unmarked(name, place.moved_from.as_ref(), left.as_ref()));
    } else {
        let (spec, original) = relocation::forms_to_move(arguments, session, &from).await?;
        relocation::refuse_to_release(&settings, name, original.as_ref())?;
        let next = relocation::moved(place.clone(), name, (&from, to), original.as_ref())?;
        change.lines.push(would_have(name, "parent", Some(&from), Some(to)));
        change.lost = user_rights::lost_in_accurate(session, name, (&from, Some(to))).await;
        change.intents.extend(labelled(name, &place, &next));
        change.intents.extend(spec.map(|spec| created(to, name, &spec)));
        change.intents.extend(original.map(|original| deleted(&original.namespace, name)));
    }
    change.intents.extend(left);
    Ok(change)
}

/// The deletion of the `SubNamespace` that an interrupted command left, if it is still there.
async fn left_over(
    session: &Session,
    name: &str,
    earlier: Option<&Original>,
) -> Result<Option<Intent>, Failure> {
    let Some(Original { namespace, uid }) = earlier else { return Ok(None) };
    let found = forms::get(session, namespace, name).await?;
    let is_it = found.is_some_and(|it| it.metadata.uid.as_ref() == Some(uid));
    Ok(is_it.then(|| deleted(namespace, name)))
}

/// A note if the command would remove a mark that names nothing that is still to be deleted.
fn unmarked(name: &str, mark: Option<&Original>, left: Option<&Intent>) -> Option<String> {
    (mark.is_some() && left.is_none()).then(|| {
        format!(
            "the command would also remove the annotation {MOVED_FROM}, which an earlier one has left on {name}"
        )
    })
}

async fn graft(arguments: &relocation::Graft, session: &Session) -> Result<Change, Failure> {
    let relocation::Graft { namespace: name, parent: to } = arguments;
    let (place, settings) = relocation::to_move(session, name).await?;
    let next = relocation::to_graft(session, &place, (name, to)).await?;
    let exists = forms::get(session, to, name).await?.is_some();
    let earlier = relocation::unfinished(&place, Some(to));
    relocation::refuse_to_release(&settings, name, earlier)?;
    let left = left_over(session, name, earlier).await?;
    let form = (!exists).then(|| created(to, name, &SubNamespaceSpec::default()));
    let labels = labelled(name, &place, &next);
    let line = if labels.is_none() && form.is_none() {
        relocation::already(name, to)
    } else {
        format!("{name} would be a sub-namespace of {to}")
    };
    Ok(Change {
        namespaces: vec![name.clone(), to.clone()],
        lines: vec![line],
        lost: relocation::lost(session, name, (&place, &next)).await,
        notes: unmarked(name, place.moved_from.as_ref(), left.as_ref()).into_iter().collect(),
        intents: labels.into_iter().chain(form).chain(left).collect(),
    })
}

async fn cut(arguments: &relocation::Cut, session: &Session) -> Result<Change, Failure> {
    let name = &arguments.namespace;
    let (place, settings) = relocation::to_move(session, name).await?;
    let earlier = relocation::unfinished(&place, None);
    relocation::refuse_to_release(&settings, name, earlier)?;
    let left = left_over(session, name, earlier).await?;
    let line = match (earlier, &left) {
        (Some(_), None) if place.parent.is_none() => format!("{name} is no sub-namespace; unchanged"),
        (Some(earlier), Some(_)) if place.parent.is_none() && place.kind.as_deref() != Some(TYPE_ROOT) => {
            would_be_deleted(&earlier.namespace, name)
        }
        _ => format!("{name} would be a root namespace"),
    };
    let mut change = Change { namespaces: vec![name.clone()], lines: vec![line], ..Change::default() };
    if let Some(from) = &place.parent {
        let original = relocation::original(from, forms::get(session, from, name).await?.as_ref());
        relocation::refuse_to_release(&settings, name, original.as_ref())?;
        let next = relocation::cut_off(place.clone(), name, from, original.as_ref())?;
        change.lost = user_rights::lost_in_accurate(session, name, (from, None)).await;
        change.namespaces.push(from.clone());
        change.intents.extend(labelled(name, &place, &next));
        change.intents.extend(original.map(|_| deleted(from, name)));
    } else if earlier.is_none() {
        return Err(relocation::not_to_cut(&place, name));
    }
    change.notes.extend(unmarked(name, earlier, left.as_ref()));
    change.intents.extend(left);
    Ok(change)
}

/// The namespaces that stay below deleted ones or lose their template, as notes that say why. Below a namespace that is `unread` this is not known.
pub(in crate::commands) fn orphaned(
    forest: &Forest,
    outcome: &Outcome,
    unread: &BTreeSet<Name>,
) -> Vec<String> {
    let is_gone = |state: Option<&NamespaceState>| state.is_none_or(|it| it.terminating);
    let changes = outcome.namespaces.iter();
    let gone: BTreeSet<&Name> = changes.filter(|it| is_gone(it.after.as_ref())).map(|it| &it.name).collect();
    let above =
        |name: &Name| forest.accurate_upstream(name).filter(|it| gone.contains(it) && !unread.contains(*it));
    let exists = |name: &Name| forest.namespace_version(name).is_some() && !forest.is_terminating(name);
    let staying = forest.names().filter(|it| exists(it) && !gone.contains(it));
    let orphans = staying.filter_map(|name| Some((name, above(name)?)));
    let orphans = orphans.map(|(name, above)| stays(forest, (above, name)));
    let forms = outcome.sub_namespaces.iter().filter(|it| it.after.is_none() && gone.contains(&it.parent));
    orphans.chain(forms.filter_map(|it| excluded(forest, (&it.parent, &it.child)))).collect()
}

/// The same of an excluded namespace whose `SubNamespace` is deleted. The forest has it below no parent.
fn excluded(forest: &Forest, (parent, name): (&Name, &Name)) -> Option<String> {
    let why = forest.shared_settings().unmanaged(name)?;
    forest.namespace_version(name)?;
    Some(format!(
        "{name} {why}, so it is not deleted with SubNamespace {parent}/{name}; if it is below {parent}, it loses its parent. To prevent \
         that, first include {name} again in the settings of hns"
    ))
}

/// Why a namespace stays without its parent or template, which is deleted.
fn stays(forest: &Forest, (parent, name): (&Name, &Name)) -> String {
    if forest.accurate_edge(name) == Some(EdgeKind::Template) {
        return format!(
            "nothing would be copied to {name} any more: its template {parent} would be missing; first set another one (`kubectl accurate \
             template set {name} TEMPLATE`), or remove it (`kubectl accurate template unset {name}`)"
        );
    }
    if let Some(why) = forest.shared_settings().unmanaged(parent) {
        return format!(
            "{parent} {why}, so {name} stays below the missing parent {parent}; first include {parent} again in the settings of hns"
        );
    }
    format!(
        "{name} has no SubNamespace, so it stays below the missing parent {parent}; first give it another one \
         (`kubectl accurate sub move {name} PARENT`), or make it a root (`kubectl accurate sub cut {name}`)"
    )
}

/// A label of a namespace is set or removed.
async fn set(
    session: &Session,
    (name, property): (&str, &str),
    field: impl Fn(&mut Place) -> &mut Option<String>,
    new: Option<&str>,
) -> Result<Change, Failure> {
    let place = place::read(session, name).await?;
    let mut next = place.clone();
    let old = std::mem::replace(field(&mut next), new.map(str::to_owned));
    let intent = labelled(name, &place, &next);
    let line = match (&intent, new) {
        (Some(_), _) => would_have(name, property, old.as_deref(), new),
        (None, Some(new)) => format!("The {property} of {name} is already {new}; unchanged"),
        (None, None) => format!("{name} has no {property}; unchanged"),
    };
    // What comes from the new template.
    let others = next.template.clone().filter(|it| it != name);
    let namespaces = std::iter::once(name.to_owned()).chain(others).collect();
    let lost = relocation::lost(session, name, (&place, &next)).await;
    Ok(Change {
        namespaces,
        lines: vec![line],
        lost,
        intents: intent.into_iter().collect(),
        ..Change::default()
    })
}

/// The change of the labels of a namespace; `None` if none changes.
fn labelled(name: &str, old: &Place, new: &Place) -> Option<Intent> {
    let changes = old.labels().into_iter().zip(new.labels()).filter(|(old, new)| old != new);
    let labels: Vec<_> = changes.map(|(_, (key, value))| (key.into(), value.map(Into::into))).collect();
    (!labels.is_empty()).then(|| Intent::Label { namespace: name.into(), labels })
}

fn created(parent: &str, name: &str, spec: &SubNamespaceSpec) -> Intent {
    let [labels, annotations] =
        [&spec.labels, &spec.annotations].map(|map| map.iter().flatten().collect::<Labels>());
    Intent::CreateSubNamespace { parent: parent.into(), child: name.into(), labels, annotations }
}

fn would_be_deleted(parent: &str, name: &str) -> String {
    format!("SubNamespace {parent}/{name} would be deleted")
}

fn deleted(parent: &str, name: &str) -> Intent {
    Intent::DeleteSubNamespace { parent: parent.into(), child: name.into() }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use forest::Version;
    use forest::accurate::{Fact, Settings, SubNamespaceFact};
    use forest::preview::Preview;
    use forest::rules::User;
    use hns_api::accurate::labels::{PARENT, TEMPLATE, TYPE};

    use super::*;
    use crate::structure;
    use crate::structure::tests::sketch;

    #[test]
    fn only_labels_that_change_are_in_the_request() {
        let old = Place { kind: Some("root".into()), template: Some("t".into()), ..Place::default() };
        assert_eq!(labelled("n", &old, &old), None);
        let new = Place { parent: Some("p".into()), template: Some("t".into()), ..Place::default() };
        let labels = vec![(TYPE.into(), None), (PARENT.into(), Some("p".into()))];
        assert_eq!(labelled("n", &old, &new), Some(Intent::Label { namespace: "n".into(), labels }));
    }

    #[test]
    fn a_sub_namespace_by_label_only_stays_when_its_parent_is_deleted() {
        let labels =
            [("r", (TYPE, TYPE_ROOT)), ("s", (PARENT, "r")), ("owned", (PARENT, "s")), ("x", (PARENT, "s"))];
        let mut structure = sketch(&["r", "s", "owned", "x"]);
        for (name, label) in labels {
            structure.namespaces.get_mut(name).unwrap().labels = [label].into_iter().collect();
        }
        let settings = Settings { allow_cascading_deletion: true, ..Settings::default() };
        let empty = Forest::unconfigured(Arc::new(structure::settings())).with_accurate(Arc::new(settings));
        let mut forest = structure.put_into(empty);
        let form = |(parent, name): (&str, &str)| {
            let version = Version { uid: name.into(), ..Version::default() };
            (parent.into(), SubNamespaceFact { name: name.into(), version, ..SubNamespaceFact::default() })
        };
        forest.apply(Fact::SubNamespaces([("r", "s"), ("s", "owned")].map(form).into()));
        let mut preview = Preview::new(forest);
        preview.settle();
        preview.mark();
        let orphans = |preview: &Preview, unread: &[&str]| {
            let unread = unread.iter().map(|it| Name::from(*it)).collect();
            orphaned(preview.forest(), &preview.outcome(), &unread)
        };
        assert_eq!(orphans(&preview, &[]), [""; 0]);
        preview.change(&deleted("r", "s"), &User::default());
        preview.settle();
        assert_eq!(orphans(&preview, &["s"]), [""; 0], "a SubNamespace may exist");
        let notes = orphans(&preview, &["r"]);
        assert!(notes.len() == 1 && notes[0].starts_with("x has no SubNamespace"), "{notes:?}");
    }

    #[test]
    fn why_a_namespace_stays_below_a_deleted_parent_is_said() {
        let settings = Arc::new(forest::Settings::new("home", ["out"], ".*").unwrap());
        for (key, parent, wanted) in [
            (PARENT, "p", "n has no SubNamespace, so it stays below the missing parent p;"),
            (PARENT, "out", "out is excluded by excludedNamespaces in the settings of hns, so n stays below"),
            (TEMPLATE, "out", "nothing would be copied to n any more: its template out would be missing;"),
        ] {
            let mut structure = sketch(&["p", "out", "n"]);
            let labels = [(key, parent)].into_iter().collect();
            structure.namespaces.get_mut("n").unwrap().labels = labels;
            let forest =
                structure.put_into(Forest::unconfigured(settings.clone()).with_accurate(Arc::default()));
            let found = stays(&forest, (&parent.into(), &"n".into()));
            assert!(found.starts_with(wanted), "{found}");
            let form = |name: &str| excluded(&forest, (&"n".into(), &name.into()));
            assert!(
                form("out").is_some_and(|it| it.contains("so it is not deleted with SubNamespace n/out"))
            );
            assert_eq!([form("p"), form("gone")], [None, None]);
        }
    }
}
