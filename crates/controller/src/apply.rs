//! One write: turns an action into requests, and the responses into facts. The executor calls it.
//!
//! Every update and deletion has a precondition: the uid and the resource version that the plan saw.

mod accurate;
mod copies;
mod outcome;
mod quotas;
mod structure;

use forest::accurate::AccurateAction;
use forest::core::plan::Action;
use forest::hnc;
use forest::plan::HncAction;
use forest::{Fact, Name, ObjectKey, Version, keys};
use hns_api::names::FIELD_MANAGER;
use hns_cluster::handle::ForestHandle;
use hns_cluster::stored::Store;
use kube::Client;
use kube::api::{DeleteParams, PatchParams, PostParams, Preconditions};
use serde_json::{Value, json};

use self::accurate::AccurateWriter;
pub(crate) use self::copies::ProbeResult;
use self::copies::{CopyWriter, Form};
pub(crate) use self::outcome::{Outcome, WriteResult};
use self::quotas::{DerivedQuota, QuotaWriter};
use self::structure::StructureWriter;
use crate::dialect::Dialect;

/// The result of a write of finalizers. The rest of the plan, such as the creation of a namespace, needs the object. If it was deleted
/// before it had our finalizer, the plan stops with a conflict. If the finalizer was to be removed, the deletion is what the plan
/// wants. `gone` is the fact that the object does not exist.
fn stop_if_not_found(result: WriteResult, adds_ours: bool, gone: Fact) -> WriteResult {
    if result.outcome != Outcome::NotFound {
        return result;
    }
    let outcome = if adds_ours { Outcome::Conflict } else { Outcome::NotFound };
    WriteResult { outcome, facts: vec![gone] }
}

/// Makes the writes of one namespace.
pub(crate) struct Applier<'a> {
    pub(crate) client: &'a Client,
    pub(crate) namespace: &'a Name,
    /// Has the kinds of objects, and the settings.
    pub(crate) forest: &'a ForestHandle,
    /// The ledger of hierarchical quotas.
    pub(crate) store: &'a Store,
}

/// The name of an action in metrics and log lines.
pub(crate) fn action_label<D: Dialect>(action: &Action<D>) -> &'static str {
    match action {
        Action::PatchNamespace { .. } => "patch-namespace",
        Action::Dialect(action) => action.label(),
        Action::CreateCopy { .. } => "create-copy",
        Action::ReplaceCopy { .. } => "replace-copy",
        Action::DeleteCopy { .. } => "delete-copy",
    }
}

impl Applier<'_> {
    pub(crate) async fn apply(&self, action: &Action<HncAction>) -> WriteResult {
        let structure = StructureWriter { client: self.client, namespace: self.namespace };
        match action {
            Action::PatchNamespace { version, labels, annotations } => {
                Box::pin(structure.patch_namespace(version, labels, annotations)).await
            }
            Action::Dialect(HncAction::CreateHierarchy { spec, with_finalizer, status }) => {
                structure.create_hierarchy(spec.as_ref(), *with_finalizer, status).await.into()
            }
            Action::Dialect(HncAction::UpdateHierarchy { version, spec, finalizers, status }) => structure
                .change_hierarchy(version, spec.as_ref(), finalizers.as_deref(), status.as_ref())
                .await
                .into(),
            Action::Dialect(HncAction::UpdateAnchor { child, version, finalizers, state }) => {
                let has_ours = |it: &Vec<Box<str>>| it.iter().any(|it| **it == *keys::ANCHOR_FINALIZER);
                if finalizers.as_ref().is_some_and(|it| !has_ours(it))
                    && let Err(result) = Box::pin(structure.is_released_as_said(self.forest, child)).await
                {
                    return result;
                }
                let written =
                    Box::pin(structure.change_anchor(child, version, finalizers.as_deref(), *state)).await;
                match finalizers {
                    Some(finalizers) => {
                        let adds_ours = has_ours(finalizers);
                        let (namespace, uid) = (self.namespace.clone(), version.uid.clone());
                        let gone = hnc::Fact::AnchorGone(namespace, child.clone(), uid);
                        stop_if_not_found(written.into(), adds_ours, gone.into())
                    }
                    None => written.into(),
                }
            }
            Action::Dialect(HncAction::CreateSubnamespace { child, initial_admin }) => {
                structure.create_subnamespace(child, initial_admin.as_deref()).await.into()
            }
            Action::Dialect(HncAction::BindInitialAdmin { user, cluster_role }) => {
                structure.bind_initial_admin(user, cluster_role).await
            }
            Action::Dialect(HncAction::DeleteSubnamespace { child, version }) => {
                Box::pin(structure.delete_subnamespace(child, version)).await
            }
            Action::Dialect(HncAction::WriteDerivedQuota { version, hard, dropped, sources, limits }) => {
                let quota = DerivedQuota { hard, dropped, sources, limits };
                self.quotas().write_derived(version.as_ref(), &quota).await
            }
            Action::Dialect(HncAction::DeleteDerivedQuota { version }) => {
                self.quotas().delete_derived(version).await
            }
            Action::Dialect(HncAction::FreeDerivedQuota { version }) => {
                self.quotas().free_derived(version).await
            }
            Action::Dialect(HncAction::UpdateQuotaStatus { name, version, status, dropped }) => {
                let both = (self.store, self.forest);
                Box::pin(self.quotas().write_status(both, (name, version), (status, dropped))).await
            }
            Action::CreateCopy { .. } | Action::ReplaceCopy { .. } | Action::DeleteCopy { .. } => {
                self.write_copy(Form::Hnc, action).await
            }
        }
    }

    /// The same for Accurate's API.
    pub(crate) async fn apply_accurate(&self, action: &Action<AccurateAction>) -> WriteResult {
        let writer = AccurateWriter { client: self.client, namespace: self.namespace };
        match action {
            Action::Dialect(AccurateAction::ApplyNamespace { version, edge, labels, annotations }) => {
                Box::pin(writer.apply_namespace((version, edge), labels, annotations)).await
            }
            Action::Dialect(AccurateAction::CreateNamespace { child }) => {
                writer.create_namespace(child).await.into()
            }
            Action::Dialect(AccurateAction::DeleteNamespace { child, version }) => {
                writer.delete_namespace(child, version).await
            }
            Action::Dialect(AccurateAction::UpdateSubNamespace {
                child,
                version,
                finalizers,
                status,
                was_stalled,
            }) => {
                let status = (status.as_ref(), *was_stalled);
                writer.change_sub_namespace(child, version, finalizers.as_deref(), status).await
            }
            _ => self.write_copy(Form::Accurate, action).await,
        }
    }

    async fn write_copy<D: Dialect>(&self, form: Form, action: &Action<D>) -> WriteResult {
        match action {
            Action::CreateCopy { key, source, content } => self.copy(form, key).create(source, content).await,
            Action::ReplaceCopy { key, version, source, content } => {
                Box::pin(self.copy(form, key).replace(version, source, content)).await
            }
            Action::DeleteCopy { key, version } => Box::pin(self.copy(form, key).delete(version)).await,
            // No plan of the other API has these.
            Action::PatchNamespace { .. } | Action::Dialect(_) => WriteResult::done([]),
        }
    }

    fn quotas(&self) -> QuotaWriter<'_> {
        QuotaWriter { client: self.client, namespace: self.namespace }
    }

    /// Whether the API server refuses the write of this copy when a user makes it. Sends a dry run.
    pub(crate) async fn probe<D: Dialect>(&self, action: &Action<D>) -> ProbeResult {
        match action {
            Action::CreateCopy { key, source, content }
            | Action::ReplaceCopy { key, source, content, .. } => {
                self.copy(Form::Hnc, key).probe(source, content).await
            }
            _ => ProbeResult::Refused,
        }
    }

    /// Reads an object of a propagated kind. Deleted objects are reported by the watch.
    pub(crate) async fn read(&self, key: &ObjectKey) -> WriteResult {
        self.copy(Form::Hnc, key).read().await
    }

    fn copy<'a>(&'a self, form: Form, key: &'a ObjectKey) -> CopyWriter<'a> {
        let Self { client, namespace, .. } = self;
        self.forest.read(|forest| {
            let kind = forest.kind(key.kind).clone();
            let settings = (forest.shared_settings(), forest.accurate_settings().cloned());
            // A user can write the status of what is not guarded as a copy.
            let is_unguarded = match form {
                Form::Hnc => forest.is_own(namespace, key),
                Form::Accurate => !forest.is_followed(namespace, key),
            };
            let claims_usage = kind.is_quota() && is_unguarded;
            let bare = form == Form::Accurate && forest.is_bare(namespace, key);
            CopyWriter {
                form,
                client,
                forest: self.forest,
                settings,
                namespace,
                kind,
                key,
                bare,
                claims_usage,
            }
        })
    }
}

fn precondition(version: &Version) -> Value {
    json!({ "uid": version.uid, "resourceVersion": version.resource_version })
}

/// How often a write is repeated at once after conflicts: a user can change an object all the time. The last time it is for any version,
/// and follows the look at what the object says.
const REPETITIONS: usize = 8;

/// Sends a patch that names a version of its object, and after a conflict once more with the `uid` alone: a user can change an object
/// all the time. So the fields of the patch must be the controller's alone; for others, see [`where_unmoved`]. Others add finalizers too, so
/// these are replaced in the named version only.
async fn despite_changes<T, R>(patch: &mut Value, send: impl Fn(Value) -> R) -> kube::Result<T>
where
    R: Future<Output = kube::Result<T>>,
{
    let answer = send(patch.clone()).await;
    if let (Err(kube::Error::Api(status)), Some(metadata)) = (&answer, patch["metadata"].as_object_mut())
        && status.code == 409
        && !metadata.contains_key("finalizers")
    {
        metadata.remove("resourceVersion");
        return send(patch.clone()).await;
    }
    answer
}

/// The same for a patch with fields that users change too. After a conflict, `look` reads the object: the metadata with which to send the
/// patch again, or `None` if it would undo what a user has changed since it was planned. Then the conflict stays, and the plan is made
/// again.
async fn where_unmoved<T, R, L>(
    patch: &mut Value,
    send: impl Fn(Value) -> R,
    look: impl Fn() -> L,
) -> kube::Result<T>
where
    R: Future<Output = kube::Result<T>>,
    L: Future<Output = kube::Result<Option<serde_json::Map<String, Value>>>>,
{
    let mut answer = send(patch.clone()).await;
    for repetition in 1..=REPETITIONS {
        if !matches!(&answer, Err(kube::Error::Api(status)) if status.code == 409) {
            break;
        }
        let Some(now) = look().await? else { break };
        if let Some(metadata) = patch["metadata"].as_object_mut() {
            metadata.extend(now);
            if repetition == REPETITIONS {
                metadata.remove("resourceVersion");
            }
        }
        answer = send(patch.clone()).await;
    }
    answer
}

/// The object in whatever version it is.
fn of_any_version(version: &Version) -> Version {
    Version { uid: version.uid.clone(), resource_version: "".into() }
}

/// A version without a resource version stands for any version of the object.
fn delete_params(version: &Version) -> DeleteParams {
    let uid = Some(version.uid.to_string());
    let resource_version = Some(version.resource_version.to_string()).filter(|it| !it.is_empty());
    DeleteParams::background().preconditions(Preconditions { resource_version, uid })
}

fn post_params(dry_run: bool) -> PostParams {
    PostParams { dry_run, field_manager: Some(FIELD_MANAGER.into()) }
}

fn patch_params() -> PatchParams {
    PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..PatchParams::default() }
}
