//! One installation with something to count: copies, anchors, a refusal.

use anyhow::{Result, ensure};
use hns_e2e::{Cluster, Options, Product, Replica, Steps, refusal};
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
            let product = Product::install(cluster, Options::default()).await?;
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
        let status = refusal(steps.set_parent(&root, &leaf).await);
        ensure!(status.code == 409, "{status:?}");
        Ok(())
    }
}
