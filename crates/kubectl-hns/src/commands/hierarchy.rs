//! The `HierarchyConfiguration` of one namespace, read and written as a whole. What is not understood of it is written back
//! as it was.

use hns_api::names::HIERARCHY_CONFIGURATION as NAME;
use hns_cluster::api::Api;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DynamicObject, PostParams};
use serde_json::{Value, json};

use crate::Failure;
use crate::failure::Problem;
use crate::session::Session;
use crate::structure::{self, unreadable};

/// How often an object is read again because somebody else has written it. The controller does when it has something to
/// record.
const ATTEMPTS: usize = 5;

/// What of `spec` the commands change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Spec {
    pub(super) parent: Option<String>,
    pub(super) allows_cascading_deletion: bool,
}

/// What to make of `spec`; none leaves a field as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Edit {
    pub(super) parent: Option<NewParent>,
    pub(super) allow_cascading_deletion: Option<bool>,
}

/// What a parent is to become.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NewParent {
    /// There is to be none.
    Root,
    /// This namespace.
    Namespace(String),
}

impl NewParent {
    /// The name, if there is to be one.
    pub(super) fn name(&self) -> Option<&str> {
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

    fn apply(&self, object: &mut DynamicObject) {
        // Only an object that the API server's schema would refuse has another `spec`.
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

/// Reads the object; an empty one if there is none. A namespace that is not there is a failure in HNC's words.
pub(super) async fn read(session: &Session, namespace: &str) -> Result<DynamicObject, Failure> {
    let namespaces = session.all::<Namespace>();
    match session.call(namespaces.get_metadata(namespace)).await {
        Ok(_) => {}
        // Who may not read namespaces may still read what is in one.
        Err(problem) if problem.is_forbidden() => {}
        Err(problem) => return Err(unreadable(namespace, &problem)),
    }
    let found = session.call(api(session, namespace).get_opt(NAME)).await;
    let found = found.map_err(|problem| unreadable(namespace, &problem))?;
    Ok(found.unwrap_or_else(|| {
        let mut object = DynamicObject::new(NAME, &structure::hierarchies()).within(namespace);
        object.data = json!({});
        object
    }))
}

/// What the object says.
pub(super) fn spec(object: &DynamicObject) -> Spec {
    let spec = &object.data["spec"];
    Spec {
        parent: spec["parent"].as_str().filter(|it| !it.is_empty()).map(Into::into),
        allows_cascading_deletion: spec["allowCascadingDeletion"].as_bool() == Some(true),
    }
}

/// Creates or replaces the object with `edit` made to it. If somebody else has written it meanwhile and `edit` is not what
/// they did, the edit is made to theirs. With `dry_run` the API server does all but store it.
pub(super) async fn write(
    session: &Session,
    namespace: &str,
    mut object: DynamicObject,
    edit: &Edit,
    dry_run: bool,
) -> Result<(), Problem> {
    if edit.is_empty() {
        return Ok(());
    }
    let api = api(session, namespace);
    let params = PostParams { dry_run, ..PostParams::default() };
    let seen = spec(&object);
    for _ in 1..ATTEMPTS {
        edit.apply(&mut object);
        let exists = object.metadata.resource_version.is_some();
        let written = if exists {
            session.call(api.replace(NAME, &params, &object)).await
        } else {
            session.call(api.create(&params, &object)).await
        };
        let overtaken = match &written {
            Err(problem) if exists => problem.is_stale(),
            Err(problem) => problem.code() == 409 && problem.to_string().contains("already exists"),
            Ok(_) => false,
        };
        if !overtaken {
            return written.map(drop);
        }
        if let Some(present) = session.call(api.get_opt(NAME)).await?
            && spec(&present) == seen
        {
            object = present;
        } else {
            // What was said about the change is no longer true.
            return written.map(drop);
        }
    }
    edit.apply(&mut object);
    session.call(api.replace(NAME, &params, &object)).await.map(drop)
}

pub(super) fn api(session: &Session, namespace: &str) -> Api<DynamicObject> {
    Api::namespaced_with(session.client.clone(), namespace, &structure::hierarchies())
}

/// The conditions that the object shows, as lines.
pub(super) fn conditions(object: &DynamicObject) -> &[Value] {
    object.data["status"]["conditions"].as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(data: Value) -> DynamicObject {
        let mut object = DynamicObject::new(NAME, &structure::hierarchies());
        object.data = data;
        object
    }

    #[test]
    fn edits_touch_nothing_else() {
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
    fn an_object_without_a_spec_gets_one() {
        let mut it = object(json!({}));
        assert_eq!(spec(&it), Spec::default());
        Edit { parent: Some(NewParent::Namespace("c".into())), ..Edit::default() }.apply(&mut it);
        assert_eq!(it.data, json!({ "spec": { "parent": "c" } }));
        assert_eq!(spec(&object(json!({ "spec": { "parent": "" } }))), Spec::default());
    }
}
