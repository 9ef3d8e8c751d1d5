//! `plan`: shows the effects of a change without making it. It has the same arguments as the command that makes the
//! change.

use clap::{Args, Subcommand};
use forest::preview::Intent;
use forest::rules::configuration::LISTED_BY_PLAN;
use forest::{EdgeKind, Forest, Labels, Name};
use hns_api::KeyValue;
use hns_cluster::configured_kinds::entries_of;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use super::hierarchy::{Edit, Spec};
use super::{create, delete, hierarchy, kinds, set};
use crate::cluster_preview::{ClusterPreview, Decision, Document, PreviewResult};
use crate::failure::{self, Done};
use crate::format::{DataFormat, render};
use crate::session::Session;
use crate::user_rights::Right;
use crate::{Failure, Terminal, structure, user_rights};

/// Show the effects of a change without making it.
///
/// Lists all objects that would be created, updated, overwritten or deleted, all labels of namespaces that would
/// change, and totals. Shows whether the change would be refused, with the code and the message; the exit code is 1 in
/// that case. It is 0 if the change would be allowed, and also if it is unknown whether it would be. Nothing is written.
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
    /// The effects of setting a parent or allowing cascading deletion.
    Set(set::Properties),
    /// The effects of deleting a namespace; for a subnamespace, of deleting its anchor in its parent, which -n may name.
    Delete(Delete),
    /// The effects of creating a subnamespace of the namespace given with -n.
    Create(create::Child),
    /// The effects of changing the configuration.
    Config(Config),
}

#[derive(Debug, Args)]
struct Delete {
    /// The namespace.
    #[arg(value_name = "NAMESPACE", value_parser = crate::flags::namespace)]
    namespace: String,

    /// Allow cascading deletion first.
    #[arg(short, long = "allowCascadingDeletion")]
    allow: bool,
}

#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
struct Config {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// The effects of setting the mode of a kind.
    ///
    /// If the change needs --force, shows it as it would be with --force, and says so.
    SetResource(kinds::SetResource),
    /// The effects of removing a kind from the configuration.
    DeleteType(kinds::DeleteType),
}

pub(crate) async fn run(arguments: &Arguments, session: &Session, terminal: &Terminal) -> Done {
    let document = document(arguments, session).await?;
    let Some(failure) = show(&document, arguments.output, terminal)? else { return Ok(()) };
    let hint = hint(&arguments.command, &document, session).await?;
    Err(Failure { hint: hint.or(failure.hint), ..failure })
}

/// What to do instead of a change that would be refused.
async fn hint(command: &Command, refused: &Document, session: &Session) -> Result<Option<String>, Failure> {
    match command {
        Command::Delete(Delete { namespace, .. }) => {
            let reason = refused.verdict.message.as_deref().unwrap_or_default();
            if delete::names_permission(reason) {
                return Ok(Some(delete::despite_children(namespace, reason)));
            }
            let lacks_right = format!("may not {}", Right::namespace("delete", namespace));
            if session.names_namespace || !reason.ends_with(&lacks_right) {
                return Ok(None);
            }
            let found = session.call(session.all::<Namespace>().get_metadata(namespace)).await;
            Ok(parent_to_name(namespace, found.ok().map(|it| it.metadata).as_ref()))
        }
        Command::Set(properties) if properties.request()?.changes_parent() => {
            Ok(set::other_way(session, &properties.namespace).await)
        }
        Command::Create(create::Child { name, .. }) => {
            let reason = refused.verdict.message.as_deref().unwrap_or_default();
            Ok(create::Refused::read(session, (&session.namespace, name), reason)
                .await
                .hint(session, None)
                .await)
        }
        _ => Ok(None),
    }
}

/// What a user may try who may not delete the namespace; `found` is its metadata, if they may read it.
fn parent_to_name(name: &str, found: Option<&ObjectMeta>) -> Option<String> {
    const NEEDS: &str = "who may delete the anchor there needs no right on the namespace";
    let Some(found) = found else {
        return Some(format!("If {name} is a subnamespace, name its parent with -n: {NEEDS}."));
    };
    let parent = structure::subnamespace_of(found)?;
    Some(format!("{name} is a subnamespace of {parent}: use -n {parent}; {NEEDS}."))
}

/// Prints a plan; returns the failure if the change would be refused.
pub(super) fn show(
    document: &Document,
    output: Option<DataFormat>,
    terminal: &Terminal,
) -> Result<Option<Failure>, Failure> {
    for note in &document.notes {
        terminal.note(note);
    }
    match output {
        None => terminal.print(&document.text(terminal.paint)),
        Some(format) => terminal.print(&render(format.into(), document, [])?),
    }
    let is_refused = document.verdict.outcome == "refused";
    let is_in_accurate = document.verdict.message.as_deref().is_some_and(failure::is_in_accurate);
    let hint = is_in_accurate.then(|| failure::CONVERT.to_owned());
    Ok(is_refused.then(|| Failure { hint, ..Failure::new("Error: this would be refused") }))
}

/// The plan as data.
pub(super) async fn document(arguments: &Arguments, session: &Session) -> Result<Document, Failure> {
    let (change, result) = match &arguments.command {
        Command::Set(properties) => set(properties, session).await?,
        Command::Delete(arguments) => delete(arguments, session).await?,
        Command::Create(child) => create(child, session).await?,
        Command::Config(Config { command: ConfigCommand::SetResource(arguments) }) => {
            set_resource(arguments, session).await?
        }
        Command::Config(Config { command: ConfigCommand::DeleteType(arguments) }) => {
            delete_type(arguments, session).await?
        }
    };
    Ok(Document::new(change, &result))
}

pub(super) type Planned = (Vec<String>, PreviewResult);

async fn set(properties: &set::Properties, session: &Session) -> Result<Planned, Failure> {
    let (name, request) = (&*properties.namespace, properties.request()?);
    if request == set::SpecRequest::default() {
        return Err(Failure::new("Error: no change was given").with_hint(
            "Name one with --parent, --root, --allowCascadingDeletion or --forbidCascadingDeletion.",
        ));
    }
    let object = hierarchy::read_to_change(session, name, request.changes_parent()).await?;
    let present = hierarchy::spec(&object);
    let outcome = set::outcome(name, &present, &request);
    let parent = match &outcome.edit.parent {
        Some(parent) => parent.name().map(str::to_owned),
        None => present.parent.clone(),
    };
    let concerned: Vec<&str> =
        [Some(name), parent.as_deref(), present.parent.as_deref()].into_iter().flatten().collect();
    let cluster_preview = ClusterPreview::open(session, &concerned, &[]).await?;
    let allow = outcome.edit.allow_cascading_deletion.unwrap_or(present.allows_cascading_deletion);
    let intent = Intent::SetHierarchy {
        namespace: name.into(),
        parent: parent.as_deref().map(Name::from),
        allow_cascading_deletion: allow,
    };
    let intents = if outcome.changes == 0 { Vec::new() } else { vec![intent] };
    let lines = if outcome.changes == 0 { outcome.lines } else { would(name, &present, &outcome.edit) };
    let mut result = cluster_preview.try_all(&intents).await?;
    if let Some(parent) = &outcome.edit.parent
        && let Some(warning) = user_rights::lost_with(session, name, parent.name()).await
    {
        result.warn(warning);
    }
    Ok((lines, result))
}

/// The change in the conditional.
fn would(name: &str, present: &Spec, edit: &Edit) -> Vec<String> {
    let parent = edit.parent.as_ref();
    let parent = parent.map(|new| would_have(name, "parent", present.parent.as_deref(), new.name()));
    let cascade = edit.allow_cascading_deletion.map(|allow| {
        let verb = if allow { "allowed" } else { "forbidden" };
        format!("Cascading deletion of {name} would be {verb}")
    });
    parent.into_iter().chain(cascade).collect()
}

/// The change of a property in the conditional.
pub(super) fn would_have(name: &str, property: &str, old: Option<&str>, new: Option<&str>) -> String {
    match (old, new) {
        (Some(old), Some(new)) => format!("The {property} of {name} would change from {old} to {new}"),
        (None, Some(new)) => format!("The {property} of {name} would be {new}"),
        (old, None) => format!("{name} would have no {property} (now {})", old.unwrap_or("none")),
    }
}

async fn delete(arguments: &Delete, session: &Session) -> Result<Planned, Failure> {
    let name = &*arguments.namespace;
    let named = session.names_namespace.then_some(&*session.namespace);
    let concerned: Vec<&str> = named.into_iter().chain([name]).collect();
    let cluster_preview = ClusterPreview::open(session, &concerned, &[]).await?;
    let forest = cluster_preview.forest();
    if forest.is_terminating(name) {
        let change = vec![format!("The namespace {name} is being deleted already")];
        return Ok((change, cluster_preview.try_all(&[]).await?));
    }
    is_in(named, forest, name)?;
    let mut intents = Vec::new();
    let mut change = Vec::new();
    if arguments.allow {
        let present = hierarchy::spec(&hierarchy::read(session, name).await?);
        if !present.allows_cascading_deletion
            && hierarchy::allowing_ancestor(session, name, present.parent.clone()).await.is_none()
        {
            change.push(format!("Cascading deletion of {name} would be allowed"));
            intents.push(Intent::SetHierarchy {
                namespace: name.into(),
                parent: present.parent.as_deref().map(Name::from),
                allow_cascading_deletion: true,
            });
        }
    }
    // Of a namespace that cannot be read, the anchor alone says that it is a subnamespace.
    let may_be_sub = forest.is_subnamespace(name) || cluster_preview.is_unreadable(name);
    let holder = named.map(Name::from).filter(|parent| forest.has_anchor(parent, name));
    let above = || forest.parent(name).filter(|parent| may_be_sub && forest.has_anchor(parent, name));
    let holder = holder.or_else(|| above().cloned());
    let stays = holder
        .as_deref()
        .and_then(|parent| delete::stays((parent, name), cluster_preview.structure(), forest.settings()));
    if let Some(parent) = holder {
        change.push(format!("The subnamespace anchor {name} in {parent} would be deleted"));
        intents.push(Intent::DeleteAnchor { parent, child: name.into() });
    } else {
        change.push(format!("The namespace {name} would be deleted"));
        intents.push(Intent::DeleteNamespace { name: name.into() });
    }
    let note = below_accurate(cluster_preview.forest(), name);
    let mut result = cluster_preview.try_all(&intents).await?;
    // What is refused has no effect.
    let is_refused = result.decisions.iter().any(Decision::is_refusal);
    result.notes.extend(stays.filter(|_| !is_refused));
    if let Some(note) = note {
        result.notes.push(note);
        // The objects that Accurate propagates are not read here.
        result.unread.insert(name.into());
    }
    Ok((change, result))
}

/// A note that other commands plan and make the deletion, if the namespace is a sub-namespace of Accurate's API.
fn below_accurate(forest: &Forest, name: &str) -> Option<String> {
    let parent = forest.accurate_upstream(name)?;
    let deletes = delete::of_accurate(name, parent);
    let counts = format!(
        "`kubectl accurate plan sub delete {name}` counts the objects that Accurate propagates, too."
    );
    (forest.accurate_edge(name) == Some(EdgeKind::Parent)).then(|| format!("{deletes} {counts}"))
}

/// Fails as `delete` does if the namespace that was named with -n is not the parent of this subnamespace.
fn is_in(named: Option<&str>, forest: &Forest, name: &str) -> Result<(), Failure> {
    let parent = forest.parent(name).filter(|_| forest.is_subnamespace(name));
    match (named, parent) {
        (Some(named), Some(parent)) if **parent != *named && !forest.has_anchor(named, name) => {
            let text = format!("Error: {name} has no subnamespace anchor in {named}");
            Err(Failure::new(text).with_hint(delete::of_another(name, parent)))
        }
        _ => Ok(()),
    }
}

fn labels(pairs: &[KeyValue]) -> Labels {
    pairs.iter().map(|it| (&*it.key, &*it.value)).collect()
}

async fn create(child: &create::Child, session: &Session) -> Result<Planned, Failure> {
    let create::Child { name: child, metadata } = child;
    metadata.is_unambiguous()?;
    let parent = &*session.namespace;
    let cluster_preview = ClusterPreview::open(session, &[parent], &[]).await?;
    let change = vec![format!("The subnamespace anchor {child} in {parent} would be created")];
    let intent = Intent::CreateAnchor {
        parent: parent.into(),
        child: child.as_str().into(),
        labels: labels(&metadata.labels),
        annotations: labels(&metadata.annotations),
    };
    Ok((change, cluster_preview.try_all(&[intent]).await?))
}

/// Previews the configuration of a kind.
pub(super) async fn set_resource(
    arguments: &kinds::SetResource,
    session: &Session,
) -> Result<Planned, Failure> {
    let target = kinds::Target::find(session, &arguments.group, &arguments.resource).await?;
    let mode = arguments.mode;
    let mut needs_force = false;
    let (mut change, mut result) = configure(session, &target, |present| {
        needs_force = target.set(present.clone(), mode, arguments.force).is_err();
        target.set(present, mode, true)
    })
    .await?;
    for decision in &mut result.decisions {
        if let Decision::Allowed { warnings } = decision {
            warnings.retain(|it| !it.contains(LISTED_BY_PLAN));
        }
    }
    if needs_force {
        change.push("The command needs --force for this".into());
    }
    result.needs_force = needs_force;
    Ok((change, result))
}

async fn delete_type(arguments: &kinds::DeleteType, session: &Session) -> Result<Planned, Failure> {
    let target = kinds::Target::find(session, &arguments.group, &arguments.resource).await?;
    let (mut change, result) = configure(session, &target, |present| Ok(target.remove(present))).await?;
    if result.decisions.is_empty() {
        change = vec![format!("There is no configuration for {}", target.full_name())];
    } else if target.is_enforced() {
        change.push(format!("{} would be in mode Propagate again", target.full_name()));
    }
    Ok((change, result))
}

async fn configure(
    session: &Session,
    target: &kinds::Target,
    edit: impl FnOnce(Vec<Value>) -> Result<Vec<Value>, Failure>,
) -> Result<Planned, Failure> {
    let object = kinds::read(session).await?;
    let about = (&*target.group, &*target.resource);
    let cluster_preview = ClusterPreview::open(session, &[], &[about]).await?;
    let present = kinds::entries(&object);
    let wanted = edit(present.clone())?;
    let name = target.full_name();
    if present == wanted {
        let change = vec![format!("The configuration of {name} would not change")];
        return Ok((change, cluster_preview.try_all(&[]).await?));
    }
    let entries_of_both = (&*present, &*wanted);
    let mut change = vec![format!("The configuration of {name} would change")];
    change.extend(target.unprotected(session, entries_of_both, kinds::Tense::Planned).await);
    let intent = Intent::Configure {
        old: cluster_preview.configured.entries.clone(),
        new: entries_of(Some(&json!({ "resources": wanted }))),
        served: cluster_preview.configured.served.clone(),
    };
    let cluster_preview = cluster_preview.configuring(object, wanted);
    Ok((change, Box::pin(cluster_preview.try_all(&[intent])).await?))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use hns_api::accurate::labels::PARENT;
    use hns_api::annotations;

    use super::super::hierarchy::NewParent;
    use super::*;
    use crate::structure::tests::sketch;

    #[test]
    fn only_of_a_subnamespace_the_parent_is_to_be_named() {
        let of = |parent: &str| ObjectMeta {
            annotations: Some([(annotations::SUBNAMESPACE_OF.to_owned(), parent.to_owned())].into()),
            ..ObjectMeta::default()
        };
        assert!(
            parent_to_name("n", Some(&of("p"))).unwrap().starts_with("n is a subnamespace of p: use -n p;")
        );
        assert!(parent_to_name("n", None).unwrap().starts_with("If n is a subnamespace, name its parent"));
        assert_eq!(parent_to_name("n", Some(&ObjectMeta::default())), None);
    }

    #[test]
    fn another_namespace_than_the_parent_is_not_taken() {
        let forest = sketch(&["p", "[s] n < p", "full < p", "other"]).forest();
        for (named, name, fails) in [
            (Some("other"), "n", true),
            (Some("p"), "n", false),
            (None, "n", false),
            (Some("other"), "full", false),
        ] {
            assert_eq!(is_in(named, &forest, name).is_err(), fails, "{named:?} {name}");
        }
        let hint = is_in(Some("other"), &forest, "n").unwrap_err().hint.unwrap();
        assert_eq!(hint, "n is a subnamespace of p: use -n p.");
    }

    #[test]
    fn a_sub_namespace_of_accurate_is_deleted_by_another_command() {
        let mut structure = sketch(&["shop", "w4"]);
        let namespace = structure.namespaces.get_mut("w4").unwrap();
        namespace.labels = [(PARENT, "shop")].into_iter().collect();
        let empty = || Forest::unconfigured(Arc::new(structure::settings()));
        for (forest, noted) in [
            (structure.put_into(empty().with_accurate(Arc::default())), true),
            (structure.put_into(empty()), false),
        ] {
            let note = below_accurate(&forest, "w4");
            for command in ["`kubectl accurate sub delete w4`", "`kubectl accurate plan sub delete w4`"] {
                assert_eq!(note.as_ref().is_some_and(|it| it.contains(command)), noted);
            }
            assert_eq!(below_accurate(&forest, "shop"), None);
        }
    }

    #[test]
    fn changes_are_in_the_conditional() {
        let to = |parent: &str| Some(NewParent::Namespace(parent.into()));
        for (present, parent, allow, wanted) in [
            (Some("o"), to("p"), None, "The parent of n would change from o to p"),
            (
                None,
                to("p"),
                Some(true),
                "The parent of n would be p; Cascading deletion of n would be allowed",
            ),
            (Some("o"), Some(NewParent::Root), None, "n would have no parent (now o)"),
            (None, None, Some(false), "Cascading deletion of n would be forbidden"),
        ] {
            let present = Spec { parent: present.map(Into::into), ..Spec::default() };
            let edit = Edit { parent, allow_cascading_deletion: allow };
            assert_eq!(would("n", &present, &edit).join("; "), wanted);
        }
    }
}
