//! Requests that need the webhook's word, sent all the time, and what became of each. Nothing is changed by them: they are
//! dry runs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hns_api::{
    HierarchyConfiguration, HierarchyConfigurationSpec, SubnamespaceAnchor, SubnamespaceAnchorSpec,
};
use hns_e2e::Cluster;
use hns_e2e::steps::HIERARCHY;
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::task::JoinSet;

const WORKERS: usize = 4;
const PAUSE: Duration = Duration::from_millis(100);

/// The namespace that the requests are about; it is there and has no hierarchy.
pub(crate) const NAMESPACE: &str = "load";

pub(crate) struct Load {
    shared: Arc<Shared>,
    workers: JoinSet<()>,
}

#[derive(Default)]
struct Shared {
    ending: AtomicBool,
    answers: Mutex<Vec<Answer>>,
}

/// One answer: when, and what was wrong with it.
#[derive(Debug, Clone)]
struct Answer {
    at: Instant,
    wrong: Option<String>,
}

impl Load {
    pub(crate) fn start(cluster: &Cluster) -> Self {
        let shared = Arc::new(Shared::default());
        let mut workers = JoinSet::new();
        for worker in 0..WORKERS {
            let (client, shared) = (cluster.admin(), Arc::clone(&shared));
            workers.spawn(async move { work(worker, &client, &shared).await });
        }
        Self { shared, workers }
    }

    /// Ends the load; every answer must have been the right one. Says how many there were.
    pub(crate) async fn stop(self) -> Result<String> {
        let answers = self.answers().await;
        let wrong: Vec<&String> = answers.iter().filter_map(|answer| answer.wrong.as_ref()).collect();
        ensure!(
            wrong.is_empty(),
            "{} of {} requests: {:?}",
            wrong.len(),
            answers.len(),
            wrong.iter().take(3)
        );
        ensure!(answers.len() > 2 * WORKERS, "only {} requests were answered", answers.len());
        Ok(format!("{} requests, none refused", answers.len()))
    }

    /// Ends the load; every answer from `since` on must have been the right one.
    pub(crate) async fn stop_since(self, since: Instant) -> Result<String> {
        let answers = self.answers().await;
        let (before, after): (Vec<_>, Vec<_>) = answers.into_iter().partition(|answer| answer.at < since);
        let lost = before.iter().filter(|answer| answer.wrong.is_some()).count();
        let wrong = after.iter().find_map(|answer| answer.wrong.as_ref());
        ensure!(wrong.is_none(), "after it was back: {wrong:?}");
        ensure!(after.len() > WORKERS, "only {} requests were answered after it was back", after.len());
        Ok(format!(
            "{} requests, {lost} without an answer while it was away, {} after that",
            before.len(),
            after.len()
        ))
    }

    /// How many right answers there were in a row, up to now.
    pub(crate) fn right_in_a_row(&self) -> usize {
        let answers = self.shared.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.iter().rev().take_while(|answer| answer.wrong.is_none()).count()
    }

    async fn answers(mut self) -> Vec<Answer> {
        self.shared.ending.store(true, Ordering::Relaxed);
        while self.workers.join_next().await.is_some() {}
        self.shared.answers.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn work(worker: usize, client: &Client, shared: &Shared) {
    let mut number = 0;
    while !shared.ending.load(Ordering::Relaxed) {
        // In turns what is allowed and what is not: an answer without the webhook could not tell them apart.
        let outcome = if (worker + number).is_multiple_of(2) {
            allowed(client, NAMESPACE, &format!("load-{worker}-{number}")).await
        } else {
            refused(client, NAMESPACE).await
        };
        let answer = Answer { at: Instant::now(), wrong: outcome.err().map(|error| format!("{error:#}")) };
        shared.answers.lock().unwrap_or_else(PoisonError::into_inner).push(answer);
        number += 1;
        tokio::time::sleep(PAUSE).await;
    }
}

fn dry_run() -> PostParams {
    PostParams { dry_run: true, ..PostParams::default() }
}

/// Asks for a subnamespace, which is allowed. A dry run.
pub(crate) async fn allowed(client: &Client, namespace: &str, name: &str) -> Result<()> {
    let anchors: Api<SubnamespaceAnchor> = Api::namespaced(client.clone(), namespace);
    let anchor = SubnamespaceAnchor::new(name, SubnamespaceAnchorSpec::default());
    anchors.create(&dry_run(), &anchor).await.context("an anchor, which is allowed").map(drop)
}

/// Asks for a namespace below itself, which is refused. A dry run.
pub(crate) async fn refused(client: &Client, namespace: &str) -> Result<()> {
    let hierarchies: Api<HierarchyConfiguration> = Api::namespaced(client.clone(), namespace);
    // Its own parent: only the webhook knows that this is no tree.
    let spec = HierarchyConfigurationSpec { parent: Some(namespace.into()), ..Default::default() };
    match hierarchies.create(&dry_run(), &HierarchyConfiguration::new(HIERARCHY, spec)).await {
        Err(kube::Error::Api(status)) if is_verdict(&status.message) => Ok(()),
        Err(error) => Err(error).context("a namespace below itself, which the webhook refuses"),
        Ok(_) => anyhow::bail!("a namespace below itself was allowed"),
    }
}

fn is_verdict(message: &str) -> bool {
    message.contains("denied the request") && !message.contains("failed calling webhook")
}
