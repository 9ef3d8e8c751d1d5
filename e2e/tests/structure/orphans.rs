//! What becomes of namespaces whose parent is deleted: which copies go, which stay and are frozen, and how soon it is said.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt};
use hns_api::HierarchyConfiguration;
use hns_e2e::steps::PATIENCE;
use hns_e2e::{Steps, eventually, stays};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, WatchEvent, WatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::sync::mpsc;

use super::scene::{DELETION, scene, scene_alone};

#[tokio::test]
async fn copies_from_the_deleted_parent_go_and_copies_from_above_are_frozen() -> Result<()> {
    let scene = scene().await?;
    let steps = &scene.steps;
    steps
        .plant(&[("or-top", ""), ("or-mid", "or-top"), ("or-leaf", "or-mid"), ("or-below", "or-leaf")])
        .await?;
    for (namespace, role) in [
        ("or-top", "kept"),
        ("or-top", "changed"),
        ("or-top", "dropped"),
        ("or-mid", "lost"),
        ("or-leaf", "own"),
    ] {
        steps.create_role(namespace, role, (&["get"], "", "pods")).await?;
        steps.create_binding(namespace, role, ("Role", role), "alice").await?;
    }
    roles_are(steps, "or-below", &["changed", "dropped", "kept", "lost", "own"]).await?;
    roles_are(steps, "or-leaf", &["changed", "dropped", "kept", "lost", "own"]).await?;

    steps.delete_namespace("or-mid").await?;
    let messages = steps.reasons("or-leaf", &["ParentMissing"]).await?;
    ensure!(messages[0].contains("or-mid"), "{messages:?}");
    steps.reasons("or-below", &["AncestorHaltActivities"]).await?;
    let left = ["changed", "dropped", "kept", "own"];
    for name in ["or-leaf", "or-below"] {
        roles_are(steps, name, &left).await?;
        steps.binding_leaves(&[name], "lost").await?;
    }
    // What happens above or within passes them by.
    let rules = json!({ "rules": [{ "verbs": ["list"], "apiGroups": [""], "resources": ["pods"] }] });
    for (namespace, role) in [("or-top", "changed"), ("or-leaf", "own")] {
        steps.roles(namespace).patch(role, &PatchParams::default(), &Patch::Merge(&rules)).await?;
    }
    steps.roles("or-top").delete("dropped", &DeleteParams::default()).await?;
    steps.create_role("or-top", "added", (&["get"], "", "pods")).await?;
    stays("the copies are frozen", Duration::from_secs(2), async || {
        let seen = role_names(steps, "or-below").await.map_err(|error| error.to_string())?;
        if seen != left {
            return Err(format!("{seen:?}"));
        }
        for role in ["changed", "own"] {
            let copy = steps.roles("or-below").get(role).await.map_err(|error| error.to_string())?;
            if copy.rules.iter().flatten().any(|rule| rule.verbs != ["get"]) {
                return Err(format!("{role} has followed its source"));
            }
        }
        Ok(())
    })
    .await?;
    // With its parent back where it was, everything thaws.
    steps.plant(&[("or-mid", "or-top")]).await?;
    steps.reasons("or-below", &[]).await?;
    roles_are(steps, "or-below", &["added", "changed", "kept", "own"]).await?;
    eventually("the copies follow their sources again", PATIENCE, async || {
        for role in ["changed", "own"] {
            let copy = steps.roles("or-below").get(role).await.map_err(|error| error.to_string())?;
            if copy.rules.iter().flatten().any(|rule| rule.verbs != ["list"]) {
                return Err(format!("{role} has not"));
            }
        }
        Ok(())
    })
    .await
}

async fn role_names(steps: &Steps, namespace: &str) -> Result<Vec<String>> {
    let roles = steps.roles(namespace).list(&ListParams::default()).await?.items;
    Ok(roles.iter().map(ResourceExt::name_any).collect())
}

async fn roles_are(steps: &Steps, namespace: &str, wanted: &[&str]) -> Result<()> {
    eventually(&format!("the roles in {namespace} are {wanted:?}"), PATIENCE, async || {
        let seen = role_names(steps, namespace).await.map_err(|error| error.to_string())?;
        if seen == wanted { Ok(()) } else { Err(format!("{seen:?}")) }
    })
    .await
}

/// So many parents are deleted.
const PARENTS: usize = 50;
/// So many at a time.
const AT_A_TIME: usize = 10;
/// Within this time of the parent's end its child must say so.
const SOON: Duration = Duration::from_millis(500);

/// What an onlooker sees, and when.
#[derive(Debug)]
enum Seen {
    Gone(String, Instant),
    Orphaned(String, Instant),
}

#[tokio::test]
async fn an_orphan_says_so_within_half_a_second() -> Result<()> {
    let scene = scene_alone().await?;
    let steps = &scene.steps;
    let pairs: Vec<(String, String)> = (0..PARENTS)
        .map(|number| (format!("fast-parent-{number}"), format!("fast-child-{number}")))
        .collect();
    for (parent, child) in &pairs {
        steps.plant(&[(parent, ""), (child, parent)]).await?;
    }
    for (parent, child) in &pairs {
        steps.labelled(&[child, parent]).await?;
    }
    let (sender, mut seen) = mpsc::unbounded_channel();
    watch_namespaces(steps, sender.clone()).await?;
    watch_hierarchies(steps, sender).await?;

    let mut gone = BTreeMap::new();
    let mut orphaned = BTreeMap::new();
    for batch in pairs.chunks(AT_A_TIME) {
        for (parent, _) in batch {
            steps.namespaces().delete(parent, &DeleteParams::default()).await?;
        }
        let expected = gone.len() + batch.len();
        while gone.len() < expected || orphaned.len() < expected {
            let next = tokio::time::timeout(DELETION, seen.recv()).await;
            match next.with_context(|| format!("{} gone, {} orphaned", gone.len(), orphaned.len()))? {
                Some(Seen::Gone(name, at)) => drop(gone.insert(name, at)),
                Some(Seen::Orphaned(name, at)) => drop(orphaned.entry(name).or_insert(at)),
                None => anyhow::bail!("the watches have ended"),
            }
        }
    }
    let mut delays = Vec::new();
    for (parent, child) in &pairs {
        let since = gone.get(parent).with_context(|| format!("{parent} was not seen going"))?;
        let until = orphaned.get(child).with_context(|| format!("{child} never said so"))?;
        // The two watches are two connections: the later event may be read first.
        delays.push(until.saturating_duration_since(*since));
    }
    delays.sort();
    // The nearest rank: of fifty, the 99th percentile is the last.
    let rank = (PARENTS * 99).div_ceil(100) - 1;
    let (median, p99) = (delays[PARENTS / 2], delays[rank]);
    println!("ParentMissing after the DELETED event: median {median:?}, p99 of {PARENTS} {p99:?}");
    ensure!(p99 <= SOON, "p99 {p99:?} is more than {SOON:?}: {delays:?}");
    let all = pairs.into_iter().map(|(_, child)| child).collect::<Vec<_>>();
    for name in &all {
        steps.namespaces().delete(name, &DeleteParams::default()).await?;
    }
    Ok(())
}

async fn watch_namespaces(steps: &Steps, sender: mpsc::UnboundedSender<Seen>) -> Result<()> {
    let api = steps.namespaces();
    let version =
        api.list_metadata(&ListParams::default()).await?.metadata.resource_version.unwrap_or_default();
    let mut events = api.watch(&WatchParams::default(), &version).await?.boxed();
    tokio::spawn(async move {
        while let Ok(Some(event)) = events.try_next().await {
            if let WatchEvent::Deleted(namespace) = event {
                let namespace: Namespace = namespace;
                let _ = sender.send(Seen::Gone(namespace.name_any(), Instant::now()));
            }
        }
    });
    Ok(())
}

async fn watch_hierarchies(steps: &Steps, sender: mpsc::UnboundedSender<Seen>) -> Result<()> {
    let api: Api<HierarchyConfiguration> = Api::all(steps.client.clone());
    let version =
        api.list_metadata(&ListParams::default()).await?.metadata.resource_version.unwrap_or_default();
    let mut events = api.watch(&WatchParams::default(), &version).await?.boxed();
    tokio::spawn(async move {
        while let Ok(Some(event)) = events.try_next().await {
            let (WatchEvent::Added(hierarchy) | WatchEvent::Modified(hierarchy)) = event else { continue };
            let conditions = hierarchy.status.iter().flat_map(|status| &status.conditions);
            if conditions.into_iter().any(|condition| condition.reason == "ParentMissing") {
                let _ =
                    sender.send(Seen::Orphaned(hierarchy.namespace().unwrap_or_default(), Instant::now()));
            }
        }
    });
    Ok(())
}
