//! Taking a namespace out of its tree, or pushing one into another, in every form that the API server takes a write in.
//!
//! The thief has every right on the namespace's own hierarchy configuration. The same requests by who may are tried in
//! the same place.

use anyhow::Result;
use kube::Client;
use serde_json::{Value, json};

use super::request::{APPLY, MERGE, Request, STEPS, configuration, hierarchies, hierarchy};
use super::verdict::{denied_by_rbac, unauthorized};
use super::world::{self, Scene};

const NEW: &str = "the new parent";
const ROOT: &str = "the root of the tree that it would leave";

/// Every form of a write, by one user on one namespace.
type Forms = Vec<(&'static str, Request)>;

/// Ways out of a tree.
fn ways_out(client: &Client, child: &str, stored: &Value) -> Forms {
    let (one, all) = (hierarchy(child), hierarchies(child));
    let mut without = stored.clone();
    without.as_object_mut().map(|fields| fields.remove("spec"));
    let mut without_parent = stored.clone();
    without_parent["spec"] = json!({ "allowCascadingDeletion": true });
    vec![
        ("merge an empty parent", Request::patch(client, &one, MERGE, json!({ "spec": { "parent": "" } }))),
        ("merge no parent", Request::patch(client, &one, MERGE, json!({ "spec": { "parent": null } }))),
        ("merge no spec", Request::patch(client, &one, MERGE, json!({ "spec": null }))),
        (
            "merge an empty spec and status",
            Request::patch(client, &one, MERGE, json!({ "spec": null, "status": null })),
        ),
        (
            "remove the parent",
            Request::patch(client, &one, STEPS, json!([{ "op": "remove", "path": "/spec/parent" }])),
        ),
        (
            "remove the spec",
            Request::patch(client, &one, STEPS, json!([{ "op": "remove", "path": "/spec" }])),
        ),
        (
            "apply an empty parent",
            Request::patch(client, &one, APPLY, configuration(&json!({ "parent": "" }))),
        ),
        ("replace without spec", Request::put(client, &one, without)),
        ("replace without parent", Request::put(client, &one, without_parent)),
        ("delete", Request::delete(client, &one, Value::Null)),
        ("delete at once", Request::delete(client, &one, json!({ "gracePeriodSeconds": 0 }))),
        ("delete as an orphan", Request::delete(client, &one, json!({ "propagationPolicy": "Orphan" }))),
        (
            "delete after what depends on it",
            Request::delete(client, &one, json!({ "propagationPolicy": "Foreground" })),
        ),
        ("delete all of them", Request::delete(client, &all, Value::Null)),
        (
            "delete those of a name",
            Request::delete(client, &format!("{all}?fieldSelector=metadata.name%3Dhierarchy"), Value::Null),
        ),
    ]
}

/// Ways below `parent`.
fn ways_in(client: &Client, child: &str, parent: &str, stored: Option<&Value>) -> Forms {
    let one = hierarchy(child);
    let spec = json!({ "parent": parent });
    let apply = Request::patch(client, &one, APPLY, configuration(&spec));
    let Some(stored) = stored else {
        let create = Request::post(client, &hierarchies(child), configuration(&spec));
        return vec![("create", create), ("apply a new one", apply)];
    };
    let mut replaced = stored.clone();
    replaced["spec"] = spec.clone();
    let add = json!([{ "op": "add", "path": "/spec/parent", "value": parent }]);
    vec![
        ("merge", Request::patch(client, &one, MERGE, json!({ "spec": spec }))),
        ("add", Request::patch(client, &one, STEPS, add)),
        ("apply", apply),
        ("replace", Request::put(client, &one, replaced)),
    ]
}

#[tokio::test]
async fn no_way_of_writing_takes_a_namespace_out_of_its_tree() -> Result<()> {
    let scene = world::scene().await?;
    scene.steps.plant(&[("s-root", ""), ("s-mid", "s-root"), ("s-child", "s-mid")]).await?;
    // Settled, so that a form that replaces the whole has the latest state of it.
    scene.steps.labelled(&["s-child", "s-mid", "s-root"]).await?;
    scene.known(&["s-root", "s-mid", "s-child"]).await?;
    let thief = scene.local_admin("s-thief", &["s-mid", "s-child"]).await?;
    let owner = scene.local_admin("s-owner", &["s-root", "s-child"]).await?;
    let stored = scene.stored("s-child").await?;

    let ways = ways_out(&thief, "s-child", &stored).into_iter().zip(ways_out(&owner, "s-child", &stored));
    for ((what, attempt), (_, allowed)) in ways {
        for attempt in [attempt.clone().dry(), attempt] {
            unauthorized(what, attempt.send().await, "s-thief", ("s-root", ROOT));
        }
        allowed.dry().send().await?;
        assert_eq!(scene.parent("s-child").await?, "s-mid", "{what}");
    }
    // What is not a change of parent is the thief's to do.
    let cascading = json!({ "spec": { "allowCascadingDeletion": true } });
    Request::patch(&thief, &hierarchy("s-child"), MERGE, cascading).send().await?;
    let stranger = scene.user("s-stranger");
    let (what, attempt) = ways_out(&stranger, "s-child", &stored).swap_remove(0);
    denied_by_rbac(what, attempt.send().await, "s-stranger");
    Ok(())
}

#[tokio::test]
async fn no_way_of_writing_pushes_a_namespace_into_a_foreign_tree() -> Result<()> {
    let scene = world::scene().await?;
    scene.steps.plant(&[("j-root", ""), ("j-child", "")]).await?;
    let thief = scene.local_admin("j-thief", &["j-child"]).await?;
    let owner = scene.local_admin("j-owner", &["j-root", "j-child"]).await?;
    scene.none_gets_in((&thief, &owner), None).await?;
    let own = configuration(&json!({ "allowCascadingDeletion": true }));
    Request::post(&thief, &hierarchies("j-child"), own).send().await?;
    let stored = scene.stored("j-child").await?;
    scene.none_gets_in((&thief, &owner), Some(&stored)).await
}

impl Scene {
    async fn stored(&self, namespace: &str) -> Result<Value> {
        Ok(serde_json::to_value(self.steps.hierarchies(namespace).get("hierarchy").await?)?)
    }

    async fn none_gets_in(&self, (thief, owner): (&Client, &Client), stored: Option<&Value>) -> Result<()> {
        let ways = |client| ways_in(client, "j-child", "j-root", stored);
        for ((what, attempt), (_, allowed)) in ways(thief).into_iter().zip(ways(owner)) {
            for attempt in [attempt.clone().dry(), attempt] {
                unauthorized(what, attempt.send().await, "j-thief", ("j-root", NEW));
            }
            allowed.dry().send().await?;
            assert_eq!(self.parent("j-child").await?, "", "{what}");
        }
        Ok(())
    }
}
