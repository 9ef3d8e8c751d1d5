//! `plan`: shows the effects of a change without making it. It has the same arguments as the command that makes the
//! change.

mod deletion;

use clap::{Args, Subcommand};
use forest::preview::Intent;
use forest::rules::configuration::LISTED_BY_PLAN;
use forest::{Labels, Name};
use hns_api::KeyValue;
use hns_cluster::configured_kinds::entries_of;
use serde_json::{Value, json};

use super::hierarchy::{Edit, Spec};
use super::{create, hierarchy, kinds, set};
use crate::cluster_preview::{ClusterPreview, Decision, Document, PreviewResult};
use crate::failure::{self, Done};
use crate::format::{DataFormat, render};
use crate::session::Session;
use crate::{Failure, Terminal, user_rights};

/// Show the effects of a change without making it.
///
/// Lists all objects of propagated kinds that would be created, updated, overwritten or deleted, all labels of namespaces that would
/// change, and totals; as text without the objects of namespaces that would be deleted. Leaves out Secrets of types that are never
/// propagated, also where they are deleted with their namespace. Shows whether the change would be refused, with the code and the
/// message; the exit code is 1 in that case. It is 0 if the change would be allowed, and also if it is unknown whether it would be.
/// Nothing is written.
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
    Delete(deletion::Delete),
    /// The effects of creating a subnamespace of the namespace given with -n.
    Create(create::Child),
    /// The effects of changing the configuration.
    Config(Config),
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
        Command::Delete(arguments) => Ok(deletion::hint(arguments, refused, session).await),
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
        Command::Delete(arguments) => deletion::plan(arguments, session).await?,
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
    let parent = outcome.edit.parent(&present);
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
    if request.forbid {
        let is = if intents.is_empty() { "is still" } else { "would still be" };
        match set::still_allowed(session, name, parent, is).await {
            // Without a change there is nothing to warn of.
            Some(note) if intents.is_empty() => result.notes.push(note),
            Some(warning) => result.warn(warning),
            None => {}
        }
    }
    result.notes.extend(set::without_effect(session, name, &request).await);
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
    let present = kinds::entries(&kinds::read(session).await?);
    let target = kinds::Target::find(session, &arguments.group, &arguments.resource).await?;
    let target = target.among_entries(&present)?;
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
    let unprotected = target.unprotected(session, (&present, &wanted), kinds::Tense::Planned).await;
    let intent = Intent::Configure {
        old: cluster_preview.configured.entries.clone(),
        new: entries_of(Some(&json!({ "resources": wanted }))),
        served: cluster_preview.configured.served.clone(),
    };
    let cluster_preview = cluster_preview.configuring(object, wanted);
    let result = Box::pin(cluster_preview.try_all(&[intent])).await?;
    let is_refused = result.decisions.iter().any(Decision::is_refusal);
    let change = format!("The configuration of {name} would change");
    Ok((std::iter::once(change).chain(unprotected.filter(|_| !is_refused)).collect(), result))
}

#[cfg(test)]
mod tests {
    use super::super::hierarchy::NewParent;
    use super::*;

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
