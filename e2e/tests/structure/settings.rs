//! What both binaries say in the `ConfigMap` `hnc-settings`: who may read it, when it is written, and what is seen when they do
//! not run with the same.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hns_api::HNCConfiguration;
use hns_api::names::{HNC_CONFIGURATION, SETTINGS_CONFIG_MAP};
use hns_e2e::product::{Component, NAMESPACE, WEBHOOK_USER};
use hns_e2e::steps::PATIENCE;
use hns_e2e::{Launch, Mark, Replica, eventually, ports, refusal, stays};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio::process::Command;

use super::workshop::{Workshop, workshop};

const QUICK: &str = "--shutdown-delay=0s";
const OTHER: &str = "--excluded-namespace=se-other";

#[tokio::test]
async fn settings_are_said_to_everybody_and_differences_are_seen() -> Result<()> {
    let workshop = workshop().await?;
    // A status that is there is left alone for a while; a new one shows at once what is to be said.
    let configurations = Api::<HNCConfiguration>::all(workshop.cluster.admin());
    let _ = configurations.delete(HNC_CONFIGURATION, &DeleteParams::default()).await;
    let mark = workshop.cluster.audit().mark()?;
    let running = workshop.run(&[QUICK]).await?;
    let scene = Scene { workshop: &workshop, mark };
    let said =
        scene.says("both have the same", |data| data["controller.digest"] == data["webhook.digest"]).await?;
    let webhook: Value = serde_json::from_str(&said["webhook"])?;
    ensure!(webhook["common"]["excluded-namespace"] == json!([NAMESPACE]), "{webhook}");
    ensure!(webhook["own"]["controller-service-account"] == "hns-controller", "{webhook}");
    let both = [&running.webhook, &running.controller];
    scene.is_well(&both).await?;
    only_this_one_can_be_read_and_written(&workshop).await?;

    let before = scene.writes()?;
    let other = scene.webhook(&[OTHER]).await?;
    let differ = |data: &BTreeMap<String, String>| data["controller.digest"] != data["webhook.digest"];
    scene.says("the replica that started last", differ).await?;
    scene.is_ill(&both).await?;
    let log = "another replica has published other settings";
    eventually("the other replica notices", PATIENCE, async || {
        if running.webhook.log().contains(log) { Ok(()) } else { Err("nothing in its log".into()) }
    })
    .await?;
    scene.keeps_silent(before + 1, "two webhooks that do not agree").await?;
    other.terminate().await?;

    let right = scene.webhook(&[]).await?;
    scene.says("what is right again", |data| data["controller.digest"] == data["webhook.digest"]).await?;
    scene.is_well(&both).await?;
    let another = scene.webhook(&[]).await?;
    scene.keeps_silent(before + 2, "three webhooks that agree").await?;

    scene.config_maps().delete(SETTINGS_CONFIG_MAP, &DeleteParams::default()).await?;
    let again = scene.says("all of it again", |_| true).await?;
    ensure!(again == said, "{again:?}");
    tokio::try_join!(right.terminate(), another.terminate())?;
    running.end().await
}

struct Scene<'a> {
    workshop: &'a Workshop,
    mark: Mark,
}

impl Scene<'_> {
    fn config_maps(&self) -> Api<ConfigMap> {
        config_maps(self.workshop.cluster.admin())
    }

    /// Waits until the `ConfigMap` has all four entries and is like that.
    async fn says(
        &self,
        what: &str,
        is: impl Fn(&BTreeMap<String, String>) -> bool,
    ) -> Result<BTreeMap<String, String>> {
        eventually(&format!("the ConfigMap says {what}"), PATIENCE, async || {
            let found =
                self.config_maps().get_opt(SETTINGS_CONFIG_MAP).await.map_err(|error| error.to_string())?;
            let data = found.and_then(|it| it.data).unwrap_or_default();
            if data.len() == 4 && is(&data) { Ok(data) } else { Err(format!("{data:?}")) }
        })
        .await
    }

    /// One more webhook, which nobody asks anything.
    async fn webhook(&self, flags: &[&str]) -> Result<Replica> {
        let [port] = ports::free()?;
        let args = flags.iter().copied().chain([QUICK]).map(str::to_owned).collect();
        let launch = Launch { webhook_port: Some(port), args, ..Launch::default() };
        self.workshop.product.start(Component::Webhook, launch).await
    }

    /// How often the webhooks have written there.
    fn writes(&self) -> Result<usize> {
        let written = self.workshop.cluster.audit().mutating_by(WEBHOOK_USER, self.mark)?;
        let (there, elsewhere): (Vec<_>, Vec<_>) = written
            .iter()
            .filter(|it| it.succeeded())
            .partition(|it| it.resource == "configmaps" && it.name == SETTINGS_CONFIG_MAP);
        ensure!(elsewhere.is_empty(), "the webhook wrote elsewhere: {elsewhere:?}");
        Ok(there.len())
    }

    /// Nobody writes any more after so many writes.
    async fn keeps_silent(&self, writes: usize, who: &str) -> Result<()> {
        eventually("the log has the writes", PATIENCE, async || match self.writes() {
            Ok(seen) if seen == writes => Ok(()),
            seen => Err(format!("{seen:?}, not {writes}")),
        })
        .await?;
        let version =
            async || self.config_maps().get(SETTINGS_CONFIG_MAP).await.map(|it| it.resource_version());
        let now = version().await?;
        stays(&format!("{who} leave it as it is"), Duration::from_millis(1_500), async || {
            let then = version().await.map_err(|error| error.to_string())?;
            if then == now { Ok(()) } else { Err(format!("{now:?}, then {then:?}")) }
        })
        .await?;
        ensure!(self.writes()? == writes, "{who} wrote {} times, not {writes}", self.writes()?);
        println!("{who}: {writes} writes in all, none in the end");
        Ok(())
    }

    async fn is_well(&self, replicas: &[&Replica]) -> Result<()> {
        self.shows(replicas, 0, "ok").await
    }

    async fn is_ill(&self, replicas: &[&Replica]) -> Result<()> {
        self.shows(replicas, 1, "wrong").await
    }

    /// Waits until the condition, the metric and `doctor` say so.
    async fn shows(&self, replicas: &[&Replica], differ: u8, level: &str) -> Result<()> {
        let configurations = Api::<HNCConfiguration>::all(self.workshop.cluster.admin());
        eventually(&format!("the condition is there {differ} times"), PATIENCE, async || {
            let config = configurations.get(HNC_CONFIGURATION).await.map_err(|error| error.to_string())?;
            let conditions = config.status.map(|it| it.conditions).unwrap_or_default();
            let shown: Vec<_> = conditions.iter().filter(|it| it.reason == "SettingsDiffer").collect();
            let named = shown.iter().all(|it| it.type_ == "BadConfiguration" && it.message.contains(OTHER));
            if shown.len() == usize::from(differ) && named { Ok(()) } else { Err(format!("{conditions:?}")) }
        })
        .await?;
        let line = format!("hns_settings_differ{{published_by=\"hns-webhook\"}} {differ}");
        for replica in replicas {
            eventually(&format!("{} shows {line}", replica.pod_name()), PATIENCE, async || {
                let metrics = replica.metrics().await.map_err(|error| error.to_string())?;
                if metrics.contains(&line) { Ok(()) } else { Err("it does not".into()) }
            })
            .await?;
        }
        let found = doctor(self.workshop).await?;
        ensure!(found["level"] == level, "{found}");
        println!("the condition, {} metrics and doctor say: {level}", replicas.len());
        Ok(())
    }
}

fn config_maps(client: Client) -> Api<ConfigMap> {
    Api::namespaced(client, NAMESPACE)
}

/// What `kubectl hns doctor` finds about settings.
async fn doctor(workshop: &Workshop) -> Result<Value> {
    let program = std::env::current_exe()?.with_file_name("../kubectl-hns");
    let mut command = Command::new(program);
    command.arg("--kubeconfig").arg(workshop.cluster.kubeconfig()).args(["doctor", "-o", "json"]);
    let output = command.kill_on_drop(true).output().await.context("kubectl-hns: build it first")?;
    let all: Value = serde_json::from_slice(&output.stdout)?;
    let found = all["findings"].as_array().into_iter().flatten().find(|it| it["subject"] == "settings");
    found.cloned().context("doctor says nothing of settings")
}

async fn only_this_one_can_be_read_and_written(workshop: &Workshop) -> Result<()> {
    let elsewhere = "kube-root-ca.crt";
    eventually("there is another ConfigMap", PATIENCE, async || {
        let found = config_maps(workshop.cluster.admin()).get(elsewhere).await;
        found.map(drop).map_err(|error| error.to_string())
    })
    .await?;
    let change = |name: &str| {
        let object = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { "x": "y" } });
        (PatchParams::apply("somebody").force(), Patch::Apply(object))
    };
    let refused = |status: kube::core::Status| {
        ensure!(status.code == 403, "{status:?}");
        Ok(())
    };
    let anybody = config_maps(workshop.cluster.client_as("somebody", &["system:authenticated"]));
    ensure!(anybody.get(SETTINGS_CONFIG_MAP).await?.data.is_some(), "everybody may read it");
    refused(refusal(anybody.get(elsewhere).await))?;
    refused(refusal(anybody.list(&ListParams::default()).await))?;
    refused(refusal(anybody.delete(SETTINGS_CONFIG_MAP, &DeleteParams::default()).await.map(drop)))?;
    let nobody = config_maps(workshop.cluster.client_as("system:anonymous", &["system:unauthenticated"]));
    refused(refusal(nobody.get(SETTINGS_CONFIG_MAP).await))?;
    let webhook = config_maps(workshop.cluster.client_as(WEBHOOK_USER, &[]));
    for name in [elsewhere, "made-up"] {
        let (params, patch) = change(name);
        refused(refusal(webhook.patch(name, &params, &patch).await))?;
    }
    refused(refusal(webhook.delete(SETTINGS_CONFIG_MAP, &DeleteParams::default()).await.map(drop)))?;
    let (params, patch) = change(SETTINGS_CONFIG_MAP);
    refused(refusal(anybody.patch(SETTINGS_CONFIG_MAP, &params, &patch).await))
}
