//! How long a restriction, the tree labels and a deletion take while users change the object or the namespace all the time.
//!
//! `cargo xtask test` runs these tests as a suite of their own, while nothing else runs.

use std::time::Duration;

use anyhow::{Result, ensure};
use hns_e2e::steps::PATIENCE;
use hns_e2e::{Steps, eventually};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::scene::Structure;
use super::workshop::{Workshop, workshop};

/// The `managedFields` of a copy are everybody's, and an own object that a restriction replaces is its owner's: each change of them
/// makes a new version.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures times: cargo xtask test --suite structure-speed"]
async fn who_keeps_changing_an_object_does_not_delay_its_restriction() -> Result<()> {
    let workshop = workshop().await?;
    let steps = &workshop.steps;
    let running = workshop.run(&[]).await?;
    let kinds = json!({
        "apiVersion": hns_api::API_VERSION, "kind": "HNCConfiguration", "metadata": { "name": "config" },
        "spec": { "resources": [{ "group": "networking.k8s.io", "resource": "networkpolicies", "mode": "Propagate" }] },
    });
    let apply = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
    workshop.cluster.kubectl().args(apply).stdin(kinds.to_string()).ok().await?;
    steps.plant(&[("rm-root", ""), ("rm-child", "rm-root")]).await?;
    let net = |name: &str, ingress: serde_json::Value| {
        let spec = json!({ "podSelector": {}, "policyTypes": ["Ingress"], "ingress": ingress });
        serde_json::from_value::<NetworkPolicy>(json!({ "metadata": { "name": name }, "spec": spec }))
    };
    let above: Api<NetworkPolicy> = Api::namespaced(steps.client.clone(), "rm-root");
    above.create(&PostParams::default(), &net("net", json!([{}]))?).await?;
    steps.create_binding("rm-child", "edits", ("ClusterRole", "edit"), "ed").await?;
    let here: Api<NetworkPolicy> = Api::namespaced(workshop.cluster.client_as("ed", &[]), "rm-child");
    eventually("ed sees the copy", PATIENCE, async || {
        here.get("net").await.map(drop).map_err(|error| error.to_string())
    })
    .await?;

    let managers = |number: usize, round: u64| {
        let fields = json!([{ "manager": format!("m{number}-{}", round % 2), "operation": "Update",
            "apiVersion": "networking.k8s.io/v1", "fieldsType": "FieldsV1", "fieldsV1": { "f:spec": {} } }]);
        json!({ "metadata": { "managedFields": fields } })
    };
    let patch = Patch::Merge(json!({ "spec": { "ingress": null } }));
    let tighten =
        async { above.patch("net", &PatchParams::default(), &patch).await.map(drop).map_err(Into::into) };
    is_tight_soon(&here, "net", managers, tighten).await?;

    here.create(&PostParams::default(), &net("own", json!([{}]))?).await?;
    let labels = |number: usize, round: u64| json!({ "metadata": { "labels": { format!("example.com/{number}"): round.to_string() } } });
    let tight = net("own", json!(null))?;
    // The webhook refuses a source that would replace an object, so it comes from elsewhere.
    let comes = json!({ "metadata": { "name": "own", "annotations": { "propagate.hnc.x-k8s.io/select": "rm-late" } } });
    let mut selective = tight.clone();
    selective.metadata = serde_json::from_value(comes["metadata"].clone())?;
    above.create(&PostParams::default(), &selective).await?;
    let tighten = steps.change_namespace("rm-child", json!({ "metadata": { "labels": { "rm-late": "1" } } }));
    is_tight_soon(&here, "own", labels, async { tighten.await.map(drop) }).await?;
    running.end().await
}

/// Users change the `NetworkPolicy` of this name all the time while `tighten` runs; soon it admits nothing.
async fn is_tight_soon(
    policies: &Api<NetworkPolicy>,
    name: &str,
    change: impl Fn(usize, u64) -> serde_json::Value + Sync,
    tighten: impl Future<Output = Result<()>>,
) -> Result<()> {
    const WRITERS: usize = 16;
    let is_tight = |policy: &NetworkPolicy| policy.spec.as_ref().is_some_and(|spec| spec.ingress.is_none());
    let keeps_changing = async |number: usize| -> Result<u64> {
        for round in 0.. {
            let patch = Patch::Merge(change(number, round));
            let _ = policies.patch(name, &PatchParams::default(), &patch).await;
            if is_tight(&policies.get(name).await?) {
                return Ok(round);
            }
        }
        Ok(0)
    };
    let tighten = async {
        sleep(Duration::from_secs(1)).await;
        tighten.await?;
        Ok(Instant::now())
    };
    let all = futures::future::try_join_all((0..WRITERS).map(keeps_changing));
    let (since, rounds) = timeout(PATIENCE, futures::future::try_join(tighten, all)).await??;
    let (waited, writes) = (since.elapsed(), rounds.iter().sum::<u64>());
    println!("{name} is tight after {waited:?}, with {writes} writes at the same time");
    ensure!(writes > WRITERS as u64, "nothing was written meanwhile");
    ensure!(waited < Duration::from_secs(2), "{name} was tight after {waited:?} only");
    Ok(())
}

/// Changes a namespace all the time, as somebody who has all rights in it.
async fn churn(workshop: &Workshop, name: &str, tasks: &mut JoinSet<()>) -> Result<()> {
    let role = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": { "name": "everything" }, "rules": [{ "apiGroups": [""], "resources": ["namespaces"], "verbs": ["*"] }] });
    let apply = ["apply", "--server-side", "-f", "-"];
    workshop.cluster.kubectl().args(apply).stdin(role.to_string()).ok().await?;
    workshop.steps.create_binding(name, "own", ("ClusterRole", "everything"), "max").await?;
    let own = Steps::of(workshop.cluster.client_as("max", &[])).namespaces();
    eventually("max may write the namespace", PATIENCE, async || {
        own.get(name).await.map(drop).map_err(|error| error.to_string())
    })
    .await?;
    for writer in 0..8 {
        let (own, name) = (own.clone(), name.to_owned());
        tasks.spawn(async move {
            for round in 0_u64.. {
                let note = json!({ "metadata": { "annotations": { format!("example.com/{writer}"): round.to_string() } } });
                let _ = own.patch(&name, &PatchParams::default(), &Patch::Merge(note)).await;
            }
        });
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures times: cargo xtask test --suite structure-speed"]
async fn who_keeps_changing_a_namespace_delays_neither_its_labels_nor_its_deletion() -> Result<()> {
    const SOON: Duration = Duration::from_secs(3);
    let workshop = workshop().await?;
    let steps = &workshop.steps;
    let running = workshop.run(&[]).await?;
    steps.plant(&[("ch-one", ""), ("ch-two", ""), ("ch-full", "ch-one")]).await?;
    steps.create_anchor("ch-one", "ch-sub").await?;
    steps.labelled(&["ch-sub", "ch-one"]).await?;
    let mut tasks = JoinSet::new();
    churn(&workshop, "ch-full", &mut tasks).await?;
    steps.set_parent("ch-full", "ch-two").await?;
    let began = Instant::now();
    steps.labelled(&["ch-full", "ch-two"]).await?;
    println!("the tree labels are right after {:?}", began.elapsed());
    ensure!(began.elapsed() < SOON, "the tree labels are right after {:?} only", began.elapsed());
    tasks.shutdown().await;

    churn(&workshop, "ch-sub", &mut tasks).await?;
    steps.anchors("ch-one").delete("ch-sub", &DeleteParams::default()).await?;
    let began = Instant::now();
    eventually("ch-sub is being deleted", PATIENCE, async || {
        match steps.namespaces().get_opt("ch-sub").await {
            Ok(Some(seen)) if seen.metadata.deletion_timestamp.is_none() => Err("it is not".to_owned()),
            Ok(_) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    })
    .await?;
    println!("the deletion begins after {:?}", began.elapsed());
    ensure!(began.elapsed() < SOON, "the deletion begins after {:?} only", began.elapsed());
    tasks.shutdown().await;
    running.end().await
}
