//! Following the settings in force. If a program cannot parse new settings, the last ones that it could parse stay in force.

use std::sync::Arc;

use forest::Forest;
use hns_api::names::SETTINGS_CONFIG_MAP;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::runtime::watcher::{Config, watcher};
use prometheus::{IntGauge, Registry};
use tokio::sync::watch::{Receiver, Sender, channel};

use super::{Data, SharedSettings, in_force, refused};
use crate::api::Api;
use crate::feed::stream::{WatchEvent, watch};
use crate::metrics::StreamMetrics;
use crate::readiness::{Condition, Readiness};

/// What a `ConfigMap` has, `None` if there is none; before the first list nothing is known.
pub type Seen = Option<Option<Arc<Data>>>;

/// Follows the `ConfigMap` of this name for as long as the process lives.
pub fn watch_config_map(
    client: &Client,
    namespace: &str,
    name: &'static str,
    streams: &StreamMetrics,
) -> Receiver<Seen> {
    let (sender, receiver) = channel(None);
    let api = Api::<ConfigMap>::namespaced(client.clone(), namespace);
    let streams = streams.clone();
    tokio::spawn(async move {
        let only = Config::default().fields(&format!("metadata.name={name}"));
        let open = move || watcher(api.clone().into(), only.clone());
        let data = |object: ConfigMap| object.data.unwrap_or_default();
        let tell = move |event: WatchEvent<Data, ConfigMap>| {
            let data = match event {
                WatchEvent::Listed(all) => all.into_iter().next(),
                WatchEvent::Applied(data) => Some(data),
                WatchEvent::Deleted(_) => None,
                // The last known data stays valid.
                WatchEvent::Refused(..) => return,
            };
            sender.send_replace(Some(data.map(Arc::new)));
        };
        watch(&format!("configmaps/{name}"), &streams, open, data, tell).await;
    });
    receiver
}

/// Settings that a program runs with.
#[derive(Debug, Clone)]
pub struct InForce {
    /// In the form of the document.
    pub shared: SharedSettings,
    /// In the form that rules and plans read.
    pub rules: Arc<forest::Settings>,
    /// The same for Accurate's API; `None` while it is not enabled.
    pub accurate: Option<Arc<forest::accurate::Settings>>,
}

impl InForce {
    /// An empty forest with these settings.
    pub fn forest(&self) -> Forest {
        let forest = Forest::unconfigured(self.rules.clone());
        match &self.accurate {
            Some(accurate) => forest.with_accurate(accurate.clone()),
            None => forest,
        }
    }
}

/// The settings in force for this process, and the `ConfigMap` that they come from.
#[derive(Debug, Clone)]
pub struct Follower {
    /// `None` until there are any.
    pub in_force: Receiver<Option<Arc<InForce>>>,
    /// The data of `hnc-settings`.
    pub seen: Receiver<Seen>,
}

impl Follower {
    /// Follows them for as long as the process lives. The process is unready until there are any.
    ///
    /// # Errors
    /// When its metric is registered already.
    pub fn start(
        client: &Client,
        namespace: &str,
        (streams, registry): (&StreamMetrics, &Registry),
        readiness: &Readiness,
    ) -> prometheus::Result<Self> {
        let metric = IntGauge::new(
            "hns_settings_refused",
            "Whether the document in the ConfigMap hns-config, or one of its settings, is refused, or it was deleted.",
        )?;
        registry.register(Box::new(metric.clone()))?;
        let seen = watch_config_map(client, namespace, SETTINGS_CONFIG_MAP, streams);
        let (sender, in_force) = channel(None);
        let none = format!(
            "there are no settings in the ConfigMap {SETTINGS_CONFIG_MAP} in namespace {namespace}; the leading hns-controller \
             writes them"
        );
        let keeper = Keeper {
            namespace: namespace.to_owned(),
            condition: readiness.condition("settings", &none),
            none,
            metric,
            problem: None,
            sender,
        };
        tokio::spawn(keeper.follow(seen.clone()));
        Ok(Self { in_force, seen })
    }

    /// The settings in force, as soon as there are any. Later changes are changes of `in_force`. `None` when the process ends.
    pub async fn next(&mut self) -> Option<Arc<InForce>> {
        self.in_force.wait_for(Option::is_some).await.ok()?;
        self.in_force.borrow_and_update().clone()
    }
}

struct Keeper {
    namespace: String,
    condition: Condition,
    /// The message if there are no settings.
    none: String,
    metric: IntGauge,
    /// What was logged last.
    problem: Option<String>,
    sender: Sender<Option<Arc<InForce>>>,
}

impl Keeper {
    async fn follow(mut self, mut seen: Receiver<Seen>) {
        while let Ok(data) = seen.wait_for(Option::is_some).await.map(|data| data.clone().flatten()) {
            self.see(&data.unwrap_or_default());
            if seen.changed().await.is_err() {
                return;
            }
        }
    }

    fn see(&mut self, data: &Data) {
        let refusal = refused(data);
        self.metric.set(refusal.is_some().into());
        let mut problem = refusal.map(str::to_owned);
        match in_force(data).and_then(|found| found.map(|it| self.understood(it)).transpose()) {
            Ok(Some(found)) => self.put_in_force(found),
            Ok(None) => problem = problem.or_else(|| Some(self.none.clone())),
            Err(invalid) => {
                problem = Some(format!(
                    "ConfigMap {SETTINGS_CONFIG_MAP}, which this version does not understand: {invalid}"
                ));
            }
        }
        let has_any = self.sender.borrow().is_some();
        if let Some(why) = problem.as_ref().filter(|_| !has_any) {
            self.condition.not_ready(why);
        }
        if let Some(why) = problem.as_ref().filter(|_| self.problem != problem) {
            tracing::warn!(why, has_any, "settings are refused");
        }
        self.problem = problem;
    }

    fn understood(&self, shared: SharedSettings) -> Result<InForce, super::Invalid> {
        let rules = Arc::new(shared.within(&self.namespace)?);
        let accurate = shared.accurate_rules()?.map(Arc::new);
        Ok(InForce { shared, rules, accurate })
    }

    fn put_in_force(&self, found: InForce) {
        self.condition.ready();
        let is_new = self.sender.borrow().as_ref().is_none_or(|before| before.shared != found.shared);
        if is_new {
            tracing::info!(settings = ?found.shared, "these settings are in force");
            self.sender.send_replace(Some(Arc::new(found)));
        }
    }
}
