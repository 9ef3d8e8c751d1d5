//! Writes copies of any kind, in the form of either API.
//!
//! An update replaces the whole copy. If the API server does not allow the update, the controller deletes the copy and creates it
//! again, but only after a dry run shows that the creation will succeed. In a namespace that is being deleted, nothing can be created,
//! and the copy is only deleted, unless it restricts.
//!
//! A user's own `ResourceQuota` that becomes a copy is deleted and created again too, because its status may be forged.
//!
//! An update of a copy that only the controller writes clears its `managedFields`. They are half of many objects, and without them
//! the API server has less to compute.
//!
//! Each write names the version that was planned for. But users may change the `managedFields` of a copy, and its version with them.
//! If nothing else has changed when a write conflicts, the controller sends it again with the `uid` only. So nobody can delay it.

mod requests;

use std::collections::BTreeMap;
use std::sync::Arc;

use forest::plan::CopyContent;
use forest::{Fact, Forest, Kind, Name, ObjectFact, ObjectKey, Settings, Version, exclusion};
use hns_api::{annotations, names};
use hns_cluster::api_object::ApiObject;
use hns_cluster::handle::ForestHandle;
use hns_cluster::ingest;
use kube::Client;
use kube::core::Status;
use serde_json::json;

use self::requests::{Deleted, exists, is_held};
use super::outcome::{CopyRequest, Outcome, WriteResult, is_in_ending_namespace, is_not_found, is_too_large};
use super::{of_any_version, post_params};

/// The `generateName` of creations that are tried as a dry run. With the characters that the API server adds, it is short enough
/// for the names of every kind.
const DRY_RUN_NAME: &str = "hns-dry-run-";
const GENERATED_CHARACTERS: usize = 5;

/// One empty entry clears the `managedFields`; an empty list would leave them unchanged.
pub(super) const NO_MANAGERS: [BTreeMap<String, String>; 1] = [BTreeMap::new()];

/// Groups and kinds without a status: only the controller writes their copies, and the API server accepts a write without a version.
/// For other kinds, a controller that applies the status server-side needs its `managedFields`, or it gets conflicts.
const WITHOUT_STATUS: [(&str, &str); 6] = [
    ("", "ConfigMap"),
    ("", "LimitRange"),
    ("", "Secret"),
    ("networking.k8s.io", "NetworkPolicy"),
    ("rbac.authorization.k8s.io", "Role"),
    ("rbac.authorization.k8s.io", "RoleBinding"),
];

/// The API whose copies are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Hnc,
    Accurate,
}

/// Writes one copy.
pub(super) struct CopyWriter<'a> {
    pub(super) form: Form,
    pub(super) client: &'a Client,
    pub(super) forest: &'a ForestHandle,
    /// Those of HNC, and those of Accurate's API if it is enabled.
    pub(super) settings: (Arc<Settings>, Option<Arc<forest::accurate::Settings>>),
    pub(super) namespace: &'a Name,
    pub(super) kind: Kind,
    pub(super) key: &'a ObjectKey,
    /// Whether the existing object is a copy of Accurate's API that has nothing of anybody else.
    pub(super) bare: bool,
    /// Whether the existing object is a user's own `ResourceQuota`. Its user may have recorded less usage than there is, and
    /// Kubernetes counts anew only when the limits change.
    pub(super) claims_usage: bool,
}

/// The result of a dry run that the policy or the webhook must refuse.
pub(crate) enum ProbeResult {
    /// The policy or the webhook refused it.
    Refused,
    /// The API server accepted it, so copies are not guarded.
    Accepted,
    /// It failed for another reason, as the write itself would.
    Failed(Outcome),
}

impl CopyWriter<'_> {
    pub(super) async fn create(&self, source: &Name, content: &CopyContent) -> WriteResult {
        match self.post(&self.key.name, source, content).await {
            Ok(object) => WriteResult::done(self.written(object, content)),
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => self.existing().await,
            Err(error) => self.request("create").outcome(error).into(),
        }
    }

    /// Admission runs before the API server checks whether the name exists, so `AlreadyExists` means that admission accepted it.
    pub(super) async fn probe(&self, source: &Name, content: &CopyContent) -> ProbeResult {
        let mut manifest = content.0.manifest(&self.kind, self.namespace, &self.key.name, source, None);
        manifest["metadata"]["annotations"][annotations::GUARD_PROBE] = json!("true");
        match self.send(|request, body| request.create(&post_params(true), body), &manifest).await {
            Ok(_) => ProbeResult::Accepted,
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => ProbeResult::Accepted,
            Err(kube::Error::Api(status)) if is_guard_refusal(&status.message) => ProbeResult::Refused,
            Err(error) => ProbeResult::Failed(self.request("create").outcome(error)),
        }
    }

    pub(super) async fn replace(
        &self,
        version: &Version,
        source: &Name,
        content: &CopyContent,
    ) -> WriteResult {
        if self.claims_usage && self.try_create(source, content).await.is_ok() {
            return Box::pin(self.delete_and_create(version, source, content)).await;
        }
        match self.put(version, source, content).await {
            // The object was being deleted, and the replacement removed its finalizers too.
            Ok(object) if object.metadata.deletion_timestamp.is_some() && !exists(&object) => {
                let key = self.key;
                let gone =
                    Fact::ObjectGone(key.kind, self.namespace.clone(), key.name.clone(), version.uid.clone());
                WriteResult { outcome: Outcome::Conflict, facts: vec![gone] }
            }
            Ok(object) => WriteResult::done(self.written(object, content)),
            // Invalid: either a field is immutable, or the content itself is invalid.
            Err(kube::Error::Api(status)) if status.code == 422 => {
                self.recreate(version, source, content, &status).await
            }
            Err(error) => {
                let verb = if self.form == Form::Accurate { "patch" } else { "update" };
                let failed = self.failed(verb, error).await;
                if self.is_replaced_in_any_version() && self.is_replacement_held_up(&failed, version) {
                    return Box::pin(self.replace(&of_any_version(version), source, content)).await;
                }
                failed
            }
        }
    }

    pub(super) async fn delete(&self, version: &Version) -> WriteResult {
        let removed = match self.remove(version).await {
            // It gives access until it is gone.
            Ok(Deleted::Terminating(object)) if self.kind.is_rbac() && is_held(&object) => {
                Box::pin(self.remove_finalizers(&object)).await
            }
            // The API server adds the time of the deletion to an object with finalizers.
            Err(kube::Error::Api(status))
                if self.form == Form::Accurate && self.kind.is_rbac() && is_too_large(&status.message) =>
            {
                match Box::pin(self.freed(version)).await {
                    Ok(freed) => Box::pin(self.remove(&ingest::version(&freed.metadata))).await,
                    Err(error) => Err(error),
                }
            }
            removed => removed,
        };
        match removed {
            Ok(Deleted::Gone(fact)) => WriteResult::done([*fact]),
            Ok(Deleted::Terminating(object)) => WriteResult::done([self.fact(self.object_fact(*object))]),
            Err(error) => {
                let failed = self.failed("delete", error).await;
                if self.is_held_up(&failed, version) {
                    return Box::pin(self.delete(&of_any_version(version))).await;
                }
                failed
            }
        }
    }

    /// Whether the deletion of a copy failed only because somebody has changed its version.
    ///
    /// Nobody else can change the content of HNC's copies. Users may change the copies of Accurate's API, and may do so
    /// in a loop. That must not delay the removal of a binding or of a restriction.
    fn is_held_up(&self, failed: &WriteResult, version: &Version) -> bool {
        let Some(found) = only_version_differs(failed, version) else { return false };
        match self.form {
            Form::Hnc => found.content.as_ref().is_some_and(|content| {
                let would_lose =
                    |forest: &Forest| forest.would_overwrite(self.namespace, self.key, content.digest);
                found.inherited_from.is_some() && !self.forest.read(would_lose)
            }),
            Form::Accurate => {
                (self.kind.is_rbac() || self.kind.restricts())
                    && found.hop.as_ref().is_some_and(|hop| hop.from.is_some())
            }
        }
    }

    /// The same for a replacement. A restriction replaces users' own objects too, whatever users change in these meanwhile.
    fn is_replacement_held_up(&self, failed: &WriteResult, version: &Version) -> bool {
        self.is_held_up(failed, version)
            || self.kind.restricts() && only_version_differs(failed, version).is_some()
    }

    /// Whether the API server accepts an update of this kind without a version, and access or restrictions depend on it.
    fn is_replaced_in_any_version(&self) -> bool {
        self.has_no_status() || self.kind.restricts()
    }

    fn has_no_status(&self) -> bool {
        WITHOUT_STATUS.contains(&(&*self.kind.group, &*self.kind.kind))
    }

    /// The result of a failed write of an object that the forest knows. After a conflict the object is read: the watch may not
    /// report it before the next attempt.
    async fn failed(&self, verb: &'static str, error: kube::Error) -> WriteResult {
        match self.request(verb).outcome(error) {
            Outcome::Conflict => self.existing().await,
            other => other.into(),
        }
    }

    pub(super) async fn read(&self) -> WriteResult {
        match self.objects().get(&self.key.name).await {
            Ok(object) => WriteResult::done([self.fact(self.object_fact(object))]),
            Err(error) => self.request("get").outcome(error).into(),
        }
    }

    async fn recreate(
        &self,
        version: &Version,
        source: &Name,
        content: &CopyContent,
        refused: &Status,
    ) -> WriteResult {
        if let Err(error) = self.try_create(source, content).await {
            // It goes with its namespace in any case. Until then it would give what its source does not, unless it restricts.
            if matches!(&error, kube::Error::Api(status) if is_in_ending_namespace(status)) {
                return if self.kind.restricts() {
                    Outcome::Refused(update_refused(&refused.message)).into()
                } else {
                    Box::pin(self.delete(version)).await
                };
            }
            return match self.request("create").outcome(error) {
                Outcome::Refused(why) => Outcome::Refused(self.both_refused(&refused.message, &why)),
                other => other,
            }
            .into();
        }
        self.delete_and_create(version, source, content).await
    }

    async fn delete_and_create(
        &self,
        version: &Version,
        source: &Name,
        content: &CopyContent,
    ) -> WriteResult {
        let mut removed = self.remove(version).await;
        if let Ok(Deleted::Terminating(object)) = &removed
            && is_held(object)
        {
            removed = self.remove_finalizers(object).await;
        }
        let gone = match removed {
            Ok(Deleted::Gone(fact)) => *fact,
            Ok(Deleted::Terminating(object)) => {
                let why =
                    "it must be deleted and created again, and the old one is still being deleted".to_owned();
                let facts = vec![self.fact(self.object_fact(*object))];
                return WriteResult { outcome: Outcome::Transient(why, None), facts };
            }
            Err(error) => {
                let failed = self.failed("delete", error).await;
                if self.is_replacement_held_up(&failed, version) {
                    return Box::pin(self.delete_and_create(&of_any_version(version), source, content)).await;
                }
                return failed;
            }
        };
        tracing::info!(
            namespace = %self.namespace, name = %self.key.name, kind = %self.kind,
            "deleted an object to create it again as a copy"
        );
        self.create(source, content).await.after(vec![gone])
    }

    /// Tries the creation under an unused name, as a dry run.
    ///
    /// A full quota refuses this. It would also refuse the real creation, because the quota counts a deletion some time later.
    async fn try_create(&self, source: &Name, content: &CopyContent) -> Result<(), kube::Error> {
        let mut manifest = self.manifest("", source, content, None);
        if let Some(metadata) = manifest["metadata"].as_object_mut() {
            metadata.remove("name");
            metadata.insert("generateName".into(), json!(DRY_RUN_NAME));
        }
        self.send(|request, body| request.create(&post_params(true), body), &manifest).await.map(|_| ())
    }

    /// The text of two refusals. The generated name changes each time, and would make the same refusal look new.
    fn both_refused(&self, change: &str, creation: &str) -> String {
        let creation = with_name(creation, &self.key.name);
        if creation == change {
            return format!(
                "it stays unchanged, because the API server refuses both its update and its creation ({change})"
            );
        }
        format!(
            "it stays unchanged, because the API server refuses both its update ({change}) and its creation ({creation})"
        )
    }

    /// The result when an object of this name exists in a state that the forest does not know. The namespace is planned again with it. The watches leave out some Secrets; the controller never replaces those.
    async fn existing(&self) -> WriteResult {
        match self.objects().get(&self.key.name).await {
            Ok(object) => match unwatched_type(&self.kind, &object) {
                Some(type_) => Outcome::Refused(format!(
                    "namespace {:?} has an object of this name and of type {type_:?}, which is never replaced; rename or \
                     delete one of the two",
                    &**self.namespace
                ))
                .into(),
                None => WriteResult { outcome: Outcome::Conflict, facts: vec![self.fact(self.object_fact(object))] },
            },
            Err(kube::Error::Api(status)) if is_not_found(&status, &self.key.name) => Outcome::Conflict.into(),
            Err(error) => self.request("get").outcome(error).into(),
        }
    }

    /// The facts after the API server accepted `content` and responded with `object`. It may have added defaults.
    fn written(&self, object: ApiObject, content: &CopyContent) -> Vec<Fact> {
        let stored = self.object_fact(object);
        let written = content.digest();
        let compared = match self.form {
            Form::Hnc => stored.content.as_ref(),
            Form::Accurate => stored.hop.as_ref().and_then(|hop| hop.content.as_ref()),
        };
        let differs = compared.is_some_and(|content| content.digest != written);
        let accepted = differs.then(|| {
            Fact::Accepted(self.namespace.clone(), self.key.clone(), stored.version.clone(), written)
        });
        [self.fact(stored)].into_iter().chain(accepted).collect()
    }

    fn fact(&self, object: ObjectFact) -> Fact {
        Fact::Object(self.key.kind, object)
    }

    fn object_fact(&self, object: ApiObject) -> ObjectFact {
        let (settings, accurate) = &self.settings;
        ingest::api_object(&self.kind, (settings, accurate.as_deref()), object)
    }

    fn request(&self, verb: &'static str) -> CopyRequest<'_> {
        CopyRequest { verb, kind: &self.kind, namespace: self.namespace, name: &self.key.name }
    }
}

/// Whether the policy or the webhook that guard copies refused the request. The API server also refuses it while the webhook does
/// not respond. A user chooses the name of the object, and another plugin may repeat a text of a user, so only the words of the API
/// server before that count.
fn is_guard_refusal(message: &str) -> bool {
    let webhook = names::webhooks::COPIES;
    let by_webhook = ["admission webhook", "Internal error occurred: failed calling webhook"]
        .map(|begin| format!("{begin} \"{webhook}\""));
    let by_policy = format!(" is forbidden: ValidatingAdmissionPolicy '{}' ", names::policies::COPIES);
    by_webhook.iter().any(|it| message.starts_with(it))
        || after_quoted(message).is_some_and(|rest| rest.starts_with(&by_policy))
}

/// The text after the first text in quotation marks, in which a backslash is before each quotation mark.
fn after_quoted(message: &str) -> Option<&str> {
    let (_, quoted) = message.split_once('"')?;
    let mut is_escaped = false;
    let end = quoted.find(|sign| {
        let ends = sign == '"' && !is_escaped;
        is_escaped = sign == '\\' && !is_escaped;
        ends
    })?;
    Some(&quoted[end + 1..])
}

/// The type of a Secret that the watches leave out, so that the forest does not know it.
fn unwatched_type(kind: &Kind, object: &ApiObject) -> Option<&'static str> {
    let is_secret = kind.group.is_empty() && kind.kind == "Secret";
    let (content, _) = object.content.as_ref().filter(|_| is_secret)?.parse();
    let type_ = content.get("type")?.as_str()?;
    exclusion::SECRET_TYPES.into_iter().find(|it| *it == type_)
}

/// `text` with `name` in place of each generated name.
fn with_name(text: &str, name: &str) -> String {
    let mut parts = text.split(DRY_RUN_NAME);
    let mut clean = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let generated =
            part.chars().take(GENERATED_CHARACTERS).take_while(char::is_ascii_alphanumeric).count();
        clean.push_str(name);
        clean.push_str(&part[generated..]);
    }
    clean
}

fn update_refused(refusal: &str) -> String {
    format!("it stays unchanged, because the API server refuses its update ({refusal})")
}

/// The object that a conflict with the named version has found, if it is the same object in another version.
fn only_version_differs<'a>(failed: &'a WriteResult, version: &Version) -> Option<&'a ObjectFact> {
    let [Fact::Object(_, found)] = &*failed.facts else { return None };
    let is_same = failed.outcome == Outcome::Conflict && found.version.uid == version.uid;
    (is_same && !version.resource_version.is_empty()).then_some(found)
}

#[cfg(test)]
mod tests;
