//! A real node for a cluster: containerd, kubelet, scheduler and kube-proxy, so that Deployments run and Services lead to pods.
//! Linux and root only.
//!
//! It lives in a [`sandbox`] with its own network, mounts and processes. So the machine does not see it, several run side by
//! side, and everything ends with the sandbox's first process.

mod containerd;
pub mod images;
mod kubelet;
pub mod requirements;
pub mod sandbox;

use std::fmt;
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use k8s_openapi::api::core::v1::Node as NodeObject;
use kube::Api;

use crate::cluster::{self, Cluster};
use crate::command::Command;
use crate::eventually;
use crate::process::Process;
use crate::programs::NodePrograms;

/// The address of node and API server.
pub const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 10, 0, 1);
/// The node's name.
pub const NAME: &str = "node";
/// The addresses of pods.
const PODS: &str = "10.244.0.0/24";

const READY: Duration = Duration::from_secs(120);
const LOG_LINES: usize = 20;

/// A node that has joined a cluster. It ends when this value is dropped, before the cluster.
pub struct Node<'c> {
    cluster: &'c Cluster,
    programs: NodePrograms,
    processes: Vec<Process>,
}

impl<'c> Node<'c> {
    /// Starts a node and waits until it is ready. Only within a [`sandbox`], on a cluster started at [`ADDRESS`].
    pub async fn start(cluster: &'c Cluster, sandbox: &sandbox::Inside) -> anyhow::Result<Self> {
        let programs = tokio::task::spawn_blocking(NodePrograms::find_or_build).await??;
        let directory = cluster.dir().join("node");
        fs::create_dir(&directory)?;
        let mut node = Self { cluster, programs, processes: Vec::new() };
        node.start_containerd(&directory).await?;
        node.start_kubernetes(&directory, sandbox)?;
        node.wait_ready().await?;
        Ok(node)
    }

    /// Loads the images of an archive into the node.
    pub async fn load(&self, archive: &Path) -> anyhow::Result<()> {
        let arguments = ["--namespace=k8s.io", "images", "import"];
        self.ctr().args(arguments).args([archive]).ok().await.map(drop)
    }

    fn ctr(&self) -> Command {
        Command::new("ctr", &self.programs.ctr, ["--address", containerd::SOCKET])
    }

    async fn start_containerd(&mut self, directory: &Path) -> anyhow::Result<()> {
        let configuration = containerd::write_all(directory)?;
        let arguments = vec![format!("--config={}", configuration.display())];
        let containerd = self.programs.containerd.clone();
        self.spawn("containerd", &containerd, arguments)?;
        eventually("containerd answers", READY, async || {
            self.ctr()
                .args(["version"])
                .ok()
                .await
                .map(drop)
                .map_err(|error| format!("{error:#}\n{}", self.logs()))
        })
        .await
    }

    fn start_kubernetes(&mut self, directory: &Path, sandbox: &sandbox::Inside) -> anyhow::Result<()> {
        let layout = self.cluster.layout();
        let [kubelet, proxy, scheduler] =
            ["kubelet", "kube-proxy", "kube-scheduler"].map(|name| layout.write_kubeconfig(name));
        let ca = self.cluster.ca_file();
        let kubelet = kubelet::kubelet(directory, &kubelet?, &ca, sandbox.cgroup())?;
        let proxy = kubelet::proxy(directory, &proxy?)?;
        let scheduler = kubelet::scheduler(&scheduler?);
        let programs = self.programs.clone();
        self.spawn("kubelet", &programs.kubelet, kubelet)?;
        self.spawn("kube-proxy", &programs.kube_proxy, proxy)?;
        self.spawn("kube-scheduler", &programs.kube_scheduler, scheduler)
    }

    fn spawn(&mut self, name: &str, program: &Path, arguments: Vec<String>) -> anyhow::Result<()> {
        let spec = cluster::specification(self.cluster.dir(), name, program, arguments);
        self.processes.push(Process::spawn(spec)?);
        Ok(())
    }

    async fn wait_ready(&self) -> anyhow::Result<()> {
        let nodes: Api<NodeObject> = Api::all(self.cluster.admin());
        eventually("the node is ready", READY, async || {
            let node = nodes.get(NAME).await.map_err(|error| format!("{error}\n{}", self.logs()))?;
            let conditions = node.status.and_then(|status| status.conditions).unwrap_or_default();
            let ready = conditions.iter().find(|condition| condition.type_ == "Ready");
            match ready {
                Some(condition) if condition.status == "True" => Ok(()),
                other => Err(format!("{other:?}\n{}", self.logs())),
            }
        })
        .await
    }

    /// The last lines of every log of the node.
    pub fn logs(&self) -> String {
        let logs = self.processes.iter();
        let last_lines = |process: &Process| {
            format!("last lines of {}:\n{}\n", process.spec().name, process.log_tail(LOG_LINES))
        };
        logs.map(last_lines).collect::<Vec<_>>().concat()
    }
}

impl fmt::Debug for Node<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "node {NAME} of {:?}", self.cluster)
    }
}

/// Writes a file of the node and returns its path.
fn write(directory: &Path, name: &str, content: impl AsRef<[u8]>) -> anyhow::Result<PathBuf> {
    let path = directory.join(name);
    fs::write(&path, content).with_context(|| format!("writing {}", path.display()))?;
    Ok(path)
}
