//! The life of an anchor (sections 2.2, 4.2 and 6.2 of docs/compatibility.md): its subnamespace, its states, and its deletion.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt};
use hns_api::{SubnamespaceAnchor, annotations, finalizers, labels};
use hns_e2e::steps::PATIENCE;
use hns_e2e::{Steps, eventually, refusal};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::core::DynamicObject;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::scene::{DELETION, Structure, scene};

const TEAM: &str = "structure.test/team";
const NOTE: &str = "structure.test/note";

fn anchor(name: &str, spec: &Value) -> Result<SubnamespaceAnchor> {
    Ok(serde_json::from_value(json!({ "metadata": { "name": name }, "spec": spec }))?)
}

#[tokio::test]
async fn an_anchor_makes_a_subnamespace_with_all_that_it_says() -> Result<()> {
    let scene = scene().await?;
    let steps = &scene.steps;
    steps.create_namespace("am-root").await?;
    let version = steps.namespaces().list_metadata(&ListParams::default()).await?.metadata.resource_version;
    let spec = json!({
        "labels": [{ "key": TEAM, "value": "red" }],
        "annotations": [{ "key": NOTE, "value": "made by an anchor" }],
    });
    steps.anchors("am-root").create(&PostParams::default(), &anchor("am-child", &spec)?).await?;
    steps.anchor_shows("am-root", "am-child", "Ok").await?;
    steps.labelled(&["am-child", "am-root"]).await?;

    let hierarchy = steps
        .hierarchy_is("am-child", "takes over what the anchor says", |it| {
            it["spec"]["parent"] == "am-root"
                && it["spec"]["labels"] == spec["labels"]
                && it["spec"]["annotations"] == spec["annotations"]
        })
        .await?;
    eventually("the subnamespace bears the managed label and annotation", PATIENCE, async || {
        let (labels, annotations) = steps.marks("am-child").await.map_err(|error| error.to_string())?;
        let team = labels.get(TEAM).map(String::as_str) == Some("red");
        let note = annotations.get(NOTE).map(String::as_str) == Some("made by an anchor");
        if team && note { Ok(()) } else { Err(format!("{labels:?} {annotations:?}")) }
    })
    .await?;
    let (labelled, annotated) = steps.marks("am-child").await?;
    assert_eq!(annotated.get(annotations::SUBNAMESPACE_OF).map(String::as_str), Some("am-root"));
    assert_eq!(labelled.get(labels::INCLUDED_NAMESPACE).map(String::as_str), Some("true"));
    ensure!(!labelled.contains_key(labels::HAS_CHILDREN), "a leaf bears the marker of parents");

    let (parent, _) = steps.marks("am-root").await?;
    assert_eq!(parent.get(labels::HAS_CHILDREN).map(String::as_str), Some("true"));
    let above = steps
        .hierarchy_is("am-root", "lists the child", |it| it["status"]["children"] == json!(["am-child"]))
        .await?;
    assert_eq!(above["metadata"]["finalizers"], json!([finalizers::HAS_SUBNAMESPACE]));
    assert_eq!(above["spec"], json!({}), "as in an object of HNC");
    assert_eq!(hierarchy["metadata"]["finalizers"], Value::Null, "a leaf needs no finalizer");

    for (words, columns, shown) in [
        ("subns -n am-root", "NAME STATUS AGE", "am-child Ok"),
        ("hc -n am-root", "NAME PARENT CHILDREN CONDITION AGE", r#"hierarchy ["am-child"]"#),
        ("hc -n am-child", "NAME PARENT CHILDREN CONDITION AGE", "hierarchy am-root"),
        ("hncconfig", "NAME RESOURCES CONDITION AGE", "config rolebindings, roles"),
    ] {
        eventually(&format!("kubectl get {words} shows {shown}"), PATIENCE, async || {
            let kubectl = scene.cluster().kubectl().args(["get"]).args(words.split(' '));
            let printed = kubectl.ok().await.map_err(|error| error.to_string())?;
            let mut lines = printed.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
            let is_header = lines.next().is_some_and(|line| line == columns);
            let is_shown = lines.next().is_some_and(|line| line.starts_with(shown));
            if is_header && is_shown { Ok(()) } else { Err(printed) }
        })
        .await?;
    }

    // A guard must be able to see that a namespace is a parent before it is one.
    let mut events =
        steps.namespaces().watch(&WatchParams::default(), &version.unwrap_or_default()).await?.boxed();
    let mut is_marked = false;
    while let Some(event) = tokio::time::timeout(PATIENCE, events.try_next()).await?? {
        match event {
            WatchEvent::Modified(it) if it.name_any() == "am-root" => {
                is_marked |= it.labels().contains_key(labels::HAS_CHILDREN);
            }
            WatchEvent::Added(it) if it.name_any() == "am-child" => break,
            _ => {}
        }
    }
    ensure!(is_marked, "the child was there before its parent was marked");
    Ok(())
}

#[tokio::test]
async fn a_new_anchor_is_missing_and_then_ok() -> Result<()> {
    let scene = scene().await?;
    let steps = &scene.steps;
    steps.create_namespace("an-root").await?;
    let api = steps.anchors("an-root");
    let version = api.list(&ListParams::default()).await?.metadata.resource_version.unwrap_or_default();
    steps.subnamespace(&["an-child", "an-root"]).await?;
    let mut events = api.watch(&WatchParams::default(), &version).await?.boxed();
    let mut states: Vec<String> = Vec::new();
    while let Some(event) = tokio::time::timeout(PATIENCE, events.try_next()).await?? {
        if let WatchEvent::Added(anchor) | WatchEvent::Modified(anchor) = event {
            let state = anchor.state().unwrap_or("none").to_owned();
            let last = state == "Ok";
            if states.last() != Some(&state) {
                states.push(state);
            }
            if last {
                break;
            }
        }
    }
    assert_eq!(states, ["none", "Missing", "Ok"]);
    Ok(())
}

/// Another policy that keeps one namespace from being created, or deleted.
fn barrier(name: &str, operation: &str) -> Result<[(DynamicObject, kube::core::ApiResource); 2]> {
    let resource = |kind: &str| {
        let gvk = kube::core::GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", kind);
        kube::core::ApiResource::from_gvk(&gvk)
    };
    let policy = json!({
        "metadata": { "name": name },
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": { "resourceRules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "operations": [operation], "resources": ["namespaces"],
            }] },
            "validations": [{
                "expression": format!("(object == null ? oldObject : object).metadata.name != '{name}'"),
                "message": "not this one",
            }],
        },
    });
    let binding = json!({
        "metadata": { "name": name },
        "spec": { "policyName": name, "validationActions": ["Deny"] },
    });
    Ok([
        (serde_json::from_value(policy)?, resource("ValidatingAdmissionPolicy")),
        (serde_json::from_value(binding)?, resource("ValidatingAdmissionPolicyBinding")),
    ])
}

#[tokio::test]
async fn an_anchor_stays_missing_while_its_namespace_cannot_be_created() -> Result<()> {
    let scene = scene().await?;
    let steps = &scene.steps;
    steps.create_namespace("ab-root").await?;
    steps.subnamespace(&["ab-allowed", "ab-root"]).await?;
    let barrier = barrier("ab-barred", "CREATE")?;
    for (object, resource) in &barrier {
        let api: Api<DynamicObject> = Api::all_with(steps.client.clone(), resource);
        api.create(&PostParams::default(), object).await?;
    }
    let probe: Namespace = serde_json::from_value(json!({ "metadata": { "name": "ab-barred" } }))?;
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    eventually("the barrier is in force", PATIENCE, async || {
        match steps.namespaces().create(&dry, &probe).await {
            Err(kube::Error::Api(status)) if status.message.contains("not this one") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await?;
    steps.create_anchor("ab-root", "ab-barred").await?;
    steps.anchor_shows("ab-root", "ab-barred", "Missing").await?;
    for (object, resource) in &barrier {
        let api: Api<DynamicObject> = Api::all_with(steps.client.clone(), resource);
        api.delete(&object.name_any(), &DeleteParams::default()).await?;
    }
    steps.anchor_shows("ab-root", "ab-barred", "Ok").await?;
    steps.labelled(&["ab-barred", "ab-root"]).await
}

/// The controller tries to delete the namespace again and again.
#[tokio::test]
async fn an_anchor_whose_namespace_cannot_be_deleted_holds_up_no_other() -> Result<()> {
    let scene = scene().await?;
    let steps = &scene.steps;
    steps.plant(&[("ak-root", ""), ("ak-mid", "ak-root")]).await?;
    steps.subnamespace(&["ak-kept", "ak-mid", "ak-root"]).await?;
    let barrier = barrier("ak-kept", "DELETE")?;
    for (object, resource) in &barrier {
        let api: Api<DynamicObject> = Api::all_with(steps.client.clone(), resource);
        api.create(&PostParams::default(), object).await?;
    }
    let dry = DeleteParams { dry_run: true, ..DeleteParams::default() };
    eventually("the barrier is in force", PATIENCE, async || {
        // The rules of this project refuse the deletion of a subnamespace by others, but policies come first.
        match scene.slipped.namespaces().delete("ak-kept", &dry).await {
            Err(kube::Error::Api(status)) if status.message.contains("not this one") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await?;
    steps.anchors("ak-mid").delete("ak-kept", &DeleteParams::default()).await?;
    steps.subnamespace(&["ak-later", "ak-mid", "ak-root"]).await?;
    steps.create_binding("ak-root", "ak-late", ("ClusterRole", "view"), "jane").await?;
    steps.binding_arrives(&["ak-mid", "ak-later"], "ak-late", "ak-root", "jane").await?;
    let kept = steps.namespaces().get("ak-kept").await?;
    ensure!(kept.metadata.deletion_timestamp.is_none(), "it is being deleted");
    for (object, resource) in &barrier {
        let api: Api<DynamicObject> = Api::all_with(steps.client.clone(), resource);
        api.delete(&object.name_any(), &DeleteParams::default()).await?;
    }
    steps.gone("ak-kept").await
}

#[tokio::test]
async fn an_anchor_of_another_users_namespace_is_in_conflict_until_that_changes() -> Result<()> {
    let scene = scene().await?;
    let (steps, slipped) = (&scene.steps, &scene.slipped);
    for name in ["ac-root", "ac-lone", "ac-taken"] {
        steps.create_namespace(name).await?;
    }
    let status = refusal(steps.create_anchor("ac-root", "ac-lone").await);
    assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"), "{}", status.message);
    ensure!(status.message.contains("ac-lone"), "{}", status.message);
    slipped.create_anchor("ac-root", "ac-lone").await?;
    slipped.create_anchor("ac-root", "ac-taken").await?;
    steps.anchor_shows("ac-root", "ac-lone", "Conflict").await?;
    steps.anchor_shows("ac-root", "ac-taken", "Conflict").await?;

    // It goes when the namespace becomes its subnamespace …
    let uid = steps.uid("ac-taken").await?;
    let annotation = json!({ "metadata": { "annotations": { annotations::SUBNAMESPACE_OF: "ac-root" } } });
    steps.change_namespace("ac-taken", annotation).await?;
    steps.anchor_shows("ac-root", "ac-taken", "Ok").await?;
    steps.labelled(&["ac-taken", "ac-root"]).await?;
    assert_eq!(steps.uid("ac-taken").await?, uid);
    // … comes back when it is one no longer …
    let full = json!({ "metadata": { "annotations": { annotations::SUBNAMESPACE_OF: null } } });
    steps.change_namespace("ac-taken", full).await?;
    steps.anchor_shows("ac-root", "ac-taken", "Conflict").await?;
    steps.labelled(&["ac-taken", "ac-root"]).await?;
    // … and an anchor in conflict takes nothing with it.
    for name in ["ac-lone", "ac-taken"] {
        let uid = steps.uid(name).await?;
        steps.anchors("ac-root").delete(name, &DeleteParams::default()).await?;
        anchor_goes(steps, "ac-root", name).await?;
        assert_eq!(steps.uid(name).await?, uid);
        ensure!(steps.namespaces().get(name).await?.metadata.deletion_timestamp.is_none(), "{name} is going");
    }
    Ok(())
}

async fn anchor_goes(steps: &Steps, parent: &str, name: &str) -> Result<()> {
    eventually(&format!("the anchor {name} in {parent} goes"), DELETION, async || {
        match steps.anchors(parent).get_opt(name).await {
            Ok(None) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await
}

/// The API server deletes an anchor without its finalizer, if the deletion read it before the finalizer was set.
#[tokio::test]
async fn an_anchor_that_is_deleted_at_once_leaves_no_namespace() -> Result<()> {
    const ROUNDS: usize = 40;
    let scene = scene().await?;
    let steps = &scene.steps;
    steps.create_namespace("aq-root").await?;
    for round in 0..ROUNDS {
        let child = format!("aq-{round}");
        steps.create_anchor("aq-root", &child).await?;
        steps.anchors("aq-root").delete(&child, &DeleteParams::default()).await?;
    }
    eventually("neither an anchor nor a subnamespace is left", DELETION, async || {
        let anchors = steps.anchors("aq-root").list(&ListParams::default()).await;
        let anchors = anchors.map_err(|error| error.to_string())?.items.len();
        let all = steps.namespaces().list_metadata(&ListParams::default()).await;
        let all = all.map_err(|error| error.to_string())?.items;
        let parent = |it: &&_| {
            ResourceExt::annotations(*it).get(annotations::SUBNAMESPACE_OF).is_some_and(|of| of == "aq-root")
        };
        match (anchors, all.iter().filter(parent).count()) {
            (0, 0) => Ok(()),
            left => Err(format!("{left:?} are left")),
        }
    })
    .await
}

#[tokio::test]
async fn a_forbidden_anchor_is_never_held() -> Result<()> {
    let scene = scene().await?;
    let steps = &scene.steps;
    steps.create_namespace("af-root").await?;
    for name in ["kube-public", "af-team-x"] {
        let status = refusal(steps.create_anchor("af-root", name).await);
        assert_eq!((status.code, status.reason.as_str()), (403, "Forbidden"), "{}", status.message);
        ensure!(status.message.contains(name), "{}", status.message);
        scene.slipped.create_anchor("af-root", name).await?;
        steps.anchor_shows("af-root", name, "Forbidden").await?;
        steps.anchors("af-root").delete(name, &DeleteParams::default()).await?;
        anchor_goes(steps, "af-root", name).await?;
    }
    ensure!(steps.namespaces().get_opt("af-team-x").await?.is_none(), "a namespace was made of it");
    ensure!(steps.namespaces().get("kube-public").await?.metadata.deletion_timestamp.is_none());
    // Beside them, an ordinary one still works.
    steps.subnamespace(&["af-child", "af-root"]).await
}

/// An editor can keep such an anchor for ever.
#[tokio::test]
async fn an_anchor_whose_deletion_waits_keeps_nobody_from_its_name() -> Result<()> {
    let scene = scene().await?;
    let steps = &scene.steps;
    steps.plant(&[("aw-top", ""), ("aw-editor", "aw-top")]).await?;
    steps.subnamespace(&["aw-shop", "aw-editor", "aw-top"]).await?;
    let hold =
        json!({ "metadata": { "finalizers": [finalizers::SUBNAMESPACE_ANCHOR, "structure.test/hold"] } });
    let anchors = steps.anchors("aw-editor");
    anchors.patch("aw-shop", &PatchParams::default(), &Patch::Merge(&hold)).await?;
    anchors.delete("aw-shop", &DeleteParams::default()).await?;
    steps.gone("aw-shop").await?;
    steps.create_namespace("aw-shop").await?;
    // The anchor would have made this a cycle.
    let moved = eventually("aw-top hangs below aw-shop", PATIENCE, async || {
        steps.set_parent("aw-top", "aw-shop").await.map_err(|error| error.to_string())
    });
    moved.await?;
    let seen = anchors.get("aw-shop").await?;
    ensure!(seen.metadata.deletion_timestamp.is_some(), "{seen:?}");
    let release = json!({ "metadata": { "finalizers": null } });
    anchors.patch("aw-shop", &PatchParams::default(), &Patch::Merge(&release)).await?;
    anchor_goes(steps, "aw-editor", "aw-shop").await
}

#[tokio::test]
async fn a_lost_anchor_is_reported_and_may_be_created_again() -> Result<()> {
    let scene = scene().await?;
    let steps = &scene.steps;
    for name in ["al-root", "al-other"] {
        steps.create_namespace(name).await?;
    }
    steps.subnamespace(&["al-child", "al-root"]).await?;
    steps.subnamespace(&["al-grandchild", "al-child", "al-root"]).await?;
    steps.reasons("al-child", &[]).await?;
    let uid = steps.uid("al-child").await?;
    // With something below it nothing is deleted with the anchor, even if the rule that refuses this is passed by.
    scene.slipped.anchors("al-root").delete("al-child", &DeleteParams::default()).await?;
    anchor_goes(steps, "al-root", "al-child").await?;
    let messages = steps.reasons("al-child", &["SubnamespaceAnchorMissing"]).await?;
    ensure!(messages[0].contains("al-root"), "{messages:?}");
    steps.labelled(&["al-grandchild", "al-child", "al-root"]).await?;
    assert_eq!(steps.uid("al-child").await?, uid);

    let status = refusal(steps.create_anchor("al-other", "al-child").await);
    assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"), "{}", status.message);
    steps.create_anchor("al-root", "al-child").await?;
    steps.anchor_shows("al-root", "al-child", "Ok").await?;
    steps.reasons("al-child", &[]).await?;
    assert_eq!(steps.uid("al-child").await?, uid);
    Ok(())
}

#[tokio::test]
async fn a_lost_anchors_condition_goes_with_the_annotation() -> Result<()> {
    let scene = scene().await?;
    let steps = &scene.steps;
    steps.create_namespace("ad-root").await?;
    let child = json!({ "metadata": { "name": "ad-child", "annotations": { annotations::SUBNAMESPACE_OF: "ad-root" } } });
    steps.namespaces().create(&PostParams::default(), &serde_json::from_value(child)?).await?;
    steps.reasons("ad-child", &["SubnamespaceAnchorMissing"]).await?;
    steps.labelled(&["ad-child", "ad-root"]).await?;
    let full = json!({ "metadata": { "annotations": { annotations::SUBNAMESPACE_OF: null } } });
    steps.change_namespace("ad-child", full).await?;
    steps.reasons("ad-child", &[]).await?;
    // It keeps its parent, as a full namespace.
    steps.labelled(&["ad-child", "ad-root"]).await
}

#[tokio::test]
async fn a_leaf_goes_with_its_anchor_and_a_parent_does_not() -> Result<()> {
    let scene = scene().await?;
    let steps = &scene.steps;
    steps.create_namespace("ag-root").await?;
    steps.subnamespace(&["ag-mid", "ag-root"]).await?;
    steps.subnamespace(&["ag-leaf", "ag-mid", "ag-root"]).await?;
    let refused = async |what: &str| {
        let status = refusal(steps.anchors("ag-root").delete("ag-mid", &DeleteParams::default()).await);
        assert_eq!((status.code, status.reason.as_str()), (403, "Forbidden"), "{what}: {}", status.message);
        assert!(status.message.contains("ag-mid"), "{what}: {}", status.message);
        println!("{what}: {}", status.message);
    };
    refused("with a child").await;
    // A user who may write anchors may write any state.
    for forged in ["Missing", "Conflict", "Forbidden", ""] {
        let patch = Patch::Merge(json!({ "status": { "status": forged } }));
        steps.anchors("ag-root").patch("ag-mid", &PatchParams::default(), &patch).await?;
        refused(&format!("with the forged state {forged:?}")).await;
        steps.anchor_shows("ag-root", "ag-mid", "Ok").await?;
    }
    ensure!(steps.namespaces().get("ag-mid").await?.metadata.deletion_timestamp.is_none());

    for (parent, child) in [("ag-mid", "ag-leaf"), ("ag-root", "ag-mid")] {
        eventually(&format!("{child} may go"), PATIENCE, async || {
            let delete = ["delete", "subns", child, "-n", parent, "--wait=false"];
            scene.cluster().kubectl().args(delete).ok().await.map_err(|error| error.to_string())
        })
        .await?;
        steps.gone(child).await?;
        anchor_goes(steps, parent, child).await?;
    }
    eventually("the root is a lone one again", PATIENCE, async || {
        let (shown, _) = steps.marks("ag-root").await.map_err(|error| error.to_string())?;
        if shown.contains_key(labels::HAS_CHILDREN) { Err(format!("{shown:?}")) } else { Ok(()) }
    })
    .await
}

/// `mal` may edit the child by a binding from above, and so change the anchors there. The controller's writes of these fail
/// meanwhile.
#[tokio::test]
async fn who_keeps_changing_anchors_keeps_no_right() -> Result<()> {
    let scene = scene().await?;
    let steps = &scene.steps;
    steps.plant(&[("aw-root", ""), ("aw-child", "aw-root")]).await?;
    let subjects = |users: &[&str]| {
        let subject =
            |user: &&str| json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user });
        json!({ "subjects": users.iter().map(subject).collect::<Vec<_>>() })
    };
    steps.create_binding("aw-root", "editors", ("ClusterRole", "edit"), "mal").await?;
    let (params, both) = (PatchParams::default(), subjects(&["mal", "bob"]));
    steps.bindings("aw-root").patch("editors", &params, &Patch::Merge(both)).await?;
    steps.binding_arrives(&["aw-child"], "editors", "aw-root", "mal").await?;
    let mal = Steps::of(scene.cluster().client_as("mal", &[]));
    let anchors = mal.anchors("aw-child");
    let names = ["aw-one", "aw-two", "aw-three"];
    for name in names {
        eventually("mal may create anchors", PATIENCE, async || {
            let created = mal.create_anchor("aw-child", name).await;
            created.map(drop).map_err(|error| error.to_string())
        })
        .await?;
    }
    let flood = async |name: &str| -> Result<()> {
        for number in 0_u64.. {
            let state = Patch::Merge(json!({ "status": { "status": format!("x{number}") } }));
            let patched = anchors.patch(name, &PatchParams::default(), &state).await;
            if matches!(patched, Err(kube::Error::Api(status)) if status.code == 403) {
                break;
            }
        }
        Ok(())
    };
    let withdrawal = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        steps.bindings("aw-root").patch("editors", &params, &Patch::Merge(subjects(&["bob"]))).await?;
        Ok(())
    };
    let all = async { tokio::try_join!(flood(names[0]), flood(names[1]), flood(names[2]), withdrawal) };
    tokio::time::timeout(Duration::from_secs(10), all)
        .await
        .context("mal keeps a right that was withdrawn")??;
    Ok(())
}
