//! The streams of the configured kinds, which start and stop as the configuration changes.
//!
//! When a kind is removed from the configuration, its watch is stopped completely before the kind can be added again,
//! so that no event of the old watch is taken for one of the new watch.

use std::collections::BTreeMap;
use std::sync::Arc;

use forest::{Fact, Kind, KindId, KindSettings, KnownContent, Settings, Stream, accurate};
use hns_api::accurate::labels::{CREATED_BY, CREATED_BY_ACCURATE};
use hns_api::labels;
use kube::Client;
use tokio::task::JoinHandle;

use super::detail::{Detail, watched};
use super::stream::{Pump, Translate};
use crate::api_object::ApiObject;
use crate::handle::{ForestHandle, ForestWriter};
use crate::ingest;
use crate::metrics::StreamMetrics;

/// The running streams. Dropping this value stops them.
pub(crate) struct ObjectFeeds {
    client: Client,
    forest: ForestHandle,
    pump: Pump,
    detail: Detail,
    settings: Arc<Settings>,
    accurate: Option<Arc<accurate::Settings>>,
    told: Option<Vec<KindSettings>>,
    running: BTreeMap<Kind, Running>,
}

struct Running {
    task: JoinHandle<()>,
    /// The uid of the kind's CRD, if it is known.
    crd: Option<String>,
}

impl ObjectFeeds {
    pub(crate) fn new(
        client: Client,
        (writer, forest): (ForestWriter, ForestHandle),
        detail: Detail,
        metrics: StreamMetrics,
    ) -> Self {
        let (settings, accurate) =
            forest.read(|forest| (forest.shared_settings(), forest.accurate_settings().cloned()));
        let pump = Pump { writer, metrics };
        Self { client, forest, pump, detail, settings, accurate, told: None, running: BTreeMap::new() }
    }

    /// Whether the forest knows the configured kinds.
    pub(crate) fn is_configured(&self) -> bool {
        self.told.is_some()
    }

    /// Sets the configured kinds: stops the streams of other kinds and starts missing ones. If the CRD of a kind
    /// was replaced by another object, its stream is restarted; `crd` gives the uid of the CRD.
    ///
    /// Ignored kinds are omitted if the program does not use them, unless Accurate's API does.
    pub(crate) async fn follow(&mut self, kinds: Vec<KindSettings>, crd: impl Fn(&Kind) -> Option<String>) {
        let kinds: Vec<KindSettings> = kinds.into_iter().filter(|kind| self.wants(kind)).collect();
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
            self.keep(kind.clone(), crd(&kind)).await;
        }
    }

    fn wants(&self, kind: &KindSettings) -> bool {
        let is_watched = |it: &Arc<accurate::Settings>| it.watches(&kind.kind);
        self.detail.wants(kind.mode) || self.accurate.as_ref().is_some_and(is_watched)
    }

    async fn keep(&mut self, kind: Kind, crd: Option<String>) {
        let Some(id) = self.forest.read(|forest| forest.kind_named(&kind.group, &kind.kind)) else { return };
        if let Some(running) = self.running.get_mut(&kind) {
            if running.crd.is_none() || crd.is_none() || running.crd == crd {
                running.crd = crd.or(running.crd.take());
                return;
            }
            self.stop(&kind).await;
            let why = "its definition was replaced; its objects are being listed";
            self.pump.writer.tell([Fact::StreamLost(Stream::Kind(id), why.into())]);
        }
        let resource = kind.group_resource();
        tracing::info!(resource, "watching");
        self.pump.metrics.started(&resource);
        let stream = Objects {
            id,
            kind: Arc::new(kind.clone()),
            settings: self.settings.clone(),
            accurate: self.accurate.clone(),
            forest: self.forest.clone(),
        };
        let task = tokio::spawn(self.objects(stream));
        self.running.insert(kind, Running { task, crd });
    }

    /// Stops a stream and waits until it has ended.
    async fn stop(&mut self, kind: &Kind) {
        let Some(Running { task, .. }) = self.running.remove(kind) else { return };
        task.abort();
        // The error means that the task was cancelled.
        let _ = task.await;
        let resource = kind.group_resource();
        tracing::info!(resource, "stopped watching");
        self.pump.metrics.stopped(&resource);
    }

    /// The selectors of copies of this kind.
    fn copy_labels(&self, kind: &Kind) -> Vec<String> {
        let accurate = self.accurate.as_ref().filter(|accurate| accurate.watches(kind));
        let of_accurate = accurate.map(|_| format!("{CREATED_BY}={CREATED_BY_ACCURATE}"));
        [labels::INHERITED_FROM.to_owned()].into_iter().chain(of_accurate).collect()
    }

    fn objects(&self, stream: Objects) -> impl Future<Output = ()> + Send + use<> {
        let (client, kind) = (self.client.clone(), stream.kind.clone());
        let labels = self.copy_labels(&kind);
        let (pump, forest, detail) = (self.pump.clone(), self.forest.clone(), self.detail);
        async move {
            if detail == Detail::Content {
                structure_known(forest).await;
            }
            pump.run(stream, move || watched(&client, &kind, detail, &labels)).await;
        }
    }
}

/// Objects are listed after the structure: before that it is unknown which objects' content is needed, so that all
/// content would have to be kept, and nothing is copied anyway.
async fn structure_known(mut forest: ForestHandle) {
    while forest.read(|forest| forest.structure_gap().is_some()) && forest.progressed().await {}
}

impl Drop for ObjectFeeds {
    fn drop(&mut self) {
        for (kind, running) in &self.running {
            running.task.abort();
            self.pump.metrics.stopped(&kind.group_resource());
        }
    }
}

#[derive(Clone)]
struct Objects {
    id: KindId,
    kind: Arc<Kind>,
    settings: Arc<Settings>,
    accurate: Option<Arc<accurate::Settings>>,
    forest: ForestHandle,
}

impl Translate<ApiObject> for Objects {
    type Item = forest::ObjectFact;

    fn stream(&self) -> (Stream, String) {
        (Stream::Kind(self.id), self.kind.group_resource())
    }

    /// The content of objects that the controller itself has written is known from the answer to the write.
    fn item(&self, mut object: ApiObject) -> Self::Item {
        let (namespace, name) = (ingest::namespace_of(&object.metadata), ingest::name(&object.metadata));
        let version = ingest::version(&object.metadata);
        let is_known = || self.forest.read(|forest| forest.knows_state(self.id, &namespace, &name, &version));
        object.content = object.content.filter(|_| !is_known());
        let settings = (&*self.settings, self.accurate.as_deref());
        let mut fact = ingest::api_object(&self.kind, settings, object);
        if fact.content.is_some() && !self.forest.read(|forest| forest.keeps_content(&fact)) {
            fact.content = fact.content.map(KnownContent::digests);
            if let Some(hop) = &mut fact.hop {
                hop.content = hop.content.take().map(KnownContent::digests);
            }
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
