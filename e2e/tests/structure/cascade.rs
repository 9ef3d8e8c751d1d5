//! Cascading deletion: what goes with an anchor, and what must stay.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::{Result, ensure};
use futures::future::try_join_all;
use hns_api::{SubnamespaceAnchor, SubnamespaceAnchorSpec, annotations, finalizers};
use hns_e2e::steps::PATIENCE;
use hns_e2e::{Signal, Steps, eventually, refusal};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::scene::{DELETION, Structure, scene};
use super::workshop::workshop;

/// Five levels below the root. Full namespaces stand between subnamespaces.
const TREE: [(&str, &str, bool); 8] = [
    ("c-one", "c-root", true),
    ("c-two", "c-one", true),
    ("c-three", "c-two", true),
    ("c-four", "c-three", true),
    ("c-five", "c-four", true),
    ("c-full", "c-one", false),
    ("c-full-sub", "c-full", true),
    ("c-deep-full", "c-four", false),
];
const GOES: [&str; 5] = ["c-one", "c-two", "c-three", "c-four", "c-five"];
const STAYS: [&str; 4] = ["c-root", "c-full", "c-full-sub", "c-deep-full"];

#[tokio::test]
async fn subnamespaces_go_with_the_anchor_and_full_namespaces_are_orphaned() -> Result<()> {
    let scene = scene().await?;
    let steps = &scene.steps;
    steps.create_namespace("c-root").await?;
    let mut paths = BTreeMap::from([("c-root", vec!["c-root"])]);
    for (child, parent, is_subnamespace) in TREE {
        let path = [&[child], paths[parent].as_slice()].concat();
        if is_subnamespace {
            steps.subnamespace(&path).await?;
        } else {
            steps.plant(&[(child, parent)]).await?;
            steps.labelled(&path).await?;
        }
        paths.insert(child, path);
    }
    steps.create_role("c-root", "c-from-top", (&["get"], "", "pods")).await?;
    steps.create_role("c-one", "c-from-one", (&["get"], "", "pods")).await?;
    eventually("the roles arrive", PATIENCE, async || {
        for role in ["c-from-top", "c-from-one"] {
            steps.roles("c-deep-full").get(role).await.map_err(|error| error.to_string())?;
        }
        Ok(())
    })
    .await?;

    let delete = async || steps.anchors("c-root").delete("c-one", &DeleteParams::default()).await;
    let status = refusal(delete().await);
    assert_eq!((status.code, status.reason.as_str()), (403, "Forbidden"), "{}", status.message);
    ensure!(status.message.contains("c-one"), "{}", status.message);
    // A child's own flag is no help.
    steps.configure("c-two", json!({ "allowCascadingDeletion": true })).await?;
    assert_eq!(refusal(delete().await).code, 403);
    steps.configure("c-one", json!({ "allowCascadingDeletion": true })).await?;
    let mut uids = BTreeMap::new();
    for name in STAYS {
        uids.insert(name, steps.uid(name).await?);
    }
    eventually("the anchor may be deleted", PATIENCE, async || {
        delete().await.map(drop).map_err(|error| error.to_string())
    })
    .await?;
    for name in GOES {
        steps.gone(name).await?;
    }
    eventually("the anchor goes with its namespace", DELETION, async || {
        match steps.anchors("c-root").get_opt("c-one").await {
            Ok(None) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await?;

    let messages = steps.reasons("c-full", &["ParentMissing"]).await?;
    ensure!(messages[0].contains("c-one"), "{messages:?}");
    let messages = steps.reasons("c-deep-full", &["ParentMissing"]).await?;
    ensure!(messages[0].contains("c-four"), "{messages:?}");
    steps.reasons("c-full-sub", &["AncestorHaltActivities"]).await?;
    for name in ["c-full-sub", "c-deep-full"] {
        steps.labelled(&paths[name]).await?;
    }
    steps.anchor_shows("c-full", "c-full-sub", "Ok").await?;
    for name in STAYS {
        let namespace = steps.namespaces().get(name).await?;
        ensure!(namespace.metadata.deletion_timestamp.is_none(), "{name} is going");
        assert_eq!(namespace.metadata.uid.as_ref(), uids.get(name), "{name} is another one");
    }
    println!("{GOES:?} went, {STAYS:?} stayed");
    begins_anew(steps).await
}

/// A tree of subnamespaces is deleted as fast as as many namespaces that do not depend on each other: no level waits for the one
/// below. All are deleted at the same time, because other tests and the namespace controller share the processors.
#[tokio::test]
async fn a_deep_tree_is_deleted_as_fast_as_single_namespaces() -> Result<()> {
    let scene = scene().await?;
    let steps = &scene.steps;
    steps.create_namespace("t-root").await?;
    let mut trees = vec![];
    for levels in [3, 10] {
        let mut path = vec!["t-root".to_owned()];
        for level in 0..levels {
            path.insert(0, format!("t-{levels}-{level}"));
            steps.subnamespace(&path.iter().map(String::as_str).collect::<Vec<_>>()).await?;
        }
        path.pop();
        path.reverse();
        steps.configure(&path[0], json!({ "allowCascadingDeletion": true })).await?;
        trees.push((path[..1].to_vec(), path));
    }
    let mut single = vec![];
    for number in 0..10 {
        single.push(format!("t-single-{number}"));
        steps.subnamespace(&[&single[number], "t-root"]).await?;
    }
    trees.push((single.clone(), single));
    let deletions = trees.iter().map(|(tops, all)| async move {
        let start = Instant::now();
        for top in tops {
            eventually("the anchor may be deleted", PATIENCE, async || {
                let deleted = steps.anchors("t-root").delete(top, &DeleteParams::default()).await;
                deleted.map(drop).map_err(|error| error.to_string())
            })
            .await?;
        }
        for name in all {
            steps.gone(name).await?;
        }
        anyhow::Ok(start.elapsed())
    });
    let times = try_join_all(deletions).await?;
    println!("3 levels, 10 levels and 10 single namespaces are deleted in {times:.1?}");
    ensure!(times.iter().all(|time| *time <= times[2].mul_f64(1.5)), "{times:.1?}");
    Ok(())
}

/// A namespace of the same name starts without the permission to cascade, and without what its predecessor was told.
async fn begins_anew(steps: &Steps) -> Result<()> {
    steps.subnamespace(&["c-one", "c-root"]).await?;
    steps.labelled(&["c-full-sub", "c-full", "c-one", "c-root"]).await?;
    steps.reasons("c-full", &[]).await?;
    steps.reasons("c-full-sub", &[]).await?;
    let stored = steps.stored_hierarchy("c-one").await?.unwrap_or_default();
    assert_eq!(stored["spec"].get("allowCascadingDeletion"), None, "{stored}");
    let status = refusal(steps.anchors("c-root").delete("c-one", &DeleteParams::default()).await);
    assert_eq!((status.code, status.reason.as_str()), (403, "Forbidden"), "{}", status.message);
    Ok(())
}

/// An export that is made while an anchor is being deleted says so, and a server-side apply keeps that. No deletion is judged then, and
/// no right to delete is needed.
#[tokio::test]
async fn an_anchor_that_is_marked_as_deleted_is_not_applied() -> Result<()> {
    let scene = scene().await?;
    let steps = &scene.steps;
    steps.create_namespace("cd-root").await?;
    let lost = json!({ "metadata": { "name": "cd-sub", "annotations": { annotations::SUBNAMESPACE_OF: "cd-root" } } });
    steps.namespaces().create(&PostParams::default(), &serde_json::from_value(lost)?).await?;
    steps.plant(&[("cd-below", "cd-sub")]).await?;
    steps.labelled(&["cd-below", "cd-sub", "cd-root"]).await?;
    let writes = (&["get", "create", "patch"][..], hns_api::GROUP, "subnamespaceanchors");
    steps.create_role("cd-root", "writers", writes).await?;
    steps.create_binding("cd-root", "writers", ("Role", "writers"), "cd-eve").await?;
    let eve = Steps::of(scene.cluster().client_as("cd-eve", &[])).anchors("cd-root");
    eventually("eve may read anchors", PATIENCE, async || {
        eve.get_opt("cd-sub").await.map(drop).map_err(|error| error.to_string())
    })
    .await?;
    let apply = async |mark: Value| {
        let anchor = SubnamespaceAnchor::new("cd-sub", SubnamespaceAnchorSpec::default());
        let mut anchor = serde_json::to_value(anchor)?;
        anchor["metadata"]["finalizers"] = json!([finalizers::SUBNAMESPACE_ANCHOR]);
        anchor["metadata"]["deletionTimestamp"] = mark;
        anyhow::Ok(eve.patch("cd-sub", &PatchParams::apply("eve"), &Patch::Apply(anchor)).await)
    };
    let status = refusal(apply(json!("2026-01-01T00:00:00Z")).await?);
    assert_eq!(status.code, 403, "{}", status.message);
    ensure!(status.message.contains("marked as deleted"), "{}", status.message);
    apply(Value::Null).await??;
    steps.anchor_shows("cd-root", "cd-sub", "Ok").await?;
    Ok(())
}

/// The two watches of the controller are not in order.
#[tokio::test]
async fn cascading_deletion_that_is_allowed_just_before_is_seen() -> Result<()> {
    let workshop = workshop().await?;
    let steps = &workshop.steps;
    let running = workshop.run(&[]).await?;
    for round in 0..3 {
        let [root, sub, below] = ["root", "sub", "below"].map(|name| format!("cj-{round}-{name}"));
        steps.create_namespace(&root).await?;
        steps.create_anchor(&root, &sub).await?;
        steps.labelled(&[&sub, &root]).await?;
        steps.create_anchor(&sub, &below).await?;
        steps.labelled(&[&below, &sub, &root]).await?;
        running.controller.process().signal(Signal::STOP)?;
        let allowed = steps.configure(&sub, json!({ "allowCascadingDeletion": true })).await;
        let deleted = eventually("the deletion is allowed", PATIENCE, async || {
            let deleted = steps.anchors(&root).delete(&sub, &DeleteParams::default()).await;
            deleted.map(drop).map_err(|error| error.to_string())
        })
        .await;
        running.controller.process().signal(Signal::CONT)?;
        allowed?;
        deleted?;
        for name in [&sub, &below] {
            eventually(&format!("{name} is gone"), PATIENCE, async || {
                match steps.namespaces().get_opt(name).await {
                    Ok(None) => Ok(()),
                    other => {
                        Err(format!("{:?}", other.map(|it| it.map(|it| it.metadata.deletion_timestamp))))
                    }
                }
            })
            .await?;
        }
    }
    running.end().await
}
