//! Copies that cannot be changed in place are recreated, those that cannot be recreated either stay; and users get events.
//!
//! A source that can only be recreated is replaced while the controller is stopped: so its copies change instead of being deleted
//! and created.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hns_e2e::steps::PATIENCE;
use hns_e2e::{Cluster, Options, Product, Replica, Steps, eventually, stays};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

const COMPONENT: &str = "hnc.x-k8s.io";

/// An installation of its own; the controller is started and stopped.
struct Fixture {
    cluster: Cluster,
    steps: Steps,
}

async fn fixture() -> Result<&'static Fixture> {
    static WORLD: OnceCell<Fixture> = OnceCell::const_new();
    WORLD
        .get_or_try_init(async || {
            let cluster = Cluster::start().await?;
            let steps = Steps::of(cluster.admin());
            Ok(Fixture { cluster, steps })
        })
        .await
}

impl Fixture {
    async fn apply(&self, object: &Value) -> Result<()> {
        let kubectl = self.cluster.kubectl().args(["apply", "--server-side", "--force-conflicts", "-f", "-"]);
        kubectl.stdin(object.to_string()).ok().await.map(drop)
    }

    async fn delete(&self, resource: &str, namespace: &str, name: &str) -> Result<()> {
        self.cluster.kubectl().args(["delete", resource, name, "-n", namespace]).ok().await.map(drop)
    }

    async fn get(&self, resource: &str, namespace: &str, name: &str) -> Result<Value, String> {
        let kubectl = self.cluster.kubectl().args(["get", resource, name, "-n", namespace, "-o", "json"]);
        let text = kubectl.ok().await.map_err(|error| format!("{error:#}"))?;
        serde_json::from_str(&text).map_err(|error| error.to_string())
    }

    /// Waits until the object is there and the pointer shows this in it; gives its uid.
    async fn shows(
        &self,
        (resource, namespace, name): (&str, &str, &str),
        at: &str,
        wanted: &Value,
    ) -> Result<String> {
        eventually(
            &format!("{resource} {name} in {namespace} shows {wanted} at {at}"),
            PATIENCE,
            async || {
                let object = self.get(resource, namespace, name).await?;
                match object.pointer(at) {
                    Some(seen) if seen == wanted => Ok(uid(&object)),
                    _ => Err(object.to_string()),
                }
            },
        )
        .await
    }

    /// The events of ours about objects of this name in a namespace: reason and message.
    async fn events(&self, namespace: &str, name: &str) -> Result<Vec<(String, String)>, String> {
        let selector = format!("source={COMPONENT},involvedObject.name={name}");
        let args = ["get", "events", "-n", namespace, "-o", "json", "--field-selector", &selector];
        let text = self.cluster.kubectl().args(args).ok().await.map_err(|error| format!("{error:#}"))?;
        let list: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        let word = |event: &Value, key: &str| event[key].as_str().unwrap_or_default().to_owned();
        let events = list["items"].as_array().into_iter().flatten();
        Ok(events.map(|event| (word(event, "reason"), word(event, "message"))).collect())
    }

    /// Waits for the only event about an object; gives its message.
    async fn told(&self, namespace: &str, name: &str, reason: &str) -> Result<String> {
        eventually(&format!("{namespace} is told {reason} of {name}"), PATIENCE, async || {
            match &self.events(namespace, name).await?[..] {
                [(told, message)] if told == reason => Ok(message.clone()),
                other => Err(format!("{other:?}")),
            }
        })
        .await
    }
}

fn uid(object: &Value) -> String {
    object["metadata"]["uid"].as_str().unwrap_or_default().to_owned()
}

fn object(api_version: &str, kind: &str, namespace: &str, name: &str, fields: Value) -> Value {
    let mut object = fields;
    object["apiVersion"] = json!(api_version);
    object["kind"] = json!(kind);
    object["metadata"] = json!({ "name": name, "namespace": namespace });
    object
}

/// A definition of gadgets, whose size is limited.
fn gadgets(maximum: u32) -> Value {
    let size = json!({ "type": "integer", "maximum": maximum });
    let spec = json!({ "type": "object", "properties": { "size": size } });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": "gadgets.example.com" },
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": { "plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": spec } } },
            }],
        },
    })
}

fn configuration() -> Value {
    json!({
        "apiVersion": "hnc.x-k8s.io/v1alpha2",
        "kind": "HNCConfiguration",
        "metadata": { "name": "config" },
        "spec": { "resources": [
            { "resource": "configmaps" },
            { "resource": "secrets" },
            { "group": "example.com", "resource": "gadgets" },
        ] },
    })
}

fn role_binding(role: &str) -> Value {
    let role_ref = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role });
    object("rbac.authorization.k8s.io/v1", "RoleBinding", "root", "binding", json!({ "roleRef": role_ref }))
}

fn immutable(kind: &str, value: &str) -> Value {
    let data = if kind == "Secret" { "stringData" } else { "data" };
    object("v1", kind, "root", "fixed", json!({ "immutable": true, data: { "value": value } }))
}

fn gadget(size: u32) -> Value {
    object("example.com/v1", "Gadget", "root", "gadget", json!({ "spec": { "size": size } }))
}

/// What is created anew: the resource, the name, the old and the new source, and where they differ.
fn replaced() -> [(&'static str, Value, Value, &'static str, Value, Value); 4] {
    let login = |type_: &str| {
        let data = json!({ "username": "u", "password": "p" });
        object("v1", "Secret", "root", "typed", json!({ "type": type_, "stringData": data }))
    };
    [
        (
            "configmaps",
            immutable("ConfigMap", "old"),
            immutable("ConfigMap", "new"),
            "/data/value",
            json!("old"),
            json!("new"),
        ),
        (
            "secrets",
            immutable("Secret", "old"),
            immutable("Secret", "new"),
            "/data/value",
            json!("b2xk"),
            json!("bmV3"),
        ),
        (
            "secrets",
            login("Opaque"),
            login("kubernetes.io/basic-auth"),
            "/type",
            json!("Opaque"),
            json!("kubernetes.io/basic-auth"),
        ),
        (
            "rolebindings",
            role_binding("view"),
            role_binding("edit"),
            "/roleRef/name",
            json!("view"),
            json!("edit"),
        ),
    ]
}

#[tokio::test]
async fn copies_are_created_anew_where_they_must_be_and_stay_where_they_cannot() -> Result<()> {
    let fixture = fixture().await?;
    let product = Product::install(&fixture.cluster, Options::default()).await?;
    fixture.apply(&gadgets(100)).await?;
    let _webhook = product.start_webhook().await?;
    fixture.apply(&configuration()).await?;
    let mut controller = product.start_controller().await?;
    fixture.steps.plant(&[("root", ""), ("leaf", "root")]).await?;

    let copies = replaced();
    let mut uids = Vec::new();
    for (resource, old, _, at, seen, _) in &copies {
        fixture.apply(old).await?;
        uids.push(fixture.shows((resource, "leaf", name(old)), at, seen).await?);
    }
    fixture.apply(&gadget(1)).await?;
    let kept = fixture.shows(("gadgets", "leaf", "gadget"), "/spec/size", &json!(1)).await?;

    controller.terminate().await?;
    for (resource, old, new, ..) in &copies {
        fixture.delete(resource, "root", name(old)).await?;
        fixture.apply(new).await?;
    }
    fixture.apply(&gadget(5)).await?;
    fixture.apply(&gadgets(3)).await?;
    tightened(fixture).await?;
    taken(fixture).await?;
    controller.restart().await?;

    for ((resource, _, new, at, _, seen), old) in copies.iter().zip(&uids) {
        let uid = fixture.shows((resource, "leaf", name(new)), at, seen).await?;
        ensure!(uid != *old, "{resource} {}: it cannot have been changed in place", name(new));
    }
    stays_and_says_why(fixture, &kept).await?;
    is_left_alone(fixture).await?;
    counted(&controller).await
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// Waits until the API server judges by the new schema.
async fn tightened(fixture: &Fixture) -> Result<()> {
    let large = object("example.com/v1", "Gadget", "default", "large", json!({ "spec": { "size": 5 } }));
    eventually("large gadgets are refused", PATIENCE, async || {
        let kubectl = fixture.cluster.kubectl().args(["create", "--dry-run=server", "-f", "-"]);
        let output = kubectl.stdin(large.to_string()).run().await.map_err(|error| format!("{error:#}"))?;
        if output.success() { Err("one was accepted".into()) } else { Ok(()) }
    })
    .await
}

/// A Secret that is watched, above one of the same name that is not.
async fn taken(fixture: &Fixture) -> Result<()> {
    fixture.apply(&object("v1", "ServiceAccount", "leaf", "robot", json!({}))).await?;
    let mut token =
        object("v1", "Secret", "leaf", "taken", json!({ "type": "kubernetes.io/service-account-token" }));
    token["metadata"]["annotations"] = json!({ "kubernetes.io/service-account.name": "robot" });
    fixture.apply(&token).await?;
    fixture.apply(&object("v1", "Secret", "root", "taken", json!({ "stringData": { "value": "v" } }))).await
}

/// The source can neither be put in the copy's place nor be created beside it: nothing is deleted, and the condition and the
/// events give both reasons, once.
async fn stays_and_says_why(fixture: &Fixture, kept: &str) -> Result<()> {
    let condition = fixture.steps.conditions("leaf").await;
    let said = eventually("leaf says why the gadget is not as it should be", PATIENCE, async || {
        let seen = fixture.steps.conditions("leaf").await.map_err(|error| error.to_string())?;
        let about = seen.iter().find(|(_, reason, message)| {
            reason == "CannotPropagateObject" && message.contains("gadgets.example.com \"gadget\"")
        });
        about.map(|(_, _, message)| message.clone()).ok_or_else(|| format!("{seen:?}"))
    })
    .await
    .with_context(|| format!("before: {condition:?}"))?;
    println!("{said}");
    for part in ["stays unchanged", "should be less than or equal to 3"] {
        ensure!(said.contains(part), "{said}");
    }
    ensure!(!said.contains("hns-dry-run"), "a name that changes with every attempt: {said}");

    let on_source = fixture.told("root", "gadget", "CannotPropagateObject").await?;
    let start = "Could not write to destination namespace \"leaf\": ";
    ensure!(on_source.starts_with(start) && on_source.contains("stays unchanged"), "{on_source}");
    let on_copy = fixture.told("leaf", "gadget", "CannotUpdateObject").await?;
    ensure!(on_copy.starts_with("Could not write from source namespace \"root\": "), "{on_copy}");

    // Long enough for several attempts.
    stays("the copy stays, and nothing is said twice", Duration::from_secs(8), async || {
        let copy = fixture.get("gadgets", "leaf", "gadget").await?;
        let events =
            [fixture.events("root", "gadget").await?, fixture.events("leaf", "gadget").await?].concat();
        let is_same = uid(&copy) == kept && copy["spec"]["size"] == 1;
        if is_same && events.len() == 2 { Ok(()) } else { Err(format!("{copy} {events:?}")) }
    })
    .await
}

/// A Secret of a type that is never propagated is not overwritten, though no watch covers it.
async fn is_left_alone(fixture: &Fixture) -> Result<()> {
    let said = fixture.told("leaf", "taken", "CannotUpdateObject").await?;
    ensure!(
        said.contains("of type \"kubernetes.io/service-account-token\", which is never replaced"),
        "{said}"
    );
    let token = fixture.get("secrets", "leaf", "taken").await.map_err(anyhow::Error::msg)?;
    ensure!(token["type"] == "kubernetes.io/service-account-token", "{token}");
    Ok(())
}

/// The figures tell of what has happened.
async fn counted(controller: &Replica) -> Result<()> {
    let figures = controller.metrics().await?;
    let value = |series: &str| {
        let line = figures.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.and_then(|value| value.parse::<f64>().ok())
            .with_context(|| format!("{series} is not in {figures}"))
    };
    let at_least = [
        ("hnc_reconcilers_object_overwrites_total{GroupKind=\"\"}", 4.0),
        ("hnc_reconcilers_object_writes_total{GroupKind=\"\"}", 4.0),
        ("hnc_reconcilers_object_total{GroupKind=\"\"}", 4.0),
        ("hnc_reconcilers_hierconfig_total", 2.0),
        ("hnc_namespace_conditions{Condition=\"BadConfiguration\",Reason=\"CannotPropagateObject\"}", 1.0),
        ("hns_events_total{outcome=\"written\"}", 4.0),
        ("hns_forest_objects{resource=\"configmaps\",role=\"copy\"}", 1.0),
        ("hns_write_duration_seconds_count{action=\"replace-copy\"}", 4.0),
        ("hns_plan_writes_count", 2.0),
    ];
    for (series, least) in at_least {
        let seen = value(series)?;
        ensure!(seen >= least, "{series} {seen}");
    }
    ensure!((value("hns_events_total{outcome=\"dropped\"}")?).abs() < 0.5, "{figures}");
    Ok(())
}
