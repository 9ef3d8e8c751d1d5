//! The conditions of section 4.1 of docs/compatibility.md, each coming and going, and their times. `DeletingCRD` and the
//! exclusion of a namespace that is in a tree need an installation of their own, see `definitions` and `flags`.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use hns_e2e::steps::{HIERARCHY, PATIENCE};
use hns_e2e::{Steps, eventually, refusal};
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::scene::{Structure, scene};

#[tokio::test]
async fn a_missing_parent_halts_what_is_below_until_it_is_there() -> Result<()> {
    let scene = scene().await?;
    let steps = &scene.steps;
    steps.plant(&[("pm-mid", ""), ("pm-leaf", "pm-mid")]).await?;
    steps.reasons("pm-leaf", &[]).await?;
    steps.set_parent("pm-mid", "pm-root").await?;
    let messages = steps.reasons("pm-mid", &["ParentMissing"]).await?;
    ensure!(messages[0].contains("pm-root"), "{messages:?}");
    let messages = steps.reasons("pm-leaf", &["AncestorHaltActivities"]).await?;
    ensure!(messages[0].contains("pm-mid"), "{messages:?}");
    steps.create_namespace("pm-root").await?;
    steps.reasons("pm-mid", &[]).await?;
    steps.reasons("pm-leaf", &[]).await?;
    steps.labelled(&["pm-leaf", "pm-mid", "pm-root"]).await?;
    // It goes as well when another parent is chosen.
    steps.set_parent("pm-mid", "pm-nowhere").await?;
    steps.reasons("pm-mid", &["ParentMissing"]).await?;
    steps.set_parent("pm-mid", "").await?;
    steps.reasons("pm-mid", &[]).await?;
    Ok(())
}

#[tokio::test]
async fn an_unmanaged_parent_is_illegal_until_it_is_changed() -> Result<()> {
    let scene = scene().await?;
    let steps = &scene.steps;
    steps.plant(&[("ip-child", ""), ("ip-leaf", "ip-child"), ("ip-root", "")]).await?;
    let status = refusal(steps.set_parent("ip-child", "kube-public").await);
    assert_eq!((status.code, status.reason.as_str()), (403, "Forbidden"), "{}", status.message);
    scene.slipped.set_parent("ip-child", "kube-public").await?;
    let messages = steps.reasons("ip-child", &["IllegalParent"]).await?;
    ensure!(messages[0].contains("kube-public"), "{messages:?}");
    steps.reasons("ip-leaf", &["AncestorHaltActivities"]).await?;
    steps.labelled(&["ip-child"]).await?;
    steps.set_parent("ip-child", "ip-root").await?;
    steps.reasons("ip-child", &[]).await?;
    steps.reasons("ip-leaf", &[]).await?;
    steps.labelled(&["ip-leaf", "ip-child", "ip-root"]).await
}

#[tokio::test]
async fn a_cycle_halts_its_members_until_it_is_broken() -> Result<()> {
    let scene = scene().await?;
    let steps = &scene.steps;
    steps.plant(&[("ic-a", ""), ("ic-b", "ic-a"), ("ic-c", "ic-b"), ("ic-tail", "ic-c")]).await?;
    steps.labelled(&["ic-tail", "ic-c", "ic-b", "ic-a"]).await?;
    assert_eq!(refusal(steps.set_parent("ic-a", "ic-c").await).code, 409);
    scene.slipped.set_parent("ic-a", "ic-c").await?;
    for member in ["ic-a", "ic-b", "ic-c"] {
        let messages = steps.reasons(member, &["InCycle"]).await?;
        ensure!(messages[0].contains("ic-a <- ic-b <- ic-c <- ic-a"), "{member}: {messages:?}");
        steps.labelled(&[member]).await?;
    }
    steps.reasons("ic-tail", &["AncestorHaltActivities"]).await?;
    steps.labelled(&["ic-tail", "ic-c"]).await?;
    steps.set_parent("ic-a", "").await?;
    for member in ["ic-a", "ic-b", "ic-c", "ic-tail"] {
        steps.reasons(member, &[]).await?;
    }
    steps.labelled(&["ic-tail", "ic-c", "ic-b", "ic-a"]).await
}

#[tokio::test]
async fn keys_that_are_not_managed_are_reported_and_not_applied() -> Result<()> {
    let scene = scene().await?;
    let steps = &scene.steps;
    steps.plant(&[("ik-child", "")]).await?;
    let foreign =
        |key: &str| json!([{ "key": key, "value": "x" }, { "key": "structure.test/good", "value": "y" }]);
    for (field, reason) in [("labels", "IllegalManagedLabel"), ("annotations", "IllegalManagedAnnotation")] {
        let key = format!("foreign.test/{field}");
        let spec = json!({ "spec": { field: foreign(&key) } });
        let object =
            serde_json::from_value(json!({ "metadata": { "name": HIERARCHY }, "spec": spec["spec"] }))?;
        let dry = PostParams { dry_run: true, ..PostParams::default() };
        let refused = match steps.hierarchies("ik-child").create(&dry, &object).await {
            // It is there already: the controller or the line before has made it.
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => None,
            other => Some(refusal(other)),
        };
        if let Some(status) = refused {
            assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"), "{}", status.message);
        }
        scene.slipped.configure("ik-child", json!({ field: foreign(&key) })).await?;
        let messages = steps.reasons("ik-child", &[reason]).await?;
        ensure!(messages[0].contains(&key), "{messages:?}");
        bears(steps, "ik-child", field, "structure.test/good", Some("y")).await?;
        bears(steps, "ik-child", field, &key, None).await?;
        steps.configure("ik-child", json!({ field: null })).await?;
        steps.reasons("ik-child", &[]).await?;
        bears(steps, "ik-child", field, "structure.test/good", None).await?;
    }
    Ok(())
}

async fn bears(steps: &Steps, name: &str, field: &str, key: &str, value: Option<&str>) -> Result<()> {
    eventually(&format!("{key} in {field} of {name} is {value:?}"), PATIENCE, async || {
        let (labels, annotations) = steps.marks(name).await.map_err(|error| error.to_string())?;
        let marks = if field == "labels" { labels } else { annotations };
        if marks.get(key).map(String::as_str) == value { Ok(()) } else { Err(format!("{marks:?}")) }
    })
    .await
}

#[tokio::test]
async fn a_value_that_an_ancestor_overrides_is_reported() -> Result<()> {
    let scene = scene().await?;
    let steps = &scene.steps;
    steps.plant(&[("ov-root", ""), ("ov-mid", "ov-root"), ("ov-leaf", "ov-mid")]).await?;
    let team = |value: &str| json!({ "labels": [{ "key": "structure.test/team", "value": value }] });
    steps.configure("ov-leaf", team("leaf")).await?;
    bears(steps, "ov-leaf", "labels", "structure.test/team", Some("leaf")).await?;
    steps.reasons("ov-leaf", &[]).await?;
    steps.configure("ov-root", team("root")).await?;
    for name in ["ov-root", "ov-mid", "ov-leaf"] {
        bears(steps, name, "labels", "structure.test/team", Some("root")).await?;
    }
    let messages = steps.reasons("ov-leaf", &["OverriddenByAncestor"]).await?;
    ensure!(
        messages[0].contains("structure.test/team=leaf") && messages[0].contains("ov-root"),
        "{messages:?}"
    );
    // The same value is no conflict.
    steps.configure("ov-root", team("leaf")).await?;
    steps.reasons("ov-leaf", &[]).await?;
    steps.configure("ov-root", team("root")).await?;
    steps.reasons("ov-leaf", &["OverriddenByAncestor"]).await?;
    steps.configure("ov-root", json!({ "labels": null })).await?;
    steps.reasons("ov-leaf", &[]).await?;
    bears(steps, "ov-leaf", "labels", "structure.test/team", Some("leaf")).await?;
    bears(steps, "ov-mid", "labels", "structure.test/team", None).await
}

/// Since when each reason is shown.
fn times(hierarchy: &Value) -> BTreeMap<String, String> {
    let conditions = hierarchy["status"]["conditions"].as_array().into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    conditions.map(|it| (text(&it["reason"]), text(&it["lastTransitionTime"]))).collect()
}

async fn shown(steps: &Steps, name: &str) -> Result<BTreeMap<String, String>> {
    Ok(times(&steps.stored_hierarchy(name).await?.context("it has no hierarchy")?))
}

#[tokio::test]
async fn a_conditions_time_moves_only_when_the_condition_does() -> Result<()> {
    let scene = scene().await?;
    let steps = &scene.steps;
    steps.plant(&[("lt-child", ""), ("lt-other", "")]).await?;
    steps.set_parent("lt-child", "lt-gone").await?;
    steps.reasons("lt-child", &["ParentMissing"]).await?;
    let first = shown(steps, "lt-child").await?;
    let since = first.get("ParentMissing").context("no time")?.clone();
    ensure!(!since.is_empty(), "{first:?}");
    // The clock has to show another second, or nothing could be told apart.
    eventually("the clock shows another second", PATIENCE, async || {
        let now = k8s_openapi::jiff::Timestamp::now();
        if format!("{now:.0}") > since { Ok(()) } else { Err(now.to_string()) }
    })
    .await?;
    // Everything about the namespace is written anew, and another condition comes and goes.
    steps
        .configure("lt-child", json!({ "labels": [{ "key": "structure.test/team", "value": "a" }] }))
        .await?;
    bears(steps, "lt-child", "labels", "structure.test/team", Some("a")).await?;
    steps.set_parent("lt-other", "lt-child").await?;
    steps
        .hierarchy_is("lt-child", "lists its new child", |it| it["status"]["children"] == json!(["lt-other"]))
        .await?;
    scene
        .slipped
        .configure("lt-child", json!({ "labels": [{ "key": "foreign.test/a", "value": "b" }] }))
        .await?;
    steps.reasons("lt-child", &["ParentMissing", "IllegalManagedLabel"]).await?;
    let second = shown(steps, "lt-child").await?;
    assert_eq!(second.get("ParentMissing"), Some(&since), "it moved while the condition stayed");
    let later = second.get("IllegalManagedLabel").context("no time")?;
    ensure!(*later > since, "the other condition is as old: {second:?}");
    steps.configure("lt-child", json!({ "labels": null })).await?;
    steps.reasons("lt-child", &["ParentMissing"]).await?;
    assert_eq!(shown(steps, "lt-child").await?.get("ParentMissing"), Some(&since));
    // The condition goes and comes again: that is a transition.
    steps.create_namespace("lt-gone").await?;
    steps.reasons("lt-child", &[]).await?;
    steps.set_parent("lt-child", "lt-gone-again").await?;
    steps.reasons("lt-child", &["ParentMissing"]).await?;
    let third = shown(steps, "lt-child").await?;
    ensure!(
        third.get("ParentMissing") > Some(&since),
        "it did not move although the condition did: {third:?}"
    );
    println!("{first:?}, then {second:?}, then {third:?}");
    Ok(())
}

#[tokio::test]
async fn an_explicit_false_survives_the_controllers_rewriting() -> Result<()> {
    let scene = scene().await?;
    let steps = &scene.steps;
    steps.create_namespace("ef-root").await?;
    steps.subnamespace(&["ef-child", "ef-root"]).await?;
    steps.hierarchy_is("ef-child", "is there", |it| it["spec"]["parent"] == "ef-root").await?;
    steps.configure("ef-child", json!({ "allowCascadingDeletion": false })).await?;
    // The controller rewrites the spec, because the anchor says something new.
    let labels = json!([{ "key": "structure.test/team", "value": "a" }]);
    let patch = Patch::Merge(json!({ "spec": { "labels": labels } }));
    steps.anchors("ef-root").patch("ef-child", &PatchParams::default(), &patch).await?;
    let rewritten = steps
        .hierarchy_is("ef-child", "has the anchor's labels", |it| it["spec"]["labels"] == labels)
        .await?;
    assert_eq!(rewritten["spec"]["allowCascadingDeletion"], json!(false), "{rewritten}");
    // And again, with a status.
    steps.subnamespace(&["ef-leaf", "ef-child", "ef-root"]).await?;
    let rewritten = steps
        .hierarchy_is("ef-child", "lists its child", |it| it["status"]["children"] == json!(["ef-leaf"]))
        .await?;
    assert_eq!(rewritten["spec"]["allowCascadingDeletion"], json!(false), "{rewritten}");
    // Without any value there is no condition.
    let leaf = steps.hierarchy_is("ef-leaf", "is there", |it| it["spec"]["parent"] == "ef-child").await?;
    assert_eq!(leaf["spec"].get("allowCascadingDeletion"), None, "{leaf}");
    Ok(())
}
