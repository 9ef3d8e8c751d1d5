//! Accurate's API: the measure `spread` in a tree of sub-namespaces, and the creation of `SubNamespaces`, relative to a plain client
//! that makes the same writes on a cluster without hns.

use anyhow::{Context, ensure};
use hns_api::accurate::labels::{CREATED_BY, CREATED_BY_ACCURATE, PARENT};
use hns_api::accurate::names::FINALIZER;
use hns_e2e::Cluster;
use hns_e2e::product::definition_of_sub_namespaces;
use http::Method;
use serde_json::{Value, json};

use super::spread;
use crate::bench::api::{create_sub_namespace, sub_namespaces};
use crate::bench::audit::Record;
use crate::bench::bare::Bare;
use crate::bench::client::Call;
use crate::bench::limit::{self, Limit, Turn};
use crate::bench::report::{Figure, Outcome, Target, decimal, total};
use crate::bench::testbed::{FILLING, Measurement, Testbed, namespace};
use crate::bench::{Scale, say};

/// What a `SubNamespace` needs: itself, its namespace and its status.
const WRITES: usize = 3;

/// Where the plain client creates `SubNamespaces`.
const PLAIN: &str = "plain";

pub(crate) async fn measure(
    testbed: &mut Testbed<'_>,
    bare: &Cluster,
    scale: &Scale,
) -> anyhow::Result<Vec<Outcome>> {
    let file = definition_of_sub_namespaces();
    let definition = ["-f", &file.to_string_lossy()];
    bare.kubectl().args(["apply"]).args(definition).ok().await?;
    bare.kubectl().established(definition).await?;
    let bare = Bare::new(bare).await?;
    let mut outcomes = spread::measure(testbed, &bare, scale).await?;
    let mut created = create(testbed, &bare, scale).await?;
    let peaks = outcomes.iter().chain([&created]).map(|outcome| outcome.controller.peak());
    let peak = Figure::new("controller's peak in this and the above", peaks.fold(0.0, f64::max), "MiB");
    created.figures.push(peak.held_to(Target::AtMost(60.0)));
    outcomes.push(created);
    Ok(outcomes)
}

async fn create(testbed: &mut Testbed<'_>, bare: &Bare<'_>, scale: &Scale) -> anyhow::Result<Outcome> {
    let count = scale.namespaces;
    bare.create_namespaces(&[PLAIN.to_owned()]).await?;
    let (mut limits, mut seen) = (Vec::new(), Vec::new());
    for round in 0..scale.trees {
        for turn in limit::turns(round) {
            match turn {
                Turn::Limit => {
                    testbed.rest().await?;
                    let raw = async |calls, parallel| bare.raw(calls, parallel).await;
                    let calls = |tried| plain_calls(&format!("{PLAIN}-{round}-{tried}"), count);
                    limits.push(limit::round(raw, scale, &limits, "SubNamespaces", calls).await?);
                }
                Turn::Product => {
                    bare.rest().await?;
                    seen.push(product(testbed, &format!("tree-subs{round}"), count).await?);
                }
            }
        }
    }
    let seen = seen.into_iter().reduce(Measurement::combine).context("no round")?;
    let (limit, time, cost) = (Limit::of(&limits), seen.wall, total(&seen.cpu));
    let needed = count * scale.trees;
    let what = format!("{} times {count} SubNamespaces", scale.trees);
    let mut outcome = Outcome::new("accurate: create", what, seen, needed * (WRITES - 1));
    outcome.figures = vec![
        Figure::new("time : limit's", time * limit.per_second / decimal(needed * WRITES), "")
            .held_to(Target::AtMost(2.0)),
        Figure::new("processor time : limit's", cost * 1e6 / (decimal(needed * WRITES) * limit.cost), ""),
        Figure::new("time", time, "s"),
        Figure::new("limit", limit.per_second, "/s"),
    ];
    outcome.limits = limits;
    Ok(outcome)
}

/// Creates `SubNamespaces` and waits until nothing follows; the time is that of the last namespace or status.
async fn product(testbed: &mut Testbed<'_>, root: &str, count: usize) -> anyhow::Result<Measurement> {
    testbed.client.ask(testbed.api.create_root(root)).await?;
    testbed.rest().await?;
    let calls = names(root, count).map(|name| create_sub_namespace(&name, root)).collect();
    let mut window = testbed.open()?;
    testbed.client.send(calls, FILLING).await?;
    let is_status = |record: &Record| record.resource == "subnamespaces/status";
    let counts = |record: &Record| {
        let is_one = is_status(record) || record.resource == "namespaces" && record.is_write();
        record.who == "controller" && is_one && record.succeeded()
    };
    let seen = testbed.wait_settled(&mut window, counts).await?;
    say(&format!("accurate: {count} SubNamespaces in {:.2} s", seen.wall));

    let children = format!("/api/v1/namespaces?labelSelector={}", testbed.api.children(root));
    ensure!(testbed.list(&children).await?.len() == count, "not all namespaces were created");
    let is_ours = |it: &&Value| it["metadata"]["finalizers"] == json!([FINALIZER]);
    let forms = testbed.list(&sub_namespaces(root)).await?;
    ensure!(forms.iter().filter(is_ours).count() == count, "not all SubNamespaces have the finalizer");
    let shown = seen.records.iter().filter(|record| is_status(record) && record.succeeded()).count();
    ensure!(shown >= count, "{shown} statuses instead of {count}");
    Ok(seen)
}

fn names(prefix: &str, count: usize) -> impl Iterator<Item = String> {
    (0..count).map(move |number| format!("{prefix}-{number:04}"))
}

/// All `SubNamespaces`, then all namespaces, then all statuses.
fn plain_calls(prefix: &str, count: usize) -> Vec<Call> {
    let create_namespace = |name: String| {
        let mut namespace = namespace(&name);
        namespace["metadata"]["labels"] = json!({ CREATED_BY: CREATED_BY_ACCURATE, PARENT: PLAIN });
        Call::new(Method::POST, "/api/v1/namespaces", namespace.to_string())
    };
    let set_status = |name: String| {
        let path = format!("{}/{name}/status", sub_namespaces(PLAIN));
        Call::new(Method::PATCH, path, json!({ "status": { "observedGeneration": 1 } }).to_string())
    };
    let names = || names(prefix, count);
    let forms = names().map(|name| create_sub_namespace(&name, PLAIN));
    forms.chain(names().map(create_namespace)).chain(names().map(set_status)).collect()
}
