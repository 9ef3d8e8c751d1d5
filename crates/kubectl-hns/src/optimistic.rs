//! Writes an object that others, such as the controller, may change after it was read.

use std::time::Duration;

use hns_cluster::api::Api;
use kube::ResourceExt;
use kube::api::{DynamicObject, PostParams};
use tokio::time::sleep;

use crate::Failure;
use crate::failure::Problem;
use crate::session::Session;

/// The number of attempts.
pub(crate) const ATTEMPTS: usize = 5;
const POLL: Duration = Duration::from_millis(250);

/// Creates or replaces the object with `edit` applied. If the object was changed meanwhile, `edit` is applied to the new version, unless
/// `judged`, which gives what the edit was decided by, gives something else for it.
pub(crate) async fn write<T: PartialEq>(
    (session, api): (&Session, &Api<DynamicObject>),
    params: &PostParams,
    mut object: DynamicObject,
    edit: impl Fn(&mut DynamicObject),
    judged: impl Fn(&DynamicObject) -> T,
) -> Result<(), Problem> {
    let seen = judged(&object);
    let mut attempts = ATTEMPTS;
    loop {
        edit(&mut object);
        attempts -= 1;
        let exists = object.metadata.resource_version.is_some();
        let written = if exists {
            session.call(api.replace(&object.name_any(), params, &object)).await
        } else {
            session.call(api.create(params, &object)).await
        };
        let Err(problem) = written else { return Ok(()) };
        let overtaken = if exists {
            problem.is_stale()
        } else {
            problem.code() == 409 && problem.to_string().contains("already exists")
        };
        if !overtaken || attempts == 0 {
            return Err(problem);
        }
        let present = session.call(api.get_opt(&object.name_any())).await?;
        // Otherwise the text that was printed about the change no longer applies.
        let Some(present) = present.filter(|it| judged(it) == seen) else { return Err(problem) };
        object = present;
    }
}

/// Changes an object that exists. `edit` gets each version that is read, and says whether there is something to write; `again` says
/// after which problems to go on. Returns whether something was written.
///
/// # Errors
/// `edit` failed; or, within, a request did.
pub(crate) async fn change(
    (session, api): (&Session, &Api<DynamicObject>),
    (name, params): (&str, &PostParams),
    edit: impl Fn(&mut DynamicObject) -> Result<bool, Failure>,
    mut again: impl FnMut(&Problem) -> bool,
) -> Result<Result<bool, Problem>, Failure> {
    loop {
        let written = match session.call(api.get(name)).await {
            Err(problem) => Err(problem),
            Ok(mut object) => {
                if !edit(&mut object)? {
                    return Ok(Ok(false));
                }
                session.call(api.replace(name, params, &object)).await.map(|_| true)
            }
        };
        match written {
            Err(problem) if again(&problem) => sleep(POLL).await,
            done => return Ok(done),
        }
    }
}
