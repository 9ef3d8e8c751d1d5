//! The garbage collector: a hand that anyone can use.

use std::time::Duration;

use hns_e2e::product::CONTROLLER_USER;
use hns_e2e::steps::PATIENCE;
use hns_e2e::{eventually, stays};
use http::Method;
use serde_json::{Value, json};

use super::install::turn;
use super::table::Users;

const COLLECTOR: &str = "system:serviceaccount:kube-system:generic-garbage-collector";

/// Whoever may write an object can have the garbage collector delete it, by an owner that goes.
#[tokio::test]
async fn the_garbage_collector_deletes_what_is_owned_but_no_copy() {
    let turn = turn().await;
    turn.alive().await;
    let users = Users::of(turn.cluster());
    let owners = "/api/v1/namespaces/child/configmaps";
    let owner = json!({ "metadata": { "name": "owner" } });
    let owner = users.send("carol", Method::POST, owners, &owner).await.unwrap();
    let owner_uid = &owner["metadata"]["uid"];
    let references = json!([{ "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner_uid }]);
    let dependent = json!({ "metadata": { "name": "dependent", "ownerReferences": references } });
    let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/child/roles";
    let (dependent_path, copy) = (format!("{roles}/dependent"), format!("{roles}/copy"));
    users.send("carol", Method::POST, roles, &dependent).await.unwrap();
    let change = json!({ "metadata": { "ownerReferences": references } });
    let refused = users.send("carol", Method::PATCH, &copy, &change).await;
    assert!(matches!(refused, Err(kube::Error::Api(status)) if status.code == 403), "an owner for a copy");
    // As it may be from before.
    users.send(CONTROLLER_USER, Method::PATCH, &copy, &change).await.unwrap();

    let mark = turn.cluster().audit().mark().unwrap();
    users.send("carol", Method::DELETE, &format!("{owners}/owner"), &Value::Null).await.unwrap();
    eventually("the garbage collector deletes the dependent role", PATIENCE, async || {
        match users.send("carol", Method::GET, &dependent_path, &Value::Null).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await
    .unwrap();
    eventually("it tries to delete the copy, and is refused", PATIENCE, async || {
        let tries = turn.cluster().audit().mutating_by(COLLECTOR, mark).map_err(|error| error.to_string())?;
        let refused = tries.iter().any(|it| it.name == "copy" && it.verb == "delete" && it.code == 403);
        if refused { Ok(()) } else { Err(format!("{tries:?}")) }
    })
    .await
    .unwrap();
    stays("the copy stays", Duration::from_secs(2), async || {
        let found = users.send("carol", Method::GET, &copy, &Value::Null).await;
        let found = found.map_err(|error| error.to_string())?;
        if found["metadata"]["deletionTimestamp"].is_null() { Ok(()) } else { Err("it is going".to_owned()) }
    })
    .await
    .unwrap();
    println!(
        "the garbage collector deleted a role whose owner was gone, and was refused a copy whose owner was gone"
    );
}
