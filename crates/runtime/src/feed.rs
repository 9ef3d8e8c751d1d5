//! The feed: watches on the API server, kept alive for ever, turned into facts.
//!
//! One task per stream. The streams of the structure and those of the propagated kinds are independent: one that cannot be
//! listed says so to the forest and keeps trying, and holds up none of the others. Decides nothing about what it carries.

mod stream;

use std::fmt::Debug;
use std::sync::Arc;

use forest::{Fact, Forest, Kind, KindId, NamespaceFact, Settings, Stream, StreamState};
use hns_api::{HierarchyConfiguration, SubnamespaceAnchor};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::{ApiResource, DynamicObject, PartialObjectMeta};
use kube::runtime::watcher::{Config, watcher};
use kube::{Api, Client, CustomResourceExt, Resource};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::task::JoinSet;

use self::stream::{Pump, Translate};
use crate::args::CommonArgs;
use crate::handle::{ForestHandle, ForestWriter};
use crate::ingest;
use crate::metrics::StreamMetrics;
use crate::readiness::Readiness;

/// How much of the propagated objects a binary needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// All of it: to copy.
    Content,
    /// Names, labels and annotations: to judge.
    Metadata,
}

/// Starts every stream that `forest` is made of. The tasks never end by themselves.
pub fn start(
    client: &Client,
    forest: &Forest,
    writer: &ForestWriter,
    detail: Detail,
    metrics: &StreamMetrics,
) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    let pump = Pump { writer: writer.clone(), metrics: metrics.clone() };
    let namespaces = Api::<PartialObjectMeta<Namespace>>::all(client.clone());
    tasks.spawn(pump.clone().run(Namespaces, move || watcher(namespaces.clone(), Config::default())));
    let resource = HierarchyConfiguration::api_resource();
    let hierarchies = Api::<DynamicObject>::all_with(client.clone(), &resource);
    tasks.spawn(pump.clone().run(Hierarchies, move || watcher(hierarchies.clone(), Config::default())));
    let anchors = Api::<DynamicObject>::all_with(client.clone(), &SubnamespaceAnchor::api_resource());
    tasks.spawn(pump.clone().run(Anchors, move || watcher(anchors.clone(), Config::default())));
    for (id, kind) in forest.kinds() {
        let stream = Objects { id, kind: Arc::new(kind.kind.clone()), settings: forest.shared_settings() };
        match detail {
            Detail::Content => tasks.spawn(objects::<DynamicObject>(client, pump.clone(), stream)),
            Detail::Metadata => {
                tasks.spawn(objects::<PartialObjectMeta<DynamicObject>>(client, pump.clone(), stream))
            }
        };
    }
    tasks
}

/// The empty forest of an installation with these flags.
///
/// # Errors
/// Never for flags that were parsed.
pub fn forest(args: &CommonArgs) -> anyhow::Result<Forest> {
    Ok(Forest::new(Arc::new(args.settings()?), vec![Kind::role(), Kind::role_binding()]))
}

/// How the API server calls a kind.
pub fn api_resource(kind: &Kind) -> ApiResource {
    ApiResource {
        group: kind.group.clone(),
        version: kind.version.clone(),
        api_version: kind.api_version(),
        kind: kind.kind.clone(),
        plural: kind.resource.clone(),
    }
}

fn objects<K>(client: &Client, pump: Pump, stream: Objects) -> impl Future<Output = ()> + Send + use<K>
where
    K: Parts + Resource<DynamicType = ApiResource> + Clone + DeserializeOwned,
{
    let api = Api::<K>::all_with(client.clone(), &api_resource(&stream.kind));
    pump.run(stream, move || watcher(api.clone(), Config::default()))
}

/// Shows in `readiness` how far the streams are, for as long as the forest changes. The streams of the structure are
/// required; a propagated kind that cannot be listed is shown and holds up nothing.
pub async fn show(readiness: Readiness, mut forest: ForestHandle) {
    let mut conditions = forest.read(|forest| {
        let structure = STRUCTURE_STREAMS.map(|(stream, name)| (stream, readiness.condition(name, WAITING)));
        let kinds = forest
            .kinds()
            .map(|(id, kind)| (Stream::Kind(id), readiness.information(kind.kind.group_resource(), WAITING)));
        structure
            .into_iter()
            .chain(kinds)
            .map(|(stream, shown)| (stream, shown, StreamState::Waiting))
            .collect::<Vec<_>>()
    });
    loop {
        for (stream, condition, shown) in &mut conditions {
            let state = forest.read(|forest| forest.stream(*stream));
            if state != *shown {
                match &state {
                    StreamState::Synced => condition.ready(),
                    other => condition.not_ready(other.to_string()),
                }
                *shown = state;
            }
        }
        if !forest.changed().await {
            return;
        }
    }
}

const WAITING: &str = "its first complete list has not arrived yet";
const STRUCTURE_STREAMS: [(Stream, &str); 3] = [
    (Stream::Namespaces, "namespaces"),
    (Stream::Hierarchies, "hierarchyconfigurations"),
    (Stream::Anchors, "subnamespaceanchors"),
];

struct Namespaces;

impl Translate<PartialObjectMeta<Namespace>> for Namespaces {
    type Item = NamespaceFact;

    fn stream(&self) -> (Stream, String) {
        (Stream::Namespaces, "namespaces".into())
    }

    fn item(&self, object: PartialObjectMeta<Namespace>) -> NamespaceFact {
        ingest::namespace(&object.metadata)
    }

    fn seen(&self, item: NamespaceFact) -> Fact {
        Fact::Namespace(item)
    }

    fn gone(&self, object: PartialObjectMeta<Namespace>) -> Fact {
        let metadata = object.metadata;
        Fact::NamespaceGone(ingest::name(&metadata), ingest::version(&metadata).uid)
    }

    fn all(&self, items: Vec<NamespaceFact>) -> Fact {
        Fact::Namespaces(items)
    }
}

struct Hierarchies;

impl Translate<DynamicObject> for Hierarchies {
    type Item = (forest::Name, forest::HierarchyFact);

    fn stream(&self) -> (Stream, String) {
        (Stream::Hierarchies, format!("hierarchyconfigurations.{}", hns_api::GROUP))
    }

    fn item(&self, object: DynamicObject) -> Self::Item {
        ingest::hierarchy(object)
    }

    fn seen(&self, (namespace, hierarchy): Self::Item) -> Fact {
        Fact::Hierarchy(namespace, hierarchy)
    }

    fn gone(&self, object: DynamicObject) -> Fact {
        let metadata = object.metadata;
        Fact::HierarchyGone(ingest::namespace_of(&metadata), ingest::version(&metadata).uid)
    }

    fn all(&self, items: Vec<Self::Item>) -> Fact {
        Fact::Hierarchies(items)
    }
}

struct Anchors;

impl Translate<DynamicObject> for Anchors {
    type Item = (forest::Name, forest::AnchorFact);

    fn stream(&self) -> (Stream, String) {
        (Stream::Anchors, format!("subnamespaceanchors.{}", hns_api::GROUP))
    }

    fn item(&self, object: DynamicObject) -> Self::Item {
        ingest::anchor(object)
    }

    fn seen(&self, (namespace, anchor): Self::Item) -> Fact {
        Fact::Anchor(namespace, anchor)
    }

    fn gone(&self, object: DynamicObject) -> Fact {
        let metadata = object.metadata;
        let uid = ingest::version(&metadata).uid;
        Fact::AnchorGone(ingest::namespace_of(&metadata), ingest::name(&metadata), uid)
    }

    fn all(&self, items: Vec<Self::Item>) -> Fact {
        Fact::Anchors(items)
    }
}

#[derive(Clone)]
struct Objects {
    id: KindId,
    kind: Arc<Kind>,
    settings: Arc<Settings>,
}

impl<K: Parts> Translate<K> for Objects {
    type Item = forest::ObjectFact;

    fn stream(&self) -> (Stream, String) {
        (Stream::Kind(self.id), self.kind.group_resource())
    }

    fn item(&self, object: K) -> Self::Item {
        let (metadata, content) = object.into_parts();
        let content = content.map(|content| match content {
            Value::Object(fields) => fields,
            _ => serde_json::Map::new(),
        });
        ingest::object(&self.kind, &self.settings, metadata, content)
    }

    fn seen(&self, item: Self::Item) -> Fact {
        Fact::Object(self.id, item)
    }

    fn gone(&self, object: K) -> Fact {
        let (metadata, _) = object.into_parts();
        let uid = ingest::version(&metadata).uid;
        Fact::ObjectGone(self.id, ingest::namespace_of(&metadata), ingest::name(&metadata), uid)
    }

    fn all(&self, items: Vec<Self::Item>) -> Fact {
        Fact::Objects(self.id, items)
    }
}

/// An object taken apart: metadata, and the rest where the stream carries it.
trait Parts: Debug + Send + 'static {
    fn into_parts(self) -> (ObjectMeta, Option<Value>);
}

impl Parts for DynamicObject {
    fn into_parts(self) -> (ObjectMeta, Option<Value>) {
        (self.metadata, Some(self.data))
    }
}

impl Parts for PartialObjectMeta<DynamicObject> {
    fn into_parts(self) -> (ObjectMeta, Option<Value>) {
        (self.metadata, None)
    }
}
