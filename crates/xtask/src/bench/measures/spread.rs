//! Creates sources in a large tree, updates and deletes them, relative to a plain client that writes the same objects.

use std::time::Duration;

use anyhow::ensure;
use http::Method;
use serde_json::{Value, json};

use crate::bench::api::Api;
use crate::bench::audit::Record;
use crate::bench::bare::Bare;
use crate::bench::client::Call;
use crate::bench::limit::{self, Limit, Turn};
use crate::bench::report::{Figure, Outcome, Rate, Target, decimal, each, total};
use crate::bench::testbed::{Measurement, Testbed, Window};
use crate::bench::{Scale, say};

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1";

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

pub(crate) async fn measure(
    testbed: &mut Testbed<'_>,
    bare: &Bare<'_>,
    scale: &Scale,
) -> anyhow::Result<Vec<Outcome>> {
    let below: Vec<String> = (0..scale.namespaces).map(|number| format!("{ROOT}-{number:04}")).collect();
    let plain: Vec<String> = (0..scale.namespaces).map(|number| format!("plain-{number:04}")).collect();
    create_tree(testbed, &below, &plain).await?;
    bare.create_namespaces(&plain).await?;

    let new = |operation| Results { operation, limits: Vec::new(), bare: Duration::ZERO, seen: Vec::new() };
    let mut results = OPERATIONS.map(new);
    for round in 0..scale.rounds {
        for results in &mut results {
            let operation = results.operation;
            let api = testbed.api;
            let calls = |tried| plain_calls(scale, (api, operation), tried, &plain);
            for turn in limit::turns(round) {
                match turn {
                    Turn::Limit => {
                        let raw = async |calls, parallel| testbed.raw(calls, parallel).await;
                        let rates = limit::round(raw, scale, &results.limits, operation.verb, calls).await?;
                        results.limits.push(rates);
                        let parallel = Limit::of(&results.limits).parallel;
                        results.bare += bare.raw(calls(0), parallel).await?.0.wall;
                    }
                    Turn::Product => results.seen.push(product(testbed, scale, operation).await?),
                }
            }
        }
    }
    Ok(results.into_iter().filter_map(|results| outcome(testbed.api, scale, results)).collect())
}

/// The measurements of an operation, by round.
struct Results {
    operation: Operation,
    limits: Vec<Vec<Rate>>,
    /// The time of the plain client on the cluster without hns.
    bare: Duration,
    seen: Vec<Measurement>,
}

/// Creates the tree and the namespaces outside it.
async fn create_tree(testbed: &mut Testbed<'_>, below: &[String], plain: &[String]) -> anyhow::Result<()> {
    say(&format!("creating a tree of {} namespaces, and as many outside", below.len()));
    let api = testbed.api;
    testbed.client.ask(api.create_root(ROOT)).await?;
    testbed.create_namespaces(plain).await?;
    if api == Api::Hnc {
        testbed.create_namespaces(below).await?;
    }
    testbed.set_parents(below.iter().map(|name| (name.as_str(), ROOT))).await?;
    let labelled = format!("/api/v1/namespaces?labelSelector={}", api.children(ROOT));
    ensure!(
        testbed.list(&labelled).await?.len() == below.len(),
        "not all namespaces have the label of their parent"
    );
    Ok(())
}

/// The requests of the plain client, with other objects for each number of connections.
fn plain_calls(scale: &Scale, how: (Api, Operation), tried: usize, plain: &[String]) -> Vec<Call> {
    let prefix = format!("limit-{tried}");
    let all = (0..scale.sources).flat_map(|number| plain.iter().map(move |namespace| (number, namespace)));
    all.map(|(number, namespace)| call(how, namespace, &name(&prefix, number), Some(ROOT))).collect()
}

/// The work of the product after all sources were written once.
async fn product(
    testbed: &mut Testbed<'_>,
    scale: &Scale,
    operation: Operation,
) -> anyhow::Result<Measurement> {
    testbed.rest().await?;
    let api = testbed.api;
    let sources = (0..scale.sources).map(|number| name("role", number));
    let calls = sources.map(|name| call((api, operation), ROOT, &name, None)).collect();
    let mut window = testbed.open()?;
    testbed.client.send(calls, scale.sources).await?;
    let counts = |record: &Record| {
        record.who == "controller"
            && record.verb == api.verb(operation.verb)
            && record.resource == "roles"
            && record.succeeded()
    };
    let mut seen = testbed.until(&mut window, scale.copies(), counts).await?;
    say(&format!("{}: {:.0}/s", api.measure(operation.name), decimal(scale.copies()) / seen.wall));
    seen.records = remaining_records(testbed, window).await?;

    // The objects of the plain client have the label of copies as well.
    let marked = testbed.list(&format!("{ROLES}/roles?labelSelector={}", api.copies(ROOT))).await?;
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

fn outcome(api: Api, scale: &Scale, results: Results) -> Option<Outcome> {
    let Results { operation, limits, bare, seen } = results;
    let seen = seen.into_iter().reduce(Measurement::combine)?;
    let count = scale.copies() * scale.rounds;
    let per_second = decimal(count) / seen.wall;
    let limit = Limit::of(&limits);
    let bare = decimal(count) / bare.as_secs_f64();
    let cost = total(&each(&seen.cpu, count));
    let what = format!("{} times {} sources, {} namespaces", scale.rounds, scale.sources, scale.namespaces);
    let mut outcome = Outcome::new(api.measure(operation.name), what, seen, count);
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
fn call((api, operation): (Api, Operation), namespace: &str, name: &str, source: Option<&str>) -> Call {
    let path = format!("{ROLES}/namespaces/{namespace}/roles");
    match operation.how {
        Verb::Post => Call::new(Method::POST, path, role(api, name, source, "get").to_string()),
        Verb::Put => {
            Call::new(Method::PUT, format!("{path}/{name}"), role(api, name, source, "watch").to_string())
        }
        Verb::Delete => Call::new(Method::DELETE, format!("{path}/{name}"), ""),
    }
}

fn role(api: Api, name: &str, source: Option<&str>, verb: &str) -> Value {
    let mut role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": { "name": name },
        "rules": [
            { "apiGroups": [""], "resources": ["pods", "services", "configmaps"], "verbs": [verb, "list"] },
            { "apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get", "list", "update", "patch"] },
        ],
    });
    api.mark(&mut role, source);
    role
}
