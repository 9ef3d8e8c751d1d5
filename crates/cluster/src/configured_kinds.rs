//! Which kinds are configured, followed for as long as the process lives: the `HNCConfiguration` named `config`, what the API
//! server serves, and what comes of both, which is told to the forest and starts and ends streams.
//!
//! Both binaries do the same. What was resolved stands until something better is known: while the API server does not say what
//! it serves, or cannot say it of some groups, nothing is taken for gone. Where the configuration may not be read and never was,
//! roles and role bindings are propagated all the same. Resolves nothing itself ([`forest::configuration`]).

mod discovery;
mod entries;
mod schedule;
#[cfg(test)]
mod tests;
mod watch;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use forest::configuration::{Fault, Resolution, Served, resolve};
use forest::{Fact, Stream};
use hns_api::HNCConfiguration;
use kube::core::DynamicObject;
use kube::{Client, CustomResourceExt};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::watch::{Receiver, Sender, channel};
use tokio::time::{Instant, sleep_until, timeout};

pub use self::discovery::discover;
pub use self::entries::{entries, entries_of};
use self::schedule::{Outcome, Schedule};
use self::watch::Event;
use crate::feed::{Detail, ObjectFeeds};
use crate::handle::{ForestHandle, ForestWriter};
use crate::metrics::StreamMetrics;
use crate::readiness::{Condition, Readiness};

/// So long no definition may change before what has happened is acted upon.
const QUIET: Duration = Duration::from_millis(30);

/// So many things are acted upon at once, however fast they come.
const MOST: usize = 1_000;

/// So long definitions are waited for at the start: without them it is only known later when a kind comes or goes.
const DEFINITIONS: Duration = Duration::from_secs(5);

/// So often discovery may fail before roles and role bindings are propagated without knowing about the rest.
const FAILURES: u32 = 5;

/// The configuration as the process sees it.
#[derive(Debug, Clone, Default)]
pub struct Configuration {
    /// Whether it is known what is in the cluster: the object, or that there is none.
    pub is_known: bool,
    /// The object named `config`, as seen last.
    pub object: Option<Arc<DynamicObject>>,
    /// What comes of it; `None` before anything was resolved.
    pub resolution: Option<Arc<Resolution>>,
    /// What the API server serves, as known last.
    pub served: Option<Arc<Served>>,
    /// The uids of all definitions that are there to stay, by name; `None` when that is not known.
    pub definitions: Option<Arc<BTreeMap<String, String>>>,
    /// What keeps it from being up to date.
    pub trouble: Option<String>,
}

impl Configuration {
    /// What the API server serves by this new answer, and by what was known before of groups that are unavailable or whose
    /// definitions are there.
    pub fn completed(&self, served: Served) -> Served {
        let is_defined =
            |name: &str| self.definitions.as_ref().is_some_and(|definitions| definitions.contains_key(name));
        match &self.served {
            Some(before) => served.keeping(before, &is_defined),
            None => served,
        }
    }

    /// Whether the definition of the configuration itself is there to stay, as far as is known.
    pub fn may_exist(&self) -> bool {
        self.definitions.as_ref().is_some_and(|it| it.contains_key(HNCConfiguration::crd_name()))
    }

    /// What would come of the configuration if this were the object; `None` before it is known what the API server serves.
    pub fn resolution_of(&self, object: Option<&DynamicObject>) -> Option<Resolution> {
        self.served.as_deref().map(|served| resolved(object, served))
    }

    fn resolve(&self, served: &Served) -> Resolution {
        resolved(self.object.as_deref(), served)
    }
}

fn resolved(object: Option<&DynamicObject>, served: &Served) -> Resolution {
    resolve(&object.map(entries).unwrap_or_default(), served)
}

/// Follows the configuration from now on, and has the objects of the configured kinds watched. What is received is the
/// configuration whenever it or what comes of it changes.
///
/// The process counts as ready only after it has been known for the first time which kinds are configured.
pub fn start(
    client: &Client,
    (writer, forest): (&ForestWriter, &ForestHandle),
    detail: Detail,
    metrics: &StreamMetrics,
    readiness: &Readiness,
) -> Receiver<Configuration> {
    let (sender, receiver) = channel(Configuration::default());
    let (events, heard) = unbounded_channel();
    let mut watches = watch::start(client, metrics, &events);
    watches.detach_all();
    let follower = Follower {
        client: client.clone(),
        writer: writer.clone(),
        feeds: ObjectFeeds::new(client.clone(), (writer.clone(), forest.clone()), detail, metrics.clone()),
        state: Configuration::default(),
        definitions_are_known: false,
        schedule: Schedule::default(),
        failures: 0,
        refused: None,
        undiscovered: None,
        configured: readiness
            .condition("hncconfigurations", "it is not known yet which kinds are configured"),
        shown: None,
        readiness: readiness.clone(),
        sender,
    };
    tokio::spawn(follower.follow(heard));
    receiver
}

struct Follower {
    client: Client,
    writer: ForestWriter,
    feeds: ObjectFeeds,
    state: Configuration,
    /// Or it is known that they cannot be.
    definitions_are_known: bool,
    schedule: Schedule,
    failures: u32,
    /// Why the configuration cannot be read, and why it cannot be said what is served.
    refused: Option<String>,
    undiscovered: Option<String>,
    configured: Condition,
    shown: Option<Condition>,
    readiness: Readiness,
    sender: Sender<Configuration>,
}

impl Follower {
    async fn follow(mut self, mut heard: UnboundedReceiver<Event>) {
        let patience = Instant::now() + DEFINITIONS;
        loop {
            let due = self.schedule.next().filter(|_| self.is_informed());
            tokio::select! {
                event = heard.recv() => match event {
                    Some(event) => self.hear_all(event, &mut heard).await,
                    None => return,
                },
                () = sleep_until(due.unwrap_or(patience)), if due.is_some() => {}
                () = sleep_until(patience), if !self.definitions_are_known => self.definitions_are_known = true,
            }
            if self.is_informed() {
                self.act().await;
            }
            self.show();
        }
    }

    /// Whether both watches have said something.
    fn is_informed(&self) -> bool {
        (self.state.is_known || self.refused.is_some()) && self.definitions_are_known
    }

    /// Changes of definitions come in bursts. What the configuration says is acted upon at once: until then objects that users
    /// change are treated as it said before.
    async fn hear_all(&mut self, first: Event, heard: &mut UnboundedReceiver<Event>) {
        let quiet = |event: &Event| match event {
            Event::Configuration(_) => Duration::ZERO,
            _ => QUIET,
        };
        let mut wait = quiet(&first);
        self.hear(first);
        for _ in 0..MOST {
            match timeout(wait, heard.recv()).await {
                Ok(Some(event)) => {
                    wait = wait.min(quiet(&event));
                    self.hear(event);
                }
                Ok(None) | Err(_) => return,
            }
        }
    }

    fn hear(&mut self, event: Event) {
        let now = Instant::now();
        match event {
            Event::Configuration(object) => {
                let spec = |object: Option<&Arc<DynamicObject>>| object.map(|it| it.data["spec"].clone());
                let is_new =
                    !self.state.is_known || spec(object.as_ref()) != spec(self.state.object.as_ref());
                (self.state.is_known, self.state.object, self.refused) = (true, object, None);
                // Nor is what is written in its status a reason to ask for anything.
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
                        "the HNCConfiguration cannot be read; what is known of it stands"
                    );
                    self.schedule.configuration_changed(now);
                }
                self.refused = Some(why);
            }
            Event::Definitions(all) => self.redefine(now, |definitions| *definitions = all),
            Event::Definition(name, uid) => self.redefine(now, |definitions| {
                definitions.insert(name, uid);
            }),
            Event::DefinitionGone(name) => self.redefine(now, |definitions| {
                definitions.remove(&name);
            }),
            Event::DefinitionsRefused => {
                self.definitions_are_known = true;
                self.state.definitions = None;
            }
        }
    }

    fn redefine(&mut self, now: Instant, change: impl FnOnce(&mut BTreeMap<String, String>)) {
        let mut definitions = self.state.definitions.as_deref().cloned().unwrap_or_default();
        change(&mut definitions);
        self.state.definitions = Some(Arc::new(definitions));
        self.definitions_are_known = true;
        self.schedule.definition_changed(now);
    }

    /// What was known before is enough for an entry that is found in it; a new one may need a new answer.
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
        let outcome = match discover(&self.client).await {
            Ok(served) => {
                (self.failures, self.undiscovered) = (0, None);
                self.learn(served).await
            }
            Err(why) => {
                tracing::warn!(why, "it cannot be known what the API server serves; trying again");
                self.failures += 1;
                self.undiscovered = Some(why);
                if self.failures >= FAILURES && !self.feeds.is_configured() {
                    self.put_in_force(Resolution::enforced()).await;
                }
                Outcome::Incomplete
            }
        };
        self.schedule.asked(outcome, Instant::now());
    }

    async fn learn(&mut self, served: Served) -> Outcome {
        let served = self.state.completed(served);
        let resolution = self.state.resolve(&served);
        let is_open = |fault| matches!(fault, Fault::NotFound | Fault::Unavailable);
        let complete = !resolution.findings.iter().any(|finding| is_open(finding.fault))
            && !resolution.settings().any(|kind| served.unavailable.contains(&kind.kind.group));
        self.state.served = Some(Arc::new(served));
        if self.state.is_known {
            self.put_in_force(resolution).await;
        }
        if complete { Outcome::Complete } else { Outcome::Incomplete }
    }

    async fn put_in_force(&mut self, resolution: Resolution) {
        if let Some(why) = self.refused.as_ref().filter(|_| !self.feeds.is_configured()) {
            self.writer.tell([Fact::StreamLost(Stream::Configuration, why.as_str().into())]);
        }
        if self.state.resolution.as_deref() != Some(&resolution) {
            for finding in &resolution.findings {
                tracing::warn!(%finding, "an entry of the configuration is not in force");
            }
        }
        let definitions = self.state.definitions.clone().unwrap_or_default();
        let uid = |kind: &forest::Kind| definitions.get(&kind.group_resource()).cloned();
        self.feeds.follow(resolution.settings(), uid).await;
        self.configured.ready();
        self.state.resolution = Some(Arc::new(resolution));
    }

    /// Says how things are: to who listens, and to who asks whether the process is ready.
    fn show(&mut self) {
        let until_then = if self.state.is_known {
            "the configuration read last stands"
        } else {
            "only roles and rolebindings are propagated"
        };
        let refused = self.refused.as_ref().map(|why| format!("it cannot be read: {why}; {until_then}"));
        let undiscovered = self
            .undiscovered
            .as_ref()
            .map(|why| format!("it cannot be known what the API server serves: {why}"));
        let trouble = refused.or(undiscovered);
        match (&trouble, self.shown.take()) {
            (None, Some(shown)) => shown.withdraw(),
            (None, None) => {}
            (Some(why), shown) => {
                let shown = shown.unwrap_or_else(|| self.readiness.information("configuration", ""));
                shown.not_ready(why);
                self.shown = Some(shown);
            }
        }
        self.state.trouble = trouble;
        self.sender.send_replace(self.state.clone());
    }
}
