//! One installation with something to count: copies, anchors, a refusal.

use anyhow::{Result, ensure};
use hns_api::HierarchicalResourceQuota;
use hns_api::names::DERIVED_QUOTA;
use hns_cluster::settings::FailurePolicy;
use hns_e2e::steps::PATIENCE;
use hns_e2e::{Cluster, Options, Product, Replica, Steps, eventually, refusal};
use k8s_openapi::api::core::v1::{ResourceQuota, Service};
use kube::Api;
use kube::api::PostParams;
use serde_json::json;
use tokio::sync::OnceCell;

pub(crate) struct Fixture {
    pub(crate) cluster: &'static Cluster,
    pub(crate) webhook: Replica,
    /// One test ends it, to see what is said when it is gone; no other may need it at work.
    pub(crate) controller: Replica,
}

pub(crate) async fn fixture() -> Result<&'static Fixture> {
    static WORLD: OnceCell<Fixture> = OnceCell::const_new();
    WORLD
        .get_or_try_init(async || {
            let cluster = Cluster::shared().await;
            let product = Product::install(cluster, Options::with_quotas(FailurePolicy::Fail)).await?;
            let (webhook, controller) =
                tokio::try_join!(product.start_webhook(), product.start_controller())?;
            Ok(Fixture { cluster, webhook, controller })
        })
        .await
}

impl Fixture {
    /// Work for both binaries, with names that begin with `prefix`.
    pub(crate) async fn work(&self, prefix: &str) -> Result<()> {
        let steps = Steps::of(self.cluster.admin());
        let [root, leaf, sub] = ["root", "leaf", "sub"].map(|name| format!("{prefix}-{name}"));
        steps.plant(&[(&root, ""), (&leaf, &root)]).await?;
        steps.create_binding(&root, "viewers", ("ClusterRole", "view"), "alice").await?;
        steps.binding_arrives(&[&leaf], "viewers", &root, "alice").await?;
        steps.create_anchor(&root, &sub).await?;
        steps.labelled(&[&sub, &root]).await?;
        self.count_service(&root, &leaf).await?;
        let status = refusal(steps.set_parent(&root, &leaf).await);
        ensure!(status.code == 409, "{status:?}");
        Ok(())
    }

    /// Has one Service of `leaf` counted under a hierarchical quota of `root`.
    async fn count_service(&self, root: &str, leaf: &str) -> Result<()> {
        let client = self.cluster.admin();
        let quota: HierarchicalResourceQuota = serde_json::from_value(
            json!({ "metadata": { "name": "services" }, "spec": { "hard": { "services": 5 } } }),
        )?;
        Api::namespaced(client.clone(), root).create(&PostParams::default(), &quota).await?;
        let derived = Api::<ResourceQuota>::namespaced(client.clone(), leaf);
        eventually("the derived quota is in force", PATIENCE, async || {
            let found = derived.get_opt(DERIVED_QUOTA).await.map_err(|error| error.to_string())?;
            let hard = found.and_then(|it| it.status).and_then(|it| it.hard);
            if hard.is_some_and(|it| it.contains_key("services")) {
                Ok(())
            } else {
                Err("not yet".to_owned())
            }
        })
        .await?;
        let service: Service = serde_json::from_value(
            json!({ "metadata": { "name": "counted" }, "spec": { "ports": [{ "port": 80 }] } }),
        )?;
        Api::namespaced(client, leaf).create(&PostParams::default(), &service).await?;
        Ok(())
    }
}
