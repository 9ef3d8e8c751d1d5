//! Keeping the `HNCConfiguration` named `config` there, and its status true, for as long as this replica leads.
//!
//! Counts change with every object, so the status is written once a second at most, and only when it is another one. What
//! stands in its spec is the users' alone. Resolves and propagates nothing.

mod rights;
mod status;

use std::sync::Arc;
use std::time::Duration;

use forest::configuration::Resolution;
use forest::configuration::rights::Lack;
use forest::{Forest, KindSettings, Stream, StreamState};
use hns_api::names::{
    CONTROLLER_SERVICE_ACCOUNT, HNC_CONFIGURATION, WEBHOOK_SERVICE_ACCOUNT, service_account_user,
};
use hns_api::{API_VERSION, HNCConfiguration, HNCConfigurationStatus};
use hns_cluster::api::Api;
use hns_cluster::configured_kinds::Configuration;
use hns_cluster::handle::ForestHandle;
use hns_cluster::settings::{Seen, refused};
use hns_runtime::shutdown::Shutdown;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use kube::{Client, CustomResourceExt};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::watch::Receiver;
use tokio::time::{Instant, sleep, sleep_until};

use self::rights::{Accounts, missing};
use self::status::{Troubles, shows_kinds, wanted};
use crate::execute::is_listed;

const FIELD_MANAGER: &str = "hns-controller";

/// The status is written no more often than this.
const PACE: Duration = Duration::from_secs(1);

/// After a start a status that is there is left as it is for so long, if what it is about is as it was: there is more
/// urgent work, and most of the time it will turn out to be right.
const CALM: Duration = Duration::from_secs(12);

/// Looking through a large forest takes time; no more than this part of it is spent on that.
const SHARE: u32 = 20;

/// After a write that failed, or where something is still to come.
const RETRY: Duration = Duration::from_secs(1);

/// So long the first lists are waited for, so that a restart does not write numbers that are only on their way.
const LISTED: Duration = Duration::from_secs(60);

/// While a right is missing it is asked again after this: nobody tells when one is granted.
const MISSING: Duration = Duration::from_secs(10);

/// What the status depends on.
pub(crate) struct Followed {
    pub(crate) forest: ForestHandle,
    pub(crate) configuration: Receiver<Configuration>,
    /// The data of `hnc-settings`.
    pub(crate) settings: Receiver<Seen>,
}

/// Keeps it as it should be until `may_write` says no, or the shutdown begins. A write under way is ended first: when this
/// returns, nothing more comes. `namespace` is the installation's own.
pub(crate) async fn keep(
    client: Client,
    Followed { forest, configuration, settings }: Followed,
    namespace: &str,
    may_write: impl Fn() -> bool,
    shutdown: Shutdown,
) {
    let accounts = Accounts {
        webhook: service_account_user(namespace, WEBHOOK_SERVICE_ACCOUNT),
        controller: service_account_user(namespace, CONTROLLER_SERVICE_ACCOUNT),
    };
    let rights = Rights { client: client.clone(), accounts, of: None, lacks: Vec::new(), again: None };
    let mut keeper = Keeper {
        client,
        forest,
        configuration,
        settings,
        rights,
        written: None,
        since: Instant::now(),
        spent: Duration::ZERO,
    };
    tokio::select! {
        () = keeper.begin() => {}
        () = shutdown.begun() => return,
    }
    while may_write() {
        keeper.configuration.mark_unchanged();
        keeper.settings.mark_unchanged();
        let settled = keeper.settle(&may_write).await;
        tokio::select! {
            goes_on = keeper.rest(settled) => if !goes_on { return },
            () = shutdown.begun() => return,
        }
    }
}

/// How it went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Settled {
    /// It is as it should be, or the next thing that is seen will say how it is.
    Done,
    /// A write failed, or too little is known to write anything.
    NotYet,
}

struct Keeper {
    client: Client,
    forest: ForestHandle,
    configuration: Receiver<Configuration>,
    settings: Receiver<Seen>,
    rights: Rights,
    /// What was written last, until the watch shows something newer.
    written: Option<DynamicObject>,
    since: Instant,
    /// How long it took to look through the forest last.
    spent: Duration,
}

impl Keeper {
    /// Waits until there is a reason to look: there is no object, it does not show the kinds as they are, what it comes to
    /// changes, or it has been calm for a while.
    async fn begin(&mut self) {
        let resolved = |it: &Configuration| it.is_known && it.resolution.is_some();
        let Ok(first) = self.configuration.wait_for(resolved).await.map(|it| it.clone()) else { return };
        let (Some(object), Some(resolution)) = (&first.object, &first.resolution) else { return };
        if self.forest.read(|forest| shows_kinds(&shown(object), forest, resolution)) {
            let is_other = |it: &Configuration| it.object.is_none() || it.resolution != first.resolution;
            // Elapsed or changed, it is time.
            let _ = tokio::time::timeout(CALM, self.configuration.wait_for(is_other)).await;
        }
    }

    /// Pauses, and waits for a reason to go on. Ends with `false` when there will be none.
    async fn rest(&mut self, settled: Settled) -> bool {
        sleep(PACE.max(self.spent * SHARE)).await;
        match settled {
            Settled::Done => self.next().await,
            Settled::NotYet => {
                sleep(RETRY).await;
                true
            }
        }
    }

    /// Waits until something may have changed. Ends with `false` when nothing can change any more.
    async fn next(&mut self) -> bool {
        let again = self.rights.again;
        tokio::select! {
            changed = self.configuration.changed() => changed.is_ok(),
            changed = self.forest.changed() => changed,
            changed = self.settings.changed() => changed.is_ok(),
            () = sleep_until(again.unwrap_or_else(Instant::now)), if again.is_some() => true,
        }
    }

    /// Makes it right as far as it can be now.
    async fn settle(&mut self, may_write: &impl Fn() -> bool) -> Settled {
        let configuration = self.configuration.borrow().clone();
        let Some(resolution) = configuration.resolution.clone().filter(|_| configuration.is_known) else {
            return Settled::Done;
        };
        if !self.forest.read(is_listed) && self.since.elapsed() < LISTED {
            return Settled::NotYet;
        }
        self.rights.look(&self.forest, &resolution).await;
        let (now, began) = (Time(Timestamp::now()), Instant::now());
        let (trouble, refused) = (configuration.trouble.clone(), self.refused());
        let troubles = Troubles {
            lacks: &self.rights.lacks,
            outdated: trouble.as_deref(),
            settings: refused.as_deref(),
        };
        let wanted = self.forest.read(|forest| wanted(forest, &resolution, &troubles));
        self.spent = began.elapsed();
        let object = self.latest(configuration.object.as_ref());
        let shown = object.as_deref().map(shown).unwrap_or_default();
        let status = wanted.against(&shown, &now);
        let written = match (object, status) {
            _ if !may_write() => return Settled::Done,
            (Some(object), Some(status)) => self.write(&object, &status).await,
            (None, status) if configuration.may_exist() => self.create(&status.unwrap_or_default()).await,
            (Some(_), None) | (None, _) => return Settled::Done,
        };
        match written {
            Ok(object) => {
                self.written = Some(object);
                Settled::Done
            }
            // Somebody was faster; the watch shows what they wrote.
            Err(kube::Error::Api(status)) if status.code == 409 => Settled::Done,
            Err(error) => {
                tracing::warn!(%error, "the status of the HNCConfiguration could not be written; trying again");
                Settled::NotYet
            }
        }
    }

    /// Why the document of the settings is not in force.
    fn refused(&self) -> Option<String> {
        let seen = self.settings.borrow().clone()??;
        refused(&seen).map(str::to_owned)
    }

    /// The state seen, or what was written since.
    fn latest(&mut self, seen: Option<&Arc<DynamicObject>>) -> Option<Arc<DynamicObject>> {
        let Some(seen) = seen else {
            self.written = None;
            return None;
        };
        let version = |object: &DynamicObject| hns_cluster::ingest::version(&object.metadata);
        let newer = self.written.take().filter(|written| {
            let (written, seen) = (version(written), version(seen));
            written.uid == seen.uid && seen.is_older_than(&written)
        });
        self.written.clone_from(&newer);
        Some(newer.map_or_else(|| seen.clone(), Arc::new))
    }

    async fn create(&self, status: &HNCConfigurationStatus) -> Result<DynamicObject, kube::Error> {
        let object = json!({
            "apiVersion": API_VERSION,
            "kind": "HNCConfiguration",
            "metadata": { "name": HNC_CONFIGURATION },
            "spec": {},
            "status": status,
        });
        let object = serde_json::from_value(object).map_err(kube::Error::SerdeError)?;
        let params = PostParams { field_manager: Some(FIELD_MANAGER.into()), ..PostParams::default() };
        let created = self.api().create(&params, &object).await?;
        tracing::info!("the HNCConfiguration was not there and has been created");
        Ok(created)
    }

    async fn write(
        &self,
        object: &DynamicObject,
        status: &HNCConfigurationStatus,
    ) -> Result<DynamicObject, kube::Error> {
        let metadata = &object.metadata;
        let patch = json!({
            "metadata": { "uid": metadata.uid, "resourceVersion": metadata.resource_version },
            "status": { "resources": status.resources, "conditions": status.conditions },
        });
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..PatchParams::default() };
        self.api().patch(HNC_CONFIGURATION, &params, &Patch::Merge(patch)).await
    }

    fn api(&self) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), &HNCConfiguration::api_resource())
    }
}

/// The status that an object shows. One that cannot be understood is taken for none, and written anew.
fn shown(object: &DynamicObject) -> HNCConfigurationStatus {
    let status = object.data.get("status").filter(|status| !status.is_null());
    status.and_then(|status: &Value| HNCConfigurationStatus::deserialize(status).ok()).unwrap_or_default()
}

/// What the service accounts lack, as asked last.
struct Rights {
    client: Client,
    accounts: Accounts,
    /// What it was asked about: the kinds, and those that cannot be listed.
    of: Option<(Vec<KindSettings>, Vec<bool>)>,
    lacks: Vec<Lack>,
    /// When to ask again.
    again: Option<Instant>,
}

impl Rights {
    /// Asks when the kinds are others, when one can no longer be listed or can be again, and every now and then while something
    /// is missing.
    async fn look(&mut self, forest: &ForestHandle, resolution: &Resolution) {
        let kinds: Vec<KindSettings> = resolution.settings().cloned().collect();
        let lost = forest.read(|forest| kinds.iter().map(|kind| is_lost(forest, kind)).collect());
        let of = Some((kinds, lost));
        if of == self.of && self.again.is_none_or(|again| Instant::now() < again) {
            return;
        }
        self.of = of;
        let Some((kinds, _)) = &self.of else { return };
        let (lacks, complete) = missing(&self.client, &self.accounts, kinds).await;
        for lack in lacks.iter().filter(|lack| !self.lacks.contains(lack)) {
            tracing::warn!(%lack, "a configured kind cannot be handled");
        }
        self.again = (!lacks.is_empty() || !complete).then(|| Instant::now() + MISSING);
        self.lacks = lacks;
    }
}

fn is_lost(forest: &Forest, kind: &KindSettings) -> bool {
    let id = forest.kind_named(&kind.kind.group, &kind.kind.kind);
    id.is_some_and(|id| matches!(forest.stream(Stream::Kind(id)), StreamState::Lost(_)))
}
