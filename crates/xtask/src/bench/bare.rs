//! A cluster without hns, for the plain client.

use hns_e2e::Cluster;

use super::client::{Call, Client, Sent};
use super::testbed;
use super::usage::{self, Cpu};

pub(crate) struct Bare<'c> {
    cluster: &'c Cluster,
    client: Client,
}

impl<'c> Bare<'c> {
    pub(crate) async fn new(cluster: &'c Cluster) -> anyhow::Result<Self> {
        Ok(Self { cluster, client: testbed::client(cluster).await? })
    }

    pub(crate) async fn create_namespaces(&self, names: &[String]) -> anyhow::Result<()> {
        let calls = names.iter().map(|name| testbed::create_namespace(name)).collect();
        self.client.send(calls, testbed::FILLING).await.map(drop)
    }

    fn processes(&self) -> [(&'static str, i32); 3] {
        [
            ("API server", self.cluster.api_server().pid()),
            ("etcd", self.cluster.etcd().pid()),
            ("controller manager", self.cluster.controller_manager().pid()),
        ]
    }

    /// Waits until the cluster is idle. Its controller manager goes on after the requests.
    pub(crate) async fn rest(&self) -> anyhow::Result<()> {
        testbed::rest(&self.processes()).await
    }

    /// Waits until the cluster is idle, then sends and measures these requests.
    pub(crate) async fn raw(&self, calls: Vec<Call>, parallel: usize) -> anyhow::Result<(Sent, Cpu)> {
        self.rest().await?;
        let processes = self.processes();
        let before = usage::cpu(&processes)?;
        let sent = self.client.send(calls, parallel).await?;
        Ok((sent, usage::difference(&before, &usage::cpu(&processes)?)))
    }
}
