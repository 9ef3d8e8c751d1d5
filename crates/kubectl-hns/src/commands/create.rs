//! `create`: creates a subnamespace by creating its anchor.

use clap::Args;
use hns_api::{SubnamespaceAnchor, SubnamespaceAnchorSpec, anchor_states};
use kube::api::PostParams;

use super::relocation;
use crate::failure::Done;
use crate::session::Session;
use crate::wait::{Progress, WaitArgs, until};
use crate::{Failure, Terminal};

/// Create a subnamespace of the namespace given with -n.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    child: Child,

    #[command(flatten)]
    wait: WaitArgs,
}

/// The new namespace.
#[derive(Debug, Args)]
pub(crate) struct Child {
    /// The name of the new namespace.
    #[arg(value_name = "CHILD")]
    pub(super) name: String,
}

pub(crate) async fn run(arguments: &Arguments, session: &Session, terminal: &Terminal) -> Done {
    let (child, parent) = (&*arguments.child.name, session.parent()?);
    let anchor = SubnamespaceAnchor::new(child, SubnamespaceAnchorSpec::default());
    let anchors = session.within::<SubnamespaceAnchor>(parent);
    session
        .call(anchors.create(&PostParams::default(), &anchor))
        .await
        .map_err(|problem| Failure::could_not("create subnamespace anchor", &problem))?;
    terminal.line(&format!("Successfully created {child:?} subnamespace anchor in {parent:?} namespace"));
    if !arguments.wait.is_wanted(false) {
        return Ok(());
    }
    let (what, deadline) = (format!("namespace {child}"), arguments.wait.deadline());
    until(terminal, &what, deadline, async || {
        let seen = session.call(anchors.get(child)).await;
        let seen = seen.map_err(|problem| Failure::because("the anchor cannot be read", &problem))?;
        state(child, seen.state())
    })
    .await?;
    let notes = relocation::wait_for_arrival(session, terminal, (child, Some(parent)), deadline).await?;
    for note in &notes {
        terminal.note(note);
    }
    Ok(())
}

/// The progress of a new subnamespace, from the state of its anchor.
fn state(child: &str, state: Option<&str>) -> Result<Progress, Failure> {
    match state {
        Some(anchor_states::OK) => Ok(Progress::Done),
        None | Some(anchor_states::MISSING) => Ok(Progress::missing("the controller has not created it yet")),
        Some(other) => Err(Failure::new(format!("Error: the anchor of {child} is in state {other}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_ends_when_the_anchor_is_ok_or_fails() {
        assert_eq!(state("c", Some("Ok")), Ok(Progress::Done));
        assert!(matches!(state("c", None), Ok(Progress::Part(..))));
        assert!(matches!(state("c", Some("Missing")), Ok(Progress::Part(..))));
        assert!(state("c", Some("Conflict")).unwrap_err().text.contains("Conflict"));
    }
}
