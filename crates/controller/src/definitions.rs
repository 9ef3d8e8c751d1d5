//! Whether the definitions of hierarchies and anchors are there to stay.
//!
//! When a definition is deleted, all its objects go, which must not be taken for anybody's wish. So whenever one goes from a
//! namespace that stays, nothing is planned until the definitions have been looked at, past every cache. Decides nothing.

use std::time::Duration;

use forest::{Definition, Fact};
use hns_api::{HierarchyConfiguration, SubnamespaceAnchor};
use hns_cluster::api::Api;
use hns_cluster::handle::{ForestHandle, ForestWriter};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::PartialObjectMeta;
use kube::{Client, CustomResourceExt};

/// Between attempts while the API server does not answer.
const RETRY: Duration = Duration::from_millis(500);

/// Looks whenever the forest is in doubt, for as long as the process lives.
pub(crate) async fn follow(client: Client, forest: ForestHandle, writer: ForestWriter) {
    loop {
        wait(&forest, forest::Forest::is_in_doubt).await;
        match look(&client).await {
            Ok(definition) => {
                if definition == Definition::Going {
                    tracing::warn!(
                        "the definitions of hnc.x-k8s.io are going; nothing is propagated or deleted any more"
                    );
                }
                writer.tell([Fact::Definitions(definition)]);
            }
            Err(error) => {
                tracing::warn!(%error, "the definitions cannot be looked at; nothing is planned meanwhile");
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}

/// Waits until the forest is not in doubt.
pub(crate) async fn certain(forest: &ForestHandle) {
    wait(forest, |forest| !forest.is_in_doubt()).await;
}

async fn wait(forest: &ForestHandle, holds: impl Fn(&forest::Forest) -> bool) {
    let mut forest = forest.clone();
    while !forest.read(&holds) && forest.progressed().await {}
}

/// What has become of both definitions, by live reads.
pub(crate) async fn look(client: &Client) -> Result<Definition, kube::Error> {
    let api = Api::<PartialObjectMeta<CustomResourceDefinition>>::all(client.clone());
    let (hierarchies, anchors) = (HierarchyConfiguration::crd_name(), SubnamespaceAnchor::crd_name());
    let (hierarchies, anchors) = tokio::try_join!(api.get_opt(hierarchies), api.get_opt(anchors))?;
    let stays = |found: Option<PartialObjectMeta<CustomResourceDefinition>>| {
        found.is_some_and(|found| found.metadata.deletion_timestamp.is_none())
    };
    Ok(if stays(hierarchies) && stays(anchors) { Definition::Here } else { Definition::Going })
}
