//! No webhook pod is left and none can start: what still works then, and the way back with plain kubectl.

use std::time::Instant;

use anyhow::{Result, ensure};
use hns_e2e::{eventually, steps::PATIENCE as SOON};

use super::load;
use super::world::{NAMESPACE, PATIENCE, WEBHOOK, World, reference};

/// Replaces the pods instead of keeping the old ones until new ones are ready, and there is no such image (nor a registry, which is
/// noticed at once).
const BREAK: &str = r#"{"spec": {
  "strategy": {"type": "Recreate", "rollingUpdate": null},
  "template": {"spec": {"containers": [{"name": "webhook", "image": "127.0.0.1:1/nothing:0"}]}}}}"#;

pub(crate) async fn nobody_is_locked_out(world: &World<'_>) -> Result<String> {
    let patch = ["patch", WEBHOOK, "--namespace", NAMESPACE, "--patch", BREAK];
    world.kubectl(patch).ok().await?;
    let delete =
        ["delete", "pods", "--namespace", NAMESPACE, "--selector=control-plane=webhook", "--wait=false"];
    world.kubectl(delete).ok().await?;
    let steps = world.steps();
    // While they end, pods go on answering.
    eventually("no webhook answers", PATIENCE, async || {
        match load::allowed(&steps.client, load::NAMESPACE, "nobody").await {
            Err(error) if format!("{error:#}").contains("failed calling webhook") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await?;
    eventually("nothing is behind the Service", PATIENCE, async || match world.endpoints().await {
        Ok(addresses) if addresses.is_empty() => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await?;

    // Without a ready pod, connections go to those that end.
    let ends = "--output=jsonpath={.items[*].metadata.deletionTimestamp}";
    let pods = ["get", "pods", "--namespace", NAMESPACE, "--selector=control-plane=webhook", ends];
    eventually("no pod is ending", PATIENCE, async || match world.kubectl(pods).ok().await {
        Ok(text) if text.is_empty() => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await?;

    // What needs a verdict has to wait for one.
    let moved = steps.set_parent("load", "acme").await;
    ensure!(moved.is_err(), "a namespace was moved while no webhook was there");

    // What is nobody's hierarchy goes on.
    steps.create_namespace("ordinary").await?;
    world.kubectl(["create", "configmap", "settings", "--namespace=ordinary"]).ok().await?;
    world.kubectl(["label", "namespace", "ordinary", "team=a"]).ok().await?;
    steps.delete_namespace("ordinary").await?;
    world.kubectl(["create", "configmap", "settings", "--namespace=acme-prod"]).ok().await?;

    // The way back.
    let began = Instant::now();
    let image = format!("webhook={}", reference("hns-webhook"));
    world.kubectl(["set", "image", WEBHOOK, &image, "--namespace", NAMESPACE]).ok().await?;
    world.all_ready().await?;
    eventually("a namespace can be moved again", SOON, async || {
        steps.set_parent("load", "acme").await.map(drop).map_err(|error| error.to_string())
    })
    .await?;
    let took = began.elapsed().as_secs_f32();
    Ok(format!("ordinary namespaces came and went; repaired by one command within {took:.1} s"))
}
