//! Reads and writes the `HierarchyConfiguration` of a namespace as a whole. Unknown fields are written back unchanged.

use std::collections::BTreeSet;

use hns_api::names::HIERARCHY_CONFIGURATION as NAME;
use hns_cluster::api::Api;
use hns_cluster::ingest;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DynamicObject, PostParams};
use serde_json::{Value, json};

use crate::Failure;
use crate::failure::Problem;
use crate::optimistic;
use crate::session::Session;
use crate::structure::{self, unreadable};

/// The fields of `spec` that the commands change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Spec {
    pub(crate) parent: Option<String>,
    pub(crate) allows_cascading_deletion: bool,
}

/// A change of `spec`; `None` keeps a field.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Edit {
    pub(crate) parent: Option<NewParent>,
    pub(crate) allow_cascading_deletion: Option<bool>,
}

/// The new parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NewParent {
    /// No parent: the namespace becomes a root.
    Root,
    /// This namespace.
    Namespace(String),
}

impl NewParent {
    /// The name of the parent, if there is one.
    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Self::Root => None,
            Self::Namespace(name) => Some(name),
        }
    }
}

impl Edit {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The parent after the edit.
    pub(super) fn parent(&self, present: &Spec) -> Option<String> {
        match &self.parent {
            Some(parent) => parent.name().map(str::to_owned),
            None => present.parent.clone(),
        }
    }

    fn apply(&self, object: &mut DynamicObject) {
        // A `spec` that is not an object cannot pass the API server's schema.
        if !object.data["spec"].is_object() {
            object.data["spec"] = json!({});
        }
        let spec = &mut object.data["spec"];
        match &self.parent {
            None => {}
            Some(NewParent::Namespace(parent)) => spec["parent"] = json!(parent),
            Some(NewParent::Root) => drop(spec.as_object_mut().and_then(|it| it.remove("parent"))),
        }
        if let Some(allow) = self.allow_cascading_deletion {
            spec["allowCascadingDeletion"] = json!(allow);
        }
    }
}

/// Reads the object; an empty one if it does not exist. A missing namespace is an error in HNC's words.
pub(crate) async fn read(session: &Session, namespace: &str) -> Result<DynamicObject, Failure> {
    let (_, found) = find(session, namespace).await?;
    Ok(found.unwrap_or_else(|| empty(namespace)))
}

/// The same for a change. A namespace that is being deleted loses the object first, gets no new one, and keeps its parent.
pub(crate) async fn read_to_change(
    session: &Session,
    namespace: &str,
    changes_parent: bool,
) -> Result<DynamicObject, Failure> {
    let (metadata, found) = find(session, namespace).await?;
    changeable(namespace, &metadata, found, changes_parent)
}

fn changeable(
    namespace: &str,
    metadata: &ObjectMeta,
    found: Option<DynamicObject>,
    changes_parent: bool,
) -> Result<DynamicObject, Failure> {
    match found {
        Some(object) if !changes_parent => Ok(object),
        found => stays(namespace, metadata).map(|()| found.unwrap_or_else(|| empty(namespace))),
    }
}

/// The metadata of the namespace, as far as the user may read it, and the object.
pub(super) async fn find(
    session: &Session,
    namespace: &str,
) -> Result<(ObjectMeta, Option<DynamicObject>), Failure> {
    let namespaces = session.all::<Namespace>();
    let metadata = match session.call(namespaces.get_metadata(namespace)).await {
        Ok(found) => found.metadata,
        // A user who may not read namespaces may be allowed to read the objects in one.
        Err(problem) if problem.is_forbidden() => ObjectMeta::default(),
        Err(problem) => return Err(unreadable(namespace, &problem)),
    };
    let found = session.call(api(session, namespace).get_opt(NAME)).await;
    Ok((metadata, found.map_err(|problem| unreadable(namespace, &problem))?))
}

fn empty(namespace: &str) -> DynamicObject {
    let mut object = DynamicObject::new(NAME, &structure::hierarchies()).within(namespace);
    object.data = json!({});
    object
}

/// Fails if the namespace is being deleted: it keeps its place until it is gone with its content, and a new anchor would then create
/// an empty namespace of its name.
pub(super) fn stays(name: &str, namespace: &ObjectMeta) -> Result<(), Failure> {
    if namespace.deletion_timestamp.is_none() {
        return Ok(());
    }
    Err(is_going(name))
}

/// The failure because a namespace is being deleted.
pub(super) fn is_going(name: &str) -> Failure {
    Failure::new(format!("Error: {name} is being deleted")).with_hint(format!(
        "A deletion cannot be undone. `kubectl hns describe {name}` shows what it waits for."
    ))
}

/// A warning that the object is being deleted, with the place that it gives to the namespace.
pub(super) fn going(name: &str, object: &DynamicObject) -> Option<String> {
    object.metadata.deletion_timestamp.as_ref()?;
    let then = loses_parent(name, spec(object).parent.as_deref());
    Some(format!("the HierarchyConfiguration of {name} is being deleted{then}"))
}

/// What follows for the parent of a namespace whose `HierarchyConfiguration` is being deleted, as the end of a sentence.
pub(super) fn loses_parent(name: &str, parent: Option<&str>) -> String {
    match parent {
        Some(_) => format!("; when it is gone, {name} has no parent, unless it is a subnamespace"),
        None => String::new(),
    }
}

/// The fields of `spec` in the object.
pub(crate) fn spec(object: &DynamicObject) -> Spec {
    let spec = &object.data["spec"];
    Spec {
        parent: spec["parent"].as_str().filter(|it| !it.is_empty()).map(Into::into),
        allows_cascading_deletion: spec["allowCascadingDeletion"].as_bool() == Some(true),
    }
}

/// Whether the conditions of the object say that this parent does not exist.
pub(super) fn reports_missing(object: &DynamicObject, parent: &str) -> bool {
    structure::reports_missing(&ingest::hierarchy(object.clone()).1.status.conditions, parent)
}

/// The parent in the object, unless its conditions say that it does not exist.
pub(super) fn existing_parent(object: &DynamicObject) -> Option<String> {
    spec(object).parent.filter(|it| !reports_missing(object, it))
}

/// Whether an ancestor allows cascading deletion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AllowingAncestor {
    /// This is the nearest one that allows it.
    AllowedBy(String),
    /// None below this one allows it, and the user may not read its hierarchy.
    Unknown(String),
    None,
}

/// Whether an ancestor allows cascading deletion, as far as the user may read. In a cycle only a namespace itself can allow it.
pub(crate) async fn allowing_ancestor(
    session: &Session,
    namespace: &str,
    parent: Option<String>,
) -> AllowingAncestor {
    let mut seen = BTreeSet::new();
    let (mut next, mut allowing) = (parent, AllowingAncestor::None);
    while let Some(name) = next {
        if name == namespace {
            return AllowingAncestor::None;
        }
        // The namespace is below a cycle.
        if !seen.insert(name.clone()) {
            break;
        }
        let is_open = allowing == AllowingAncestor::None;
        let found = match session.call(api(session, &name).get_opt(NAME)).await {
            Ok(found) => found,
            Err(problem) if problem.is_forbidden() && is_open => return AllowingAncestor::Unknown(name),
            Err(_) => break,
        };
        let Some(found) = found else { break };
        if spec(&found).allows_cascading_deletion && is_open {
            allowing = AllowingAncestor::AllowedBy(name);
        }
        next = existing_parent(&found);
    }
    allowing
}

/// Why it is not known whether an ancestor allows cascading deletion, as the end of a sentence.
pub(super) fn allowed_by_unread(ancestor: &str) -> String {
    format!(
        "allowed by {ancestor} or a namespace above it: you may not read hierarchyconfigurations in {ancestor}"
    )
}

/// Creates or replaces the object with `edit` applied. If the object was changed meanwhile, the edit is applied to the
/// new version, unless the change concerns the same fields. With `dry_run` the API server does not store it.
pub(crate) async fn write(
    session: &Session,
    namespace: &str,
    object: DynamicObject,
    edit: &Edit,
    dry_run: bool,
) -> Result<(), Problem> {
    if edit.is_empty() {
        return Ok(());
    }
    let api = api(session, namespace);
    let params = PostParams { dry_run, ..PostParams::default() };
    Box::pin(optimistic::write((session, &api), &params, object, |it| edit.apply(it), spec)).await
}

/// Why cascading deletion of a namespace cannot be allowed now: a dry run tells. `None` also if the user lacks the right.
pub(super) async fn refusal_to_allow(session: &Session, namespace: &str) -> Option<String> {
    let object = read(session, namespace).await.ok()?;
    let edit = Edit { allow_cascading_deletion: Some(true), ..Edit::default() };
    let problem = write(session, namespace, object, &edit, true).await.err()?;
    problem.is_denied().then(|| problem.to_string())
}

pub(crate) fn api(session: &Session, namespace: &str) -> Api<DynamicObject> {
    Api::namespaced_with(session.client.clone(), namespace, &structure::hierarchies())
}

/// The conditions in the status.
pub(crate) fn conditions(object: &DynamicObject) -> &[Value] {
    object.data["status"]["conditions"].as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use k8s_openapi::jiff::Timestamp;

    use super::*;

    fn object(data: Value) -> DynamicObject {
        let mut object = DynamicObject::new(NAME, &structure::hierarchies());
        object.data = data;
        object
    }

    #[test]
    fn edits_keep_other_fields() {
        let mut it = object(json!({
            "spec": { "parent": "a", "labels": [], "unknown": 1 }, "status": { "children": ["b"] },
        }));
        let edit =
            Edit { parent: Some(NewParent::Namespace("c".into())), allow_cascading_deletion: Some(false) };
        edit.apply(&mut it);
        assert_eq!(
            it.data,
            json!({
                "spec": { "parent": "c", "labels": [], "unknown": 1, "allowCascadingDeletion": false },
                "status": { "children": ["b"] },
            })
        );
        Edit { parent: Some(NewParent::Root), ..Edit::default() }.apply(&mut it);
        assert_eq!(it.data["spec"], json!({ "labels": [], "unknown": 1, "allowCascadingDeletion": false }));
    }

    #[test]
    fn a_namespace_that_is_being_deleted_keeps_its_parent() {
        let deleted =
            ObjectMeta { deletion_timestamp: Some(Time(Timestamp::UNIX_EPOCH)), ..ObjectMeta::default() };
        let kept = ObjectMeta::default();
        for (metadata, exists, changes_parent, is_possible) in [
            (&kept, true, true, true),
            (&kept, false, true, true),
            (&deleted, true, false, true),
            (&deleted, true, true, false),
            (&deleted, false, false, false),
        ] {
            let found = exists.then(|| object(json!({})));
            let result = changeable("n", metadata, found, changes_parent);
            assert_eq!(result.is_ok(), is_possible, "{exists} {changes_parent}: {result:?}");
            assert!(result.err().is_none_or(|it| it.text == "Error: n is being deleted"));
        }
    }

    #[test]
    fn an_object_that_is_being_deleted_is_named() {
        let mut it = object(json!({ "spec": { "parent": "a" } }));
        assert_eq!(going("n", &it), None);
        it.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        assert!(going("n", &it).unwrap().contains("when it is gone, n has no parent"));
        it.data = json!({});
        assert_eq!(going("n", &it).as_deref(), Some("the HierarchyConfiguration of n is being deleted"));
    }

    #[test]
    fn an_object_without_a_spec_gets_one() {
        let mut it = object(json!({}));
        assert_eq!(spec(&it), Spec::default());
        Edit { parent: Some(NewParent::Namespace("c".into())), ..Edit::default() }.apply(&mut it);
        assert_eq!(it.data, json!({ "spec": { "parent": "c" } }));
        assert_eq!(spec(&object(json!({ "spec": { "parent": "" } }))), Spec::default());
    }
}
