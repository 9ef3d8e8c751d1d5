//! The forest shared between one writer and many readers.
//!
//! Readers ask by a closure that cannot wait, so no lock is ever held across an await, and they never change anything.
//! Writing is the feed's.

use std::sync::Arc;

use forest::rules::Awaited;
use forest::{Change, Fact, Forest};
use parking_lot::RwLock;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

/// Read access to the forest. Clones see the same forest.
#[derive(Clone, Debug)]
pub struct ForestHandle {
    forest: Arc<RwLock<Forest>>,
    changed: watch::Receiver<()>,
    progressed: watch::Receiver<()>,
}

impl ForestHandle {
    /// Asks the forest as it is now.
    pub fn read<T>(&self, ask: impl FnOnce(&Forest) -> T) -> T {
        ask(&self.forest.read())
    }

    /// Waits until the forest knows what is awaited, or until the deadline; whether it knows it.
    pub async fn until(&self, awaited: &Awaited, deadline: Instant) -> bool {
        self.until_that(|forest| awaited.is_known(forest), deadline).await
    }

    /// Waits until `holds` is true of the forest, or until the deadline; whether it is.
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

    /// Waits for the next change, whatever it is. Ends with `false` when nobody can change the forest any more.
    pub async fn changed(&mut self) -> bool {
        self.changed.changed().await.is_ok()
    }

    /// Waits until a stream is further, or less far, than it was, other kinds are configured, or a doubt has come up or is
    /// over: not with every change in the cluster. Ends with `false` when nobody can change the forest any more.
    pub async fn progressed(&mut self) -> bool {
        self.progressed.changed().await.is_ok()
    }
}

/// What wants to know of every change, at once and in the writer's task: it must be quick.
pub type Listener = Box<dyn Fn(Change) + Send + Sync>;

/// Write access to the forest. Clones write to the same forest.
#[derive(Clone)]
pub struct ForestWriter {
    forest: Arc<RwLock<Forest>>,
    changed: Arc<watch::Sender<()>>,
    progressed: Arc<watch::Sender<()>>,
    listener: Arc<Listener>,
}

impl ForestWriter {
    /// Shares `forest`; `listener` hears of every change.
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

    /// Takes facts in. When this returns, readers see them and the listener has heard what they touched.
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

    use forest::{Definition, NamespaceFact, Settings, Stream, Version};
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
    async fn waiting_ends_when_the_forest_knows_and_at_the_deadline_otherwise() {
        let (writer, handle) = ForestWriter::new(forest(), Box::new(|_| {}));
        let awaited = Awaited::Namespace("a".into());
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
    async fn only_streams_kinds_and_doubts_are_progress() {
        let settings = Arc::new(Settings::new("hnc-system", [""; 0], ".*").unwrap());
        let (writer, mut handle) = ForestWriter::new(Forest::unconfigured(settings), Box::new(|_| {}));
        for (fact, is_progress) in [
            (namespace("a"), false),
            (Fact::Namespaces(vec![]), true),
            (Fact::Namespaces(vec![]), false),
            (Fact::Kinds(vec![]), true),
            (Fact::StreamLost(Stream::Namespaces, "gone".into()), true),
            (Fact::StreamLost(Stream::Namespaces, "gone".into()), false),
            (Fact::StreamLost(Stream::Namespaces, "forbidden".into()), true),
            (namespace("b"), false),
            (Fact::Definitions(Definition::Here), true),
            (Fact::Definitions(Definition::Here), false),
        ] {
            let what = format!("{fact:?}");
            writer.tell([fact]);
            let heard = timeout_at(Instant::now() + Duration::from_millis(1), handle.progressed()).await;
            assert_eq!(heard.is_ok(), is_progress, "{what}");
        }
    }

    #[test]
    fn the_listener_hears_one_merged_change_after_the_readers_can_see_it() {
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
        writer.tell([Fact::StreamLost(Stream::Namespaces, "gone".into())]);
        assert_eq!(heard.lock().len(), 1, "nothing was touched");
    }
}
