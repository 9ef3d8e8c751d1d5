//! Watching the objects that are kept, one watch for each name: nothing else of their kinds may be read.

use futures::stream::{BoxStream, SelectAll, StreamExt, select_all};
use hns_cluster::objects;
use kube::core::DynamicObject;
use kube::runtime::watcher::Error;
use kube::{Api, Client};

use super::objects::Target;
use super::plan::Seen;

/// What happens to the objects; every one is told of once at the start. Never ends.
pub(super) fn all(client: &Client, targets: &[Target]) -> SelectAll<BoxStream<'static, (Target, Seen)>> {
    select_all(targets.iter().map(|target| one(client.clone(), target.clone())))
}

fn one(client: Client, target: Target) -> BoxStream<'static, (Target, Seen)> {
    let api: Api<DynamicObject> = Api::all_with(client, &target.kind.resource());
    objects::watch(api, &target.name)
        .filter_map(move |event| {
            let seen = match event {
                Ok(Some(object)) => serde_json::to_value(object).ok().map(Seen::Present),
                Ok(None) => Some(Seen::Absent),
                Err(error) => refusal(&target, &error),
            };
            let target = target.clone();
            std::future::ready(seen.map(|seen| (target, seen)))
        })
        .boxed()
}

fn refusal(target: &Target, error: &Error) -> Option<Seen> {
    let refusal = objects::refusal(error).map(|message| Seen::Refused(message.to_owned()));
    if refusal.is_none() {
        tracing::debug!(%error, "the watch of {target} was interrupted");
    }
    refusal
}
