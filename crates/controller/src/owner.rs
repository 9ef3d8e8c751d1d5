//! The owner of what the controller creates for the installation: its `ClusterRole`.
//!
//! `helm uninstall` deletes the rights of the controller first. For a moment the API server still grants them, and the controller
//! creates again what is deleted. The garbage collector deletes such an object, because its owner does not exist any more.

use hns_api::names::CONTROLLER_CLUSTER_ROLE;
use hns_cluster::api::Api;
use k8s_openapi::api::rbac::v1::ClusterRole;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Client, Resource as _};

/// The reference to the `ClusterRole` as it is now.
///
/// # Errors
/// It cannot be read, or does not exist.
pub(crate) async fn reference(client: &Client) -> kube::Result<OwnerReference> {
    let role = Api::<ClusterRole>::all(client.clone()).get_metadata(CONTROLLER_CLUSTER_ROLE).await?;
    Ok(OwnerReference {
        api_version: ClusterRole::api_version(&()).into_owned(),
        kind: ClusterRole::kind(&()).into_owned(),
        name: CONTROLLER_CLUSTER_ROLE.to_owned(),
        uid: role.metadata.uid.unwrap_or_default(),
        ..OwnerReference::default()
    })
}
