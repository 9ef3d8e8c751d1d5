//! A cluster to try things on by hand: starts one, prints where it is, and keeps it until Ctrl-C. Installs nothing on it.

use std::io::{self, Write};
use std::time::Instant;

use anyhow::Context;
use hns_e2e::Cluster;
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let began = Instant::now();
    let cluster = Cluster::start().await?;
    // Before anybody can know that it is up: a signal that comes earlier than its handler is lost where it was ignored before,
    // as it is for what a script starts in the background.
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
