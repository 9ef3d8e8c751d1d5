//! A Kubernetes control plane on loopback: etcd, kube-apiserver and kube-controller-manager, with real RBAC and an audit log.
//! Uses no fixed port or directory, so any number of clusters run side by side.

mod arguments;
pub(crate) mod kubeconfig;
mod kubectl;
pub(crate) mod pki;

use std::fmt;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::{Api, Client, Config};
use tempfile::TempDir;
use tokio::sync::OnceCell;

pub use self::kubectl::Kubectl;

use self::arguments::Layout;
pub use self::arguments::Setup;
use crate::audit::Audit;
use crate::cleanup;
use crate::ports;
use crate::process::{Process, ProcessSpec, tail};
use crate::programs::{Kubernetes, Programs};

/// A shared machine may be slow; a successful start takes a small part of this.
const START_TIMEOUT: Duration = Duration::from_secs(180);
const POLL: Duration = Duration::from_millis(25);
const ATTEMPTS: u32 = 5;
const LOG_LINES: usize = 20;

/// The message of Go programs when another process has taken their port in the meantime.
const PORT_CLASH: &str = "address already in use";

/// A running cluster. It ends, and its directory is removed, when this value is dropped or this process ends in any way.
pub struct Cluster {
    layout: Layout,
    config: Config,
    ca_pem: String,
    kubectl: PathBuf,
    kubernetes: Kubernetes,
    etcd: Slot,
    api_server: Slot,
    controller_manager: Slot,
    directory: TempDir,
}

/// One program of the control plane; a restart replaces the process.
struct Slot(Mutex<Arc<Process>>);

impl Slot {
    fn start(spec: ProcessSpec) -> anyhow::Result<Self> {
        Ok(Self(Mutex::new(Arc::new(Process::spawn(spec)?))))
    }

    fn get(&self) -> Arc<Process> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Stops the process, if it still runs, and starts another one from the same specification.
    fn replace(&self) -> anyhow::Result<Arc<Process>> {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        slot.stop();
        *slot = Arc::new(Process::spawn(slot.spec().clone())?);
        Ok(Arc::clone(&slot))
    }
}

impl Cluster {
    /// Starts a cluster and waits until it is ready: `/readyz` answers and the service account `default` of the namespace
    /// `default` exists.
    ///
    /// Builds missing programs first. An error contains the last log lines of the program that failed.
    pub async fn start() -> anyhow::Result<Self> {
        Self::start_at(Ipv4Addr::LOCALHOST).await
    }

    /// Starts a cluster whose API server listens at `address` instead of loopback, so that pods reach it. The address
    /// must be one of this network namespace.
    pub async fn start_at(address: Ipv4Addr) -> anyhow::Result<Self> {
        Self::start_with(Programs::find_or_build, address, &Setup::default()).await
    }

    /// Starts a cluster as [`Cluster::start`] does, of programs of the machine where they are supported: for people, not for
    /// tests.
    pub async fn start_installed() -> anyhow::Result<Self> {
        Self::start_with(Programs::find_installed_or_build, Ipv4Addr::LOCALHOST, &Setup::default()).await
    }

    /// Starts a cluster with this audit policy (`audit.k8s.io/v1`) instead of one that records every write.
    pub async fn start_audited(policy: &str) -> anyhow::Result<Self> {
        Self::start_as(&Setup { audit_policy: policy.to_owned(), ..Setup::default() }).await
    }

    /// Starts a cluster with other settings of the control plane than those of all tests.
    pub async fn start_as(setup: &Setup) -> anyhow::Result<Self> {
        Self::start_with(Programs::find_or_build, Ipv4Addr::LOCALHOST, setup).await
    }

    async fn start_with(
        programs: fn() -> anyhow::Result<Programs>,
        address: Ipv4Addr,
        setup: &Setup,
    ) -> anyhow::Result<Self> {
        install_crypto_provider();
        let programs = tokio::task::spawn_blocking(programs).await??;
        let mut attempt = 1;
        loop {
            match Self::start_once(&programs, address, setup).await {
                Err(error) if attempt < ATTEMPTS && format!("{error:#}").contains(PORT_CLASH) => attempt += 1,
                outcome => return outcome.context("starting a cluster"),
            }
        }
    }

    /// The shared cluster of this test binary, started on first use.
    ///
    /// Tests that share it use different names. It ends with the process.
    ///
    /// # Panics
    ///
    /// When it cannot be started, with the reason.
    pub async fn shared() -> &'static Self {
        static SHARED: OnceCell<Cluster> = OnceCell::const_new();
        SHARED.get_or_try_init(Self::start).await.expect("the shared cluster starts")
    }

    async fn start_once(programs: &Programs, address: Ipv4Addr, setup: &Setup) -> anyhow::Result<Self> {
        let directory = cleanup::temporary_directory("hns-e2e-")?;
        let [etcd_port, etcd_peer_port, api_server_port] = ports::free()?;
        let layout = Layout {
            directory: directory.path().to_owned(),
            address,
            etcd_port,
            etcd_peer_port,
            api_server_port,
            setup: setup.clone(),
        };
        let ca_pem = layout.write_files()?;
        let config = kubeconfig::read(&layout.admin_kubeconfig()).await?;

        let spec = |name, program, args| specification(&layout.directory, name, program, args);
        let etcd = Slot::start(spec("etcd", &programs.etcd, layout.etcd()))?;
        let api_server = spec("kube-apiserver", &programs.kube_apiserver, layout.api_server());
        let api_server = Slot::start(api_server)?;
        wait_ready(&config, &[&etcd.get(), &api_server.get()]).await?;

        let controller_manager = layout.controller_manager();
        let controller_manager =
            spec("kube-controller-manager", &programs.kube_controller_manager, controller_manager);
        let controller_manager = Slot::start(controller_manager)?;
        let cluster = Self {
            layout,
            config,
            ca_pem,
            kubectl: programs.kubectl.clone(),
            kubernetes: programs.kubernetes,
            etcd,
            api_server,
            controller_manager,
            directory,
        };
        cluster.wait_for_default_service_account().await?;
        Ok(cluster)
    }

    /// A client of its administrator (group `system:masters`). Call it within the runtime that uses the client: a client must not
    /// outlive the runtime that created it.
    pub fn admin(&self) -> Client {
        client(self.config())
    }

    /// A client that acts as another user, with these groups and `system:authenticated`; RBAC decides as for that user.
    pub fn client_as(&self, user: &str, groups: &[&str]) -> Client {
        let mut config = self.config();
        config.auth_info.impersonate = Some(user.to_owned());
        let groups = groups.iter().map(ToString::to_string).collect();
        config.auth_info.impersonate_groups = Some(groups);
        client(config)
    }

    /// The administrator's client configuration, without a rate limit.
    pub fn config(&self) -> Config {
        self.config.clone()
    }

    /// The administrator's kubeconfig file.
    pub fn kubeconfig(&self) -> PathBuf {
        self.layout.admin_kubeconfig()
    }

    /// kubectl of the same version, as the administrator.
    pub fn kubectl(&self) -> Kubectl {
        let cache = self.dir().join("kubectl-cache");
        Kubectl::new(&self.kubectl, &self.kubeconfig(), &cache)
    }

    /// The program that [`Cluster::kubectl`] runs.
    pub fn kubectl_program(&self) -> &Path {
        &self.kubectl
    }

    /// The pinned version that the API server behaves like.
    pub(crate) fn kubernetes(&self) -> Kubernetes {
        self.kubernetes
    }

    /// The files of the cluster, for a node that joins it.
    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The API server's address, `https://127.0.0.1:PORT` by default.
    pub fn url(&self) -> String {
        self.layout.url()
    }

    /// The certificate (PEM) of the authority of the API server's certificate.
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// The file that holds [`Cluster::ca_pem`].
    pub fn ca_file(&self) -> PathBuf {
        self.layout.pki().join("ca.crt")
    }

    /// The cluster's directory: logs, certificates, data. It is removed with the cluster.
    pub fn dir(&self) -> &Path {
        self.directory.path()
    }

    /// The audit log.
    pub fn audit(&self) -> Audit {
        Audit::new(self.layout.audit_log())
    }

    /// The API server's process.
    pub fn api_server(&self) -> Arc<Process> {
        self.api_server.get()
    }

    /// The process of etcd.
    pub fn etcd(&self) -> Arc<Process> {
        self.etcd.get()
    }

    /// The process of kube-controller-manager.
    pub fn controller_manager(&self) -> Arc<Process> {
        self.controller_manager.get()
    }

    /// Kills the API server if it runs, starts it on the same port, and waits until it is ready.
    pub async fn restart_api_server(&self) -> anyhow::Result<()> {
        let process = self.api_server.replace()?;
        wait_ready(&self.config, &[&process]).await
    }

    /// Kills etcd if it runs, starts it with the same data on the same port, and waits until the API server is ready.
    pub async fn restart_etcd(&self) -> anyhow::Result<()> {
        let process = self.etcd.replace()?;
        wait_ready(&self.config, &[&process]).await
    }

    /// Kills the controller manager if it runs and starts it again. Does not wait for its controllers.
    pub fn restart_controller_manager(&self) -> anyhow::Result<()> {
        self.controller_manager.replace().map(drop)
    }

    async fn wait_for_default_service_account(&self) -> anyhow::Result<()> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.admin(), "default");
        let processes = [self.etcd(), self.api_server(), self.controller_manager()];
        let processes = processes.each_ref().map(AsRef::as_ref);
        poll("the default service account", &processes, async || {
            Ok(accounts.get_metadata_opt("default").await?.is_some())
        })
        .await
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "cluster at {}", self.url())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let processes = [self.controller_manager(), self.api_server(), self.etcd()];
        for process in &processes {
            process.stop();
        }
    }
}

/// This workspace has no default provider for rustls; everything here uses ring.
pub(crate) fn install_crypto_provider() {
    // An error means that one is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

fn client(config: Config) -> Client {
    Client::try_from(config).expect("a configuration that was used before makes a client")
}

pub(crate) fn specification(directory: &Path, name: &str, program: &Path, args: Vec<String>) -> ProcessSpec {
    ProcessSpec {
        name: name.to_owned(),
        program: program.to_owned(),
        args: args.into_iter().map(Into::into).collect(),
        env: Vec::new(),
        directory: directory.to_owned(),
        log: directory.join(format!("{name}.log")),
        // No data of a cluster is kept, so it needs no orderly shutdown.
        grace: Duration::ZERO,
    }
}

async fn wait_ready(config: &Config, processes: &[&Process]) -> anyhow::Result<()> {
    let client = Client::try_from(config.clone())?;
    poll("the API server to be ready", processes, async || {
        let request = http::Request::get("/readyz").body(Vec::new())?;
        Ok(client.request_text(request).await? == "ok")
    })
    .await
}

/// Repeats a check until it succeeds. An error counts as a failure, and is reported at the timeout; the wait ends when a process
/// has ended.
async fn poll(
    what: &str,
    processes: &[&Process],
    ask: impl AsyncFn() -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    let deadline = Instant::now() + START_TIMEOUT;
    loop {
        let last = match tokio::time::timeout_at(deadline.into(), ask()).await {
            Ok(Ok(true)) => return Ok(()),
            Ok(Ok(false)) => "not yet".to_owned(),
            Ok(Err(error)) => format!("{error:#}"),
            Err(_) => "no answer".to_owned(),
        };
        for process in processes {
            if let Some(exit) = process.exit() {
                let name = &process.spec().name;
                bail!("{name} ended ({exit}); its last lines:\n{}", process.log_tail(LOG_LINES));
            }
        }
        if Instant::now() > deadline {
            let logs: Vec<String> = processes.iter().map(|process| summary(process)).collect();
            bail!("waited {START_TIMEOUT:?} for {what}: {last}\n{}", logs.join("\n"));
        }
        tokio::time::sleep(POLL).await;
    }
}

fn summary(process: &Process) -> String {
    let name = &process.spec().name;
    format!("last lines of {name}:\n{}", tail(&process.log(), LOG_LINES))
}
