//! Writes namespaces, `HierarchyConfigurations`, anchors, and the binding of an initial admin.
//!
//! Users write the same objects, so a patch contains only the fields that the controller owns.

use std::future::ready;

use forest::hnc;
use forest::plan::{Edit, SubnamespaceSpec};
use forest::{AnchorState, Fact, HierarchyStatus, Labels, Name, Version, keys};
use hns_api::names::HIERARCHY_CONFIGURATION;
use hns_api::{API_VERSION, HierarchyConfiguration, SubnamespaceAnchor, labels};
use hns_cluster::api::Api;
use hns_cluster::handle::ForestHandle;
use hns_cluster::ingest;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::RoleBinding;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use kube::api::Patch;
use kube::core::{DynamicObject, PartialObjectMeta};
use kube::{Client, CustomResourceExt};
use serde_json::{Value, json};

use super::copies::NO_MANAGERS;
use super::outcome::{Outcome, WriteResult, is_not_found, is_refusal, is_too_large};
use super::{
    REPETITIONS, accurate, delete_params, despite_changes, of_any_version, patch_params, post_params,
    precondition, where_unmoved,
};
use crate::definitions;

const RBAC: &str = "rbac.authorization.k8s.io";

/// Sends a merge patch once more if the `answer` to it is that the object is too large.
///
/// A user can fill an object by applying its fields as many field managers; policies limit its other parts. So the patch then clears
/// the record of what managers own, except for `kept`.
async fn if_too_large<T, R>(
    (object, answer): (String, kube::Result<T>),
    patch: &mut Value,
    send: impl Fn(Patch<Value>) -> R,
    kept: impl Future<Output = Result<Value, kube::Error>>,
) -> Result<T, kube::Error>
where
    R: Future<Output = Result<T, kube::Error>>,
{
    match answer {
        Err(kube::Error::Api(status)) if is_too_large(&status.message) => {
            let reason = status.message;
            tracing::warn!(
                object,
                reason,
                "the object is too large to be changed; its managedFields are cleared"
            );
            patch["metadata"]["managedFields"] = kept.await?;
            send(Patch::Merge(patch.clone())).await
        }
        other => other,
    }
}

/// Writes the structure of one namespace.
pub(super) struct StructureWriter<'a> {
    pub(super) client: &'a Client,
    pub(super) namespace: &'a Name,
}

impl StructureWriter<'_> {
    /// Users choose some labels and annotations, and can fill the annotations, which the API server limits. What it refuses must not
    /// keep out the rest, which may restrict. So a refused patch is sent again in two halves.
    pub(super) async fn patch_namespace(
        &self,
        version: &Version,
        labels: &Edit,
        annotations: &Edit,
    ) -> WriteResult {
        let whole = match self.try_to_patch(version, labels, annotations).await {
            Err(kube::Error::Api(status)) if is_refusal(&status) => status,
            other => return other.into(),
        };
        let mut facts = Vec::new();
        if labels.len() + annotations.len() > 1 {
            let version = of_any_version(version);
            for (labels, annotations) in halves(labels, annotations) {
                let half = self.patch_namespace(&version, &labels, &annotations);
                facts.extend(Box::pin(half).await.facts);
            }
        }
        WriteResult { outcome: kube::Error::Api(whole).into(), facts }
    }

    async fn try_to_patch(
        &self,
        version: &Version,
        labels: &Edit,
        annotations: &Edit,
    ) -> Result<Fact, kube::Error> {
        let mut metadata = precondition(version);
        for (field, edit) in [("labels", labels), ("annotations", annotations)] {
            if !edit.is_empty() {
                metadata[field] = json!(edit.set);
                for key in &edit.remove {
                    metadata[field][key] = Value::Null;
                }
            }
        }
        let api = Api::<PartialObjectMeta<Namespace>>::all(self.client.clone());
        let send = |patch| {
            let api = &api;
            async move { api.patch_metadata(self.namespace, &patch_params(), &patch).await }
        };
        let mut patch = json!({ "metadata": metadata });
        let kept = accurate::managers_of(self.client, self.namespace);
        let answer = despite_changes(&mut patch, |patch| send(Patch::Merge(patch))).await;
        let object = format!("Namespace {}", self.namespace);
        let patched = if_too_large((object, answer), &mut patch, send, kept).await?;
        Ok(Fact::Namespace(ingest::namespace(&patched.metadata)))
    }

    pub(super) async fn create_hierarchy(
        &self,
        spec: Option<&SubnamespaceSpec>,
        with_finalizer: bool,
        status: &HierarchyStatus,
    ) -> Result<Fact, kube::Error> {
        let mut metadata = json!({ "name": HIERARCHY_CONFIGURATION, "namespace": &**self.namespace });
        if with_finalizer {
            metadata["finalizers"] = json!([keys::HIERARCHY_FINALIZER]);
        }
        // HNC's clients expect the key `spec`.
        let object = json!({
            "apiVersion": API_VERSION,
            "kind": "HierarchyConfiguration",
            "metadata": metadata,
            "spec": spec.map_or_else(|| json!({}), spec_json),
            "status": status_json(status),
        });
        let object = serde_json::from_value(object).map_err(kube::Error::SerdeError)?;
        let created = self.hierarchies().create(&post_params(false), &object).await?;
        Ok(hierarchy_fact(created))
    }

    pub(super) async fn change_hierarchy(
        &self,
        version: &Version,
        spec: Option<&SubnamespaceSpec>,
        finalizers: Option<&[Box<str>]>,
        status: Option<&HierarchyStatus>,
    ) -> Result<Fact, kube::Error> {
        let mut patch = json!({ "metadata": metadata_json(version, finalizers) });
        if let Some(spec) = spec {
            patch["spec"] = spec_json(spec);
        }
        if let Some(status) = status {
            patch["status"] = status_json(status);
        }
        let api = self.hierarchies();
        let send = |patch| {
            let api = &api;
            async move { api.patch(HIERARCHY_CONFIGURATION, &patch_params(), &patch).await }
        };
        let merge = |patch| send(Patch::Merge(patch));
        let answer = match spec.filter(|_| finalizers.is_none()) {
            // Meanwhile it may be released, and have another parent.
            Some(spec) => {
                let look = || async {
                    let live = api.get(HIERARCHY_CONFIGURATION).await?;
                    let is_below = live.data["spec"]["parent"] == *spec.parent;
                    let named = ("resourceVersion".to_owned(), json!(live.metadata.resource_version));
                    Ok(is_below.then(|| [named].into_iter().collect()))
                };
                where_unmoved(&mut patch, merge, look).await
            }
            None => despite_changes(&mut patch, merge).await,
        };
        let object = format!("HierarchyConfiguration {}/{HIERARCHY_CONFIGURATION}", self.namespace);
        let none_kept = ready(Ok(json!(NO_MANAGERS)));
        Ok(hierarchy_fact(if_too_large((object, answer), &mut patch, send, none_kept).await?))
    }

    pub(super) async fn change_anchor(
        &self,
        child: &str,
        version: &Version,
        finalizers: Option<&[Box<str>]>,
        state: Option<AnchorState>,
    ) -> Result<Fact, kube::Error> {
        let mut patch = json!({ "metadata": metadata_json(version, finalizers) });
        if let Some(state) = state {
            patch["status"] = json!({ "status": state.as_str() });
        }
        let api = self.anchors();
        let send = |patch| {
            let api = &api;
            async move { api.patch(child, &patch_params(), &patch).await }
        };
        let object = format!("SubnamespaceAnchor {}/{child}", self.namespace);
        let answer = despite_changes(&mut patch, |patch| send(Patch::Merge(patch))).await;
        let none_kept = ready(Ok(json!(NO_MANAGERS)));
        let patched = if_too_large((object, answer), &mut patch, send, none_kept).await?;
        let gone = is_gone(&patched.metadata);
        let (namespace, anchor) = ingest::anchor(patched);
        Ok(if gone {
            Fact::Hnc(hnc::Fact::AnchorGone(namespace, anchor.name, anchor.version.uid))
        } else {
            Fact::Hnc(hnc::Fact::Anchor(namespace, anchor))
        })
    }

    /// The new namespace has the included label from the start. Its own plan adds the rest.
    pub(super) async fn create_subnamespace(
        &self,
        child: &str,
        initial_admin: Option<&str>,
    ) -> Result<Fact, kube::Error> {
        let mut object = json!({
            "metadata": {
                "name": child,
                "annotations": { keys::SUBNAMESPACE_OF: &**self.namespace },
                "labels": { labels::INCLUDED_NAMESPACE: labels::TRUE },
            }
        });
        if let Some(user) = initial_admin {
            object["metadata"]["annotations"][keys::INITIAL_ADMIN] = json!(user);
        }
        let object = serde_json::from_value(object).map_err(kube::Error::SerdeError)?;
        let created = Api::<Namespace>::all(self.client.clone()).create(&post_params(false), &object).await?;
        tracing::info!(parent = %self.namespace, child, "created a subnamespace");
        Ok(Fact::Namespace(ingest::namespace(&created.metadata)))
    }

    /// An existing binding of this name stays as it is: users may have changed it.
    pub(super) async fn bind_initial_admin(&self, user: &str, cluster_role: &str) -> WriteResult {
        let object = json!({
            "metadata": {
                "name": format!("{}{}", keys::INITIAL_ADMIN_BINDING, self.namespace),
                "namespace": &**self.namespace,
            },
            "roleRef": { "apiGroup": RBAC, "kind": "ClusterRole", "name": cluster_role },
            "subjects": [{ "apiGroup": RBAC, "kind": "User", "name": user }],
        });
        let object = match serde_json::from_value(object) {
            Ok(object) => object,
            Err(error) => return kube::Error::SerdeError(error).into(),
        };
        let api = Api::<RoleBinding>::namespaced(self.client.clone(), self.namespace);
        match api.create(&post_params(false), &object).await {
            Ok(_) => {
                tracing::info!(namespace = %self.namespace, user, cluster_role, "bound the initial admin");
                WriteResult::done([])
            }
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => WriteResult::done([]),
            Err(error) => error.into(),
        }
    }

    /// When the CRD is being deleted, its anchors are too, and their subnamespaces must stay.
    pub(super) async fn delete_subnamespace(&self, child: &Name, version: &Version) -> WriteResult {
        match definitions::read(self.client).await {
            Ok(forest::CrdState::Present) => {}
            Ok(deleted) => return WriteResult::done([Fact::Hnc(hnc::Fact::Crds(deleted))]),
            Err(error) => return error.into(),
        }
        let parent_of = |it: &ObjectMeta| it.annotations.as_ref()?.get(keys::SUBNAMESPACE_OF).cloned();
        delete_child(self.client, (self.namespace, child), version, parent_of).await.into()
    }

    /// Whether cascading deletion is still forbidden for a subnamespace that its anchor leaves behind. It may have been allowed just
    /// before the anchor was deleted, and the two watches are not in order.
    pub(super) async fn is_released_as_said(
        &self,
        forest: &ForestHandle,
        child: &Name,
    ) -> Result<(), WriteResult> {
        let fate = forest.read(|forest| forest.fate_without_anchor(self.namespace, child));
        let Some((ancestry, allowed)) = fate else { return Ok(()) };
        // The plan is older than the forest.
        if allowed {
            return Err(Outcome::Conflict.into());
        }
        for name in ancestry {
            let hierarchies = StructureWriter { client: self.client, namespace: &name }.hierarchies();
            let Some(live) = hierarchies.get_opt(HIERARCHY_CONFIGURATION).await? else { continue };
            let (name, live) = ingest::hierarchy(live);
            if live.allow_cascading_deletion {
                let facts = vec![Fact::Hnc(hnc::Fact::Hierarchy(name, live))];
                return Err(WriteResult { outcome: Outcome::Conflict, facts });
            }
        }
        Ok(())
    }

    fn anchors(&self) -> Api<DynamicObject> {
        let resource = SubnamespaceAnchor::api_resource();
        Api::namespaced_with(self.client.clone(), self.namespace, &resource)
    }

    fn hierarchies(&self) -> Api<DynamicObject> {
        let resource = HierarchyConfiguration::api_resource();
        Api::namespaced_with(self.client.clone(), self.namespace, &resource)
    }
}

/// Deletes the namespace of an anchor or of a `SubNamespace`. After a conflict it is deleted in its present version, if it still names
/// this parent.
pub(super) async fn delete_child(
    client: &Client,
    (parent, child): (&Name, &Name),
    version: &Version,
    parent_of: fn(&ObjectMeta) -> Option<String>,
) -> Result<Fact, kube::Error> {
    let api = Api::<Namespace>::all(client.clone());
    let gone = || Fact::NamespaceGone(child.clone(), version.uid.clone());
    let mut deleted = api.delete(child, &delete_params(version)).await;
    for attempt in 1..=REPETITIONS {
        if !matches!(&deleted, Err(kube::Error::Api(status)) if status.code == 409) {
            break;
        }
        let Some(live) = api.get_metadata_opt(child).await? else { return Ok(gone()) };
        let now = ingest::version(&live.metadata);
        if now.uid != version.uid || parent_of(&live.metadata).is_none_or(|it| *it != **parent) {
            break;
        }
        let now = if attempt < REPETITIONS { now } else { of_any_version(&now) };
        deleted = api.delete(child, &delete_params(&now)).await;
    }
    match deleted {
        Ok(deleted) => {
            tracing::info!(%parent, %child, "deleted the namespace of an anchor or a SubNamespace with it");
            Ok(deleted.left().map_or_else(gone, |it| Fact::Namespace(ingest::namespace(&it.metadata))))
        }
        Err(kube::Error::Api(status)) if is_not_found(&status, child) => Ok(gone()),
        Err(error) => Err(error),
    }
}

/// Two parts of several changes: the labels and the annotations, or two halves of either.
fn halves(labels: &Edit, annotations: &Edit) -> [(Edit, Edit); 2] {
    let nothing = Edit::default;
    if annotations.is_empty() {
        half(labels).map(|labels| (labels, nothing()))
    } else if labels.is_empty() {
        half(annotations).map(|annotations| (nothing(), annotations))
    } else {
        [(labels.clone(), nothing()), (nothing(), annotations.clone())]
    }
}

fn half(edit: &Edit) -> [Edit; 2] {
    let (mut first, mut second) = (Edit::default(), edit.clone());
    while first.len() < second.len() {
        match second.set.pop_first() {
            Some((key, value)) => drop(first.set.insert(key, value)),
            None => first.remove.extend(second.remove.pop_first()),
        }
    }
    [first, second]
}

fn hierarchy_fact(object: DynamicObject) -> Fact {
    let gone = is_gone(&object.metadata);
    let (namespace, fact) = ingest::hierarchy(object);
    if gone {
        Fact::Hnc(hnc::Fact::HierarchyGone(namespace, fact.version.uid))
    } else {
        Fact::Hnc(hnc::Fact::Hierarchy(namespace, fact))
    }
}

/// Whether the write removed the last finalizer of an object that is being deleted. The response contains the object, but the
/// object no longer exists. The watch may have reported the deletion already, so a fact from the response would restore the
/// object in the forest for good.
pub(super) fn is_gone(response: &ObjectMeta) -> bool {
    response.deletion_timestamp.is_some() && response.finalizers.as_ref().is_none_or(Vec::is_empty)
}

fn metadata_json(version: &Version, finalizers: Option<&[Box<str>]>) -> Value {
    let mut metadata = precondition(version);
    if let Some(finalizers) = finalizers {
        metadata["finalizers"] = json!(finalizers);
    }
    metadata
}

/// In a merge patch, a list replaces the whole list, and `allowCascadingDeletion` stays as it is.
fn spec_json(spec: &SubnamespaceSpec) -> Value {
    let mut value = json!({ "parent": &*spec.parent });
    if let Some((labels, annotations)) = &spec.from_anchor {
        value["labels"] = pairs_json(labels);
        value["annotations"] = pairs_json(annotations);
    }
    value
}

fn pairs_json(pairs: &Labels) -> Value {
    let list: Vec<Value> = pairs.iter().map(|(key, value)| json!({ "key": key, "value": value })).collect();
    null_if_empty(json!(list))
}

fn null_if_empty(list: Value) -> Value {
    if list == json!([]) { Value::Null } else { list }
}

/// A new condition has the current time as its `lastTransitionTime`.
fn status_json(status: &HierarchyStatus) -> Value {
    let now = Timestamp::now();
    let conditions: Vec<Value> = status
        .conditions
        .iter()
        .map(|condition| {
            json!({
                "type": condition.type_,
                "status": "True",
                "reason": condition.reason,
                "message": condition.message,
                "lastTransitionTime": condition.since.as_deref().map_or_else(|| format!("{now:.0}"), str::to_owned),
            })
        })
        .collect();
    let children: Vec<&str> = status.children.iter().map(|child| &**child).collect();
    json!({ "children": null_if_empty(json!(children)), "conditions": null_if_empty(json!(conditions)) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{Server, failure};

    #[test]
    fn several_changes_have_two_parts_with_all_of_them() {
        let edit = |set: &[&str], remove: &[&str]| Edit {
            set: set.iter().map(|key| ((*key).to_owned(), String::new())).collect(),
            remove: remove.iter().map(|key| (*key).to_owned()).collect(),
        };
        let none = || edit(&[], &[]);
        for (labels, annotations, parts) in [
            (edit(&["a", "b"], &[]), none(), [(edit(&["a"], &[]), none()), (edit(&["b"], &[]), none())]),
            (edit(&["a"], &["b"]), none(), [(edit(&["a"], &[]), none()), (edit(&[], &["b"]), none())]),
            (none(), edit(&[], &["a", "b"]), [(none(), edit(&[], &["a"])), (none(), edit(&[], &["b"]))]),
            (
                edit(&["a", "b"], &[]),
                edit(&["c"], &[]),
                [(edit(&["a", "b"], &[]), none()), (none(), edit(&["c"], &[]))],
            ),
        ] {
            assert_eq!(halves(&labels, &annotations), parts);
        }
    }

    fn hierarchy(is_deleting: bool, finalizers: &[&str]) -> DynamicObject {
        let mut metadata =
            json!({ "name": "hierarchy", "namespace": "a", "uid": "7", "resourceVersion": "9" });
        metadata["finalizers"] = json!(finalizers);
        if is_deleting {
            metadata["deletionTimestamp"] = json!("2025-01-01T00:00:00Z");
        }
        let object =
            json!({ "apiVersion": API_VERSION, "kind": "HierarchyConfiguration", "metadata": metadata });
        serde_json::from_value(object).unwrap()
    }

    /// It was released, and its admin has given it another parent.
    #[tokio::test]
    async fn a_hierarchy_whose_parent_has_changed_since_it_was_planned_keeps_it() {
        for (parent, is_done) in [("p", true), ("q", false)] {
            let mut live = serde_json::to_value(hierarchy(false, &[])).unwrap();
            live["spec"] = json!({ "parent": parent });
            let answers = [failure(409, "Conflict", "the object has been modified"), live.clone()];
            let server = Server::answering(answers.into_iter().chain(is_done.then_some(live)));
            let (client, namespace) = (server.client(), Name::from("a"));
            let writer = StructureWriter { client: &client, namespace: &namespace };
            let version = Version { uid: "7".into(), resource_version: "8".into() };
            let spec = SubnamespaceSpec { parent: "p".into(), from_anchor: None };
            let written = writer.change_hierarchy(&version, Some(&spec), None, None).await;
            assert_eq!(written.is_ok(), is_done, "{parent}: {written:?}");
            assert!(server.is_exhausted());
            assert_eq!(server.asked().len(), if is_done { 3 } else { 2 });
        }
    }

    #[test]
    fn a_response_without_the_last_finalizer_means_that_the_object_is_gone() {
        for (is_deleting, finalizers, gone) in
            [(true, &[][..], true), (true, &["x"][..], false), (false, &[][..], false)]
        {
            let fact = hierarchy_fact(hierarchy(is_deleting, finalizers));
            assert_eq!(
                matches!(&fact, Fact::Hnc(hnc::Fact::HierarchyGone(name, uid)) if **name == *"a" && **uid == *"7"),
                gone,
                "{fact:?}"
            );
        }
    }
}
