//! Are the CRDs of `HierarchyConfigurations` and anchors being deleted?
//!
//! The deletion of a CRD deletes all its objects, and the controller must not act on these deletions. So when an object
//! disappears from a namespace that stays, planning pauses until the controller has read the CRDs from the API server.

use std::time::Duration;

use forest::hnc;
use forest::{CrdState, Fact};
use hns_api::{HierarchyConfiguration, SubnamespaceAnchor};
use hns_cluster::api::Api;
use hns_cluster::error_text::error_text;
use hns_cluster::handle::{ForestHandle, ForestWriter};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::PartialObjectMeta;
use kube::{Client, CustomResourceExt};

const RETRY_DELAY: Duration = Duration::from_millis(500);

/// Reads the CRDs whenever the forest needs to know, until the process ends.
pub(crate) async fn follow(client: Client, forest: ForestHandle, writer: ForestWriter) {
    loop {
        forest.until_progress(forest::Forest::is_in_doubt).await;
        match read(&client).await {
            Ok(crds) => {
                if crds == CrdState::BeingDeleted {
                    tracing::warn!(
                        "the CRDs of hnc.x-k8s.io are being deleted; propagation and deletion are paused"
                    );
                }
                writer.tell([Fact::Hnc(hnc::Fact::Crds(crds))]);
            }
            Err(error) => {
                tracing::warn!(
                    error = error_text(&error),
                    "could not read the CRDs of hnc.x-k8s.io; planning is paused"
                );
                tokio::time::sleep(RETRY_DELAY).await;
            }
        }
    }
}

/// Waits until the forest knows the state of the CRDs.
pub(crate) async fn known(forest: &ForestHandle) {
    forest.until_progress(|forest| !forest.is_in_doubt()).await;
}

/// Reads both CRDs from the API server, not from a cache.
pub(crate) async fn read(client: &Client) -> Result<CrdState, kube::Error> {
    let (hierarchies, anchors) = (HierarchyConfiguration::crd_name(), SubnamespaceAnchor::crd_name());
    let both = tokio::try_join!(is_lasting(client, hierarchies), is_lasting(client, anchors))?;
    Ok(if both == (true, true) { CrdState::Present } else { CrdState::BeingDeleted })
}

/// Whether the CRD of this name exists and is not being deleted, read from the API server, not from a cache.
pub(crate) async fn is_lasting(client: &Client, name: &str) -> Result<bool, kube::Error> {
    let api = Api::<PartialObjectMeta<CustomResourceDefinition>>::all(client.clone());
    let found = api.get_opt(name).await?;
    Ok(found.is_some_and(|found| found.metadata.deletion_timestamp.is_none()))
}
