//! Writes to namespaces, hierarchies and anchors.
//!
//! Of objects that belong to others too, only what is ours is written: a patch of the fields concerned, of the state that
//! the plan saw.

use forest::plan::{Edit, SubnamespaceSpec};
use forest::{AnchorState, Fact, HierarchyStatus, Labels, Name, Version, keys};
use hns_api::names::HIERARCHY_CONFIGURATION;
use hns_api::{API_VERSION, HierarchyConfiguration, SubnamespaceAnchor, labels};
use hns_cluster::api::Api;
use hns_cluster::ingest;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::RoleBinding;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use kube::api::Patch;
use kube::core::{DynamicObject, PartialObjectMeta};
use kube::{Client, CustomResourceExt};
use serde_json::{Value, json};

use super::outcome::{WriteResult, failure, is_not_found};
use super::{delete_params, patch_params, post_params, precondition};
use crate::definitions;

const RBAC: &str = "rbac.authorization.k8s.io";

/// Makes writes about one namespace.
pub(super) struct Structure<'a> {
    pub(super) client: &'a Client,
    pub(super) namespace: &'a Name,
}

type Written = Result<Fact, kube::Error>;

impl Structure<'_> {
    pub(super) async fn mark(&self, version: &Version, labels: &Edit, annotations: &Edit) -> Written {
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
        let patch = Patch::Merge(json!({ "metadata": metadata }));
        let patched = api.patch_metadata(self.namespace, &patch_params(), &patch).await?;
        Ok(Fact::Namespace(ingest::namespace(&patched.metadata)))
    }

    pub(super) async fn create_hierarchy(
        &self,
        spec: Option<&SubnamespaceSpec>,
        held: bool,
        status: &HierarchyStatus,
    ) -> Written {
        let mut metadata = json!({ "name": HIERARCHY_CONFIGURATION, "namespace": &**self.namespace });
        if held {
            metadata["finalizers"] = json!([keys::HIERARCHY_FINALIZER]);
        }
        let mut object = json!({
            "apiVersion": API_VERSION,
            "kind": "HierarchyConfiguration",
            "metadata": metadata,
            "status": shown(status),
        });
        if let Some(spec) = spec {
            object["spec"] = wanted(spec);
        }
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
    ) -> Written {
        let mut patch = json!({ "metadata": held_by(version, finalizers) });
        if let Some(spec) = spec {
            patch["spec"] = wanted(spec);
        }
        if let Some(status) = status {
            patch["status"] = shown(status);
        }
        let patched =
            self.hierarchies().patch(HIERARCHY_CONFIGURATION, &patch_params(), &Patch::Merge(patch)).await?;
        Ok(hierarchy_fact(patched))
    }

    pub(super) async fn change_anchor(
        &self,
        child: &str,
        version: &Version,
        finalizers: Option<&[Box<str>]>,
        state: Option<AnchorState>,
    ) -> Written {
        let mut patch = json!({ "metadata": held_by(version, finalizers) });
        if let Some(state) = state {
            patch["status"] = json!({ "status": state.as_str() });
        }
        let patched = self.anchors().patch(child, &patch_params(), &Patch::Merge(patch)).await?;
        let gone = is_gone(&patched.metadata);
        let (namespace, anchor) = ingest::anchor(patched);
        Ok(if gone {
            Fact::AnchorGone(namespace, anchor.name, anchor.version.uid)
        } else {
            Fact::Anchor(namespace, anchor)
        })
    }

    /// The included label is on it from the first moment; everything else comes with its own plan.
    pub(super) async fn create_subnamespace(&self, child: &str, initial_admin: Option<&str>) -> Written {
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
        tracing::info!(parent = %self.namespace, child, "subnamespace created");
        Ok(Fact::Namespace(ingest::namespace(&created.metadata)))
    }

    /// A binding of this name is left as it is: it was made before, and has perhaps been changed since.
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
            Err(error) => return failure(kube::Error::SerdeError(error)).into(),
        };
        let api = Api::<RoleBinding>::namespaced(self.client.clone(), self.namespace);
        match api.create(&post_params(false), &object).await {
            Ok(_) => {
                tracing::info!(namespace = %self.namespace, user, cluster_role, "initial admin bound");
                WriteResult::done([])
            }
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => WriteResult::done([]),
            Err(error) => failure(error).into(),
        }
    }

    /// An anchor that goes because its definition goes takes nothing with it.
    pub(super) async fn delete_subnamespace(&self, child: &Name, version: &Version) -> WriteResult {
        match definitions::look(self.client).await {
            Ok(forest::Definition::Here) => {}
            Ok(going) => return WriteResult::done([Fact::Definitions(going)]),
            Err(error) => return failure(error).into(),
        }
        let api = Api::<Namespace>::all(self.client.clone());
        let gone = || Fact::NamespaceGone(child.clone(), version.uid.clone());
        match api.delete(child, &delete_params(version)).await {
            Ok(deleted) => {
                tracing::info!(parent = %self.namespace, %child, "subnamespace deleted with its anchor");
                Ok(deleted.left().map_or_else(gone, |it| Fact::Namespace(ingest::namespace(&it.metadata))))
            }
            Err(kube::Error::Api(status)) if is_not_found(&status, child) => Ok(gone()),
            Err(error) => Err(error),
        }
        .into()
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

fn hierarchy_fact(object: DynamicObject) -> Fact {
    let gone = is_gone(&object.metadata);
    let (namespace, fact) = ingest::hierarchy(object);
    if gone { Fact::HierarchyGone(namespace, fact.version.uid) } else { Fact::Hierarchy(namespace, fact) }
}

/// Whether the write that was answered with this object has let it go: its last finalizer is off. The watch may have told so
/// already; to take the answer for a state would bring back what is not there any more, for good.
fn is_gone(answered: &ObjectMeta) -> bool {
    answered.deletion_timestamp.is_some() && answered.finalizers.as_ref().is_none_or(Vec::is_empty)
}

fn held_by(version: &Version, finalizers: Option<&[Box<str>]>) -> Value {
    let mut metadata = precondition(version);
    if let Some(finalizers) = finalizers {
        metadata["finalizers"] = json!(finalizers);
    }
    metadata
}

/// A merge patch replaces lists whole and leaves `allowCascadingDeletion` as it is.
fn wanted(spec: &SubnamespaceSpec) -> Value {
    let mut wanted = json!({ "parent": &*spec.parent });
    if let Some((labels, annotations)) = &spec.from_anchor {
        wanted["labels"] = listed(labels);
        wanted["annotations"] = listed(annotations);
    }
    wanted
}

fn listed(pairs: &Labels) -> Value {
    let listed: Vec<Value> = pairs.iter().map(|(key, value)| json!({ "key": key, "value": value })).collect();
    unless_empty(json!(listed))
}

fn unless_empty(list: Value) -> Value {
    if list == json!([]) { Value::Null } else { list }
}

/// The status as the object shows it. A condition that is new begins now.
fn shown(status: &HierarchyStatus) -> Value {
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
    json!({ "children": unless_empty(json!(children)), "conditions": unless_empty(json!(conditions)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hierarchy(going: bool, finalizers: &[&str]) -> DynamicObject {
        let mut metadata =
            json!({ "name": "hierarchy", "namespace": "a", "uid": "7", "resourceVersion": "9" });
        metadata["finalizers"] = json!(finalizers);
        if going {
            metadata["deletionTimestamp"] = json!("2025-01-01T00:00:00Z");
        }
        let object =
            json!({ "apiVersion": API_VERSION, "kind": "HierarchyConfiguration", "metadata": metadata });
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn an_answer_without_the_last_finalizer_is_of_an_object_that_is_gone() {
        for (going, finalizers, gone) in
            [(true, &[][..], true), (true, &["x"][..], false), (false, &[][..], false)]
        {
            let fact = hierarchy_fact(hierarchy(going, finalizers));
            assert_eq!(
                matches!(&fact, Fact::HierarchyGone(name, uid) if **name == *"a" && **uid == *"7"),
                gone,
                "{fact:?}"
            );
        }
    }
}
