//! What happens to a copy and when: the rows of `copies.yaml`, concurrently, each in namespaces of its own.
//!
//! A row states the objects before, a request and its user, and the objects afterwards; this file runs and compares. It contains
//! no expectations.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use futures::stream::{self, StreamExt};
use hns_e2e::steps::PATIENCE;
use hns_e2e::{eventually, stays};
use http::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::request::{object, object_path, while_in_the_way};
use super::scene::{GROUP, Planted, Scene, planted, scene};

/// How long what is left as it is is watched.
const WATCHED: Duration = Duration::from_secs(2);

/// So many rows are under way at once.
const AT_ONCE: usize = 10;

type States = BTreeMap<String, Value>;

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Row {
    situation: String,
    it: String,
    #[serde(default = "configmaps")]
    kind: String,
    /// Of all objects.
    #[serde(default = "it")]
    name: String,
    #[serde(default)]
    tree: Option<Vec<Planted>>,
    before: Vec<Value>,
    #[serde(default)]
    holds: States,
    r#do: Vec<Value>,
    then: States,
    #[serde(default)]
    left: Vec<String>,
    #[serde(default)]
    in_place: Vec<String>,
    #[serde(default)]
    anew: Vec<String>,
    #[serde(default)]
    events: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    conditions: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    afterwards: Vec<Value>,
    #[serde(default)]
    finally: States,
    #[serde(default)]
    conditions_finally: BTreeMap<String, Vec<String>>,
}

fn it() -> String {
    "it".to_owned()
}

fn configmaps() -> String {
    "configmaps".to_owned()
}

#[tokio::test]
async fn every_situation_ends_as_the_table_says() -> Result<()> {
    let scene = scene().await?;
    let rows: Vec<Row> = serde_saphyr::from_str(include_str!("copies.yaml"))?;
    let try_out = async |(number, row): (usize, &Row)| {
        let case = Case { scene: &scene, row, prefix: format!("c{number}-") };
        let outcome = case.run().await;
        outcome.err().map(|error| format!("{}, {} ({}*): {error:#}", row.situation, row.it, case.prefix))
    };
    let wrong: Vec<_> = stream::iter(rows.iter().enumerate())
        .map(try_out)
        .buffer_unordered(AT_ONCE)
        .filter_map(std::future::ready)
        .collect()
        .await;
    println!("{} rows", rows.len());
    assert!(wrong.is_empty(), "{} of {} rows are wrong:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
    scene.fixture.unharmed()
}

/// A row in its namespaces.
struct Case<'a> {
    scene: &'a Scene<'static>,
    row: &'a Row,
    prefix: String,
}

impl Case<'_> {
    async fn run(&self) -> Result<()> {
        let row = self.row;
        self.plant().await?;
        self.all(&row.before).await.context("before")?;
        self.hold(&row.holds).await.context("before")?;
        let before = self.identities(&[&row.in_place[..], &row.anew].concat(), "uid").await?;
        self.all(&row.r#do).await?;
        let left = self.identities(&row.left, "resourceVersion").await?;
        self.hold(&row.then).await?;
        if !left.is_empty() || row.then.values().any(Value::is_null) {
            stays("it is left as it is", WATCHED, async || {
                let now = self.identities(&row.left, "resourceVersion").await;
                let now = now.map_err(|error| format!("{error:#}"))?;
                if now == left { self.seen(&row.then).await } else { Err(format!("{now:?} is not {left:?}")) }
            })
            .await?;
        }
        let now = self.identities(&[&row.in_place[..], &row.anew].concat(), "uid").await?;
        for namespace in &row.in_place {
            ensure!(now[namespace] == before[namespace], "in {namespace} it is another object");
        }
        for namespace in &row.anew {
            ensure!(now[namespace] != before[namespace], "in {namespace} it is still the same object");
        }
        self.told(&row.events).await?;
        self.show(&row.conditions).await?;
        self.all(&row.afterwards).await.context("afterwards")?;
        self.hold(&row.finally).await.context("finally")?;
        self.show(&row.conditions_finally).await.context("finally")
    }

    fn full(&self, namespace: &str) -> String {
        format!("{}{namespace}", self.prefix)
    }

    /// With the names of namespaces put in.
    fn filled(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => json!(text.replace('$', &self.prefix)),
            Value::Array(items) => items.iter().map(|it| self.filled(it)).collect(),
            Value::Object(fields) => {
                fields.iter().map(|(key, it)| (key.clone(), self.filled(it))).collect::<Map<_, _>>().into()
            }
            other => other.clone(),
        }
    }

    async fn plant(&self) -> Result<()> {
        let place = |name: &str, below: Option<&str>| {
            planted(&self.full(name), below.map(|below| self.full(below)).as_deref())
        };
        let tree = match &self.row.tree {
            Some(tree) => tree.iter().map(|it| place(&it.name, it.below.as_deref())).collect(),
            None => vec![
                place("root", None),
                place("child", Some("root")),
                place("grandchild", Some("child")),
                place("other", None),
            ],
        };
        self.scene.plant(&tree).await
    }

    async fn all(&self, steps: &[Value]) -> Result<()> {
        for step in steps {
            self.step(step).await.with_context(|| step.to_string())?;
        }
        Ok(())
    }

    async fn step(&self, step: &Value) -> Result<()> {
        let word = |key: &str| step[key].as_str().unwrap_or_default();
        let namespace = self.full(word("in"));
        if let Some(entry) = step.get("kind") {
            return self.configure(entry, step["as"].as_str().unwrap_or("admin")).await;
        }
        if let Some(reasons) = step.get("shows") {
            return self.reasons(&namespace, &strings(reasons)).await;
        }
        if let Some(namespace) = step["wait"].as_str() {
            return eventually("it is there", PATIENCE, async || match self.get(namespace).await {
                Ok(Some(_)) => Ok(()),
                other => Err(format!("{other:?}")),
            })
            .await;
        }
        let who = if step.get("alice").is_some() { "alice" } else { "slipped" };
        let with = self.filled(&step["with"]);
        let path = object_path(&self.row.kind, &namespace, &self.row.name);
        match word(who) {
            "create" | "create owned" => {
                let mut fields = step.get("object").map_or_else(|| json!({}), |it| self.filled(it));
                if word(who) == "create owned" {
                    fields["metadata"]["ownerReferences"] = json!([self.owner(&namespace).await?]);
                }
                let place = (self.row.kind.as_str(), namespace.as_str(), self.row.name.as_str());
                // What is below may be in the way until the webhook has seen its labels.
                let create = async || self.scene.create(who, place, fields.clone()).await;
                while_in_the_way(create).await?.allowed("creating")?;
            }
            "apply" => {
                let fields = object(&self.row.kind, &self.row.name, self.filled(&step["object"]));
                let path = format!("{path}?fieldManager=test");
                self.scene.users.send(who, Method::PATCH, &path, &fields).await?.allowed("applying")?;
            }
            "create account" => {
                let place = ("serviceaccounts", namespace.as_str(), self.row.name.as_str());
                self.scene.create(who, place, json!({})).await?.allowed("creating")?;
            }
            "change" => {
                self.scene.users.send(who, Method::PATCH, &path, &with).await?.allowed("changing")?;
            }
            "delete" => {
                self.scene.users.send(who, Method::DELETE, &path, &Value::Null).await?.allowed("deleting")?;
            }
            "delete namespace" => self.scene.users.steps(who).delete_namespace(&namespace).await?,
            "hang" => {
                let below = word("below");
                let below = if below.is_empty() { String::new() } else { self.full(below) };
                self.scene.hang(who, &namespace, &below).await?;
            }
            "label" => {
                let path = format!("/api/v1/namespaces/{namespace}");
                let labels = json!({ "metadata": { "labels": with } });
                self.scene.users.send(who, Method::PATCH, &path, &labels).await?.allowed("labelling")?;
            }
            other => bail!("unknown request: {other:?}"),
        }
        Ok(())
    }

    async fn configure(&self, entry: &Value, who: &str) -> Result<()> {
        ensure!(self.row.kind.starts_with("switch"), "{} is not this row's alone", self.row.kind);
        let mut entry = entry.clone();
        (entry["group"], entry["resource"]) = (json!(GROUP), json!(self.row.kind));
        self.scene.put_configuration(who, &[entry.clone()]).await?;
        self.scene.in_force(&[entry]).await
    }

    /// An object that stays where it is, for another to belong to.
    async fn owner(&self, namespace: &str) -> Result<Value> {
        let stays = json!({ "metadata": { "annotations": { "propagate.hnc.x-k8s.io/none": "true" } } });
        let owner =
            self.scene.create("alice", ("configmaps", namespace, "owner"), stays).await?.allowed("owner")?;
        let uid = &owner.body["metadata"]["uid"];
        Ok(json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid }))
    }

    async fn get(&self, namespace: &str) -> Result<Option<Value>> {
        self.scene.get(&self.row.kind, &self.full(namespace), &self.row.name).await
    }

    async fn identities(&self, namespaces: &[String], field: &str) -> Result<BTreeMap<String, Value>> {
        let mut found = BTreeMap::new();
        for namespace in namespaces {
            let object = self.get(namespace).await?;
            let object = object.with_context(|| format!("there is none in {namespace}"))?;
            found.insert(namespace.clone(), object["metadata"][field].clone());
        }
        Ok(found)
    }

    async fn hold(&self, states: &States) -> Result<()> {
        eventually("all is as it should be", PATIENCE, async || self.seen(states).await).await
    }

    async fn seen(&self, states: &States) -> Result<(), String> {
        for (namespace, state) in states {
            let object = self.get(namespace).await.map_err(|error| format!("{error:#}"))?;
            self.compare(&self.filled(state), object.as_ref())
                .map_err(|why| format!("in {namespace}: {why}"))?;
        }
        Ok(())
    }

    fn compare(&self, state: &Value, object: Option<&Value>) -> Result<(), String> {
        let (wanted, object) = match (state.as_object(), object) {
            (None, None) => return Ok(()),
            (None, Some(object)) => return Err(format!("there is {object}")),
            (Some(_), None) => return Err("there is none".into()),
            (Some(wanted), Some(object)) => (wanted, object),
        };
        let mut labels = object["metadata"]["labels"].clone();
        let mut take = |key| labels.as_object_mut().and_then(|labels| labels.remove(key)).unwrap_or_default();
        let from = take("hnc.x-k8s.io/inherited-from");
        let wanted_from = wanted
            .get("from")
            .map_or(Value::Null, |from| json!(self.full(from.as_str().unwrap_or_default())));
        if from != wanted_from {
            return Err(format!("it is from {from}, not from {wanted_from}: {object}"));
        }
        if !from.is_null() && self.row.situation != "the namespace is not managed" {
            let manager = take("app.kubernetes.io/managed-by");
            let by_hand = self.row.kind == "switchfs";
            if manager != "hnc.x-k8s.io" && !by_hand {
                return Err(format!("{manager} manages it: {object}"));
            }
        }
        for (field, value) in wanted.iter().filter(|(field, _)| *field != "from") {
            let empty = |it: &Value| it.is_null() || it.as_object().is_some_and(Map::is_empty);
            let seen = match field.as_str() {
                "labels" => &labels,
                "annotations" | "finalizers" | "ownerReferences" => &object["metadata"][field],
                _ => &object[field],
            };
            if seen != value && !(empty(seen) && empty(value)) {
                return Err(format!("{field} is {seen}, not {value}"));
            }
        }
        Ok(())
    }

    async fn told(&self, events: &BTreeMap<String, Vec<String>>) -> Result<()> {
        for (namespace, reasons) in events {
            let selector = format!("source%3Dhnc.x-k8s.io%2CinvolvedObject.name%3D{}", self.row.name);
            let path = format!("/api/v1/namespaces/{}/events?fieldSelector={selector}", self.full(namespace));
            eventually(&format!("{namespace} is told {reasons:?}"), PATIENCE, async || {
                let list = self.scene.users.send("admin", Method::GET, &path, &Value::Null).await;
                let list = list.map_err(|error| format!("{error:#}"))?.body;
                let items = list["items"].as_array().into_iter().flatten();
                let told: Vec<&str> = items.filter_map(|it| it["reason"].as_str()).collect();
                if told == *reasons { Ok(()) } else { Err(format!("{told:?}")) }
            })
            .await?;
        }
        Ok(())
    }

    async fn show(&self, conditions: &BTreeMap<String, Vec<String>>) -> Result<()> {
        for (namespace, reasons) in conditions {
            self.reasons(&self.full(namespace), reasons).await?;
        }
        Ok(())
    }

    async fn reasons(&self, namespace: &str, reasons: &[String]) -> Result<()> {
        let reasons: Vec<&str> = reasons.iter().map(String::as_str).collect();
        self.scene.steps.reasons(namespace, &reasons).await.map(drop)
    }
}

fn strings(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}
