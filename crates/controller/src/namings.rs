//! Ends namings of missing parents ([`forest::hnc::naming`]) that are older than any request, and creates the list.

use std::collections::HashMap;
use std::time::Duration;

use forest::hnc::naming::{Naming, Namings};
use futures::StreamExt as _;
use hns_api::names::MISSING_PARENTS;
use hns_cluster::error_text::error_text;
use hns_cluster::stored::{Store, Stored, parse};
use hns_cluster::{namings, objects};
use hns_runtime::shutdown::Shutdown;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use tokio::time::{Instant, sleep, sleep_until};

/// An API server ends a request after a minute, and a webhook knows what was stored within half a minute. It counts from when this
/// process sees the naming, so clocks need not agree.
const KEPT: Duration = Duration::from_secs(100);

/// The delay after a failed write.
const RETRY: Duration = Duration::from_secs(1);

/// Works until `may_write` returns false or the shutdown begins.
pub(crate) async fn keep(client: Client, store: Store, may_write: impl Fn() -> bool, shutdown: Shutdown) {
    let keeper = Keeper { client, store, stored: Stored::default(), seen: HashMap::new() };
    tokio::select! {
        () = keeper.follow(may_write) => {}
        () = shutdown.begun() => {}
    }
}

struct Keeper {
    client: Client,
    store: Store,
    stored: Stored<Namings>,
    /// When each was first seen, or last had to stay.
    seen: HashMap<Naming, Instant>,
}

impl Keeper {
    async fn follow(mut self, may_write: impl Fn() -> bool) {
        let watch = |store: &Store| objects::watch(store.api().clone(), MISSING_PARENTS);
        let mut list = watch(&self.store);
        loop {
            let due = self.seen.values().min().map(|since| *since + KEPT);
            let event = tokio::select! {
                event = list.next() => event,
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => None,
            };
            if !may_write() {
                return;
            }
            let done = match event {
                Some(Ok(object)) => self.show(object).await,
                Some(Err(error)) => {
                    let error = error_text(&error);
                    tracing::info!(error, "the watch of the ConfigMap {MISSING_PARENTS} was interrupted");
                    Ok(())
                }
                None => self.end().await,
            };
            if let Err(error) = done {
                let error = error_text(&error);
                tracing::warn!(error, "the ConfigMap {MISSING_PARENTS} is not up to date; trying again");
                sleep(RETRY).await;
                // It shows the object again.
                list = watch(&self.store);
            }
        }
    }

    async fn show(&mut self, object: Option<ConfigMap>) -> kube::Result<()> {
        let Some(object) = object else { return self.store.create(&Namings::default()).await };
        let metadata = object.metadata.clone();
        match parse(object) {
            Ok(stored) => {
                self.note(stored);
                Ok(())
            }
            Err(error) => {
                let error = error_text(&error);
                tracing::warn!(error, "the ConfigMap {MISSING_PARENTS} contains no list; it is written anew");
                self.store.replace(&Stored::of(metadata), &Namings::default()).await.map(drop)
            }
        }
    }

    fn note(&mut self, stored: Stored<Namings>) {
        let (now, before) = (Instant::now(), std::mem::take(&mut self.seen));
        let since = |naming: &Naming| before.get(naming).copied().unwrap_or(now);
        self.seen = stored.content.0.iter().map(|naming| (naming.clone(), since(naming))).collect();
        self.stored = stored;
    }

    /// Removes what is old enough. A naming stays while an anchor without its consent waits: the controller has not looked yet.
    async fn end(&mut self) -> kube::Result<()> {
        let now = Instant::now();
        let mut left = self.stored.content.clone();
        for (naming, since) in self.seen.iter_mut().filter(|(_, since)| **since + KEPT <= now) {
            if naming.may_end(&namings::holders_of_waiting(&self.client, &naming.parent).await?) {
                left.remove(naming);
            } else {
                *since = now;
            }
        }
        if left == self.stored.content {
            return Ok(());
        }
        match self.store.replace(&self.stored, &left).await? {
            Some(stored) => self.note(stored),
            // The webhook has changed it, and the watch will show that.
            None => sleep(RETRY).await,
        }
        Ok(())
    }
}
