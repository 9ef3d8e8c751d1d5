//! Which limits the definition of hierarchical quotas accepts: what a core quota accepts, and nothing that the product could not read.

use hns_api::HierarchicalResourceQuota;
use http::Method;
use serde_json::{Value, json};

use super::install::turn;
use super::table::Users;

#[tokio::test]
async fn limits_are_numbers_or_texts_and_have_no_scopes() {
    let turn = turn().await;
    turn.alive().await;
    let users = Users::of(turn.cluster());
    let path = "/apis/hnc.x-k8s.io/v1alpha2/namespaces/child/hierarchicalresourcequotas?dryRun=All";
    let create = async |spec: &Value| {
        let body = json!({ "metadata": { "name": "fresh" }, "spec": spec });
        users.send("carol", Method::POST, path, &body).await
    };
    let read =
        |created: Value| serde_json::from_value::<HierarchicalResourceQuota>(created).unwrap().spec.hard;
    for (value, text) in [
        (json!(5), "5"),
        (json!(1.5), "1.5"),
        (json!("1500m"), "1500m"),
        (json!("1e3"), "1e3"),
        (json!(1e21), "1000000000000000000000"),
    ] {
        let created = create(&json!({ "hard": { "cpu": value } })).await;
        let hard = read(created.unwrap_or_else(|error| panic!("{value}: {error}"))).unwrap();
        assert_eq!(hard["cpu"].0, text, "{value}");
    }
    // As everywhere, the API server drops what is null.
    assert_eq!(read(create(&json!({ "hard": { "cpu": null } })).await.unwrap()), Some([].into()));
    for value in [json!(true), json!({}), json!({ "a": 1 }), json!([]), json!([1]), json!(""), json!("five")]
    {
        refused(&format!("{value}"), create(&json!({ "hard": { "cpu": value } })).await, "spec.hard.cpu");
    }
    for (field, value) in [
        ("scopes", json!(["BestEffort"])),
        (
            "scopeSelector",
            json!({ "matchExpressions": [{ "operator": "Exists", "scopeName": "BestEffort" }] }),
        ),
    ] {
        let says = format!("spec.{field}: Forbidden: a hierarchical quota has no {field}");
        refused(field, create(&json!({ "hard": { "cpu": 1 }, field: value })).await, &says);
    }
}

fn refused(what: &str, outcome: Result<Value, kube::Error>, says: &str) {
    match outcome {
        Err(kube::Error::Api(status)) if status.code == 422 && status.message.contains(says) => {}
        other => panic!("{what}: {other:?}"),
    }
}
