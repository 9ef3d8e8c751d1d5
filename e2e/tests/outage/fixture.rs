//! One cluster and one installation for the tests of the suite, which take turns: what one breaks affects all.

use std::time::Duration;

use anyhow::{Result, ensure};
use hns_api::names::SETTINGS_CONFIG_MAP;
use hns_e2e::product::{CONTROLLER_USER, WEBHOOK_USER};
use hns_e2e::steps::PATIENCE;
use hns_e2e::{
    AuditEvent, Cluster, Component, Launch, Mark, Options, Product, Proxy, Replica, Steps, eventually,
};
use kube::Client;
use tokio::sync::{Mutex, MutexGuard, OnceCell};

/// The time for recovery when the cause is removed: the longest pause between two attempts, plus what a busy machine needs.
pub(super) const SECONDS: Duration = Duration::from_secs(5);

/// No kubelet restarts a controller here that ends because the API server was unavailable for longer than the lease.
const PATIENT_LEADER: [&str; 2] = ["--leader-elect-lease-duration=30s", "--leader-elect-renew-deadline=25s"];

/// Exclusive access to the installation.
pub(super) struct Turn {
    pub(super) product: &'static Product<'static>,
    pub(super) steps: Steps,
    began: Mark,
    _guard: MutexGuard<'static, ()>,
}

/// One replica of each, and what stands between them and the API server.
pub(super) struct Both {
    pub(super) webhook: Replica,
    pub(super) controller: Replica,
    pub(super) proxies: [Proxy; 2],
}

/// Waits for the turn of one test; it ends when the value is dropped. Nothing runs at its beginning.
pub(super) async fn turn() -> Turn {
    static TURN: Mutex<()> = Mutex::const_new(());
    static INSTALLED: OnceCell<Product<'static>> = OnceCell::const_new();
    let guard = TURN.lock().await;
    let product = INSTALLED
        .get_or_init(async || Product::install(Cluster::shared().await, Options::default()).await.unwrap())
        .await;
    let began = product.cluster().audit().mark().unwrap();
    let mut config = product.cluster().config();
    // A refusal for now (503) is what the tests want to see, not what becomes of it.
    config.default_retry = false;
    let client = Client::try_from(config).unwrap();
    Turn { product, steps: Steps::of(client), began, _guard: guard }
}

impl Turn {
    pub(super) fn cluster(&self) -> &'static Cluster {
        self.product.cluster()
    }

    /// Starts both without waiting for anything.
    pub(super) async fn launch(&self) -> Result<Both> {
        self.launch_with(&[]).await
    }

    async fn launch_with(&self, flags: &[&str]) -> Result<Both> {
        let proxies = [Proxy::start(self.cluster())?, Proxy::start(self.cluster())?];
        let behind = |proxy: &Proxy| Launch { server: Some(proxy.url()), ..Launch::default() };
        let webhook = self.product.launch(Component::Webhook, behind(&proxies[0])).await?;
        let args = PATIENT_LEADER.iter().chain(flags).map(|&flag| flag.to_owned()).collect();
        let controller = Launch { args, ..behind(&proxies[1]) };
        let controller = self.product.launch(Component::Controller, controller).await?;
        Ok(Both { webhook, controller, proxies })
    }

    /// Starts both and waits until they are ready.
    pub(super) async fn start(&self) -> Result<Both> {
        self.start_with(&[]).await
    }

    /// The same; the controller leaves the registrations to the test.
    pub(super) async fn start_without_registrations(&self) -> Result<Both> {
        self.start_with(&["--manage-registrations=false"]).await
    }

    async fn start_with(&self, flags: &[&str]) -> Result<Both> {
        let both = self.launch_with(flags).await?;
        for replica in both.replicas() {
            replica.wait_ready().await?;
        }
        Ok(both)
    }

    /// Since the turn began, the webhook has written nothing but access reviews, and what settings it runs with. Returns how
    /// many of the former.
    pub(super) fn webhook_only_asked(&self) -> Result<usize> {
        let events = self.cluster().audit().since(self.began)?;
        let says = |event: &AuditEvent| event.resource == "configmaps" && event.name == SETTINGS_CONFIG_MAP;
        let (asked, written): (Vec<_>, Vec<_>) = events
            .into_iter()
            .filter(|event| event.user == WEBHOOK_USER && !says(event))
            .partition(|event| event.resource == "subjectaccessreviews" && event.verb == "create");
        ensure!(written.is_empty(), "the webhook wrote: {written:?}");
        Ok(asked.len())
    }

    /// How often the controller has written these objects of a namespace since the turn began.
    pub(super) fn written_by_the_controller(&self, resource: &str, namespace: &str) -> Result<usize> {
        let events = self.cluster().audit().mutating_by(CONTROLLER_USER, self.began)?;
        let of_these = |event: &&AuditEvent| event.resource == resource && event.namespace == namespace;
        Ok(events.iter().filter(of_these).count())
    }
}

impl Both {
    pub(super) fn replicas(&self) -> [&Replica; 2] {
        [&self.webhook, &self.controller]
    }

    /// Waits until `/readyz` of both says so and has this line, or rather a line that begins like this; gives those lines.
    pub(super) async fn shows(&self, ready: bool, line: &str) -> Result<Vec<String>> {
        let mut lines = Vec::new();
        for replica in self.replicas() {
            let what = format!(
                "{} is {} with {line:?}",
                replica.pod_name(),
                if ready { "ready" } else { "unready" }
            );
            let found = eventually(&what, PATIENCE, async || {
                let (is_ready, text) = replica.readiness().await.map_err(|error| format!("{error:#}"))?;
                let found = text.lines().find(|shown| shown.starts_with(line));
                match found {
                    Some(found) if is_ready == ready => Ok(found.to_owned()),
                    _ => Err(text),
                }
            })
            .await?;
            lines.push(format!("{}: {found}", replica.pod_name()));
        }
        Ok(lines)
    }

    /// Neither has ended or panicked.
    pub(super) fn unharmed(&self) -> Result<()> {
        for replica in self.replicas() {
            ensure!(replica.process().exit().is_none(), "{} ended:\n{}", replica.pod_name(), replica.log());
            ensure!(!replica.log().contains("panic"), "{} panicked:\n{}", replica.pod_name(), replica.log());
        }
        Ok(())
    }
}
