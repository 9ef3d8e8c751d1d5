//! A cluster with a node, and hns on it as its chart installs it.

use std::time::{Duration, Instant};

use hns_e2e::node::sandbox::Inside;
use hns_e2e::{Cluster, Node, node};

pub(crate) fn reference(name: &str) -> String {
    format!("{name}:0.1.0")
}

pub(crate) struct World {
    cluster: &'static Cluster,
    node: Node<'static>,
}

impl World {
    pub(crate) async fn start(sandbox: &Inside) -> anyhow::Result<Self> {
        let began = Instant::now();
        let cluster: &'static Cluster = Box::leak(Box::new(Cluster::start_at(node::ADDRESS).await?));
        eprintln!("node: control plane after {:.1} s", began.elapsed().as_secs_f32());
        let node = Node::start(cluster, sandbox).await?;
        eprintln!("node: ready after {:.1} s", began.elapsed().as_secs_f32());
        for archive in &sandbox.images()?.archives {
            node.load(archive).await?;
        }
        eprintln!("node: images after {:.1} s", began.elapsed().as_secs_f32());
        Ok(Self { cluster, node })
    }

    pub(crate) async fn install(&mut self) -> anyhow::Result<()> {
        let kubectl = self.cluster.kubectl();
        kubectl.args(["run", "a", "--image=hns.invalid/pause:1", "--restart=Never"]).ok().await?;
        let wait = self.cluster.kubectl().args(["wait", "--for=condition=Ready", "pod/a", "--timeout=30s"]);
        let r = wait.run().await?;
        eprintln!("{r}");
        eprintln!("{}", self.cluster.kubectl().args(["get", "pod,node", "-A", "-o", "wide"]).ok().await?);
        eprintln!("{}", self.cluster.kubectl().args(["describe", "pod", "a"]).ok().await?);
        eprintln!("{}", self.node.logs());
        tokio::time::sleep(Duration::from_secs(1)).await;
        Ok(())
    }
}
