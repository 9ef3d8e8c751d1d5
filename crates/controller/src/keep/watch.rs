//! Watching the objects that are kept, one watch for each name: nothing else of their kinds may be read.

use std::time::Duration;

use futures::stream::{BoxStream, SelectAll, StreamExt, select_all};
use kube::core::DynamicObject;
use kube::runtime::WatchStreamExt;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{Error, watch_object};
use kube::{Api, Client};

use super::objects::Target;
use super::plan::Seen;

const FIRST_DELAY: Duration = Duration::from_millis(50);
const LONGEST_DELAY: Duration = Duration::from_secs(2);

/// What happens to the objects; every one is told of once at the start. Never ends.
pub(super) fn all(client: &Client, targets: &[Target]) -> SelectAll<BoxStream<'static, (Target, Seen)>> {
    select_all(targets.iter().map(|target| one(client.clone(), target.clone())))
}

fn one(client: Client, target: Target) -> BoxStream<'static, (Target, Seen)> {
    let api: Api<DynamicObject> = Api::all_with(client, &target.kind.resource());
    watch_object(api, &target.name)
        .backoff(Delays(FIRST_DELAY))
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

/// Waiting times between attempts: doubling, never over [`LONGEST_DELAY`].
struct Delays(Duration);

impl Iterator for Delays {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let delay = self.0;
        self.0 = (delay * 2).min(LONGEST_DELAY);
        Some(delay)
    }
}

impl Backoff for Delays {
    fn reset(&mut self) {
        self.0 = FIRST_DELAY;
    }
}

/// What the API server said, if it refuses. While it cannot be reached, what was known last still stands.
fn refusal(target: &Target, error: &Error) -> Option<Seen> {
    match error {
        Error::InitialListFailed(kube::Error::Api(status))
        | Error::WatchStartFailed(kube::Error::Api(status))
            if matches!(status.code, 401 | 403 | 404) =>
        {
            Some(Seen::Refused(status.message.clone()))
        }
        _ => {
            tracing::debug!(%error, "the watch of {target} was interrupted");
            None
        }
    }
}
