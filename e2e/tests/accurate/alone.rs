//! Tests that change what others depend on: the settings, the programs, the definition, and rights.

use std::collections::BTreeMap;

use hns_api::names::SETTINGS_CONFIG_MAP;
use hns_cluster::settings::accurate::Settings;
use hns_e2e::product::{CONTROLLER_USER, NAMESPACE};
use hns_e2e::steps::PATIENCE;
use hns_e2e::{AuditEvent, eventually, stays};
use serde_json::{Value, json};

use super::scene::{
    CONFIG, FORMS, Kind, SECRETS, Scene, at, label, namespace, path, scene_alone, settings, version,
};

const CONFIG_MAPS: Kind = ("/api/v1", "configmaps");
const DEFINITION: &str =
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/subnamespaces.accurate.cybozu.com";

impl<H> Scene<H> {
    /// Waits until the settings in force are refused for this reason; for none if it is empty.
    async fn refused(&self, why: &str) {
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

    /// Whether the controller watches objects of this kind.
    async fn watches(&self, resource: &str) -> bool {
        let line = format!("hns_watches{{resource=\"{resource}\"}}");
        self.installation.controller.lock().await.metrics().await.unwrap().contains(&line)
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
    scene.settled("se-root", "se-sub", "third").await;
    assert_eq!(scene.get(&path(CONFIG_MAPS, "se-sub", "late")).await, Ok(None));
    let more = json!({ "apiGroups": [""], "resources": ["configmaps"], "verbs": ["patch"] });
    let place = "/apis/rbac.authorization.k8s.io/v1/clusterroles/accounts";
    let mut granted = scene.get(place).await.unwrap().unwrap();
    granted["rules"].as_array_mut().unwrap().push(more);
    scene.patch(place, json!({ "rules": granted["rules"] })).await;
    scene.copied(CONFIG_MAPS, "se-root", "se-sub", "late").await;
    scene.controller_shows("missing permission", false).await;

    let off = Settings { enabled: false, ..settings(CONFIG) };
    scene.configure(&off).await.unwrap();
    eventually("the kinds of Accurate's API are not watched", PATIENCE, async || {
        let watched = [scene.watches("secrets").await, scene.watches("configmaps").await];
        if watched == [false, false] { Ok(()) } else { Err(format!("{watched:?}")) }
    })
    .await
    .unwrap();
    let sub = namespace("se-sub");
    scene.patch(&namespace("se-root"), json!({ "metadata": { "labels": { "team": "red" } } })).await;
    stays("no label is copied", std::time::Duration::from_secs(1), async || {
        let seen = scene.get(&sub).await?.unwrap_or_default();
        if label(&seen, "team").is_null() { Ok(()) } else { Err(seen.to_string()) }
    })
    .await
    .unwrap();
    scene.configure(&settings(CONFIG)).await.unwrap();
    scene.until(&sub, "has its team", |it| label(it, "team") == "red").await;
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
