//! Reads, creates and deletes `SubNamespaces`. Each write may have been made already.

use std::time::Duration;

use hns_api::accurate::conditions::{CONFLICT, STALLED};
use hns_api::accurate::{SubNamespace, SubNamespaceSpec};
use kube::api::{DeleteParams, PostParams, Preconditions};
use tokio::time::{Instant, sleep};

use super::{UNSERVED, describe, failed};
use crate::failure::{Done, Problem};
use crate::session::Session;
use crate::wait::patiently;
use crate::{Failure, Terminal};

/// How long the controller and the webhook may lag behind the previous write.
const PATIENCE: Duration = Duration::from_secs(60);
/// The same if, as far as is known, nothing serves the API. Accurate may run in an unusual namespace.
const UNSERVED_PATIENCE: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(250);

/// The `SubNamespace`, unless it is being deleted.
pub(super) async fn get(
    session: &Session,
    parent: &str,
    name: &str,
) -> Result<Option<SubNamespace>, Failure> {
    let found = session.call(session.within::<SubNamespace>(parent).get_opt(name)).await;
    let found = found
        .map_err(|problem| failed(format_args!("SubNamespace {parent}/{name} cannot be read"), &problem))?;
    Ok(found.filter(|it| it.metadata.deletion_timestamp.is_none()))
}

/// Creates the `SubNamespace` unless it exists, and returns whether it did not. One that is being deleted is waited for.
pub(super) async fn ensure(
    (session, terminal): (&Session, &Terminal),
    parent: &str,
    name: &str,
    spec: &SubNamespaceSpec,
) -> Result<bool, Failure> {
    let what = format!("create SubNamespace {parent}/{name}");
    patiently(terminal, ("the API server", &what), create(session, parent, name, spec)).await
}

/// Fails if the `SubNamespace` does not exist and could not be created.
pub(super) async fn try_to_create(session: &Session, parent: &str, name: &str) -> Done {
    if get(session, parent, name).await?.is_some() {
        return Ok(());
    }
    let wanted = SubNamespace::new(name, SubNamespaceSpec::default());
    let tried = dry_run(session, parent, &wanted).await;
    tried.map_err(|problem| failed(format_args!("SubNamespace {parent}/{name} cannot be created"), &problem))
}

/// Why it would not be created now, if so. One that exists is no reason: if it is being deleted, it is waited for.
pub(super) async fn dry_run(session: &Session, parent: &str, wanted: &SubNamespace) -> Result<(), Problem> {
    let params = PostParams { dry_run: true, ..PostParams::default() };
    match session.call(session.within::<SubNamespace>(parent).create(&params, wanted)).await {
        Err(problem) if problem.code() != 409 => Err(problem),
        _ => Ok(()),
    }
}

async fn create(
    session: &Session,
    parent: &str,
    name: &str,
    spec: &SubNamespaceSpec,
) -> Result<bool, Failure> {
    let api = session.within::<SubNamespace>(parent);
    let wanted = SubNamespace::new(name, spec.clone());
    let deadline = Instant::now() + PATIENCE;
    loop {
        if get(session, parent, name).await?.is_some() {
            return Ok(false);
        }
        let Err(problem) = session.call(api.create(&PostParams::default(), &wanted)).await else {
            return Ok(true);
        };
        if problem.code() != 409 || Instant::now() >= deadline {
            return Err(failed(format_args!("SubNamespace {parent}/{name} cannot be created"), &problem));
        }
        sleep(POLL).await;
    }
}

/// Deletes the `SubNamespace` after the controller has recorded that the namespace does not belong to it: otherwise the namespace
/// could be deleted with it. With a `uid`, another one of that name stays. Returns whether it was deleted, which it is not if it is gone.
pub(in crate::commands) async fn release(
    (session, terminal): (&Session, &Terminal),
    parent: &str,
    name: &str,
    uid: Option<&str>,
) -> Result<bool, Failure> {
    let what = format!("delete SubNamespace {parent}/{name}, which then no longer owns {name}");
    patiently(terminal, ("the controller", &what), delete((session, terminal), parent, name, uid)).await
}

async fn delete(
    (session, terminal): (&Session, &Terminal),
    parent: &str,
    name: &str,
    uid: Option<&str>,
) -> Result<bool, Failure> {
    let api = session.within::<SubNamespace>(parent);
    let what = format!("SubNamespace {parent}/{name} cannot be deleted");
    let mut deadline = Instant::now() + PATIENCE;
    let mut way_out = None;
    loop {
        let Some(form) = get(session, parent, name).await? else { return Ok(false) };
        if uid.is_some_and(|uid| form.metadata.uid.as_deref() != Some(uid)) {
            return Ok(false);
        }
        let is_late = Instant::now() >= deadline;
        if is_in_conflict(&form) {
            let preconditions = Preconditions {
                uid: form.metadata.uid.clone(),
                resource_version: form.metadata.resource_version.clone(),
            };
            let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
            match session.call(api.delete(name, &params)).await {
                Ok(_) => return Ok(true),
                Err(problem) if problem.is_not_found() => return Ok(true),
                // The webhook has not seen the new parent yet.
                Err(problem)
                    if !is_late
                        && (problem.code() == 409 || problem.is_temporary() || problem.is_denied()) => {}
                Err(problem) => return Err(failed(what, &problem)),
            }
        } else if let Some(hint) = way_out
            && is_late
        {
            return Err(Failure::new(format!(
                "Error: {what}: its status does not show yet that namespace {name} has another parent, so the namespace could be \
                 deleted with it"
            ))
            .with_hint(hint));
        } else if way_out.is_none() {
            let (limit, hint) = limit((session, terminal), parent, name).await;
            (deadline, way_out) = (Instant::now() + limit, Some(hint));
        }
        sleep(POLL).await;
    }
}

/// How long to wait for the status, and what to do if it does not change. Says so if nothing changes it.
async fn limit(
    (session, terminal): (&Session, &Terminal),
    parent: &str,
    name: &str,
) -> (Duration, &'static str) {
    if !describe::is_unserved(session).await {
        return (PATIENCE, "The controller has not updated it; `kubectl hns doctor` checks the controller.");
    }
    terminal.note(&format!(
        "{UNSERVED}: nothing updates the status of SubNamespace {parent}/{name}, for which this command waits"
    ));
    (UNSERVED_PATIENCE, "Set accurate.enabled in the settings of hns.")
}

/// Whether the namespace of that name belongs to another parent.
fn is_in_conflict(form: &SubNamespace) -> bool {
    let conditions = form.status.iter().flat_map(|it| it.conditions.iter().flatten());
    conditions.into_iter().any(|it| it.type_ == STALLED && it.status == "True" && it.reason == CONFLICT)
}
