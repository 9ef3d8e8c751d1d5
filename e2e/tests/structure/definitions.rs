//! The definitions of `hnc.x-k8s.io` are deleted: no namespace and no copy is deleted with them, and nothing hangs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hns_api::{annotations, finalizers};
use hns_e2e::steps::PATIENCE;
use hns_e2e::{Cluster, Steps, eventually, refusal, stays};
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use super::scene::Structure;
use super::workshop::{Workshop, workshop};

const DEFINITIONS: [&str; 4] = [
    "subnamespaceanchors.hnc.x-k8s.io",
    "hierarchyconfigurations.hnc.x-k8s.io",
    "hncconfigurations.hnc.x-k8s.io",
    "hierarchicalresourcequotas.hnc.x-k8s.io",
];

/// Another finalizer, which delays the deletion of a definition for as long as a test needs.
const HOLD: &str = "structure.test/hold";

fn manifests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/crd")
}

/// A subnamespace within a subnamespace, and a full namespace, below one root with a role and a binding.
async fn plant(workshop: &Workshop, root: &str) -> Result<[String; 4]> {
    let names = ["", "-sub", "-leaf", "-full"].map(|end| format!("{root}{end}"));
    let [root, sub, leaf, full] = names.each_ref().map(String::as_str);
    let steps = &workshop.steps;
    steps.create_namespace(root).await?;
    steps.subnamespace(&[sub, root]).await?;
    steps.subnamespace(&[leaf, sub, root]).await?;
    steps.plant(&[(full, root)]).await?;
    steps.create_role(root, "reader", (&["get"], "", "pods")).await?;
    steps.create_binding(root, "reader", ("Role", "reader"), "alice").await?;
    steps.binding_arrives(&[sub, leaf, full], "reader", root, "alice").await?;
    Ok(names)
}

/// The uids of namespaces and of the copies in them. Fails while one of the namespaces is going.
async fn identities(steps: &Steps, names: &[String]) -> Result<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    for name in names {
        let namespace = steps.namespaces().get(name).await?;
        ensure!(namespace.metadata.deletion_timestamp.is_none(), "{name} is going");
        let role = steps.roles(name).get("reader").await?.metadata.uid;
        let binding = steps.bindings(name).get("reader").await?.metadata.uid;
        for (what, uid) in [("namespace", namespace.metadata.uid), ("role", role), ("binding", binding)] {
            found.insert(format!("{what} {name}"), uid.context("no uid")?);
        }
    }
    Ok(found)
}

async fn delete_definitions(cluster: &Cluster, names: &[&str]) -> Result<()> {
    let delete = ["delete", "crd", "--wait=false", "--ignore-not-found"];
    cluster.kubectl().args(delete).args(names).ok().await.map(drop)
}

async fn definitions_are_gone(cluster: &Cluster, names: &[&str]) -> Result<()> {
    eventually(&format!("{names:?} are gone"), Duration::from_secs(60), async || {
        let left = cluster.kubectl().args(["get", "crd", "-o", "name", "--ignore-not-found"]).args(names);
        let left = left.ok().await.map_err(|error| error.to_string())?;
        if left.trim().is_empty() { Ok(()) } else { Err(left) }
    })
    .await
}

async fn apply_definitions(cluster: &Cluster) -> Result<()> {
    let manifests = manifests();
    let manifests = manifests.to_string_lossy();
    cluster.kubectl().args(["apply", "--server-side", "--force-conflicts", "-f", &*manifests]).ok().await?;
    let definitions = ["crd"].into_iter().chain(DEFINITIONS);
    cluster.kubectl().established(definitions).await.map(drop)
}

#[tokio::test]
async fn nothing_goes_with_the_definitions_and_it_works_again_afterwards() -> Result<()> {
    let workshop = workshop().await?;
    let running = workshop.run(&[]).await?;
    let steps = &workshop.steps;
    let names = plant(&workshop, "df").await?;
    let before = identities(steps, &names).await?;
    let undisturbed = async || {
        let seen = identities(steps, &names).await.map_err(|error| format!("{error:#}"))?;
        if seen == before { Ok(()) } else { Err(format!("{seen:?} instead of {before:?}")) }
    };

    // The first one is deleted slowly: an anchor has a finalizer.
    let hold = Patch::Merge(json!({ "metadata": { "finalizers": [finalizers::SUBNAMESPACE_ANCHOR, HOLD] } }));
    steps.anchors("df").patch("df-sub", &PatchParams::default(), &hold).await?;
    delete_definitions(workshop.cluster, &DEFINITIONS[..1]).await?;
    for name in &names {
        eventually(&format!("{name} says that the definitions are going"), PATIENCE, async || {
            let seen = steps.conditions(name).await.map_err(|error| error.to_string())?;
            let halted = |(kind, reason, _): &(String, String, String)| {
                kind == "ActivitiesHalted" && reason == "DeletingCRD"
            };
            if seen.iter().any(halted) { Ok(()) } else { Err(format!("{seen:?}")) }
        })
        .await?;
    }
    let widen =
        Patch::Merge(json!({ "rules": [{ "verbs": ["*"], "apiGroups": [""], "resources": ["pods"] }] }));
    steps.roles("df").patch("reader", &PatchParams::default(), &widen).await?;
    stays("the copies and the namespaces stay as they are", Duration::from_secs(2), async || {
        undisturbed().await?;
        let copy = steps.roles("df-leaf").get("reader").await.map_err(|error| error.to_string())?;
        if copy.rules.iter().flatten().any(|rule| rule.verbs == ["*"]) {
            Err("a copy has been written".into())
        } else {
            Ok(())
        }
    })
    .await?;
    for words in [
        "plan create df-new -n df",
        "plan set df-full --root",
        "plan delete df-leaf -n df-sub",
        "explain role/reader -n df-leaf",
        "create df-new -n df",
    ] {
        let said = workshop.plugin(words).await?;
        let [output, error] = [said.stdout, said.stderr].map(|it| String::from_utf8_lossy(&it).into_owned());
        let says_so = error.contains("Until they are there again, hns changes nothing.");
        ensure!(says_so && output.is_empty() && !said.status.success(), "{words}: {output}{error}");
    }
    let release = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    steps.anchors("df").patch("df-sub", &PatchParams::default(), &release).await?;
    definitions_are_gone(workshop.cluster, &DEFINITIONS[..1]).await?;

    delete_definitions(workshop.cluster, &DEFINITIONS).await?;
    definitions_are_gone(workshop.cluster, &DEFINITIONS).await?;
    stays("with no definitions left everything stays", Duration::from_secs(3), undisturbed).await?;
    ensure!(running.controller.process().exit().is_none() && running.webhook.process().exit().is_none());
    // Namespaces outside any tree are not affected.
    steps.create_namespace("df-outside").await?;
    steps.delete_namespace("df-outside").await?;
    undisturbed().await.map_err(anyhow::Error::msg)?;

    apply_definitions(workshop.cluster).await?;
    works_again(steps).await?;
    let after = identities(steps, &names).await?;
    let kept = |name: &str| {
        after.iter().filter(|(what, _)| what.ends_with(name)).all(|(what, uid)| before.get(what) == Some(uid))
    };
    ensure!(kept(" df") && kept(" df-sub") && kept(" df-leaf"), "{after:?} instead of {before:?}");
    let namespace = format!("namespace {}", names[3]);
    assert_eq!(after.get(&namespace), before.get(&namespace));
    println!("{} namespaces and their copies survived", names.len());
    running.end().await
}

/// Subnamespaces keep their parents in annotations; anchors and the parents of full namespaces must be written again.
async fn works_again(steps: &Steps) -> Result<()> {
    steps.labelled(&["df-sub", "df"]).await?;
    steps.labelled(&["df-leaf", "df-sub", "df"]).await?;
    for (parent, child) in [("df", "df-sub"), ("df-sub", "df-leaf")] {
        let messages = steps.reasons(child, &["SubnamespaceAnchorMissing"]).await?;
        ensure!(messages[0].contains(parent), "{messages:?}");
        eventually(&format!("the anchor {child} can be created again"), PATIENCE, async || {
            steps.create_anchor(parent, child).await.map(drop).map_err(|error| error.to_string())
        })
        .await?;
        steps.anchor_shows(parent, child, "Ok").await?;
        steps.reasons(child, &[]).await?;
    }
    eventually("the full namespace can join again", PATIENCE, async || {
        steps.set_parent("df-full", "df").await.map(drop).map_err(|error| error.to_string())
    })
    .await?;
    steps.labelled(&["df-full", "df"]).await?;
    eventually("what was changed meanwhile is propagated", PATIENCE, async || {
        for name in ["df-sub", "df-leaf", "df-full"] {
            let copy = steps.roles(name).get("reader").await.map_err(|error| error.to_string())?;
            if copy.rules.iter().flatten().all(|rule| rule.verbs != ["*"]) {
                return Err(format!("not in {name}"));
            }
        }
        Ok(())
    })
    .await?;
    steps.binding_arrives(&["df-full"], "reader", "df", "alice").await?;
    steps.subnamespace(&["df-new", "df-leaf", "df-sub", "df"]).await
}

#[tokio::test]
async fn with_both_binaries_dead_finalizers_can_be_taken_away_by_hand() -> Result<()> {
    let workshop = workshop().await?;
    let running = workshop.run(&[]).await?;
    let names = plant(&workshop, "dd").await?;
    let steps = &workshop.steps;
    let before = identities(steps, &names).await?;
    let spec = Patch::Merge(json!({ "spec": { "labels": [{ "key": "a", "value": "b" }] } }));
    // Alive, an answer comes from the rule; dead, none does.
    let status = refusal(steps.anchors("dd").patch("dd-sub", &PatchParams::default(), &spec).await);
    assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"), "{}", status.message);
    running.end().await?;
    let dead = |status: &kube::core::Status| {
        assert_eq!((status.code, status.reason.as_str()), (500, "InternalError"), "{}", status.message);
        assert!(status.message.contains("failed calling webhook"), "{}", status.message);
    };
    dead(&refusal(steps.anchors("dd").patch("dd-sub", &PatchParams::default(), &spec).await));
    dead(&refusal(steps.anchors("dd").delete("dd-sub", &DeleteParams::default()).await));

    delete_definitions(workshop.cluster, &DEFINITIONS).await?;
    let kubectl = async |args: [&str; 5]| {
        let release = ["--type=merge", "-p", r#"{"metadata":{"finalizers":null}}"#];
        workshop.cluster.kubectl().args(["patch"]).args(args).args(release).ok().await
    };
    let held = async || {
        let anchor = steps.anchors("dd").get("dd-sub").await.map_err(|error| error.to_string())?;
        anchor.metadata.deletion_timestamp.map(drop).ok_or_else(|| "the anchor is not going".into())
    };
    eventually("the anchor is going", PATIENCE, held).await?;
    stays("its finalizer holds the definition", Duration::from_secs(1), held).await?;
    for (parent, child) in [("dd", "dd-sub"), ("dd-sub", "dd-leaf")] {
        println!("{}", kubectl(["subnamespaceanchors", child, "-n", parent, "-o=name"]).await?.trim());
        println!(
            "{}",
            kubectl(["hierarchyconfigurations", "hierarchy", "-n", parent, "-o=name"]).await?.trim()
        );
    }
    // Those that other tests of this workshop have left.
    release_all(&workshop).await?;
    definitions_are_gone(workshop.cluster, &DEFINITIONS).await?;
    assert_eq!(identities(steps, &names).await?, before);
    apply_definitions(workshop.cluster).await?;
    let running = workshop.run(&[]).await?;
    steps.labelled(&["dd-leaf", "dd-sub", "dd"]).await?;
    assert_eq!(
        steps.marks("dd-sub").await?.1.get(annotations::SUBNAMESPACE_OF).map(String::as_str),
        Some("dd")
    );
    running.end().await
}

/// As the documentation has it: every finalizer of ours off, by updates that no webhook is asked about.
async fn release_all(workshop: &Workshop) -> Result<()> {
    let kubectl = || workshop.cluster.kubectl();
    for plural in ["subnamespaceanchors", "hierarchyconfigurations"] {
        let template = r#"{range .items[*]}{.metadata.namespace} {.metadata.name}{"\n"}{end}"#;
        let get = kubectl().args([
            "get",
            plural,
            "-A",
            "--ignore-not-found",
            "-o",
            &format!("jsonpath={template}"),
        ]);
        let output = get.run().await?;
        // The definition may have gone with its last object.
        let listed = if output.success() { output.stdout } else { String::new() };
        for (namespace, name) in listed.lines().filter_map(|line| line.split_once(' ')) {
            let patch = ["--type=merge", "-p", r#"{"metadata":{"finalizers":null}}"#];
            kubectl().args(["patch", plural, name, "-n", namespace]).args(patch).run().await?;
        }
    }
    Ok(())
}
