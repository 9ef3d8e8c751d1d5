//! Watches the objects of the reconciler, each by its name, because the controller may read no other objects of these kinds.

use futures::stream::{BoxStream, SelectAll, StreamExt, select_all};
use hns_cluster::error_text::error_text;
use hns_cluster::objects;
use kube::core::DynamicObject;
use kube::runtime::watcher::Error;
use kube::{Api, Client};

use super::objects::Target;
use super::plan::Observed;

/// The present state of each object, and every change. The stream does not end.
pub(super) fn all(client: &Client, targets: &[Target]) -> SelectAll<BoxStream<'static, (Target, Observed)>> {
    select_all(targets.iter().map(|target| one(client.clone(), target.clone())))
}

fn one(client: Client, target: Target) -> BoxStream<'static, (Target, Observed)> {
    let api: Api<DynamicObject> = Api::all_with(client, &target.kind.resource());
    objects::watch(api, &target.name)
        .filter_map(move |event| {
            let observed = match event {
                Ok(Some(object)) => serde_json::to_value(object).ok().map(Observed::Present),
                Ok(None) => Some(Observed::Absent),
                Err(error) => refusal(&target, &error),
            };
            let target = target.clone();
            std::future::ready(observed.map(|observed| (target, observed)))
        })
        .boxed()
}

fn refusal(target: &Target, error: &Error) -> Option<Observed> {
    let refusal = objects::refusal(error).map(|message| Observed::Unreadable(message.to_owned()));
    if refusal.is_none() {
        tracing::debug!(error = error_text(error), "the watch of {target} was interrupted");
    }
    refusal
}
