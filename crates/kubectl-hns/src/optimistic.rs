//! Writes an object that others, such as the controller, may change after it was read.

use hns_cluster::api::Api;
use kube::ResourceExt;
use kube::api::{DynamicObject, PostParams};

use crate::failure::Problem;
use crate::session::Session;

/// The number of attempts.
const ATTEMPTS: usize = 5;

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
