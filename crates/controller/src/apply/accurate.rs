//! Writes the namespaces and the `SubNamespaces` of Accurate's API.
//!
//! Users write the same objects, so a request contains only what the controller owns.

use std::collections::BTreeMap;

use forest::accurate::{Fact as AccurateFact, SubNamespaceStatus, has_edge, keys};
use forest::{EdgeKind, Fact, Name, Version};
use hns_api::accurate::{SubNamespace, conditions, names};
use hns_api::conditions::STATUS_TRUE;
use hns_api::labels;
use hns_cluster::api::Api;
use hns_cluster::ingest::{self, accurate::sub_namespace_gone};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ManagedFieldsEntry, ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::{DynamicObject, PartialObjectMeta};
use kube::{Client, CustomResourceExt};
use serde_json::{Map, Value, json};

use super::copies::NO_MANAGERS;
use super::outcome::{Outcome, WriteResult, is_too_large};
use super::structure::{delete_child, is_gone};
use super::{despite_changes, precondition, stop_if_not_found, where_unmoved};
use crate::definitions;

type Pairs = BTreeMap<String, String>;
/// The edge of a namespace to the one from which its labels come.
type Edge = (EdgeKind, Name);
/// The state of a namespace for which a write is planned.
type Planned<'a> = (&'a Version, &'a Edge);

/// Applies by force, as Accurate does.
pub(super) fn apply_params() -> PatchParams {
    PatchParams::apply(names::FIELD_MANAGER).force()
}

/// For patches of other types.
pub(super) fn update_params() -> PatchParams {
    PatchParams { field_manager: Some(names::FIELD_MANAGER.into()), ..PatchParams::default() }
}

pub(super) fn post_params() -> PostParams {
    PostParams { field_manager: Some(names::FIELD_MANAGER.into()), ..PostParams::default() }
}

/// Writes what Accurate's API needs in one namespace.
pub(super) struct AccurateWriter<'a> {
    pub(super) client: &'a Client,
    pub(super) namespace: &'a Name,
}

impl AccurateWriter<'_> {
    pub(super) async fn apply_namespace(
        &self,
        planned: Planned<'_>,
        labels: &Pairs,
        annotations: &Pairs,
    ) -> WriteResult {
        match self.try_to_apply(planned, labels, annotations).await {
            // Users can fill its annotations. Labels restrict, so they do not wait; annotations stay as they were applied.
            Err(kube::Error::Api(status)) if status.code == 422 && !annotations.is_empty() => {
                WriteResult::refused_in_part(status, self.apply_labels(planned, labels).await)
            }
            applied => applied.into(),
        }
    }

    async fn apply_labels(&self, planned: Planned<'_>, labels: &Pairs) -> Result<Fact, kube::Error> {
        let live = namespaces(self.client).get_metadata(self.namespace).await?.metadata;
        let applied = ingest::namespace(&live).applied.annotations;
        let mut kept = live.annotations.unwrap_or_default();
        kept.retain(|key, _| applied.contains(&**key));
        self.try_to_apply(planned, labels, &kept).await
    }

    async fn try_to_apply(
        &self,
        (version, edge): Planned<'_>,
        labels: &Pairs,
        annotations: &Pairs,
    ) -> Result<Fact, kube::Error> {
        let mut metadata = precondition(version);
        metadata["name"] = json!(&**self.namespace);
        metadata["labels"] = json!(labels);
        metadata["annotations"] = json!(annotations);
        let mut object = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": metadata });
        match self.apply(&mut object, edge).await {
            // Users can fill it with managers; policies limit its other parts.
            Err(kube::Error::Api(status)) if is_too_large(&status.message) => {
                let managers = managers_of(self.client, self.namespace).await?;
                let emptied = self.set_managers(version, managers).await?;
                // If it has moved, this is a conflict.
                if let Some(metadata) =
                    object["metadata"].as_object_mut().filter(|_| has_edge(emptied.labels.as_ref(), edge))
                {
                    metadata.extend(at_present(metadata, &emptied));
                }
                self.apply(&mut object, edge).await
            }
            applied => applied,
        }
    }

    /// A namespace of this name that exists by now stays as it is. The new one has the labels of every managed namespace from the
    /// start, so that it needs no second write. It is not applied: what was applied is removed when it is not applied again.
    pub(super) async fn create_namespace(&self, child: &str) -> Result<Fact, kube::Error> {
        let labels = [
            (keys::CREATED_BY, keys::CREATOR),
            (keys::PARENT, &**self.namespace),
            (labels::INCLUDED_NAMESPACE, labels::TRUE),
            (&*labels::tree_label(child), "0"),
        ];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let metadata =
            ObjectMeta { name: Some(child.to_owned()), labels: Some(labels.into()), ..ObjectMeta::default() };
        let namespace = Namespace { metadata, ..Namespace::default() };
        let created = Api::<Namespace>::all(self.client.clone()).create(&post_params(), &namespace).await?;
        tracing::info!(parent = %self.namespace, child, "created a sub-namespace");
        Ok(Fact::Namespace(ingest::namespace(&created.metadata)))
    }

    /// The labels are those of one place, and name it. So nothing is applied to a namespace that has another place by now.
    async fn apply(&self, object: &mut Value, edge: &Edge) -> Result<Fact, kube::Error> {
        let send = |object| self.patch(apply_params(), Patch::Apply(object));
        let planned = object["metadata"].as_object().cloned().unwrap_or_default();
        let look = || async {
            let live = namespaces(self.client).get_metadata(self.namespace).await?.metadata;
            Ok(has_edge(live.labels.as_ref(), edge).then(|| at_present(&planned, &live)))
        };
        let mut applied = where_unmoved(object, send, look).await?;
        if let Some(managers) = without_unknown(&applied) {
            applied = self.set_managers(&ingest::version(&applied), json!(managers)).await?;
        }
        Ok(Fact::Namespace(ingest::namespace(&applied)))
    }

    async fn set_managers(&self, version: &Version, managers: Value) -> Result<ObjectMeta, kube::Error> {
        let mut patch = json!({ "metadata": precondition(version) });
        patch["metadata"]["managedFields"] = managers;
        despite_changes(&mut patch, |patch| self.patch(update_params(), Patch::Merge(patch))).await
    }

    async fn patch(&self, params: PatchParams, patch: Patch<Value>) -> Result<ObjectMeta, kube::Error> {
        Ok(namespaces(self.client).patch_metadata(self.namespace, &params, &patch).await?.metadata)
    }

    /// When the CRD is being deleted, its objects are too, and their namespaces must stay.
    pub(super) async fn delete_namespace(&self, child: &Name, version: &Version) -> WriteResult {
        match definitions::is_lasting(self.client, SubNamespace::crd_name()).await {
            Ok(true) => {}
            Ok(false) => {
                tracing::warn!(%child, "the CRD of SubNamespace is being deleted; its sub-namespaces stay");
                return WriteResult::done([AccurateFact::CrdIsBeingDeleted(true).into()]);
            }
            Err(error) => return error.into(),
        }
        let parent_of = |it: &ObjectMeta| it.labels.as_ref()?.get(keys::PARENT).cloned();
        delete_child(self.client, (self.namespace, child), version, parent_of).await.into()
    }

    /// The finalizers first: a status says that they are there.
    pub(super) async fn change_sub_namespace(
        &self,
        child: &Name,
        version: &Version,
        finalizers: Option<&[Box<str>]>,
        (status, was_stalled): (Option<&SubNamespaceStatus>, bool),
    ) -> WriteResult {
        let (mut version, mut facts) = (version.clone(), Vec::new());
        if let Some(finalizers) = finalizers {
            let result = self.set_finalizers(child, &version, finalizers).await;
            if result.outcome != Outcome::Done {
                return result;
            }
            let seen = result.facts.iter().find_map(|fact| match fact {
                Fact::Accurate(AccurateFact::SubNamespace(_, seen)) => Some(seen.version.clone()),
                _ => None,
            });
            version = seen.unwrap_or(version);
            facts = result.facts;
        }
        match status {
            Some(status) => self.set_status(child, &version, status, was_stalled).await.after(facts),
            None => WriteResult::done(facts),
        }
    }

    async fn set_finalizers(&self, child: &Name, version: &Version, finalizers: &[Box<str>]) -> WriteResult {
        let mut metadata = precondition(version);
        metadata["finalizers"] = json!(finalizers);
        let patch = Patch::Merge(json!({ "metadata": metadata }));
        let result: WriteResult =
            self.sub_namespaces().patch(child, &update_params(), &patch).await.map(fact).into();
        let adds_ours = finalizers.iter().any(|it| **it == *keys::FINALIZER);
        let gone = AccurateFact::SubNamespaceGone(self.namespace.clone(), child.clone(), version.uid.clone());
        stop_if_not_found(result, adds_ours, gone.into())
    }

    /// Other conditions, and the time of ours while it holds, stay. So the object is read first if our condition changes.
    async fn set_status(
        &self,
        child: &str,
        version: &Version,
        status: &SubNamespaceStatus,
        was_stalled: bool,
    ) -> WriteResult {
        let api = self.sub_namespaces();
        let mut patch = json!({ "metadata": precondition(version) });
        patch["status"] = if was_stalled || status.stalled.is_some() {
            let live = match api.get(child).await {
                Ok(live) if live.metadata.uid.as_deref() == Some(&*version.uid) => live,
                Ok(other) => return WriteResult { outcome: Outcome::Conflict, facts: vec![fact(other)] },
                Err(error) => return error.into(),
            };
            let shown = live.data["status"]["conditions"].clone();
            status_json(status, serde_json::from_value(shown).unwrap_or_default())
        } else {
            json!({ "observedGeneration": status.observed_generation })
        };
        let send = |patch| {
            let api = &api;
            async move { api.patch_status(child, &update_params(), &Patch::Merge(patch)).await }
        };
        despite_changes(&mut patch, send).await.map(fact).into()
    }

    fn sub_namespaces(&self) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), self.namespace, &SubNamespace::api_resource())
    }
}

/// What changes in the planned metadata for the present version of the object. An apply removes what a user has written into the record of
/// what was applied. So all keys of the hierarchies are applied as they are.
fn at_present(planned: &Map<String, Value>, live: &ObjectMeta) -> Map<String, Value> {
    let pairs = |field: &str, live: &Option<Pairs>| {
        let planned = planned.get(field).and_then(Value::as_object).into_iter().flatten();
        let planned =
            planned.filter(|(key, _)| !keys::is_reserved(key)).map(|(key, it)| (key.clone(), it.clone()));
        let reserved = live.iter().flatten().filter(|(key, _)| keys::is_reserved(key));
        let reserved = reserved.map(|(key, value)| (key.clone(), json!(value)));
        (field.to_owned(), Value::Object(planned.chain(reserved).collect()))
    };
    let version = ("resourceVersion".to_owned(), json!(ingest::version(live).resource_version));
    [version, pairs("labels", &live.labels), pairs("annotations", &live.annotations)].into_iter().collect()
}

fn namespaces(client: &Client) -> Api<PartialObjectMeta<Namespace>> {
    Api::all(client.clone())
}

/// The `managedFields` of a namespace without those of anybody else. The labels that were applied before are removed by what they
/// say.
pub(super) async fn managers_of(client: &Client, namespace: &str) -> Result<Value, kube::Error> {
    let live = namespaces(client).get_metadata(namespace).await?;
    let mut managers = live.metadata.managed_fields.unwrap_or_default();
    managers.retain(|it| {
        (it.manager.as_deref(), it.operation.as_deref()) == (Some(names::FIELD_MANAGER), Some("Apply"))
    });
    Ok(if managers.is_empty() { json!(NO_MANAGERS) } else { json!(managers) })
}

/// The `managedFields` without the entry that the API server makes up for an object without any. That entry owns all that was there,
/// so that nothing that was applied would ever go. The API server drops the `managedFields` of an object that is too large, so a user
/// can bring this about.
fn without_unknown(metadata: &ObjectMeta) -> Option<Vec<ManagedFieldsEntry>> {
    let (unknown, known): (Vec<_>, Vec<_>) = metadata
        .managed_fields
        .iter()
        .flatten()
        .cloned()
        .partition(|it| it.manager.as_deref() == Some("before-first-apply"));
    (!unknown.is_empty()).then_some(known)
}

fn fact(object: DynamicObject) -> Fact {
    if is_gone(&object.metadata) {
        return sub_namespace_gone(&object.metadata).into();
    }
    let (namespace, seen) = ingest::accurate::sub_namespace(object);
    AccurateFact::SubNamespace(namespace, seen).into()
}

/// The status, with the conditions that are shown now. A new condition has the current time.
fn status_json(status: &SubNamespaceStatus, shown: Option<Vec<Condition>>) -> Value {
    let (ours, mut all): (Vec<Condition>, Vec<Condition>) =
        shown.unwrap_or_default().into_iter().partition(|it| it.type_ == conditions::STALLED);
    if let Some(stalled) = &status.stalled {
        let since = ours.into_iter().find(|it| it.status == STATUS_TRUE).map(|it| it.last_transition_time);
        all.push(Condition {
            type_: conditions::STALLED.into(),
            status: STATUS_TRUE.into(),
            reason: stalled.reason.to_string(),
            message: stalled.message.to_string(),
            observed_generation: Some(stalled.observed_generation),
            last_transition_time: since.unwrap_or_else(|| Time(Timestamp::now())),
        });
    }
    let conditions = if all.is_empty() { Value::Null } else { json!(all) };
    json!({ "observedGeneration": status.observed_generation, "conditions": conditions })
}

#[cfg(test)]
mod tests {
    use forest::accurate::Stalled;

    use super::*;
    use crate::fake::{Server, failure};

    fn child(place: (&str, &str), resource_version: &str) -> Value {
        let labels = BTreeMap::from([place]);
        let metadata =
            json!({ "name": "c", "uid": "u", "resourceVersion": resource_version, "labels": labels });
        let (version, kind) = ("meta.k8s.io/v1", "PartialObjectMetadata");
        json!({ "apiVersion": version, "kind": kind, "metadata": metadata })
    }

    /// A user who changes a namespace all the time must not make an older plan move it back.
    #[tokio::test]
    async fn a_namespace_that_has_moved_since_it_was_planned_is_not_labelled() {
        let conflict = || failure(409, "Conflict", "the object has been modified");
        let too_large = || failure(422, "Invalid", "request is too large");
        let (here, gone) = ((keys::PARENT, "p"), (keys::PARENT, "q"));
        for (what, answers, versions, is_done) in [
            ("at once", vec![child(here, "2")], vec!["1"], true),
            (
                "changed by a user",
                vec![conflict(), child(here, "2"), conflict(), child(here, "3"), child(here, "4")],
                vec!["1", "", "2", "", "3"],
                true,
            ),
            (
                "changed all the time",
                (2..=9)
                    .flat_map(|at| [conflict(), child(here, &at.to_string())])
                    .chain([child(here, "10")])
                    .collect(),
                vec!["1", "", "2", "", "3", "", "4", "", "5", "", "6", "", "7", "", "8", "", ""],
                true,
            ),
            ("moved", vec![conflict(), child(gone, "2")], vec!["1", ""], false),
            (
                "moved later",
                vec![conflict(), child(here, "2"), conflict(), child(gone, "3")],
                vec!["1", "", "2", ""],
                false,
            ),
            ("of a template now", vec![conflict(), child((keys::TEMPLATE, "p"), "2")], vec!["1", ""], false),
            (
                "moved while it is too large",
                vec![too_large(), child(here, "1"), child(gone, "2"), conflict(), child(gone, "2")],
                vec!["1", "", "1", "1", ""],
                false,
            ),
        ] {
            let server = Server::answering(answers);
            let (client, namespace) = (server.client(), Name::from("c"));
            let writer = AccurateWriter { client: &client, namespace: &namespace };
            let version = Version { uid: "u".into(), resource_version: "1".into() };
            let labels = BTreeMap::from([(keys::PARENT.to_owned(), "p".to_owned())]);
            let edge = (EdgeKind::Parent, Name::from("p"));
            let result = writer.apply_namespace((&version, &edge), &labels, &Pairs::new()).await;
            let wanted = if is_done { Outcome::Done } else { Outcome::Conflict };
            assert_eq!(result.outcome, wanted, "{what}");
            let named = |(_, _, body): &(String, String, Value)| {
                body["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned()
            };
            assert_eq!(server.asked().iter().map(named).collect::<Vec<_>>(), versions, "{what}");
            assert!(server.is_exhausted(), "{what}");
        }
    }

    #[test]
    fn a_condition_keeps_its_time_while_it_holds_and_others_stay() {
        let condition = |type_: &str, status: &str| -> Condition {
            let value = json!({ "type": type_, "status": status, "reason": "R", "message": "m",
                "lastTransitionTime": "2026-01-01T00:00:00Z" });
            serde_json::from_value(value).unwrap()
        };
        let stalled = Stalled { reason: "Conflict".into(), message: "m".into(), observed_generation: 2 };
        let ours = SubNamespaceStatus { observed_generation: 2, stalled: Some(stalled) };
        let time = |shown: Vec<Condition>| {
            let status = status_json(&ours, Some(shown));
            let all = status["conditions"].as_array().unwrap();
            let ours = all.iter().find(|it| it["type"] == "Stalled").unwrap();
            (all.len(), ours["lastTransitionTime"].as_str().unwrap().to_owned())
        };
        let first = "2026-01-01T00:00:00Z";
        assert_eq!(time(vec![condition("Stalled", "True"), condition("Other", "True")]), (2, first.into()));
        assert_ne!(time(vec![condition("Stalled", "False")]), (1, first.into()));
        assert_ne!(time(vec![]).1, first);
        let over = SubNamespaceStatus { observed_generation: 3, stalled: None };
        assert_eq!(
            status_json(&over, Some(vec![condition("Stalled", "True")])),
            json!({ "observedGeneration": 3, "conditions": null })
        );
    }
}
