//! Reads the content of sources that the forest does not hold yet, because no namespace needed a copy of them before.

use std::sync::Arc;

use forest::{Fact, Name, ObjectKey};
use futures::future::join_all;
use tokio::sync::Mutex;

use super::{Executor, Progress};
use crate::apply::Outcome;

/// Lets one plan read a few sources at a time: several namespaces may need the same sources, and only the first one must read
/// them. Clones share the lock.
pub(crate) type ReadLock = Arc<Mutex<()>>;

/// How many sources are read at a time. Reads and writes wait for their permits in the order of their requests, so that the
/// sources of one team must not request them all at once.
const READS_IN_FLIGHT: usize = 16;

impl Executor {
    /// Reads these sources of copies for `namespace` into the forest. Afterwards the namespace must be planned again.
    pub(super) async fn read_sources(&self, namespace: &Name, sources: &[(Name, ObjectKey)]) -> Progress {
        if sources.is_empty() {
            return Progress::Complete;
        }
        let mut worst = Progress::Conflict;
        for sources in sources.chunks(READS_IN_FLIGHT) {
            let _locked = self.read_lock.lock().await;
            let missing: Vec<&(Name, ObjectKey)> = self.forest.read(|forest| {
                sources.iter().filter(|(namespace, key)| forest.is_unread(namespace, key)).collect()
            });
            let read = missing.into_iter().map(|(from, key)| self.read_source(namespace, from, key));
            worst = join_all(read).await.into_iter().fold(worst, Progress::max);
        }
        worst
    }

    async fn read_source(&self, namespace: &Name, from: &Name, key: &ObjectKey) -> Progress {
        let Ok(_permit) = self.permits.acquire().await else { return Progress::Stopped };
        if !(self.may_write)() {
            return Progress::Stopped;
        }
        let result = self.applier(from).read(key).await;
        if let Outcome::Transient(why, _) | Outcome::Unreachable(why) | Outcome::Refused(why) =
            &result.outcome
        {
            let kind = self.forest.read(|forest| forest.kind(key.kind).clone());
            tracing::warn!(namespace = %from, name = %key.name, %kind, why, "could not read a source, so it is not copied");
        }
        if let Outcome::Refused(why) = &result.outcome {
            let why = format!("its source in namespace {from:?} cannot be read: {why}");
            self.writer.tell([Fact::WriteFailed(namespace.clone(), key.clone(), why.into())]);
        }
        let progress = Progress::from(&result.outcome);
        self.writer.tell(result.facts);
        progress
    }
}
