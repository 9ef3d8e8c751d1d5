//! `convert`: converts a full namespace to a subnamespace of its parent, or back, and a tree of Accurate's API to HNC's.

mod objects;
mod pass;
mod tree;

use clap::{Args, ValueEnum};
use hns_api::{HierarchyConfiguration, SubnamespaceAnchor, anchor_states};
use k8s_openapi::api::core::v1::Namespace;

use super::doctor::settings;
use super::relocation::{Placement, Step};
use super::{move_, relocation};
use crate::installation::{DEFINITIONS_GO, is_definition_deleted};
use crate::session::Session;
use crate::wait::{Progress, WaitArgs, until};
use crate::{Failure, Terminal, published};

/// Make a namespace a subnamespace of its parent, or a subnamespace a full namespace; or take a tree of Accurate's to HNC's hierarchy.
///
/// A subnamespace is deleted with its anchor, so users who may delete anchors in the parent can delete it. Deleting a
/// full namespace needs the right to delete namespaces. The place of the namespace and its content do not change.
/// Each conversion needs the right to update the namespaces, which the `ClusterRole` admin does not give.
///
/// With --to hnc, NAMESPACE is the root of a tree of Accurate's API. Everything below becomes a subnamespace of the parent that it
/// has. No namespace is deleted at any time. If the command is interrupted, run it again to finish. It refuses trees with templates, and
/// trees in which HNC would copy objects that Accurate does not, or not those that it does. You must be an admin of all namespaces of the
/// tree, and be able to list namespaces, hierarchyconfigurations, subnamespaceanchors and Accurate's subnamespaces in the whole cluster.
/// The flags about waiting have no effect then.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The namespace.
    #[arg(value_name = "NAMESPACE", value_parser = crate::flags::namespace)]
    namespace: String,

    /// The new type.
    #[arg(long, value_name = "KIND")]
    to: To,

    /// Do not ask for confirmation.
    #[arg(short, long)]
    yes: bool,

    #[command(flatten)]
    wait: WaitArgs<true>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum To {
    /// A subnamespace.
    Sub,
    /// A full namespace.
    Full,
    /// A tree of HNC's API, from one of Accurate's.
    Hnc,
}

pub(crate) async fn run(
    arguments: &Arguments,
    session: &Session,
    terminal: &Terminal,
) -> Result<(), Failure> {
    let name = &*arguments.namespace;
    if arguments.to == To::Hnc {
        return pass::run(name, arguments.yes, &settings::or_default(session).await, session, terminal).await;
    }
    let (settings, _) = published::settings(session).await;
    if let Some(why) = settings.unmanaged(name) {
        return Err(Failure::new(format!(
            "Error: {name} {why}, so it belongs to no hierarchy and cannot be converted"
        )));
    }
    let placement = relocation::read(session, name, &[]).await?;
    for note in &placement.notes {
        terminal.note(note);
    }
    let (steps, what) = match arguments.to {
        To::Sub => (to_sub(&placement, session).await, "a subnamespace"),
        _ => (relocation::to_full(&placement), "a full namespace"),
    };
    let steps = match steps {
        // A `HierarchyConfiguration` may be gone whose parent is still in force.
        Err(failure) if is_definition_deleted::<HierarchyConfiguration>(session).await => {
            return Err(failure.with_hint(DEFINITIONS_GO));
        }
        steps => steps?,
    };
    if steps.is_empty() {
        terminal.line(&format!("{name} is {what} already; unchanged"));
    } else {
        relocation::check_rights(session, name, &steps).await?;
        let heading = format!("Making {name} {what}:");
        relocation::confirm(session, terminal, (&placement, &steps), (&heading, arguments.yes)).await?;
        move_::perform_all(session, terminal, (&placement, &steps), &arguments.wait).await?;
        terminal.line(&format!("{name} is {what} now"));
    }
    let of = placement.subnamespace_of.or(placement.parent);
    match (of, arguments.to) {
        (Some(of), To::Sub) if arguments.wait.is_wanted() => {
            wait_for_anchor(arguments, &of, session, terminal).await
        }
        _ => Ok(()),
    }
}

/// The steps that make it a subnamespace of its parent, which has to exist: the anchor is created there.
async fn to_sub(placement: &Placement, session: &Session) -> Result<Vec<Step>, Failure> {
    let steps = relocation::to_sub(placement)?;
    let Placement { name, subnamespace_of, parent, .. } = placement;
    if let Some(of) = subnamespace_of.as_ref().or(parent.as_ref())
        && matches!(session.call(session.all::<Namespace>().get_metadata_opt(of)).await, Ok(None))
    {
        return Err(Failure::new(format!(
            "Error: {of}, the parent of {name}, does not exist, so {name} cannot become a subnamespace"
        ))
        .with_hint(format!("Set another parent first: `kubectl hns move {name} --to PARENT`.")));
    }
    Ok(steps)
}

/// Waits until the anchor owns the namespace.
async fn wait_for_anchor(
    arguments: &Arguments,
    parent: &str,
    session: &Session,
    terminal: &Terminal,
) -> Result<(), Failure> {
    let name = &*arguments.namespace;
    let anchors = session.within::<SubnamespaceAnchor>(parent);
    let what = format!("the anchor of {name} in {parent}");
    until(terminal, (&what, &format!("describe {name}")), arguments.wait.deadline(), async || {
        let anchor = session.call(anchors.get(name)).await;
        let anchor = anchor.map_err(|problem| Failure::because("the anchor cannot be read", &problem))?;
        Ok(match anchor.state() {
            Some(anchor_states::OK) => Progress::Done,
            state => Progress::missing(format!("its state is {}", state.unwrap_or("not known yet"))),
        })
    })
    .await
}
