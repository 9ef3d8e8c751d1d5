//! A cluster to try things on by hand: starts one, prints where it is, and keeps it until Ctrl-C. Installs nothing on it.

use std::io::{self, Write};
use std::time::Instant;

use anyhow::Context;
use hns_e2e::Cluster;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let began = Instant::now();
    let cluster = Cluster::start().await?;
    let mut output = io::stdout();
    writeln!(output, "ready in {:.1} s", began.elapsed().as_secs_f32())?;
    for process in [cluster.etcd(), cluster.api_server(), cluster.controller_manager()] {
        writeln!(output, "pid {} {}", process.pid(), process.spec().name)?;
    }
    writeln!(output, "dir {}", cluster.dir().display())?;
    writeln!(output, "export KUBECONFIG={}", cluster.kubeconfig().display())?;
    output.flush()?;
    tokio::signal::ctrl_c().await.context("waiting for Ctrl-C")?;
    Ok(())
}
