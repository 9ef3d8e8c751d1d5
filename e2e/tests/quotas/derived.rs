//! The derived quotas, and the smallest whole story.

use anyhow::{Result, ensure};

use super::scene::scene;

#[tokio::test]
async fn the_sum_over_a_namespace_and_its_child_is_limited() -> Result<()> {
    let scene = scene().await?;
    scene.steps.plant(&[("d-root", ""), ("d-child", "d-root")]).await?;
    scene.limit("d-root", "budget", serde_json::json!({ "services": "2" })).await?;
    for namespace in ["d-root", "d-child"] {
        scene.derived(namespace, &[("services", "2")]).await?;
    }
    scene.serve_all("d-root", &["one"]).await?;
    scene.serve_all("d-child", &["two"]).await?;
    scene.uses("d-root", "budget", &[("services", "2")]).await?;
    let status = scene.refused("d-child", "three").await?;
    println!("{}", status.message);
    ensure!(
        status.message.contains(
            "admission webhook \"resourcesquotasstatus.hnc.x-k8s.io\" denied the request: exceeded hierarchical quota in \
             namespace \"d-root\": \"budget\", requested: services=1, used: services=2, limited: services=2"
        ),
        "{}",
        status.message
    );
    scene.remove("d-root", "one").await?;
    scene.serve_all("d-child", &["three"]).await?;
    scene.uses("d-root", "budget", &[("services", "2")]).await?;
    Ok(())
}
