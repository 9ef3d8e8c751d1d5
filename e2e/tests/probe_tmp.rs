//! Temporary probe.
#[path = "chaos/kind.rs"]
#[allow(dead_code)]
mod kind;
use anyhow::Result;
use hns_api::{HNCConfiguration, HNCConfigurationSpec, ResourceSpec, SynchronizationMode};
use hns_e2e::{Cluster, Options, Product, Steps};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::*;
use std::time::Duration;

async fn mode(steps: &Steps, mode: SynchronizationMode) -> Result<()> {
    let spec = HNCConfigurationSpec {
        resources: Some(vec![ResourceSpec {
            resource: "configmaps".into(),
            mode: Some(mode),
            ..Default::default()
        }]),
    };
    let api: kube::Api<HNCConfiguration> = kube::Api::all(steps.client.clone());
    api.patch(
        "config",
        &PatchParams::apply("t").force(),
        &Patch::Apply(HNCConfiguration::new("config", spec)),
    )
    .await?;
    Ok(())
}

#[tokio::test]
async fn probe() -> Result<()> {
    let cluster = Cluster::start().await?;
    let product = Product::install(&cluster, Options::default()).await?;
    let _w = product.start_webhook().await?;
    let _c = product.start_controller().await?;
    let steps = Steps::of(cluster.admin());
    let cm = |ns: &str| kube::Api::<ConfigMap>::namespaced(steps.client.clone(), ns);
    let make = |v: &str| -> ConfigMap {
        serde_json::from_value(serde_json::json!({"metadata":{"name":"z"},"data":{"v":v}})).unwrap()
    };
    for (what, pause) in [
        ("mode", 0u64),
        ("mode", 10),
        ("mode", 25),
        ("mode", 50),
        ("source", 0),
        ("source", 10),
        ("label", 0),
    ] {
        let (mut lost, mut refused, mut n) = (0, 0, 0);
        for i in 0..12 {
            let (l, g) = (format!("l{what}{pause}-{i}"), format!("g{what}{pause}-{i}"));
            mode(&steps, SynchronizationMode::Propagate).await?;
            steps.create_namespace(&l).await?;
            steps.create_namespace(&g).await?;
            let mut source = make("l");
            if what == "label" {
                source.metadata.annotations =
                    Some([("propagate.hnc.x-k8s.io/select".to_owned(), "team=red".to_owned())].into());
            }
            cm(&l).create(&PostParams::default(), &source).await?;
            cm(&g).create(&PostParams::default(), &make("g")).await?;
            steps.labelled(&[&l]).await?;
            steps.labelled(&[&g]).await?;
            tokio::time::sleep(Duration::from_millis(500)).await;
            match what {
                "mode" => mode(&steps, SynchronizationMode::Ignore).await?,
                "source" => {
                    cm(&l).delete("z", &DeleteParams::default()).await?;
                }
                _ => {}
            }
            tokio::time::sleep(Duration::from_millis(pause)).await;
            n += 1;
            if steps.set_parent(&g, &l).await.is_err() {
                refused += 1;
                continue;
            }
            tokio::time::sleep(Duration::from_millis(1500)).await;
            match cm(&g).get_opt("z").await? {
                Some(found) if found.data.as_ref().is_some_and(|d| d["v"] == "g") => {}
                _ => lost += 1,
            }
            let _ = cm(&g).delete("z", &DeleteParams::default()).await;
            let _ = cm(&l).delete("z", &DeleteParams::default()).await;
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        println!("{what} then move {pause} ms later: of {n}, {refused} refused, {lost} lost");
    }
    Ok(())
}
