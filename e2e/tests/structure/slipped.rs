//! The controller repairs what has bypassed the rules (while a webhook was being installed, or by a cluster administrator):
//! labels that only it may write, and anchors where none is allowed.

use std::time::Duration;

use anyhow::{Result, ensure};
use hns_api::{SubnamespaceAnchor, annotations, finalizers, labels};
use hns_e2e::steps::PATIENCE;
use hns_e2e::{Steps, eventually, stays};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;

use super::scene::{Structure, scene};

/// A namespace, a label, what is written over it, and what it must come to.
type Row = (&'static str, &'static str, Option<&'static str>, Option<&'static str>);

/// Excluded by name, and in no other test of this suite.
const LISTED: &str = "kube-node-lease";
const FORGED: &str = "kube-system.tree.hnc.x-k8s.io/depth";

const ROWS: [Row; 15] = [
    // The marker of parents decides what is refused while every webhook is dead.
    ("sl-root", labels::HAS_CHILDREN, None, Some("true")),
    ("sl-root", labels::HAS_CHILDREN, Some("false"), Some("true")),
    ("sl-leaf", labels::HAS_CHILDREN, Some("true"), None),
    // What bears this one is not looked at by the webhook of objects.
    ("sl-root", labels::EXCLUDED_NAMESPACE, Some("true"), None),
    ("sl-leaf", labels::EXCLUDED_NAMESPACE, Some("yes"), None),
    ("sl-lone", labels::EXCLUDED_NAMESPACE, Some("true"), None),
    // And what does not bear this one neither.
    ("sl-leaf", labels::INCLUDED_NAMESPACE, None, Some("true")),
    ("sl-leaf", labels::INCLUDED_NAMESPACE, Some("false"), Some("true")),
    ("sl-lone", labels::INCLUDED_NAMESPACE, None, Some("true")),
    ("sl-lone-x", labels::INCLUDED_NAMESPACE, Some("true"), None),
    (LISTED, labels::INCLUDED_NAMESPACE, Some("true"), None),
    // Network policies trust these.
    ("sl-leaf", FORGED, Some("1"), None),
    ("sl-lone", FORGED, Some("0"), None),
    ("sl-leaf", "sl-root.tree.hnc.x-k8s.io/depth", Some("0"), Some("1")),
    ("sl-leaf", "sl-root.tree.hnc.x-k8s.io/depth", None, Some("1")),
];

async fn comes_to(steps: &Steps, (namespace, label, written, wanted): Row) -> Result<()> {
    eventually(&format!("{label}={written:?} of {namespace} becomes {wanted:?}"), PATIENCE, async || {
        let (labels, _) = steps.marks(namespace).await.map_err(|error| error.to_string())?;
        let seen = labels.get(label).map(String::as_str);
        if seen == wanted { Ok(()) } else { Err(format!("{seen:?}")) }
    })
    .await
}

#[tokio::test]
async fn marks_that_have_slipped_in_or_out_are_put_right() -> Result<()> {
    let scene = scene().await?;
    let (steps, slipped) = (&scene.steps, &scene.slipped);
    steps.plant(&[("sl-root", ""), ("sl-leaf", "sl-root"), ("sl-lone", ""), ("sl-lone-x", "")]).await?;
    steps.labelled(&["sl-leaf", "sl-root"]).await?;
    comes_to(steps, ("sl-root", labels::HAS_CHILDREN, None, Some("true"))).await?;
    for row in ROWS {
        let (namespace, label, written, _) = row;
        let patch = json!({ "metadata": { "labels": { label: written } } });
        slipped.change_namespace(namespace, patch).await?;
        comes_to(steps, row).await?;
    }
    // The listed ones may bear it.
    let bear = async |value: Option<&str>| {
        let patch = json!({ "metadata": { "labels": { labels::EXCLUDED_NAMESPACE: value } } });
        steps.change_namespace(LISTED, patch).await
    };
    bear(Some("true")).await?;
    stays("a listed namespace keeps the label", Duration::from_secs(1), async || {
        let (labels, _) = steps.marks(LISTED).await.map_err(|error| error.to_string())?;
        labels.get(labels::EXCLUDED_NAMESPACE).map(drop).ok_or_else(|| "it is gone".into())
    })
    .await?;
    bear(None).await?;
    println!("{} marks were put right", ROWS.len());
    Ok(())
}

#[tokio::test]
async fn an_anchor_in_an_excluded_namespace_makes_nothing_and_is_not_held() -> Result<()> {
    let scene = scene().await?;
    let (steps, slipped) = (&scene.steps, &scene.slipped);
    steps.create_namespace("sa-root").await?;
    let anchor: SubnamespaceAnchor = serde_json::from_value(json!({
        "metadata": {
            "name": "sa-nowhere", "finalizers": [finalizers::SUBNAMESPACE_ANCHOR],
            "annotations": { annotations::INITIAL_ADMIN: "eve" },
        },
    }))?;
    let anchors = slipped.anchors(LISTED);
    anchors.create(&PostParams::default(), &anchor).await?;
    let forged = Patch::Merge(json!({ "status": { "status": "Missing" } }));
    anchors.patch("sa-nowhere", &PatchParams::default(), &forged).await?;
    eventually("its finalizer is taken away", PATIENCE, async || {
        let anchor = anchors.get("sa-nowhere").await.map_err(|error| error.to_string())?;
        if anchor.metadata.finalizers.is_none() { Ok(()) } else { Err(format!("{anchor:?}")) }
    })
    .await?;
    // What is asked for later is there, and this is not.
    steps.subnamespace(&["sa-child", "sa-root"]).await?;
    ensure!(steps.namespaces().get_opt("sa-nowhere").await?.is_none(), "it was created");
    let state = anchors.get("sa-nowhere").await?;
    assert_eq!(state.state(), Some("Missing"), "its state does not change");
    anchors.delete("sa-nowhere", &DeleteParams::default()).await?;
    Ok(())
}
