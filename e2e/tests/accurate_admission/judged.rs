//! What the webhook judges, with each setting, and what goes on while it is dead.

use hns_api::accurate::names::FINALIZER;
use hns_cluster::settings::accurate::Settings;
use hns_e2e::eventually;
use hns_e2e::steps::PATIENCE;
use serde_json::{Value, json};

use super::scene::{scene, strict};
use super::table::{send, try_out};

#[tokio::test]
async fn each_request_is_answered_as_accurate_answers_it_or_more_strictly() {
    let scene = scene().await;
    try_out(&scene, include_str!("namespaces.yaml")).await;
    try_out(&scene, include_str!("sub-namespaces.yaml")).await;
}

/// With other finalizers, too.
#[tokio::test]
async fn a_new_sub_namespace_has_the_finalizer() {
    let scene = scene().await;
    let path = "/apis/accurate.cybozu.com/v2/namespaces/root/subnamespaces?dryRun=All";
    for (finalizers, wanted) in [
        (json!([]), json!([FINALIZER])),
        (json!(["example.com/hold"]), json!(["example.com/hold", FINALIZER])),
        (json!([FINALIZER, "example.com/hold"]), json!([FINALIZER, "example.com/hold"])),
    ] {
        let body = json!({ "metadata": { "name": "fresh", "finalizers": finalizers } });
        let created = send(&scene.user("alice"), "POST", path, body).await.unwrap();
        assert_eq!(created["metadata"]["finalizers"], wanted);
    }
}

#[tokio::test]
async fn two_settings_give_accurates_way() {
    let scene = scene().await;
    let lenient = Settings { allow_cascading_deletion: true, trust_namespace_editors: true, ..strict() };
    scene.product.configure_accurate(&lenient).await.unwrap();
    let boss = scene.user("boss");
    let sub = "/api/v1/namespaces/sub?dryRun=All";
    eventually("the webhook uses the new settings", PATIENCE, async || {
        send(&boss, "DELETE", sub, Value::Null).await.map(drop).map_err(|error| error.to_string())
    })
    .await
    .unwrap();
    try_out(&scene, include_str!("lenient.yaml")).await;
    scene.product.configure_accurate(&strict()).await.unwrap();
    eventually("the webhook uses the first settings again", PATIENCE, async || {
        match send(&boss, "DELETE", sub, Value::Null).await {
            Err(kube::Error::Api(status)) if status.code == 403 => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn while_the_webhook_is_dead_namespaces_live_and_the_hierarchy_stays() {
    let mut scene = scene().await;
    scene.webhook.kill().await.unwrap();
    try_out(&scene, include_str!("dead.yaml")).await;
    scene.webhook.restart().await.unwrap();
    scene.is_judged().await.unwrap();
}
