//! A cluster for manual tests: starts one, prints its paths, and keeps it until Ctrl-C. Installs nothing on it.

use std::io::{self, Write};
use std::time::Instant;

use anyhow::Context;
use hns_e2e::Cluster;
use tokio::signal::unix::{SignalKind, signal};

const USAGE: &str = "Usage: hns-cluster

Starts a Kubernetes control plane on loopback, prints its processes, its directory and its KUBECONFIG, and keeps it until Ctrl-C.";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    if let Some(argument) = std::env::args().nth(1) {
        anyhow::ensure!(["-h", "--help"].contains(&&*argument), "unknown argument {argument:?}\n\n{USAGE}");
        return Ok(writeln!(io::stdout(), "{USAGE}")?);
    }
    let began = Instant::now();
    let cluster = Cluster::start().await?;
    // Installed before the cluster is reported as ready. A background process of a script ignores the signal until then, and an
    // earlier signal would be lost.
    let mut interrupted = signal(SignalKind::interrupt()).context("waiting for Ctrl-C")?;
    let mut output = io::stdout();
    writeln!(output, "ready in {:.1} s", began.elapsed().as_secs_f32())?;
    for process in [cluster.etcd(), cluster.api_server(), cluster.controller_manager()] {
        writeln!(output, "pid {} {}", process.pid(), process.spec().name)?;
    }
    writeln!(output, "dir {}", cluster.dir().display())?;
    writeln!(output, "export KUBECONFIG={}", cluster.kubeconfig().display())?;
    output.flush()?;
    interrupted.recv().await;
    Ok(())
}
