//! Following files: a certificate in a mounted Secret, or files that an administrator maintains.

use std::{convert::Infallible, path::Path, time::Duration};

use tokio::time::MissedTickBehavior;

use super::{CERTIFICATE, Files, KEY, LoadError, ServingCertificate};
use hns_cluster::readiness::Condition;

/// How often the files are read. They are compared by content: the kubelet replaces them by switching a symbolic link, which file
/// notifications follow only once.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(1);

impl ServingCertificate {
    /// Loads the certificate from a directory, and loads it again whenever the files change. `condition` holds from the first one
    /// loaded. Never returns; drop the future to stop.
    pub async fn follow_directory(&self, directory: &Path, condition: Condition) -> Infallible {
        self.follow_every(LOOK_EVERY, directory, condition).await
    }

    pub(super) async fn follow_every(
        &self,
        period: Duration,
        directory: &Path,
        condition: Condition,
    ) -> Infallible {
        let origin = directory.display().to_string();
        let directory = directory.to_owned();
        let read = move || read(&directory).map_err(|error| error.to_string());
        follow(period, read, |found| self.take(found, &origin, &condition)).await
    }
}

/// Reads periodically, and passes on what was read whenever it has changed.
pub(super) async fn follow<T: PartialEq + Send + 'static>(
    period: Duration,
    read: impl Fn() -> Result<T, String> + Clone + Send + 'static,
    mut take: impl FnMut(Result<&T, &str>),
) -> Infallible {
    let mut ticks = tokio::time::interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut seen: Option<Result<T, String>> = None;
    loop {
        ticks.tick().await;
        // A network file system may block.
        let read = tokio::task::spawn_blocking(read.clone()).await;
        let found = read.unwrap_or_else(|error| Err(error.to_string()));
        if seen.as_ref() != Some(&found) {
            take(found.as_ref().map_err(String::as_str));
            seen = Some(found);
        }
    }
}

fn read(directory: &Path) -> Result<Files, LoadError> {
    let file = |name| std::fs::read(directory.join(name)).map_err(|error| LoadError::Read(name, error));
    let mut certificate = file(CERTIFICATE)?;
    // The directory may be switched between two reads; a pair from both sides of the switch would be refused and reported as an
    // error.
    for _ in 0..3 {
        let key = file(KEY)?;
        let again = file(CERTIFICATE)?;
        if again == certificate {
            return Ok(Files { certificate, key });
        }
        certificate = again;
    }
    let key = file(KEY)?;
    Ok(Files { certificate, key })
}
