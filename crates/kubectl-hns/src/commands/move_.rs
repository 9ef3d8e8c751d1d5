//! `move`: moves a namespace or a subnamespace below another parent.

use clap::Args;
use hns_api::labels;
use k8s_openapi::api::core::v1::Namespace;

use super::relocation::{self, Placement, Step};
use super::set;
use crate::failure::Done;
use crate::session::Session;
use crate::structure::unreadable;
use crate::user_rights;
use crate::wait::{WaitArgs, patiently};
use crate::{Failure, Terminal};

/// Move a namespace, and everything below it, below another parent.
///
/// Shows the writes and their effects, including copies, and asks for confirmation. A subnamespace stays a
/// subnamespace. No namespace is deleted at any time. If the command is interrupted, run it again to finish the move.
///
/// Moving a subnamespace needs the right to update the namespace, which the `ClusterRole` admin does not give.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The namespace.
    #[arg(value_name = "NAMESPACE", value_parser = crate::flags::namespace)]
    namespace: String,

    /// The new parent.
    #[arg(long, value_name = "PARENT", value_parser = crate::flags::namespace)]
    to: String,

    /// Do not ask for confirmation.
    #[arg(short, long)]
    yes: bool,

    #[command(flatten)]
    wait: WaitArgs<true>,
}

pub(crate) async fn run(arguments: &Arguments, session: &Session, terminal: &Terminal) -> Done {
    let (name, to) = (&*arguments.namespace, &*arguments.to);
    is_possible(session, name, to).await?;
    let placement = relocation::read(session, name, &[to]).await?;
    for note in &placement.notes {
        terminal.note(note);
    }
    let steps = relocation::move_to(&placement, to);
    if steps.is_empty() {
        terminal.line(&format!("{name} is below {to} already; unchanged"));
    } else {
        relocation::check_rights(session, name, &steps).await?;
        if let Some(warning) = user_rights::lost_with(session, name, Some(to)).await {
            terminal.warn(&warning);
        }
        let heading = heading(&placement, to);
        let what = (&placement, &*steps);
        relocation::confirm(session, terminal, what, (&heading, arguments.yes)).await?;
        perform_all(session, terminal, (&placement, &steps), &arguments.wait).await?;
        terminal.line(&done(&placement, to));
    }
    if arguments.wait.is_wanted() {
        let has_moved = !steps.is_empty() && !is_below(&placement, to);
        wait_for_arrival(arguments, has_moved, session, terminal).await?;
    }
    Ok(())
}

/// Whether the namespace is below `to` already, so that only anchors can be wrong.
fn is_below(Placement { subnamespace_of, parent, .. }: &Placement, to: &str) -> bool {
    [subnamespace_of, parent].iter().all(|it| it.as_deref() == Some(to))
}

fn heading(placement: &Placement, to: &str) -> String {
    let Placement { name, subnamespace_of, parent, .. } = placement;
    if is_below(placement, to) {
        return format!("{name} is below {to} already; correcting its subnamespace anchors:");
    }
    let is = match (subnamespace_of, parent) {
        (Some(of), _) => format!("a subnamespace of {of}"),
        (None, Some(parent)) => format!("a child of {parent}"),
        (None, None) => "a root".into(),
    };
    format!("Moving {name}, {is}, below {to}:")
}

/// The line after the last step.
fn done(placement: &Placement, to: &str) -> String {
    let name = &placement.name;
    if is_below(placement, to) {
        return format!("The subnamespace anchors of {name} are correct now");
    }
    format!("Moved {name} below {to}")
}

/// Reports a refusal before the first write, not in the middle of the move.
async fn is_possible(session: &Session, name: &str, to: &str) -> Result<(), Failure> {
    if name == to {
        return Err(Failure::new(format!("Error: {name} cannot be its own parent")));
    }
    let api = session.all::<Namespace>();
    let parent = match session.call(api.get_metadata(to)).await {
        Ok(parent) => parent,
        Err(problem) if problem.is_forbidden() && set::subnamespace_of(session, name).await.is_none() => {
            return Err(unreadable(to, &problem).with_hint(format!(
                "This command reads the namespace {to}, which you may not. If {name} is not a subnamespace, \
                 `kubectl hns set {name} --parent {to}` does not read it."
            )));
        }
        Err(problem) => return Err(unreadable(to, &problem)),
    };
    let marks = parent.metadata.labels.unwrap_or_default();
    if marks.contains_key(&labels::tree_label(name)) {
        return Err(Failure::new(format!("Error: {to} is below {name}, so it cannot be its parent"))
            .with_hint(format!("Move {to} elsewhere first.")));
    }
    Ok(())
}

/// Performs the steps. After each one, the command may be interrupted.
pub(super) async fn perform_all(
    session: &Session,
    terminal: &Terminal,
    (placement, steps): (&Placement, &[Step]),
    wait: &WaitArgs<true>,
) -> Result<(), Failure> {
    let patience = wait.patience(relocation::PATIENCE);
    for (place, step) in steps.iter().enumerate() {
        let line = format!("[{}/{}] {}", place + 1, steps.len(), step.line(&placement.name));
        let performed = relocation::perform(session, terminal, (placement, step), patience);
        patiently(terminal, (step.waits_for(), &line), performed).await?;
        terminal.line(&line);
    }
    Ok(())
}

async fn wait_for_arrival(
    arguments: &Arguments,
    has_moved: bool,
    session: &Session,
    terminal: &Terminal,
) -> Result<(), Failure> {
    let (name, to) = (&*arguments.namespace, &*arguments.to);
    let (what, deadline) = (format!("the move of {name}"), arguments.wait.deadline());
    let arrival = relocation::wait_for_arrival(session, terminal, (&what, name, Some(to)), deadline).await?;
    for note in &arrival.unchecked {
        terminal.note(note);
    }
    if has_moved {
        terminal.line(&moved(name, arrival.kept, arrival.unchecked.is_empty()));
    }
    Ok(())
}

/// The last line of a move, after which `kept` objects stand in the way of copies.
fn moved(name: &str, kept: usize, knows_copies: bool) -> String {
    let copies = match kept {
        _ if !knows_copies => "",
        0 => "; all copies are there",
        _ => "; all copies are there, except where another object was kept",
    };
    format!("{name} and all namespaces below it have been moved{copies}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_that_stays_where_it_is_is_not_moved() {
        for (of, parent, begins, ends) in [
            (Some("o"), Some("o"), "Moving n, a subnamespace of o,", "Moved n below p"),
            (Some("p"), Some("o"), "Moving n, a subnamespace of p,", "Moved n below p"),
            (Some("p"), None, "Moving n, a subnamespace of p,", "Moved n below p"),
            (Some("p"), Some("p"), "n is below p already; correcting", "The subnamespace anchors of n are"),
            (None, Some("o"), "Moving n, a child of o,", "Moved n below p"),
            (None, None, "Moving n, a root,", "Moved n below p"),
        ] {
            let [subnamespace_of, parent] = [of, parent].map(|it| it.map(str::to_owned));
            let mut placement = Placement::default();
            (placement.name, placement.subnamespace_of, placement.parent) =
                ("n".to_owned(), subnamespace_of, parent);
            let (heading, done) = (heading(&placement, "p"), done(&placement, "p"));
            assert!(heading.starts_with(begins) && done.starts_with(ends), "{heading} {done}");
        }
    }

    #[test]
    fn the_end_of_a_move_claims_no_copies_where_objects_are_kept() {
        for (kept, knows_copies, end) in [
            (0, true, "moved; all copies are there"),
            (2, true, ", except where another object was kept"),
            (2, false, "moved"),
        ] {
            let line = moved("n", kept, knows_copies);
            assert!(line.ends_with(end), "{line}");
        }
    }
}
