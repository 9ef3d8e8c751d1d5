//! Clients that connect and send nothing are disconnected, and delay no other client before that.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::FutureExt as _;
use futures::future::{join_all, try_join_all};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::timeout;

use super::client::Client;
use super::fixture::{unharmed, webhook};
use super::review::honest;

/// How long a client may send nothing.
const IN_TIME: Duration = Duration::from_secs(15);

/// How long a review may take meanwhile: a tenth of what it may take at most.
const PROMPT: Duration = Duration::from_secs(1);

#[tokio::test]
async fn two_hundred_silent_clients_are_closed_in_time_and_delay_no_other() -> Result<()> {
    let (product, replica) = webhook().await?;
    let client = Client::new(&product)?;
    honest(&client).await?;
    let began = Instant::now();
    let tcp = try_join_all((0..100).map(|_| client.tcp())).await?;
    let tls = try_join_all((0..100).map(|_| client.tls())).await?;
    ensure!(began.elapsed() < IN_TIME / 3, "connecting took {:?}", began.elapsed());

    let mut slowest = Duration::ZERO;
    for _ in 0..20 {
        let asked = Instant::now();
        honest(&client).await?;
        slowest = slowest.max(asked.elapsed());
    }
    ensure!(slowest < PROMPT, "an honest review took {slowest:?}");

    let all = tcp.into_iter().map(|stream| closed(stream).boxed_local());
    let ends = join_all(all.chain(tls.into_iter().map(|stream| closed(stream).boxed_local()))).await;
    ensure!(ends.len() == 200);
    for end in ends {
        end?;
    }
    println!(
        "200 silent clients closed after {:.1?}; meanwhile a pair of reviews took {slowest:.1?}",
        began.elapsed()
    );
    honest(&client).await?;
    unharmed(&replica)
}

/// Reads until the server closes.
async fn closed(mut stream: impl AsyncRead + Unpin) -> Result<()> {
    let mut said = Vec::new();
    // An error is a connection that was reset: closed as well.
    let _ = timeout(IN_TIME, stream.read_to_end(&mut said)).await.context("it was not closed in time")?;
    Ok(())
}
