//! One write: an action becomes a request, and the answer becomes facts.
//!
//! Whatever exists is changed or deleted only in the state that the plan saw, by uid and resource version. Never retries
//! and never decides what to write.

mod copies;
mod outcome;
mod structure;

use forest::plan::Action;
use forest::{Fact, Kind, KindId, Name, ObjectKey, Settings, Version, keys};
use hns_api::names::FIELD_MANAGER;
use kube::Client;
use kube::api::{DeleteParams, PatchParams, PostParams, Preconditions};
use serde_json::{Value, json};

use self::copies::CopyWriter;
pub(crate) use self::copies::ProbeResult;
pub(crate) use self::outcome::{Outcome, WriteResult, failure};
use self::structure::Structure;

/// Makes writes in one namespace.
pub(crate) struct Applier<'a> {
    pub(crate) client: &'a Client,
    pub(crate) namespace: &'a Name,
    pub(crate) kind: &'a (dyn Fn(KindId) -> Kind + Sync),
    pub(crate) settings: &'a Settings,
}

/// The name of an action, for counting.
pub(crate) fn action_label(action: &Action) -> &'static str {
    match action {
        Action::Mark { .. } => "mark-namespace",
        Action::CreateHierarchy { .. } => "create-hierarchy",
        Action::ChangeHierarchy { .. } => "change-hierarchy",
        Action::ChangeAnchor { .. } => "change-anchor",
        Action::CreateSubnamespace { .. } => "create-subnamespace",
        Action::BindInitialAdmin { .. } => "bind-initial-admin",
        Action::DeleteSubnamespace { .. } => "delete-subnamespace",
        Action::Create { .. } => "create-copy",
        Action::Replace { .. } => "replace-copy",
        Action::Delete { .. } => "delete-copy",
    }
}

impl Applier<'_> {
    pub(crate) async fn apply(&self, action: &Action) -> WriteResult {
        let structure = Structure { client: self.client, namespace: self.namespace };
        match action {
            Action::Mark { version, labels, annotations } => {
                structure.mark(version, labels, annotations).await.into()
            }
            Action::CreateHierarchy { spec, held, status } => {
                structure.create_hierarchy(spec.as_ref(), *held, status).await.into()
            }
            Action::ChangeHierarchy { version, spec, finalizers, status } => structure
                .change_hierarchy(version, spec.as_ref(), finalizers.as_deref(), status.as_ref())
                .await
                .into(),
            Action::ChangeAnchor { child, version, finalizers, state } => {
                let written = structure.change_anchor(child, version, finalizers.as_deref(), *state).await;
                match finalizers {
                    Some(finalizers) => self.unless_gone(written.into(), child, version, finalizers),
                    None => written.into(),
                }
            }
            Action::CreateSubnamespace { child, initial_admin } => {
                structure.create_subnamespace(child, initial_admin.as_deref()).await.into()
            }
            Action::BindInitialAdmin { user, cluster_role } => {
                structure.bind_initial_admin(user, cluster_role).await
            }
            Action::DeleteSubnamespace { child, version } => {
                structure.delete_subnamespace(child, version).await
            }
            Action::Create { key, source, content } => self.copy(key).create(source, content).await,
            Action::Replace { key, version, source, content } => {
                self.copy(key).replace(version, source, content).await
            }
            Action::Delete { key, version } => self.copy(key).delete(version).await,
        }
    }

    /// An anchor that is gone before it is held makes no namespace: what follows in the plan rests on it. The watch tells of one
    /// that was held, as an anchor that is being deleted; that ends when it is to be held no longer.
    fn unless_gone(
        &self,
        answer: WriteResult,
        child: &Name,
        version: &Version,
        finalizers: &[Box<str>],
    ) -> WriteResult {
        if answer.outcome != Outcome::NotFound {
            return answer;
        }
        let holds = finalizers.iter().any(|it| **it == *keys::ANCHOR_FINALIZER);
        let outcome = if holds { Outcome::Conflict } else { Outcome::NotFound };
        let gone = Fact::AnchorGone(self.namespace.clone(), child.clone(), version.uid.clone());
        WriteResult { outcome, facts: vec![gone] }
    }

    /// Asks whether users would be refused who did what this action does. Changes nothing.
    pub(crate) async fn probe(&self, action: &Action) -> ProbeResult {
        match action {
            Action::Create { key, source, content } | Action::Replace { key, source, content, .. } => {
                self.copy(key).probe(source, content).await
            }
            _ => ProbeResult::Refused,
        }
    }

    /// Reads an object of a propagated kind. One that is gone is left for the watch to tell of.
    pub(crate) async fn read(&self, key: &ObjectKey) -> WriteResult {
        self.copy(key).read().await
    }

    fn copy<'a>(&'a self, key: &'a ObjectKey) -> CopyWriter<'a> {
        let Self { client, namespace, settings, .. } = self;
        CopyWriter { client, settings, namespace, kind: (self.kind)(key.kind), key }
    }
}

fn precondition(version: &Version) -> Value {
    json!({ "uid": version.uid, "resourceVersion": version.resource_version })
}

fn delete_params(version: &Version) -> DeleteParams {
    let uid = Some(version.uid.to_string());
    let resource_version = Some(version.resource_version.to_string());
    DeleteParams::background().preconditions(Preconditions { resource_version, uid })
}

fn post_params(dry_run: bool) -> PostParams {
    PostParams { dry_run, field_manager: Some(FIELD_MANAGER.into()) }
}

fn patch_params() -> PatchParams {
    PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..PatchParams::default() }
}
