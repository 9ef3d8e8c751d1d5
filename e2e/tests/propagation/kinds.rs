//! Objects of many kinds, those of `kinds.yaml` and some that need more than a row: a kind that is defined while everything runs,
//! one whose objects have a status of their own, and one whose definition becomes stricter.
//!
//! What a copy should look like is made here from the source as the API server has it, by docs/compatibility.md alone.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::stream::{self, StreamExt};
use hns_e2e::steps::PATIENCE;
use hns_e2e::{eventually, stays};
use http::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::request::object_path;
use super::scene::{GROUP, Planted, Scene, apply_definitions, definition, planted, scene};

/// So many objects are under way at once.
const AT_ONCE: usize = 6;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    it: String,
    kind: String,
    object: Value,
    #[serde(default)]
    change: Option<Value>,
    #[serde(default)]
    anew: Option<Value>,
}

fn below(prefix: &str) -> [Planted; 3] {
    let [root, child, grandchild] = ["root", "child", "grandchild"].map(|name| format!("{prefix}-{name}"));
    [planted(&root, None), planted(&child, Some(&root)), planted(&grandchild, Some(&child))]
}

/// The source as a copy of it should be: section 6.4 of docs/compatibility.md, less the marks of deployment tools.
fn as_copy(source: &Value, from: &str) -> Value {
    let mut copy = source.clone();
    let keep = |key: &str| !key.split('/').next().is_some_and(|prefix| prefix.ends_with("hnc.x-k8s.io"));
    let kept = |field: &str| -> Map<String, Value> {
        let all = source["metadata"][field].as_object().cloned().unwrap_or_default();
        all.into_iter().filter(|(key, _)| keep(key)).collect()
    };
    let mut labels = kept("labels");
    labels.insert("hnc.x-k8s.io/inherited-from".into(), json!(from));
    labels.insert("app.kubernetes.io/managed-by".into(), json!("hnc.x-k8s.io"));
    copy["metadata"] = json!({ "name": source["metadata"]["name"], "labels": labels });
    let annotations = kept("annotations");
    if !annotations.is_empty() {
        copy["metadata"]["annotations"] = annotations.into();
    }
    copy.as_object_mut().map(|fields| fields.remove("status"));
    copy
}

/// A copy without what is its own: identity, history and status.
fn comparable(copy: &Value) -> Value {
    let mut copy = copy.clone();
    if let Some(metadata) = copy["metadata"].as_object_mut() {
        for own in ["namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"]
        {
            metadata.remove(own);
        }
    }
    copy.as_object_mut().map(|fields| fields.remove("status"));
    copy
}

/// Puts in what would be too long to write down.
fn expand(value: &mut Value) {
    match value {
        // With its labels, still less than what may be stored; the data themselves may not be more.
        Value::String(text) if text == "<1 MiB>" => *text = "x".repeat(1024 * 1024 - 1),
        Value::Object(fields) => fields.values_mut().for_each(expand),
        _ => {}
    }
}

#[tokio::test]
async fn objects_of_every_kind_arrive_equal_follow_and_go() -> Result<()> {
    let scene = scene().await?;
    scene.plant(&below("k")).await?;
    let rows: Vec<Row> = serde_saphyr::from_str(include_str!("kinds.yaml"))?;
    let try_out = async |(number, row): (usize, &Row)| {
        let name = format!("row-{number}");
        let outcome = round(&scene, row, &name).await;
        outcome.err().map(|error| format!("{} ({} {name}): {error:#}", row.it, row.kind))
    };
    let wrong: Vec<_> = stream::iter(rows.iter().enumerate())
        .map(try_out)
        .buffer_unordered(AT_ONCE)
        .filter_map(std::future::ready)
        .collect()
        .await;
    println!("{} objects", rows.len());
    let shorten = |text: &String| text.chars().take(4000).collect::<String>();
    let shown: Vec<_> = wrong.iter().map(shorten).collect();
    assert!(wrong.is_empty(), "{} of {} are wrong:\n{}", wrong.len(), rows.len(), shown.join("\n"));
    scene.fixture.unharmed()
}

/// Creation, change and deletion of one object.
async fn round(scene: &Scene<'_>, row: &Row, name: &str) -> Result<()> {
    let mut fields = row.object.clone();
    expand(&mut fields);
    let place = (row.kind.as_str(), "k-root", name);
    let path = object_path(&row.kind, "k-root", name);
    create(scene, place, fields).await?;
    match (&row.change, &row.anew) {
        (Some(fields), None) => change(scene, place, fields).await,
        (None, Some(fields)) => {
            scene.users.send("alice", Method::DELETE, &path, &Value::Null).await?.allowed("deleting")?;
            create(scene, place, fields.clone()).await
        }
        _ => anyhow::bail!("a row says one of change and anew"),
    }
    .context("afterwards")?;
    scene.users.send("alice", Method::DELETE, &path, &Value::Null).await?.allowed("deleting")?;
    for namespace in ["k-child", "k-grandchild"] {
        eventually(&format!("{name} leaves {namespace}"), PATIENCE, async || {
            match scene.get(&row.kind, namespace, name).await {
                Ok(None) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await?;
    }
    Ok(())
}

/// Creates a source, `(plural, namespace, name)`, and waits until its copies are equal to it.
async fn create(scene: &Scene<'_>, place: (&str, &str, &str), fields: Value) -> Result<()> {
    let source = scene.create("alice", place, fields).await?.allowed("creating")?.body;
    equal(scene, place.0, &source).await
}

/// Changes one, and waits likewise.
async fn change(scene: &Scene<'_>, place: (&str, &str, &str), fields: &Value) -> Result<()> {
    let path = object_path(place.0, place.1, place.2);
    let source = scene.users.send("alice", Method::PATCH, &path, fields).await?.allowed("changing")?.body;
    equal(scene, place.0, &source).await
}

/// Waits until both copies are what the source is.
async fn equal(scene: &Scene<'_>, plural: &str, source: &Value) -> Result<()> {
    let metadata = &source["metadata"];
    let from = metadata["namespace"].as_str().context("a source is in a namespace")?;
    let name = metadata["name"].as_str().context("a source has a name")?;
    let wanted = as_copy(source, from);
    for place in ["child", "grandchild"] {
        let namespace = from.replace("root", place);
        eventually(&format!("{name} in {namespace} is {wanted}"), PATIENCE, async || {
            let copy = scene.get(plural, &namespace, name).await.map_err(|error| format!("{error:#}"))?;
            let copy = copy.ok_or("it is not there")?;
            if comparable(&copy) == wanted { Ok(()) } else { Err(comparable(&copy).to_string()) }
        })
        .await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_kind_that_is_defined_afterwards_is_propagated() -> Result<()> {
    let scene = scene().await?;
    scene.plant(&below("late")).await?;
    let open = json!({ "x-kubernetes-preserve-unknown-fields": true });
    // A kind that does not exist cannot be configured. What is configured and goes can come back.
    let entry = json!({ "group": GROUP, "resource": "latecomers", "mode": "Propagate" });
    scene.put_configuration("slipped", std::slice::from_ref(&entry)).await?;
    let late = definition("latecomers", false, &open);
    apply_definitions(scene.cluster(), std::slice::from_ref(&late)).await?;
    scene.in_force(&[entry]).await?;
    let source = |value: u32| json!({ "data": { "a": value } });
    let place = ("latecomers", "late-root", "it");
    create(&scene, place, source(1)).await?;

    // It goes with all its objects, and comes back.
    let name = format!("latecomers.{GROUP}");
    scene.cluster().kubectl().args(["delete", "crd", &name, "--wait=true"]).ok().await?;
    apply_definitions(scene.cluster(), &[late]).await?;
    create(&scene, place, source(2)).await.context("anew")?;
    scene.fixture.unharmed()
}

#[tokio::test]
async fn the_status_of_a_copy_is_its_own() -> Result<()> {
    let scene = scene().await?;
    scene.plant(&below("status")).await?;
    let place = ("gadgets", "status-root", "it");
    create(&scene, place, json!({ "spec": { "a": 1 } })).await?;
    let set = async |namespace: &str, status: Value| {
        let path = format!("{}/status", object_path("gadgets", namespace, "it"));
        let status = json!({ "status": status });
        scene.users.send("alice", Method::PATCH, &path, &status).await?.allowed("setting the status")
    };
    let copy = set("status-child", json!({ "ready": "here" })).await?.body;
    let source = set("status-root", json!({ "ready": "there" })).await?.body;
    ensure!(source["status"]["ready"] == "there", "{source}");
    stays("no write touches the copy for that", Duration::from_secs(2), async || {
        let now = scene.get("gadgets", "status-child", "it").await.map_err(|error| format!("{error:#}"))?;
        if now.as_ref() == Some(&copy) { Ok(()) } else { Err(format!("{now:?}")) }
    })
    .await?;
    change(&scene, place, &json!({ "spec": { "a": 2 } })).await?;
    let now = scene.get("gadgets", "status-child", "it").await?.context("the copy is gone")?;
    ensure!(now["status"] == copy["status"], "{now}");
    let owners = now["metadata"]["managedFields"].as_array().map_or(0, Vec::len);
    ensure!(owners >= 2, "whose status it is has been forgotten: {now}");
    scene.fixture.unharmed()
}

#[tokio::test]
async fn who_owns_the_fields_of_a_copy_that_is_ours_alone_is_not_kept() -> Result<()> {
    let scene = scene().await?;
    scene.plant(&below("owners")).await?;
    let place = ("configmaps", "owners-root", "it");
    create(&scene, place, json!({ "data": { "a": "1" } })).await?;
    change(&scene, place, &json!({ "data": { "a": "2" } })).await?;
    for namespace in ["owners-child", "owners-grandchild"] {
        let copy = scene.get("configmaps", namespace, "it").await?.context("the copy is gone")?;
        ensure!(copy["metadata"]["managedFields"].is_null(), "{copy}");
    }
    scene.fixture.unharmed()
}

#[tokio::test]
async fn what_a_stricter_definition_refuses_stays_as_it_is_and_that_is_said() -> Result<()> {
    let scene = scene().await?;
    scene.plant(&below("strict")).await?;
    let size = |maximum: u32| {
        let size = json!({ "type": "integer", "maximum": maximum });
        definition("stricts", false, &json!({ "properties": { "size": size } }))
    };
    let entry = |mode: &str| json!({ "group": GROUP, "resource": "stricts", "mode": mode });
    apply_definitions(scene.cluster(), &[size(100)]).await?;
    scene.configure(&[entry("Propagate")]).await?;
    let place = ("stricts", "strict-root", "it");
    let source =
        scene.create("alice", place, json!({ "spec": { "size": 1 } })).await?.allowed("creating")?.body;
    equal(&scene, "stricts", &source).await?;

    // The source is stored, its copies do not follow yet, and the definition changes.
    scene.configure(&[entry("Ignore")]).await?;
    let path = object_path("stricts", "strict-root", "it");
    let change = json!({ "spec": { "size": 50 } });
    scene.users.send("alice", Method::PATCH, &path, &change).await?.allowed("changing")?;
    apply_definitions(scene.cluster(), &[size(10)]).await?;
    let copy = object_path("stricts", "strict-child", "it");
    eventually("the definition is in force", PATIENCE, async || {
        let dry = format!("{copy}?dryRun=All");
        let answer = scene.users.send("slipped", Method::PATCH, &dry, &change).await;
        let answer = answer.map_err(|error| format!("{error:#}"))?;
        if answer.code == 422 { Ok(()) } else { Err(answer.to_string()) }
    })
    .await?;
    let before = scene.get("stricts", "strict-child", "it").await?.context("there is no copy")?;
    scene.configure(&[entry("Propagate")]).await?;
    let said = scene.steps.reasons("strict-child", &["CannotPropagateObject"]).await?;
    println!("{}", said.join("\n"));
    for word in ["stricts", "it", "spec.size"] {
        ensure!(said[0].contains(word), "{word} is not in {said:?}");
    }
    let as_it_was = async || {
        let now = scene.get("stricts", "strict-child", "it").await.map_err(|error| format!("{error:#}"))?;
        if now.as_ref() == Some(&before) { Ok(()) } else { Err(format!("{now:?}")) }
    };
    stays("the copy is as it was", Duration::from_secs(2), as_it_was).await?;

    // It follows when it can, and that it could not is no longer said.
    let change = json!({ "spec": { "size": 5 } });
    let source = scene.users.send("alice", Method::PATCH, &path, &change).await?.allowed("changing")?.body;
    equal(&scene, "stricts", &source).await?;
    scene.steps.reasons("strict-child", &[]).await?;
    let now = scene.get("stricts", "strict-child", "it").await?.context("there is no copy")?;
    ensure!(now["metadata"]["uid"] == before["metadata"]["uid"], "it is another object");
    scene.fixture.unharmed()
}
