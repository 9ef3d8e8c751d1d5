//! Tests that change what others depend on: the watched kinds, the programs, the definition, and rights.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use hns_api::names::SETTINGS_CONFIG_MAP;
use hns_e2e::product::{CONTROLLER_USER, NAMESPACE};
use hns_e2e::steps::PATIENCE;
use hns_e2e::{AuditEvent, Fault, eventually};
use http::Method;
use serde_json::{Value, json};

use super::scene::{
    CONFIG, FINALIZER, FORMS, Kind, PARENT, SECRETS, Scene, TYPE, annotation, at, label, namespace, path,
    scene_alone, settings, version,
};

const CONFIG_MAPS: Kind = ("/api/v1", "configmaps");
const DEFINITION: &str =
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/subnamespaces.accurate.cybozu.com";

impl<H> Scene<H> {
    /// Waits until the settings in force are refused for this reason; for none if it is empty.
    pub(super) async fn refused(&self, why: &str) {
        let place = path(CONFIG_MAPS, NAMESPACE, SETTINGS_CONFIG_MAP);
        let shows = |it: &Value| {
            let refused = at(it, "/data/refused").as_str().unwrap_or("?");
            if why.is_empty() { refused.is_empty() } else { refused.contains(why) }
        };
        self.until(&place, &format!("is refused: {why:?}"), shows).await;
    }

    /// Whether the readiness of the controller has this text.
    async fn controller_shows(&self, text: &str, is_shown: bool) {
        eventually(&format!("the controller shows {text:?}: {is_shown}"), PATIENCE, async || {
            let controller = self.installation.controller.lock().await;
            let (_, shown) = controller.readiness().await.map_err(|error| error.to_string())?;
            if shown.contains(text) == is_shown { Ok(()) } else { Err(shown) }
        })
        .await
        .unwrap();
    }

    /// Takes all finalizers off a `SubNamespace`. What the controller writes to it then is held.
    async fn take_finalizers(&self, form: &str) {
        let (place, held) = (form.to_owned(), Arc::new(AtomicUsize::new(0)));
        let counted = Arc::clone(&held);
        self.installation.proxy.set_rule(move |request| {
            let is_it = request.method == Method::PATCH && request.uri.path() == place;
            is_it.then(|| {
                counted.fetch_add(1, Relaxed);
                Fault::Hold
            })
        });
        self.patch(form, json!({ "metadata": { "finalizers": null } })).await;
        eventually("the controller has seen it", PATIENCE, async || match held.load(Relaxed) {
            0 => Err("no write".to_owned()),
            _ => Ok(()),
        })
        .await
        .unwrap();
    }

    /// Gives the controller more rights.
    pub(super) async fn may(&self, group: &str, resource: &str, verbs: &[&str]) {
        let place = "/apis/rbac.authorization.k8s.io/v1/clusterroles/accounts";
        let mut rules = self.get(place).await.unwrap().unwrap()["rules"].take();
        let more = json!({ "apiGroups": [group], "resources": [resource], "verbs": verbs });
        rules.as_array_mut().unwrap().push(more);
        self.patch(place, json!({ "rules": rules })).await;
    }
}

#[tokio::test]
async fn changed_settings_are_in_force_without_a_restart_and_wrong_ones_change_nothing() {
    let scene = scene_alone().await;
    scene.refused("").await;
    scene.create_root("se-root").await;
    scene.create_sub("se-root", "se-sub", json!({})).await;
    scene.create(CONFIG_MAPS, "se-root", "late", "update", json!({})).await;
    scene.settled("se-root", "se-sub", "first").await;
    assert_eq!(scene.get(&path(CONFIG_MAPS, "se-sub", "late")).await, Ok(None));

    let unserved = format!("{CONFIG}\n").replace("kind: ResourceQuota", "kind: Nothing");
    scene.configure(&settings(&unserved)).await.unwrap();
    scene.refused("accurate.config.watches[3]: the API server does not serve Nothing in v1").await;
    scene.settled("se-root", "se-sub", "second").await;

    // The controller may not patch ConfigMaps.
    let more = CONFIG.replace("watches:", "watches:\n- {version: v1, kind: ConfigMap}");
    scene.configure(&settings(&more)).await.unwrap();
    scene.refused("").await;
    scene.controller_shows("missing permission to patch /v1, Resource=configmaps", true).await;
    // A creation needs no patch.
    scene.copied(CONFIG_MAPS, "se-root", "se-sub", "late").await;
    scene.patch(&path(CONFIG_MAPS, "se-root", "late"), json!({ "data": { "k": "v" } })).await;
    scene.settled("se-root", "se-sub", "third").await;
    let copy = scene.get(&path(CONFIG_MAPS, "se-sub", "late")).await.unwrap().unwrap();
    assert!(copy["data"].is_null(), "{copy}");
    scene.may("", "configmaps", &["patch"]).await;
    scene.until(&path(CONFIG_MAPS, "se-sub", "late"), "follows", |it| it["data"]["k"] == "v").await;
    scene.controller_shows("missing permission", false).await;
    scene.configure(&settings(CONFIG)).await.unwrap();
    scene.refused("").await;
}

/// Number 17 of section 15: Accurate did not start with them.
#[tokio::test]
async fn kinds_of_one_name_in_two_groups_are_both_copied() {
    const GROUP: &str = "other.test";
    const OTHERS: Kind = ("/apis/other.test/v1", "secrets");
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let scene = scene_alone().await;
    let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let version =
        json!({ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } });
    let names = json!({ "plural": "secrets", "singular": "secret", "kind": "Secret" });
    let definition = json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("secrets.{GROUP}") },
        "spec": { "group": GROUP, "scope": "Namespaced", "names": names, "versions": [version] } });
    scene.send("POST", definitions, definition).await.unwrap();
    scene.may(GROUP, "secrets", &["get", "list", "watch", "create", "patch", "delete"]).await;
    scene.create_root("tw-root").await;
    scene.create_sub("tw-root", "tw-sub", json!({})).await;
    let body = json!({ "apiVersion": format!("{GROUP}/v1"), "kind": "Secret", "data": { "k": "other" } });
    scene.until(&path(OTHERS, "tw-root", ""), "is served", Value::is_object).await;
    scene.create(OTHERS, "tw-root", "s", "update", body).await;
    scene.create(SECRETS, "tw-root", "s", "update", json!({ "data": { "k": "dg==" } })).await;
    let both = CONFIG.replace("watches:", "watches:\n- {group: other.test, version: v1, kind: Secret}");
    scene.configure(&settings(&both)).await.unwrap();
    for (kind, value) in [(OTHERS, "other"), (SECRETS, "dg==")] {
        assert_eq!(scene.copied(kind, "tw-root", "tw-sub", "s").await["data"]["k"], value);
    }
    scene.delete(&path(SECRETS, "tw-root", "s")).await;
    scene.gone(&path(SECRETS, "tw-sub", "s")).await;
    assert!(scene.get(&path(OTHERS, "tw-sub", "s")).await.unwrap().is_some(), "it is of the other kind");
    scene.configure(&settings(CONFIG)).await.unwrap();
    scene.refused("").await;
    scene.delete(&format!("{definitions}/secrets.{GROUP}")).await;
}

/// Numbers 8 and 14 of section 15. A write of the controller is held up on its way.
#[tokio::test]
async fn finalizers_of_others_stay_and_the_labels_of_a_sub_namespace_go_with_it() {
    let scene = scene_alone().await;
    let proxy = &scene.installation.proxy;
    scene.create_namespace("la-root", json!({ TYPE: "root", "team": "red" })).await;
    let spec = json!({ "labels": { "tier": "1", "team": "blue" }, "annotations": { "owner": "o" } });
    scene.create_sub("la-root", "la-sub", spec).await;
    let is_set = |it: &Value| label(it, "tier") == "1" && label(it, "team") == "blue";
    let (uid, _) = version(&scene.until(&namespace("la-sub"), "has its labels", is_set).await);
    let form = path(FORMS, "la-root", "la-sub");
    scene.until(&form, "is current", |it| at(it, "/status/observedGeneration") == 1).await;

    // The controller is about to add its finalizer again.
    scene.take_finalizers(&form).await;
    let other = json!({ "metadata": { "finalizers": ["example.com/other"] } });
    scene.patch(&form, other).await;
    proxy.reset();
    proxy.release();
    let both = json!(["example.com/other", FINALIZER]);
    scene.until(&form, "has both finalizers", |it| it["metadata"]["finalizers"] == both).await;

    // Once more. Now the SubNamespace goes, and its namespace stays.
    scene.take_finalizers(&form).await;
    scene.settled("la-root", "la-sub", "marker").await;
    scene.delete(&form).await;
    let is_reset = |it: &Value| label(it, "tier").is_null() && label(it, "team") == "red";
    let seen = scene.until(&namespace("la-sub"), "has the labels of its parent only", is_reset).await;
    assert!(annotation(&seen, "owner").is_null() && label(&seen, PARENT) == "la-root", "{seen}");
    assert!(seen["metadata"]["uid"] == uid.as_str() && seen["metadata"]["deletionTimestamp"].is_null());
    proxy.reset();
    proxy.release();
}

/// A new leader writes nothing where nothing has changed.
#[tokio::test]
async fn a_restart_writes_nothing() {
    let scene = scene_alone().await;
    scene.create_root("re-root").await;
    scene.create_sub("re-root", "re-sub", json!({ "labels": { "tier": "1" } })).await;
    scene.create(SECRETS, "re-root", "s", "update", json!({ "data": { "k": "dg==" } })).await;
    scene.copied(SECRETS, "re-root", "re-sub", "s").await;
    scene.until(&namespace("re-sub"), "has its tier", |it| label(it, "tier") == "1").await;
    let place = path(FORMS, "re-root", "re-sub");
    scene.until(&place, "has a status", |it| at(it, "/status/observedGeneration").is_number()).await;
    let versions = async || {
        let mut all = BTreeMap::new();
        for place in [namespace("re-sub"), place.clone(), path(SECRETS, "re-sub", "s")] {
            all.insert(place.clone(), version(&scene.get(&place).await.unwrap().unwrap()));
        }
        all
    };
    let before = versions().await;
    let mark = scene.installation.product.cluster().audit().mark().unwrap();
    scene.installation.controller.lock().await.restart().await.unwrap();
    scene.settled("re-root", "re-sub", "marker").await;
    assert_eq!(versions().await, before);
    let written = scene.installation.product.cluster().audit().mutating_by(CONTROLLER_USER, mark).unwrap();
    let is_of_ours = |it: &&AuditEvent| it.resource == "secrets" || it.resource == "subnamespaces";
    let written: Vec<_> = written.iter().filter(is_of_ours).collect();
    assert_eq!(written.len(), 1, "only the marker: {written:?}");
}

/// Deleting the definition deletes all `SubNamespaces`; their namespaces stay.
#[tokio::test]
async fn no_namespace_goes_with_the_definition() {
    let scene = scene_alone().await;
    scene.create_root("de-root").await;
    scene.create_sub("de-root", "de-sub", json!({})).await;
    let (uid, _) = version(&scene.get(&namespace("de-sub")).await.unwrap().unwrap());
    scene.delete(DEFINITION).await;
    scene.gone(DEFINITION).await;
    scene.controller_shows("install its CustomResourceDefinition", true).await;
    let kept = scene.get(&namespace("de-sub")).await.unwrap().unwrap();
    assert!(
        kept["metadata"]["uid"] == uid.as_str() && kept["metadata"]["deletionTimestamp"].is_null(),
        "{kept}"
    );
    scene.installation.product.define_sub_namespaces().await.unwrap();
    scene.controller_shows("install its CustomResourceDefinition", false).await;
    scene.create_sub("de-root", "de-other", json!({})).await;
    let body = json!({ "apiVersion": "accurate.cybozu.com/v2", "kind": "SubNamespace", "metadata": { "name": "de-sub" } });
    scene.send_until_allowed("POST", &path(FORMS, "de-root", ""), body).await;
    let place = path(FORMS, "de-root", "de-sub");
    scene.until(&place, "is current", |it| at(it, "/status/observedGeneration") == 1).await;
    scene.delete(&place).await;
    scene.gone(&namespace("de-sub")).await;
}

/// The definition trusts the webhook, and objects in old versions are stored anew.
#[tokio::test]
async fn the_definition_is_kept_right() {
    let scene = scene_alone().await;
    scene.create_root("st-root").await;
    let bundle = "/spec/conversion/webhook/clientConfig/caBundle";
    let right = scene.get(DEFINITION).await.unwrap().unwrap();
    let trusted = at(&right, bundle).clone();
    let other = json!({ "spec": { "conversion": { "webhook": { "clientConfig": { "caBundle": null } } } } });
    scene.patch(DEFINITION, other).await;
    scene.until(DEFINITION, "trusts the webhook again", |it| *at(it, bundle) == trusted).await;

    let versions = |stored: &str| {
        let mut versions = right["spec"]["versions"].clone();
        for version in versions.as_array_mut().unwrap() {
            version["served"] = (version["name"] == "v2" || version["name"] == stored).into();
            version["storage"] = (version["name"] == stored).into();
        }
        json!({ "spec": { "versions": versions } })
    };
    scene.patch(DEFINITION, versions("v1")).await;
    let body = json!({ "apiVersion": "accurate.cybozu.com/v1", "kind": "SubNamespace",
        "metadata": { "name": "st-sub" }, "spec": { "labels": { "tier": "1" } } });
    let place = "/apis/accurate.cybozu.com/v1/namespaces/st-root/subnamespaces";
    scene.send_until_allowed("POST", place, body).await;
    scene.until(&namespace("st-sub"), "is there", |it| label(it, "tier") == "1").await;
    scene.patch(DEFINITION, versions("v2")).await;
    scene.until(DEFINITION, "stores v2 only", |it| at(it, "/status/storedVersions") == &json!(["v2"])).await;
    let form = scene.get(&path(FORMS, "st-root", "st-sub")).await.unwrap().unwrap();
    assert_eq!(at(&form, "/spec/labels/tier"), "1");
}
