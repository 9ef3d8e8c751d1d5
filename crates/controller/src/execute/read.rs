//! Reading what the forest has not kept: the content of sources that nothing took copies of until now. Never writes.

use std::sync::Arc;

use forest::{Fact, Forest, Name, ObjectKey};
use futures::future::join_all;
use tokio::sync::Mutex;

use super::{Executor, Progress};
use crate::apply::{Applier, Outcome};

/// Whose turn it is to read. Namespaces that gain the same sources at a time ask for the same content; whoever comes later
/// finds that it is there.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reader {
    turn: Arc<Mutex<()>>,
}

impl Executor {
    /// Reads these sources of copies for `namespace` into the forest. With that, the plan that asked for them has to be made
    /// again.
    pub(super) async fn read(&self, namespace: &Name, sources: &[(Name, ObjectKey)]) -> Progress {
        if sources.is_empty() {
            return Progress::Complete;
        }
        let _turn = self.reader.turn.lock().await;
        let missing: Vec<&(Name, ObjectKey)> = self.forest.read(|forest| {
            sources.iter().filter(|(namespace, key)| forest.is_unread(namespace, key)).collect()
        });
        let read = join_all(missing.into_iter().map(|(from, key)| self.read_one(namespace, from, key))).await;
        read.into_iter().fold(Progress::Conflict, Progress::max)
    }

    async fn read_one(&self, namespace: &Name, from: &Name, key: &ObjectKey) -> Progress {
        let Ok(_place) = self.places.acquire().await else { return Progress::Stopped };
        if !(self.may_write)() {
            return Progress::Stopped;
        }
        let kind = self.forest.read(|forest| forest.kind(key.kind).clone());
        let settings = self.forest.read(Forest::shared_settings);
        let answer =
            Applier { client: &self.client, namespace: from, kind: &|_| kind.clone(), settings: &settings }
                .read(key)
                .await;
        if let Outcome::Transient(why, _) | Outcome::Unreachable(why) | Outcome::Refused(why) =
            &answer.outcome
        {
            tracing::warn!(namespace = %from, name = %key.name, %kind, why, "a source cannot be read, and so not copied");
        }
        if let Outcome::Refused(why) = &answer.outcome {
            let why = format!("its source in namespace {from:?} cannot be read: {why}");
            self.writer.tell([Fact::WriteFailed(namespace.clone(), key.clone(), why.into())]);
        }
        let progress = Progress::after(&answer.outcome);
        self.writer.tell(answer.facts);
        progress
    }
}
