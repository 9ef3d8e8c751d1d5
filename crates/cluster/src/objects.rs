//! Watches one object by its name. This needs no right to read other objects of its kind.

use std::{fmt::Debug, time::Duration};

use futures::future;
use futures::stream::{self, BoxStream, Stream, StreamExt};
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
/// An error means that the watch was interrupted or refused; it is retried within two seconds. If the resource version has expired (410
/// Gone), the object is read anew.
pub fn watch<K>(api: impl Into<Api<K>>, name: &str) -> BoxStream<'static, Result<Option<K>, Error>>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let (api, name) = (api.into(), name.to_owned());
    stream::repeat_with(move || until_expired(watch_object(api.clone(), &name).backoff(Delays(FIRST_DELAY))))
        .flatten()
        .boxed()
}

/// Ends after the error by which a watch starts with an expired version.
fn until_expired<K>(
    watch: impl Stream<Item = Result<Option<K>, Error>>,
) -> impl Stream<Item = Result<Option<K>, Error>> {
    watch.scan(false, |has_expired, event| {
        let goes_on = !*has_expired;
        *has_expired = event.as_ref().err().is_some_and(is_expired);
        future::ready(goes_on.then_some(event))
    })
}

/// Whether the resource version has expired. The watcher lists again by itself if a running watch expires, but not if a new watch starts
/// with an expired version.
pub(crate) fn is_expired(error: &Error) -> bool {
    matches!(error, Error::WatchStartFailed(kube::Error::Api(status)) if status.code == 410)
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

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[tokio::test]
    async fn a_watch_begins_anew_after_its_version_has_expired_and_only_then() {
        let failed = |code| {
            let status = Status { code, ..Status::default() };
            Err(Error::WatchStartFailed(kube::Error::Api(Box::new(status))))
        };
        let events: Vec<Result<Option<u8>, Error>> =
            vec![Ok(Some(1)), failed(500), Ok(None), failed(410), failed(410), Ok(Some(2))];
        let seen: Vec<_> = until_expired(stream::iter(events)).map(Result::ok).collect().await;
        assert_eq!(seen, [Some(Some(1)), None, Some(None), None]);
    }
}
