//! Who is asked about which request, row by row, and that no condition ever ends in an error.

use std::collections::BTreeSet;

use hns_e2e::eventually;
use hns_e2e::programs::Kubernetes;
use hns_e2e::steps::PATIENCE;
use http::Method;
use serde_json::{Value, json};

use super::install::{Turn, evaluation_errors, turn};
use super::table::{self, Row, Users, shown};

#[tokio::test]
async fn every_condition_lets_through_what_it_should_and_nothing_else() {
    let turn = turn().await;
    turn.alive().await;
    try_out(&turn, include_str!("calls.yaml"), &[]).await;
}

/// Where the API server changes new objects itself, no webhook is called for that. All other answers are the same.
#[tokio::test]
async fn where_a_policy_sets_defaults_no_webhook_is_called_for_that() {
    if !Kubernetes::wanted().unwrap().has_mutating_policies() {
        println!("this version of Kubernetes has no MutatingAdmissionPolicy of version v1");
        return;
    }
    let turn = turn().await;
    turn.alive_with_mutating_policy().await;
    try_out(&turn, include_str!("calls.yaml"), &["namespacelabel", "subnamespace.accurate.cybozu.io"]).await;
    let users = Users::of(turn.cluster());
    let included = "hnc.x-k8s.io/included-namespace";
    let own = "fresh.tree.hnc.x-k8s.io/depth";
    let metadata = |name: &str, labels: Value, annotations: Value| json!({ "metadata": { "name": name, "labels": labels, "annotations": annotations } });
    let cases = [
        ("carol", metadata("fresh", json!(null), json!(null)), json!({ included: "true", own: "0" })),
        ("carol", metadata("fresh", json!({ own: "0" }), json!(null)), json!({ included: "true", own: "0" })),
        ("carol", metadata("listed-too", json!(null), json!(null)), json!({})),
        ("carol", metadata("xylophone", json!(null), json!(null)), json!({})),
        (
            "fleet-agent",
            metadata("fresh", json!(null), json!({ "hnc.x-k8s.io/managed-by": "fleet" })),
            json!({ included: "true" }),
        ),
    ];
    for (user, body, expected) in cases {
        let created = users.send(user, Method::POST, "/api/v1/namespaces?dryRun=All", &body).await.unwrap();
        let mut labels = created["metadata"]["labels"].clone();
        labels.as_object_mut().unwrap().remove("kubernetes.io/metadata.name");
        assert_eq!(labels, expected, "{body}");
    }
    for (name, labels, listed) in [
        ("fresh", json!({ own: "1" }), "by hand: fresh.tree.hnc.x-k8s.io/depth\""),
        (
            "fresh",
            json!({ own: "0", "a.tree.hnc.x-k8s.io/depth": "1" }),
            "by hand: a.tree.hnc.x-k8s.io/depth\"",
        ),
        (
            "xylophone",
            json!({ "xylophone.tree.hnc.x-k8s.io/depth": "0" }),
            "by hand: xylophone.tree.hnc.x-k8s.io/depth; if you did not set it, the settings of hns have just changed: try again",
        ),
    ] {
        let body = metadata(name, labels, json!(null));
        let refused =
            users.send("carol", Method::POST, "/api/v1/namespaces?dryRun=All", &body).await.unwrap_err();
        assert!(refused.to_string().contains(listed), "{body}: {refused}");
    }
    turn.without_mutating_policy().await;
}

/// Where no policy judges copies, the webhook is sent them, and nothing else that it would not be sent otherwise.
#[tokio::test]
async fn without_policies_copies_are_sent_to_the_webhook() {
    let turn = turn().await;
    turn.alive_without_policies().await;
    try_out(&turn, include_str!("calls-without-policies.yaml"), &[]).await;
}

/// The limits of the API server on the length and the cost of a condition leave room for as many of the longest names as are listed.
/// Above that all managed namespaces are sent.
#[tokio::test]
async fn the_longest_list_of_awaited_names_is_evaluated() {
    let turn = turn().await;
    turn.alive().await;
    let users = Users::of(turn.cluster());
    for (count, listed) in [(500, true), (501, false)] {
        let names: Vec<String> = (0..count).map(|number| format!("n{number:0>62}")).collect();
        let others = if listed { "namespacelabel" } else { "namespacelabel, awaited-namespaces" };
        let row = |name: &str, asks: &str| {
            format!(
                "  - {{it: {name}, request: POST /api/v1/namespaces, body: {{metadata: {{name: {name}}}}}, asks: [{asks}]}}\n"
            )
        };
        let rows = [
            row(&names[0], "namespacelabel, awaited-namespaces"),
            row(&names[count - 1], "namespacelabel, awaited-namespaces"),
            row("other", others),
        ];
        let tables = table::read(&format!("- table: {count} names\n  rows:\n{}", rows.concat()));
        turn.alive_and_awaited(names).await;
        for row in &tables[0].rows {
            eventually(&row.it, PATIENCE, async || match judge(&turn, &users, row).await.pop() {
                None => Ok(()),
                Some(objection) => Err(objection),
            })
            .await
            .unwrap();
        }
    }
    assert_eq!(evaluation_errors(turn.cluster()).await, [""; 0], "conditions ended in an error");
}

/// Tries all rows. `gone` is an entry that is not registered.
async fn try_out(turn: &Turn, tables: &str, gone: &[&str]) {
    let users = Users::of(turn.cluster());
    let mut wrong = Vec::new();
    let mut tried = 0;
    for mut table in table::read(tables) {
        println!("\n{}", table.title);
        for row in &mut table.rows {
            // A policy adds the label again, before others judge.
            let asked = row.asks.len();
            row.asks.retain(|name| !gone.contains(&&**name));
            if row.asks.len() < asked && row.it.ends_with("with nobody to add it again") {
                row.refused = None;
            }
            tried += 1;
            let objections = judge(turn, &users, row).await;
            let asked: Vec<&str> = row.asks.iter().map(String::as_str).collect();
            println!("  {:<90} asks {:<45} {}", row.it, asked.join(", "), shown(row));
            wrong.extend(objections.into_iter().map(|why| format!("{}, {}: {why}", table.title, row.it)));
        }
    }
    assert!(wrong.is_empty(), "{} of {tried} rows:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(evaluation_errors(turn.cluster()).await, [""; 0], "conditions ended in an error");
    println!("\n{tried} rows; no condition ended in an error");
}

/// What is wrong about the outcome of a row, and about who was asked.
pub(crate) async fn judge(turn: &Turn, users: &Users<'_>, row: &Row) -> Vec<String> {
    turn.recorder().take();
    let outcome = users.try_out(row).await;
    let calls = turn.recorder().take();
    let by_this_request = calls
        .iter()
        .filter(|call| call.request["userInfo"]["username"] == row.user && call.request["dryRun"] == true);
    let asked: BTreeSet<String> = by_this_request.map(|call| call.entry.clone()).collect();
    let called = (asked != row.asks).then(|| format!("asked {asked:?}, not {:?}", row.asks));
    row.objection(&outcome).into_iter().chain(called).collect()
}

/// The count above would be of no use if errors were not counted.
#[tokio::test]
async fn an_error_in_a_condition_is_counted() {
    let turn = turn().await;
    turn.alive().await;
    turn.with_a_condition_that_fails().await;
    println!("counted: {:?}", evaluation_errors(turn.cluster()).await);
    turn.forget_errors().await;
    assert_eq!(evaluation_errors(turn.cluster()).await, [""; 0]);
}
