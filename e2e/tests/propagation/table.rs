//! Where objects go by their annotations, row by row of `table.yaml`: what admission answers, and who gets a copy.
//!
//! All objects are in one tree at once. What the controller writes is read from the audit log, so that a copy that was there for
//! a moment and should not have been is seen, too, and so is a write that was not needed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::stream::{self, StreamExt, TryStreamExt};
use hns_e2e::product::CONTROLLER_USER;
use hns_e2e::steps::PATIENCE;
use hns_e2e::{Mark, eventually, stays};
use http::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::request::{Answer, object_path};
use super::scene::{Planted, Scene, scene};

const ROOT: &str = "t-root";

/// So many requests are under way at once.
const AT_ONCE: usize = 8;

/// How many sets of annotations each object gets.
const ROUNDS: usize = 3;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    tree: Vec<Planted>,
    rows: Vec<Row>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Row {
    mode: String,
    select: Option<String>,
    tree_select: Option<String>,
    none: Option<String>,
    all: Option<String>,
    #[serde(default)]
    refused: Vec<String>,
    goes: BTreeSet<String>,
}

impl Row {
    /// A kind in the mode of this row.
    fn plural(&self) -> &'static str {
        match self.mode.as_str() {
            "Propagate" => "configmaps",
            "AllowPropagate" => "allowings",
            "Remove" => "removings",
            "Ignore" => "ignorings",
            other => unreachable!("no mode is called {other}"),
        }
    }

    fn annotations(&self) -> Value {
        let four = [
            ("select", &self.select),
            ("treeSelect", &self.tree_select),
            ("none", &self.none),
            ("all", &self.all),
        ];
        let given = four.into_iter().filter_map(|(key, value)| Some((key, value.as_ref()?)));
        given.map(|(key, value)| (annotation(key), json!(value))).collect::<Map<_, _>>().into()
    }

    /// What is wrong with an answer.
    fn objection(&self, answer: &Answer) -> Option<String> {
        let right = if self.refused.is_empty() {
            answer.is_allowed()
        } else {
            answer.refusal() == "400 BadRequest"
                && self.refused.iter().all(|key| answer.message().contains(&annotation(key)))
        };
        (!right).then(|| format!("{self:?}\n    is answered {answer}"))
    }
}

fn annotation(key: &str) -> String {
    format!("propagate.hnc.x-k8s.io/{key}")
}

/// An object of the table, and the row that it is like at present.
#[derive(Debug, Clone)]
struct Object {
    name: String,
    row: Row,
}

/// Copies of all objects by namespace: kind and name.
type Copies = BTreeSet<(String, &'static str, String)>;

fn wanted(objects: &[Object]) -> Copies {
    objects
        .iter()
        .flat_map(|it| it.row.goes.iter().map(|to| (to.clone(), it.row.plural(), it.name.clone())))
        .collect()
}

#[tokio::test]
async fn objects_go_where_their_annotations_say() -> Result<()> {
    let scene = scene().await?;
    let Table { tree, rows } = serde_saphyr::from_str(include_str!("table.yaml"))?;
    scene.plant(&tree).await?;
    let began = scene.cluster().audit().mark()?;
    let (mut objects, mut wrong) = create(&scene, &rows).await?;
    let refused = rows.iter().filter(|row| !row.refused.is_empty()).count();
    println!("{} rows, {refused} of them refused", rows.len());
    people_are_told(&scene, &objects).await?;
    wrong.extend(settle(&scene, &tree, &Copies::new(), &objects, began).await?);
    for round in 1..ROUNDS {
        let (before, mark) = (wanted(&objects), scene.cluster().audit().mark()?);
        wrong.extend(change(&scene, &mut objects, &rows, round).await?);
        wrong.extend(settle(&scene, &tree, &before, &objects, mark).await?);
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    scene.fixture.unharmed()
}

/// One object for each row, and what was answered wrongly.
async fn create(scene: &Scene<'_>, rows: &[Row]) -> Result<(Vec<Object>, Vec<String>)> {
    let create = async |(number, row): (usize, &Row)| -> Result<(Object, Option<String>)> {
        let name = format!("row-{number}");
        let fields = json!({ "metadata": { "annotations": row.annotations() }, "data": { "row": name } });
        let place = (row.plural(), ROOT, name.as_str());
        let answer = scene.create("alice", place, fields.clone()).await?;
        if !answer.is_allowed() {
            scene.create("slipped", place, fields).await?.allowed(&name)?;
        }
        Ok((Object { name, row: row.clone() }, row.objection(&answer)))
    };
    let created: Vec<_> =
        stream::iter(rows.iter().enumerate()).map(create).buffered(AT_ONCE).try_collect().await?;
    let (objects, wrong): (Vec<_>, Vec<_>) = created.into_iter().unzip();
    Ok((objects, wrong.into_iter().flatten().collect()))
}

/// The owner of an object that cannot be parsed gets an event, and other users get none.
async fn people_are_told(scene: &Scene<'_>, objects: &[Object]) -> Result<()> {
    // What is refused for more than one annotation can be understood.
    let understood = |it: &&Object| it.row.refused.len() != 1;
    let (_, not): (Vec<_>, Vec<_>) = objects.iter().partition(understood);
    let wanted: BTreeSet<_> = not.iter().map(|it| format!("CannotParseSelector {}", it.name)).collect();
    let path = format!("/api/v1/namespaces/{ROOT}/events?fieldSelector=source%3Dhnc.x-k8s.io");
    eventually("people are told", PATIENCE, async || {
        let list = scene.users.send("admin", Method::GET, &path, &Value::Null).await;
        let list = list.map_err(|error| format!("{error:#}"))?.body;
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let about =
            |event: &Value| format!("{} {}", word(&event["reason"]), word(&event["involvedObject"]["name"]));
        let seen: BTreeSet<_> = list["items"].as_array().into_iter().flatten().map(about).collect();
        let differ: Vec<_> = seen.symmetric_difference(&wanted).collect();
        if differ.is_empty() { Ok(()) } else { Err(format!("{differ:?}")) }
    })
    .await
}

/// Gives each object the annotations of a row after the one that it is like, in the same mode.
async fn change(scene: &Scene<'_>, objects: &mut [Object], rows: &[Row], step: usize) -> Result<Vec<String>> {
    let change = async |object: &mut Object| -> Result<Option<String>> {
        let of_mode: Vec<&Row> = rows.iter().filter(|row| row.mode == object.row.mode).collect();
        let same = |row: &&&Row| row.annotations() == object.row.annotations();
        let place = of_mode.iter().position(|row| same(&row)).context("every object is like a row")?;
        let next = of_mode[(place + step) % of_mode.len()];
        let mut annotations = json!({});
        for key in ["select", "treeSelect", "none", "all"] {
            annotations[annotation(key)] = next.annotations()[annotation(key)].clone();
        }
        let path = object_path(object.row.plural(), ROOT, &object.name);
        let fields = json!({ "metadata": { "annotations": annotations } });
        let answer = scene.users.send("alice", Method::PATCH, &path, &fields).await?;
        if answer.is_allowed() {
            object.row = next.clone();
        }
        Ok(next.objection(&answer).map(|why| format!("a change to {why}")))
    };
    let wrong: Vec<_> = stream::iter(objects.iter_mut()).map(change).buffered(AT_ONCE).try_collect().await?;
    Ok(wrong.into_iter().flatten().collect())
}

/// Waits until the copies are where they should be, and sees that nothing else has been written meanwhile or is afterwards.
async fn settle(
    scene: &Scene<'_>,
    tree: &[Planted],
    before: &Copies,
    objects: &[Object],
    mark: Mark,
) -> Result<Vec<String>> {
    let after = wanted(objects);
    let as_wanted = async || {
        let seen = copies(scene, tree).await.map_err(|error| format!("{error:#}"))?;
        if seen == after {
            return Ok(());
        }
        let explain = |(namespace, plural, name): &(String, &str, String)| {
            let row = objects.iter().find(|it| it.name == *name).map(|it| &it.row);
            format!("{plural}/{name} in {namespace}: {row:?}")
        };
        let list = |copies: Vec<String>| copies.join("\n    ");
        Err(format!(
            "\n  missing:\n    {}\n  too many:\n    {}",
            list(after.difference(&seen).map(explain).collect()),
            list(seen.difference(&after).map(explain).collect())
        ))
    };
    eventually("every object is where its row says", PATIENCE, as_wanted).await?;
    stays("every object is where its row says", Duration::from_secs(1), as_wanted).await?;
    let mut writes: BTreeMap<(String, String, String), Vec<String>> = BTreeMap::new();
    for event in scene.cluster().audit().mutating_by(CONTROLLER_USER, mark)? {
        // In the root, the objects that were refused are created in the controller's name.
        let below = event.namespace != ROOT && tree.iter().any(|it| it.name == event.namespace);
        let of_table = event.name.starts_with("row-") && below;
        if of_table && event.resource != "events" {
            let place = (event.namespace, event.resource, event.name);
            writes.entry(place).or_default().push(format!("{} {}", event.verb, event.code));
        }
    }
    let mut wrong = Vec::new();
    for (namespace, plural, name) in before.union(&after) {
        let copy = (namespace.clone(), *plural, name.clone());
        let needed = match (before.contains(&copy), after.contains(&copy)) {
            (false, true) => vec!["create 201".to_owned()],
            (true, false) => vec!["delete 200".to_owned()],
            _ => vec![],
        };
        let done =
            writes.remove(&(namespace.clone(), (*plural).to_owned(), name.clone())).unwrap_or_default();
        if done != needed {
            wrong.push(format!("{plural}/{name} in {namespace} needed {needed:?} and got {done:?}"));
        }
    }
    wrong
        .extend(writes.into_iter().map(|(place, done)| format!("{place:?} needed nothing and got {done:?}")));
    Ok(wrong)
}

async fn copies(scene: &Scene<'_>, tree: &[Planted]) -> Result<Copies> {
    let mut copies = Copies::new();
    for plural in ["configmaps", "allowings", "removings", "ignorings"] {
        for namespace in tree {
            let collection = object_path(plural, &namespace.name, "");
            let path = format!("{collection}?labelSelector=hnc.x-k8s.io/inherited-from");
            let list = scene.users.send("admin", Method::GET, &path, &Value::Null).await?;
            let items = list.body["items"].as_array().context("a list has items")?;
            for item in items {
                let name = item["metadata"]["name"].as_str().unwrap_or_default();
                let from = &item["metadata"]["labels"]["hnc.x-k8s.io/inherited-from"];
                ensure!(
                    from == ROOT && item["data"]["row"] == *name,
                    "a copy is not what it should be: {item}"
                );
                let annotations = item["metadata"]["annotations"].as_object();
                ensure!(annotations.is_none_or(Map::is_empty), "a copy has annotations: {item}");
                copies.insert((namespace.name.clone(), plural, name.to_owned()));
            }
        }
    }
    Ok(copies)
}
