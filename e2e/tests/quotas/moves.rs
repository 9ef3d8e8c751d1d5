//! Moves of namespaces, and quotas that come later: the sums are right at once. HNC's sums are wrong in the first two cases until
//! its next check.

use anyhow::{Result, ensure};
use serde_json::json;

use super::scene::scene;

#[tokio::test]
async fn a_namespace_takes_the_usage_of_its_descendants_along() -> Result<()> {
    let scene = scene().await?;
    scene
        .steps
        .plant(&[("m-old", ""), ("m-new", ""), ("m-mid", "m-old"), ("m-leaf", "m-mid"), ("m-stays", "m-new")])
        .await?;
    scene.limit("m-old", "budget", json!({ "services": "9" })).await?;
    scene.limit("m-new", "budget", json!({ "services": "4" })).await?;
    scene.serve_all("m-mid", &["one"]).await?;
    scene.serve_all("m-leaf", &["two", "three"]).await?;
    scene.uses("m-old", "budget", &[("services", "3")]).await?;
    scene.steps.set_parent("m-mid", "m-new").await?;
    scene.uses("m-old", "budget", &[("services", "0")]).await?;
    scene.uses("m-new", "budget", &[("services", "3")]).await?;
    scene.derived("m-leaf", &[("services", "4")]).await?;
    scene.enforced("m-new", "budget").await?;
    scene.serve_all("m-stays", &["four"]).await?;
    for namespace in ["m-leaf", "m-mid", "m-stays"] {
        scene.refused(namespace, "five").await?;
    }
    // Back to a root of its own: nothing limits it.
    scene.steps.set_parent("m-mid", "").await?;
    scene.not_derived("m-leaf").await?;
    scene.uses("m-new", "budget", &[("services", "1")]).await?;
    scene.serve_all("m-leaf", &["five", "six", "seven"]).await
}

#[tokio::test]
async fn a_quota_above_one_that_limits_the_same_counts_what_exists() -> Result<()> {
    let scene = scene().await?;
    scene.steps.plant(&[("l-root", ""), ("l-child", "l-root")]).await?;
    scene.limit("l-child", "below", json!({ "services": "9" })).await?;
    scene.serve_all("l-child", &["one", "two"]).await?;
    scene.uses("l-child", "below", &[("services", "2")]).await?;
    scene.limit("l-root", "above", json!({ "services": "3" })).await?;
    scene.uses("l-root", "above", &[("services", "2")]).await?;
    scene.serve_all("l-root", &["three"]).await?;
    scene.refused("l-child", "four").await?;
    scene.refused("l-root", "four").await?;
    Ok(())
}

#[tokio::test]
async fn a_move_that_exceeds_a_quota_is_allowed_with_a_warning_and_blocks_growth() -> Result<()> {
    let scene = scene().await?;
    scene.steps.plant(&[("x-old", ""), ("x-new", ""), ("x-child", "x-old")]).await?;
    scene.limit("x-old", "budget", json!({ "services": "9" })).await?;
    scene.limit("x-new", "budget", json!({ "services": "1" })).await?;
    scene.serve_all("x-child", &["one", "two"]).await?;
    scene.uses("x-old", "budget", &[("services", "2")]).await?;
    let moves = scene.cluster.kubectl().args([
        "patch",
        "hierarchyconfigurations",
        "hierarchy",
        "-n",
        "x-child",
        "--type=merge",
        "--patch={\"spec\":{\"parent\":\"x-new\"}}",
    ]);
    let output = moves.run().await?;
    ensure!(output.success(), "{output}");
    let warning = "Warning: \"x-child\" and the namespaces below it use services=2; with them, services=2 is used of the quota \
                   x-new/budget, which allows 1: nothing is removed, but no more is allowed";
    ensure!(output.stderr.lines().any(|line| line == warning), "{output}");
    scene.uses("x-new", "budget", &[("services", "2")]).await?;
    scene.enforced("x-new", "budget").await?;
    scene.refused("x-new", "three").await?;
    scene.refused("x-child", "three").await?;
    Ok(())
}
