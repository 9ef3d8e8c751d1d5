//! The requests that write one copy.
//!
//! Copies of Accurate's API are updated by patches, which need no right to update. One that has nothing but its content is replaced
//! whole by a JSON patch. Others are applied server-side, so that what others may set stays; the rest of what others have set, or
//! what was created, is removed by a second request. Users may change these copies. A user could fill one up to the size
//! limit of objects, so that an apply, which only adds, does not fit any more; or hold a binding that must go by a finalizer. So where
//! an apply is refused, one patch removes everything else as well; and no finalizer holds a copy of a Role or a binding.

use forest::accurate::content::manifest;
use forest::plan::CopyContent;
use forest::{Fact, Name, Version};
use hns_cluster::api::{Api, path_segment};
use hns_cluster::api_object::ApiObject;
use hns_cluster::{feed, ingest};
use http::{HeaderValue, header};
use kube::Resource;
use kube::api::{Patch, PatchParams};
use kube::core::{Request, request};
use serde::Serialize;
use serde_json::{Value, json};

use super::super::outcome::{is_not_found, is_too_large};
use super::super::{accurate, delete_params, of_any_version, post_params, precondition};
use super::{CopyWriter, Form, NO_MANAGERS};

/// The state of an object after the API server accepted its deletion.
pub(super) enum Deleted {
    Gone(Box<Fact>),
    /// The object exists until its finalizers are removed or its grace period ends.
    Terminating(Box<ApiObject>),
}

impl CopyWriter<'_> {
    pub(super) async fn post(
        &self,
        name: &str,
        source: &Name,
        content: &CopyContent,
    ) -> Result<ApiObject, kube::Error> {
        let manifest = self.manifest(name, source, content, None);
        let params = match self.form {
            Form::Hnc => post_params(false),
            Form::Accurate => accurate::post_params(),
        };
        self.send(|request, body| request.create(&params, body), &manifest).await
    }

    pub(super) fn manifest(
        &self,
        name: &str,
        source: &Name,
        content: &CopyContent,
        version: Option<&Version>,
    ) -> Value {
        match self.form {
            Form::Hnc => content.0.manifest(&self.kind, self.namespace, name, source, version),
            Form::Accurate => manifest(&content.0, &self.kind, [&**self.namespace, name, &**source], version),
        }
    }

    pub(super) async fn put(
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
    pub(super) async fn freed(&self, version: &Version) -> Result<ApiObject, kube::Error> {
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

    pub(super) async fn send(
        &self,
        build: impl Fn(&Request, Vec<u8>) -> Result<http::Request<Vec<u8>>, request::Error>,
        manifest: &Value,
    ) -> Result<ApiObject, kube::Error> {
        let path = ApiObject::url_path(&feed::api_resource(&self.kind), Some(self.namespace));
        let body = serde_json::to_vec(manifest).map_err(kube::Error::SerdeError)?;
        let request = build(&Request::new(path), body).map_err(kube::Error::BuildRequest)?;
        self.client.request(request).await
    }

    pub(super) async fn remove(&self, version: &Version) -> Result<Deleted, kube::Error> {
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
    pub(super) async fn remove_finalizers(&self, object: &ApiObject) -> Result<Deleted, kube::Error> {
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

    pub(super) fn objects(&self) -> Api<ApiObject> {
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

pub(super) fn is_held(object: &ApiObject) -> bool {
    object.metadata.finalizers.as_ref().is_some_and(|finalizers| !finalizers.is_empty())
}

/// Whether an object in the response to its deletion still exists: for some kinds the API server responds with an object that no
/// longer does. It exists only if it has finalizers or a grace period.
pub(super) fn exists(object: &ApiObject) -> bool {
    let metadata = &object.metadata;
    let has_grace_period = metadata.deletion_grace_period_seconds.is_some_and(|seconds| seconds > 0);
    metadata.deletion_timestamp.is_some() && (is_held(object) || has_grace_period)
}
