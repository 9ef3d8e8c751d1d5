//! Two hundred reviews a second through the API server, and new connections to every replica that trust the present
//! registrations. Records every failure.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use kube::Client;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use super::scene::{Scene, handshake, registered, review};

const REVIEWERS: u32 = 40;
/// For each reviewer; together two hundred a second.
const REVIEW_EVERY: Duration = Duration::from_millis(200);
/// For each replica.
const CONNECT_EVERY: Duration = Duration::from_millis(100);

#[derive(Default)]
struct Counts {
    reviews: AtomicU64,
    connections: AtomicU64,
    failures: Mutex<Vec<String>>,
}

impl Counts {
    fn failed(&self, failure: String) {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).push(failure);
    }
}

/// A load that runs until [`Load::end`].
pub(crate) struct Load {
    counts: Arc<Counts>,
    tasks: JoinSet<()>,
    began: Instant,
}

impl Load {
    pub(crate) fn start(scene: &Scene<'_>) -> Self {
        let (counts, mut tasks) = (Arc::<Counts>::default(), JoinSet::new());
        let client = scene.product.cluster().admin();
        for reviewer in 0..REVIEWERS {
            tasks.spawn(send_reviews(client.clone(), reviewer, counts.clone()));
        }
        for webhook in &scene.webhooks {
            tasks.spawn(connect(client.clone(), webhook.webhook_port(), counts.clone()));
        }
        Self { counts, tasks, began: Instant::now() }
    }

    /// The progress so far, as text.
    pub(crate) fn report(&self) -> String {
        let (reviews, connections) = self.so_far();
        let took = self.began.elapsed().as_secs_f64();
        format!("{reviews} reviews and {connections} new connections in {took:.1} s, none failed")
    }

    fn so_far(&self) -> (u64, u64) {
        let Counts { reviews, connections, .. } = &*self.counts;
        (reviews.load(Ordering::Relaxed), connections.load(Ordering::Relaxed))
    }

    /// Fails if a request has failed.
    pub(crate) fn check(&self) -> Result<()> {
        let failures = self.counts.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let first: Vec<_> = failures.iter().take(5).collect();
        ensure!(failures.is_empty(), "{} failed, the first of them: {first:#?}", failures.len());
        let (reviews, connections) = self.so_far();
        ensure!(reviews > 0 && connections > 0, "there was no load");
        Ok(())
    }

    /// Stops it; fails if a request has failed.
    pub(crate) async fn end(mut self) -> Result<()> {
        self.tasks.shutdown().await;
        self.check()
    }
}

async fn send_reviews(client: Client, reviewer: u32, counts: Arc<Counts>) {
    let mut ticks = tokio::time::interval(REVIEW_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for number in 0_u64.. {
        ticks.tick().await;
        match review(&client, &format!("review-{reviewer}-{number}")).await {
            Ok(()) => drop(counts.reviews.fetch_add(1, Ordering::Relaxed)),
            Err(error) => counts.failed(error.to_string()),
        }
    }
}

async fn connect(client: Client, port: u16, counts: Arc<Counts>) {
    let mut ticks = tokio::time::interval(CONNECT_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        match connect_once(&client, port).await {
            Ok(()) => drop(counts.connections.fetch_add(1, Ordering::Relaxed)),
            Err(error) => counts.failed(format!("{error:#}")),
        }
    }
}

async fn connect_once(client: &Client, port: u16) -> Result<()> {
    let bundles = registered(client).await?;
    // While the two registrations differ for a moment, either may be used.
    for trusted in bundles {
        handshake(port, &trusted).await.with_context(|| format!("connecting to port {port}"))?;
    }
    Ok(())
}
