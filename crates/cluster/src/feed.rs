//! The feed: turns watches on the API server into facts and restarts them when they end.
//!
//! There is one task per stream. The streams of the structure and those of the configured kinds are independent: if a
//! list fails, only that stream is degraded; its task reports this to the forest and retries.

mod accurate;
mod detail;
mod objects;
mod quotas;
pub mod stream;

use std::collections::BTreeMap;

use forest::hnc;
use forest::{Fact, Forest, KindId, NamespaceFact, Stream, StreamState};
use hns_api::{HierarchyConfiguration, SubnamespaceAnchor};
use k8s_openapi::api::core::v1::Namespace;
use kube::core::ApiResource;
use kube::runtime::watcher::watcher;
use kube::{Api, Client, CustomResourceExt};
use tokio::task::JoinSet;

use self::detail::everything;
pub use self::detail::{Detail, Events, api_resource, metadata_of};
pub(crate) use self::objects::ObjectFeeds;
use self::stream::{Pump, Translate};
use crate::api_object::StructureObject;
use crate::handle::{ForestHandle, ForestWriter};
use crate::ingest;
use crate::metrics::StreamMetrics;
use crate::readiness::{Condition, Readiness};

/// Starts the streams of the structure, and those of quotas and of Accurate's API if these are enabled. The tasks do not end.
/// `is_leading` tells whether this process currently writes ([`ingest::deleted_anchor_with_finalizer`]).
pub fn start(
    client: &Client,
    (writer, forest): (&ForestWriter, &ForestHandle),
    metrics: &StreamMetrics,
    is_leading: impl Fn() -> bool + Send + Sync + 'static,
) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    let pump = Pump { writer: writer.clone(), metrics: metrics.clone() };
    let namespaces = Api::<StructureObject>::all_with(client.clone(), &ApiResource::erase::<Namespace>(&()));
    tasks.spawn(pump.clone().run(Namespaces, move || watcher(namespaces.clone(), everything())));
    let resource = HierarchyConfiguration::api_resource();
    let hierarchies = Api::<StructureObject>::all_with(client.clone(), &resource);
    tasks.spawn(pump.clone().run(Hierarchies, move || watcher(hierarchies.clone(), everything())));
    let anchors = Api::<StructureObject>::all_with(client.clone(), &SubnamespaceAnchor::api_resource());
    if forest.read(|forest| forest.settings().hierarchical_quotas) {
        quotas::start(client, &pump, &mut tasks);
    }
    if forest.read(|forest| forest.accurate_settings().is_some()) {
        accurate::start(client, &pump, &mut tasks);
    }
    tasks.spawn(pump.run(Anchors { is_leading }, move || watcher(anchors.clone(), everything())));
    tasks
}

/// Reports the state of the streams in `readiness` whenever it changes. The streams of the structure are required; a
/// configured kind that cannot be listed is reported and does not block readiness.
pub async fn show(readiness: Readiness, mut forest: ForestHandle) {
    let structure = STRUCTURE_STREAMS.map(|(stream, name)| (stream, readiness.condition(name, WAITING)));
    let mut structure = structure.map(|(stream, condition)| (stream, StreamCondition::new(condition)));
    let optional = forest.read(optional_streams).into_iter();
    let mut optional: Vec<_> = optional
        .map(|it| (it, StreamCondition::new(readiness.information(it.to_string(), WAITING))))
        .collect();
    let mut kinds = BTreeMap::<KindId, StreamCondition>::new();
    loop {
        for (stream, condition) in structure.iter_mut().chain(&mut optional) {
            condition.set(forest.read(|forest| forest.stream(*stream)));
        }
        let states: BTreeMap<KindId, (String, StreamState)> = forest.read(|forest| {
            let state = |id| forest.stream(Stream::Kind(id));
            forest.kinds().map(|(id, kind)| (id, (kind.kind.group_resource(), state(id)))).collect()
        });
        let gone: Vec<KindId> = kinds.keys().filter(|id| !states.contains_key(id)).copied().collect();
        gone.into_iter().filter_map(|id| kinds.remove(&id)).for_each(|shown| shown.condition.withdraw());
        for (id, (name, state)) in states {
            let condition =
                kinds.entry(id).or_insert_with(|| StreamCondition::new(readiness.information(name, WAITING)));
            condition.set(state);
        }
        if !forest.progressed().await {
            return;
        }
    }
}

/// The streams that the settings enable. The rest of the API works without them, so they do not block readiness.
fn optional_streams(forest: &Forest) -> Vec<Stream> {
    let quotas = Stream::QUOTAS.into_iter().filter(|_| forest.settings().hierarchical_quotas);
    quotas.chain(forest.accurate_settings().map(|_| Stream::SUB_NAMESPACES)).collect()
}

/// The readiness condition of a stream.
struct StreamCondition {
    condition: Condition,
    state: StreamState,
}

impl StreamCondition {
    fn new(condition: Condition) -> Self {
        Self { condition, state: StreamState::Waiting }
    }

    fn set(&mut self, state: StreamState) {
        if state != self.state {
            match &state {
                StreamState::Synced => self.condition.ready(),
                other => self.condition.not_ready(other.to_string()),
            }
            self.state = state;
        }
    }
}

const WAITING: &str = "its first complete list has not arrived yet";
const STRUCTURE_STREAMS: [(Stream, &str); 3] = [
    (Stream::NAMESPACES, "namespaces"),
    (Stream::HIERARCHIES, "hierarchyconfigurations"),
    (Stream::ANCHORS, "subnamespaceanchors"),
];

struct Namespaces;

impl Translate<StructureObject> for Namespaces {
    type Item = NamespaceFact;

    fn stream(&self) -> (Stream, String) {
        (Stream::NAMESPACES, "namespaces".into())
    }

    fn item(&self, object: StructureObject) -> NamespaceFact {
        ingest::namespace(&object.metadata)
    }

    fn seen(&self, item: NamespaceFact) -> Fact {
        Fact::Namespace(item)
    }

    fn gone(&self, object: StructureObject) -> Fact {
        let metadata = object.metadata;
        Fact::NamespaceGone(ingest::name(&metadata), ingest::version(&metadata).uid)
    }

    fn all(&self, items: Vec<NamespaceFact>) -> Fact {
        Fact::Namespaces(items)
    }
}

struct Hierarchies;

impl Translate<StructureObject> for Hierarchies {
    type Item = (forest::Name, forest::HierarchyFact);

    fn stream(&self) -> (Stream, String) {
        (Stream::HIERARCHIES, format!("hierarchyconfigurations.{}", hns_api::GROUP))
    }

    fn item(&self, object: StructureObject) -> Self::Item {
        ingest::hierarchy(object.into())
    }

    fn seen(&self, (namespace, hierarchy): Self::Item) -> Fact {
        Fact::Hnc(hnc::Fact::Hierarchy(namespace, hierarchy))
    }

    fn gone(&self, object: StructureObject) -> Fact {
        let metadata = object.metadata;
        Fact::Hnc(hnc::Fact::HierarchyGone(ingest::namespace_of(&metadata), ingest::version(&metadata).uid))
    }

    fn all(&self, items: Vec<Self::Item>) -> Fact {
        Fact::Hnc(hnc::Fact::Hierarchies(items))
    }
}

struct Anchors<F> {
    is_leading: F,
}

impl<F: Fn() -> bool + Send + Sync + 'static> Translate<StructureObject> for Anchors<F> {
    type Item = (forest::Name, forest::AnchorFact);

    fn stream(&self) -> (Stream, String) {
        (Stream::ANCHORS, format!("subnamespaceanchors.{}", hns_api::GROUP))
    }

    fn item(&self, object: StructureObject) -> Self::Item {
        ingest::anchor(object.into())
    }

    fn seen(&self, (namespace, anchor): Self::Item) -> Fact {
        Fact::Hnc(hnc::Fact::Anchor(namespace, anchor))
    }

    fn gone(&self, object: StructureObject) -> Fact {
        if (self.is_leading)() {
            ingest::deleted_anchor_with_finalizer(object.into())
        } else {
            ingest::anchor_gone(object.into())
        }
    }

    fn all(&self, items: Vec<Self::Item>) -> Fact {
        Fact::Hnc(hnc::Fact::Anchors(items))
    }
}
