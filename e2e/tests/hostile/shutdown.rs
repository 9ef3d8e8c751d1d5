//! How the binaries shut down.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hns_api::names::paths;
use hns_e2e::{Exit, Fault, Signal, eventually};
use serde_json::Value;

use super::client::{Client, Sent};
use super::fixture::{install, unharmed, webhook, webhook_behind_proxy};
use super::review::{UNHEARD, honest, placement};

/// How long a pod may take to shut down.
const GRACE: Duration = Duration::from_secs(10);

/// "At once" for a signal.
const AT_ONCE: Duration = Duration::from_secs(1);

/// How long the slow review takes: longer than new connections are accepted, and shorter than the whole shutdown.
const SLOW: Duration = Duration::from_secs(5);

#[tokio::test]
async fn told_to_end_the_webhook_is_unready_answers_what_it_has_and_ends_well() -> Result<()> {
    let (product, replica, proxy) = webhook_behind_proxy().await?;
    let client = Client::new(&product)?;
    ensure!(replica.is_ready().await?);
    let lookups = Arc::new(AtomicUsize::new(0));
    let (path, counted) = (format!("/api/v1/namespaces/{UNHEARD}"), Arc::clone(&lookups));
    proxy.set_rule(move |parts| {
        (parts.uri.path() == path).then(|| {
            counted.fetch_add(1, Ordering::SeqCst);
            Fault::Delay(SLOW)
        })
    });
    let slow = [(); 2].map(|()| tokio::spawn(slow_review(client.clone())));
    eventually("both reviews are under way", GRACE, async || match lookups.load(Ordering::SeqCst) {
        2 => Ok(()),
        count => Err(format!("{count} lookups")),
    })
    .await?;

    let told = Instant::now();
    replica.process().signal(Signal::TERM)?;
    eventually("it is unready at once", AT_ONCE, async || {
        let (ready, text) = replica.readiness().await.map_err(|error| format!("{error:#}"))?;
        if !ready && text.contains("shutting down") { Ok(()) } else { Err(text) }
    })
    .await?;
    println!("unready {:.1?} after SIGTERM", told.elapsed());
    let mut answered = 0;
    while told.elapsed() < Duration::from_secs(2) {
        honest(&client).await.context("a review before all load balancers have noticed")?;
        answered += 1;
    }
    for review in slow {
        let response = review.await??;
        ensure!(response["allowed"] == false && response["status"]["code"] == 503, "{response}");
    }
    let slowest = told.elapsed();
    ensure!(
        slowest > Duration::from_secs(3),
        "they were to end after new connections are accepted: {slowest:?}"
    );
    let exit = replica.process().wait_exit(GRACE).await?;
    ensure!(exit == Exit::Code(0) && told.elapsed() < GRACE, "{exit} after {:?}", told.elapsed());
    ensure!(client.tcp().await.is_err(), "no program listens any more");
    ensure!(!replica.log().contains("panic"), "{}", replica.log());
    println!(
        "{answered} new pairs of reviews answered, those under way after {slowest:.1?}, {exit} after {:.1?}",
        told.elapsed()
    );
    Ok(())
}

async fn slow_review(client: Client) -> Result<Value> {
    let path = format!("{}?timeout=10s", paths::HIERARCHY_CONFIGURATIONS);
    let (status, body) = client.ask(Sent::json(&path, placement("u-4").to_string())).await?;
    ensure!(status.is_success(), "{status} {body}");
    let review: Value = serde_json::from_str(&body)?;
    ensure!(review["response"]["uid"] == "u-4", "{review}");
    Ok(review["response"].clone())
}

#[tokio::test]
async fn a_second_signal_ends_the_webhook_at_once() -> Result<()> {
    let (product, replica) = webhook().await?;
    honest(&Client::new(&product)?).await?;
    unharmed(&replica)?;
    replica.process().signal(Signal::TERM)?;
    // Two pending signals of one kind count as one.
    eventually("the first signal is noticed", AT_ONCE, async || match replica.is_ready().await {
        Ok(false) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await?;
    let told = Instant::now();
    replica.process().signal(Signal::TERM)?;
    let exit = replica.process().wait_exit(AT_ONCE).await?;
    ensure!(exit == Exit::Code(1), "{exit}");
    println!("{exit} {:.1?} after the second SIGTERM", told.elapsed());
    Ok(())
}

#[tokio::test]
async fn told_to_end_the_controller_ends_well() -> Result<()> {
    let product = install().await?;
    for signal in [Signal::TERM, Signal::INT] {
        let controller = product.start_controller().await?;
        let told = Instant::now();
        controller.process().signal(signal)?;
        let exit = controller.process().wait_exit(GRACE).await?;
        ensure!(exit == Exit::Code(0), "{exit}:\n{}", controller.log());
        println!("the controller: {exit} {:.1?} after {signal:?}", told.elapsed());
    }
    Ok(())
}
