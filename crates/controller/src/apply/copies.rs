//! Writes of copies, of any kind.
//!
//! A copy is always written whole, and changed or deleted only in the state that the plan saw. What cannot be changed in
//! place is created anew, if the API server says beforehand that it would take it: nothing is deleted on a hope.
//!
//! Who owns which field of a copy is not kept where all of it is ours: such a copy that changes loses its `managedFields`, which
//! are half of many an object, and the API server need not work them out.

use forest::plan::Content;
use forest::{Fact, Kind, Name, ObjectFact, ObjectKey, Settings, Version, exclusion};
use hns_api::{annotations, names};
use hns_cluster::api::{Api, path_segment};
use hns_cluster::api_object::ApiObject;
use hns_cluster::{feed, ingest};
use kube::core::{Request, Status, request};
use kube::{Client, Resource};
use serde_json::{Value, json};

use super::outcome::{Asked, Outcome, WriteResult, is_not_found};
use super::{delete_params, post_params};

/// The beginning of the names under which creations are rehearsed. With the five characters that the API server adds it is
/// shorter than any kind's names have to be.
const REHEARSAL: &str = "hns-rehearsal-";
const ADDED: usize = 5;

/// Groups and kinds of which nobody else may write anything in a copy, because they have no status. Whoever applies the status of
/// another kind server-side would get conflicts if we forgot that it is theirs.
const OURS_ALONE: [(&str, &str); 6] = [
    ("", "ConfigMap"),
    ("", "LimitRange"),
    ("", "Secret"),
    ("networking.k8s.io", "NetworkPolicy"),
    ("rbac.authorization.k8s.io", "Role"),
    ("rbac.authorization.k8s.io", "RoleBinding"),
];

/// Writes one copy.
pub(super) struct CopyWriter<'a> {
    pub(super) client: &'a Client,
    pub(super) settings: &'a Settings,
    pub(super) namespace: &'a Name,
    pub(super) kind: Kind,
    pub(super) key: &'a ObjectKey,
}

/// What came of a dry run that the guard of copies must refuse.
pub(crate) enum ProbeResult {
    /// The guard has refused it.
    Refused,
    /// Nothing has.
    Accepted,
    /// It failed, as the write itself would.
    Failed(Outcome),
}

/// What has become of an object that was deleted.
enum Deleted {
    Gone(Fact),
    /// It is still there, until nobody holds it any more.
    Going(Fact, String),
}

impl CopyWriter<'_> {
    pub(super) async fn create(&self, source: &Name, content: &Content) -> WriteResult {
        match self.post(&self.key.name, source, content).await {
            Ok(object) => WriteResult::done(self.written(object, content)),
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => self.taken().await,
            Err(error) => self.asked("create").failure(error).into(),
        }
    }

    /// Admission comes before the API server looks whether there is an object of the name.
    pub(super) async fn probe(&self, source: &Name, content: &Content) -> ProbeResult {
        let mut manifest = content.0.manifest(&self.kind, self.namespace, &self.key.name, source, None);
        manifest["metadata"]["annotations"][annotations::GUARD_PROBE] = json!("true");
        match self.send(|request, body| request.create(&post_params(true), body), &manifest).await {
            Ok(_) => ProbeResult::Accepted,
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => ProbeResult::Accepted,
            Err(kube::Error::Api(status)) if is_by_a_guard(&status.message) => ProbeResult::Refused,
            Err(error) => ProbeResult::Failed(self.asked("create").failure(error)),
        }
    }

    pub(super) async fn replace(&self, version: &Version, source: &Name, content: &Content) -> WriteResult {
        match self.put(version, source, content).await {
            Ok(object) => WriteResult::done(self.written(object, content)),
            // Invalid: perhaps for what may not change, perhaps for what it is.
            Err(kube::Error::Api(status)) if status.code == 422 => {
                self.recreate(version, source, content, &status).await
            }
            Err(error) => self.asked("update").failure(error).into(),
        }
    }

    pub(super) async fn delete(&self, version: &Version) -> WriteResult {
        match self.remove(version).await {
            Ok(Deleted::Gone(fact) | Deleted::Going(fact, _)) => WriteResult::done([fact]),
            Err(error) => self.asked("delete").failure(error).into(),
        }
    }

    pub(super) async fn read(&self) -> WriteResult {
        match self.objects().get(&self.key.name).await {
            Ok(object) => WriteResult::done([self.fact(self.seen(object))]),
            Err(error) => self.asked("get").failure(error).into(),
        }
    }

    async fn recreate(
        &self,
        version: &Version,
        source: &Name,
        content: &Content,
        refused: &Status,
    ) -> WriteResult {
        if let Err(error) = self.rehearse(source, content).await {
            return match self.asked("create").failure(error) {
                Outcome::Refused(why) => Outcome::Refused(self.neither(&refused.message, &why)),
                other => other,
            }
            .into();
        }
        let gone = match self.remove(version).await {
            Ok(Deleted::Gone(fact)) => fact,
            Ok(Deleted::Going(fact, holders)) => {
                let why = format!(
                    "it can only be created anew, and the old one is being deleted, but held by the finalizers {holders}"
                );
                return WriteResult { outcome: Outcome::Blocked(why), facts: vec![fact] };
            }
            Err(error) => return self.asked("delete").failure(error).into(),
        };
        tracing::info!(
            namespace = %self.namespace, name = %self.key.name, kind = %self.kind,
            "deleted to be created anew: the API server does not let it be changed in place"
        );
        self.create(source, content).await.after(vec![gone])
    }

    /// Asks whether the object could be created, under a name that is not taken.
    ///
    /// A full quota refuses this too. It would refuse the real creation as well, for what a deletion gives back is counted
    /// some time later.
    async fn rehearse(&self, source: &Name, content: &Content) -> Result<(), kube::Error> {
        let mut manifest = content.0.manifest(&self.kind, self.namespace, "", source, None);
        if let Some(metadata) = manifest["metadata"].as_object_mut() {
            metadata.remove("name");
            metadata.insert("generateName".into(), json!(REHEARSAL));
        }
        self.send(|request, body| request.create(&post_params(true), body), &manifest).await.map(|_| ())
    }

    /// The name of the rehearsal is another one each time, and would make the same refusal look new.
    fn neither(&self, change: &str, creation: &str) -> String {
        let creation = without_rehearsal(creation, &self.key.name);
        if creation == change {
            return format!(
                "it stays as it is, because it can neither be changed nor created anew ({change})"
            );
        }
        format!(
            "it stays as it is, because it can neither be changed ({change}) nor created anew ({creation})"
        )
    }

    /// There is an object of this name that the forest does not know. What a watch will tell of is told now; what no watch
    /// tells of nobody will ever take for a copy or replace.
    async fn taken(&self) -> WriteResult {
        match self.objects().get(&self.key.name).await {
            Ok(object) => match left_out(&self.kind, &object) {
                Some(type_) => Outcome::Refused(format!(
                    "there is one of this name already in namespace {:?}, of type {type_:?}, which is never replaced; \
                     rename or delete one of the two",
                    &**self.namespace
                ))
                .into(),
                None => WriteResult { outcome: Outcome::Conflict, facts: vec![self.fact(self.seen(object))] },
            },
            Err(kube::Error::Api(status)) if is_not_found(&status, &self.key.name) => Outcome::Conflict.into(),
            Err(error) => self.asked("get").failure(error).into(),
        }
    }

    async fn post(&self, name: &str, source: &Name, content: &Content) -> Result<ApiObject, kube::Error> {
        let manifest = content.0.manifest(&self.kind, self.namespace, name, source, None);
        self.send(|request, body| request.create(&post_params(false), body), &manifest).await
    }

    async fn put(
        &self,
        version: &Version,
        source: &Name,
        content: &Content,
    ) -> Result<ApiObject, kube::Error> {
        let name = &self.key.name;
        let mut manifest = content.0.manifest(&self.kind, self.namespace, name, source, Some(version));
        if OURS_ALONE.contains(&(&*self.kind.group, &*self.kind.kind)) {
            // Kubernetes' way to clear the list; an empty one would leave it as it is.
            manifest["metadata"]["managedFields"] = json!([{}]);
        }
        self.send(|request, body| request.replace(&path_segment(name), &post_params(false), body), &manifest)
            .await
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
            Deleted::Gone(Fact::ObjectGone(key.kind, self.namespace.clone(), key.name.clone(), uid))
        };
        match self.objects().delete(&key.name, &delete_params(version)).await {
            Ok(deleted) => {
                Ok(deleted.left().and_then(|object| self.left_behind(object)).unwrap_or_else(gone))
            }
            Err(kube::Error::Api(status)) if is_not_found(&status, &key.name) => Ok(gone()),
            Err(error) => Err(error),
        }
    }

    /// For some kinds the API server answers with the object although it is gone; it stays only where something holds it.
    fn left_behind(&self, object: ApiObject) -> Option<Deleted> {
        let metadata = &object.metadata;
        let finalizers = metadata.finalizers.clone().unwrap_or_default();
        let lingers = metadata.deletion_grace_period_seconds.is_some_and(|seconds| seconds > 0);
        let stays = metadata.deletion_timestamp.is_some() && (!finalizers.is_empty() || lingers);
        stays.then(|| Deleted::Going(self.fact(self.seen(object)), finalizers.join(", ")))
    }

    /// What is known after the API server has taken `content` and answered with `object`. It may have completed it.
    fn written(&self, object: ApiObject, content: &Content) -> Vec<Fact> {
        let seen = self.seen(object);
        let given = content.digest();
        let is_other = seen.content.as_ref().is_some_and(|stored| stored.digest != given);
        let accepted = is_other
            .then(|| Fact::Accepted(self.namespace.clone(), self.key.clone(), seen.version.clone(), given));
        [self.fact(seen)].into_iter().chain(accepted).collect()
    }

    fn fact(&self, seen: ObjectFact) -> Fact {
        Fact::Object(self.key.kind, seen)
    }

    fn seen(&self, object: ApiObject) -> ObjectFact {
        ingest::object(&self.kind, self.settings, object.metadata, object.content)
    }

    fn asked(&self, verb: &'static str) -> Asked<'_> {
        Asked { verb, kind: &self.kind, namespace: self.namespace, name: &self.key.name }
    }

    fn objects(&self) -> Api<ApiObject> {
        Api::namespaced_with(self.client.clone(), self.namespace, &feed::api_resource(&self.kind))
    }
}

/// Whether a request was refused by what guards copies: the policy, or an entry of the webhook, which also refuses while the
/// webhook does not answer.
fn is_by_a_guard(message: &str) -> bool {
    let policy = format!("ValidatingAdmissionPolicy '{}'", names::policies::COPIES);
    let entries =
        [names::webhooks::OBJECTS, names::webhooks::TREE_OBJECTS].map(|name| format!("webhook \"{name}\""));
    message.contains(&policy) || entries.iter().any(|entry| message.contains(entry))
}

/// The type of a Secret that watches leave out, for which reason the forest does not know it.
fn left_out<'a>(kind: &Kind, object: &'a ApiObject) -> Option<&'a str> {
    let type_ = object.content.as_ref()?.get("type")?.as_str()?;
    let is_secret = kind.group.is_empty() && kind.kind == "Secret";
    (is_secret && exclusion::SECRET_TYPES.contains(&type_)).then_some(type_)
}

/// `text` with `name` wherever the name of a rehearsal stands.
fn without_rehearsal(text: &str, name: &str) -> String {
    let mut parts = text.split(REHEARSAL);
    let mut clean = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let added = part.chars().take(ADDED).take_while(char::is_ascii_alphanumeric).count();
        clean.push_str(name);
        clean.push_str(&part[added..]);
    }
    clean
}

#[cfg(test)]
mod tests;
