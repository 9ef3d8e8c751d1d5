//! Sources spread to many namespaces, changed there, and removed: against a plain client that writes the same objects.

use anyhow::ensure;
use http::Method;
use serde_json::{Value, json};

use crate::bench::audit::Record;
use crate::bench::client::Call;
use crate::bench::limit::{self, Limit, Turn};
use crate::bench::report::{Figure, Outcome, Rate, Target, decimal, each, total};
use crate::bench::stage::{Seen, Stage, Window};
use crate::bench::{Scale, say};

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1";
const COPIES: &str = "/apis/rbac.authorization.k8s.io/v1/roles?labelSelector=hnc.x-k8s.io/inherited-from=";

/// The root of the tree, and how the names of all others begin.
const ROOT: &str = "tree-wide";

/// One of the three things that are done with every object.
#[derive(Clone, Copy)]
struct Act {
    name: &'static str,
    verb: &'static str,
    how: How,
    target: f64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    Post,
    Put,
    Delete,
}

const ACTS: [Act; 3] = [
    Act { name: "spread", verb: "create", how: How::Post, target: 0.85 },
    Act { name: "touch", verb: "update", how: How::Put, target: 0.80 },
    Act { name: "drop", verb: "delete", how: How::Delete, target: 0.80 },
];

pub(crate) async fn measure(stage: &mut Stage<'_>, scale: &Scale) -> anyhow::Result<Vec<Outcome>> {
    let below: Vec<String> = (0..scale.namespaces).map(|number| format!("{ROOT}-{number:04}")).collect();
    let plain: Vec<String> = (0..scale.namespaces).map(|number| format!("plain-{number:04}")).collect();
    plant(stage, &below, &plain).await?;

    let mut made = ACTS.map(|act| Made { act, limits: Vec::new(), seen: Vec::new() });
    for round in 0..scale.rounds {
        for made in &mut made {
            let act = made.act;
            let calls = |tried| plain_calls(scale, act, tried, &plain);
            for turn in limit::turns(round) {
                match turn {
                    Turn::Limit => {
                        made.limits.push(limit::round(stage, scale, &made.limits, act.verb, calls).await?);
                    }
                    Turn::Product => made.seen.push(product(stage, scale, act).await?),
                }
            }
        }
    }
    Ok(made.into_iter().filter_map(|made| outcome(scale, made)).collect())
}

/// What was measured of an act, round by round.
struct Made {
    act: Act,
    limits: Vec<Vec<Rate>>,
    seen: Vec<Seen>,
}

/// Makes the tree and the namespaces outside it.
async fn plant(stage: &mut Stage<'_>, below: &[String], plain: &[String]) -> anyhow::Result<()> {
    say(&format!("planting a tree of {} namespaces, and as many outside", below.len()));
    let names: Vec<String> = [ROOT.to_owned()].iter().chain(below).chain(plain).cloned().collect();
    stage.create_namespaces(&names).await?;
    stage.set_parents(below.iter().map(|name| (name.as_str(), ROOT))).await?;
    let labelled = format!("/api/v1/namespaces?labelSelector={ROOT}.tree.hnc.x-k8s.io/depth=1");
    ensure!(stage.list(&labelled).await?.len() == below.len(), "not all namespaces bear their tree label");
    Ok(())
}

/// What the plain client does, with other objects for each number of connections.
fn plain_calls(scale: &Scale, act: Act, tried: usize, plain: &[String]) -> Vec<Call> {
    let prefix = format!("limit-{tried}");
    let all = (0..scale.sources).flat_map(|number| plain.iter().map(move |namespace| (number, namespace)));
    all.map(|(number, namespace)| call(act, namespace, &name(&prefix, number), Some(ROOT))).collect()
}

/// What the product does of its own accord after all sources were written once.
async fn product(stage: &mut Stage<'_>, scale: &Scale, act: Act) -> anyhow::Result<Seen> {
    stage.rest().await?;
    let calls = (0..scale.sources).map(|number| call(act, ROOT, &name("role", number), None)).collect();
    let mut window = stage.open()?;
    stage.client.send(calls, scale.sources).await?;
    let counts = |record: &Record| {
        record.who == "controller"
            && record.verb == act.verb
            && record.resource == "roles"
            && record.succeeded()
    };
    let mut seen = stage.until(&mut window, scale.copies(), counts).await?;
    say(&format!("{}: {:.0}/s", act.name, decimal(scale.copies()) / seen.wall));
    seen.records = rest_of(stage, window).await?;

    // The plain client's are marked as copies, too.
    let marked = stage.list(&format!("{COPIES}{ROOT}")).await?;
    let is_in_tree =
        |it: &&Value| it["metadata"]["namespace"].as_str().is_some_and(|it| it.starts_with(ROOT));
    let copies = marked.iter().filter(is_in_tree).count();
    let expected = if act.how == How::Delete { 0 } else { scale.copies() };
    ensure!(copies == expected, "{copies} copies instead of {expected}");
    Ok(seen)
}

/// All records, those after what was waited for included.
async fn rest_of(stage: &mut Stage<'_>, mut window: Window) -> anyhow::Result<Vec<Record>> {
    stage.calm(&mut window).await?;
    Ok(window.records)
}

fn outcome(scale: &Scale, made: Made) -> Option<Outcome> {
    let Made { act, limits, seen } = made;
    let seen = seen.into_iter().reduce(Seen::and)?;
    let count = scale.copies() * scale.rounds;
    let per_second = decimal(count) / seen.wall;
    let limit = Limit::of(&limits);
    let cost = total(&each(&seen.cpu, count));
    let what = format!("{} times {} sources, {} namespaces", scale.rounds, scale.sources, scale.namespaces);
    let mut outcome = Outcome::new(act.name, what, seen, count);
    outcome.figures = vec![
        Figure::new("rate : limit", per_second / limit.per_second, "").held_to(Target::AtLeast(act.target)),
        Figure::new("limit's processor time each : ours", limit.cost / cost, ""),
        Figure::new("rate", per_second, "/s"),
        Figure::new("limit", limit.per_second, "/s"),
        Figure::new("processor time each", cost, "µs"),
        Figure::new("limit's processor time each", limit.cost, "µs"),
    ];
    outcome.limits = limits;
    Some(outcome)
}

fn name(prefix: &str, number: usize) -> String {
    format!("{prefix}-{number:02}")
}

/// A request about a role, as a source or as a copy of one.
fn call(act: Act, namespace: &str, name: &str, source: Option<&str>) -> Call {
    let path = format!("{ROLES}/namespaces/{namespace}/roles");
    match act.how {
        How::Post => Call::new(Method::POST, path, role(name, source, "get").to_string()),
        How::Put => Call::new(Method::PUT, format!("{path}/{name}"), role(name, source, "watch").to_string()),
        How::Delete => Call::new(Method::DELETE, format!("{path}/{name}"), ""),
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
