//! One running `hns-webhook` or `hns-controller`, with the state that a kubelet sees. Never restarted by itself.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use http::StatusCode;

use crate::http::get;
use crate::process::{Exit, Process, ProcessSpec, Signal};
use crate::wait::eventually;

const READY_TIMEOUT: Duration = Duration::from_secs(60);
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
const LOG_LINES: usize = 30;

/// A replica; stopped when dropped.
#[derive(Debug)]
pub struct Replica {
    process: Arc<Process>,
    webhook_port: u16,
    metrics_port: u16,
    health_port: u16,
    credential: String,
}

impl Replica {
    pub(crate) fn start(
        spec: ProcessSpec,
        [webhook_port, metrics_port, health_port]: [u16; 3],
        credential: String,
    ) -> anyhow::Result<Self> {
        let process = Arc::new(Process::spawn(spec)?);
        Ok(Self { process, webhook_port, metrics_port, health_port, credential })
    }

    /// Its token, as in [`crate::AuditEvent::credential`]: no other replica has the same.
    pub fn credential(&self) -> &str {
        &self.credential
    }

    /// The present process, for signals, its exit status and its log.
    pub fn process(&self) -> Arc<Process> {
        Arc::clone(&self.process)
    }

    /// The name in `POD_NAME`.
    pub fn pod_name(&self) -> &str {
        &self.process.spec().name
    }

    /// The port for admission.
    pub fn webhook_port(&self) -> u16 {
        self.webhook_port
    }

    /// The port of `/metrics`.
    pub fn metrics_port(&self) -> u16 {
        self.metrics_port
    }

    /// The port of `/healthz` and `/readyz`.
    pub fn health_port(&self) -> u16 {
        self.health_port
    }

    /// Its whole log, including earlier runs of the same replica.
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// Asks `/readyz` once. Fails if it does not respond.
    pub async fn is_ready(&self) -> anyhow::Result<bool> {
        Ok(self.readiness().await?.0)
    }

    /// The response of `/readyz`: whether it is ready, and its conditions line by line. Fails if it does not respond.
    pub async fn readiness(&self) -> anyhow::Result<(bool, String)> {
        let (status, text) = get(self.health_port, "/readyz").await?;
        Ok((status == StatusCode::OK, text))
    }

    /// Waits until `/readyz` returns 200; fails with the last lines of the log when the process ends or a minute has passed.
    pub async fn wait_ready(&self) -> anyhow::Result<()> {
        let ready = async || match get(self.health_port, "/readyz").await {
            _ if self.process.exit().is_some() => Ok(()),
            Ok((StatusCode::OK, _)) => Ok(()),
            Ok((status, body)) => Err(format!("{status}: {body}")),
            Err(error) => Err(format!("{error:#}")),
        };
        let name = self.pod_name();
        let outcome = eventually(&format!("{name} is ready"), READY_TIMEOUT, ready).await;
        let log = || format!("the last lines of its log:\n{}", self.process.log_tail(LOG_LINES));
        outcome.with_context(log)?;
        if let Some(exit) = self.process.exit() {
            bail!("{name} ended ({exit}); {}", log());
        }
        Ok(())
    }

    /// The response of `/metrics`.
    pub async fn metrics(&self) -> anyhow::Result<String> {
        let (status, body) = get(self.metrics_port, "/metrics").await?;
        anyhow::ensure!(status == StatusCode::OK, "/metrics answered {status}: {body}");
        Ok(body)
    }

    /// Sends SIGTERM, as a kubelet does, and waits for the end.
    pub async fn terminate(&self) -> anyhow::Result<Exit> {
        self.process.signal(Signal::TERM)?;
        self.process.wait_exit(STOP_TIMEOUT).await
    }

    /// Sends SIGKILL and waits for the end.
    pub async fn kill(&self) -> anyhow::Result<Exit> {
        self.process.signal(Signal::KILL)?;
        self.process.wait_exit(STOP_TIMEOUT).await
    }

    /// Starts it again with the same name, arguments and ports, as a kubelet restarts a container, and waits until it is ready.
    /// Stops a running process first.
    pub async fn restart(&mut self) -> anyhow::Result<()> {
        self.relaunch()?;
        self.wait_ready().await
    }

    /// As [`Replica::restart`], without waiting.
    pub fn relaunch(&mut self) -> anyhow::Result<()> {
        self.process.stop();
        self.process = Arc::new(Process::spawn(self.process.spec().clone())?);
        Ok(())
    }
}

/// If a replica has ended, the test around it fails without knowing why, so this prints the reason.
impl Drop for Replica {
    fn drop(&mut self) {
        if let Some(exit) = self.process.exit().filter(Exit::is_failure) {
            eprintln!(
                "{} had ended ({exit}); the last lines of its log:\n{}",
                self.pod_name(),
                self.process.log_tail(LOG_LINES)
            );
        }
    }
}
