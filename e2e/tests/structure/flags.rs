//! What happens to a hierarchy when both binaries are started again with other flags, and what the flags of this part of the
//! product do.

use anyhow::{Result, ensure};
use hns_api::annotations;
use hns_e2e::steps::PATIENCE;
use hns_e2e::{Steps, eventually, refusal};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;

use super::scene::Structure;
use super::workshop::workshop;

const MANAGED: [&str; 2] =
    ["--managed-namespace-label=structure.test/.*", "--managed-namespace-annotation=structure.test/.*"];

#[tokio::test]
async fn an_anchor_whose_keys_are_no_longer_managed_can_still_be_deleted() -> Result<()> {
    let workshop = workshop().await?;
    let steps = &workshop.steps;
    let running = workshop.run(&MANAGED).await?;
    steps.create_namespace("fk-root").await?;
    let labels = json!([{ "key": "structure.test/team", "value": "red" }]);
    let spec = json!({ "labels": labels, "annotations": [{ "key": "structure.test/note", "value": "x" }] });
    for child in ["fk-child", "fk-other"] {
        let anchor = json!({ "metadata": { "name": child }, "spec": spec });
        steps.anchors("fk-root").create(&PostParams::default(), &serde_json::from_value(anchor)?).await?;
        steps.anchor_shows("fk-root", child, "Ok").await?;
        labelled_team(&workshop.steps, child, Some("red")).await?;
    }
    running.end().await?;

    let running = workshop.run(&[]).await?;
    let messages = steps.reasons("fk-child", &["IllegalManagedLabel", "IllegalManagedAnnotation"]).await?;
    ensure!(
        messages[0].contains("structure.test/team") && messages[1].contains("structure.test/note"),
        "{messages:?}"
    );
    let another =
        Patch::Merge(json!({ "spec": { "labels": [{ "key": "structure.test/team", "value": "blue" }] } }));
    let status = refusal(steps.anchors("fk-root").patch("fk-child", &PatchParams::default(), &another).await);
    assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"), "{}", status.message);
    ensure!(
        status.message.contains("fk-child") && status.message.contains("structure.test/team"),
        "{}",
        status.message
    );
    steps.anchors("fk-root").delete("fk-child", &DeleteParams::default()).await?;
    steps.gone("fk-child").await?;
    println!("the anchor went with its subnamespace, although its labels are not managed any more");
    running.end().await?;

    // With the old flags everything is as it was.
    let running = workshop.run(&MANAGED).await?;
    steps.reasons("fk-other", &[]).await?;
    labelled_team(&workshop.steps, "fk-other", Some("red")).await?;
    running.end().await
}

async fn labelled_team(steps: &Steps, name: &str, value: Option<&str>) -> Result<()> {
    eventually(&format!("{name} bears the team {value:?}"), PATIENCE, async || {
        let (labels, _) = steps.marks(name).await.map_err(|error| error.to_string())?;
        if labels.get("structure.test/team").map(String::as_str) == value {
            Ok(())
        } else {
            Err(format!("{labels:?}"))
        }
    })
    .await
}

#[tokio::test]
async fn excluding_a_namespace_that_is_in_a_tree_is_reported_and_can_be_undone() -> Result<()> {
    let workshop = workshop().await?;
    let steps = &workshop.steps;
    let running = workshop.run(&[]).await?;
    steps
        .plant(&[("fx-root", ""), ("fx-mid", "fx-root"), ("fx-leaf", "fx-mid"), ("fx-below", "fx-leaf")])
        .await?;
    steps.create_role("fx-root", "reader", (&["get"], "", "pods")).await?;
    steps.create_binding("fx-root", "reader", ("Role", "reader"), "alice").await?;
    let all = ["fx-mid", "fx-leaf", "fx-below"];
    steps.binding_arrives(&all, "reader", "fx-root", "alice").await?;
    steps.subnamespace(&["fx-sub", "fx-mid", "fx-root"]).await?;
    let mut uids = Vec::new();
    for name in all {
        uids.push(steps.bindings(name).get("reader").await?.metadata.uid);
    }
    running.end().await?;

    let running = workshop.run(&["--excluded-namespace=fx-mid"]).await?;
    for child in ["fx-leaf", "fx-sub"] {
        let messages = steps.reasons(child, &["IllegalParent"]).await?;
        ensure!(messages[0].contains("fx-mid") && messages[0].contains("include it"), "{messages:?}");
        println!("{child}: {}", messages[0]);
    }
    steps.reasons("fx-below", &["AncestorHaltActivities"]).await?;
    steps.labelled(&["fx-leaf"]).await?;
    steps.labelled(&["fx-below", "fx-leaf"]).await?;
    eventually("the excluded namespace is marked as such", PATIENCE, async || {
        let (labels, _) = steps.marks("fx-mid").await.map_err(|error| error.to_string())?;
        if labels.contains_key(hns_api::labels::INCLUDED_NAMESPACE) {
            Err(format!("{labels:?}"))
        } else {
            Ok(())
        }
    })
    .await?;
    let status = refusal(steps.set_parent("fx-below", "fx-mid").await);
    assert_eq!((status.code, status.reason.as_str()), (403, "Forbidden"), "{}", status.message);
    // What was copied stays.
    for (name, uid) in all.iter().zip(&uids) {
        assert_eq!(steps.bindings(name).get("reader").await?.metadata.uid, *uid, "{name}");
    }
    running.end().await?;

    let running = workshop.run(&[]).await?;
    for name in ["fx-leaf", "fx-sub", "fx-below"] {
        steps.reasons(name, &[]).await?;
    }
    steps.labelled(&["fx-below", "fx-leaf", "fx-mid", "fx-root"]).await?;
    steps.labelled(&["fx-sub", "fx-mid", "fx-root"]).await?;
    steps.labelled(&["fx-mid", "fx-root"]).await?;
    steps.anchor_shows("fx-mid", "fx-sub", "Ok").await?;
    for (name, uid) in all.iter().zip(&uids) {
        assert_eq!(steps.bindings(name).get("reader").await?.metadata.uid, *uid, "{name}");
    }
    running.end().await
}

#[tokio::test]
async fn an_override_is_refused_where_the_operator_wants_that() -> Result<()> {
    let workshop = workshop().await?;
    let steps = &workshop.steps;
    let team = |value: &str| json!({ "labels": [{ "key": "structure.test/team", "value": value }] });
    let running = workshop.run(&[MANAGED[0], MANAGED[1], "--refuse-label-conflicts"]).await?;
    steps.plant(&[("fo-root", ""), ("fo-mid", "fo-root"), ("fo-leaf", "fo-mid")]).await?;
    steps.configure("fo-leaf", team("leaf")).await?;
    labelled_team(steps, "fo-leaf", Some("leaf")).await?;
    let root = |value: &str| Patch::Merge(json!({ "spec": team(value) }));
    let api = steps.hierarchies("fo-root");
    steps.hierarchy_is("fo-root", "is there", |it| it["status"]["children"] == json!(["fo-mid"])).await?;
    let status = refusal(api.patch("hierarchy", &PatchParams::default(), &root("root")).await);
    assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"), "{}", status.message);
    ensure!(
        status.message.contains("fo-leaf") && status.message.contains("structure.test/team=leaf"),
        "{}",
        status.message
    );
    api.patch("hierarchy", &PatchParams::default(), &root("leaf")).await?;
    labelled_team(steps, "fo-mid", Some("leaf")).await?;
    running.end().await?;
    // Without the flag it is allowed, and reported below.
    let running = workshop.run(&MANAGED).await?;
    api.patch("hierarchy", &PatchParams::default(), &root("root")).await?;
    steps.reasons("fo-leaf", &["OverriddenByAncestor"]).await?;
    labelled_team(steps, "fo-leaf", Some("root")).await?;
    running.end().await
}

#[tokio::test]
async fn the_ancestry_is_written_where_the_operator_wants_it() -> Result<()> {
    let workshop = workshop().await?;
    let steps = &workshop.steps;
    let running = workshop.run(&["--ancestry-annotation"]).await?;
    steps.plant(&[("fa-root", ""), ("fa-mid", "fa-root"), ("fa-leaf", "fa-mid"), ("fa-new", "")]).await?;
    let ancestry = async |name: &str, wanted: Option<&str>| {
        eventually(&format!("{name} says {wanted:?}"), PATIENCE, async || {
            let (_, shown) = steps.marks(name).await.map_err(|error| error.to_string())?;
            let shown = shown.get(annotations::ANCESTRY).map(String::as_str);
            if shown == wanted { Ok(()) } else { Err(format!("{shown:?}")) }
        })
        .await
    };
    ancestry("fa-root", Some("fa-root")).await?;
    ancestry("fa-leaf", Some("fa-root.fa-mid.fa-leaf")).await?;
    steps.set_parent("fa-mid", "fa-new").await?;
    ancestry("fa-leaf", Some("fa-new.fa-mid.fa-leaf")).await?;
    running.end().await?;
    let running = workshop.run(&[]).await?;
    ancestry("fa-leaf", None).await?;
    steps.labelled(&["fa-leaf", "fa-mid", "fa-new"]).await?;
    running.end().await
}
