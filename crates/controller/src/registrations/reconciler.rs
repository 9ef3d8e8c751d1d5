//! Keeps webhook configurations and policies in the cluster as the settings and the configured kinds require, while this replica
//! leads.
//!
//! It watches exactly these objects. It creates those that are missing, and corrects others in place: if they were deleted and
//! created again, requests would not be reviewed in between. All are owned by the `ClusterRole` of the controller, so that the garbage
//! collector deletes them when hns is uninstalled.
//!
//! Until the configuration is known, the webhook stays registered for the kinds that are registered already. Until the hierarchy is
//! known, and with it the names of missing parents, webhook configurations are created, but only their certificates are corrected.

mod followed;
mod objects;
mod plan;
mod repair;
mod watch;

use std::collections::BTreeSet;
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use hns_api::names::{CONTROLLER_CLUSTER_ROLE, FIELD_MANAGER};
use hns_cluster::api::Api;
use hns_cluster::error_text::error_text;
use hns_runtime::shutdown::Shutdown;
use k8s_openapi::ByteString;
use kube::Client;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::{DynamicObject, TypeMeta};
use serde_json::{Value, json};
use tokio::sync::watch::{Receiver, Sender};
use tokio::time::Instant;

pub(crate) use self::followed::{Followed, follow};
use self::objects::{Required, Target, targets};
use self::plan::{Observed, Plan, State, Write, plan};
use super::RegistrationSettings;
use crate::certificates::{Bundle, Registered};
use crate::guard::{ENFORCED_AFTER, Guard};
use crate::owner;

const FIRST_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(60);

/// What the reconciler depends on.
#[derive(Debug)]
pub(crate) struct Inputs {
    pub(crate) settings: RegistrationSettings,
    /// Whether only certificates are written.
    pub(crate) only_bundle: bool,
    /// The propagated kinds and the awaited names.
    pub(crate) followed: Receiver<Followed>,
    /// The certificates that the API server should trust. While there are none, `caBundle` stays as it is.
    pub(crate) bundle: Receiver<Bundle>,
    /// Receives the certificates that the webhook configurations contain.
    pub(crate) registered: Sender<Registered>,
    /// Receives the kinds that the objects cover.
    pub(crate) guard: Guard,
}

/// Reconciles until `may_write` returns false or the shutdown begins. It completes the current write before it returns.
///
/// It logs each problem once, and retries after a change or a delay.
pub(crate) async fn reconcile(
    client: Client,
    inputs: Inputs,
    may_write: impl Fn() -> bool,
    shutdown: Shutdown,
) {
    let Inputs { mut settings, only_bundle, mut followed, mut bundle, registered, guard } = inputs;
    let has_mutating_policies = !only_bundle
        && tokio::select! {
            answer = serves_mutating_policies(&client) => answer,
            () = shutdown.begun() => return,
        };
    settings.mutating_policy = settings.policies && has_mutating_policies;
    let required = match Required::new(&settings) {
        Ok(required) => required,
        Err(error) => {
            tracing::error!(%error, "could not serialize the registrations; they stay as they are");
            return;
        }
    };
    let targets = targets(has_mutating_policies);
    let mut events = watch::all(&client, &targets);
    let mut reconciler = RegistrationReconciler {
        client,
        settings,
        followed: followed.clone(),
        required,
        state: State { only_bundle, ..State::default() },
        registered,
        guard,
        logged: BTreeSet::new(),
        paused_until: None,
    };
    let mut retry = FIRST_RETRY;
    while may_write() {
        reconciler.state.context.bundle = bundle.borrow_and_update().as_deref().and_then(ca_bundle);
        let known = targets.iter().all(|target| reconciler.state.observed.contains_key(target));
        let failed = known && !reconciler.settle(&may_write).await;
        reconciler.send_registered();
        if !failed {
            retry = FIRST_RETRY;
        }
        tokio::select! {
            () = shutdown.begun() => return,
            Some((target, observed)) = events.next() => reconciler.observe(target, observed),
            Ok(()) = followed.changed() => {}
            Ok(()) = bundle.changed() => {}
            () = reconciler.resumed() => reconciler.paused_until = None,
            () = tokio::time::sleep(retry), if failed => {
                retry = (retry * 2).min(LONGEST_RETRY);
                reconciler.state.policies_failed = false;
            }
        }
        // Plan once for all changes that have arrived.
        while let Some(Some((target, observed))) = events.next().now_or_never() {
            reconciler.observe(target, observed);
        }
    }
}

/// Whether the API server serves `MutatingAdmissionPolicy` in version v1. Asks until it answers.
async fn serves_mutating_policies(client: &Client) -> bool {
    loop {
        match client.list_api_group_resources("admissionregistration.k8s.io/v1").await {
            Ok(served) => return served.resources.iter().any(|it| it.name == "mutatingadmissionpolicies"),
            Err(error) => {
                tracing::warn!(
                    error = error_text(&error),
                    "could not ask which admission policies the API server serves; trying again"
                );
            }
        }
        tokio::time::sleep(FIRST_RETRY).await;
    }
}

struct RegistrationReconciler {
    client: Client,
    settings: RegistrationSettings,
    followed: Receiver<Followed>,
    /// By these settings.
    required: Required,
    state: State,
    registered: Sender<Registered>,
    guard: Guard,
    /// The problems that were logged.
    logged: BTreeSet<String>,
    /// When API servers enforce the latest policies.
    paused_until: Option<Instant>,
}

impl RegistrationReconciler {
    fn observe(&mut self, target: Target, observed: Observed) {
        self.state.observed.insert(target, observed);
    }

    fn send_registered(&self) {
        let now = self.state.registered(&self.required);
        self.registered.send_if_modified(|known| {
            let differs = *known != now;
            *known = now;
            differs
        });
    }

    /// Carries out plans until nothing is left to do for now. Returns whether a retry is not needed.
    async fn settle(&mut self, may_write: &impl Fn() -> bool) -> bool {
        self.read_owner().await;
        loop {
            let plan = self.next_plan();
            if plan.writes.is_empty() {
                self.guard.written(false);
                if !self.state.paused && plan.problems.is_empty() {
                    self.state.settle();
                }
                return !self.state.policies_failed
                    && (self.state.context.owner.is_some() || self.state.only_bundle);
            }
            let (mut failed, alone_before) = (false, self.state.policies_failed);
            for write in &plan.writes {
                if !may_write() {
                    return true;
                }
                failed |= !self.write(write).await;
            }
            self.guard.written(true);
            // If policies cannot be written, the webhook must review all requests now, not after a retry.
            let is_alone_now = self.state.policies_failed && !alone_before;
            if failed && !is_alone_now {
                return false;
            }
            if plan.settle && !failed {
                self.paused_until = Some(Instant::now() + ENFORCED_AFTER);
            }
        }
    }

    /// Reads the owner of all objects, again whenever an object is missing: it may have been deleted with its owner. An object with an
    /// owner that does not exist is deleted at once.
    async fn read_owner(&mut self) {
        if self.state.only_bundle
            || (self.state.context.owner.is_some() && !self.state.lacks_one(&self.required))
        {
            return;
        }
        self.state.context.owner = match owner::reference(&self.client).await {
            Ok(owner) => Some(json!(owner)),
            Err(error) => {
                self.log_once(format!(
                    "could not read the ClusterRole {CONTROLLER_CLUSTER_ROLE}: {}",
                    error_text(&error)
                ));
                None
            }
        };
    }

    fn next_plan(&mut self) -> Plan {
        let is_known = self.follow();
        self.state.paused = self.paused_until.is_some() || !is_known;
        let plan = plan(&self.required, &self.state);
        if plan.problems.is_empty() && self.state.context.owner.is_some() {
            self.logged.clear();
        }
        for problem in &plan.problems {
            self.log_once(problem.clone());
        }
        plan
    }

    /// Adapts the required objects to the current kinds and awaited names. Returns whether the names are known.
    fn follow(&mut self) -> bool {
        let Followed { kinds, awaited, parents } = self.followed.borrow().clone();
        let is_known = awaited.is_some();
        let kinds = kinds.or_else(|| self.state.registered_kinds());
        let propagated = kinds.unwrap_or_else(|| self.settings.propagated.clone());
        let awaited = awaited.unwrap_or_default();
        let parents = parents.unwrap_or_default();
        let present = (&self.settings.propagated, &self.settings.awaited, &self.settings.parents);
        if (&propagated, &awaited, &parents) == present {
            return is_known;
        }
        if propagated != self.settings.propagated {
            self.guard.kinds_changed(&self.settings.propagated, &propagated);
        }
        let settings = RegistrationSettings { propagated, awaited, parents, ..self.settings.clone() };
        match Required::new(&settings) {
            Ok(required) => (self.settings, self.required) = (settings, required),
            Err(error) => {
                tracing::error!(%error, "could not serialize the registrations; their kinds stay as they are");
            }
        }
        is_known
    }

    fn log_once(&mut self, problem: String) {
        if !self.logged.contains(&problem) {
            tracing::warn!("{problem}");
            self.logged.insert(problem);
        }
    }

    /// Waits for the end of the pause; for ever if there is none.
    async fn resumed(&self) {
        match self.paused_until {
            Some(until) => tokio::time::sleep_until(until).await,
            None => std::future::pending().await,
        }
    }

    async fn write(&mut self, write: &Write) -> bool {
        let is_correction =
            matches!(write, Write::Replace(target, _) if self.state.is_changed_by_others(target));
        let (target, sent, written) = match write {
            Write::Create(target, object) => (target, Some(object), self.create(target, object).await),
            Write::Replace(target, object) => (target, Some(object), self.replace(target, object).await),
            Write::Delete(target) => (target, None, self.delete(target).await),
        };
        match written {
            Ok(observed) => {
                log(write, target, is_correction);
                if let (Some(sent), Observed::Present(answer)) = (sent, &observed) {
                    let pair = (repair::content(sent), repair::content(answer));
                    self.state.known.insert(target.clone(), pair.1.clone());
                    self.state.answered.insert(target.clone(), pair);
                }
                self.observe(target.clone(), observed);
                true
            }
            Err(error) => {
                // On a conflict, another client has changed the object; the watch reports the change.
                if !matches!(&error, kube::Error::Api(status) if status.code == 409) {
                    tracing::warn!(error = error_text(&error), "could not write {target}; trying again");
                    self.state.policies_failed |= target.kind.is_of_policies();
                }
                false
            }
        }
    }

    fn api(&self, target: &Target) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), &target.kind.resource())
    }

    /// Creates by server-side apply: the request contains the name, so RBAC can limit the right to create to this object.
    async fn create(&self, target: &Target, object: &Value) -> Result<Observed, kube::Error> {
        let params = PatchParams::apply(FIELD_MANAGER).force();
        present(self.api(target).patch(&target.name, &params, &Patch::Apply(object)).await?)
    }

    /// Replaces the observed version. Server-side apply would leave conditions and webhooks that others have added.
    async fn replace(&self, target: &Target, object: &Value) -> Result<Observed, kube::Error> {
        let mut object: DynamicObject =
            serde_json::from_value(object.clone()).map_err(kube::Error::SerdeError)?;
        // Objects of a list have no type.
        let resource = target.kind.resource();
        object.types = Some(TypeMeta { api_version: resource.api_version, kind: resource.kind });
        let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        present(self.api(target).replace(&target.name, &params, &object).await?)
    }

    async fn delete(&self, target: &Target) -> Result<Observed, kube::Error> {
        let uid = match self.state.of(target) {
            Observed::Present(found) => found["metadata"]["uid"].as_str().map(str::to_owned),
            _ => None,
        };
        let params = DeleteParams::default().preconditions(Preconditions { uid, resource_version: None });
        match self.api(target).delete(&target.name, &params).await {
            Ok(_) => Ok(Observed::Absent),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Observed::Absent),
            Err(error) => Err(error),
        }
    }
}

fn log(write: &Write, target: &Target, is_correction: bool) {
    match write {
        Write::Create(..) => tracing::info!("created {target}"),
        Write::Replace(..) if is_correction => tracing::info!(
            "corrected {target}, which another client had changed; to change it by hand, set --manage-registrations=false first"
        ),
        Write::Replace(..) => {
            tracing::info!("updated {target} for the settings, the configuration or the hierarchy");
        }
        Write::Delete(..) => tracing::info!("deleted {target}, which the settings disable"),
    }
}

/// The certificates as in a webhook configuration.
fn ca_bundle(text: &[u8]) -> Option<Value> {
    serde_json::to_value(ByteString(text.to_vec())).ok()
}

fn present(object: DynamicObject) -> Result<Observed, kube::Error> {
    serde_json::to_value(object).map(Observed::Present).map_err(kube::Error::SerdeError)
}
