//! `delete`: a subnamespace, by its anchor.

use std::time::Duration;

use clap::Args;
use hns_api::SubnamespaceAnchor;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::DeleteParams;

use tokio::time::{Instant, sleep};

use super::{hierarchy, set};
use crate::failure::{Done, Problem};
use crate::flags::Switch;
use crate::session::Session;
use crate::wait::{Progress, WaitArgs, until};
use crate::{Failure, Terminal};

/// How long a webhook may take to hear that cascading deletion is allowed now.
const HEARSAY: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(200);

/// Delete a subnamespace of the namespace given with -n.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The subnamespace.
    #[arg(value_name = "CHILD")]
    child: String,

    /// Delete the subnamespaces below it as well.
    #[arg(short, long = "allowCascadingDeletion", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", value_name = "BOOL")]
    allow: Option<Switch>,

    #[command(flatten)]
    wait: WaitArgs,
}

pub(crate) async fn run(arguments: &Arguments, session: &Session, terminal: &Terminal) -> Done {
    let (child, parent) = (&*arguments.child, session.parent()?);
    let allowing = Switch::is_on(arguments.allow);
    if allowing {
        allow(child, session, terminal).await?;
    }
    let anchors = session.within::<SubnamespaceAnchor>(parent);
    let deadline = Instant::now() + HEARSAY;
    loop {
        match session.call(anchors.delete(child, &DeleteParams::default())).await {
            Ok(_) => break,
            Err(problem) if allowing && is_about_children(&problem) && Instant::now() < deadline => {}
            Err(problem) => return Err(could_not(parent, &problem)),
        }
        sleep(POLL).await;
    }
    terminal.line(&format!("Successfully deleted {child:?} subnamespace anchor in {parent:?} namespace"));
    if !arguments.wait.is_wanted(false) {
        return Ok(());
    }
    let what = format!("the namespace {child} is gone");
    let namespaces = session.all::<Namespace>();
    until(terminal, &what, arguments.wait.deadline(), async || {
        let anchor = session.call(anchors.get_metadata_opt(child)).await;
        let anchor = anchor.map_err(|problem| Failure::because("the anchor cannot be read", &problem))?;
        let namespace = match session.call(namespaces.get_metadata_opt(child)).await {
            Err(problem) if problem.is_forbidden() => None,
            other => other.map_err(|problem| Failure::because("the namespace cannot be read", &problem))?,
        };
        Ok(match (anchor, namespace) {
            (None, None) => Progress::Done,
            (_, Some(_)) => Progress::Part(0, 2, "the namespace is still there".into()),
            (Some(_), None) => Progress::Part(1, 2, "the anchor is still there".into()),
        })
    })
    .await
}

async fn allow(child: &str, session: &Session, terminal: &Terminal) -> Result<(), Failure> {
    let object = hierarchy::read(session, child).await?;
    let wish = set::Wish { allow: true, ..set::Wish::default() };
    let outcome = set::outcome(child, &hierarchy::spec(&object), &wish);
    for line in &outcome.lines {
        terminal.line(line);
    }
    hierarchy::write(session, child, object, &outcome.edit)
        .await
        .map_err(|problem| set::could_not(child, &problem))
}

/// Whether the anchor may not go because of what is below the namespace.
fn is_about_children(problem: &Problem) -> bool {
    problem.code() == 403 && problem.to_string().contains("allowCascadingDeletion")
}

/// HNC's words, without a blank line.
fn could_not(parent: &str, problem: &Problem) -> Failure {
    let failure = Failure::new(format!("Could not delete subnamespace anchor.\nReason: {problem}"));
    match problem.way_out() {
        Some(way_out) => failure.or_else(way_out),
        None if problem.is_not_found() => {
            failure.or_else(format!("`kubectl get subns -n {parent}` shows the subnamespaces of {parent}."))
        }
        None if is_about_children(problem) => {
            failure.or_else("With -a (--allowCascadingDeletion) the subnamespaces below go as well.")
        }
        None => failure,
    }
}
