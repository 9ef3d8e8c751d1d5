//! The price of quotas: Services created per second in namespaces without a quota, with a core quota in each, and with hierarchical
//! quotas over all. In turn, in one cluster.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::ensure;
use hns_cluster::settings::FailurePolicy;
use hns_e2e::{Cluster, Options, Product};
use http::Method;
use serde_json::{Value, json};

use crate::bench::audit;
use crate::bench::client::{Call, Client};
use crate::bench::report::{Figure, Outcome, Target, decimal, median};
use crate::bench::testbed::{self, FILLING, create_edge, create_namespace};
use crate::bench::usage::{self, Cpu, OTHERS};
use crate::bench::{Scale, say};

const NAMESPACES: usize = 30;
const CONNECTIONS: usize = 16;

/// No limit is reached.
const LIMIT: &str = "1000000";

/// The names of the namespaces begin with one of these.
const STATES: [&str; 3] = ["none", "core", "hierarchical"];

/// How long new limits may take to be in force.
const PATIENCE: Duration = Duration::from_secs(60);

const GROUP: &str = "/apis/hnc.x-k8s.io/v1alpha2";

pub(crate) async fn measure(scale: &Scale) -> anyhow::Result<Vec<Outcome>> {
    let began = Instant::now();
    let cluster = Cluster::start_audited(audit::OFF).await?;
    let product = Product::install(&cluster, Options::with_quotas(FailurePolicy::Fail)).await?;
    let (webhook, controller) = tokio::try_join!(product.start_webhook(), product.start_controller())?;
    let client = testbed::client(&cluster).await?;
    set_up(&client).await?;
    let processes = [
        ("API server", cluster.api_server().pid()),
        ("etcd", cluster.etcd().pid()),
        ("controller manager", cluster.controller_manager().pid()),
        ("webhook", webhook.process().pid()),
        ("controller", controller.process().pid()),
    ];
    let (mut rounds, mut repeated, mut used) = (Vec::new(), [0; 3], [(); 3].map(|()| Cpu::new()));
    testbed::rest(&processes).await?;
    for round in 0..scale.tax_rounds {
        say(&format!("quota: round {} of {}", round + 1, scale.tax_rounds));
        let mut seconds = [0.0; 3];
        for turn in 0..STATES.len() {
            let index = (turn + round) % STATES.len();
            let before = usage::cpu(&processes)?;
            let sent = client.send(services(STATES[index], round, scale.services), CONNECTIONS).await?;
            seconds[index] = sent.wall.as_secs_f64() / decimal(scale.services);
            repeated[index] += sent.repeated;
            // What follows from the creations, such as the statuses, is part of their price.
            testbed::rest(&processes).await?;
            for (process, seconds) in usage::difference(&before, &usage::cpu(&processes)?) {
                *used[index].entry(process).or_default() += seconds;
            }
        }
        rounds.push(seconds);
    }
    Ok(vec![Outcome {
        name: "quota".into(),
        what: format!("{} rounds of {} Services in {NAMESPACES} namespaces", rounds.len(), scale.services),
        figures: figures(&rounds, repeated, &used, decimal(scale.services * rounds.len())),
        seconds: began.elapsed().as_secs_f64(),
        cpu: Cpu::new(),
        webhook: usage::memory(webhook.process().pid())?,
        controller: usage::memory(controller.process().pid())?,
        requests: BTreeMap::new(),
        needed: 0,
        made: 0,
        limits: Vec::new(),
    }])
}

/// A tree of a root and three teams has hierarchical quotas in each of these four.
async fn set_up(client: &Client) -> anyhow::Result<()> {
    let all = STATES.iter().flat_map(|state| (0..NAMESPACES).map(move |at| namespace(state, at)));
    client.send(all.map(|name| create_namespace(&name)).collect(), FILLING).await?;
    let [_, core, tree] = STATES;
    let quotas = (0..NAMESPACES).map(|at| quota("/api/v1", "resourcequotas", &namespace(core, at)));
    client.send(quotas.collect(), FILLING).await?;
    let parent = |at: usize| namespace(tree, if at < 4 { 0 } else { 1 + at % 3 });
    let edges = (1..NAMESPACES).map(|at| create_edge(&namespace(tree, at), &parent(at)));
    client.send(edges.collect(), FILLING).await?;
    let quotas = (0..4).map(|at| quota(GROUP, "hierarchicalresourcequotas", &namespace(tree, at)));
    client.send(quotas.collect(), FILLING).await?;
    for at in 0..4 {
        enforced(client, &namespace(tree, at)).await?;
    }
    Ok(())
}

fn namespace(state: &str, at: usize) -> String {
    format!("{state}-{at:02}")
}

fn quota(group: &str, plural: &str, namespace: &str) -> Call {
    let body = json!({ "metadata": { "name": "budget" }, "spec": { "hard": { "services": LIMIT } } });
    let (version, kind) = match plural {
        "resourcequotas" => ("v1", "ResourceQuota"),
        _ => (hns_api::API_VERSION, "HierarchicalResourceQuota"),
    };
    let mut object = body;
    object["apiVersion"] = version.into();
    object["kind"] = kind.into();
    Call::new(Method::POST, format!("{group}/namespaces/{namespace}/{plural}"), object.to_string())
}

async fn enforced(client: &Client, namespace: &str) -> anyhow::Result<()> {
    let path = format!("{GROUP}/namespaces/{namespace}/hierarchicalresourcequotas/budget");
    // A GET answers with metadata alone. An empty patch changes nothing.
    let call = Call::new(Method::PATCH, path, "{}");
    let deadline = Instant::now() + PATIENCE;
    loop {
        let quota: Value = serde_json::from_slice(&client.ask(call.clone()).await?)?;
        let mut conditions = quota["status"]["conditions"].as_array().into_iter().flatten();
        if conditions.any(|it| it["type"] == "Enforced" && it["status"] == "True") {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "the quota of {namespace} is not enforced: {quota}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Services that need no address, one namespace after the other.
fn services(state: &str, round: usize, count: usize) -> Vec<Call> {
    let service = |number: usize| {
        let body = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": { "name": format!("s-{round:02}-{number:05}") },
            "spec": { "clusterIP": "None" },
        });
        let path = format!("/api/v1/namespaces/{}/services", namespace(state, number % NAMESPACES));
        Call::new(Method::POST, path, body.to_string())
    };
    (0..count).map(service).collect()
}

fn figures(rounds: &[[f64; 3]], repeated: [usize; 3], used: &[Cpu; 3], created: f64) -> Vec<Figure> {
    let ratio = |of: fn(&[f64; 3]) -> f64| median(rounds.iter().map(of));
    let mut figures = vec![
        Figure::new("time of a creation, hierarchical : core", ratio(|it| it[2] / it[1]), "")
            .held_to(Target::AtMost(2.0)),
        Figure::new("time of a creation, core : none", ratio(|it| it[1] / it[0]), ""),
        Figure::new("time of a creation, hierarchical : none", ratio(|it| it[2] / it[0]), ""),
    ];
    for (index, state) in STATES.into_iter().enumerate() {
        let rate = median(rounds.iter().map(|it| 1.0 / it[index]));
        figures.push(Figure::new(format!("Services created, quotas: {state}"), rate, "/s"));
        figures.push(Figure::new(
            format!("requests repeated, quotas: {state}"),
            decimal(repeated[index]),
            "",
        ));
        for (process, seconds) in used[index].iter().filter(|(process, _)| **process != OTHERS) {
            let what = format!("processor time of {process} for a creation, quotas: {state}");
            figures.push(Figure::new(what, seconds / created * 1e6, "µs"));
        }
    }
    figures
}
