//! Creates sources in a large tree, updates and deletes them, relative to a plain client that writes the same objects.

use std::time::Duration;

use anyhow::ensure;
use hns_e2e::Cluster;
use http::Method;
use serde_json::{Value, json};

use crate::bench::audit::Record;
use crate::bench::client::{Call, Client};
use crate::bench::limit::{self, Limit, Turn};
use crate::bench::report::{Figure, Outcome, Rate, Target, decimal, each, total};
use crate::bench::testbed::{self, Measurement, Testbed, Window};
use crate::bench::{Scale, say};

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1";
const COPIES: &str = "/apis/rbac.authorization.k8s.io/v1/roles?labelSelector=hnc.x-k8s.io/inherited-from=";

/// The root of the tree, and the prefix of all other names.
const ROOT: &str = "tree-wide";

/// One of the three operations on every object.
#[derive(Clone, Copy)]
struct Operation {
    name: &'static str,
    verb: &'static str,
    how: Verb,
    target: f64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Verb {
    Post,
    Put,
    Delete,
}

const OPERATIONS: [Operation; 3] = [
    Operation { name: "spread", verb: "create", how: Verb::Post, target: 0.85 },
    Operation { name: "touch", verb: "update", how: Verb::Put, target: 0.80 },
    Operation { name: "drop", verb: "delete", how: Verb::Delete, target: 0.80 },
];

/// `bare` is a cluster without hns.
pub(crate) async fn measure(
    testbed: &mut Testbed<'_>,
    bare: &Cluster,
    scale: &Scale,
) -> anyhow::Result<Vec<Outcome>> {
    let below: Vec<String> = (0..scale.namespaces).map(|number| format!("{ROOT}-{number:04}")).collect();
    let plain: Vec<String> = (0..scale.namespaces).map(|number| format!("plain-{number:04}")).collect();
    create_tree(testbed, &below, &plain).await?;
    let bare = Bare::create(bare, &plain).await?;

    let new = |operation| Results { operation, limits: Vec::new(), bare: Duration::ZERO, seen: Vec::new() };
    let mut results = OPERATIONS.map(new);
    for round in 0..scale.rounds {
        for results in &mut results {
            let operation = results.operation;
            let calls = |tried| plain_calls(scale, operation, tried, &plain);
            for turn in limit::turns(round) {
                match turn {
                    Turn::Limit => {
                        results.limits.push(
                            limit::round(testbed, scale, &results.limits, operation.verb, calls).await?,
                        );
                        let parallel = Limit::of(&results.limits).parallel;
                        results.bare += bare.send(plain_calls(scale, operation, 0, &plain), parallel).await?;
                    }
                    Turn::Product => results.seen.push(product(testbed, scale, operation).await?),
                }
            }
        }
    }
    Ok(results.into_iter().filter_map(|results| outcome(scale, results)).collect())
}

/// The measurements of an operation, by round.
struct Results {
    operation: Operation,
    limits: Vec<Vec<Rate>>,
    /// The time of the plain client on the cluster without hns.
    bare: Duration,
    seen: Vec<Measurement>,
}

/// A cluster without hns.
struct Bare<'c> {
    cluster: &'c Cluster,
    client: Client,
}

impl<'c> Bare<'c> {
    async fn create(cluster: &'c Cluster, namespaces: &[String]) -> anyhow::Result<Self> {
        let bare = Self { cluster, client: testbed::client(cluster).await? };
        let calls = namespaces.iter().map(|name| testbed::create_namespace(name)).collect();
        bare.client.send(calls, testbed::FILLING).await?;
        Ok(bare)
    }

    async fn send(&self, calls: Vec<Call>, parallel: usize) -> anyhow::Result<Duration> {
        testbed::rest(&[
            ("API server", self.cluster.api_server().pid()),
            ("controller manager", self.cluster.controller_manager().pid()),
        ])
        .await?;
        Ok(self.client.send(calls, parallel).await?.wall)
    }
}

/// Creates the tree and the namespaces outside it.
async fn create_tree(testbed: &mut Testbed<'_>, below: &[String], plain: &[String]) -> anyhow::Result<()> {
    say(&format!("creating a tree of {} namespaces, and as many outside", below.len()));
    let names: Vec<String> = [ROOT.to_owned()].iter().chain(below).chain(plain).cloned().collect();
    testbed.create_namespaces(&names).await?;
    testbed.set_parents(below.iter().map(|name| (name.as_str(), ROOT))).await?;
    let labelled = format!("/api/v1/namespaces?labelSelector={ROOT}.tree.hnc.x-k8s.io/depth=1");
    ensure!(testbed.list(&labelled).await?.len() == below.len(), "not all namespaces have their tree label");
    Ok(())
}

/// The requests of the plain client, with other objects for each number of connections.
fn plain_calls(scale: &Scale, operation: Operation, tried: usize, plain: &[String]) -> Vec<Call> {
    let prefix = format!("limit-{tried}");
    let all = (0..scale.sources).flat_map(|number| plain.iter().map(move |namespace| (number, namespace)));
    all.map(|(number, namespace)| call(operation, namespace, &name(&prefix, number), Some(ROOT))).collect()
}

/// The work of the product after all sources were written once.
async fn product(
    testbed: &mut Testbed<'_>,
    scale: &Scale,
    operation: Operation,
) -> anyhow::Result<Measurement> {
    testbed.rest().await?;
    let calls = (0..scale.sources).map(|number| call(operation, ROOT, &name("role", number), None)).collect();
    let mut window = testbed.open()?;
    testbed.client.send(calls, scale.sources).await?;
    let counts = |record: &Record| {
        record.who == "controller"
            && record.verb == operation.verb
            && record.resource == "roles"
            && record.succeeded()
    };
    let mut seen = testbed.until(&mut window, scale.copies(), counts).await?;
    say(&format!("{}: {:.0}/s", operation.name, decimal(scale.copies()) / seen.wall));
    seen.records = remaining_records(testbed, window).await?;

    // The objects of the plain client have the label of copies as well.
    let marked = testbed.list(&format!("{COPIES}{ROOT}")).await?;
    let is_in_tree =
        |it: &&Value| it["metadata"]["namespace"].as_str().is_some_and(|it| it.starts_with(ROOT));
    let copies = marked.iter().filter(is_in_tree).count();
    let expected = if operation.how == Verb::Delete { 0 } else { scale.copies() };
    ensure!(copies == expected, "{copies} copies instead of {expected}");
    Ok(seen)
}

/// All records, including those after the awaited ones.
async fn remaining_records(testbed: &mut Testbed<'_>, mut window: Window) -> anyhow::Result<Vec<Record>> {
    testbed.wait_idle(&mut window).await?;
    Ok(window.records)
}

fn outcome(scale: &Scale, results: Results) -> Option<Outcome> {
    let Results { operation, limits, bare, seen } = results;
    let seen = seen.into_iter().reduce(Measurement::combine)?;
    let count = scale.copies() * scale.rounds;
    let per_second = decimal(count) / seen.wall;
    let limit = Limit::of(&limits);
    let bare = decimal(count) / bare.as_secs_f64();
    let cost = total(&each(&seen.cpu, count));
    let what = format!("{} times {} sources, {} namespaces", scale.rounds, scale.sources, scale.namespaces);
    let mut outcome = Outcome::new(operation.name, what, seen, count);
    outcome.figures = vec![
        Figure::new("rate : limit", per_second / limit.per_second, "")
            .held_to(Target::AtLeast(operation.target)),
        Figure::new("limit's processor time each : ours", limit.cost / cost, ""),
        Figure::new("rate", per_second, "/s"),
        Figure::new("limit", limit.per_second, "/s"),
        Figure::new("rate : limit without hns", per_second / bare, ""),
        Figure::new("limit without hns", bare, "/s"),
        Figure::new("processor time each", cost, "µs"),
        Figure::new("limit's processor time each", limit.cost, "µs"),
    ];
    outcome.limits = limits;
    Some(outcome)
}

fn name(prefix: &str, number: usize) -> String {
    format!("{prefix}-{number:02}")
}

/// A request about a role, as a source or as a copy.
fn call(operation: Operation, namespace: &str, name: &str, source: Option<&str>) -> Call {
    let path = format!("{ROLES}/namespaces/{namespace}/roles");
    match operation.how {
        Verb::Post => Call::new(Method::POST, path, role(name, source, "get").to_string()),
        Verb::Put => {
            Call::new(Method::PUT, format!("{path}/{name}"), role(name, source, "watch").to_string())
        }
        Verb::Delete => Call::new(Method::DELETE, format!("{path}/{name}"), ""),
    }
}

fn role(name: &str, source: Option<&str>, verb: &str) -> Value {
    let mut role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": { "name": name },
        "rules": [
            { "apiGroups": [""], "resources": ["pods", "services", "configmaps"], "verbs": [verb, "list"] },
            { "apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get", "list", "update", "patch"] },
        ],
    });
    if let Some(source) = source {
        role["metadata"]["labels"] = json!({
            "app.kubernetes.io/managed-by": "hnc.x-k8s.io",
            "hnc.x-k8s.io/inherited-from": source,
        });
    }
    role
}
