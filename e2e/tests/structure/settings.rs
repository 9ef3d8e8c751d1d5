//! The settings document in the `ConfigMap` `hns-config`, and the settings in force in `hnc-settings`: who may read and write
//! them, that a change reaches both programs while they run, and what a wrong document does.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hns_api::names::{CONFIG_CONFIG_MAP, HNC_CONFIGURATION, SETTINGS_CONFIG_MAP};
use hns_api::{HNCConfiguration, annotations};
use hns_cluster::settings::{DOCUMENT, refused};
use hns_e2e::product::{Component, NAMESPACE, WEBHOOK_USER};
use hns_e2e::steps::PATIENCE;
use hns_e2e::{Launch, Replica, Steps, eventually, refusal, stays};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use super::scene::Structure;
use super::workshop::{Running, Workshop, workshop};

const REASON: &str = "excludedNamespaces: \"N_O\": not the name of a namespace";

#[tokio::test]
async fn a_changed_document_reaches_all_programs_and_a_wrong_one_changes_nothing() -> Result<()> {
    let workshop = workshop().await?;
    let steps = &workshop.steps;
    let scene = Scene { workshop: &workshop };
    scene.without_document().await?;
    // A status that is there is left alone for a while; a new one shows at once what is to be said.
    let configurations = Api::<HNCConfiguration>::all(workshop.cluster.admin());
    let _ = configurations.delete(HNC_CONFIGURATION, &DeleteParams::default()).await;
    let mark = workshop.cluster.audit().mark()?;
    let mut running = workshop.run(&[]).await?;
    steps.plant(&[("se-root", ""), ("se-out", "se-root"), ("se-free", "")]).await?;
    steps.plant(&[("se-gone", ""), ("se-low", "se-gone")]).await?;
    steps.create_binding("se-gone", "lost", ("ClusterRole", "view"), "zoe").await?;
    steps.binding_arrives(&["se-low"], "lost", "se-gone", "zoe").await?;
    only_the_controller_writes(&workshop).await?;

    // While requests go on, none of them is refused for the change.
    let judged = admitted_throughout(steps, Duration::from_secs(6));
    let changed = async {
        scene
            .document("{version: v1, excludedNamespaces: [se-out, se-gone], ancestryAnnotation: true}")
            .await?;
        excluded(steps, true).await?;
        ancestry(steps, "se-root").await
    };
    let ((), ()) = tokio::try_join!(judged, changed)?;
    println!("a changed document is in force in both programs without a restart");
    steps.delete_namespace("se-gone").await?;
    steps.binding_leaves(&["se-low"], "lost").await?;
    println!("below an excluded parent that is deleted, the copies from it go");
    scene.shows(&running, None).await?;

    scene.document("{version: v1, excludedNamespaces: [N_O]}").await?;
    scene.shows(&running, Some(REASON)).await?;
    stays("the earlier settings stay in force", Duration::from_secs(2), async || {
        judged_as_excluded(steps)
            .await
            .and_then(|is| if is { Ok(()) } else { Err("se-out is managed".into()) })
    })
    .await?;
    for replica in [&mut running.webhook, &mut running.controller] {
        replica.restart().await?;
    }
    excluded(steps, true).await?;
    scene.shows(&running, Some(REASON)).await?;
    println!("a wrong document leaves the settings in force, across restarts too");

    scene.document("version: v1").await?;
    scene.shows(&running, None).await?;
    excluded(steps, false).await?;
    scene.refusals_get_another_code().await?;
    config_maps(workshop.cluster.admin()).delete(CONFIG_CONFIG_MAP, &DeleteParams::default()).await?;
    scene.shows(&running, Some("ConfigMap hns-config: it does not exist any more")).await?;
    let by_webhook = workshop.cluster.audit().mutating_by(WEBHOOK_USER, mark)?;
    let written: Vec<_> =
        by_webhook.iter().filter(|it| it.resource == "configmaps" && it.succeeded()).collect();
    ensure!(written.is_empty(), "the webhook writes no settings: {written:?}");
    running.end().await?;
    scene.without_document().await
}

#[tokio::test]
async fn without_settings_a_webhook_is_unready_and_says_why() -> Result<()> {
    let workshop = workshop().await?;
    let scene = Scene { workshop: &workshop };
    let launch = Launch::default();
    let webhook = workshop.product.launch(Component::Webhook, launch).await?;
    webhook.wait_ready().await?;
    scene.without_document().await?;
    stays(
        "the webhook is ready with the settings that it has understood",
        Duration::from_secs(1),
        async || {
            let (ready, text) = webhook.readiness().await.map_err(|error| error.to_string())?;
            if ready { Ok(()) } else { Err(text) }
        },
    )
    .await?;
    webhook.terminate().await?;
    let mut webhook = webhook;
    webhook.relaunch()?;
    eventually("it is unready and says why", PATIENCE, async || {
        let (ready, text) = webhook.readiness().await.map_err(|error| error.to_string())?;
        let why = "[-]settings not ready: there are no settings in the ConfigMap hnc-settings in namespace hnc-system";
        if !ready && text.contains(why) { Ok(()) } else { Err(text) }
    })
    .await?;
    let mut object =
        json!({ "metadata": { "name": SETTINGS_CONFIG_MAP }, "data": { DOCUMENT: "{version: v1, x: 1}" } });
    let api = config_maps(workshop.cluster.admin());
    let write =
        async |object: &Value| api.patch(SETTINGS_CONFIG_MAP, &apply(), &Patch::Apply(typed(object))).await;
    write(&object).await?;
    eventually("it names what it does not understand", PATIENCE, async || {
        let (ready, text) = webhook.readiness().await.map_err(|error| error.to_string())?;
        if !ready && text.contains("does not understand: x: unknown field") { Ok(()) } else { Err(text) }
    })
    .await?;
    object["data"][DOCUMENT] = "version: v1".into();
    write(&object).await?;
    webhook.wait_ready().await?;
    webhook.terminate().await?;
    Ok(())
}

fn apply() -> PatchParams {
    PatchParams::apply("settings-test").force()
}

fn typed(object: &Value) -> Value {
    let mut object = object.clone();
    object["apiVersion"] = "v1".into();
    object["kind"] = "ConfigMap".into();
    object
}

struct Scene<'a> {
    workshop: &'a Workshop,
}

impl Scene<'_> {
    /// Writes the document.
    async fn document(&self, text: &str) -> Result<()> {
        let object = json!({ "metadata": { "name": CONFIG_CONFIG_MAP }, "data": { DOCUMENT: text } });
        let api = config_maps(self.workshop.cluster.admin());
        api.patch(CONFIG_CONFIG_MAP, &apply(), &Patch::Apply(typed(&object))).await?;
        Ok(())
    }

    /// A user without authority over the new parent is refused with HNC's code, and with 403 if the document says so.
    async fn refusals_get_another_code(&self) -> Result<()> {
        self.workshop.steps.make_admin("se-free", "eve").await?;
        let eve = Steps::of(self.workshop.cluster.client_as("eve", &[]));
        for (document, code, begins) in [
            ("version: v1", 401, "forbidden: user \"eve\""),
            ("{version: v1, refuseWith403: true}", 403, "\"hierarchy\" is forbidden: user \"eve\""),
        ] {
            self.document(document).await?;
            eventually(&format!("eve is refused with {code}"), PATIENCE, async || {
                let status = refusal(eve.set_parent("se-free", "se-root").await);
                let is_it = status.code == code && status.message.contains(begins);
                if is_it { Ok(()) } else { Err(format!("{} {}", status.code, status.message)) }
            })
            .await?;
        }
        self.document("version: v1").await
    }

    /// Deletes both, as no other test has a document.
    async fn without_document(&self) -> Result<()> {
        let api = config_maps(self.workshop.cluster.admin());
        for name in [CONFIG_CONFIG_MAP, SETTINGS_CONFIG_MAP] {
            match api.delete(name, &DeleteParams::default()).await {
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                other => drop(other?),
            }
        }
        Ok(())
    }

    /// Waits until the condition, the metrics, the log of the controller and `doctor` name what is wrong, or nothing.
    async fn shows(&self, running: &Running, wrong: Option<&str>) -> Result<()> {
        let api = config_maps(self.workshop.cluster.admin());
        eventually(&format!("hnc-settings names {wrong:?}"), PATIENCE, async || {
            let data = api
                .get(SETTINGS_CONFIG_MAP)
                .await
                .map_err(|error| error.to_string())?
                .data
                .unwrap_or_default();
            names(refused(&data), wrong).then_some(()).ok_or_else(|| format!("{data:?}"))
        })
        .await?;
        let configurations = Api::<HNCConfiguration>::all(self.workshop.cluster.admin());
        eventually(&format!("the condition names {wrong:?}"), PATIENCE, async || {
            let config = configurations.get(HNC_CONFIGURATION).await.map_err(|error| error.to_string())?;
            let conditions = config.status.map(|it| it.conditions).unwrap_or_default();
            let shown = conditions.iter().find(|it| it.reason == "SettingsRefused");
            let is_right = names(shown.map(|it| &*it.message), wrong);
            is_right.then_some(()).ok_or_else(|| format!("{conditions:?}"))
        })
        .await?;
        let line = format!("hns_settings_refused {}", u8::from(wrong.is_some()));
        for replica in [&running.webhook, &running.controller] {
            shows_metric(replica, &line).await?;
            let log = replica.log();
            ensure!(wrong.is_none_or(|wrong| log.replace('\\', "").contains(wrong)), "{log}");
        }
        let found = doctor(self.workshop).await?;
        ensure!(found["level"] == if wrong.is_some() { "wrong" } else { "ok" }, "{found}");
        ensure!(
            wrong.is_none_or(|wrong| found["text"].as_str().is_some_and(|it| it.contains(wrong))),
            "{found}"
        );
        Ok(())
    }
}

fn names(shown: Option<&str>, wrong: Option<&str>) -> bool {
    match (shown, wrong) {
        (Some(shown), Some(wrong)) => shown.contains(wrong),
        (None, None) => true,
        _ => false,
    }
}

async fn shows_metric(replica: &Replica, line: &str) -> Result<()> {
    eventually(&format!("{} shows {line}", replica.pod_name()), PATIENCE, async || {
        let metrics = replica.metrics().await.map_err(|error| error.to_string())?;
        if metrics.contains(line) { Ok(()) } else { Err("it does not".into()) }
    })
    .await
}

/// Whether the webhook refuses that something moves below `se-out` because that is excluded.
async fn judged_as_excluded(steps: &Steps) -> Result<bool, String> {
    match steps.set_parent("se-free", "se-out").await {
        Ok(_) => {
            steps.set_parent("se-free", "").await.map_err(|error| error.to_string())?;
            Ok(false)
        }
        Err(kube::Error::Api(status)) if status.code == 403 => Ok(true),
        Err(error) => Err(error.to_string()),
    }
}

async fn excluded(steps: &Steps, is: bool) -> Result<()> {
    eventually(&format!("se-out is excluded: {is}"), PATIENCE, async || {
        if judged_as_excluded(steps).await? == is { Ok(()) } else { Err("it is judged otherwise".into()) }
    })
    .await
}

async fn ancestry(steps: &Steps, name: &str) -> Result<()> {
    eventually("the controller writes the ancestry", PATIENCE, async || {
        let (_, shown) = steps.marks(name).await.map_err(|error| error.to_string())?;
        if shown.contains_key(annotations::ANCESTRY) { Ok(()) } else { Err(format!("{shown:?}")) }
    })
    .await
}

/// A hierarchy that is allowed before and after is changed all the time.
async fn admitted_throughout(steps: &Steps, time: Duration) -> Result<()> {
    steps.configure("se-root", json!({ "allowCascadingDeletion": false })).await?;
    let (end, mut count) = (tokio::time::Instant::now() + time, 0_u32);
    while tokio::time::Instant::now() < end {
        let spec = json!({ "spec": { "allowCascadingDeletion": count % 2 == 0 } });
        let api = steps.hierarchies("se-root");
        api.patch("hierarchy", &PatchParams::default(), &Patch::Merge(spec)).await?;
        count += 1;
    }
    println!("{count} requests were admitted while the settings changed");
    Ok(())
}

fn config_maps(client: Client) -> Api<ConfigMap> {
    Api::namespaced(client, NAMESPACE)
}

/// What `kubectl hns doctor` finds about settings.
async fn doctor(workshop: &Workshop) -> Result<Value> {
    let output = workshop.plugin("doctor -o json").await?;
    let all: Value = serde_json::from_slice(&output.stdout)?;
    let found = all["findings"].as_array().into_iter().flatten().find(|it| it["subject"] == "settings");
    found.cloned().context("doctor reports no settings")
}

async fn only_the_controller_writes(workshop: &Workshop) -> Result<()> {
    let elsewhere = "kube-root-ca.crt";
    eventually("there is another ConfigMap", PATIENCE, async || {
        let found = config_maps(workshop.cluster.admin()).get(elsewhere).await;
        found.map(drop).map_err(|error| error.to_string())
    })
    .await?;
    let refused = |status: kube::core::Status| {
        ensure!(status.code == 403, "{status:?}");
        Ok(())
    };
    let any_user = config_maps(workshop.cluster.client_as("somebody", &["system:authenticated"]));
    ensure!(any_user.get(SETTINGS_CONFIG_MAP).await?.data.is_some(), "everybody may read it");
    refused(refusal(any_user.get(elsewhere).await))?;
    refused(refusal(any_user.get(CONFIG_CONFIG_MAP).await))?;
    refused(refusal(any_user.list(&ListParams::default()).await))?;
    let anonymous = config_maps(workshop.cluster.client_as("system:anonymous", &["system:unauthenticated"]));
    refused(refusal(anonymous.get(SETTINGS_CONFIG_MAP).await))?;
    let webhook = config_maps(workshop.cluster.client_as(WEBHOOK_USER, &[]));
    for api in [any_user, webhook] {
        for name in [SETTINGS_CONFIG_MAP, CONFIG_CONFIG_MAP, elsewhere] {
            let data = BTreeMap::from([("x", "y")]);
            let object = typed(&json!({ "metadata": { "name": name }, "data": data }));
            refused(refusal(api.patch(name, &apply(), &Patch::Apply(object)).await))?;
            refused(refusal(api.delete(name, &DeleteParams::default()).await.map(drop)))?;
        }
    }
    Ok(())
}
