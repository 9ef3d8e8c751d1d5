//! A tree is exported, deleted, and brought back in random orders by the identity that may: it is as it was.
//!
//! What is there already when its turn comes (the controller makes a namespace for an anchor, a hierarchy where there is
//! something to record, a copy of a role) is not created again: a hierarchy or an anchor has what was exported merged into it,
//! a namespace or a copy is left as it is.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures::future::try_join_all;
use hns_e2e::steps::PATIENCE;
use hns_e2e::{Cluster, Dice, Steps, eventually};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

use super::scene::{Scene, Structure, among_others, scene_in_rounds};

/// Several trees of the same shape go through it side by side: most of a deletion is waiting.
const FAMILIES: u64 = 4;
const ORDERS_EACH: u64 = 5;
const SEED: u64 = 0x0e57_04e5;

/// Namespace, parent, and whether it is a subnamespace; without the name of the family. Five levels.
const TREE: [(&str, &str, bool); 15] = [
    ("root", "", false),
    ("a", "root", true),
    ("a-1", "a", true),
    ("a-1-full", "a-1", false),
    ("a-1-full-sub", "a-1-full", true),
    ("a-1-sub", "a-1", true),
    ("a-2", "a", false),
    ("a-2-sub", "a-2", true),
    ("b", "root", false),
    ("b-1", "b", true),
    ("b-2", "b", false),
    ("b-2-full", "b-2", false),
    ("c", "root", true),
    ("c-1", "c", true),
    ("lone", "", false),
];

/// Where there is a role and a binding.
const SOURCES: [&str; 4] = ["root", "a", "a-1-full", "b-2"];

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
    let scene = scene_in_rounds().await?;
    let restorer = hire(&scene).await?;
    let families = (0..FAMILIES).map(|number| Family {
        prefix: format!("rs-{number}-"),
        scene: &scene,
        restorer: &restorer,
    });
    let families: Vec<_> = families.collect();
    println!("seed {SEED:#x}");
    let wanted = try_join_all(families.iter().map(Family::stand)).await?;
    let exported = export(scene.cluster()).await?;
    let lives = families.iter().zip(wanted).zip(0..);
    try_join_all(lives.map(|((family, wanted), number)| family.live(number, wanted, &exported))).await?;
    Ok(())
}

/// One tree. Its names begin with its prefix.
struct Family<'a, H> {
    prefix: String,
    scene: &'a Scene<H>,
    restorer: &'a Steps,
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
        restorer.namespaces().list(&ListParams::default()).await.map(drop).map_err(|error| error.to_string())
    })
    .await?;
    Ok(restorer)
}

impl<H> Family<'_, H> {
    fn name(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Itself first, then its parent, and so on.
    fn path(&self, name: &str) -> Vec<String> {
        let parent = |name: &&'static str| {
            TREE.iter().find(|(it, ..)| it == name).map(|(_, parent, _)| *parent).filter(|it| !it.is_empty())
        };
        let known = TREE.iter().find(|(it, ..)| *it == name).map(|(it, ..)| *it);
        std::iter::successors(known, parent).map(|it| self.name(it)).collect()
    }

    /// Builds the tree and gives it as it is then.
    async fn stand(&self) -> Result<BTreeMap<String, Value>> {
        let _place = among_others().await;
        self.build().await?;
        self.settled().await
    }

    async fn live(&self, number: u64, wanted: BTreeMap<String, Value>, exported: &[Value]) -> Result<()> {
        let exported: Vec<&Value> = exported.iter().filter(|it| self.is_ours(place(it))).collect();
        println!("{}: {} objects", self.prefix, exported.len());
        for order in number * ORDERS_EACH..(number + 1) * ORDERS_EACH {
            let _place = among_others().await;
            self.vanish().await?;
            let present = restore(self.restorer, &exported, SEED + order)
                .await
                .with_context(|| format!("order {order}"))?;
            eventually(&format!("order {order}: all is as it was"), Duration::from_secs(60), async || {
                // Looking costs the cluster more than most of what it is doing.
                tokio::time::sleep(Duration::from_millis(250)).await;
                let seen = self.seen().await.map_err(|error| format!("{error:#}"))?;
                if seen == wanted { Ok(()) } else { Err(difference(&wanted, &seen)) }
            })
            .await?;
            println!("order {order}: as it was; {present} objects were there before their turn");
        }
        Ok(())
    }

    /// Deletes everything at once, past the rules: they would have it done from below, anchor by anchor.
    async fn vanish(&self) -> Result<()> {
        let slipped = &self.scene.slipped;
        let names: Vec<String> = TREE.iter().map(|(name, ..)| self.name(name)).collect();
        for name in &names {
            slipped.namespaces().delete(name, &DeleteParams::default()).await?;
        }
        for name in &names {
            slipped.gone(name).await?;
        }
        Ok(())
    }

    async fn build(&self) -> Result<()> {
        let steps = &self.scene.steps;
        for (name, ..) in TREE {
            self.plant(name).await?;
        }
        let pair =
            |key: &str, value: &str| json!([{ "key": format!("structure.test/{key}"), "value": value }]);
        let root = json!({ "labels": pair("team", "red"), "annotations": pair("note", "all") });
        steps.configure(&self.name("root"), root).await?;
        let explicit = json!({ "labels": pair("cost", "low"), "allowCascadingDeletion": false });
        steps.configure(&self.name("a-2"), explicit).await?;
        // The hierarchy of the second is there before its turn, below one that is halted until its own parent is back.
        for name in ["c", "c-1"] {
            steps.configure(&self.name(name), json!({ "allowCascadingDeletion": true })).await?;
        }
        for (parent, child) in [("root", "a"), ("b", "b-1")] {
            let labels = Patch::Merge(json!({ "spec": { "labels": pair("tier", child) } }));
            let anchors = steps.anchors(&self.name(parent));
            anchors.patch(&self.name(child), &PatchParams::default(), &labels).await?;
        }
        for place in SOURCES {
            let role = self.name(&format!("{place}-role"));
            steps.create_role(&self.name(place), &role, (&["get", "list"], "", "pods")).await?;
            steps.create_binding(&self.name(place), &role, ("Role", &role), "alice").await?;
        }
        Ok(())
    }

    async fn plant(&self, name: &str) -> Result<()> {
        let steps = &self.scene.steps;
        let path = self.path(name);
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        if TREE.iter().any(|(it, _, is_subnamespace)| *it == name && *is_subnamespace) {
            return steps.subnamespace(&path).await;
        }
        steps.plant(&[(path[0], path.get(1).copied().unwrap_or_default())]).await?;
        let marks = json!({ "labels": { "colour": name }, "annotations": { "example.com/owner": name } });
        steps.change_namespace(path[0], json!({ "metadata": marks })).await?;
        steps.labelled(&path).await
    }

    /// The tree, once it has stopped changing and holds every copy.
    async fn settled(&self) -> Result<BTreeMap<String, Value>> {
        let below = |place: &str| {
            TREE.iter().filter(|(name, ..)| self.path(name).contains(&self.name(place))).count()
        };
        let copies: usize = SOURCES.into_iter().map(below).sum();
        let subnamespaces = TREE.iter().filter(|(.., is_subnamespace)| *is_subnamespace).count();
        // A namespace that stands alone has no hierarchy.
        let wanted = [TREE.len(), TREE.len() - 1, subnamespaces, copies, copies];
        let mut last = None;
        eventually("the tree is complete and at rest", Duration::from_secs(60), async || {
            let seen = self.seen().await.map_err(|error| format!("{error:#}"))?;
            let rests = last.replace(seen.clone()).is_some_and(|last| last == seen);
            let counts = KINDS.map(|(.., kind)| seen.values().filter(|it| it["kind"] == kind).count());
            if rests && counts == wanted {
                Ok(seen)
            } else {
                Err(format!("{counts:?} instead of {wanted:?}"))
            }
        })
        .await
    }

    /// Whether a namespace is of this tree.
    fn is_ours(&self, namespace: &str) -> bool {
        namespace.starts_with(&self.prefix)
    }

    /// What must come back: everything but what the API server gives to each object anew, and when conditions began.
    async fn seen(&self) -> Result<BTreeMap<String, Value>> {
        let mut seen = BTreeMap::new();
        for (_, group, version, kind) in KINDS {
            let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
            let api: Api<DynamicObject> = Api::all_with(self.scene.steps.client.clone(), &resource);
            for object in api.list(&ListParams::default()).await? {
                let metadata = &object.metadata;
                let namespace = metadata.namespace.as_ref().or(metadata.name.as_ref());
                // Most of a cluster is other tests', and taking an object apart costs more than its name.
                if !namespace.is_some_and(|it| self.is_ours(it)) {
                    continue;
                }
                let mut object = portable(&serde_json::to_value(object)?);
                object["kind"] = json!(kind);
                for condition in object["status"]["conditions"].as_array_mut().into_iter().flatten() {
                    condition["lastTransitionTime"] = Value::Null;
                }
                seen.insert(format!("{} {kind} {}", place(&object), object["metadata"]["name"]), object);
            }
        }
        Ok(seen)
    }
}

/// What `kubectl get -o yaml` prints of all trees.
async fn export(cluster: &Cluster) -> Result<Vec<Value>> {
    let kinds = KINDS.map(|(plural, ..)| plural).join(",");
    let text = cluster.kubectl().args(["get", &kinds, "-A", "-o", "yaml"]).ok().await?;
    let list: Value = serde_saphyr::from_str(&text).context("what kubectl prints")?;
    Ok(list["items"].as_array().context("a list")?.clone())
}

/// The namespace that an object is or is in.
fn place(object: &Value) -> &str {
    let metadata = &object["metadata"];
    metadata["namespace"].as_str().or(metadata["name"].as_str()).unwrap_or_default()
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
async fn restore(restorer: &Steps, exported: &[&Value], seed: u64) -> Result<usize> {
    let mut dice = Dice::new(seed);
    let mut waiting = exported.to_vec();
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
