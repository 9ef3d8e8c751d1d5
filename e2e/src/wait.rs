//! Waiting for conditions: that something becomes true in time, or stays true for a while. Never a bare sleep.

use std::time::Duration;

use anyhow::bail;
use tokio::time::{Instant, sleep, timeout_at};

const POLL: Duration = Duration::from_millis(50);

/// Repeats `check` every 50 ms until it returns a value, and returns that value.
///
/// Fails after `timeout` with `what` and the last failure. A check that hangs is cancelled at the timeout.
pub async fn eventually<T>(
    what: &str,
    timeout: Duration,
    mut check: impl AsyncFnMut() -> Result<T, String>,
) -> anyhow::Result<T> {
    let deadline = Instant::now() + timeout;
    let mut last = "the first check did not finish".to_owned();
    loop {
        match timeout_at(deadline, check()).await {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(reason)) => last = reason,
            Err(_) => bail!("{what}: not within {timeout:?}; last seen: {last}"),
        }
        if Instant::now() >= deadline {
            bail!("{what}: not within {timeout:?}; last seen: {last}");
        }
        sleep(POLL).await;
    }
}

/// Repeats `check` every 50 ms for the whole of `window`, and fails when it first fails.
pub async fn stays(
    what: &str,
    window: Duration,
    mut check: impl AsyncFnMut() -> Result<(), String>,
) -> anyhow::Result<()> {
    let began = Instant::now();
    loop {
        if let Err(reason) = check().await {
            bail!("{what}: no longer after {:?}: {reason}", began.elapsed());
        }
        if began.elapsed() >= window {
            return Ok(());
        }
        sleep(POLL).await;
    }
}

/// Repeats `check` every 50 ms for the whole of `window`, and fails when it first returns a value.
pub async fn never<T>(
    what: &str,
    window: Duration,
    mut check: impl AsyncFnMut() -> Option<T>,
) -> anyhow::Result<()>
where
    T: std::fmt::Debug,
{
    stays(what, window, async || match check().await {
        Some(found) => Err(format!("found {found:?}")),
        None => Ok(()),
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn eventually_returns_the_value_or_the_last_reason() {
        let mut asked = 0;
        let value = eventually("three", Duration::from_secs(5), async || {
            asked += 1;
            if asked == 3 { Ok(asked) } else { Err(format!("asked {asked}")) }
        });
        assert_eq!(value.await.unwrap(), 3);

        let error = eventually::<()>("never so", Duration::from_millis(100), async || Err("no".into()));
        let error = error.await.unwrap_err().to_string();
        assert_eq!(error, "never so: not within 100ms; last seen: no");

        let hanging =
            eventually::<()>("hanging", Duration::from_millis(100), async || std::future::pending().await);
        assert!(hanging.await.is_err());
    }

    #[tokio::test]
    async fn stays_and_never_watch_the_whole_window() {
        let window = Duration::from_millis(300);
        let began = Instant::now();
        stays("calm", window, async || Ok(())).await.unwrap();
        assert!(began.elapsed() >= window);

        let began = Instant::now();
        let late = async || (began.elapsed() > window / 2).then_some("late");
        assert!(never("storm", window, late).await.is_err());
        never("storm", window, async || None::<()>).await.unwrap();
    }
}
