//! What is left after `helm uninstall`: namespaces and copies, and nothing that holds on to them.

use anyhow::{Result, ensure};

use super::world::{RELEASE, World};

const DEFINITIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../config/crds.yaml");

pub(crate) async fn what_is_left(world: &World<'_>) -> Result<String> {
    let steps = world.steps();
    // The order of the README: the controller lets go of its finalizers while it is still there.
    world.kubectl(["delete", "--timeout=60s", "-f", DEFINITIONS]).ok().await?;
    world.helm(["uninstall", RELEASE, "--wait", "--timeout=90s"]).ok().await?;
    for namespace in ["acme", "acme-prod", "acme-dev"] {
        let kept = steps.namespaces().get(namespace).await?;
        ensure!(kept.metadata.deletion_timestamp.is_none(), "{namespace} is being deleted");
        steps.bindings(namespace).get("viewers").await?;
    }
    // Whoever was guarded by hns is free now, and goes at once when asked to.
    for namespace in ["acme-dev", "acme-prod", "acme"] {
        steps.delete_namespace(namespace).await?;
    }
    Ok("namespaces and copies stay, and can be deleted".to_owned())
}
