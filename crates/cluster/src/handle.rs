//! The forest, shared by one writer and many readers.
//!
//! Readers pass a closure that cannot await, so no lock is held across an await. Only the feed writes.

use std::sync::Arc;

use forest::rules::WaitFor;
use forest::{Change, Fact, Forest};
use parking_lot::RwLock;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

/// Read access to the forest. Clones share the forest.
#[derive(Clone, Debug)]
pub struct ForestHandle {
    forest: Arc<RwLock<Forest>>,
    changed: watch::Receiver<()>,
    progressed: watch::Receiver<()>,
}

impl ForestHandle {
    /// Reads the current forest.
    pub fn read<T>(&self, ask: impl FnOnce(&Forest) -> T) -> T {
        ask(&self.forest.read())
    }

    /// Waits until the forest knows `awaited`, or until the deadline; returns whether it does.
    pub async fn until(&self, awaited: &WaitFor, deadline: Instant) -> bool {
        self.until_that(|forest| awaited.is_known(forest), deadline).await
    }

    /// Waits until `holds` is true of the forest, or until the deadline; returns whether it is.
    pub async fn until_that(&self, holds: impl Fn(&Forest) -> bool, deadline: Instant) -> bool {
        let mut changed = self.changed.clone();
        loop {
            changed.mark_unchanged();
            if self.read(&holds) {
                return true;
            }
            if !matches!(timeout_at(deadline, changed.changed()).await, Ok(Ok(()))) {
                return self.read(&holds);
            }
        }
    }

    /// Waits for the next change. Returns `false` when all writers are gone.
    pub async fn changed(&mut self) -> bool {
        self.changed.changed().await.is_ok()
    }

    /// Waits until the state of a stream, the configured kinds, the awaited names or the set of unverified lists changes,
    /// which is rarer than other changes. Returns `false` when all writers are gone.
    pub async fn progressed(&mut self) -> bool {
        self.progressed.changed().await.is_ok()
    }

    /// Waits until `holds`. Suits conditions that change only when [`ForestHandle::progressed`] returns; returns early when all
    /// writers are gone.
    pub async fn until_progress(&self, holds: impl Fn(&Forest) -> bool) {
        let mut forest = self.clone();
        while !forest.read(&holds) && forest.progressed().await {}
    }
}

/// Called with every change, in the writer's task; it must be quick.
pub type Listener = Box<dyn Fn(Change) + Send + Sync>;

/// Write access to the forest. Clones share the forest.
#[derive(Clone)]
pub struct ForestWriter {
    forest: Arc<RwLock<Forest>>,
    changed: Arc<watch::Sender<()>>,
    progressed: Arc<watch::Sender<()>>,
    listener: Arc<Listener>,
}

impl ForestWriter {
    /// Shares `forest`; `listener` is called with every change.
    pub fn new(forest: Forest, listener: Listener) -> (Self, ForestHandle) {
        let forest = Arc::new(RwLock::new(forest));
        let (changed, progressed) = (watch::Sender::new(()), watch::Sender::new(()));
        let handle = ForestHandle {
            forest: forest.clone(),
            changed: changed.subscribe(),
            progressed: progressed.subscribe(),
        };
        let (changed, progressed) = (Arc::new(changed), Arc::new(progressed));
        (Self { forest, changed, progressed, listener: Arc::new(listener) }, handle)
    }

    /// Applies facts. When this returns, readers see them and the listener was called.
    pub fn tell(&self, facts: impl IntoIterator<Item = Fact>) {
        let mut change = Change::default();
        let progresses = {
            let mut forest = self.forest.write();
            let before = forest.progress();
            for fact in facts {
                change.merge(forest.apply(fact));
            }
            forest.progress() != before
        };
        self.changed.send_replace(());
        if progresses {
            self.progressed.send_replace(());
        }
        if !change.is_empty() {
            (self.listener)(change);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use forest::hnc;
    use forest::{CrdState, NamespaceFact, Settings, Stream, Version};
    use parking_lot::Mutex;

    use super::*;

    fn forest() -> Forest {
        let settings = Settings::new("hnc-system", [""; 0], ".*").unwrap();
        Forest::new(Arc::new(settings), vec![])
    }

    fn namespace(name: &str) -> Fact {
        Fact::Namespace(NamespaceFact {
            name: name.into(),
            version: Version { uid: "1".into(), resource_version: "1".into() },
            ..NamespaceFact::default()
        })
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_ends_with_the_fact_or_at_the_deadline() {
        let (writer, handle) = ForestWriter::new(forest(), Box::new(|_| {}));
        let awaited = WaitFor::Namespace("a".into());
        let start = Instant::now();
        let deadline = start + Duration::from_secs(1);
        assert!(!handle.until(&awaited, deadline).await);
        assert_eq!(start.elapsed(), Duration::from_secs(1));

        let waiting = {
            let (handle, awaited) = (handle.clone(), awaited.clone());
            tokio::spawn(
                async move { handle.until(&awaited, Instant::now() + Duration::from_hours(1)).await },
            )
        };
        tokio::task::yield_now().await;
        writer.tell([namespace("b")]);
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        writer.tell([namespace("a")]);
        assert!(waiting.await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn only_streams_kinds_and_unconfirmed_lists_are_progress() {
        let settings = Arc::new(Settings::new("hnc-system", [""; 0], ".*").unwrap());
        let (writer, mut handle) = ForestWriter::new(Forest::unconfigured(settings), Box::new(|_| {}));
        for (fact, is_progress) in [
            (namespace("a"), false),
            (Fact::Namespaces(vec![]), true),
            (Fact::Namespaces(vec![]), false),
            (Fact::Kinds(vec![]), true),
            (Fact::StreamLost(Stream::NAMESPACES, "gone".into()), true),
            (Fact::StreamLost(Stream::NAMESPACES, "gone".into()), false),
            (Fact::StreamLost(Stream::NAMESPACES, "forbidden".into()), true),
            (namespace("b"), false),
            (Fact::Hnc(hnc::Fact::Crds(CrdState::Present)), true),
            (Fact::Hnc(hnc::Fact::Crds(CrdState::Present)), false),
        ] {
            let what = format!("{fact:?}");
            writer.tell([fact]);
            let heard = timeout_at(Instant::now() + Duration::from_millis(1), handle.progressed()).await;
            assert_eq!(heard.is_ok(), is_progress, "{what}");
        }
    }

    #[test]
    fn the_listener_gets_one_merged_change_after_readers_see_it() {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let listener = {
            let heard = heard.clone();
            Box::new(move |change: Change| heard.lock().push(change))
        };
        let (writer, handle) = ForestWriter::new(forest(), listener);
        writer.tell([namespace("a"), namespace("b")]);
        assert!(handle.read(|forest| forest.exists("a") && forest.exists("b")));
        let mut names: Vec<_> = heard.lock()[0].namespaces.keys().cloned().collect();
        names.sort();
        assert_eq!((heard.lock().len(), names), (1, vec!["a".into(), "b".into()]));
        writer.tell([Fact::StreamLost(Stream::NAMESPACES, "gone".into())]);
        assert_eq!(heard.lock().len(), 1, "nothing was touched");
    }
}
