//! A `HierarchyConfiguration` that cannot be parsed freezes its namespace and affects no other.

use std::time::Duration;

use anyhow::{Result, ensure};
use hns_e2e::steps::{HIERARCHY, PATIENCE};
use hns_e2e::{Replica, Steps, eventually, stays};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams};
use kube::{Api, Client, CustomResourceExt};
use serde_json::{Value, json};

use super::fixture::{Turn, turn};

const DEFINITION: &str = "hierarchyconfigurations.hnc.x-k8s.io";
const SCHEMA: &str = "/spec/versions/0/schema/openAPIV3Schema";

/// Objects that no definition of ours admits: namespace, and content.
const NONSENSE: [(&str, &str); 4] = [
    ("u-number", r#"{"spec": {"parent": 5}}"#),
    ("u-text", r#"{"spec": "u-root"}"#),
    ("u-map", r#"{"spec": {"parent": {"name": "u-root"}}}"#),
    ("u-labels", r#"{"spec": {"labels": 7}}"#),
];

#[tokio::test]
async fn what_cannot_be_understood_freezes_its_namespace_and_stops_no_stream() -> Result<()> {
    let turn = turn().await;
    let mut both = turn.start_without_registrations().await?;
    let steps = &turn.steps;
    steps.plant(&[("u-root", ""), ("u-well", "u-root")]).await?;
    for (namespace, _) in NONSENSE {
        let child = format!("{namespace}-child");
        steps.plant(&[(namespace, "u-root"), (&child, namespace)]).await?;
    }
    let children = NONSENSE.map(|(namespace, _)| format!("{namespace}-child"));
    let frozen: Vec<&str> =
        NONSENSE.iter().map(|(name, _)| *name).chain(children.iter().map(String::as_str)).collect();
    steps.create_binding("u-root", "early", ("ClusterRole", "view"), "alice").await?;
    steps.binding_arrives(&frozen, "early", "u-root", "alice").await?;
    steps.binding_arrives(&["u-well"], "early", "u-root", "alice").await?;

    let lenient = Lenient::begin(&turn).await?;
    for (namespace, nonsense) in NONSENSE {
        lenient.store(namespace, &serde_json::from_str(nonsense)?).await?;
    }
    for (namespace, _) in NONSENSE {
        let message = reason(&steps.client, namespace, Some("Unreadable")).await?;
        println!("{namespace}: {message}");
        reason(&steps.client, &format!("{namespace}-child"), Some("AncestorHaltActivities")).await?;
        for replica in both.replicas() {
            complained(replica, namespace).await?;
        }
    }
    others_go_on_and_these_do_not(steps, &frozen).await?;
    // A complete list with all of them does no harm either.
    both.controller.restart().await?;
    both.webhook.restart().await?;
    frozen_for_a_while(steps, &frozen).await?;

    for (namespace, _) in &NONSENSE[..3] {
        lenient.store(namespace, &json!({ "spec": { "parent": "u-root" } })).await?;
        repaired(steps, namespace).await?;
    }
    steps.hierarchies("u-labels").delete(HIERARCHY, &DeleteParams::default()).await?;
    steps.labelled(&["u-labels"]).await?;
    steps.labelled(&["u-labels-child", "u-labels"]).await?;
    steps.binding_leaves(&["u-labels", "u-labels-child"], "early").await?;
    steps.binding_leaves(&["u-labels", "u-labels-child"], "late").await?;
    println!("three repaired, one deleted: all caught up");
    lenient.end().await?;
    both.unharmed()?;
    written_a_few_times(&turn)?;
    turn.webhook_only_asked()?;
    Ok(())
}

/// What is shown of what cannot be understood is written once, not over and over.
fn written_a_few_times(turn: &Turn) -> Result<()> {
    for (namespace, _) in NONSENSE {
        let written = turn.written_by_the_controller("hierarchyconfigurations", namespace)?;
        println!("the HierarchyConfiguration in {namespace} was written {written} times");
        ensure!(written <= 8, "the HierarchyConfiguration in {namespace} was written {written} times");
    }
    Ok(())
}

async fn others_go_on_and_these_do_not(steps: &Steps, frozen: &[&str]) -> Result<()> {
    steps.create_binding("u-root", "late", ("ClusterRole", "view"), "bob").await?;
    steps.bindings("u-root").delete("early", &DeleteParams::default()).await?;
    steps.binding_arrives(&["u-well"], "late", "u-root", "bob").await?;
    steps.binding_leaves(&["u-well"], "early").await?;
    // All streams go on: a new namespace joins by a new HierarchyConfiguration.
    steps.plant(&[("u-new", "u-well")]).await?;
    steps.labelled(&["u-new", "u-well", "u-root"]).await?;
    steps.binding_arrives(&["u-new"], "late", "u-root", "bob").await?;
    frozen_for_a_while(steps, frozen).await
}

async fn frozen_for_a_while(steps: &Steps, frozen: &[&str]) -> Result<()> {
    stays("what they held stays, and nothing comes", Duration::from_secs(2), async || {
        for namespace in frozen {
            let get = async |name: &str| {
                steps.bindings(namespace).get_opt(name).await.map_err(|error| error.to_string())
            };
            if get("early").await?.is_none() || get("late").await?.is_some() {
                return Err(format!("{namespace} has changed"));
            }
        }
        Ok(())
    })
    .await
}

async fn repaired(steps: &Steps, namespace: &str) -> Result<()> {
    let child = format!("{namespace}-child");
    steps.labelled(&[&child, namespace, "u-root"]).await?;
    steps.binding_arrives(&[namespace, &child], "late", "u-root", "bob").await?;
    steps.binding_leaves(&[namespace, &child], "early").await?;
    reason(&steps.client, namespace, None).await?;
    reason(&steps.client, &child, None).await?;
    Ok(())
}

/// Waits until the namespace shows exactly this reason, or none; gives the message. Reads no more than that, since the
/// rest may be anything.
async fn reason(client: &Client, namespace: &str, wanted: Option<&str>) -> Result<String> {
    let api = hierarchies(client, namespace);
    eventually(&format!("{namespace} shows {wanted:?}"), PATIENCE, async || {
        let object = api.get_opt(HIERARCHY).await.map_err(|error| error.to_string())?;
        let conditions = object.map(|object| object.data["status"]["conditions"].clone()).unwrap_or_default();
        let shown = conditions.as_array().map(Vec::as_slice).unwrap_or_default();
        match (shown, wanted) {
            ([], None) => Ok(String::new()),
            ([one], Some(wanted)) if one["reason"] == wanted => Ok(one["message"].to_string()),
            _ => Err(conditions.to_string()),
        }
    })
    .await
}

fn hierarchies(client: &Client, namespace: &str) -> Api<DynamicObject> {
    let resource: ApiResource = hns_api::HierarchyConfiguration::api_resource();
    Api::namespaced_with(client.clone(), namespace, &resource)
}

/// Its log names the namespace.
async fn complained(replica: &Replica, namespace: &str) -> Result<()> {
    eventually(&format!("{} says something about {namespace}", replica.pod_name()), PATIENCE, async || {
        let log = replica.log();
        let named = format!("\"namespace\":\"{namespace}\"");
        let line = log.lines().find(|line| line.contains("invalid ") && line.contains(&named));
        line.map(drop).ok_or_else(|| "there is no such line".to_owned())
    })
    .await
}

/// A definition that lets everything through, and no webhook.
struct Lenient<'t> {
    turn: &'t Turn,
    strict: Value,
}

impl<'t> Lenient<'t> {
    async fn begin(turn: &'t Turn) -> Result<Self> {
        let definitions: Api<CustomResourceDefinition> = Api::all(turn.steps.client.clone());
        let strict = serde_json::to_value(definitions.get(DEFINITION).await?)?;
        let strict = strict.pointer(SCHEMA).cloned().unwrap_or_default();
        let lenient = Self { turn, strict };
        turn.product.uninstall_registrations().await?;
        lenient.schema(&json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })).await?;
        Ok(lenient)
    }

    async fn end(self) -> Result<()> {
        self.schema(&self.strict).await?;
        self.turn.product.install_registrations().await?;
        let patch = Patch::Merge(json!({ "spec": { "parent": 5 } }));
        let api = hierarchies(&self.turn.steps.client, "u-well");
        eventually("nonsense is refused again", PATIENCE, async || {
            match api.patch(HIERARCHY, &PatchParams { dry_run: true, ..PatchParams::default() }, &patch).await
            {
                Err(kube::Error::Api(status)) if status.code == 422 => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await
    }

    async fn schema(&self, schema: &Value) -> Result<()> {
        let patch = json!([{ "op": "replace", "path": SCHEMA, "value": schema }]).to_string();
        let args = ["patch", "customresourcedefinition", DEFINITION, "--type=json", "--patch", &patch];
        self.turn.cluster().kubectl().args(args).ok().await?;
        Ok(())
    }

    /// Stores this, as soon as the API server lets it through.
    async fn store(&self, namespace: &str, content: &Value) -> Result<()> {
        let api = hierarchies(&self.turn.steps.client, namespace);
        let patch = Patch::Merge(content);
        let stored = eventually(&format!("{content} is stored in {namespace}"), PATIENCE, async || {
            api.patch(HIERARCHY, &PatchParams::default(), &patch).await.map_err(|error| error.to_string())
        })
        .await?;
        for (key, value) in content.as_object().into_iter().flatten() {
            ensure!(&stored.data[key] == value || value.is_object(), "{key}: {}", stored.data[key]);
        }
        Ok(())
    }
}
