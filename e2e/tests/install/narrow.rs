//! An installation that may not hand out rights: `rbac.escalate=false`. What it still copies, and what it says of the rest.

use std::time::Instant;

use anyhow::{Result, ensure};
use hns_e2e::{Cluster, Deployed, Steps, eventually};

use super::helm::{Helm, checkout};
use super::works::{PATIENCE, collected, turn};

const RELEASE: &str = "narrow";
const NAMESPACE: &str = "narrow-system";
const ROOT: &str = "narrow";
const CHILD: &str = "narrow-child";

#[tokio::test]
async fn without_escalate_only_bindings_to_listed_roles_are_copied_and_the_rest_is_said() -> Result<()> {
    let (_turn, cluster) = turn().await;
    let helm = Helm::on(cluster).await;
    let port = Deployed::free_port()?;
    let values = format!("webhook.servicePort={port},rbac.escalate=false,rbac.bindableClusterRoles={{view}}");
    let install = ["install", RELEASE, "charts/hns", "-n", NAMESPACE, "--create-namespace", "--set", &values];
    helm.ok(&install).await?;
    let mut deployed = Deployed::new(cluster, NAMESPACE, port)?;
    deployed.follow().await?;
    deployed.wait_ready().await?;
    let steps = Steps::of(cluster.admin());
    planted(&steps).await?;

    let began = Instant::now();
    steps.create_role(ROOT, "reader", (&["get"], "", "pods")).await?;
    steps.create_binding(ROOT, "unlisted", ("ClusterRole", "edit"), "alice").await?;
    steps.create_binding(ROOT, "listed", ("ClusterRole", "view"), "alice").await?;
    steps.binding_arrives(&[CHILD], "listed", ROOT, "alice").await?;
    let said = eventually("what could not be copied is said", PATIENCE, async || {
        let conditions = steps.conditions(CHILD).await.map_err(|error| error.to_string())?;
        let said: Vec<_> =
            conditions.iter().filter(|(_, reason, _)| reason == "CannotPropagateObject").collect();
        let names = |name: &str| said.iter().any(|(_, _, message)| message.contains(name));
        let all = ["unlisted", "reader", "forbidden"].into_iter().all(names);
        if all { Ok(format!("{said:?}")) } else { Err(format!("{conditions:?}")) }
    })
    .await?;
    println!("  after {:.1} s: {said}", began.elapsed().as_secs_f32());
    ensure!(steps.bindings(CHILD).get_opt("unlisted").await?.is_none(), "a right was handed out");
    ensure!(steps.roles(CHILD).get_opt("reader").await?.is_none(), "a role was made");
    clear(cluster, &helm, &mut deployed, &steps).await
}

/// The API server takes up new registrations a moment after they were written.
async fn planted(steps: &Steps) -> Result<()> {
    let taken = |error: &kube::Error| matches!(error, kube::Error::Api(status) if status.code == 409);
    for name in [ROOT, CHILD] {
        eventually(&format!("{name} can be created"), PATIENCE, async || {
            match steps.create_namespace(name).await {
                Err(error) if !taken(&error) => Err(error.to_string()),
                _ => Ok(()),
            }
        })
        .await?;
    }
    eventually(&format!("{CHILD} can be moved"), PATIENCE, async || {
        steps.set_parent(CHILD, ROOT).await.map(drop).map_err(|error| error.to_string())
    })
    .await?;
    steps.labelled(&[CHILD, ROOT]).await
}

/// Leaves nothing to whoever is next.
async fn clear(cluster: &Cluster, helm: &Helm, deployed: &mut Deployed<'_>, steps: &Steps) -> Result<()> {
    let definitions = checkout().join("config/crds.yaml");
    let delete = cluster.kubectl().args(["delete", "--wait", "--timeout=120s", "-f"]).args([definitions]);
    delete.ok().await?;
    helm.ok(&["uninstall", RELEASE, "-n", NAMESPACE, "--no-hooks"]).await?;
    collected(cluster).await;
    deployed.follow().await?;
    for name in [ROOT, CHILD, NAMESPACE] {
        steps.delete_namespace(name).await?;
    }
    Ok(())
}
