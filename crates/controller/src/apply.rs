//! One write: an action becomes a request, and the answer becomes facts.
//!
//! Whatever exists is changed or deleted only in the state that the plan saw, by uid and resource version. Never retries
//! and never decides what to write.

mod structure;

use std::time::Duration;

use forest::plan::{Action, Content};
use forest::{Fact, Kind, KindId, Name, ObjectKey, Settings, Version};
use hns_runtime::{feed, ingest};
use kube::api::{DeleteParams, PatchParams, PostParams, Preconditions};
use kube::core::DynamicObject;
use kube::{Api, Client};
use serde_json::{Value, json};

/// Under which name the fields that are written are managed.
const FIELD_MANAGER: &str = "hns-controller";

/// What became of a write.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It was made; the facts say what is there now.
    Done(Vec<Fact>),
    /// There was nothing left to write to.
    Vacant,
    /// The object is not in the state that was planned for.
    Conflict,
    /// The API server could not; it may be able to later, and said how long to wait if it did.
    Transient(String, Option<Duration>),
    /// The API server would not.
    Refused(String),
}

impl Outcome {
    pub(crate) fn label(&self) -> &'static str {
        match self {
            Self::Done(_) => "done",
            Self::Vacant => "vacant",
            Self::Conflict => "conflict",
            Self::Transient(..) => "transient",
            Self::Refused(_) => "refused",
        }
    }
}

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
    pub(crate) async fn apply(&self, action: &Action) -> Outcome {
        let structure = structure::Structure { client: self.client, namespace: self.namespace };
        let written = match action {
            Action::Mark { version, labels, annotations } => {
                structure.mark(version, labels, annotations).await
            }
            Action::CreateHierarchy { spec, held, status } => {
                structure.create_hierarchy(spec.as_ref(), *held, status).await
            }
            Action::ChangeHierarchy { version, spec, finalizers, status } => {
                structure
                    .change_hierarchy(version, spec.as_ref(), finalizers.as_deref(), status.as_ref())
                    .await
            }
            Action::ChangeAnchor { child, version, finalizers, state } => {
                structure.change_anchor(child, version, finalizers.as_deref(), *state).await
            }
            Action::CreateSubnamespace { child, initial_admin } => {
                structure.create_subnamespace(child, initial_admin.as_deref()).await
            }
            Action::BindInitialAdmin { user, cluster_role } => {
                return structure.bind_initial_admin(user, cluster_role).await;
            }
            Action::DeleteSubnamespace { child, version } => {
                return structure.delete_subnamespace(child, version).await;
            }
            Action::Create { key, source, content } => self.create(key, source, content).await,
            Action::Replace { key, version, source, content } => {
                return self.replace(key, version, source, content).await;
            }
            Action::Delete { key, version } => self.delete(key, version).await,
        };
        conclude(written)
    }

    async fn create(&self, key: &ObjectKey, source: &Name, content: &Content) -> Result<Fact, kube::Error> {
        let kind = (self.kind)(key.kind);
        let manifest = content.0.manifest(&kind, self.namespace, &key.name, source, None);
        let object = serde_json::from_value(manifest).map_err(kube::Error::SerdeError)?;
        let created = self.objects(&kind).create(&post_params(false), &object).await?;
        Ok(self.seen(key.kind, &kind, created))
    }

    /// Replaces the object whole. What cannot be changed in place (a binding's roleRef) is created anew, if the API server
    /// says beforehand that it would accept it.
    async fn replace(&self, key: &ObjectKey, version: &Version, source: &Name, content: &Content) -> Outcome {
        let kind = (self.kind)(key.kind);
        let manifest = content.0.manifest(&kind, self.namespace, &key.name, source, Some(version));
        let replaced = match serde_json::from_value(manifest) {
            Ok(object) => {
                let object: DynamicObject = object;
                self.objects(&kind).replace(&key.name, &post_params(false), &object).await
            }
            Err(error) => Err(kube::Error::SerdeError(error)),
        };
        match replaced {
            Err(kube::Error::Api(status)) if status.code == 422 && kind.binds_subjects() => {
                self.recreate(&kind, key, version, source, content).await
            }
            replaced => conclude(replaced.map(|object| self.seen(key.kind, &kind, object))),
        }
    }

    async fn recreate(
        &self,
        kind: &Kind,
        key: &ObjectKey,
        version: &Version,
        source: &Name,
        content: &Content,
    ) -> Outcome {
        if let Err(error) = self.rehearse(kind, source, content).await {
            return conclude(Err(error));
        }
        let deleted = match conclude(self.delete(key, version).await) {
            Outcome::Done(facts) => facts,
            Outcome::Vacant => vec![],
            other => return other,
        };
        match conclude(self.create(key, source, content).await) {
            Outcome::Done(created) => Outcome::Done(deleted.into_iter().chain(created).collect()),
            other => other,
        }
    }

    /// Asks whether the object could be created, under a name that is not taken.
    async fn rehearse(&self, kind: &Kind, source: &Name, content: &Content) -> Result<(), kube::Error> {
        let mut manifest = content.0.manifest(kind, self.namespace, "", source, None);
        if let Some(metadata) = manifest["metadata"].as_object_mut() {
            metadata.remove("name");
            metadata.insert("generateName".into(), json!("hns-rehearsal-"));
        }
        let object: DynamicObject = serde_json::from_value(manifest).map_err(kube::Error::SerdeError)?;
        self.objects(kind).create(&post_params(true), &object).await.map(|_| ())
    }

    async fn delete(&self, key: &ObjectKey, version: &Version) -> Result<Fact, kube::Error> {
        let kind = (self.kind)(key.kind);
        let params = delete_params(version);
        let gone =
            || Fact::ObjectGone(key.kind, self.namespace.clone(), key.name.clone(), version.uid.clone());
        match self.objects(&kind).delete(&key.name, &params).await {
            Ok(deleted) => Ok(deleted.left().map_or_else(gone, |object| self.seen(key.kind, &kind, object))),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(gone()),
            Err(error) => Err(error),
        }
    }

    fn seen(&self, id: KindId, kind: &Kind, object: DynamicObject) -> Fact {
        let content = match object.data {
            Value::Object(fields) => Some(fields),
            _ => None,
        };
        Fact::Object(id, ingest::object(kind, self.settings, object.metadata, content))
    }

    fn objects(&self, kind: &Kind) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), self.namespace, &feed::api_resource(kind))
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

/// What an answer of the API server means.
fn conclude(written: Result<Fact, kube::Error>) -> Outcome {
    let status = match written {
        Ok(fact) => return Outcome::Done(vec![fact]),
        Err(kube::Error::Api(status)) => status,
        Err(error) => return Outcome::Transient(error.to_string(), None),
    };
    let details = status.details.as_ref();
    let terminating = details
        .is_some_and(|details| details.causes.iter().any(|cause| cause.reason == "NamespaceTerminating"));
    let wait = details.map(|details| Duration::from_secs(details.retry_after_seconds.into()));
    match status.code {
        404 => Outcome::Vacant,
        403 if terminating => Outcome::Vacant,
        409 => Outcome::Conflict,
        401 | 408 | 429 | 500.. => Outcome::Transient(status.message, wait.filter(|wait| !wait.is_zero())),
        _ => Outcome::Refused(status.message),
    }
}
