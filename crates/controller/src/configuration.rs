//! Creates the `HNCConfiguration` named `config` if it is missing, and keeps its status current, while this replica leads.
//!
//! Counts change with every object, so the status is written at most once a second, and only if it differs. The spec belongs to
//! the users.

mod rights;
mod status;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use forest::configuration::Resolution;
use forest::configuration::rights::{Lack, Right, lacks, needed};
use forest::{Forest, KindSettings, Stream, StreamState};
use hns_api::names::{
    CONTROLLER_SERVICE_ACCOUNT, HNC_CONFIGURATION, WEBHOOK_SERVICE_ACCOUNT, service_account_user,
};
use hns_api::{API_VERSION, HNCConfiguration, HNCConfigurationStatus};
use hns_cluster::api::Api;
use hns_cluster::configured_kinds::Configuration;
use hns_cluster::error_text::error_text;
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

use self::rights::{Accounts, answers};
use self::status::{Troubles, shows_kinds, shows_refusal, wanted};
use crate::execute::is_listed;

const FIELD_MANAGER: &str = "hns-controller";

/// The minimum time between two writes of the status.
const PACE: Duration = Duration::from_secs(1);

/// After a start, a status that fits the configured kinds stays as it is for this time: other work is more urgent, and the status
/// is usually correct.
const CALM: Duration = Duration::from_secs(12);

/// The maximum share of time for reading a large forest.
const SHARE: u32 = 20;

/// The delay after a failed write, or while data is missing.
const RETRY: Duration = Duration::from_secs(1);

/// The maximum wait for the first lists, so that a restart does not write incomplete counts.
const LISTED: Duration = Duration::from_secs(60);

/// The delay between two access reviews while a right is missing: nothing reports that a right is granted.
const MISSING: Duration = Duration::from_secs(10);

/// The inputs of the status.
pub(crate) struct Followed {
    pub(crate) forest: ForestHandle,
    pub(crate) configuration: Receiver<Configuration>,
    /// The data of `hnc-settings`.
    pub(crate) settings: Receiver<Seen>,
}

/// Reconciles until `may_write` returns false or the shutdown begins. It completes the current write before it returns.
/// `namespace` is that of the installation.
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
    let rights = Rights::new(client.clone(), accounts);
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

/// The result of a reconciliation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Settled {
    /// The status is current, or a later event will show what to do.
    Done,
    /// A write failed, or data is missing.
    NotYet,
}

struct Keeper {
    client: Client,
    forest: ForestHandle,
    configuration: Receiver<Configuration>,
    settings: Receiver<Seen>,
    rights: Rights,
    /// The last write, until the watch shows a newer version.
    written: Option<DynamicObject>,
    since: Instant,
    /// The duration of the last reading of the forest.
    spent: Duration,
}

impl Keeper {
    /// Waits until the status may be outdated: the object is missing, its kinds or the refusal of the settings differ, or some time
    /// has passed.
    async fn begin(&mut self) {
        let resolved = |it: &Configuration| it.is_known && it.resolution.is_some();
        let Ok(first) = self.configuration.wait_for(resolved).await.map(|it| it.clone()) else { return };
        let (Some(object), Some(resolution)) = (&first.object, &first.resolution) else { return };
        let shown = shown(object);
        let Ok(seen) = self.settings.wait_for(Option::is_some).await.map(|it| it.clone()) else { return };
        let refused = reason(&seen);
        let is_current = shows_refusal(&shown, refused.as_deref())
            && self.forest.read(|forest| shows_kinds(&shown, forest, resolution));
        if is_current {
            let is_other = |it: &Configuration| it.object.is_none() || it.resolution != first.resolution;
            tokio::select! {
                () = sleep(CALM) => {}
                _ = self.configuration.wait_for(is_other) => {}
                _ = self.settings.wait_for(|seen| reason(seen) != refused) => {}
            }
        }
    }

    /// Pauses, and then waits for a change. Returns `false` if there will be none.
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

    /// Waits for a possible change. Returns `false` if there will be none.
    async fn next(&mut self) -> bool {
        let again = self.rights.again;
        tokio::select! {
            changed = self.configuration.changed() => changed.is_ok(),
            changed = self.forest.changed() => changed,
            changed = self.settings.changed() => changed.is_ok(),
            () = sleep_until(again.unwrap_or_else(Instant::now)), if again.is_some() => true,
        }
    }

    /// Writes what is known now.
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
            // Another client has changed the object; the watch reports the change.
            Err(kube::Error::Api(status)) if status.code == 409 => Settled::Done,
            Err(error) => {
                tracing::warn!(
                    error = error_text(&error),
                    "the status of the HNCConfiguration could not be written; trying again"
                );
                Settled::NotYet
            }
        }
    }

    /// Why the document of the settings is not in force.
    fn refused(&self) -> Option<String> {
        reason(&self.settings.borrow())
    }

    /// The state of the object: as observed, or as written since.
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
            "status": {
                "resources": status.resources,
                "resourcesSummary": status.resources_summary,
                "conditions": status.conditions,
            },
        });
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..PatchParams::default() };
        self.api().patch(HNC_CONFIGURATION, &params, &Patch::Merge(patch)).await
    }

    fn api(&self) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), &HNCConfiguration::api_resource())
    }
}

/// Why `hnc-settings` says that the document is not in force.
fn reason(seen: &Seen) -> Option<String> {
    let seen = seen.as_ref()?.as_ref()?;
    refused(seen).map(str::to_owned)
}

/// The status of an object. A status that cannot be parsed counts as none, and is replaced.
fn shown(object: &DynamicObject) -> HNCConfigurationStatus {
    let status = object.data.get("status").filter(|status| !status.is_null());
    status.and_then(|status: &Value| HNCConfigurationStatus::deserialize(status).ok()).unwrap_or_default()
}

/// The rights that the service accounts lack, by the last access reviews.
struct Rights {
    client: Client,
    accounts: Accounts,
    /// The configured kinds at the last reviews, and whether each could not be listed.
    kinds: Vec<(KindSettings, bool)>,
    /// Whether a right is granted; a review without an answer is not here.
    answers: HashMap<Right, bool>,
    lacks: Vec<Lack>,
    /// The time of the next reviews.
    again: Option<Instant>,
}

impl Rights {
    fn new(client: Client, accounts: Accounts) -> Self {
        let (kinds, answers, lacks) = (Vec::new(), HashMap::new(), Vec::new());
        Self { client, accounts, kinds, answers, lacks, again: None }
    }

    /// Sends reviews about each kind that is new, has changed, or became unlistable or listable, and regularly about kinds with a
    /// missing right. A review about every kind at each change would delay the status: on a busy control plane, hundreds of
    /// reviews take many seconds.
    async fn look(&mut self, forest: &ForestHandle, resolution: &Resolution) {
        let kinds: Vec<_> = forest
            .read(|forest| resolution.settings().map(|kind| (kind.clone(), is_lost(forest, kind))).collect());
        let is_due = self.again.is_some_and(|again| again <= Instant::now());
        if kinds == self.kinds && !is_due {
            return;
        }
        let is_asked = |it: &&(KindSettings, bool)| {
            !self.kinds.contains(it) || (is_due && !all_granted(&it.0, &self.answers))
        };
        let asked: Vec<Right> = kinds.iter().filter(is_asked).flat_map(|(kind, _)| needed(kind)).collect();
        for right in &asked {
            self.answers.remove(right);
        }
        self.answers.extend(answers(&self.client, &self.accounts, asked).await);
        let lacks = lacks(kinds.iter().map(|(kind, _)| kind), |right| self.answers.get(right).copied());
        for lack in lacks.iter().filter(|lack| !self.lacks.contains(lack)) {
            tracing::warn!(%lack, "a configured kind cannot be handled");
        }
        let complete = kinds.iter().all(|(kind, _)| all_granted(kind, &self.answers));
        self.again = (!complete).then(|| Instant::now() + MISSING);
        (self.kinds, self.lacks) = (kinds, lacks);
    }
}

fn all_granted(kind: &KindSettings, answers: &HashMap<Right, bool>) -> bool {
    needed(kind).iter().all(|right| answers.get(right) == Some(&true))
}

fn is_lost(forest: &Forest, kind: &KindSettings) -> bool {
    let id = forest.kind_named(&kind.kind.group, &kind.kind.kind);
    id.is_some_and(|id| matches!(forest.stream(Stream::Kind(id)), StreamState::Lost(_)))
}
