//! Which requests about objects and about the configuration are denied: the rows of `denials.yaml`, each a dry run.
//!
//! They run twice: with admission policies, where a policy denies many before the webhook is called, and without, where every
//! denial comes from the webhook.

use anyhow::{Context, Result, bail, ensure};
use futures::stream::{self, StreamExt, TryStreamExt};
use hns_e2e::eventually;
use hns_e2e::steps::PATIENCE;
use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::request::{Answer, object_path};
use super::scene::{CONFIG, Planted, Scene, scene};

/// Concurrent requests.
const AT_ONCE: usize = 8;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    tree: Vec<Planted>,
    objects: Vec<Value>,
    rows: Vec<Row>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    it: String,
    #[serde(rename = "as", default = "alice")]
    who: String,
    request: String,
    #[serde(default)]
    with: Value,
    #[serde(default)]
    set: Vec<Value>,
    #[serde(default)]
    add: Vec<Value>,
    answer: String,
    #[serde(default)]
    by: Option<String>,
    #[serde(default)]
    names: Vec<String>,
    #[serde(default)]
    causes: Vec<String>,
    #[serde(default)]
    warns: Option<String>,
}

fn alice() -> String {
    "alice".to_owned()
}

#[tokio::test]
async fn every_request_is_answered_as_the_table_says() -> Result<()> {
    check(&scene().await?).await
}

/// Draws the fixture of the table, and tries every row in it.
pub(crate) async fn check<H>(scene: &Scene<'_, H>) -> Result<()> {
    let table: Table = serde_saphyr::from_str(include_str!("denials.yaml"))?;
    scene.plant(&table.tree).await?;
    for step in &table.objects {
        draw(scene, step).await.with_context(|| step.to_string())?;
    }
    let try_out = async |row: &Row| -> Result<Option<String>> {
        let (answer, entries) = ask(scene, row).await.with_context(|| format!("{row:?}"))?;
        let shown = format!("{} ({}) by {}: should be {}", row.request, row.it, row.who, row.answer);
        println!("{shown}: {answer}");
        Ok((!row.is_right(&answer, entries)).then(|| format!("{shown}\n    but it is {answer}")))
    };
    let wrong: Vec<_> = stream::iter(&table.rows).map(try_out).buffered(AT_ONCE).try_collect().await?;
    let wrong: Vec<_> = wrong.into_iter().flatten().collect();
    let allowed = table.rows.iter().filter(|row| row.answer == "allowed").count();
    println!("{} rows, {allowed} of them allowed", table.rows.len());
    ensure!(
        wrong.is_empty(),
        "{} of {} rows are wrong:\n{}",
        wrong.len(),
        table.rows.len(),
        wrong.join("\n")
    );
    scene.fixture.unharmed()
}

/// `RESOURCE NAMESPACE/NAME`: its path.
fn path(object: &str) -> Result<String> {
    let (plural, place) = object.split_once(' ').context("an object is RESOURCE NAMESPACE/NAME")?;
    let (plural, subresource) = plural.split_once('/').unwrap_or((plural, ""));
    let path = match place.split_once('/') {
        Some((namespace, name)) => object_path(plural, namespace, name),
        None => format!("/api/v1/{plural}/{place}"),
    };
    Ok(if subresource.is_empty() { path } else { format!("{path}/{subresource}") })
}

fn parts(object: &str) -> Result<(&str, &str, &str)> {
    let (plural, place) = object.split_once(' ').context("an object is RESOURCE NAMESPACE/NAME")?;
    let (namespace, name) = place.split_once('/').context("an object is in a namespace")?;
    Ok((plural, namespace, name))
}

async fn draw<H>(scene: &Scene<'_, H>, step: &Value) -> Result<()> {
    let word = |key: &str| step[key].as_str();
    let fields = step.get("with").cloned().unwrap_or_else(|| json!({}));
    let find = async |object: &str| {
        let (plural, namespace, name) = parts(object)?;
        scene.get(plural, namespace, name).await
    };
    if let Some(object) = word("create") {
        scene.create("slipped", parts(object)?, fields).await?.allowed(object)?;
    } else if let Some(object) = word("change") {
        scene.users.send("slipped", Method::PATCH, &path(object)?, &fields).await?.allowed(object)?;
    } else if let Some(object) = word("delete") {
        scene.users.send("slipped", Method::DELETE, &path(object)?, &Value::Null).await?.allowed(object)?;
    } else if let Some(object) = word("own") {
        let owner = find(word("by").context("owned by whom?")?).await?.context("no owner")?;
        let reference = json!({
            "apiVersion": owner["apiVersion"], "kind": owner["kind"],
            "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
        });
        let patch = json!({ "metadata": { "ownerReferences": [reference] } });
        scene.users.send("slipped", Method::PATCH, &path(object)?, &patch).await?.allowed(object)?;
    } else if let Some(object) = word("wait").or(word("wait for deletion")) {
        let going = word("wait").is_none();
        eventually(&format!("{step}"), PATIENCE, async || match find(object).await {
            Ok(Some(found)) if !going || !found["metadata"]["deletionTimestamp"].is_null() => Ok(()),
            other => Err(format!("{other:?}")),
        })
        .await?;
    } else {
        bail!("nothing is drawn so");
    }
    Ok(())
}

/// Makes a row's request; gives the answer, and the number of entries in the present configuration.
async fn ask<H>(scene: &Scene<'_, H>, row: &Row) -> Result<(Answer, usize)> {
    let send = async |method: Method, path: &str, body: &Value| {
        scene.users.send(&row.who, method, &format!("{path}?dryRun=All"), body).await
    };
    let (verb, object) = row.request.split_once(' ').unwrap_or((&row.request, ""));
    // With a body, the API server does not look at the query.
    let dry_deletion = json!({ "apiVersion": "v1", "kind": "DeleteOptions", "dryRun": ["All"] });
    let answer = match (verb, object) {
        ("configure", _) => return configure(scene, row).await,
        ("delete", "configuration") => send(Method::DELETE, CONFIG, &dry_deletion).await?,
        ("delete", object) if object.starts_with("all ") => {
            let (plural, namespace, name) = parts(object.trim_start_matches("all "))?;
            let collection = object_path(plural, namespace, "");
            let named = format!("{collection}?fieldSelector=metadata.name%3D{name}&dryRun=All");
            scene.users.send(&row.who, Method::DELETE, &named, &dry_deletion).await?
        }
        ("delete", object) => send(Method::DELETE, &path(object)?, &dry_deletion).await?,
        ("change", object) => send(Method::PATCH, &path(object)?, &row.with).await?,
        ("create", object) => {
            let (plural, namespace, name) = parts(object)?;
            let fields = if row.with.is_null() { json!({}) } else { row.with.clone() };
            let body = super::request::object(plural, name, fields);
            send(Method::POST, &object_path(plural, namespace, ""), &body).await?
        }
        _ => bail!("unknown request: {:?}", row.request),
    };
    Ok((answer, 0))
}

/// The configuration may be changed by others between a look at it and the request.
async fn configure<H>(scene: &Scene<'_, H>, row: &Row) -> Result<(Answer, usize)> {
    eventually("the configuration does not change meanwhile", PATIENCE, async || {
        let mut config = scene.configuration_with(&row.set).await.map_err(|error| format!("{error:#}"))?;
        let entries = config["spec"]["resources"].as_array_mut().ok_or("there are no entries")?;
        let number = entries.len();
        entries.extend(row.add.iter().cloned());
        if row.request == "configure nothing" {
            entries.clear();
        }
        let path = format!("{CONFIG}?dryRun=All");
        let answer = scene.users.send(&row.who, Method::PUT, &path, &config).await;
        let answer = answer.map_err(|error| format!("{error:#}"))?;
        if answer.message().contains("the object has been modified") {
            return Err(answer.to_string());
        }
        Ok((answer, number))
    })
    .await
}

impl Row {
    fn is_right(&self, answer: &Answer, entries: usize) -> bool {
        let warned =
            self.warns.as_ref().is_none_or(|word| answer.warnings.iter().any(|it| it.contains(word)));
        if self.answer == "allowed" {
            return answer.is_allowed() && warned;
        }
        let named = self.names.iter().map(String::as_str).chain(self.object());
        let filled = |cause: &String| {
            cause.replace("$+1", &(entries + 1).to_string()).replace('$', &entries.to_string())
        };
        let causes: Vec<String> = self.causes.iter().map(filled).collect();
        let ours = ["hnc.x-k8s.io\" denied the request", "ValidatingAdmissionPolicy 'hns-"];
        let by_us = ours.iter().any(|words| answer.message().contains(words));
        answer.refusal() == self.answer
            && by_us == self.by.is_none()
            && named.into_iter().all(|name| answer.message().contains(name))
            && (causes.is_empty() || answer.causes() == causes)
            && warned
    }

    /// What a refusal has to name: not one that is about an annotation rather than an object.
    fn object(&self) -> Option<&str> {
        let words: Vec<&str> = self.request.split(' ').collect();
        match words[..] {
            _ if self.answer.starts_with("400") => None,
            [] | ["delete", "all", ..] | ["configure", ..] | ["delete", "configuration"] => None,
            [.., place] => place.split('/').next_back(),
        }
    }
}
