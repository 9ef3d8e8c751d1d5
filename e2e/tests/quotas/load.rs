//! Many clients create and delete Services under nested quotas while replicas are killed and stopped. Afterwards the audit log tells
//! whether a limit was ever exceeded.

mod clients;
mod company;
mod disturbance;
mod record;

use std::time::Duration;

use anyhow::{Result, ensure};
use hns_cluster::settings::FailurePolicy;
use hns_e2e::{Balancer, Cluster, Component, Launch, Product, Replica, Setup, ports};
use tokio::time::Instant;

use self::clients::Clients;
use self::company::Company;
use self::disturbance::{Disturbance, Kind};
use super::scene::{Scene, options};

/// The states of derived quotas, and nothing else.
const AUDIT_POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
- level: RequestResponse
  verbs: [update, patch]
  resources: [{ group: \"\", resources: [resourcequotas/status] }]
- level: None
";

const CLIENTS: usize = 16;
const WEBHOOKS: usize = 3;

/// After the load, the status of each quota is right within this time.
const SETTLED: Duration = Duration::from_secs(20);

/// How long the load lasts, and what happens meanwhile.
struct Scale {
    lasts: Duration,
    /// A webhook is killed this often.
    kills: Duration,
    /// When a webhook is stopped, and for how long.
    stopped_webhooks: &'static [(u64, u64)],
    /// What happens to the leading controller, and when.
    controllers: &'static [(u64, Kind)],
    flags: &'static [&'static str],
}

#[tokio::test(flavor = "multi_thread")]
async fn no_limit_is_exceeded_while_replicas_are_killed_and_stopped() -> Result<()> {
    run(&Scale {
        lasts: Duration::from_secs(30),
        kills: Duration::from_secs(5),
        stopped_webhooks: &[(12, 4)],
        controllers: &[(6, Kind::Kill), (14, Kind::Stop(7))],
        flags: &[
            "--leader-elect-lease-duration=4s",
            "--leader-elect-renew-deadline=3s",
            "--leader-elect-retry-period=500ms",
        ],
    })
    .await
}

/// Five minutes: `cargo test -p hns-e2e --test quotas -- --ignored --nocapture for_five_minutes`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "it takes five minutes"]
async fn no_limit_is_exceeded_for_five_minutes() -> Result<()> {
    run(&Scale {
        lasts: Duration::from_secs(300),
        kills: Duration::from_secs(10),
        stopped_webhooks: &[(85, 8), (165, 12), (245, 8)],
        controllers: &[
            (20, Kind::Kill),
            (60, Kind::Stop(25)),
            (120, Kind::Kill),
            (160, Kind::Stop(25)),
            (230, Kind::Kill),
        ],
        flags: &[],
    })
    .await
}

async fn run(scale: &Scale) -> Result<()> {
    let setup = Setup { audit_policy: AUDIT_POLICY.to_owned(), quota_sync: Duration::from_secs(10) };
    let cluster = Cluster::start_as(&setup).await?;
    let product = Product::install(&cluster, options(FailurePolicy::Fail)).await?;
    let mut webhooks = Vec::new();
    for _ in 0..WEBHOOKS {
        let [port] = ports::free()?;
        let launch = Launch { webhook_port: Some(port), ..Launch::default() };
        webhooks.push(product.start(Component::Webhook, launch).await?);
    }
    let backends = webhooks.iter().map(Replica::webhook_port).collect();
    let _balancer = Balancer::start(product.webhook_port(), backends).await?;
    let mut controllers = Vec::new();
    for _ in 0..2 {
        let args = scale.flags.iter().map(|&flag| flag.to_owned()).collect();
        controllers.push(product.start(Component::Controller, Launch { args, ..Launch::default() }).await?);
    }
    let scene = Scene::of(&cluster);
    let company = Company::found(&scene).await?;

    let began = Instant::now();
    let until = began + scale.lasts;
    let disturbance = Disturbance { scene: &scene, began, until, kills: scale.kills };
    let clients = Clients::start(&cluster, &company, CLIENTS, until)?;
    let (of_webhooks, of_controllers) = tokio::join!(
        disturbance.of_webhooks(&mut webhooks, scale.stopped_webhooks),
        disturbance.of_controllers(&mut controllers, scale.controllers),
    );
    let tally = clients.end().await?;
    println!("{}; {}", of_webhooks?, of_controllers?);
    println!("{}", tally.report(scale.lasts));
    for webhook in &webhooks {
        let metrics = webhook.metrics().await?;
        for line in metrics.lines().filter(|line| line.starts_with("hns_quota")) {
            println!("{}: {line}", webhook.pod_name());
        }
    }
    let settled = company.settles(&scene, SETTLED).await;
    let record = record::read(cluster.audit().path(), &company)?;
    println!("{}", record.report());
    if let Ok(after) = &settled {
        println!("the status of each quota is right {after:.1?} after the load");
    }
    ensure!(record.violations.is_empty(), "limits were exceeded: {:#?}", record.violations);
    settled?;
    tally.check()?;
    ensure!(record.raises > 100 && tally.denied() > 10, "this is no load");
    Ok(())
}
