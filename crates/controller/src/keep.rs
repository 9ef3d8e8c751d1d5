//! Keeping registrations and policies in the cluster as the settings say, for as long as this replica leads.
//!
//! A change is seen by watches on exactly these objects, and put right by updates in place: to delete and create anew would
//! let requests through. What is not ours is left alone, and so is how the webhook is reached: its address is whoever's who
//! installed it, and so is the authority of its certificate unless the controller makes that certificate itself. It never
//! creates a webhook configuration, and judges no request.
//!
//! The propagated kinds follow the configuration while it runs. As long as the configuration is not known, the kinds stay as
//! they are registered. The awaited names follow the hierarchy; as long as it is not known, no webhook configuration is changed.
//!
//! Whoever has to break the glass turns it off (`--manage-registrations=false`), or everything is put back.

mod diff;
mod kinds;
mod objects;
mod ownership;
mod plan;
mod watch;

use std::collections::BTreeSet;
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use hns_cluster::api::Api;
use hns_runtime::shutdown::Shutdown;
use k8s_openapi::ByteString;
use kube::Client;
use kube::api::{DeleteParams, PostParams, Preconditions};
use kube::core::{DynamicObject, TypeMeta};
use serde_json::Value;
use tokio::sync::watch::{Receiver, Sender};
use tokio::time::Instant;

pub use self::kinds::{Followed, follow};
use self::objects::{Kind, Target, Wanted, targets};
use self::plan::{Plan, Seen, State, Write, in_a_pause, plan};
use crate::certificates::{Bundle, Registered};
use crate::guard::Guard;
use crate::registrations::RegistrationSettings;

const FIELD_MANAGER: &str = "hns-controller";

/// API servers look for changed policies once a second; another may be a moment behind this one.
const ENFORCED_AFTER: Duration = Duration::from_secs(3);

const FIRST_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(60);

/// What is kept, and by whose word.
#[derive(Debug)]
pub(crate) struct Charge {
    /// How everything should be.
    pub(crate) settings: RegistrationSettings,
    /// Whether nothing is kept but the authorities.
    pub(crate) only_authority: bool,
    /// The propagated kinds and the awaited names.
    pub(crate) followed: Receiver<Followed>,
    /// The authorities of the webhook's certificate; the field is left alone as long as there are none.
    pub(crate) authority: Receiver<Bundle>,
    /// Told which authorities are registered.
    pub(crate) registered: Sender<Registered>,
    /// Told which kinds are guarded.
    pub(crate) guard: Guard,
}

/// Keeps everything as the `charge` says until `may_write` says no, or the shutdown begins. A write under way is ended first:
/// when this returns, nothing more comes.
///
/// What cannot be done is logged once and tried again when something changes, or after a while.
pub(crate) async fn keep(client: Client, charge: Charge, may_write: impl Fn() -> bool, shutdown: Shutdown) {
    let Charge { settings, only_authority, mut followed, mut authority, registered, guard } = charge;
    let wanted = match Wanted::new(&settings) {
        Ok(wanted) => wanted,
        Err(error) => {
            tracing::error!(%error, "registrations cannot be written down; they are left alone");
            return;
        }
    };
    let targets = targets();
    let mut events = watch::all(&client, &targets);
    let mut keeper = Keeper {
        client,
        settings,
        followed: followed.clone(),
        wanted,
        state: State { only_authority, ..State::default() },
        registered,
        guard,
        said: BTreeSet::new(),
        paused_until: None,
    };
    let mut retry = FIRST_RETRY;
    while may_write() {
        keeper.state.authority = authority.borrow_and_update().as_deref().and_then(ca_bundle);
        let known = targets.iter().all(|target| keeper.state.seen.contains_key(target));
        let failed = known && !keeper.settle(&may_write).await;
        keeper.tell_registered();
        if !failed {
            retry = FIRST_RETRY;
        }
        tokio::select! {
            () = shutdown.begun() => return,
            Some((target, seen)) = events.next() => keeper.see(target, seen),
            Ok(()) = followed.changed() => {}
            Ok(()) = authority.changed() => {}
            () = keeper.resumed() => keeper.paused_until = None,
            () = tokio::time::sleep(retry), if failed => {
                retry = (retry * 2).min(LONGEST_RETRY);
                keeper.state.policies_failed = false;
            }
        }
        // What has come meanwhile is judged as a whole.
        while let Some(Some((target, seen))) = events.next().now_or_never() {
            keeper.see(target, seen);
        }
    }
}

struct Keeper {
    client: Client,
    settings: RegistrationSettings,
    followed: Receiver<Followed>,
    /// As these settings say.
    wanted: Wanted,
    state: State,
    registered: Sender<Registered>,
    guard: Guard,
    /// What has been complained of already.
    said: BTreeSet<String>,
    /// Until then the API server is given time to enforce what was written, and nothing but authorities and policies is.
    paused_until: Option<Instant>,
}

impl Keeper {
    fn see(&mut self, target: Target, seen: Seen) {
        self.state.seen.insert(target, seen);
    }

    fn tell_registered(&self) {
        let now = self.state.registered(&self.wanted);
        self.registered.send_if_modified(|known| {
            let differs = *known != now;
            *known = now;
            differs
        });
    }

    /// Makes what is wanted fit the kinds and the names of the moment. Returns whether the names are known.
    fn follow(&mut self) -> bool {
        let Followed { kinds, awaited } = self.followed.borrow().clone();
        let is_known = awaited.is_some();
        let kinds = kinds.or_else(|| self.state.registered_kinds());
        let propagated = kinds.unwrap_or_else(|| self.settings.propagated.clone());
        let awaited = awaited.unwrap_or_default();
        if (&propagated, &awaited) == (&self.settings.propagated, &self.settings.awaited) {
            return is_known;
        }
        if propagated != self.settings.propagated {
            self.guard.keep_only(&propagated);
        }
        let settings = RegistrationSettings { propagated, awaited, ..self.settings.clone() };
        match Wanted::new(&settings) {
            Ok(wanted) => (self.settings, self.wanted) = (settings, wanted),
            Err(error) => {
                tracing::error!(%error, "registrations cannot be written down; the kinds in them stay as they were");
            }
        }
        is_known
    }

    /// Carries out plans until there is nothing left to do for now. False when a write failed.
    async fn settle(&mut self, may_write: &impl Fn() -> bool) -> bool {
        loop {
            let plan = self.next_plan();
            if plan.writes.is_empty() {
                return !self.state.policies_failed;
            }
            let (mut failed, alone_before) = (false, self.state.policies_failed);
            for write in &plan.writes {
                if !may_write() {
                    return true;
                }
                failed |= !self.write(write).await;
            }
            // Where policies cannot be had, the webhook must be sent everything now, not after another try.
            let goes_on_alone = self.state.policies_failed && !alone_before;
            if failed && !goes_on_alone {
                return false;
            }
            if plan.settle && !failed {
                self.paused_until = Some(Instant::now() + ENFORCED_AFTER);
            }
        }
    }

    fn next_plan(&mut self) -> Plan {
        let is_known = self.follow();
        if self.paused_until.is_some() || !is_known {
            return in_a_pause(&self.wanted, &self.state);
        }
        let plan = plan(&self.wanted, &self.state);
        let new = plan.impossible.iter().filter(|it| !self.said.contains(*it));
        new.for_each(|it| tracing::warn!("{it}"));
        self.said = plan.impossible.iter().cloned().collect();
        plan
    }

    /// Waits until the pause is over; for ever if there is none.
    async fn resumed(&self) {
        match self.paused_until {
            Some(until) => tokio::time::sleep_until(until).await,
            None => std::future::pending().await,
        }
    }

    async fn write(&mut self, write: &Write) -> bool {
        let (target, sent, written) = match write {
            Write::Create(target, object) => (target, Some(object), self.create(target, object).await),
            Write::Replace(target, object) => (target, Some(object), self.replace(target, object).await),
            Write::Release(target, object) => (target, None, self.replace(target, object).await),
            Write::Delete(target) => (target, None, self.delete(target).await),
        };
        match written {
            Ok(seen) => {
                if !matches!(write, Write::Release(..)) {
                    tracing::info!(
                        "{target} was not as the flags, the configuration and the hierarchy say, and has been put right; to \
                         change it by hand, set --manage-registrations=false first"
                    );
                }
                if let (Some(sent), Seen::Present(answer)) = (sent, &seen) {
                    let pair = (diff::content(sent), diff::content(answer));
                    self.state.answered.insert(target.clone(), pair);
                }
                self.state.seen.insert(target.clone(), seen);
                true
            }
            Err(error) => {
                let conflict = matches!(&error, kube::Error::Api(status) if status.code == 409);
                // Somebody was faster; the watch shows what they wrote.
                if !conflict {
                    tracing::warn!(%error, "{target} could not be put right; trying again");
                    self.state.policies_failed |= matches!(target.kind, Kind::Policy | Kind::Binding);
                }
                false
            }
        }
    }

    fn api(&self, target: &Target) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), &target.kind.resource())
    }

    async fn create(&self, target: &Target, object: &Value) -> Result<Seen, kube::Error> {
        let object = serde_json::from_value(object.clone()).map_err(kube::Error::SerdeError)?;
        present(self.api(target).create(&post_params(), &object).await?)
    }

    async fn replace(&self, target: &Target, object: &Value) -> Result<Seen, kube::Error> {
        let mut object: DynamicObject =
            serde_json::from_value(object.clone()).map_err(kube::Error::SerdeError)?;
        // Objects of a list do not say what they are.
        let resource = target.kind.resource();
        object.types = Some(TypeMeta { api_version: resource.api_version, kind: resource.kind });
        present(self.api(target).replace(&target.name, &post_params(), &object).await?)
    }

    async fn delete(&self, target: &Target) -> Result<Seen, kube::Error> {
        let uid = match self.state.seen.get(target) {
            Some(Seen::Present(found)) => found["metadata"]["uid"].as_str().map(str::to_owned),
            _ => None,
        };
        let params = DeleteParams::default().preconditions(Preconditions { uid, resource_version: None });
        match self.api(target).delete(&target.name, &params).await {
            Ok(_) => Ok(Seen::Absent),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Seen::Absent),
            Err(error) => Err(error),
        }
    }
}

/// As it stands in a registration.
fn ca_bundle(authority: &[u8]) -> Option<Value> {
    serde_json::to_value(ByteString(authority.to_vec())).ok()
}

fn present(object: DynamicObject) -> Result<Seen, kube::Error> {
    serde_json::to_value(object).map(Seen::Present).map_err(kube::Error::SerdeError)
}

fn post_params() -> PostParams {
    PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() }
}
