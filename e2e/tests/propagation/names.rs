//! Names that need encoding in URLs, and names that are very long: the API server accepts both for RBAC kinds.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use hns_e2e::eventually;
use hns_e2e::product::CONTROLLER_USER;
use hns_e2e::steps::PATIENCE;
use http::Method;
use serde_json::{Value, json};

use super::request::{object, object_path};
use super::scene::{Scene, planted, scene};

/// Everything that ends a path, starts something else, or cannot stand in a URL; and ordinary names of system objects.
const NAMES: [&str; 17] = [
    "on call",
    "x?y",
    "x#y",
    "?",
    "#",
    "a:b",
    "...",
    " ",
    "50+1&2=3;4,5",
    "back\\slash",
    "tab\tand\nline",
    "\"quoted\" 'twice'",
    "<a>[b]{c}|^`~!@$*()",
    "Ωmega ☸ 日本語",
    "e\u{301}\u{200d}",
    "?limit=1&dryRun=All",
    "hns-dry-run-abcde",
];

const KINDS: [&str; 2] = ["roles", "rolebindings"];

fn fields(plural: &str, word: &str) -> Value {
    if plural == "roles" {
        return json!({ "rules": [{ "apiGroups": [""], "resources": ["pods"], "verbs": [word] }] });
    }
    let group = "rbac.authorization.k8s.io";
    json!({
        "roleRef": { "apiGroup": group, "kind": "ClusterRole", "name": "view" },
        "subjects": [{ "apiGroup": group, "kind": "User", "name": word }],
    })
}

/// The word in an object that [`fields`] has made.
fn word(object: &Value) -> Option<&str> {
    object.pointer("/rules/0/verbs/0").or_else(|| object.pointer("/subjects/0/name"))?.as_str()
}

/// Waits until the copy holds this word; `None` waits until there is no copy.
async fn copied<H>(
    scene: &Scene<'_, H>,
    (plural, namespace, name): (&str, &str, &str),
    wanted: Option<&str>,
) -> Result<()> {
    eventually(&format!("{plural} {name:.40?} in {namespace} holds {wanted:?}"), PATIENCE, async || {
        let found = scene.get(plural, namespace, name).await.map_err(|error| format!("{error:#}"))?;
        if found.as_ref().and_then(word) == wanted { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await
}

async fn put<H>(
    scene: &Scene<'_, H>,
    (plural, namespace, name): (&str, &str, &str),
    word: &str,
) -> Result<()> {
    let path = object_path(plural, namespace, name);
    let object = object(plural, name, fields(plural, word));
    scene.users.send("admin", Method::PUT, &path, &object).await?.allowed("update").map(drop)
}

async fn delete<H>(scene: &Scene<'_, H>, (plural, namespace, name): (&str, &str, &str)) -> Result<()> {
    let path = object_path(plural, namespace, name);
    scene.users.send("admin", Method::DELETE, &path, &Value::Null).await?.allowed("delete").map(drop)
}

/// Copied, updated, removed, and removed again with a move to another tenant.
async fn lives_and_goes<H>(scene: &Scene<'_, H>, plural: &str, name: &str) -> Result<()> {
    let (source, copy) = ((plural, "names-top", name), (plural, "names-mid", name));
    scene.create("admin", source, fields(plural, "get")).await?.allowed("create")?;
    copied(scene, copy, Some("get")).await.context("created")?;
    put(scene, source, "list").await?;
    copied(scene, copy, Some("list")).await.context("updated")?;
    delete(scene, source).await?;
    copied(scene, copy, None).await.context("withdrawn")?;
    scene.create("admin", source, fields(plural, "get")).await?.allowed("create again")?;
    copied(scene, copy, Some("get")).await.context("created again")
}

#[tokio::test]
async fn every_name_that_the_api_server_accepts_is_copied_updated_and_removed() -> Result<()> {
    let scene = scene().await?;
    let tree =
        [planted("names-top", None), planted("names-mid", Some("names-top")), planted("names-other", None)];
    scene.plant(&tree).await?;
    let mark = scene.cluster().audit().mark()?;
    let all = KINDS.iter().flat_map(|plural| NAMES.iter().map(move |name| (*plural, *name)));
    try_join_all(all.clone().map(async |(plural, name)| {
        lives_and_goes(&scene, plural, name).await.with_context(|| format!("{plural} {name:?}"))
    }))
    .await?;
    ensure!(scene.steps.conditions("names-mid").await?.is_empty(), "nothing has failed");

    scene.hang("admin", "names-mid", "names-other").await?;
    try_join_all(all.map(async |(plural, name)| copied(&scene, (plural, "names-mid", name), None).await))
        .await?;

    let writes = scene.cluster().audit().mutating_by(CONTROLLER_USER, mark)?;
    let of_collections = writes.iter().filter(|write| write.verb == "deletecollection" || write.code == 405);
    ensure!(of_collections.count() == 0, "a request was about the whole collection");
    for impossible in ["50%", "a/b", ".", ".."] {
        let refused =
            scene.create("admin", ("roles", "names-top", impossible), fields("roles", "get")).await?;
        ensure!(refused.code == 422, "{impossible:?}: {refused}");
    }
    Ok(())
}

/// A name of so many bytes, one of which has to be encoded.
fn long(length: usize) -> String {
    format!("#{}", "a".repeat(length - 1))
}

/// The lengths of the names of the roles in a namespace.
async fn lengths<H>(scene: &Scene<'_, H>, namespace: &str) -> Result<BTreeSet<usize>> {
    let path = object_path("roles", namespace, "");
    let list = scene.users.send("admin", Method::GET, &path, &Value::Null).await?.allowed("list")?.body;
    let names =
        list["items"].as_array().into_iter().flatten().filter_map(|it| it["metadata"]["name"].as_str());
    Ok(names.map(str::len).collect())
}

/// Longer than any object can be called whose copies are made, but for these of RBAC; the last can stand in no URL that a client
/// in Rust sends.
#[tokio::test]
async fn very_long_names_are_not_copied_and_long_ones_are_short_in_messages() -> Result<()> {
    let scene = scene().await?;
    scene.plant(&[planted("long-top", None), planted("long-mid", Some("long-top"))]).await?;
    let all = [1_024, 1_025, 40_000, 70_000];
    for length in all {
        let role = ("roles", "long-top", &*long(length));
        scene.create("admin", role, fields("roles", "get")).await?.allowed("create")?;
    }
    eventually("the longest name that is copied arrives", PATIENCE, async || {
        match lengths(&scene, "long-mid").await.map_err(|error| error.to_string())? {
            there if there.contains(&1_024) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await?;
    let said = scene.steps.reasons("long-top", &["CannotPropagateObject"]).await?;
    ensure!(said[0].contains("1024 bytes") && said[0].len() < 2_000, "{} bytes: {said:?}", said[0].len());
    ensure!(lengths(&scene, "long-mid").await? == BTreeSet::from([1_024]), "a longer name was copied");

    // What is below is full, and a name of that length has to be said.
    let quota = json!({ "spec": { "hard": { "count/roles.rbac.authorization.k8s.io": "0" } } });
    scene.create("admin", ("resourcequotas", "long-mid", "none"), quota).await?.allowed("quota")?;
    eventually("the quota is in force", PATIENCE, async || {
        match scene.get("resourcequotas", "long-mid", "none").await.map_err(|error| error.to_string())? {
            Some(quota) if quota["status"]["hard"] == quota["spec"]["hard"] => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await?;
    let refused = long(1_000);
    scene
        .create("admin", ("roles", "long-top", &refused), fields("roles", "get"))
        .await?
        .allowed("create")?;
    let said = scene.steps.reasons("long-mid", &["CannotPropagateObject"]).await?;
    ensure!(said[0].contains("exceeded quota") && said[0].len() < 2_000, "{} bytes: {said:?}", said[0].len());

    delete(&scene, ("roles", "long-top", &refused)).await?;
    scene.steps.reasons("long-mid", &[]).await?;
    for length in all {
        // kubectl sends URLs of any length.
        let name = long(length);
        scene.cluster().kubectl().args(["delete", "roles", &name, "-n", "long-top"]).ok().await?;
    }
    scene.steps.reasons("long-top", &[]).await?;
    eventually("the copy goes", PATIENCE, async || {
        match lengths(&scene, "long-mid").await.map_err(|error| error.to_string())? {
            there if there.is_empty() => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await?;
    for replica in [&scene.fixture.controller, &scene.fixture.webhook] {
        let longest = replica.log().lines().map(str::len).max().unwrap_or_default();
        ensure!(longest < 16_000, "a line of {longest} bytes was logged");
    }
    Ok(())
}
