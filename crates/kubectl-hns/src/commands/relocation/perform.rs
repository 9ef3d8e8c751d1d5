//! Performs the steps of a relocation. Each step may have been performed already.

use hns_api::{SubnamespaceAnchor, SubnamespaceAnchorSpec, anchor_states, annotations};
use kube::api::{DeleteParams, PostParams, Preconditions};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use std::time::Duration;

use super::{Placement, Step, anchors_in, namespaces};
use crate::Failure;
use crate::commands::hierarchy::{self, Edit, NewParent};
use crate::failure::Problem;
use crate::session::Session;

/// How long the webhook's cache may lag behind the previous write.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(250);

/// Performs one step.
///
/// # Errors
/// The write was refused, or the awaited state was not reached. Earlier steps stay, and the same command continues from
/// there.
pub(in crate::commands) async fn perform(
    session: &Session,
    placement: &Placement,
    step: &Step,
) -> Result<(), Failure> {
    let name = &*placement.name;
    let done = match step {
        Step::SetParent { to } => set_parent(session, name, to).await?,
        Step::Annotate { from, to } => annotate(session, name, from.as_deref(), to.as_deref()).await,
        Step::CreateAnchor { parent } => create_anchor(session, placement, parent).await,
        Step::DeleteAnchor { parent } => delete_anchor(session, name, parent).await?,
    };
    done.map_err(|problem| Failure::could_not(step.line(name), &problem).resumable())
}

async fn set_parent(session: &Session, name: &str, to: &str) -> Result<Result<(), Problem>, Failure> {
    let object = hierarchy::read(session, name).await?;
    let edit = Edit { parent: Some(NewParent::Namespace(to.to_owned())), ..Edit::default() };
    Ok(hierarchy::write(session, name, object, &edit, false).await)
}

/// Changes the annotation of the namespace, unless it was changed meanwhile.
async fn annotate(
    session: &Session,
    name: &str,
    from: Option<&str>,
    to: Option<&str>,
) -> Result<(), Problem> {
    let api = namespaces(session);
    let deadline = Instant::now() + PATIENCE;
    loop {
        let mut namespace = session.call(api.get(name)).await?;
        let present = namespace.metadata.annotations.get_or_insert_default();
        let seen = present.get(annotations::SUBNAMESPACE_OF).map(String::as_str).filter(|it| !it.is_empty());
        if seen == to {
            return Ok(());
        }
        if seen != from {
            return Err(Problem::Unreachable(format!(
                "it was made a subnamespace of {} meanwhile",
                seen.unwrap_or("none")
            )));
        }
        match to {
            Some(to) => drop(present.insert(annotations::SUBNAMESPACE_OF.to_owned(), to.to_owned())),
            None => drop(present.remove(annotations::SUBNAMESPACE_OF)),
        }
        match session.call(api.replace(name, &PostParams::default(), &namespace)).await {
            Err(problem) if (problem.is_stale() || problem.is_temporary()) && Instant::now() < deadline => {}
            other => return other.map(drop),
        }
        sleep(POLL).await;
    }
}

/// Retries, because a webhook whose cache lags behind treats the namespace as one of another parent.
async fn create_anchor(session: &Session, placement: &Placement, parent: &str) -> Result<(), Problem> {
    let api = session.within::<SubnamespaceAnchor>(parent);
    let managed = placement.managed.clone();
    let spec = SubnamespaceAnchorSpec { labels: managed.labels, annotations: managed.annotations };
    let anchor = SubnamespaceAnchor::new(&placement.name, spec);
    let deadline = Instant::now() + PATIENCE;
    loop {
        match session.call(api.create(&PostParams::default(), &anchor)).await {
            Ok(_) => return Ok(()),
            Err(problem) if is_there(&problem) => {
                let present = session.call(api.get_metadata_opt(&placement.name)).await?;
                if present.is_some_and(|it| it.metadata.deletion_timestamp.is_none()) {
                    return Ok(());
                }
                // The old anchor is being deleted.
                if Instant::now() >= deadline {
                    return Err(problem);
                }
            }
            Err(problem)
                if (problem.code() == 409 || problem.is_temporary()) && Instant::now() < deadline => {}
            Err(problem) => return Err(problem),
        }
        sleep(POLL).await;
    }
}

/// Whether the API server itself, not a webhook, reports that the object exists.
fn is_there(problem: &Problem) -> bool {
    matches!(problem, Problem::Refused(status) if status.reason == "AlreadyExists")
}

/// Deletes the anchor in the version that was read as not owning the namespace, and waits until it is gone.
async fn delete_anchor(session: &Session, name: &str, parent: &str) -> Result<Result<(), Problem>, Failure> {
    let api = anchors_in(session, parent);
    let deadline = Instant::now() + PATIENCE;
    loop {
        let anchor = match session.call(api.get_opt(name)).await {
            Ok(Some(anchor)) => anchor,
            Ok(None) => return Ok(Ok(())),
            Err(problem) => return Ok(Err(problem)),
        };
        let is_terminating = anchor.metadata.deletion_timestamp.is_some();
        if !is_terminating && releases(&anchor.data) {
            let preconditions = Preconditions {
                uid: anchor.metadata.uid.clone(),
                resource_version: anchor.metadata.resource_version.clone(),
            };
            let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
            match session.call(api.delete(name, &params)).await {
                Ok(_) => {}
                Err(problem) if problem.is_not_found() => return Ok(Ok(())),
                Err(problem) if problem.code() == 409 || problem.is_temporary() => {}
                Err(problem) => return Ok(Err(problem)),
            }
        }
        if Instant::now() >= deadline && is_terminating {
            // It is being deleted, and another finalizer keeps it.
            return Ok(Ok(()));
        }
        if Instant::now() >= deadline {
            let state = anchor.data["status"]["status"].as_str().unwrap_or("unknown").to_owned();
            return Err(Failure::new(format!(
                "Error: the anchor {name} in {parent} is still in state {state}, so it was not deleted: it might take the \
                 namespace along"
            ))
            .with_hint(
                "The controller has not updated it yet; `kubectl hns doctor` checks the controller. Run the same command again to continue \
                 from here.",
            ));
        }
        sleep(POLL).await;
    }
}

/// Whether the controller has recorded that the namespace does not belong to this anchor.
fn releases(data: &Value) -> bool {
    data["status"]["status"] == anchor_states::CONFLICT
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_an_anchor_in_conflict_is_deleted() {
        for (status, released) in [
            (json!({ "status": { "status": "Conflict" } }), true),
            (json!({ "status": { "status": "Ok" } }), false),
            (json!({ "status": { "status": "Missing" } }), false),
            (json!({ "status": {} }), false),
            (json!({}), false),
        ] {
            assert_eq!(releases(&status), released, "{status}");
        }
    }
}
