//! Watching one object by its name: nothing else of its kind need be readable.

use std::{fmt::Debug, time::Duration};

use futures::stream::{BoxStream, StreamExt};
use kube::{
    Api, Resource,
    runtime::{
        WatchStreamExt as _,
        utils::Backoff,
        watcher::{Error, watch_object},
    },
};
use serde::de::DeserializeOwned;

const FIRST_DELAY: Duration = Duration::from_millis(50);
const LONGEST_DELAY: Duration = Duration::from_secs(2);

/// What happens to the object of this name, the present state first; `None` while there is none. Never ends.
///
/// An error says that the watch was interrupted or refused; it is tried again, after two seconds at most.
pub fn watch<K>(api: impl Into<Api<K>>, name: &str) -> BoxStream<'static, Result<Option<K>, Error>>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    watch_object(api.into(), name).backoff(Delays(FIRST_DELAY)).boxed()
}

/// What the API server said, if it refuses the watch. While it cannot be reached, what was known last still stands.
pub fn refusal(error: &Error) -> Option<&str> {
    match error {
        Error::InitialListFailed(kube::Error::Api(status))
        | Error::WatchStartFailed(kube::Error::Api(status))
            if matches!(status.code, 401 | 403 | 404) =>
        {
            Some(&status.message)
        }
        _ => None,
    }
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
