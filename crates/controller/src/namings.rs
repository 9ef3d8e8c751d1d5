//! Ends namings of missing parents ([`forest::hnc::naming`]) that are older than any request, and creates the list.

use std::collections::HashMap;
use std::time::Duration;

use forest::hnc::naming::{Naming, Namings};
use hns_cluster::namings;
use hns_cluster::stored::{Store, Stored};
use hns_runtime::shutdown::Shutdown;
use kube::Client;
use tokio::time::{Instant, sleep};

use crate::stored::{self, RETRY};

/// An API server ends a request after a minute, and a webhook knows what was stored within half a minute. It counts from when this
/// process sees the naming, so clocks need not agree.
const KEPT: Duration = Duration::from_secs(100);

/// Works until `may_write` returns false or the shutdown begins.
pub(crate) async fn keep(client: Client, store: Store, may_write: impl Fn() -> bool, shutdown: Shutdown) {
    let keeper = Keeper {
        client: client.clone(),
        store: store.clone(),
        stored: Stored::default(),
        seen: HashMap::new(),
    };
    tokio::select! {
        () = stored::follow((client, store), keeper, may_write) => {}
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

impl stored::Keeper for Keeper {
    type Content = Namings;

    async fn first(&self) -> kube::Result<Namings> {
        Ok(Namings::default())
    }

    async fn show(&mut self, stored: Stored<Namings>) -> kube::Result<()> {
        self.note(stored);
        Ok(())
    }

    fn due(&self) -> Option<Instant> {
        self.seen.values().min().map(|since| *since + KEPT)
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

impl Keeper {
    fn note(&mut self, stored: Stored<Namings>) {
        let (now, before) = (Instant::now(), std::mem::take(&mut self.seen));
        let since = |naming: &Naming| before.get(naming).copied().unwrap_or(now);
        self.seen = stored.content.0.iter().map(|naming| (naming.clone(), since(naming))).collect();
        self.stored = stored;
    }
}
