//! A tree is exported, deleted, and brought back in random orders by the identity that may: it is as it was.
//!
//! What is there already when its turn comes (the controller makes a namespace for an anchor, a hierarchy where there is
//! something to record, a copy of a role) is not created again: a hierarchy or an anchor has what was exported merged into it,
//! a namespace or a copy is left as it is.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use hns_e2e::steps::PATIENCE;
use hns_e2e::{Steps, eventually};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

use super::scene::{Scene, Structure, scene};
use super::shuffle::Dice;

const ORDERS: u64 = 20;
const SEED: u64 = 0x0e57_04e5;
const PREFIX: &str = "rs-";

/// Namespace, parent, and whether it is a subnamespace. Five levels.
const TREE: [(&str, &str, bool); 15] = [
    ("rs-root", "", false),
    ("rs-a", "rs-root", true),
    ("rs-a-1", "rs-a", true),
    ("rs-a-1-full", "rs-a-1", false),
    ("rs-a-1-full-sub", "rs-a-1-full", true),
    ("rs-a-1-sub", "rs-a-1", true),
    ("rs-a-2", "rs-a", false),
    ("rs-a-2-sub", "rs-a-2", true),
    ("rs-b", "rs-root", false),
    ("rs-b-1", "rs-b", true),
    ("rs-b-2", "rs-b", false),
    ("rs-b-2-full", "rs-b-2", false),
    ("rs-c", "rs-root", true),
    ("rs-c-1", "rs-c", true),
    ("rs-lone", "", false),
];

/// Exported kinds, by the name that kubectl knows them under.
const KINDS: [(&str, &str, &str, &str); 5] = [
    ("namespaces", "", "v1", "Namespace"),
    ("hierarchyconfigurations.hnc.x-k8s.io", "hnc.x-k8s.io", "v1alpha2", "HierarchyConfiguration"),
    ("subnamespaceanchors.hnc.x-k8s.io", "hnc.x-k8s.io", "v1alpha2", "SubnamespaceAnchor"),
    ("roles.rbac.authorization.k8s.io", "rbac.authorization.k8s.io", "v1", "Role"),
    ("rolebindings.rbac.authorization.k8s.io", "rbac.authorization.k8s.io", "v1", "RoleBinding"),
];

#[tokio::test]
async fn a_tree_comes_back_as_it_was_in_any_order() -> Result<()> {
    let scene = scene().await?;
    let restorer = hire(&scene).await?;
    build(&scene.steps).await?;
    let exported = settled(&scene).await?;
    println!("{} objects; seed {SEED:#x}", exported.len());
    let wanted = compared(&exported);
    for order in 0..ORDERS {
        // Past the rules: they would have it done from below, anchor by anchor.
        let names: Vec<String> = TREE.iter().map(|(name, ..)| (*name).to_owned()).collect();
        scene.slipped.delete_namespaces(&names).await?;
        let present =
            restore(&restorer, &exported, SEED + order).await.with_context(|| format!("order {order}"))?;
        eventually(&format!("order {order}: all is as it was"), Duration::from_secs(60), async || {
            let seen = export(&scene).await.map_err(|error| format!("{error:#}"))?;
            let seen = compared(&seen);
            if seen == wanted { Ok(()) } else { Err(difference(&wanted, &seen)) }
        })
        .await?;
        println!("order {order}: as it was; {present} objects were there before their turn");
    }
    Ok(())
}

/// Has every right, as a restore tool does, and is in the group that the flag names.
async fn hire<H>(scene: &Scene<H>) -> Result<Steps> {
    let binding: ClusterRoleBinding = serde_json::from_value(json!({
        "metadata": { "name": "restore-tool" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "restore-tool" }],
    }))?;
    Api::all(scene.cluster().admin()).create(&PostParams::default(), &binding).await?;
    let restorer = Steps::of(scene.cluster().client_as("restore-tool", &["restore-operators"]));
    eventually("its rights are known", PATIENCE, async || {
        restorer.namespaces().list(&Default::default()).await.map(drop).map_err(|error| error.to_string())
    })
    .await?;
    Ok(restorer)
}

async fn build(steps: &Steps) -> Result<()> {
    let mut paths: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, parent, is_subnamespace) in TREE {
        let above = paths.get(parent).map(Vec::as_slice).unwrap_or_default();
        let path = [&[name], above].concat();
        if is_subnamespace {
            steps.subnamespace(&path).await?;
        } else {
            steps.plant(&[(name, parent)]).await?;
            let marks = json!({ "labels": { "colour": name }, "annotations": { "example.com/owner": name } });
            steps.change_namespace(name, json!({ "metadata": marks })).await?;
        }
        paths.insert(name, path);
    }
    let pair = |key: &str, value: &str| json!([{ "key": format!("structure.test/{key}"), "value": value }]);
    steps
        .configure("rs-root", json!({ "labels": pair("team", "red"), "annotations": pair("note", "all") }))
        .await?;
    steps
        .configure("rs-a-2", json!({ "labels": pair("cost", "low"), "allowCascadingDeletion": false }))
        .await?;
    steps.configure("rs-c", json!({ "allowCascadingDeletion": true })).await?;
    for (parent, child) in [("rs-root", "rs-a"), ("rs-b", "rs-b-1")] {
        let labels = Patch::Merge(json!({ "spec": { "labels": pair("tier", child) } }));
        steps.anchors(parent).patch(child, &PatchParams::default(), &labels).await?;
    }
    for place in ["rs-root", "rs-a", "rs-a-1-full", "rs-b-2"] {
        let role = format!("{place}-role");
        steps.create_role(place, &role, (&["get", "list"], "", "pods")).await?;
        steps.create_binding(place, &role, ("Role", &role), "alice").await?;
    }
    for path in paths.values() {
        steps.labelled(path).await?;
    }
    Ok(())
}

/// The export, once it has stopped changing and holds every copy.
async fn settled<H>(scene: &Scene<H>) -> Result<Vec<Value>> {
    let below = |place: &str| {
        let is_below = |name: &str| {
            std::iter::successors(Some(name), |name| {
                TREE.iter().find(|(it, ..)| it == name).map(|(_, parent, _)| *parent)
            })
            .any(|it| it == place)
        };
        TREE.iter().filter(|(name, ..)| is_below(name)).count()
    };
    let bindings: usize = ["rs-root", "rs-a", "rs-a-1-full", "rs-b-2"].into_iter().map(below).sum();
    let count = |objects: &[Value], kind: &str| objects.iter().filter(|it| it["kind"] == kind).count();
    let mut last = None;
    eventually("the tree is complete and at rest", Duration::from_secs(60), async || {
        let seen = export(scene).await.map_err(|error| format!("{error:#}"))?;
        let now = Some(compared(&seen));
        let rests = std::mem::replace(&mut last, now.clone()) == now;
        let counts = KINDS.map(|(.., kind)| count(&seen, kind));
        if rests && counts == [TREE.len(), TREE.len() - 1, 8, bindings, bindings] {
            Ok(seen)
        } else {
            Err(format!("{counts:?}"))
        }
    })
    .await
}

/// What `kubectl get -o yaml` prints of the tree.
async fn export<H>(scene: &Scene<H>) -> Result<Vec<Value>> {
    let kinds = KINDS.map(|(plural, ..)| plural).join(",");
    let text = scene.cluster().kubectl().args(["get", &kinds, "-A", "-o", "yaml"]).ok().await?;
    let list: Value = serde_saphyr::from_str(&text).context("what kubectl prints")?;
    let items = list["items"].as_array().context("a list")?;
    Ok(items.iter().filter(|it| place(it).starts_with(PREFIX)).cloned().collect())
}

/// The namespace that an object is or is in.
fn place(object: &Value) -> &str {
    let metadata = &object["metadata"];
    metadata["namespace"].as_str().or(metadata["name"].as_str()).unwrap_or_default()
}

/// What must come back: everything but what the API server gives to each object anew, and when conditions began.
fn compared(objects: &[Value]) -> BTreeMap<String, Value> {
    let comparable = |object: &Value| {
        let mut object = portable(object);
        for condition in object["status"]["conditions"].as_array_mut().into_iter().flatten() {
            condition["lastTransitionTime"] = Value::Null;
        }
        object
    };
    objects
        .iter()
        .map(|it| (format!("{} {} {}", place(it), it["kind"], it["metadata"]["name"]), comparable(it)))
        .collect()
}

fn difference(wanted: &BTreeMap<String, Value>, seen: &BTreeMap<String, Value>) -> String {
    let keys: BTreeSet<&String> = wanted.keys().chain(seen.keys()).collect();
    let differs = keys.into_iter().filter(|key| wanted.get(*key) != seen.get(*key));
    let show = |it: Option<&Value>| it.map_or_else(|| "nothing".to_owned(), Value::to_string);
    differs
        .map(|key| format!("{key}:\n  was {}\n  is  {}", show(wanted.get(key)), show(seen.get(key))))
        .collect::<Vec<_>>()
        .join("\n")
}

/// The object as a restore tool keeps it.
fn portable(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for field in ["uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"] {
            metadata.remove(field);
        }
    }
    object
}

/// Creates everything in a random order, a namespace before what is in it. Says how much was there already.
async fn restore(restorer: &Steps, exported: &[Value], seed: u64) -> Result<usize> {
    let mut dice = Dice::new(seed);
    let mut waiting: Vec<&Value> = exported.iter().collect();
    dice.shuffle(&mut waiting);
    let mut present = 0;
    let mut made = BTreeSet::new();
    while !waiting.is_empty() {
        let is_next = |it: &&Value| it["kind"] == "Namespace" || made.contains(place(it));
        let at = waiting.iter().position(is_next).context("nothing can be created")?;
        let object = waiting.remove(at);
        if bring_back(restorer, object).await.with_context(|| object.to_string())? {
            present += 1;
        }
        if object["kind"] == "Namespace" {
            made.insert(place(object));
        }
    }
    Ok(present)
}

/// Whether the object was there already.
async fn bring_back(restorer: &Steps, object: &Value) -> Result<bool> {
    let kind = object["kind"].as_str().unwrap_or_default();
    let (_, group, version, _) = KINDS.into_iter().find(|it| it.3 == kind).context("an unknown kind")?;
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    let api: Api<DynamicObject> = match object["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(restorer.client.clone(), namespace, &resource),
        None => Api::all_with(restorer.client.clone(), &resource),
    };
    let portable = portable(object);
    match api.create(&PostParams::default(), &serde_json::from_value(portable.clone())?).await {
        Ok(_) => Ok(false),
        Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {
            if kind == "HierarchyConfiguration" || kind == "SubnamespaceAnchor" {
                let spec = Patch::Merge(json!({ "spec": portable["spec"] }));
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                api.patch(name, &PatchParams::default(), &spec).await?;
            }
            Ok(true)
        }
        Err(error) => bail!("{error}"),
    }
}
