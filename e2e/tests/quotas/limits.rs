//! What is allowed and what is denied, with the texts that users see; what the status shows.

use std::time::Duration;

use anyhow::{Result, ensure};
use hns_api::annotations::HRQ_LIMITS;
use hns_api::conditions::EXCEEDED;
use hns_api::names::DERIVED_QUOTA;
use hns_e2e::steps::PATIENCE;
use hns_e2e::{eventually, stays};
use kube::api::DeleteParams;
use serde_json::json;

use super::scene::{condition, scene};

/// The annotation is written at most every half minute.
const SHOWN: Duration = Duration::from_secs(60);

const DENIED: &str = "admission webhook \"resourcesquotasstatus.hnc.x-k8s.io\" denied the request: exceeded hierarchical quota in namespace";

#[tokio::test]
async fn the_sum_over_a_namespace_and_its_child_is_limited_and_the_denial_has_the_text_of_hnc() -> Result<()>
{
    let scene = scene().await?;
    scene.steps.plant(&[("s-root", ""), ("s-child", "s-root")]).await?;
    scene.limit("s-root", "budget", json!({ "services": "2" })).await?;
    scene.serve_all("s-root", &["one"]).await?;
    scene.serve_all("s-child", &["two"]).await?;
    scene.uses("s-root", "budget", &[("services", "2")]).await?;
    let status = scene.refused("s-child", "three").await?;
    let denied = format!(
        "{DENIED} \"s-root\": \"budget\", requested: services=1, used: services=2, limited: services=2"
    );
    assert_eq!(status.message, denied);
    let kubectl = scene.cluster.kubectl();
    let create =
        ["create", "service", "externalname", "three", "--external-name=example.com", "-n", "s-child"];
    let output = kubectl.clone().args(create).run().await?;
    assert_eq!(output.stderr.trim(), format!("error: failed to create ExternalName service: {denied}"));
    let manifest = "{apiVersion: v1, kind: Service, metadata: {name: three}, spec: {type: ExternalName, externalName: example.com}}";
    let output = kubectl.args(["apply", "-n", "s-child", "-f", "-"]).stdin(manifest).run().await?;
    assert_eq!(
        output.stderr.trim(),
        format!("Error from server (Forbidden): error when creating \"STDIN\": {denied}")
    );
    scene.remove("s-root", "one").await?;
    // The control plane counts anew, and the webhook hears of that from its watch.
    eventually("there is room for another", PATIENCE, async || {
        let served = scene.serve("s-child", "three").await.map_err(|error| format!("{error:#}"))?;
        served.map(drop).map_err(|error| error.to_string())
    })
    .await?;
    scene.uses("s-root", "budget", &[("services", "2")]).await
}

#[tokio::test]
async fn the_core_quota_denies_in_its_own_words_what_exceeds_the_limit_in_one_namespace() -> Result<()> {
    let scene = scene().await?;
    scene.steps.plant(&[("o-root", "")]).await?;
    scene.limit("o-root", "budget", json!({ "services": "1" })).await?;
    scene.serve_all("o-root", &["one"]).await?;
    let status = scene.refused("o-root", "two").await?;
    assert_eq!(
        status.message,
        "services \"two\" is forbidden: exceeded quota: hrq.hnc.x-k8s.io, requested: services=1, used: services=1, limited: \
         services=1"
    );
    Ok(())
}

#[tokio::test]
async fn all_quotas_of_the_ancestry_apply_and_the_one_nearest_to_the_root_is_named() -> Result<()> {
    let scene = scene().await?;
    scene
        .steps
        .plant(&[("a-root", ""), ("a-mid", "a-root"), ("a-leaf", "a-mid"), ("a-other", "a-root")])
        .await?;
    for (namespace, name, limit) in [("a-root", "all", "4"), ("a-mid", "some", "2"), ("a-mid", "more", "3")] {
        scene.limit(namespace, name, json!({ "services": limit })).await?;
    }
    scene.serve_all("a-mid", &["one"]).await?;
    scene.serve_all("a-leaf", &["two"]).await?;
    scene.uses("a-mid", "more", &[("services", "2")]).await?;
    let status = scene.refused("a-leaf", "three").await?;
    assert_eq!(
        status.message,
        format!("{DENIED} \"a-mid\": \"some\", requested: services=1, used: services=2, limited: services=2")
    );
    scene.serve_all("a-other", &["three"]).await?;
    scene.serve_all("a-root", &["four"]).await?;
    scene.uses("a-root", "all", &[("services", "4")]).await?;
    for namespace in ["a-leaf", "a-other"] {
        let status = scene.refused(namespace, "five").await?;
        assert_eq!(
            status.message,
            format!(
                "{DENIED} \"a-root\": \"all\", requested: services=1, used: services=4, limited: services=4"
            )
        );
    }
    // Without it, the others still apply.
    scene.hierarchical("a-root").delete("all", &DeleteParams::default()).await?;
    scene.not_derived("a-other").await?;
    scene.serve_all("a-other", &["five", "six"]).await?;
    let status = scene.refused("a-leaf", "five").await?;
    ensure!(status.message.contains("\"a-mid\": \"some\""), "{}", status.message);
    Ok(())
}

#[tokio::test]
async fn usage_from_before_the_quota_is_shown_and_only_growth_is_blocked() -> Result<()> {
    let scene = scene().await?;
    scene.steps.plant(&[("b-root", ""), ("b-child", "b-root")]).await?;
    scene.serve_all("b-root", &["one", "two"]).await?;
    scene.serve_all("b-child", &["three"]).await?;
    scene.limit("b-root", "budget", json!({ "services": "1" })).await?;
    scene.uses("b-root", "budget", &[("services", "3")]).await?;
    let quota = scene
        .quota_is("b-root", "budget", "is exceeded", |quota| {
            condition(&quota.status.clone().unwrap_or_default(), EXCEEDED).is_some_and(|(holds, _, _)| holds)
        })
        .await?;
    let status = quota.status.unwrap_or_default();
    assert_eq!(status.requests_summary.as_deref(), Some("services: 3/1"));
    assert_eq!(
        condition(&status, EXCEEDED),
        Some((
            true,
            "UsageExceedsLimits".into(),
            "The subtree uses more than allowed and cannot use more: services: 3 used, 1 allowed".into()
        ))
    );
    scene.refused("b-child", "four").await?;
    // What exists can be changed and deleted.
    scene
        .patch_service("b-child", "three", json!({ "metadata": { "labels": { "changed": "yes" } } }))
        .await?;
    for (namespace, name, left) in [("b-root", "one", "2"), ("b-root", "two", "1"), ("b-child", "three", "0")]
    {
        scene.refused("b-child", "four").await?;
        scene.remove(namespace, name).await?;
        scene.uses("b-root", "budget", &[("services", left)]).await?;
    }
    scene
        .quota_is("b-root", "budget", "is not exceeded", |quota| {
            condition(&quota.status.clone().unwrap_or_default(), EXCEEDED).is_some_and(|(holds, _, _)| !holds)
        })
        .await?;
    scene.serve_all("b-child", &["four"]).await?;
    scene.refused("b-root", "five").await?;
    Ok(())
}

#[tokio::test]
async fn a_status_that_a_user_writes_is_right_again_and_changes_no_decision() -> Result<()> {
    let scene = scene().await?;
    scene.steps.plant(&[("w-root", ""), ("w-child", "w-root")]).await?;
    scene.limit("w-root", "budget", json!({ "services": "1" })).await?;
    scene.serve_all("w-root", &["one"]).await?;
    scene.uses("w-root", "budget", &[("services", "1")]).await?;
    let patch = kube::api::Patch::Merge(
        json!({ "status": { "used": { "services": "-5", "pods": "1" }, "conditions": null } }),
    );
    scene.hierarchical("w-root").patch("budget", &kube::api::PatchParams::default(), &patch).await?;
    scene.refused("w-child", "two").await?;
    scene.uses("w-root", "budget", &[("services", "1")]).await?;
    scene.enforced("w-root", "budget").await?;
    Ok(())
}

#[tokio::test]
async fn the_status_has_the_summaries_of_hnc() -> Result<()> {
    let scene = scene().await?;
    scene.steps.plant(&[("u-root", "")]).await?;
    let hard = json!({ "services": "2", "pods": "4", "limits.cpu": "1500m", "limits.memory": "1Gi", "requests.cpu": "1" });
    scene.limit("u-root", "budget", hard).await?;
    scene.serve_all("u-root", &["one"]).await?;
    scene
        .uses(
            "u-root",
            "budget",
            &[
                ("services", "1"),
                ("pods", "0"),
                ("limits.cpu", "0"),
                ("limits.memory", "0"),
                ("requests.cpu", "0"),
            ],
        )
        .await?;
    let output = scene.cluster.kubectl().args(["get", "hrq", "-n", "u-root"]).ok().await?;
    let lines: Vec<Vec<&str>> = output
        .lines()
        .map(|line| line.split("   ").map(str::trim).filter(|it| !it.is_empty()).collect())
        .collect();
    assert_eq!(
        lines,
        [
            vec!["NAME", "REQUEST", "LIMIT"],
            vec![
                "budget",
                "pods: 0/4, requests.cpu: 0/1, services: 1/2",
                "limits.cpu: 0/1500m, limits.memory: 0/1Gi"
            ]
        ]
    );
    Ok(())
}

#[tokio::test]
async fn a_derived_quota_tells_people_what_is_left_in_the_subtree() -> Result<()> {
    let scene = scene().await?;
    scene.steps.plant(&[("i-root", ""), ("i-child", "i-root")]).await?;
    scene.limit("i-root", "budget", json!({ "services": "4" })).await?;
    scene.limit("i-child", "own", json!({ "services": "2" })).await?;
    let shows = async |namespace: &str, wanted: &str| {
        eventually(&format!("the quota of {namespace} shows {wanted}"), SHOWN, async || {
            let quota = scene.core(namespace).get(DERIVED_QUOTA).await.map_err(|error| error.to_string())?;
            let shown = quota.metadata.annotations.and_then(|mut all| all.remove(HRQ_LIMITS));
            if shown.as_deref() == Some(wanted) { Ok(()) } else { Err(format!("{shown:?}")) }
        })
        .await
    };
    shows("i-child", "services: i-child/own, 100% of 2 left").await?;
    scene.serve_all("i-root", &["one", "two", "three"]).await?;
    shows("i-root", "services: i-root/budget, 25% of 4 left").await?;
    // The quota above has less left than the one here.
    shows("i-child", "services: i-root/budget, 25% of 4 left").await
}

#[tokio::test]
async fn where_no_quota_applies_nothing_is_limited_or_written() -> Result<()> {
    let scene = scene().await?;
    scene.steps.plant(&[("n-root", ""), ("n-limited", "n-root"), ("n-free", "n-root")]).await?;
    scene.limit("n-limited", "budget", json!({ "services": "0" })).await?;
    scene.refused("n-limited", "one").await?;
    stays("n-root and n-free have no derived quota", Duration::from_secs(1), async || {
        for namespace in ["n-root", "n-free"] {
            match scene.core(namespace).get_opt(DERIVED_QUOTA).await {
                Ok(None) => {}
                other => return Err(format!("{other:?}")),
            }
        }
        Ok(())
    })
    .await?;
    scene.serve_all("n-free", &["one", "two"]).await?;
    scene.serve_all("n-root", &["one"]).await
}
