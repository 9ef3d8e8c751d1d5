//! Parents set and changed, until every tree label is right: against a plain client that makes as many patches as that needs.

use std::collections::BTreeMap;

use anyhow::ensure;
use hns_api::labels::tree_label_namespace;
use http::Method;
use serde_json::json;

use crate::bench::audit::Record;
use crate::bench::client::Call;
use crate::bench::limit::{self, Limit};
use crate::bench::report::{Figure, Outcome, Rate, Target, decimal, total};
use crate::bench::shape::Shape;
use crate::bench::stage::{FILLING, Seen, Stage};
use crate::bench::{Scale, say};

const OLD: &str = "tree-old";
const NEW: &str = "tree-new";
const FULL: &str = "tree-full";
const CHILDREN: usize = 10;

/// What came of one change, before it is compared.
struct Change {
    name: &'static str,
    what: String,
    seen: Seen,
    /// How many writes the change itself was, and how many the product cannot do without.
    asked: usize,
    needed: usize,
    /// By when the labels of each depth were right; such a change has no target.
    depths: Option<BTreeMap<usize, f64>>,
}

pub(crate) async fn measure(stage: &mut Stage<'_>, scale: &Scale) -> anyhow::Result<Vec<Outcome>> {
    let count = scale.namespaces;
    let wide = Shape::wide("tree-wide", count);
    let full = Shape::tree(FULL, count, CHILDREN);
    let skewers = Shape::skewers("tree-skewer", count, scale.depth);
    let plain: Vec<String> = (0..count).map(|number| format!("plain-{number:04}")).collect();
    plant(stage, &[&wide, &full, &skewers], &plain).await?;

    let patches = |round: usize| {
        let plain = &plain;
        move |parallel: usize| limit::label_patches(plain, 2 * count, &format!("r{round}-{parallel}"))
    };
    let mut limits = vec![limit::rates(stage, scale, "patch", patches(1)).await?];
    let mut changes = vec![set(stage, "wide", &wide).await?, set(stage, "full", &full).await?];
    changes.push(moved(stage, &full).await?);
    changes.push(skewered(stage, &skewers).await?);
    if scale.limit_again {
        limits.push(limit::rates(stage, scale, "patch", patches(2)).await?);
    }
    Ok(changes.into_iter().map(|change| outcome(change, &limits)).collect())
}

async fn plant(stage: &mut Stage<'_>, shapes: &[&Shape], plain: &[String]) -> anyhow::Result<()> {
    let mut names: Vec<String> = shapes.iter().flat_map(|shape| shape.names()).cloned().collect();
    names.extend(plain.iter().cloned().chain([OLD.to_owned(), NEW.to_owned()]));
    say(&format!("creating {} namespaces", names.len()));
    stage.create_namespaces(&names).await
}

/// Sets all parents of a shape.
async fn set(stage: &mut Stage<'_>, name: &'static str, shape: &Shape) -> anyhow::Result<Change> {
    let calls: Vec<Call> = shape.edges.iter().map(|(child, parent)| set_parent(child, parent)).collect();
    let asked = calls.len();
    let seen = change(stage, calls).await?;
    say(&format!("{name}: {asked} parents in {:.2} s", seen.wall));
    verify(stage, shape).await?;
    // Labels of each, the mark of the roots, which have children now, and the list of children in each parent's status. Any
    // other parent is marked as it is labelled.
    let needed = shape.edges.len() + shape.roots.len() + shape.parents();
    Ok(Change { name, what: format!("{asked} parents"), seen, asked, needed, depths: None })
}

/// As [`set`], saying when each depth was right.
async fn skewered(stage: &mut Stage<'_>, shape: &Shape) -> anyhow::Result<Change> {
    let mut change = set(stage, "skewer", shape).await?;
    let labels = shape.labels();
    let mut depths = BTreeMap::new();
    for record in change.seen.records.iter().filter(|record| is_label(record)) {
        let depth = labels.get(&record.namespace).map_or(0, |path| path.len() - 1);
        let last: &mut f64 = depths.entry(depth).or_default();
        *last = last.max(change.seen.after(record));
    }
    change.what =
        format!("{}, {} deep", change.what, labels.values().map(|path| path.len() - 1).max().unwrap_or(0));
    change.depths = Some(depths);
    Ok(change)
}

/// Moves a whole tree from one parent to another.
async fn moved(stage: &mut Stage<'_>, shape: &Shape) -> anyhow::Result<Change> {
    change(stage, vec![set_parent(FULL, OLD)]).await?;
    let seen = change(stage, vec![set_parent(FULL, NEW)]).await?;
    say(&format!("move: {:.2} s", seen.wall));
    let mut edges = vec![(FULL.to_owned(), NEW.to_owned())];
    edges.extend(shape.edges.iter().cloned());
    verify(stage, &Shape { edges, roots: vec![NEW.to_owned()] }).await?;
    let size = shape.edges.len() + 1;
    // Each one's labels, which nothing has to happen in between of, since nothing is inherited; of both parents the mark and the
    // list of children.
    let needed = size + 4;
    Ok(Change { name: "move", what: format!("a tree of {size}"), seen, asked: 1, needed, depths: None })
}

/// Makes a change and waits until nothing more follows from it; the time is that of the last label.
async fn change(stage: &mut Stage<'_>, calls: Vec<Call>) -> anyhow::Result<Seen> {
    stage.rest().await?;
    let mut window = stage.open()?;
    stage.client.send(calls, FILLING).await?;
    stage.settled(&mut window, is_label).await
}

fn is_label(record: &Record) -> bool {
    record.who == "controller" && record.resource == "namespaces" && record.is_write() && record.succeeded()
}

/// Whether every namespace of the shape bears exactly the tree labels that it should.
async fn verify(stage: &Stage<'_>, shape: &Shape) -> anyhow::Result<()> {
    let mut wanted = shape.labels();
    for namespace in stage.list("/api/v1/namespaces").await? {
        let metadata = &namespace["metadata"];
        let name = metadata["name"].as_str().unwrap_or_default();
        let Some(path) = wanted.remove(name) else { continue };
        let labels = metadata["labels"].as_object().into_iter().flatten();
        let found: BTreeMap<String, usize> = labels
            .filter_map(|(key, depth)| {
                Some((tree_label_namespace(key)?.to_owned(), depth.as_str()?.parse().ok()?))
            })
            .collect();
        ensure!(found == path, "{name} bears the tree labels {found:?} instead of {path:?}");
    }
    ensure!(wanted.is_empty(), "{} namespaces are missing", wanted.len());
    Ok(())
}

/// Sets a parent, whether there is a hierarchy already or not.
fn set_parent(child: &str, parent: &str) -> Call {
    let body = json!({
        "apiVersion": "hnc.x-k8s.io/v1alpha2",
        "kind": "HierarchyConfiguration",
        "metadata": { "name": "hierarchy" },
        "spec": { "parent": parent },
    });
    let path = format!(
        "/apis/hnc.x-k8s.io/v1alpha2/namespaces/{child}/hierarchyconfigurations/hierarchy?fieldManager=bench&force=true"
    );
    Call { apply: true, ..Call::new(Method::PATCH, path, body.to_string()) }
}

fn outcome(change: Change, limits: &[Vec<Rate>]) -> Outcome {
    let Change { name, what, seen, asked, needed, depths } = change;
    let limit = Limit::of(limits);
    let writes = decimal(asked + needed);
    let (time, cost) = (seen.wall, total(&seen.cpu));
    let mut outcome = Outcome::new(name, what, seen, needed);
    let ratio = Figure::new("time : limit's", time * limit.per_second / writes, "");
    outcome.figures = vec![
        if depths.is_none() { ratio.held_to(Target::AtMost(2.0)) } else { ratio },
        Figure::new("processor time : limit's", cost * 1e6 / (writes * limit.cost), ""),
        Figure::new("time", time, "s"),
        Figure::new("limit", limit.per_second, "/s"),
        Figure::new("processor time per needed write", cost * 1e6 / writes, "µs"),
        Figure::new("limit's processor time each", limit.cost, "µs"),
    ];
    let tenths = depths.into_iter().flatten().filter(|(depth, _)| *depth == 1 || depth % 10 == 0);
    outcome
        .figures
        .extend(tenths.map(|(depth, time)| Figure::new(format!("depth {depth} right after"), time, "s")));
    outcome.limits = limits.to_vec();
    outcome
}
