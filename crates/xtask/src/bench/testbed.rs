//! The testbed of all measures: a cluster with both programs and a plain client. It waits for and counts requests.
//!
//! The product manages only namespaces whose names begin with `tree-`; the plain client writes to others.

use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, bail};
use hns_e2e::{Cluster, CpuLimit, Options, Product, Replica};
use http::Method;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::api::Api;
use super::audit::{Follower, Record};
use super::client::{Call, Client, Sent};
use super::usage::{self, Cpu, Memory};

/// The flag for the managed namespaces.
const INCLUDED: &str = "--included-namespace-regex=tree-.*";

/// The number of connections that fill the cluster.
pub(crate) const FILLING: usize = 32;

/// How long the idle usage of the cluster is measured.
const IDLING: Duration = Duration::from_secs(3);

const POLL: Duration = Duration::from_millis(20);

/// The period without requests after which the work counts as complete.
const CALM: Duration = Duration::from_secs(1);

/// A busy machine may be slow. Measurements are compared, so waiting is no error.
const PATIENCE: Duration = Duration::from_secs(600);

/// The running system.
pub(crate) struct Testbed<'c> {
    cluster: &'c Cluster,
    pub(crate) api: Api,
    pub(crate) client: Client,
    webhook: Replica,
    controller: Replica,
    audit: Follower,
    /// The usage of each process per second when idle.
    idle: Cpu,
}

/// A period of measurement.
pub(crate) struct Window {
    began: SystemTime,
    before: Cpu,
    /// The usage at the product's last request.
    active: Cpu,
    pub(crate) records: Vec<Record>,
}

/// The measurements of a window.
pub(crate) struct Measurement {
    /// Seconds since the window was opened.
    pub(crate) wall: f64,
    began: SystemTime,
    pub(crate) cpu: Cpu,
    pub(crate) webhook: Memory,
    pub(crate) controller: Memory,
    pub(crate) records: Vec<Record>,
}

impl Measurement {
    /// The seconds from the opening of the window to this record.
    pub(crate) fn after(&self, record: &Record) -> f64 {
        Timestamp::try_from(self.began).map_or(0.0, |began| record.seconds_after(began))
    }

    /// Combines two measurements.
    pub(crate) fn combine(mut self, later: Self) -> Self {
        for (name, used) in later.cpu {
            *self.cpu.entry(name).or_default() += used;
        }
        self.records.extend(later.records);
        let [webhook, controller] =
            [self.webhook.combine(later.webhook), self.controller.combine(later.controller)];
        Self { wall: self.wall + later.wall, webhook, controller, ..self }
    }
}

impl Window {
    fn after(&self, record: &Record) -> anyhow::Result<f64> {
        Ok(record.seconds_after(Timestamp::try_from(self.began)?))
    }
}

impl<'c> Testbed<'c> {
    pub(crate) async fn set(cluster: &'c Cluster, api: Api) -> anyhow::Result<Self> {
        let included = vec![INCLUDED.to_owned()];
        let options = Options { webhook_args: included.clone(), controller_args: included, ..api.options()? };
        let product = Product::install(cluster, options).await?;
        let (webhook, controller) = tokio::join!(product.start_webhook(), product.start_controller());
        let client = client(cluster).await?;
        let audit = Follower::new(cluster.audit().path())?;
        let (webhook, controller) = (webhook?, controller?);
        let mut testbed = Self { cluster, api, client, webhook, controller, audit, idle: Cpu::new() };
        testbed.rest().await?;
        let before = testbed.cpu()?;
        tokio::time::sleep(IDLING).await;
        testbed.idle = usage::difference(&before, &testbed.cpu()?);
        testbed.idle.values_mut().for_each(|used| *used /= IDLING.as_secs_f64());
        testbed.idle.remove(usage::OTHERS);
        Ok(testbed)
    }

    fn processes(&self) -> [(&'static str, i32); 5] {
        [
            ("webhook", self.webhook.process().pid()),
            ("controller", self.controller.process().pid()),
            ("API server", self.cluster.api_server().pid()),
            ("etcd", self.cluster.etcd().pid()),
            ("controller manager", self.cluster.controller_manager().pid()),
        ]
    }

    /// Opens a window. Earlier requests do not count.
    pub(crate) fn open(&mut self) -> anyhow::Result<Window> {
        self.audit.read()?;
        for replica in [&self.webhook, &self.controller] {
            usage::forget_peak(replica.process().pid())?;
        }
        let before = usage::cpu(&self.processes())?;
        Ok(Window { began: SystemTime::now(), active: before.clone(), before, records: Vec::new() })
    }

    /// Waits for `needed` records that `counts`; returns the seconds from the opening to the last of them, and the
    /// usage until then.
    pub(crate) async fn until(
        &mut self,
        window: &mut Window,
        needed: usize,
        counts: impl Fn(&Record) -> bool,
    ) -> anyhow::Result<Measurement> {
        let deadline = Instant::now() + PATIENCE;
        let mut found = 0;
        loop {
            let new = self.audit.read()?;
            found += new.iter().filter(|record| counts(record)).count();
            window.records.extend(new);
            if found >= needed {
                break;
            }
            if Instant::now() > deadline {
                bail!("{found} of {needed} within {PATIENCE:?}");
            }
            tokio::time::sleep(POLL).await;
        }
        let last = window.records.iter().filter(|record| counts(record)).nth(needed.saturating_sub(1));
        let wall = window.after(last.context("nothing to wait for")?)?;
        self.seen(window, wall, &usage::cpu(&self.processes())?)
    }

    /// Waits until the product is idle; returns the seconds from the opening to the last record that `counts`, and the
    /// usage until the last request.
    pub(crate) async fn wait_settled(
        &mut self,
        window: &mut Window,
        counts: impl Fn(&Record) -> bool,
    ) -> anyhow::Result<Measurement> {
        self.wait_idle(window).await?;
        let last = window.records.iter().rev().find(|record| counts(record));
        let wall = window.after(last.context("nothing was done")?)?;
        self.seen(window, wall, &window.active)
    }

    /// Waits until the product has sent no request for a while, except for its lease; the records have its requests.
    pub(crate) async fn wait_idle(&mut self, window: &mut Window) -> anyhow::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        let mut last = Instant::now();
        while last.elapsed() < CALM {
            if self.follow(window)? {
                last = Instant::now();
                window.active = usage::cpu(&self.processes())?;
            }
            anyhow::ensure!(Instant::now() < deadline, "the product does not become idle");
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }

    /// Reads new records; returns whether the product sent requests, except for its lease.
    pub(crate) fn follow(&mut self, window: &mut Window) -> anyhow::Result<bool> {
        let new = self.audit.read()?;
        let asked = new.iter().any(|record| record.who != "client" && !record.is_lease());
        window.records.extend(new);
        Ok(asked)
    }

    /// The usage from the opening of the window, `wall` seconds ago, to `after`.
    pub(crate) fn seen(&self, window: &Window, wall: f64, after: &Cpu) -> anyhow::Result<Measurement> {
        Ok(Measurement {
            wall,
            began: window.began,
            cpu: self.busy(&window.before, after, wall),
            webhook: usage::memory(self.webhook.process().pid())?,
            controller: usage::memory(self.controller.process().pid())?,
            records: window.records.clone(),
        })
    }

    /// The usage in `seconds` without the idle usage, which grows with the time that others delay the work.
    fn busy(&self, before: &Cpu, after: &Cpu, seconds: f64) -> Cpu {
        let mut used = usage::difference(before, after);
        for (name, used) in &mut used {
            *used = (*used - self.idle.get(name).copied().unwrap_or_default() * seconds).max(0.0);
        }
        used
    }

    /// The current usage.
    pub(crate) fn cpu(&self) -> anyhow::Result<Cpu> {
        usage::cpu(&self.processes())
    }

    /// Waits until the cluster is idle, then sends requests as the plain client and measures them; connections are opened before.
    pub(crate) async fn raw(&mut self, calls: Vec<Call>, parallel: usize) -> anyhow::Result<(Sent, Cpu)> {
        self.rest().await?;
        let (processes, (tell, told)) = (self.processes(), mpsc::channel());
        let connected = move || drop(tell.send(usage::cpu(&processes)));
        let sent = self.client.send_once_connected(calls, parallel, connected).await?;
        let after = usage::cpu(&self.processes())?;
        let before = told.recv().context("nothing was connected")??;
        self.audit.read()?;
        let mut cpu = self.busy(&before, &after, sent.wall.as_secs_f64());
        cpu.insert(usage::CLIENT, sent.cpu.as_secs_f64());
        Ok((sent, cpu))
    }

    /// Creates namespaces and waits until the control plane has set them up.
    pub(crate) async fn create_namespaces(&mut self, names: &[String]) -> anyhow::Result<()> {
        self.client.send(names.iter().map(|name| create_namespace(name)).collect(), FILLING).await?;
        self.rest().await
    }

    /// Sets the first parents of namespaces, `(child, parent)`, and waits until the product is idle.
    pub(crate) async fn set_parents(
        &mut self,
        edges: impl Iterator<Item = (&str, &str)>,
    ) -> anyhow::Result<()> {
        let mut window = self.open()?;
        let edges = edges.map(|(child, parent)| self.api.create_edge(child, parent));
        self.client.send(edges.collect(), FILLING).await?;
        self.wait_idle(&mut window).await
    }

    /// Adds a kind of the core group to the configuration.
    pub(crate) async fn propagate(&self, resource: &str) -> anyhow::Result<()> {
        propagate(self.cluster, resource).await
    }

    /// Waits until the control plane and the product are idle.
    pub(crate) async fn rest(&mut self) -> anyhow::Result<()> {
        rest(&self.processes()).await?;
        self.audit.read().map(drop)
    }

    /// The metadata of all objects at a path.
    pub(crate) async fn list(&self, path: &str) -> anyhow::Result<Vec<Value>> {
        let body = self.client.ask(Call::new(Method::GET, path, "")).await?;
        let mut list: Value = serde_json::from_slice(&body)?;
        match list["items"].take() {
            Value::Array(items) => Ok(items),
            Value::Null => Ok(Vec::new()),
            other => bail!("no list at {path}: {other}"),
        }
    }

    /// Restarts both programs in a new window; does not wait for them.
    pub(crate) fn restart(&mut self) -> anyhow::Result<(Window, Instant)> {
        self.webhook.process().stop();
        self.controller.process().stop();
        let (began, clock) = (SystemTime::now(), Instant::now());
        self.webhook.relaunch()?;
        self.controller.relaunch()?;
        let mut window = self.open()?;
        window.began = began;
        Ok((window, clock))
    }

    /// Restarts the webhook with a limit.
    pub(crate) fn restart_webhook(&mut self, limit: &CpuLimit) -> anyhow::Result<()> {
        self.webhook.relaunch()?;
        limit.hold(self.webhook.process().pid())
    }

    /// The number of reviews that the webhook has answered.
    pub(crate) async fn reviews(&self) -> anyhow::Result<f64> {
        reviews(&self.webhook).await
    }

    pub(crate) async fn is_ready(&self) -> bool {
        let (webhook, controller) = tokio::join!(self.webhook.is_ready(), self.controller.is_ready());
        webhook.unwrap_or_default() && controller.unwrap_or_default()
    }
}

/// Waits until these processes are idle.
pub(crate) async fn rest(processes: &[(&'static str, i32)]) -> anyhow::Result<()> {
    const WINDOW: Duration = Duration::from_millis(500);
    /// A share of one processor; an idle cluster uses less than half of it.
    const IDLE: f64 = 0.12;
    let deadline = Instant::now() + PATIENCE;
    let mut before = usage::cpu(processes)?;
    loop {
        tokio::time::sleep(WINDOW).await;
        let after = usage::cpu(processes)?;
        let mut used = usage::difference(&before, &after);
        used.remove(usage::OTHERS);
        if used.values().sum::<f64>() < IDLE * WINDOW.as_secs_f64() {
            return Ok(());
        }
        anyhow::ensure!(Instant::now() < deadline, "the cluster does not become idle: {used:?}");
        before = after;
    }
}

/// The number of reviews that a webhook has answered.
pub(crate) async fn reviews(webhook: &Replica) -> anyhow::Result<f64> {
    let figures = webhook.metrics().await?;
    let counts =
        figures.lines().filter(|line| line.starts_with("hns_admission_review_duration_seconds_count"));
    let counts = counts.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    Ok(counts.sum())
}

/// Adds a kind of the core group to the configuration.
pub(crate) async fn propagate(cluster: &Cluster, resource: &str) -> anyhow::Result<()> {
    let configuration = json!({
        "apiVersion": "hnc.x-k8s.io/v1alpha2",
        "kind": "HNCConfiguration",
        "metadata": { "name": "config" },
        "spec": { "resources": [{ "resource": resource, "mode": "Propagate" }] },
    });
    let apply = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
    cluster.kubectl().args(apply).stdin(configuration.to_string()).ok().await.map(drop)
}

/// The creation of a namespace.
pub(crate) fn create_namespace(name: &str) -> Call {
    Call::new(Method::POST, "/api/v1/namespaces", namespace(name).to_string())
}

/// A namespace without anything.
pub(crate) fn namespace(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } })
}

/// The first parent of a namespace.
pub(crate) fn create_edge(child: &str, parent: &str) -> Call {
    let body = json!({
        "apiVersion": "hnc.x-k8s.io/v1alpha2",
        "kind": "HierarchyConfiguration",
        "metadata": { "name": "hierarchy" },
        "spec": { "parent": parent },
    });
    let path = format!("/apis/hnc.x-k8s.io/v1alpha2/namespaces/{child}/hierarchyconfigurations");
    Call::new(Method::POST, path, body.to_string())
}

/// A client with all rights, as a service account, so that it is authorized in the same way as the product.
pub(crate) async fn client(cluster: &Cluster) -> anyhow::Result<Client> {
    let kubectl = |words: &str| {
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        cluster.kubectl().args(words)
    };
    kubectl("create serviceaccount bench -n kube-system").ok().await?;
    kubectl("create clusterrolebinding bench --clusterrole=cluster-admin --serviceaccount=kube-system:bench")
        .ok()
        .await?;
    let token = kubectl("create token bench -n kube-system --duration=24h").ok().await?;
    Client::new(&cluster.url(), cluster.ca_pem(), &token)
}
