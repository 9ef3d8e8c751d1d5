//! The exempt identities, and attacks on the exemptions: each names exactly one account, and no group.

use anyhow::Result;
use hns_e2e::product::CONTROLLER_USER;
use serde_json::{Value, json};

use super::fixture;
use super::request::{MERGE, Request, hierarchies, hierarchy, namespace, place};
use super::verdict::{Of, denied, unauthorized};

const ROOT: &str = "the root of the tree that it would leave";
const FORGED: &str = "evil.tree.hnc.x-k8s.io/depth";

/// Accounts beside the controller's, and others that look like it.
const IMPOSTORS: [(&str, &[&str]); 9] = [
    (
        "system:serviceaccount:hnc-system:other",
        &["system:serviceaccounts", "system:serviceaccounts:hnc-system"],
    ),
    (
        "system:serviceaccount:hnc-system:default",
        &["system:serviceaccounts", "system:serviceaccounts:hnc-system"],
    ),
    (
        "system:serviceaccount:hnc-system:hns-webhook",
        &["system:serviceaccounts", "system:serviceaccounts:hnc-system"],
    ),
    ("system:serviceaccount:hnc-system:hns-controller-2", &["system:serviceaccounts:hnc-system"]),
    ("system:serviceaccount:hnc-system2:hns-controller", &["system:serviceaccounts:hnc-system2"]),
    ("system:serviceaccount:default:namespace-controller", &["system:serviceaccounts:default"]),
    ("hns-controller", &["system:serviceaccounts:hnc-system"]),
    ("carol", &["system:serviceaccounts:hnc-system", "system:serviceaccounts:kube-system", "system:nodes"]),
    ("' || true || '", &["system:serviceaccounts:hnc-system"]),
];

#[tokio::test]
async fn accounts_like_the_controllers_are_judged() -> Result<()> {
    let scene = fixture::scene().await?;
    scene.steps.plant(&[("i-root", ""), ("i-child", "i-root"), ("i-lone", "")]).await?;
    scene.steps.labelled(&["i-child", "i-root"]).await?;
    scene.known(&["i-root", "i-child"]).await?;
    for (number, (user, groups)) in IMPOSTORS.iter().enumerate() {
        scene.local_admin(user, &["i-child"]).await?;
        scene.give_namespaces(user).await?;
        let client = scene.user_of(user, groups);
        let out =
            [place(&client, "i-child", ""), Request::delete(&client, &hierarchies("i-child"), Value::Null)];
        for attempt in out {
            unauthorized("out of the tree", attempt.send().await, user, ("i-root", ROOT));
        }
        let label = |key: &str| {
            Request::patch(
                &client,
                &namespace("i-child"),
                MERGE,
                json!({ "metadata": { "labels": { key: "1" } } }),
            )
        };
        denied(user, label(FORGED).send().await, Of::Namespace("i-child"), 403, &[FORGED]);
        // It may do what any user with these rights may.
        label("example.com/team").send().await?;
        let cascade = json!({ "spec": { "allowCascadingDeletion": number % 2 == 0 } });
        Request::patch(&client, &hierarchy("i-child"), MERGE, cascade).send().await?;
    }
    assert_eq!(scene.parent("i-child").await?, "i-root");
    let controller = scene.user(CONTROLLER_USER);
    place(&controller, "i-child", "").send().await?;
    scene.steps.labelled(&["i-child"]).await
}

/// If the control plane's controllers share one identity, that identity empties namespaces.
#[tokio::test]
async fn the_controller_manager_deletes_unasked_and_changes_nothing() -> Result<()> {
    let manager = "system:kube-controller-manager";
    let namespaces = "system:serviceaccount:kube-system:namespace-controller";
    let scene = fixture::scene().await?;
    scene
        .steps
        .plant(&[("v-root", ""), ("v-one", "v-root"), ("v-two", "v-root"), ("v-three", "v-root")])
        .await?;
    for child in ["v-one", "v-two", "v-three"] {
        scene.steps.labelled(&[child, "v-root"]).await?;
        scene.known(&["v-root", child]).await?;
        let other = scene.local_admin(&format!("v-other-of-{child}"), &[child]).await?;
        let refused = Request::delete(&other, &hierarchy(child), Value::Null).send().await;
        unauthorized("another user", refused, &format!("v-other-of-{child}"), ("v-root", ROOT));
    }
    for (user, child, path) in [
        (manager, "v-one", hierarchy("v-one")),
        (manager, "v-two", hierarchies("v-two")),
        (namespaces, "v-three", hierarchies("v-three")),
    ] {
        let client = scene.local_admin(user, &[child]).await?;
        unauthorized("not by an update", place(&client, child, "").send().await, user, ("v-root", ROOT));
        Request::delete(&client, &path, Value::Null).send().await?;
        scene.steps.labelled(&[child]).await?;
        unauthorized(
            "nor back again",
            place(&client, child, "v-root").send().await,
            user,
            ("v-root", "the new parent"),
        );
    }
    Ok(())
}
