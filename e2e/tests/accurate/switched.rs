//! What settings switch on and off: the API itself, the overwriting of own objects, and what owners ask for. Each test runs alone.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use hns_cluster::settings::accurate::Settings;
use hns_e2e::steps::PATIENCE;
use hns_e2e::{eventually, stays};
use serde_json::{Value, json};

use super::scene::{
    BINDINGS, CONFIG, Kind, PROPAGATE, SECRETS, Scene, annotation, label, namespace, path, scene_alone,
    settings,
};

const DEPLOYMENTS: Kind = ("/apis/apps/v1", "deployments");
const GENERATED: &str = "accurate.cybozu.com/generated";

impl<H> Scene<H> {
    /// The parts of the registrations and policies that are about Accurate's API.
    async fn registered(&self) -> Result<Vec<String>, String> {
        let mut found = Vec::new();
        for plural in [
            "validatingwebhookconfigurations",
            "mutatingwebhookconfigurations",
            "validatingadmissionpolicies",
            "validatingadmissionpolicybindings",
        ] {
            let place = format!("/apis/admissionregistration.k8s.io/v1/{plural}");
            let mut all = self.get(&place).await?.unwrap_or_default();
            for item in all["items"].as_array_mut().into_iter().flatten() {
                item["metadata"]["managedFields"].take();
                if item.to_string().contains("cybozu") {
                    found.push(format!("{plural}/{}", item["metadata"]["name"]));
                }
            }
        }
        Ok(found)
    }

    /// Closes the connections of both programs, and waits until both have asked for namespaces again. Counts what they ask of
    /// Accurate's objects from then on.
    async fn asked_anew(&self) -> Arc<AtomicUsize> {
        let [asked, namespaces] = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
        let counters = (Arc::clone(&asked), Arc::clone(&namespaces));
        self.installation.proxy.set_rule(move |request| {
            let (path, query) = (request.uri.path(), request.uri.query().unwrap_or_default());
            counters.0.fetch_add(usize::from(path.contains("accurate.cybozu.com")), Relaxed);
            counters.1.fetch_add(
                usize::from(path == "/api/v1/namespaces" && query.contains("watch=true")),
                Relaxed,
            );
            None
        });
        self.installation.proxy.cut();
        eventually("both programs have watched namespaces anew", PATIENCE, async || {
            let count = namespaces.load(Relaxed);
            if count >= 2 { Ok(()) } else { Err(count.to_string()) }
        })
        .await
        .unwrap();
        asked
    }

    /// Whether the controller watches Secrets, which only Accurate's settings name.
    async fn watches_secrets(&self) -> bool {
        let metrics = self.installation.controller.lock().await.metrics().await.unwrap();
        metrics.contains("hns_watches{resource=\"secrets\"}")
    }

    /// Creates a Deployment without pods, and a Secret that it owns. Returns its reference.
    async fn create_owned(&self, name: &str, annotations: Value) -> Value {
        let labels = json!({ "app": name });
        let pod = json!({ "containers": [{ "name": "x", "image": "none" }] });
        let template = json!({ "metadata": { "labels": labels }, "spec": pod });
        let spec = json!({ "replicas": 0, "selector": { "matchLabels": labels }, "template": template });
        let body = json!({ "metadata": { "annotations": annotations }, "spec": spec });
        self.create(DEPLOYMENTS, "ge-root", name, "", body).await;
        let place = path(DEPLOYMENTS, "ge-root", name);
        let uid = self.get(&place).await.unwrap().unwrap()["metadata"]["uid"].take();
        let owner = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": name, "uid": uid, "controller": true });
        let body = json!({ "metadata": { "ownerReferences": [owner] }, "data": { "k": "dg==" } });
        self.create(SECRETS, "ge-root", name, "", body).await;
        owner
    }
}

/// Section 8.4: what an owner asks for, once the gate is open. Deprecated.
#[tokio::test]
async fn objects_of_an_owner_are_copied_if_it_asks_for_it_and_the_gate_is_open() {
    let scene = scene_alone().await;
    scene.may("apps", "deployments", &["get"]).await;
    scene.create_root("ge-root").await;
    scene.create_sub("ge-root", "ge-sub", json!({})).await;
    let asks = |mode: &str| json!({ "accurate.cybozu.com/propagate-generated": mode });
    // The first one that the controller is asked about: as a part of a path, this version makes a watch, which does not end.
    let hostile = json!({ "apiVersion": "v1%2Fwatch%2Fsecrets", "kind": "ConfigMap", "name": "a", "uid": "a", "controller": true });
    let hostile = json!({ "metadata": { "ownerReferences": [hostile] }, "data": { "k": "dg==" } });
    scene.create(SECRETS, "ge-root", "a-hostile", "", hostile).await;
    let mut owner = Value::Null;
    for mode in ["create", "update"] {
        owner = scene.create_owned(mode, asks(mode)).await;
    }
    scene.create_owned("silent", json!({})).await;
    // Who may not grant this role may still give an existing binding an owner.
    let role = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin" });
    let binding = json!({ "metadata": { "ownerReferences": [owner] }, "roleRef": role });
    scene.create(BINDINGS, "ge-root", "rights", "", binding).await;
    scene.settled("ge-root", "ge-sub", "marker").await;
    let says = async |name: &str| {
        let found = scene.get(&path(SECRETS, "ge-root", name)).await.unwrap().unwrap();
        [PROPAGATE, GENERATED].map(|key| annotation(&found, key).clone())
    };
    for name in ["create", "update", "silent"] {
        assert_eq!(says(name).await, [Value::Null, Value::Null], "{name}, with the gate closed");
    }

    let gates = [("DisablePropagateGenerated".to_owned(), false)].into();
    scene.configure(&Settings { feature_gates: gates, ..settings(CONFIG) }).await.unwrap();
    for mode in ["create", "update"] {
        let copy = scene.copied(SECRETS, "ge-root", "ge-sub", mode).await;
        assert_eq!(annotation(&copy, PROPAGATE), mode);
        assert!(copy["metadata"]["ownerReferences"].is_null(), "{copy}");
    }
    let silent = path(SECRETS, "ge-root", "silent");
    scene.until(&silent, "is not asked about again", |it| annotation(it, GENERATED) == "false").await;
    assert_eq!(scene.get(&path(SECRETS, "ge-sub", "silent")).await, Ok(None));
    scene.delete(&path(SECRETS, "ge-root", "update")).await;
    scene.gone(&path(SECRETS, "ge-sub", "update")).await;
    let rights = scene.get(&path(BINDINGS, "ge-root", "rights")).await.unwrap().unwrap();
    let said = [PROPAGATE, GENERATED].map(|key| annotation(&rights, key).clone());
    assert_eq!(said, [Value::Null, Value::Null], "no owner asks for rights to be copied");
    assert_eq!(scene.get(&path(BINDINGS, "ge-sub", "rights")).await, Ok(None));
    scene.configure(&settings(CONFIG)).await.unwrap();
    scene.refused("").await;
}

/// What is asked of it in RBAC is in the suite `install`.
#[tokio::test]
async fn while_it_is_off_nothing_of_it_is_watched_registered_or_done() {
    let scene = scene_alone().await;
    scene.create_root("of-root").await;
    scene.create_sub("of-root", "of-sub", json!({})).await;
    let sub = namespace("of-sub");
    for enabled in [true, false] {
        scene.configure(&Settings { enabled, ..settings(CONFIG) }).await.unwrap();
        eventually(&format!("kinds are watched: {enabled}"), PATIENCE, async || {
            let watched = scene.watches_secrets().await;
            if watched == enabled { Ok(()) } else { Err(watched.to_string()) }
        })
        .await
        .unwrap();
        eventually(&format!("there are registrations: {enabled}"), PATIENCE, async || {
            let found = scene.registered().await?;
            if found.is_empty() == enabled { Err(format!("{found:?}")) } else { Ok(()) }
        })
        .await
        .unwrap();
        // It keeps what it knew for a while, for requests that are under way.
        scene.installation.webhook.lock().await.restart().await.unwrap();
        let asked = scene.asked_anew().await;
        eventually(&format!("the API server is asked about it: {enabled}"), PATIENCE, async || {
            let count = asked.load(Relaxed);
            if !enabled || count > 0 { Ok(()) } else { Err(count.to_string()) }
        })
        .await
        .unwrap();
        let colour = if enabled { "red" } else { "blue" };
        scene.patch(&namespace("of-root"), json!({ "metadata": { "labels": { "team": colour } } })).await;
        if enabled {
            scene.until(&sub, "has its team", |it| label(it, "team") == "red").await;
            continue;
        }
        stays("nothing is asked, and no label is copied", Duration::from_secs(2), async || {
            let (count, seen) = (asked.load(Relaxed), scene.get(&sub).await?.unwrap_or_default());
            let is_idle = count == 0 && label(&seen, "team") == "red";
            if is_idle { Ok(()) } else { Err(format!("{count} requests, {seen}")) }
        })
        .await
        .unwrap();
    }
    scene.configure(&settings(CONFIG)).await.unwrap();
    scene.until(&sub, "has its team", |it| label(it, "team") == "blue").await;
    scene.installation.proxy.reset();
}

/// The other half of number 5 of section 15: an operator can have a user's own object overwritten.
#[tokio::test]
async fn a_setting_gives_accurates_way_with_own_objects() {
    let scene = scene_alone().await;
    scene.create_root("ow-root").await;
    scene.create_sub("ow-root", "ow-sub", json!({})).await;
    scene.create(SECRETS, "ow-sub", "s", "", json!({ "data": { "own": "dg==" } })).await;
    scene.create(SECRETS, "ow-root", "s", "update", json!({ "data": { "k": "dg==" } })).await;
    scene.settled("ow-root", "ow-sub", "marker").await;
    let place = path(SECRETS, "ow-sub", "s");
    assert_eq!(scene.get(&place).await.unwrap().unwrap()["data"], json!({ "own": "dg==" }));
    scene.configure(&Settings { overwrite_own_objects: true, ..settings(CONFIG) }).await.unwrap();
    scene.until(&place, "is a copy", |it| it["data"] == json!({ "k": "dg==" })).await;
    scene.configure(&settings(CONFIG)).await.unwrap();
    scene.refused("").await;
}
