//! Changes of the configuration while both binaries run: kinds are added and removed, and faults reported. On a cluster of its
//! own, one step after the other.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hns_e2e::product::Component;
use hns_e2e::steps::PATIENCE;
use hns_e2e::{Cluster, Launch, Options, Product, Replica, Steps, eventually, stays};
use http::Method;
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard, OnceCell};

use super::request::{Answer, Users};
use super::scene::beside_others;

const CONFIG: &str = "/apis/hnc.x-k8s.io/v1alpha2/hncconfigurations/config";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";

/// HNC's users rely on this time.
const SOON: Duration = Duration::from_secs(2);

struct Fixture {
    users: Users,
    steps: Steps,
    webhook: Replica,
    controller: Replica,
    _turn: MutexGuard<'static, ()>,
}

async fn fixture() -> Result<Fixture> {
    static TURN: Mutex<()> = Mutex::const_new(());
    static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
    static PRODUCT: OnceCell<Product<'static>> = OnceCell::const_new();
    let turn = TURN.lock().await;
    let cluster = CLUSTER.get_or_try_init(Cluster::start).await?;
    let product = PRODUCT.get_or_try_init(|| Product::install(cluster, Options::default())).await?;
    let (webhook, controller) = tokio::try_join!(
        product.start(Component::Webhook, Launch::default()),
        product.start(Component::Controller, Launch::default())
    )?;
    let fixture = Fixture {
        users: Users::of(cluster),
        steps: Steps::of(cluster.admin()),
        webhook,
        controller,
        _turn: turn,
    };
    fixture.configured(&[]).await?;
    Ok(fixture)
}

impl Fixture {
    async fn end(self) -> Result<()> {
        for replica in [&self.webhook, &self.controller] {
            ensure!(!replica.log().contains("panic"), "{} panicked:\n{}", replica.pod_name(), replica.log());
        }
        tokio::try_join!(self.webhook.terminate(), self.controller.terminate())?;
        Ok(())
    }

    async fn get(&self, path: &str) -> Result<Option<Value>, String> {
        let answer = self.users.send("admin", Method::GET, path, &Value::Null).await;
        let answer = answer.map_err(|error| format!("{error:#}"))?;
        match answer.code {
            200 => Ok(Some(answer.body)),
            404 => Ok(None),
            _ => Err(format!("{path}: {answer}")),
        }
    }

    async fn put(&self, collection: &str, object: &Value) -> Result<()> {
        let answer = self.users.send("admin", Method::POST, collection, object).await?;
        answer.allowed(collection).map(drop)
    }

    async fn delete(&self, path: &str) -> Result<()> {
        self.users.send("admin", Method::DELETE, path, &Value::Null).await?.allowed(path).map(drop)
    }

    /// Writes these entries into the configuration, as this user.
    async fn configure(&self, who: &str, entries: &[Value]) -> Result<Answer> {
        let patch = json!({ "spec": { "resources": entries } });
        self.users.send(who, Method::PATCH, CONFIG, &patch).await
    }

    /// Waits for the configuration to be there, and puts these entries into it.
    async fn configured(&self, entries: &[Value]) -> Result<Answer> {
        eventually("the configuration is there", PATIENCE, async || {
            self.get(CONFIG).await?.map(drop).ok_or_else(|| "it is not".to_owned())
        })
        .await?;
        self.configure("admin", entries).await?.allowed("configuring")
    }

    /// Waits until the status satisfies; gives what it gave.
    async fn status<T>(&self, what: &str, check: impl Fn(&Value) -> Option<T>) -> Result<T> {
        eventually(what, PATIENCE, async || {
            let config = self.get(CONFIG).await?.ok_or("there is no configuration")?;
            check(&config["status"]).ok_or_else(|| config["status"].to_string())
        })
        .await
    }

    /// Waits until these are all the conditions, by type and reason; gives their messages.
    async fn conditions(&self, wanted: &[&str]) -> Result<Vec<String>> {
        self.status(&format!("the conditions are {wanted:?}"), |status| {
            let all = status["conditions"].as_array().cloned().unwrap_or_default();
            let word = |it: &Value, key: &str| it[key].as_str().unwrap_or_default().to_owned();
            let shown: Vec<String> =
                all.iter().map(|it| format!("{} {}", word(it, "type"), word(it, "reason"))).collect();
            (shown == wanted).then(|| all.iter().map(|it| word(it, "message")).collect())
        })
        .await
    }

    /// Waits until the status shows the resource so: mode, sources, copies.
    async fn shows(&self, resource: &str, wanted: Option<(&str, Value, Value)>) -> Result<()> {
        self.status(&format!("{resource} is shown as {wanted:?}"), |status| {
            let all = status["resources"].as_array().cloned().unwrap_or_default();
            let found = all.into_iter().find(|it| it["resource"] == resource);
            let shown = found.map(|it| {
                let (sources, copies) = (it["numSourceObjects"].clone(), it["numPropagatedObjects"].clone());
                (it["mode"].as_str().unwrap_or_default().to_owned(), sources, copies)
            });
            let wanted = wanted.clone().map(|(mode, sources, copies)| (mode.to_owned(), sources, copies));
            (shown == wanted).then_some(())
        })
        .await
    }

    /// Waits until the object is there with this value at the pointer; gives how long it took.
    async fn arrives(&self, path: &str, at: &str, value: &Value) -> Result<Duration> {
        let began = Instant::now();
        eventually(&format!("{path} shows {value}"), PATIENCE, async || {
            let object = self.get(path).await?.ok_or("it is not there")?;
            if object.pointer(at) == Some(value) { Ok(began.elapsed()) } else { Err(object.to_string()) }
        })
        .await
    }

    /// Waits until both binaries watch the resource, or do not any more.
    async fn watched(&self, resource: &str, wanted: [bool; 2]) -> Result<()> {
        let line = format!("hns_watches{{resource=\"{resource}\"}} 1");
        eventually(
            &format!("{resource} is watched by webhook and controller: {wanted:?}"),
            PATIENCE,
            async || {
                let mut seen = Vec::new();
                for replica in [&self.webhook, &self.controller] {
                    let metrics = replica.metrics().await.map_err(|error| format!("{error:#}"))?;
                    seen.push(metrics.lines().any(|shown| shown == line));
                }
                if seen == wanted { Ok(()) } else { Err(format!("{seen:?}")) }
            },
        )
        .await
    }
}

fn secret(namespace: &str, name: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/secrets/{name}")
}

fn new_secret(name: &str, value: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name }, "data": { "v": value } })
}

/// A definition of widgets, by whose deletion all of them go.
fn widgets() -> Value {
    let open = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": "widgets.configuration.test" },
        "spec": {
            "group": "configuration.test",
            "scope": "Namespaced",
            "names": { "plural": "widgets", "singular": "widget", "kind": "Widget", "shortNames": ["wg"] },
            "versions": [
                { "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": open } },
            ],
        },
    })
}

#[tokio::test]
async fn a_kind_comes_and_goes_while_everything_runs() -> Result<()> {
    let _beside = beside_others().await;
    let fixture = fixture().await?;
    let steps = &fixture.steps;
    fixture.conditions(&[]).await?;
    steps.plant(&[("r", ""), ("a", "r"), ("b", "a")]).await?;
    steps.labelled(&["b", "a", "r"]).await?;
    fixture.put("/api/v1/namespaces/r/secrets", &new_secret("s", "b25l")).await?;
    fixture.put("/api/v1/namespaces/b/secrets", &new_secret("in-the-way", "b25l")).await?;
    for (namespace, value) in [("r", "dHdv"), ("b", "b25l")] {
        fixture.put(&format!("/api/v1/namespaces/{namespace}/secrets"), &new_secret("twice", value)).await?;
    }
    fixture.watched("secrets", [false, false]).await?;

    fixture.configured(&[json!({ "resource": "secrets" })]).await?;
    let path = secret("b", "s");
    let took = fixture.arrives(&path, "/metadata/labels/hnc.x-k8s.io~1inherited-from", &json!("r")).await?;
    ensure!(took < SOON, "it took {took:?}");
    fixture.shows("secrets", Some(("Propagate", json!(4), json!(3)))).await?;
    fixture.watched("secrets", [true, true]).await?;
    // The webhook had never seen what is below: it is kept, and reported.
    for (namespace, reasons) in [("r", ["CannotPropagateObject"]), ("b", ["CannotPropagateObject"])] {
        steps.reasons(namespace, &reasons).await?;
    }
    let kept = fixture.get(&secret("b", "twice")).await.map_err(anyhow::Error::msg)?.context("it is lost")?;
    let label = kept.pointer("/metadata/labels/hnc.x-k8s.io~1inherited-from");
    ensure!(kept["data"]["v"] == "b25l" && label.is_none(), "{kept}");

    // What is not wanted any more stays as it is, and is not looked at any more.
    fixture.configured(&[]).await?;
    fixture.watched("secrets", [false, false]).await?;
    fixture.shows("secrets", None).await?;
    let changed = json!({ "data": { "v": "dHdv" } });
    fixture.users.send("admin", Method::PATCH, &secret("r", "s"), &changed).await?.allowed("changing")?;
    stays("the copy stays", SOON, async || match fixture.get(&path).await? {
        Some(copy) if copy["data"]["v"] == "b25l" => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await?;

    // The webhook looks at what is ignored, and so knows what would be overwritten.
    fixture.configured(&[json!({ "resource": "secret", "mode": "Ignore" })]).await?;
    fixture.watched("secrets", [true, false]).await?;
    fixture.shows("secret", Some(("Ignore", Value::Null, Value::Null))).await?;
    fixture.put("/api/v1/namespaces/r/secrets", &new_secret("in-the-way", "dHdv")).await?;
    let conflict = "object \"in-the-way\" in namespace \"b\" is in the way of the one in \"r\"";
    eventually("the conflict is known", PATIENCE, async || {
        let dry = format!("{CONFIG}?dryRun=All");
        let wish = json!({ "spec": { "resources": [{ "resource": "secrets" }] } });
        let answer = fixture.users.send("admin", Method::PATCH, &dry, &wish).await;
        let answer = answer.map_err(|error| format!("{error:#}"))?;
        let is_refused = answer.refusal() == "409 Conflict" && answer.message().contains(conflict);
        if is_refused { Ok(()) } else { Err(answer.to_string()) }
    })
    .await?;
    fixture.configured(&[json!({ "resource": "secrets", "onConflict": "Report" })]).await?;
    fixture.arrives(&path, "/data/v", &json!("dHdv")).await?;
    fixture.arrives(&secret("b", "in-the-way"), "/data/v", &json!("b25l")).await?;

    fixture.configured(&[json!({ "resource": "secrets", "mode": "Remove" })]).await?;
    eventually("the copy goes", SOON, async || match fixture.get(&path).await? {
        None => Ok(()),
        Some(copy) => Err(copy.to_string()),
    })
    .await?;
    fixture.shows("secrets", Some(("Remove", Value::Null, json!(0)))).await?;
    fixture.configured(&[]).await?;
    for (namespace, name) in [("r", "in-the-way"), ("b", "in-the-way"), ("r", "twice"), ("b", "twice")] {
        fixture.delete(&secret(namespace, name)).await?;
    }
    fixture.end().await
}

#[tokio::test]
async fn a_definition_comes_after_the_configuration_and_goes_and_comes_again() -> Result<()> {
    let _beside = beside_others().await;
    let fixture = fixture().await?;
    let steps = &fixture.steps;
    steps.plant(&[("cr", ""), ("ca", "cr")]).await?;
    steps.labelled(&["ca", "cr"]).await?;
    let entry = json!({ "resource": "wg", "group": "configuration.test" });
    let refused = fixture.configure("admin", std::slice::from_ref(&entry)).await?;
    ensure!(refused.refusal() == "422 Invalid", "{refused}");
    ensure!(refused.causes() == ["FieldValueInvalid spec.resources[0]"], "{refused}");
    // As in a cluster whose definition has gone since.
    fixture.configure("slipped", std::slice::from_ref(&entry)).await?.allowed("slipped")?;
    fixture.conditions(&["BadConfiguration ResourceNotFound"]).await?;

    let widgets_of = |namespace: &str| format!("/apis/configuration.test/v1/namespaces/{namespace}/widgets");
    let new = json!({ "apiVersion": "configuration.test/v1", "kind": "Widget", "metadata": { "name": "w" } });
    for turn in 0..2 {
        fixture.put(DEFINITIONS, &widgets()).await?;
        eventually("widgets can be created", PATIENCE, async || {
            let created = fixture.users.send("admin", Method::POST, &widgets_of("cr"), &new).await;
            match created {
                Ok(answer) if answer.is_allowed() => Ok(()),
                Ok(answer) => Err(answer.to_string()),
                Err(error) => Err(format!("{error:#}")),
            }
        })
        .await?;
        let copy = format!("{}/w", widgets_of("ca"));
        let took =
            fixture.arrives(&copy, "/metadata/labels/hnc.x-k8s.io~1inherited-from", &json!("cr")).await?;
        println!("turn {turn}: the copy was there after {took:.1?}");
        fixture.conditions(&[]).await?;
        fixture.shows("wg", Some(("Propagate", json!(1), json!(1)))).await?;
        fixture.watched("widgets.configuration.test", [true, true]).await?;

        fixture.delete(&format!("{DEFINITIONS}/widgets.configuration.test")).await?;
        let messages = fixture.conditions(&["BadConfiguration ResourceNotFound"]).await?;
        ensure!(messages[0].contains("wg.configuration.test"), "{messages:?}");
        fixture.watched("widgets.configuration.test", [false, false]).await?;
    }
    fixture.configured(&[]).await?;
    fixture.conditions(&[]).await?;
    fixture.end().await
}

#[tokio::test]
async fn what_is_wrong_is_refused_and_said_where_it_slipped_through() -> Result<()> {
    let _beside = beside_others().await;
    let fixture = fixture().await?;
    let wrong = [
        json!({ "resource": "configmaps", "mode": "Ignore" }),
        json!({ "resource": "nodes" }),
        json!({ "resource": "cm", "mode": "Ignore" }),
        json!({ "group": "rbac.authorization.k8s.io", "resource": "roles", "mode": "Remove" }),
        json!({ "resource": "nothings" }),
        json!({ "resource": "bindings" }),
    ];
    let refused = fixture.configure("admin", &wrong).await?;
    ensure!(refused.refusal() == "422 Invalid", "{refused}");
    let expected = [
        "FieldValueInvalid spec.resources[1]",
        "FieldValueDuplicate spec.resources[2]",
        "FieldValueInvalid spec.resources[3]",
        "FieldValueInvalid spec.resources[4]",
        "FieldValueInvalid spec.resources[5]",
    ];
    ensure!(refused.causes() == expected, "{refused}");
    let deleted = fixture.users.send("admin", Method::DELETE, CONFIG, &Value::Null).await?;
    ensure!(deleted.refusal() == "403 Forbidden", "{deleted}");

    fixture.configure("slipped", &wrong).await?.allowed("slipped")?;
    let messages = fixture
        .conditions(&[
            "BadConfiguration ResourceNotNamespaced",
            "BadConfiguration MultipleConfigurationsForType",
            "BadConfiguration MultipleConfigurationsForType",
            "BadConfiguration ResourceNotFound",
            "BadConfiguration Unknown",
        ])
        .await?;
    ensure!(messages[2].contains("always in mode Propagate"), "{messages:?}");
    fixture.shows("configmaps", Some(("Ignore", Value::Null, Value::Null))).await?;

    let consent =
        json!({ "group": "rbac.authorization.k8s.io", "resource": "roles", "mode": "AllowPropagate" });
    fixture.configured(&[consent]).await?;
    fixture.conditions(&[]).await?;
    fixture
        .status("roles wait for consent", |status| {
            let all = status["resources"].as_array()?;
            all.iter().any(|it| it["resource"] == "roles" && it["mode"] == "AllowPropagate").then_some(())
        })
        .await?;
    fixture.configured(&[]).await?;

    // Namespaces that name a parent that does not exist.
    for name in ["lost-a", "lost-b", "lost-c", "lost-d"] {
        fixture.steps.create_namespace(name).await?;
        fixture.steps.set_parent(name, "nowhere").await?;
    }
    let messages = fixture.conditions(&["NamespaceCondition ActivitiesHalted"]).await?;
    let expected = r#"4 namespaces "lost-a", "lost-b", "lost-c" ... are affected by "ParentMissing""#;
    fixture
        .status("all four are counted", |status| {
            (status["conditions"][0]["message"] == expected).then_some(())
        })
        .await
        .with_context(|| format!("it was {messages:?}"))?;
    for name in ["lost-a", "lost-b", "lost-c", "lost-d"] {
        fixture.steps.set_parent(name, "").await?;
    }
    fixture.conditions(&[]).await?;
    fixture.end().await
}

#[tokio::test]
async fn a_missing_right_is_warned_of_and_shown_and_noticed_when_it_is_granted() -> Result<()> {
    let _beside = beside_others().await;
    let fixture = fixture().await?;
    fixture.steps.plant(&[("mr", ""), ("ma", "mr")]).await?;
    fixture.steps.labelled(&["ma", "mr"]).await?;
    let granted = format!("{BINDINGS}/hns-controller-propagation");
    let binding =
        fixture.get(&granted).await.map_err(anyhow::Error::msg)?.context("it is in the manifests")?;
    fixture.delete(&granted).await?;
    fixture.put("/api/v1/namespaces/mr/secrets", &new_secret("s", "b25l")).await?;

    let lack = "the service account hns-controller may not get, list, watch, create, update, delete secrets";
    let answer = eventually("the right is gone", PATIENCE, async || {
        let answer = fixture.configure("admin", &[json!({ "resource": "secrets", "mode": "Ignore" })]).await;
        answer.and_then(|answer| answer.allowed("ignoring")).map_err(|error| format!("{error:#}"))?;
        let answer = fixture.configure("admin", &[json!({ "resource": "secrets" })]).await;
        let answer = answer.map_err(|error| format!("{error:#}"))?;
        if answer.warnings.iter().any(|it| it.contains(lack)) { Ok(answer) } else { Err(answer.to_string()) }
    })
    .await?;
    println!("{answer}");
    let messages = fixture.conditions(&["OutOfSync MissingRights"]).await?;
    ensure!(messages[0].contains("ClusterRole hns-controller"), "{messages:?}");
    // Everything else goes on.
    fixture.steps.create_binding("mr", "viewers", ("ClusterRole", "view"), "alice").await?;
    fixture.steps.binding_arrives(&["ma"], "viewers", "mr", "alice").await?;

    let fields = ["apiVersion", "kind", "roleRef", "subjects"].map(|key| (key, binding[key].clone()));
    let mut again: Value = fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    again["metadata"] = json!({ "name": binding["metadata"]["name"] });
    fixture.put(BINDINGS, &again).await?;
    fixture
        .arrives(&secret("ma", "s"), "/metadata/labels/hnc.x-k8s.io~1inherited-from", &json!("mr"))
        .await?;
    fixture.conditions(&[]).await?;
    fixture.configured(&[]).await?;
    fixture.end().await
}
