//! The configured kinds, followed while the process runs: combines the `HNCConfiguration` named `config` with the
//! resources that the API server serves, sends the result to the forest, and starts and stops streams.
//!
//! Both programs use this. A resolved configuration stays in force until there is a newer one: if discovery fails,
//! wholly or for some groups, no kind is dropped. If the configuration cannot be read and was never read, roles and
//! role bindings are propagated. [`forest::configuration`] resolves the entries.

mod discovery;
mod entries;
mod schedule;
#[cfg(test)]
mod tests;
mod watch;
mod watched;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use forest::configuration::{Fault, Resolution, Served, resolve};
use forest::{Fact, Stream, accurate, hnc};
use hns_api::HNCConfiguration;
use hns_api::accurate::SubNamespace;
use kube::core::DynamicObject;
use kube::core::discovery::v2::APIGroupDiscovery;
use kube::{Client, CustomResourceExt};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::watch::{Receiver, Sender, channel};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

pub use self::discovery::{discover, discover_groups};
pub use self::entries::{entries, entries_of, trees_of};
use self::schedule::{Outcome, Schedule};
use self::watch::Event;
use self::watched::WatchedKinds;
use crate::feed::{Detail, ObjectFeeds};
use crate::handle::{ForestHandle, ForestWriter};
use crate::metrics::StreamMetrics;
use crate::readiness::{Condition, Readiness};

/// Changes of CRDs are collected until there was none for this long.
const QUIET: Duration = Duration::from_millis(30);

/// The largest number of events that are handled together.
const MAX_EVENTS: usize = 1_000;

/// The longest time that the first list of CRDs may take. Without CRDs, a kind that appears or disappears
/// is detected later.
const CRDS_TIMEOUT: Duration = Duration::from_secs(5);

/// After this many failures of discovery, roles and role bindings are propagated without the other kinds.
const FAILURES: u32 = 5;

/// The observed configuration.
#[derive(Debug, Clone, Default)]
pub struct Configuration {
    /// Whether the object, or its absence, was observed.
    pub is_known: bool,
    /// The last observed object named `config`.
    pub object: Option<Arc<DynamicObject>>,
    /// The resolved configuration; `None` before the first resolution.
    pub resolution: Option<Arc<Resolution>>,
    /// The last known resources of the API server.
    pub served: Option<Arc<Served>>,
    /// The uids of all CRDs that are not being deleted, by name; `None` if they are unknown.
    pub crds: Option<Arc<BTreeMap<String, String>>>,
    /// Why the configuration may be out of date.
    pub trouble: Option<String>,
}

impl Configuration {
    /// Completes this answer with earlier knowledge about groups that are unavailable or whose CRDs exist.
    pub fn completed(&self, served: Served) -> Served {
        let is_defined = |name: &str| self.crds.as_ref().is_some_and(|crds| crds.contains_key(name));
        match &self.served {
            Some(before) => served.keeping(before, &is_defined),
            None => served,
        }
    }

    /// Whether the CRD of `HNCConfiguration` exists and is not being deleted, as far as is known.
    pub fn may_exist(&self) -> bool {
        self.crds.as_ref().is_some_and(|it| it.contains_key(HNCConfiguration::crd_name()))
    }

    /// The resolution of the given object; `None` before the resources of the API server are known.
    pub fn resolution_of(&self, object: Option<&DynamicObject>) -> Option<Resolution> {
        self.served.as_deref().map(|served| resolved(object, served))
    }

    fn resolve(&self, served: &Served) -> Resolution {
        resolved(self.object.as_deref(), served)
    }
}

fn resolved(object: Option<&DynamicObject>, served: &Served) -> Resolution {
    let spec = object.and_then(|it| it.data.get("spec"));
    resolve(&entries_of(spec), served).with_trees(&trees_of(spec))
}

/// Follows the configuration and watches the objects of the configured kinds, until `tasks` end. The receiver gets the
/// configuration whenever the object or its resolution changes.
///
/// The process is ready only after the configured kinds were resolved for the first time.
pub fn start(
    client: &Client,
    (writer, forest): (&ForestWriter, &ForestHandle),
    detail: Detail,
    metrics: &StreamMetrics,
    readiness: &Readiness,
    tasks: &mut JoinSet<()>,
) -> Receiver<Configuration> {
    let (sender, receiver) = channel(Configuration::default());
    let (events, incoming) = unbounded_channel();
    let watches = watch::start(client, metrics, &events);
    let follower = Follower {
        client: client.clone(),
        writer: writer.clone(),
        watched: forest.read(|it| WatchedKinds::new(it.accurate_settings().map(|it| &**it))),
        feeds: ObjectFeeds::new(client.clone(), (writer.clone(), forest.clone()), detail, metrics.clone()),
        state: Configuration::default(),
        crds_are_known: false,
        schedule: Schedule::default(),
        failures: 0,
        refused: None,
        undiscovered: None,
        configured: readiness.condition("hncconfigurations", "the configured kinds are not known yet"),
        shown: None,
        shown_watched: None,
        readiness: readiness.clone(),
        sender,
        _watches: watches,
    };
    tasks.spawn(follower.follow(incoming));
    receiver
}

struct Follower {
    client: Client,
    writer: ForestWriter,
    feeds: ObjectFeeds,
    watched: WatchedKinds,
    state: Configuration,
    /// Also true if CRDs cannot be listed.
    crds_are_known: bool,
    schedule: Schedule,
    failures: u32,
    /// Why the configuration cannot be read, and why discovery failed.
    refused: Option<String>,
    undiscovered: Option<String>,
    configured: Condition,
    shown: Option<Condition>,
    shown_watched: Option<Condition>,
    readiness: Readiness,
    sender: Sender<Configuration>,
    /// They end with it.
    _watches: JoinSet<()>,
}

impl Follower {
    async fn follow(mut self, mut incoming: UnboundedReceiver<Event>) {
        let deadline = Instant::now() + CRDS_TIMEOUT;
        loop {
            let due = self.schedule.next().filter(|_| self.is_informed());
            tokio::select! {
                event = incoming.recv() => match event {
                    Some(event) => self.receive_all(event, &mut incoming).await,
                    None => return,
                },
                () = sleep_until(due.unwrap_or(deadline)), if due.is_some() => {}
                () = sleep_until(deadline), if !self.crds_are_known => self.crds_are_known = true,
            }
            if self.is_informed() {
                self.act().await;
            }
            self.show();
        }
    }

    /// Whether both watches have delivered their first result.
    fn is_informed(&self) -> bool {
        (self.state.is_known || self.refused.is_some()) && self.crds_are_known
    }

    /// Changes of CRDs come in bursts and are collected. A change of the configuration is handled at once,
    /// because until then users' objects are treated by the old configuration.
    async fn receive_all(&mut self, first: Event, incoming: &mut UnboundedReceiver<Event>) {
        let quiet = |event: &Event| match event {
            Event::Configuration(_) => Duration::ZERO,
            _ => QUIET,
        };
        let mut wait = quiet(&first);
        self.receive(first);
        for _ in 0..MAX_EVENTS {
            match timeout(wait, incoming.recv()).await {
                Ok(Some(event)) => {
                    wait = wait.min(quiet(&event));
                    self.receive(event);
                }
                Ok(None) | Err(_) => return,
            }
        }
    }

    fn receive(&mut self, event: Event) {
        let now = Instant::now();
        match event {
            Event::Configuration(object) => {
                let spec = |object: Option<&Arc<DynamicObject>>| object.map(|it| it.data["spec"].clone());
                let is_new =
                    !self.state.is_known || spec(object.as_ref()) != spec(self.state.object.as_ref());
                (self.state.is_known, self.state.object, self.refused) = (true, object, None);
                // A change of the status needs no new discovery.
                if is_new {
                    self.schedule.configuration_changed(now);
                }
            }
            Event::ConfigurationRefused(why) => {
                if self.refused.is_none() {
                    let known = self.state.is_known;
                    tracing::warn!(
                        why,
                        known,
                        "the HNCConfiguration cannot be read; the last one that was read stays in force"
                    );
                    self.schedule.configuration_changed(now);
                }
                self.refused = Some(why);
            }
            Event::Crds(all) => self.update_crds(now, |crds| *crds = all),
            Event::Crd(name, uid) => self.update_crds(now, |crds| {
                crds.insert(name, uid);
            }),
            Event::CrdGone(name) => self.update_crds(now, |crds| {
                crds.remove(&name);
            }),
            Event::CrdsRefused => {
                self.crds_are_known = true;
                self.state.crds = None;
            }
        }
    }

    fn update_crds(&mut self, now: Instant, change: impl FnOnce(&mut BTreeMap<String, String>)) {
        let mut crds = self.state.crds.as_deref().cloned().unwrap_or_default();
        change(&mut crds);
        let is_gone = !crds.contains_key(SubNamespace::crd_name());
        self.writer.tell([accurate::Fact::CrdIsBeingDeleted(is_gone).into()]);
        self.state.crds = Some(Arc::new(crds));
        self.crds_are_known = true;
        self.schedule.crd_changed(now);
    }

    /// Earlier discovery suffices for entries that it resolves; a new entry may need a new discovery.
    async fn act(&mut self) {
        if let Some(served) = self.state.served.clone() {
            let resolution = self.state.resolve(&served);
            if resolution.findings.iter().all(|finding| finding.fault != Fault::NotFound) {
                self.put_in_force(resolution).await;
            }
        }
        if self.schedule.is_due(Instant::now()) {
            self.discover().await;
        }
        if self.refused.is_some() && !self.feeds.is_configured() {
            self.put_in_force(Resolution::enforced()).await;
        }
    }

    async fn discover(&mut self) {
        let outcome = match discover_groups(&self.client).await {
            Ok(groups) => {
                (self.failures, self.undiscovered) = (0, None);
                self.resolve_discovered(groups).await
            }
            Err(why) => {
                tracing::warn!(why, "discovery failed; will retry");
                self.failures += 1;
                self.undiscovered = Some(why);
                if self.failures >= FAILURES && !self.feeds.is_configured() {
                    self.put_in_force(Resolution::enforced()).await;
                }
                Outcome::Incomplete
            }
        };
        self.schedule.completed(outcome, Instant::now());
    }

    async fn resolve_discovered(&mut self, groups: Vec<APIGroupDiscovery>) -> Outcome {
        let found_all = {
            let unavailable = discovery::served(groups.clone()).unavailable;
            let crds = self.state.crds.clone().unwrap_or_default();
            self.watched.discovered(&groups, |kind| {
                unavailable.contains(&kind.group) || crds.contains_key(&kind.group_resource())
            })
        };
        let served = self.state.completed(discovery::served(groups));
        let resolution = self.state.resolve(&served);
        let is_open = |fault| matches!(fault, Fault::NotFound | Fault::Unavailable);
        let complete = found_all
            && !resolution.findings.iter().any(|finding| is_open(finding.fault))
            && !resolution.settings().any(|kind| served.unavailable.contains(&kind.kind.group));
        self.state.served = Some(Arc::new(served));
        if self.state.is_known {
            self.put_in_force(resolution).await;
        }
        if complete { Outcome::Complete } else { Outcome::Incomplete }
    }

    async fn put_in_force(&mut self, resolution: Resolution) {
        if let Some(why) = self.refused.as_ref().filter(|_| !self.feeds.is_configured()) {
            self.writer.tell([Fact::StreamLost(Stream::CONFIGURATION, why.as_str().into())]);
        }
        if self.state.resolution.as_deref() != Some(&resolution) {
            for finding in &resolution.findings {
                tracing::warn!(%finding, "an entry of the configuration is ignored");
            }
        }
        let crds = self.state.crds.clone().unwrap_or_default();
        let uid = |kind: &forest::Kind| crds.get(&kind.group_resource()).cloned();
        self.writer.tell([hnc::Fact::TreeLimits(resolution.limits.clone()).into()]);
        self.feeds.follow(self.watched.with(resolution.settings()), uid).await;
        self.configured.ready();
        self.state.resolution = Some(Arc::new(resolution));
    }

    /// Publishes the configuration, and reports its state in the readiness.
    fn show(&mut self) {
        let until_then = if self.state.is_known {
            "the last configuration that was read stays in force"
        } else {
            "only roles and rolebindings are propagated"
        };
        let refused = self.refused.as_ref().map(|why| format!("it cannot be read: {why}; {until_then}"));
        let undiscovered = self.undiscovered.as_ref().map(|why| format!("discovery failed: {why}"));
        let trouble = refused.or(undiscovered);
        let show = |name: &str, trouble: Option<&String>, shown: Option<Condition>| match (trouble, shown) {
            (None, shown) => {
                shown.into_iter().for_each(Condition::withdraw);
                None
            }
            (Some(why), shown) => {
                let shown = shown.unwrap_or_else(|| self.readiness.information(name, ""));
                shown.not_ready(why);
                Some(shown)
            }
        };
        self.shown = show("configuration", trouble.as_ref(), self.shown.take());
        let missing = self.watched.trouble();
        self.shown_watched = show("accurate.config.watches", missing.as_ref(), self.shown_watched.take());
        self.state.trouble = trouble;
        self.sender.send_replace(self.state.clone());
    }
}
