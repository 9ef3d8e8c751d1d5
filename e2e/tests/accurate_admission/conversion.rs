//! `SubNamespaces` that are stored in an old version, through the definition's converter.

use hns_api::accurate::Version;
use hns_e2e::eventually;
use hns_e2e::product::CONTROLLER_USER;
use hns_e2e::steps::PATIENCE;
use serde_json::{Value, json};

use super::scene::{Scene, scene};
use super::table::send;

const DEFINITION: &str =
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/subnamespaces.accurate.cybozu.com";
const OBSERVED: &str = "internal.accurate.cybozu.com/observed-generation";
const CONDITIONS: &str = "internal.accurate.cybozu.com/conditions";

fn path(version: Version, name: &str) -> String {
    format!("/apis/{}/namespaces/root/subnamespaces/{name}", version.api_version())
}

impl Scene {
    async fn send(&self, method: &str, path: &str, body: Value) -> Result<Value, kube::Error> {
        send(&self.user(CONTROLLER_USER), method, path, body).await
    }

    async fn get(&self, version: Version, name: &str) -> Value {
        self.send("GET", &path(version, name), Value::Null).await.unwrap()
    }

    /// Serves all versions, and stores objects in one of them.
    async fn store_in(&self, stored: Version) {
        let definition = self.send("GET", DEFINITION, Value::Null).await.unwrap();
        let mut versions = definition["spec"]["versions"].clone();
        for version in versions.as_array_mut().unwrap() {
            version["served"] = true.into();
            version["storage"] = (version["name"] == stored.name()).into();
        }
        self.send("PATCH", DEFINITION, json!({ "spec": { "versions": versions } })).await.unwrap();
    }

    /// Creates one in this version, and waits until it is served.
    async fn create(&self, version: Version, body: Value) {
        let collection = path(version, "");
        eventually(&format!("{} is served", version.name()), PATIENCE, async || {
            let created = self.send("POST", collection.trim_end_matches('/'), body.clone()).await;
            created.map(drop).map_err(|error| error.to_string())
        })
        .await
        .unwrap();
    }
}

#[tokio::test]
async fn objects_of_all_versions_can_be_read() {
    let mut scene = scene().await;
    let stalled = json!([{
        "type": "Stalled", "status": "True", "reason": "Conflict", "message": "taken",
        "observedGeneration": 3, "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]);
    scene.store_in(Version::V1).await;
    let annotations = json!({ "note": "kept", OBSERVED: "3", CONDITIONS: stalled.to_string() });
    let spec = json!({ "labels": { "team": "red" } });
    let metadata = json!({ "name": "stored-in-v1", "annotations": annotations });
    scene.create(Version::V1, json!({ "metadata": metadata, "spec": spec, "status": "conflict" })).await;
    let wrong = json!({ "metadata": { "name": "wrong", "annotations": { OBSERVED: "three" } } });
    scene.create(Version::V1, wrong).await;

    // The status is a part of the object: a subresource would have kept it out.
    assert_eq!(scene.get(Version::V1, "stored-in-v1").await["status"], "conflict");
    for version in [Version::V2, Version::V2Alpha1] {
        let read = scene.get(version, "stored-in-v1").await;
        assert_eq!(read["apiVersion"], version.api_version());
        assert_eq!(read["spec"], spec);
        assert_eq!(read["status"], json!({ "observedGeneration": 3, "conditions": stalled }));
        assert_eq!(read["metadata"]["annotations"], json!({ "note": "kept" }));
        let refused = scene.send("GET", &path(version, "wrong"), Value::Null).await.unwrap_err().to_string();
        assert!(refused.contains(OBSERVED) && refused.contains("root/wrong"), "{refused}");
    }
    scene.send("DELETE", &path(Version::V1, "wrong"), Value::Null).await.unwrap();

    // The webhook itself reads what only it can convert.
    scene.webhook.restart().await.unwrap();
    scene.is_judged().await.unwrap();

    scene.store_in(Version::V2).await;
    let body = json!({ "metadata": { "name": "stored-in-v2", "annotations": { "note": "kept" } } });
    scene.create(Version::V2, body).await;
    let status = json!({ "status": { "observedGeneration": 1 } });
    scene.send("PATCH", &format!("{}/status", path(Version::V2, "stored-in-v2")), status).await.unwrap();
    let read = scene.get(Version::V1, "stored-in-v2").await;
    assert_eq!(read["status"], "ok");
    assert_eq!(read["metadata"]["annotations"], json!({ "note": "kept", OBSERVED: "1" }));
    assert_eq!(scene.get(Version::V1, "stored-in-v1").await["status"], "conflict");

    let metrics = scene.webhook.metrics().await.unwrap();
    let counted = "hns_admission_review_duration_seconds_count{verdict=\"converted\",webhook=\"conversion\"}";
    assert!(metrics.lines().any(|line| line.starts_with(counted)), "{metrics}");
    for name in ["stored-in-v1", "stored-in-v2"] {
        scene.send("DELETE", &path(Version::V2, name), Value::Null).await.unwrap();
    }
    scene.product.define_sub_namespaces().await.unwrap();
}
