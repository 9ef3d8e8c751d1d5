//! What goes on, and what is refused, while no webhook answers.

use std::time::{Duration, Instant};

use futures::future::join_all;
use hns_e2e::steps::PATIENCE;
use hns_e2e::{Cluster, Steps, eventually};
use http::Method;
use serde_json::{Value, json};

use super::install::{evaluation_errors, turn};
use super::table::{self, Row, Users, shown};

/// The longest that a request may take while a webhook hangs: two entries that fail open, and one that fails closed.
const LONGEST: Duration = Duration::from_secs(12);

#[tokio::test]
async fn what_is_outside_every_tree_goes_on_while_the_webhook_is_dead_and_while_it_hangs() {
    let turn = turn().await;
    let users = Users::of(turn.cluster());
    let tables = table::read(include_str!("outage.yaml"));
    let rows: Vec<&Row> = tables.iter().flat_map(|table| &table.rows).collect();
    let mut wrong = Vec::new();
    for (state, leaf, longest) in
        [("dead", "dead-leaf", Duration::from_secs(4)), ("hanging", "hanging-leaf", LONGEST)]
    {
        match state {
            "dead" => turn.dead().await,
            _ => turn.hanging().await,
        }
        let tries = rows.iter().map(async |row| {
            let began = Instant::now();
            let outcome = users.try_out(row).await;
            (row, outcome, began.elapsed())
        });
        for (row, outcome, took) in join_all(tries).await {
            println!("  {:<70} {:<8} after {:>6} ms", row.it, shown(row), took.as_millis());
            let late = (took > longest).then(|| format!("took {took:?}"));
            let objections = row.objection(&outcome).into_iter().chain(late);
            wrong.extend(objections.map(|why| format!("{state}, {}: {why}", row.it)));
        }
        lives_and_dies(turn.cluster(), &users, &format!("{state}-fresh")).await;
        leaves_its_tree_by_dying(&users, leaf).await;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(evaluation_errors(turn.cluster()).await, [""; 0], "conditions ended in an error");
}

/// A namespace with contents, from its creation to its end, in earnest.
async fn lives_and_dies(cluster: &Cluster, users: &Users<'_>, name: &str) {
    let path = format!("/api/v1/namespaces/{name}");
    let namespace = json!({ "metadata": { "name": name } });
    users.send("carol", Method::POST, "/api/v1/namespaces", &namespace).await.unwrap();
    for object in ["serviceaccounts/default", "configmaps/kube-root-ca.crt"] {
        eventually(&format!("{object} appears in {name}"), PATIENCE, async || {
            let found = users.send("carol", Method::GET, &format!("{path}/{object}"), &Value::Null).await;
            found.map(drop).map_err(|error| error.to_string())
        })
        .await
        .unwrap();
    }
    let role = json!({ "metadata": { "name": "own" } });
    let roles = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{name}/roles");
    users.send("carol", Method::POST, &roles, &role).await.unwrap();
    users.send("carol", Method::DELETE, &path, &Value::Null).await.unwrap();
    Steps::of(cluster.admin()).gone(name).await.unwrap();
    println!("  {name} was created, got what every namespace gets, was filled, was deleted and went");
}

/// A leaf of a tree with a hierarchy configuration and a copy.
async fn leaves_its_tree_by_dying(users: &Users<'_>, name: &str) {
    let path = format!("/api/v1/namespaces/{name}");
    users.send("carol", Method::DELETE, &path, &Value::Null).await.unwrap();
    eventually(&format!("{name} goes"), Duration::from_secs(60), async || {
        match users.send("carol", Method::GET, &path, &Value::Null).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await
    .unwrap();
    println!("  {name}, a leaf with a parent and a copy, was deleted and went");
}
