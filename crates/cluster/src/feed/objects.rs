//! The streams of the configured kinds: they come and go while the process runs, as the configuration says.
//!
//! When a kind is not configured any more its watch is ended, and before it can come back that has really happened, so nothing
//! that the old watch had still to say is taken for the new one's. Never decides which kinds these are.

use std::collections::BTreeMap;
use std::sync::Arc;

use forest::{Content, Fact, Kind, KindId, KindSettings, Settings, Stream};
use kube::Client;
use tokio::task::JoinHandle;

use super::detail::{Detail, watched};
use super::stream::{Pump, Translate};
use crate::api_object::ApiObject;
use crate::handle::{ForestHandle, ForestWriter};
use crate::ingest;
use crate::metrics::StreamMetrics;

/// The running streams. They end with it.
pub(crate) struct ObjectFeeds {
    client: Client,
    forest: ForestHandle,
    pump: Pump,
    detail: Detail,
    settings: Arc<Settings>,
    told: Option<Vec<KindSettings>>,
    running: BTreeMap<Kind, Running>,
}

struct Running {
    task: JoinHandle<()>,
    /// The uid of the kind's definition, where it has one that is known.
    definition: Option<String>,
}

impl ObjectFeeds {
    pub(crate) fn new(
        client: Client,
        (writer, forest): (ForestWriter, ForestHandle),
        detail: Detail,
        metrics: StreamMetrics,
    ) -> Self {
        let settings = forest.read(forest::Forest::shared_settings);
        let pump = Pump { writer, metrics };
        Self { client, forest, pump, detail, settings, told: None, running: BTreeMap::new() }
    }

    /// Whether the forest has been told of any configuration.
    pub(crate) fn is_configured(&self) -> bool {
        self.told.is_some()
    }

    /// Tells the forest that these are the configured kinds, ends the streams of others and starts those that are missing. A
    /// stream whose kind is defined anew, by another object, is started anew. `definition` gives the uid of that object.
    ///
    /// Ignored kinds are not told where nothing is done with them.
    pub(crate) async fn follow<'a>(
        &mut self,
        kinds: impl IntoIterator<Item = &'a KindSettings>,
        definition: impl Fn(&Kind) -> Option<String>,
    ) {
        let kinds: Vec<KindSettings> =
            kinds.into_iter().filter(|kind| self.detail.wants(kind.mode)).cloned().collect();
        let unwanted: Vec<Kind> = self
            .running
            .keys()
            .filter(|kind| !kinds.iter().any(|wanted| wanted.kind == **kind))
            .cloned()
            .collect();
        for kind in unwanted {
            self.stop(&kind).await;
        }
        if self.told.as_ref() != Some(&kinds) {
            self.pump.writer.tell([Fact::Kinds(kinds.clone())]);
            self.told = Some(kinds.clone());
        }
        for KindSettings { kind, .. } in kinds {
            self.keep(kind.clone(), definition(&kind)).await;
        }
    }

    async fn keep(&mut self, kind: Kind, definition: Option<String>) {
        let Some(id) = self.forest.read(|forest| forest.kind_named(&kind.group, &kind.kind)) else { return };
        if let Some(running) = self.running.get_mut(&kind) {
            if running.definition.is_none() || definition.is_none() || running.definition == definition {
                running.definition = definition.or(running.definition.take());
                return;
            }
            self.stop(&kind).await;
            let why = "its definition has been replaced, and its objects have not been listed since";
            self.pump.writer.tell([Fact::StreamLost(Stream::Kind(id), why.into())]);
        }
        let resource = kind.group_resource();
        tracing::info!(resource, "watching");
        self.pump.metrics.started(&resource);
        let stream = Objects {
            id,
            kind: Arc::new(kind.clone()),
            settings: self.settings.clone(),
            forest: self.forest.clone(),
        };
        let task = tokio::spawn(self.objects(stream));
        self.running.insert(kind, Running { task, definition });
    }

    /// When this returns, the stream has said its last.
    async fn stop(&mut self, kind: &Kind) {
        let Some(Running { task, .. }) = self.running.remove(kind) else { return };
        task.abort();
        // An error says that it was ended, which is what was wanted.
        let _ = task.await;
        let resource = kind.group_resource();
        tracing::info!(resource, "not watching any more");
        self.pump.metrics.stopped(&resource);
    }

    fn objects(&self, stream: Objects) -> impl Future<Output = ()> + Send + use<> {
        let (client, kind) = (self.client.clone(), stream.kind.clone());
        let (pump, forest, detail) = (self.pump.clone(), self.forest.clone(), self.detail);
        async move {
            if detail == Detail::Content {
                structure_known(forest).await;
            }
            pump.run(stream, move || watched(&client, &kind, detail)).await;
        }
    }
}

/// Until the structure is known, nobody can say of which objects the content will be needed, and all of it would have to be
/// held; nor is anything copied before.
async fn structure_known(mut forest: ForestHandle) {
    while forest.read(|forest| forest.structure_gap().is_some()) && forest.progressed().await {}
}

impl Drop for ObjectFeeds {
    fn drop(&mut self) {
        self.running.values().for_each(|running| running.task.abort());
    }
}

#[derive(Clone)]
struct Objects {
    id: KindId,
    kind: Arc<Kind>,
    settings: Arc<Settings>,
    forest: ForestHandle,
}

impl Translate<ApiObject> for Objects {
    type Item = forest::ObjectFact;

    fn stream(&self) -> (Stream, String) {
        (Stream::Kind(self.id), self.kind.group_resource())
    }

    /// What the controller has written comes back by the watch: what is in it is known from the answer.
    fn item(&self, ApiObject { metadata, content }: ApiObject) -> Self::Item {
        let (namespace, name) = (ingest::namespace_of(&metadata), ingest::name(&metadata));
        let version = ingest::version(&metadata);
        let is_known = || self.forest.read(|forest| forest.knows_state(self.id, &namespace, &name, &version));
        let content = content.filter(|_| !is_known());
        let mut fact = ingest::object(&self.kind, &self.settings, metadata, content);
        if fact.content.is_some() && !self.forest.read(|forest| forest.keeps_content(&fact)) {
            fact.content = fact.content.map(Content::digests);
        }
        fact
    }

    fn seen(&self, item: Self::Item) -> Fact {
        Fact::Object(self.id, item)
    }

    fn gone(&self, object: ApiObject) -> Fact {
        let metadata = object.metadata;
        let uid = ingest::version(&metadata).uid;
        Fact::ObjectGone(self.id, ingest::namespace_of(&metadata), ingest::name(&metadata), uid)
    }

    fn all(&self, items: Vec<Self::Item>) -> Fact {
        Fact::Objects(self.id, items)
    }
}
