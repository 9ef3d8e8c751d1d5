//! The event `CannotWriteResourceQuota`.

use std::time::Duration;

use anyhow::{Result, ensure};
use hns_api::events::{CANNOT_WRITE_RESOURCE_QUOTA, COMPONENT};
use hns_cluster::api::Api;
use hns_e2e::steps::PATIENCE;
use hns_e2e::{eventually, stays};
use k8s_openapi::api::core::v1::{Event, ResourceQuota};
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::json;

use super::scene::{Scene, condition, scene};

/// The messages of the events on quotas of a namespace, by the name of the quota.
async fn events(scene: &Scene<'_>, namespace: &str) -> Result<Vec<(String, String)>, String> {
    let api: Api<Event> = Api::namespaced(scene.steps.client.clone(), namespace);
    let all = api.list(&ListParams::default()).await.map_err(|error| error.to_string())?;
    let about = |event: Event| {
        let object = event.involved_object;
        let is_ours = event.reason.as_deref() == Some(CANNOT_WRITE_RESOURCE_QUOTA)
            && event.source.and_then(|it| it.component).as_deref() == Some(COMPONENT)
            && event.type_.as_deref() == Some("Warning")
            && object.kind.as_deref() == Some("HierarchicalResourceQuota")
            && object.api_version.as_deref() == Some(hns_api::API_VERSION)
            && object.uid.is_some();
        is_ours.then(|| (object.name.unwrap_or_default(), event.message.unwrap_or_default()))
    };
    let mut found: Vec<_> = all.items.into_iter().filter_map(about).collect();
    found.sort();
    Ok(found)
}

#[tokio::test]
async fn a_derived_quota_that_cannot_be_written_is_reported_once_on_each_quota_of_the_ancestry() -> Result<()>
{
    let scene = scene().await?;
    scene.steps.plant(&[("ev-root", ""), ("ev-child", "ev-root")]).await?;
    // This quota leaves no room for another one.
    let full = json!({ "metadata": { "name": "full" }, "spec": { "hard": { "resourcequotas": "1" } } });
    let full: ResourceQuota = serde_json::from_value(full)?;
    let quotas = scene.core("ev-child");
    quotas.create(&PostParams::default(), &full).await?;
    eventually("the core quota is in force", PATIENCE, async || {
        let status = quotas.get("full").await.map_err(|error| error.to_string())?.status.unwrap_or_default();
        let used = status.used.and_then(|it| it.get("resourcequotas").cloned());
        if used.as_ref().is_some_and(|it| it.0 == "1") { Ok(()) } else { Err(format!("{used:?}")) }
    })
    .await?;
    scene.set("ev-root", "budget", json!({ "services": "3" })).await?;
    let message = "could not create/update lower-level ResourceQuota in namespace \"ev-child\": resourcequotas \"hrq.hnc.x-k8s.io\" is \
                   forbidden: exceeded quota: full, requested: resourcequotas=1, used: resourcequotas=1, limited: resourcequotas=1";
    let on = |name: &str| (name.to_owned(), message.to_owned());
    eventually("the quota has the event", PATIENCE, async || {
        let found = events(&scene, "ev-root").await?;
        if found == [on("budget")] { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await?;
    // The condition tells it too, and the root is limited nevertheless.
    let shown = scene
        .quota_is("ev-root", "budget", "is not enforced", |quota| {
            condition(&quota.status.clone().unwrap_or_default(), "Enforced")
                .is_some_and(|(holds, _, _)| !holds)
        })
        .await?;
    let (_, reason, text) = condition(&shown.status.unwrap_or_default(), "Enforced").unwrap_or_default();
    ensure!(reason == "LimitsNotInForce" && text.contains("\"ev-child\""), "{reason}: {text}");
    scene.derived("ev-root", &[("services", "3")]).await?;
    // The write is tried again several times meanwhile.
    stays("there is one event", Duration::from_secs(5), async || {
        let found = events(&scene, "ev-root").await?;
        if found.len() == 1 { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await?;
    scene.set("ev-child", "own", json!({ "pods": "3" })).await?;
    eventually("each quota has an event of the other limits", PATIENCE, async || {
        let (above, below) = (events(&scene, "ev-root").await?, events(&scene, "ev-child").await?);
        if above == [on("budget"), on("budget")] && below == [on("own")] {
            Ok(())
        } else {
            Err(format!("{above:?} {below:?}"))
        }
    })
    .await?;
    quotas.delete("full", &DeleteParams::default()).await.map(drop)?;
    // The retries have become rare; a change of the quota is a reason to try at once.
    scene.set("ev-child", "own", json!({ "pods": "4" })).await?;
    scene.derived("ev-child", &[("services", "3"), ("pods", "4")]).await?;
    scene.enforced("ev-root", "budget").await?;
    scene.enforced("ev-child", "own").await.map(drop)
}
