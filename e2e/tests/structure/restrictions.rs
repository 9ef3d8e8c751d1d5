//! A user who gains rights in a namespace finds its restrictions in force: no pod is admitted beyond an inherited quota, and
//! bindings wait until a quota is in force.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use hns_e2e::steps::{PATIENCE, binding};
use hns_e2e::{Signal, Steps, eventually, stays};
use k8s_openapi::api::core::v1::{Pod, ResourceQuota};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use super::scene::Structure;
use super::workshop::{Running, Workshop, workshop};

const MANAGED: &str = "--managed-namespace-label=structure.test/.*";
const ENFORCE: &str = "structure.test/enforce";

/// A root with restrictions, in which `ed` has the role `edit`.
async fn restricted(workshop: &Workshop, root: &str) -> Result<Running> {
    let steps = &workshop.steps;
    let running = workshop.run(&["--initial-admin", MANAGED]).await?;
    let kinds = json!({
        "apiVersion": hns_api::API_VERSION, "kind": "HNCConfiguration", "metadata": { "name": "config" },
        "spec": { "resources": [
            { "resource": "resourcequotas", "mode": "Propagate" }, { "resource": "limitranges", "mode": "Propagate" },
        ] },
    });
    let apply = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
    workshop.cluster.kubectl().args(apply).stdin(kinds.to_string()).ok().await?;
    steps.create_namespace(root).await?;
    steps.configure(root, json!({ "labels": [{ "key": ENFORCE, "value": "restricted" }] })).await?;
    for (name, hard) in [("size", json!({ "pods": "0" })), ("maps", json!({ "count/configmaps": "50" }))] {
        let quota = json!({ "metadata": { "name": name }, "spec": { "hard": hard } });
        quotas(steps, root).create(&PostParams::default(), &serde_json::from_value(quota)?).await?;
    }
    let bind = ["create", "rolebinding", "edits", "-n", root, "--clusterrole=edit", "--user=ed"];
    workshop.cluster.kubectl().args(bind).ok().await?;
    Ok(running)
}

fn quotas(steps: &Steps, namespace: &str) -> Api<ResourceQuota> {
    Api::namespaced(steps.client.clone(), namespace)
}

#[tokio::test]
async fn the_creator_of_a_subnamespace_cannot_run_ahead_of_its_quota() -> Result<()> {
    const ROUNDS: usize = 6;
    let workshop = workshop().await?;
    let running = restricted(&workshop, "rq-root").await?;
    let ed = Steps::of(workshop.cluster.client_as("ed", &[]));
    let mut refusals = 0;
    for round in 0..ROUNDS {
        let child = format!("rq-child-{round}");
        eventually("ed asks for a subnamespace", PATIENCE, async || {
            ed.create_anchor("rq-root", &child).await.map(drop).map_err(|error| error.to_string())
        })
        .await?;
        refusals += runs_into_the_quota(&workshop, &ed, &child).await?;
        let (labels, _) = workshop.steps.marks(&child).await?;
        ensure!(labels.get(ENFORCE).is_some_and(|it| it == "restricted"), "{child}: {labels:?}");
    }
    println!("{refusals} attempts in {ROUNDS} subnamespaces; every one was refused");
    running.end().await
}

/// Creates pods as fast as it goes until the quota refuses one; says how often that was tried.
async fn runs_into_the_quota(workshop: &Workshop, ed: &Steps, child: &str) -> Result<usize> {
    let pods: Api<Pod> = Api::namespaced(ed.client.clone(), child);
    let pod: Pod = serde_json::from_value(json!({
        "metadata": { "generateName": "quick-" },
        "spec": {
            "hostPID": true,
            "containers": [{ "name": "x", "image": "x" }],
            "volumes": [{ "name": "x", "hostPath": { "path": "/" } }],
        },
    }))?;
    let refused = async {
        for attempt in 1.. {
            match pods.create(&PostParams::default(), &pod).await {
                Ok(_) => {
                    bail!("{child}: a pod with hostPath was admitted at attempt {attempt}, past a quota of 0")
                }
                Err(kube::Error::Api(status)) if status.message.contains("exceeded quota: size") => {
                    return Ok(attempt);
                }
                // Not there yet, or no rights there yet.
                Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => {}
                Err(error) => bail!("{child}: {error}"),
            }
        }
        Ok(0)
    };
    if let Ok(refused) = timeout(PATIENCE, refused).await {
        return refused;
    }
    let quota = quotas(&workshop.steps, child).get("size").await;
    bail!("{child}: ed gets no rights in {PATIENCE:?}; {quota:?}")
}

/// The control plane that puts quotas in force is frozen for a while.
#[tokio::test]
async fn bindings_wait_for_a_quota_and_the_namespace_says_so() -> Result<()> {
    const HELD: &str = "QuotaNotInForce";
    let workshop = workshop().await?;
    let steps = &workshop.steps;
    let running = restricted(&workshop, "rw-root").await?;
    steps.create_namespace("rw-child").await?;
    let manager = workshop.cluster.controller_manager();
    manager.signal(Signal::STOP)?;
    let held = async {
        steps.set_parent("rw-child", "rw-root").await?;
        eventually("the quota is there", PATIENCE, async || {
            quotas(steps, "rw-child").get("size").await.map(drop).map_err(|error| error.to_string())
        })
        .await?;
        let since = Instant::now();
        let absent = async || {
            let found =
                steps.bindings("rw-child").get_opt("edits").await.map_err(|error| error.to_string())?;
            if found.is_some() { Err("the binding is there".to_owned()) } else { Ok(()) }
        };
        stays("the binding waits, and nothing is said yet", Duration::from_secs(3), async || {
            let shown = steps.conditions("rw-child").await.map_err(|error| error.to_string())?;
            if shown.is_empty() { absent().await } else { Err(format!("{shown:?}")) }
        })
        .await?;
        let messages = steps.reasons("rw-child", &[HELD]).await?;
        let waited = since.elapsed();
        ensure!(waited > Duration::from_secs(4), "said after {waited:?}");
        for what in ["\"size\"", "\"maps\"", "resourcequota controller"] {
            ensure!(messages[0].contains(what), "{messages:?}");
        }
        println!("after {waited:?}: {}", messages[0]);
        // Nothing that follows makes the binding come before the quota is in force: not another binding, not a restart.
        let late = binding("late", ("ClusterRole", "view"), "vera");
        steps.bindings("rw-root").create(&PostParams::default(), &late).await?;
        sleep(Duration::from_millis(500)).await;
        absent().await.map_err(anyhow::Error::msg)?;
        ensure!(steps.bindings("rw-child").get_opt("late").await?.is_none(), "the late binding is there");
        anyhow::Ok(())
    };
    let held = held.await;
    manager.signal(Signal::CONT)?;
    held.context("while the control plane was frozen")?;
    steps.binding_arrives(&["rw-child"], "edits", "rw-root", "ed").await?;
    steps.binding_arrives(&["rw-child"], "late", "rw-root", "vera").await?;
    steps.reasons("rw-child", &[]).await?;
    running.end().await
}

/// Neither a finalizer on an own quota that cannot be changed in place keeps the inherited one away, nor does a restriction that
/// cannot be written keep withdrawn access in force.
#[tokio::test]
async fn a_restriction_is_neither_kept_out_nor_a_reason_to_keep_access() -> Result<()> {
    let workshop = workshop().await?;
    let steps = &workshop.steps;
    let running = restricted(&workshop, "rk-root").await?;
    steps.plant(&[("rk-child", "rk-root")]).await?;
    let patch = |text: serde_json::Value| Patch::Merge(text);
    let create = async |namespace: &str, quota: serde_json::Value| -> Result<ResourceQuota> {
        Ok(quotas(steps, namespace).create(&PostParams::default(), &serde_json::from_value(quota)?).await?)
    };

    let own = json!({
        "metadata": { "name": "late", "finalizers": ["example.com/keep"] },
        "spec": { "hard": { "pods": "1000" }, "scopes": ["BestEffort"] },
    });
    create("rk-child", own).await?;
    let select = json!({ "propagate.hnc.x-k8s.io/select": "structure.test/env=prod" });
    let late =
        json!({ "metadata": { "name": "late", "annotations": select }, "spec": { "hard": { "pods": "1" } } });
    create("rk-root", late).await?;
    steps
        .change_namespace("rk-child", json!({ "metadata": { "labels": { "structure.test/env": "prod" } } }))
        .await?;
    eventually("the inherited quota replaces the own one", PATIENCE, async || {
        let found = quotas(steps, "rk-child").get("late").await.map_err(|error| error.to_string())?;
        let spec = found.spec.clone().unwrap_or_default();
        if spec.scopes.is_none() && found.metadata.finalizers.is_none() {
            Ok(())
        } else {
            Err(format!("{found:?}"))
        }
    })
    .await?;

    let mut pair = binding("pair", ("ClusterRole", "view"), "rk-mallory");
    let bob = binding("pair", ("ClusterRole", "view"), "rk-bob").subjects.unwrap_or_default();
    pair.subjects.get_or_insert_default().extend(bob.clone());
    steps.bindings("rk-root").create(&PostParams::default(), &pair).await?;
    let subjects = async || -> Result<Vec<String>, String> {
        let found = steps.bindings("rk-child").get_opt("pair").await.map_err(|error| error.to_string())?;
        let subjects = found.and_then(|it| it.subjects).unwrap_or_default();
        Ok(subjects.into_iter().map(|subject| subject.name).collect())
    };
    let shows = async |what: &str, wanted: &[&str]| {
        eventually(what, PATIENCE, async || match subjects().await? {
            seen if seen == wanted => Ok(()),
            seen => Err(format!("{seen:?}")),
        })
        .await
    };
    shows("the binding arrives", &["rk-mallory", "rk-bob"]).await?;
    limit_range_is_refused(&workshop, "rk-child", "rk-root").await?;
    let withdrawn = patch(json!({ "subjects": bob }));
    steps.bindings("rk-root").patch("pair", &PatchParams::default(), &withdrawn).await?;
    shows("the old access is withdrawn", &[]).await?;
    quotas(steps, "rk-child").delete("none", &DeleteParams::default()).await?;
    let poke = patch(json!({ "metadata": { "labels": { "structure.test/poke": "1" } } }));
    steps.bindings("rk-root").patch("pair", &PatchParams::default(), &poke).await?;
    shows("the new access comes with the restriction", &["rk-bob"]).await?;
    running.end().await
}

/// The scopes of a `ResourceQuota` cannot be changed, so its copy must be created again.
#[tokio::test]
async fn a_quota_with_other_scopes_follows_its_new_source() -> Result<()> {
    let workshop = workshop().await?;
    let steps = &workshop.steps;
    let running = restricted(&workshop, "rs-root").await?;
    steps.plant(&[("rs-other", ""), ("rs-child", "rs-other")]).await?;
    let loose = json!({ "metadata": { "name": "size" }, "spec": { "hard": { "pods": "100" }, "scopes": ["BestEffort"] } });
    quotas(steps, "rs-other").create(&PostParams::default(), &serde_json::from_value(loose)?).await?;
    let is_scoped = async || {
        let found = quotas(steps, "rs-child").get("size").await.map_err(|error| error.to_string())?;
        Ok::<_, String>(found.spec.unwrap_or_default().scopes.is_some())
    };
    let shows = async |what: &str, wanted: bool| {
        eventually(what, PATIENCE, async || match is_scoped().await? {
            seen if seen == wanted => Ok(()),
            seen => Err(format!("scoped: {seen}")),
        })
        .await
    };
    shows("the loose quota arrives", true).await?;
    steps.set_parent("rs-child", "rs-root").await?;
    shows("the quota of the new tree replaces it", false).await?;
    steps.binding_arrives(&["rs-child"], "edits", "rs-root", "ed").await?;
    steps.reasons("rs-child", &[]).await?;
    running.end().await
}

/// Creates a `LimitRange` in `source` that an own quota keeps out of the namespace `child`.
async fn limit_range_is_refused(workshop: &Workshop, child: &str, source: &str) -> Result<()> {
    let steps = &workshop.steps;
    let none = json!({ "metadata": { "name": "none" }, "spec": { "hard": { "count/limitranges": "0" } } });
    quotas(steps, child).create(&PostParams::default(), &serde_json::from_value(none)?).await?;
    eventually("the own quota is in force", PATIENCE, async || {
        let found = quotas(steps, child).get("none").await.map_err(|error| error.to_string())?;
        found.status.and_then(|it| it.hard).map(drop).ok_or_else(|| "no status".to_owned())
    })
    .await?;
    let range = json!({
        "apiVersion": "v1", "kind": "LimitRange", "metadata": { "name": "range", "namespace": source },
        "spec": { "limits": [{ "type": "Container", "max": { "cpu": "1" } }] },
    });
    workshop.cluster.kubectl().args(["create", "-f", "-"]).stdin(range.to_string()).ok().await?;
    steps.reasons(child, &["CannotPropagateObject"]).await.map(drop)
}

/// What an editor in the middle of a tree asks for cannot be written below. That holds back rights from there, and nothing from
/// further up.
#[tokio::test]
async fn a_restriction_that_is_refused_keeps_out_nothing_from_further_up() -> Result<()> {
    let workshop = workshop().await?;
    let steps = &workshop.steps;
    let running = restricted(&workshop, "rf-root").await?;
    steps.plant(&[("rf-mid", "rf-root"), ("rf-child", "rf-mid")]).await?;
    steps.binding_arrives(&["rf-mid", "rf-child"], "edits", "rf-root", "ed").await?;
    limit_range_is_refused(&workshop, "rf-child", "rf-mid").await?;

    steps.create_binding("rf-mid", "below", ("ClusterRole", "view"), "rf-bob").await?;
    steps.create_binding("rf-root", "late", ("ClusterRole", "view"), "rf-vera").await?;
    let subjects = binding("edits", ("ClusterRole", "edit"), "rf-eve").subjects;
    let change = Patch::Merge(json!({ "subjects": subjects }));
    steps.bindings("rf-root").patch("edits", &PatchParams::default(), &change).await?;
    steps.configure("rf-root", json!({ "labels": [{ "key": ENFORCE, "value": "baseline" }] })).await?;
    steps.binding_arrives(&["rf-child"], "late", "rf-root", "rf-vera").await?;
    steps.binding_arrives(&["rf-child"], "edits", "rf-root", "rf-eve").await?;
    eventually("the label of the root arrives", PATIENCE, async || {
        let (labels, _) = steps.marks("rf-child").await.map_err(|error| format!("{error:#}"))?;
        if labels.get(ENFORCE).is_some_and(|it| it == "baseline") {
            Ok(())
        } else {
            Err(format!("{labels:?}"))
        }
    })
    .await?;
    ensure!(
        steps.bindings("rf-child").get_opt("below").await?.is_none(),
        "the binding from rf-mid did not wait"
    );

    quotas(steps, "rf-child").delete("none", &DeleteParams::default()).await?;
    steps.binding_arrives(&["rf-child"], "below", "rf-mid", "rf-bob").await?;
    steps.reasons("rf-child", &[]).await?;
    running.end().await
}
