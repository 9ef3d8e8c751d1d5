//! The stream of `SubNamespaces`.

use forest::accurate::{Fact as AccurateFact, SubNamespaceFact};
use forest::{Fact, Name, Stream};
use hns_api::accurate::SubNamespace;
use kube::runtime::watcher::watcher;
use kube::{Api, Client, CustomResourceExt};
use tokio::task::JoinSet;

use super::detail::everything;
use super::stream::{Pump, Translate};
use crate::api_object::StructureObject;
use crate::ingest;

/// Starts the stream. Without the CRD it is lost, and begins when the CRD exists.
pub(super) fn start(client: &Client, pump: &Pump, tasks: &mut JoinSet<()>) {
    let all = Api::<StructureObject>::all_with(client.clone(), &SubNamespace::api_resource());
    tasks.spawn(pump.clone().run(SubNamespaces, move || watcher(all.clone(), everything())));
}

struct SubNamespaces;

impl Translate<StructureObject> for SubNamespaces {
    type Item = (Name, SubNamespaceFact);

    fn stream(&self) -> (Stream, String) {
        (Stream::SUB_NAMESPACES, Stream::SUB_NAMESPACES.to_string())
    }

    fn item(&self, object: StructureObject) -> Self::Item {
        ingest::accurate::sub_namespace(object.into())
    }

    fn seen(&self, (namespace, seen): Self::Item) -> Fact {
        AccurateFact::SubNamespace(namespace, seen).into()
    }

    fn gone(&self, object: StructureObject) -> Fact {
        ingest::accurate::sub_namespace_gone(&object.metadata).into()
    }

    fn all(&self, items: Vec<Self::Item>) -> Fact {
        AccurateFact::SubNamespaces(items).into()
    }

    /// The API server only says that there is no such path.
    fn lost(&self, code: u16, why: String) -> Fact {
        let why = match code {
            404 => format!(
                "the API server does not serve version {} of {}; install its CustomResourceDefinition",
                SubNamespace::api_resource().version,
                Stream::SUB_NAMESPACES
            ),
            _ => why,
        };
        Fact::StreamLost(Stream::SUB_NAMESPACES, why.into())
    }
}
