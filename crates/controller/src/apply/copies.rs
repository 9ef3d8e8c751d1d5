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
//!
//! Copies of Accurate's API are updated by patches, which need no right to update. One that has nothing but its content is replaced
//! whole by a JSON patch. Others are applied server-side, so that what others may set stays; the rest of what others have set, or
//! what was created, is removed by a second request. Users may change these copies. A user could fill one up to the size
//! limit of objects, so that an apply, which only adds, does not fit any more; or hold a binding that must go by a finalizer. So where
//! an apply is refused, one patch removes everything else as well; and no finalizer holds a copy of a Role or a binding.

use std::collections::BTreeMap;
use std::sync::Arc;

use forest::accurate::content::manifest;
use forest::plan::CopyContent;
use forest::{Fact, Forest, Kind, Name, ObjectFact, ObjectKey, Settings, Version, exclusion};
use hns_api::{annotations, names};
use hns_cluster::api::{Api, path_segment};
use hns_cluster::api_object::ApiObject;
use hns_cluster::handle::ForestHandle;
use hns_cluster::{feed, ingest};
use http::{HeaderValue, header};
use kube::api::{Patch, PatchParams};
use kube::core::{Request, Status, request};
use kube::{Client, Resource};
use serde::Serialize;
use serde_json::{Value, json};

use super::outcome::{CopyRequest, Outcome, WriteResult, is_in_ending_namespace, is_not_found, is_too_large};
use super::{accurate, delete_params, of_any_version, post_params, precondition};

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

/// The state of an object after the API server accepted its deletion.
enum Deleted {
    Gone(Box<Fact>),
    /// The object exists until its finalizers are removed or its grace period ends.
    Terminating(Box<ApiObject>),
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
                let failed = self.failed("update", error).await;
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

    async fn post(&self, name: &str, source: &Name, content: &CopyContent) -> Result<ApiObject, kube::Error> {
        let manifest = self.manifest(name, source, content, None);
        let params = match self.form {
            Form::Hnc => post_params(false),
            Form::Accurate => accurate::post_params(),
        };
        self.send(|request, body| request.create(&params, body), &manifest).await
    }

    fn manifest(&self, name: &str, source: &Name, content: &CopyContent, version: Option<&Version>) -> Value {
        match self.form {
            Form::Hnc => content.0.manifest(&self.kind, self.namespace, name, source, version),
            Form::Accurate => manifest(&content.0, &self.kind, [&**self.namespace, name, &**source], version),
        }
    }

    async fn put(
        &self,
        version: &Version,
        source: &Name,
        content: &CopyContent,
    ) -> Result<ApiObject, kube::Error> {
        let mut manifest = self.manifest(&self.key.name, source, content, Some(version));
        if self.form == Form::Accurate && !(self.has_no_status() && self.bare) {
            let applied = self.patch(&accurate::apply_params(), &Patch::Apply(&manifest)).await;
            return match applied {
                Err(kube::Error::Api(status)) if status.code == 422 || is_too_large(&status.message) => {
                    Box::pin(self.overwritten(&manifest)).await
                }
                applied => self.without_surplus(applied?, source, content).await,
            };
        }
        if self.has_no_status() {
            manifest["metadata"]["managedFields"] = json!(NO_MANAGERS);
        }
        match self.form {
            Form::Hnc => self.update(&manifest).await,
            Form::Accurate => self.replace_whole(&manifest).await,
        }
    }

    /// An update by a JSON patch of the whole object, which needs no right to update.
    async fn replace_whole(&self, manifest: &Value) -> Result<ApiObject, kube::Error> {
        let patch = Patch::Merge(json!([{ "op": "replace", "path": "", "value": manifest }]));
        let mut request = self.patch_request(&accurate::update_params(), &patch)?;
        let content_type = HeaderValue::from_static("application/json-patch+json");
        request.headers_mut().insert(header::CONTENT_TYPE, content_type);
        self.client.request(request).await
    }

    async fn update(&self, manifest: &Value) -> Result<ApiObject, kube::Error> {
        let name = path_segment(&self.key.name);
        self.send(|request, body| request.replace(&name, &post_params(false), body), manifest).await
    }

    /// Removes what an applied copy has beside its content.
    async fn without_surplus(
        &self,
        applied: ApiObject,
        source: &Name,
        content: &CopyContent,
    ) -> Result<ApiObject, kube::Error> {
        let fact = self.object_fact(applied.clone());
        let known = fact.hop.and_then(|hop| hop.content).filter(|known| known.digest != content.digest());
        let Some(live) = known.and_then(|known| known.canonical) else { return Ok(applied) };
        let places = [&**self.namespace, &*self.key.name, &**source];
        let wanted = manifest(&content.0, &self.kind, places, None);
        let mut patch = difference(&manifest(&live, &self.kind, places, None), &wanted);
        let (uid, version) = (fact.version.uid, fact.version.resource_version);
        patch["metadata"]["uid"] = json!(uid);
        patch["metadata"]["resourceVersion"] = json!(version);
        self.patch(&accurate::update_params(), &Patch::Merge(patch)).await
    }

    /// Makes the object equal to the manifest, which has its version, without anything else that users may write.
    async fn overwritten(&self, manifest: &Value) -> Result<ApiObject, kube::Error> {
        let live = self.objects().get(&self.key.name).await?;
        let mut fields = live.content.map(|content| content.parse().0).unwrap_or_default();
        fields.remove("status");
        let mut live_json = Value::from(fields);
        let (labels, annotations) = (live.metadata.labels, live.metadata.annotations);
        live_json["metadata"] = json!({ "labels": labels, "annotations": annotations });
        let mut patch = difference(&live_json, manifest);
        for field in ["finalizers", "ownerReferences"] {
            patch["metadata"][field] = Value::Null;
        }
        patch["metadata"]["managedFields"] = json!(NO_MANAGERS);
        self.patch(&accurate::update_params(), &Patch::Merge(patch)).await
    }

    /// The object without finalizers and managers.
    async fn freed(&self, version: &Version) -> Result<ApiObject, kube::Error> {
        let mut metadata = precondition(version);
        metadata["finalizers"] = Value::Null;
        metadata["managedFields"] = json!(NO_MANAGERS);
        self.patch(&accurate::update_params(), &Patch::Merge(json!({ "metadata": metadata }))).await
    }

    async fn patch<T: Serialize>(
        &self,
        params: &PatchParams,
        patch: &Patch<T>,
    ) -> Result<ApiObject, kube::Error> {
        self.client.request(self.patch_request(params, patch)?).await
    }

    fn patch_request<T: Serialize>(
        &self,
        params: &PatchParams,
        patch: &Patch<T>,
    ) -> Result<http::Request<Vec<u8>>, kube::Error> {
        let url = ApiObject::url_path(&feed::api_resource(&self.kind), Some(self.namespace));
        let request = Request::new(url).patch(&path_segment(&self.key.name), params, patch);
        request.map_err(kube::Error::BuildRequest)
    }

    async fn send(
        &self,
        build: impl Fn(&Request, Vec<u8>) -> Result<http::Request<Vec<u8>>, request::Error>,
        manifest: &Value,
    ) -> Result<ApiObject, kube::Error> {
        let path = ApiObject::url_path(&feed::api_resource(&self.kind), Some(self.namespace));
        let body = serde_json::to_vec(manifest).map_err(kube::Error::SerdeError)?;
        let request = build(&Request::new(path), body).map_err(kube::Error::BuildRequest)?;
        self.client.request(request).await
    }

    async fn remove(&self, version: &Version) -> Result<Deleted, kube::Error> {
        let key = self.key;
        let gone = || {
            let uid = version.uid.clone();
            let gone = Fact::ObjectGone(key.kind, self.namespace.clone(), key.name.clone(), uid);
            Deleted::Gone(gone.into())
        };
        match self.objects().delete(&key.name, &delete_params(version)).await {
            Ok(deleted) => Ok(deleted
                .left()
                .filter(exists)
                .map_or_else(gone, |object| Deleted::Terminating(object.into()))),
            Err(kube::Error::Api(status)) if is_not_found(&status, &key.name) => Ok(gone()),
            Err(error) => Err(error),
        }
    }

    /// Removes the finalizers of an object that is being deleted and must be replaced: finalizers must not prevent the
    /// replacement. An update of the content would have removed them too. Where the API server accepts it, the request names no version.
    async fn remove_finalizers(&self, object: &ApiObject) -> Result<Deleted, kube::Error> {
        let key = self.key;
        let mut version = ingest::version(&object.metadata);
        if self.is_replaced_in_any_version() {
            version = of_any_version(&version);
        }
        let mut manifest = json!(object.content.as_ref().map(|content| content.parse().0));
        manifest["apiVersion"] = json!(feed::api_resource(&self.kind).api_version);
        manifest["kind"] = json!(self.kind.kind);
        manifest["metadata"] = precondition(&version);
        manifest["metadata"]["name"] = json!(&*key.name);
        manifest["metadata"]["namespace"] = json!(&**self.namespace);
        let left = if self.form == Form::Accurate {
            self.freed(&version).await?
        } else {
            self.update(&manifest).await?
        };
        if exists(&left) {
            return Ok(Deleted::Terminating(left.into()));
        }
        let gone = Fact::ObjectGone(key.kind, self.namespace.clone(), key.name.clone(), version.uid);
        Ok(Deleted::Gone(gone.into()))
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

    fn objects(&self) -> Api<ApiObject> {
        Api::namespaced_with(self.client.clone(), self.namespace, &feed::api_resource(&self.kind))
    }
}

/// The merge patch that makes `live` equal to `wanted`.
fn difference(live: &Value, wanted: &Value) -> Value {
    let (Value::Object(live), Value::Object(fields)) = (live, wanted) else { return wanted.clone() };
    let surplus = live.keys().filter(|key| !fields.contains_key(*key)).map(|key| (key.clone(), Value::Null));
    let changed = fields.iter().filter(|(key, value)| live.get(*key) != Some(value));
    let null = Value::Null;
    let changed =
        changed.map(|(key, value)| (key.clone(), difference(live.get(key).unwrap_or(&null), value)));
    surplus.chain(changed).collect()
}

fn is_held(object: &ApiObject) -> bool {
    object.metadata.finalizers.as_ref().is_some_and(|finalizers| !finalizers.is_empty())
}

/// Whether an object in the response to its deletion still exists: for some kinds the API server responds with an object that no
/// longer does. It exists only if it has finalizers or a grace period.
fn exists(object: &ApiObject) -> bool {
    let metadata = &object.metadata;
    let has_grace_period = metadata.deletion_grace_period_seconds.is_some_and(|seconds| seconds > 0);
    metadata.deletion_timestamp.is_some() && (is_held(object) || has_grace_period)
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
