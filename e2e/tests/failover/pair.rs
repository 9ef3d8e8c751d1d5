//! Two controllers, each behind a proxy of its own, and the leader of the two. Judges nothing.

use anyhow::Result;
use hns_e2e::product::NAMESPACE;
use hns_e2e::steps::PATIENCE;
use hns_e2e::{Cluster, Component, Launch, Options, Product, Proxy, Replica, Steps, eventually};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;

const NAMES: [&str; 2] = ["first", "second"];

/// One of the two.
pub(crate) struct Member {
    pub(crate) replica: Replica,
    pub(crate) proxy: Proxy,
}

/// Both, with a webhook.
pub(crate) struct Pair<'c> {
    cluster: &'c Cluster,
    members: Vec<Member>,
    // Kept so that they last as long.
    _product: Product<'c>,
    _webhook: Replica,
}

impl<'c> Pair<'c> {
    pub(crate) async fn start(cluster: &'c Cluster, flags: &[&str]) -> Result<Self> {
        let product = Product::install(cluster, Options::default()).await?;
        let webhook = product.start_webhook().await?;
        let mut members = Vec::new();
        for name in NAMES {
            let proxy = Proxy::start(cluster)?;
            let launch = Launch {
                pod_name: Some(name.to_owned()),
                server: Some(proxy.url()),
                args: flags.iter().map(|&flag| flag.to_owned()).collect(),
                ..Launch::default()
            };
            members.push(Member { replica: product.start(Component::Controller, launch).await?, proxy });
        }
        Ok(Self { cluster, members, _product: product, _webhook: webhook })
    }

    pub(crate) fn cluster(&self) -> &'c Cluster {
        self.cluster
    }

    pub(crate) fn steps(&self) -> Steps {
        Steps::of(self.cluster.admin())
    }

    pub(crate) fn member(&self, index: usize) -> &Member {
        &self.members[index]
    }

    /// Starts it again, as a kubelet does, and waits until it is ready.
    pub(crate) async fn relaunch(&mut self, index: usize) -> Result<()> {
        self.members[index].replica.restart().await
    }

    /// The leader and the follower, both running. Restarts a controller that has ended because the machine was too busy for it to
    /// renew its lease in time.
    pub(crate) async fn roles(&mut self) -> Result<(usize, usize)> {
        for index in 0..self.members.len() {
            if self.members[index].replica.process().exit().is_some() {
                self.relaunch(index).await?;
            }
            self.members[index].replica.wait_ready().await?;
        }
        let leader = eventually("one of the two leads", PATIENCE, async || {
            let holder = self.holder().await?;
            NAMES.iter().position(|name| holder == *name).ok_or_else(|| format!("{holder:?} leads"))
        })
        .await?;
        Ok((leader, 1 - leader))
    }

    /// Waits until this one leads.
    pub(crate) async fn led_by(&self, index: usize) -> Result<()> {
        eventually(&format!("{} leads", NAMES[index]), PATIENCE, async || {
            let holder = self.holder().await?;
            if holder == NAMES[index] { Ok(()) } else { Err(format!("{holder:?} leads")) }
        })
        .await
    }

    async fn holder(&self) -> Result<String, String> {
        let leases: Api<Lease> = Api::namespaced(self.cluster.admin(), NAMESPACE);
        let lease = leases.get_opt("hns-controller").await.map_err(|error| error.to_string())?;
        Ok(lease.and_then(|lease| lease.spec).and_then(|spec| spec.holder_identity).unwrap_or_default())
    }
}
