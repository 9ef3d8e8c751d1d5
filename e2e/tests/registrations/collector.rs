//! The garbage collector: a hand that anyone can use.

use std::time::Duration;

use hns_e2e::steps::PATIENCE;
use hns_e2e::{eventually, stays};
use http::Method;
use serde_json::{Value, json};

use super::install::turn;
use super::table::Users;

/// Whoever may write an object can have the garbage collector delete it: by an owner that goes. It may do anything, so rights
/// would not stop it.
#[tokio::test]
async fn the_garbage_collector_deletes_what_is_owned_but_takes_nothing_out_of_a_tree() {
    let turn = turn().await;
    turn.alive().await;
    let users = Users::of(turn.cluster());
    let owners = "/api/v1/namespaces/child/configmaps";
    let owner = json!({ "metadata": { "name": "owner" } });
    let owner = users.send("carol", Method::POST, owners, &owner).await.unwrap();
    let reference = json!([{ "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"] }]);
    let dependent = json!({ "metadata": { "name": "owned", "ownerReferences": reference } });
    let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/child/roles";
    users.send("carol", Method::POST, roles, &dependent).await.unwrap();
    let guarded = [
        "/apis/hnc.x-k8s.io/v1alpha2/namespaces/child/hierarchyconfigurations/hierarchy".to_owned(),
        format!("{roles}/copy"),
    ];
    for object in &guarded {
        let change = json!({ "metadata": { "ownerReferences": reference } });
        users.send("carol", Method::PATCH, object, &change).await.unwrap();
    }
    let mark = turn.cluster().audit().mark().unwrap();
    users.send("carol", Method::DELETE, &format!("{owners}/owner"), &Value::Null).await.unwrap();
    eventually("the garbage collector deletes the role", PATIENCE, async || {
        match users.send("carol", Method::GET, &format!("{roles}/owned"), &Value::Null).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await
    .unwrap();
    let refused = eventually("it is refused the two others", PATIENCE, async || {
        let collector = hns_api::names::users::GARBAGE_COLLECTOR;
        let tries = turn.cluster().audit().mutating_by(collector, mark).map_err(|error| error.to_string())?;
        let refused = |resource| tries.iter().any(|it| it.resource == resource && it.code == 403);
        if refused("hierarchyconfigurations") && refused("roles") {
            Ok(())
        } else {
            Err(format!("{tries:?}"))
        }
    });
    refused.await.unwrap();
    stays("the hierarchy configuration and the copy stay", Duration::from_secs(2), async || {
        for object in &guarded {
            let found = users.send("carol", Method::GET, object, &Value::Null).await;
            let found = found.map_err(|error| error.to_string())?;
            if !found["metadata"]["deletionTimestamp"].is_null() {
                return Err(format!("{object} is going"));
            }
        }
        Ok(())
    })
    .await
    .unwrap();
    println!(
        "the garbage collector deleted an owned role, and was refused a copy and a hierarchy configuration"
    );
}
