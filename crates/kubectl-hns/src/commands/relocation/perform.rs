//! Performs the steps of a relocation. Each step may have been performed already.

use hns_api::{SubnamespaceAnchor, SubnamespaceAnchorSpec, anchor_states, annotations};
use kube::api::{DeleteParams, DynamicObject, PostParams, Preconditions};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use std::time::Duration;

use super::{ManagedMetadata, Placement, Step, anchors_in, namespaces};
use crate::commands::hierarchy::{self, Edit, NewParent};
use crate::failure::Problem;
use crate::session::Session;
use crate::{Failure, Terminal, optimistic, published};

/// How long the controller and the webhook's cache may lag behind the previous write.
pub(in crate::commands) const PATIENCE: Duration = Duration::from_secs(60);
/// How long to try while a webhook does not answer; a call of it takes up to five seconds.
const SILENCE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(250);

/// The end of the attempts of one write.
pub(in crate::commands) struct Attempts<'a> {
    terminal: &'a Terminal,
    start: Instant,
    patience: Duration,
    is_silent: bool,
}

impl<'a> Attempts<'a> {
    pub(in crate::commands) fn new(terminal: &'a Terminal, patience: Duration) -> Self {
        Self { terminal, start: Instant::now(), patience, is_silent: false }
    }

    fn are_over(&self) -> bool {
        self.start.elapsed() >= if self.is_silent { self.patience.min(SILENCE) } else { self.patience }
    }

    /// Whether to try again after this problem, which may pass.
    fn go_on(&mut self, problem: &Problem) -> bool {
        let silent = problem.silent_webhook();
        let was_silent = std::mem::replace(&mut self.is_silent, silent.is_some());
        if let Some(webhook) = silent.filter(|_| !was_silent && !self.are_over()) {
            self.terminal.note(&format!("the webhook {webhook} does not answer; trying again"));
        }
        !self.are_over()
    }
}

/// Performs one step.
///
/// # Errors
/// The write was refused, or the awaited state was not reached. Earlier steps stay, and the same command continues from
/// there.
pub(in crate::commands) async fn perform(
    session: &Session,
    terminal: &Terminal,
    (placement, step): (&Placement, &Step),
    patience: Duration,
) -> Result<(), Failure> {
    let name = &*placement.name;
    let attempts = Attempts::new(terminal, patience);
    let done = match step {
        Step::SetParent { to } => set_parent(session, name, to).await?,
        Step::Annotate { from, to } => {
            annotate((session, attempts), name, (from.as_deref(), to.as_deref())).await?
        }
        Step::CreateAnchor { parent } => {
            create_anchor((session, attempts), name, placement.managed.clone(), parent).await
        }
        Step::DeleteAnchor { parent } => delete_anchor((session, attempts), name, parent).await?,
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
    (session, mut attempts): (&Session, Attempts<'_>),
    name: &str,
    (from, to): (Option<&str>, Option<&str>),
) -> Result<Result<(), Problem>, Failure> {
    let edit = |namespace: &mut DynamicObject| {
        let present = namespace.metadata.annotations.get_or_insert_default();
        let seen = present.get(annotations::SUBNAMESPACE_OF).map(String::as_str).filter(|it| !it.is_empty());
        if seen == to {
            return Ok(false);
        }
        if seen != from {
            let seen = seen.unwrap_or("none");
            return Err(Failure::new(format!("Error: {name} was made a subnamespace of {seen} meanwhile"))
                .resumable());
        }
        match to {
            Some(to) => drop(present.insert(annotations::SUBNAMESPACE_OF.to_owned(), to.to_owned())),
            None => drop(present.remove(annotations::SUBNAMESPACE_OF)),
        }
        Ok(true)
    };
    let again = |problem: &Problem| (problem.is_stale() || problem.is_temporary()) && attempts.go_on(problem);
    let api = namespaces(session);
    let written = optimistic::change((session, &api), (name, &PostParams::default()), edit, again).await?;
    Ok(written.map(drop))
}

/// Retries, because a webhook whose cache lags behind treats the namespace as one of another parent.
pub(in crate::commands) async fn create_anchor(
    (session, mut attempts): (&Session, Attempts<'_>),
    name: &str,
    managed: ManagedMetadata,
    parent: &str,
) -> Result<(), Problem> {
    let api = session.within::<SubnamespaceAnchor>(parent);
    let spec = SubnamespaceAnchorSpec { labels: managed.labels, annotations: managed.annotations };
    let anchor = SubnamespaceAnchor::new(name, spec);
    loop {
        match session.call(api.create(&PostParams::default(), &anchor)).await {
            Ok(_) => return Ok(()),
            Err(problem) if is_there(&problem) => {
                let present = session.call(api.get_metadata_opt(name)).await?;
                if present.is_some_and(|it| it.metadata.deletion_timestamp.is_none()) {
                    return Ok(());
                }
                // The old anchor is being deleted.
                if !attempts.go_on(&problem) {
                    return Err(problem);
                }
            }
            Err(problem) if (problem.code() == 409 || problem.is_temporary()) && attempts.go_on(&problem) => {
            }
            Err(problem) => return Err(problem),
        }
        sleep(POLL).await;
    }
}

/// Whether the API server itself, not a webhook, reports that the object exists.
fn is_there(problem: &Problem) -> bool {
    matches!(problem, Problem::Refused(status) if status.reason == "AlreadyExists")
}

/// Deletes the anchor in the version that was read as not owning the namespace, and waits until it is gone. An anchor in an excluded
/// namespace owns none, and its state never changes.
async fn delete_anchor(
    (session, mut attempts): (&Session, Attempts<'_>),
    name: &str,
    parent: &str,
) -> Result<Result<(), Problem>, Failure> {
    let api = anchors_in(session, parent);
    let is_excluded = published::settings(session).await.0.unmanaged(parent).is_some();
    loop {
        let anchor = match session.call(api.get_opt(name)).await {
            Ok(Some(anchor)) => anchor,
            Ok(None) => return Ok(Ok(())),
            Err(problem) => return Ok(Err(problem)),
        };
        let is_terminating = anchor.metadata.deletion_timestamp.is_some();
        if !is_terminating && (is_excluded || releases(&anchor.data)) {
            let preconditions = Preconditions {
                uid: anchor.metadata.uid.clone(),
                resource_version: anchor.metadata.resource_version.clone(),
            };
            let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
            match session.call(api.delete(name, &params)).await {
                Ok(_) => {}
                Err(problem) if problem.is_not_found() => return Ok(Ok(())),
                Err(problem) if problem.silent_webhook().is_some() && !attempts.go_on(&problem) => {
                    return Ok(Err(problem));
                }
                Err(problem) if problem.code() == 409 || problem.is_temporary() => {}
                Err(problem) => return Ok(Err(problem)),
            }
        }
        if attempts.are_over() && is_terminating {
            // It is being deleted, and another finalizer keeps it.
            return Ok(Ok(()));
        }
        if attempts.are_over() {
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
    use kube::core::Status;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_silent_webhook_is_not_waited_for_as_long_as_a_stale_cache() {
        let terminal = Terminal::quiet();
        let failed = |message: &str| {
            let status = Status::failure(message, "InternalError").with_code(500);
            Problem::Refused(Box::new(status))
        };
        let [silent, stale] = ["failed calling webhook \"x\": timeout", "try again"].map(failed);
        let short = Duration::from_secs(3);
        for (seconds, patience, goes_on) in [
            (5, PATIENCE, [true, true]),
            (15, PATIENCE, [false, true]),
            (61, PATIENCE, [false, false]),
            (2, short, [true, true]),
            (4, short, [false, false]),
        ] {
            let start = Instant::now().checked_sub(Duration::from_secs(seconds)).unwrap();
            let mut attempts = Attempts { start, ..Attempts::new(&terminal, patience) };
            assert_eq!([attempts.go_on(&silent), attempts.go_on(&stale)], goes_on, "after {seconds}s");
        }
    }

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
