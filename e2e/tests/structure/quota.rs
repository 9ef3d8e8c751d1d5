//! A core `ResourceQuota` limits how many subnamespaces a namespace may have. Nothing of hns is needed for it, and nothing may
//! be in its way.

use std::time::Duration;

use anyhow::{Result, ensure};
use hns_e2e::{eventually, refusal};
use k8s_openapi::api::core::v1::ResourceQuota;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;

use super::scene::{DELETION, Structure, scene};

const COUNT: &str = "count/subnamespaceanchors.hnc.x-k8s.io";

#[tokio::test]
async fn a_quota_limits_the_children_of_a_namespace() -> Result<()> {
    let scene = scene().await?;
    let steps = &scene.steps;
    steps.create_namespace("q-root").await?;
    let quotas: Api<ResourceQuota> = Api::namespaced(steps.client.clone(), "q-root");
    let quota = json!({ "metadata": { "name": "children" }, "spec": { "hard": { COUNT: "2" } } });
    quotas.create(&PostParams::default(), &serde_json::from_value(quota)?).await?;
    // The control plane looks for new kinds every half minute.
    eventually("the quota is in force", Duration::from_secs(90), async || {
        let status =
            quotas.get("children").await.map_err(|error| error.to_string())?.status.unwrap_or_default();
        let used = status.used.and_then(|mut used| used.remove(COUNT));
        used.map(drop).ok_or_else(|| "it counts nothing yet".into())
    })
    .await?;
    steps.subnamespace(&["q-one", "q-root"]).await?;
    steps.subnamespace(&["q-two", "q-root"]).await?;
    let status = refusal(steps.create_anchor("q-root", "q-three").await);
    assert_eq!((status.code, status.reason.as_str()), (403, "Forbidden"), "{}", status.message);
    ensure!(
        status.message.contains("exceeded quota: children") && status.message.contains(COUNT),
        "{}",
        status.message
    );
    ensure!(status.message.contains("q-three"), "{}", status.message);
    println!("{}", status.message);
    // A namespace elsewhere is not limited, and one that goes makes room.
    steps.subnamespace(&["q-below", "q-one", "q-root"]).await?;
    steps.anchors("q-root").delete("q-two", &DeleteParams::default()).await?;
    steps.gone("q-two").await?;
    eventually("there is room for another", DELETION, async || {
        steps.create_anchor("q-root", "q-three").await.map(drop).map_err(|error| error.to_string())
    })
    .await?;
    steps.anchor_shows("q-root", "q-three", "Ok").await?;
    Ok(())
}
