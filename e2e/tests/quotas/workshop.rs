//! An installation on a cluster of its own, held by one test at a time: for what stops or restarts programs.

use anyhow::Result;
use hns_cluster::settings::FailurePolicy;
use hns_e2e::steps::PATIENCE;
use hns_e2e::{Cluster, Component, Launch, Product, Replica, Steps, eventually};
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::Api;
use tokio::sync::{Mutex, MutexGuard, OnceCell};

use super::scene::{FLAGS, Scene, cluster, options};

const FAIL: [&str; 2] = ["--enable-hrq", "--hrq-failure-policy=Fail"];
const IGNORE: [&str; 1] = ["--enable-hrq"];

pub(crate) struct Workshop {
    _alone: MutexGuard<'static, ()>,
    pub(crate) cluster: &'static Cluster,
    pub(crate) scene: Scene<'static>,
    product: &'static Product<'static>,
}

/// Both binaries at work; they end with the value.
pub(crate) struct Running {
    pub(crate) webhook: Replica,
    pub(crate) controller: Replica,
}

pub(crate) async fn workshop() -> Result<Workshop> {
    static ALONE: Mutex<()> = Mutex::const_new(());
    static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
    static PRODUCT: OnceCell<Product<'static>> = OnceCell::const_new();
    let alone = ALONE.lock().await;
    let cluster = CLUSTER.get_or_try_init(cluster).await?;
    let product = PRODUCT
        .get_or_try_init(|| {
            let mut options = options(FailurePolicy::Fail);
            // Each test says the others.
            let flags: Vec<String> = FLAGS.map(str::to_owned).into();
            options.webhook_args.clone_from(&flags);
            options.controller_args = flags;
            Product::install(cluster, options)
        })
        .await?;
    Ok(Workshop { _alone: alone, cluster, scene: Scene::of(cluster), product })
}

impl Workshop {
    /// Starts both binaries, with or without quotas, and waits until the registrations follow.
    pub(crate) async fn run(&self, quotas: Option<FailurePolicy>) -> Result<Running> {
        let flags: &[&str] = match quotas {
            Some(FailurePolicy::Fail) => &FAIL,
            Some(FailurePolicy::Ignore) => &IGNORE,
            None => &[],
        };
        let launch =
            || Launch { args: flags.iter().map(|&flag| flag.to_owned()).collect(), ..Launch::default() };
        let (webhook, controller) = tokio::try_join!(
            self.product.start(Component::Webhook, launch()),
            self.product.start(Component::Controller, launch())
        )?;
        registered(self.cluster, quotas).await?;
        Ok(Running { webhook, controller })
    }

    pub(crate) fn steps(&self) -> &Steps {
        &self.scene.steps
    }
}

impl Running {
    /// Ends both, as a kubelet does.
    pub(crate) async fn end(self) -> Result<()> {
        tokio::try_join!(self.webhook.terminate(), self.controller.terminate())?;
        Ok(())
    }
}

/// Waits until the registrations follow.
async fn registered(cluster: &Cluster, quotas: Option<FailurePolicy>) -> Result<()> {
    eventually(&format!("the registrations are for {quotas:?}"), PATIENCE, async || {
        let policy = usage_policy(cluster).await.map_err(|error| error.to_string())?;
        if policy == quotas.map(|it| format!("{it:?}")) { Ok(()) } else { Err(format!("{policy:?}")) }
    })
    .await
}

/// The failure policy of the webhook for usage, if it is registered.
pub(crate) async fn usage_policy(cluster: &Cluster) -> Result<Option<String>> {
    let all = Api::<ValidatingWebhookConfiguration>::all(cluster.admin());
    let found = all.get(hns_api::names::VALIDATING_WEBHOOK_CONFIGURATION).await?;
    let mut webhooks = found.webhooks.unwrap_or_default().into_iter();
    let usage = webhooks.find(|it| it.name == hns_api::names::webhooks::RESOURCE_QUOTAS_STATUS);
    Ok(usage.and_then(|it| it.failure_policy))
}
