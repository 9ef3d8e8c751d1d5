//! Watches one object by its name. This needs no right to read other objects of its kind.

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

/// The states of the object of this name, the present one first; `None` if it does not exist. The stream does not end.
///
/// An error means that the watch was interrupted or refused; it is retried within two seconds.
pub fn watch<K>(api: impl Into<Api<K>>, name: &str) -> BoxStream<'static, Result<Option<K>, Error>>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    watch_object(api.into(), name).backoff(Delays(FIRST_DELAY)).boxed()
}

/// The message of the API server if it refuses the watch; `None` if it cannot be reached.
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

/// The delays between attempts: they double up to [`LONGEST_DELAY`].
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
