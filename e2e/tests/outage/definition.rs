//! The definition of `HierarchyConfigurations` comes after the binaries.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hns_api::HierarchyConfiguration;
use hns_e2e::product::CONTROLLER_USER;
use hns_e2e::steps::PATIENCE;
use hns_e2e::{Options, eventually, stays};
use kube::Api;
use kube::api::ListParams;

use super::fixture::turn;

const DEFINITION: &str = "hierarchyconfigurations.hnc.x-k8s.io";

/// The longest pause between two attempts is two seconds; the rest is for a busy machine.
const NOTICED: Duration = Duration::from_secs(3);

#[tokio::test]
async fn without_the_definition_both_wait_and_say_why_and_go_on_when_it_appears() -> Result<()> {
    let turn = turn().await;
    let kubectl = || turn.cluster().kubectl();
    kubectl().args(["delete", "customresourcedefinition", DEFINITION]).ok().await?;
    let both = turn.launch().await?;
    for line in both.shows(false, "[-]hierarchyconfigurations not ready: 404 page not found").await? {
        println!("{line}");
    }
    let steps = &turn.steps;
    steps.create_namespace("d-root").await?;
    steps.create_namespace("d-leaf").await?;
    let mark = turn.cluster().audit().mark()?;
    stays("no namespace is written while the tree is not known", Duration::from_secs(2), async || {
        let written = turn.cluster().audit().mutating_by(CONTROLLER_USER, mark);
        let mut written = written.map_err(|error| error.to_string())?.into_iter();
        written.find(|it| it.resource == "namespaces").map_or(Ok(()), |it| Err(format!("{it:?}")))
    })
    .await?;

    let file =
        Options::default().manifests.with_file_name("crd").join("hnc.x-k8s.io_hierarchyconfigurations.yaml");
    let file = file.to_str().context("a path in UTF-8")?.to_owned();
    kubectl().args(["apply", "--server-side", "-f", &file]).ok().await?;
    let all: Api<HierarchyConfiguration> = Api::all(steps.client.clone());
    eventually("the definition is served", PATIENCE, async || {
        all.list(&ListParams::default()).await.map(drop).map_err(|error| error.to_string())
    })
    .await?;
    let served = Instant::now();
    both.shows(true, "[+]hierarchyconfigurations ok").await?;
    let took = served.elapsed();
    ensure!(took < NOTICED, "it took {took:?}");
    println!("both ready {took:.1?} after the definition was served");

    steps.set_parent("d-leaf", "d-root").await?;
    steps.labelled(&["d-leaf", "d-root"]).await?;
    both.unharmed()?;
    turn.webhook_only_asked()?;
    Ok(())
}
