//! Sets and changes parents, and measures until every tree label is right, relative to a plain client that sends as
//! many patches as that needs.

use std::collections::BTreeMap;

use anyhow::ensure;
use hns_api::labels::tree_label_namespace;
use http::Method;
use serde_json::json;

use crate::bench::audit::Record;
use crate::bench::client::Call;
use crate::bench::limit::{self, Limit, Turn};
use crate::bench::report::{Figure, Outcome, Rate, Target, decimal, total};
use crate::bench::shape::Shape;
use crate::bench::testbed::{FILLING, Measurement, Testbed};
use crate::bench::{Scale, say};

const CHILDREN: usize = 10;

/// The number of patches of the limit per parent. It exceeds the number that is compared, because the client's garbage
/// collection is irregular.
const PATCHES: usize = 5;

/// The measurements of one change.
struct Change {
    name: &'static str,
    what: String,
    seen: Measurement,
    /// The number of writes of the change itself, and the smallest number of writes of the product.
    asked: usize,
    needed: usize,
    /// When the labels of each depth were right; such a change has no target.
    depths: Option<BTreeMap<usize, f64>>,
}

impl Change {
    /// Combines the measurements of two rounds.
    fn combine(self, later: Self) -> Self {
        Self {
            seen: self.seen.combine(later.seen),
            asked: self.asked + later.asked,
            needed: self.needed + later.needed,
            ..self
        }
    }
}

pub(crate) async fn measure(testbed: &mut Testbed<'_>, scale: &Scale) -> anyhow::Result<Vec<Outcome>> {
    let count = scale.namespaces;
    let rounds: Vec<Round> = (0..scale.trees).map(|number| Round::new(number, count)).collect();
    let chains = Shape::chains("tree-skewer", count, scale.depth);
    let plain: Vec<String> = (0..count).map(|number| format!("plain-{number:04}")).collect();
    let trees = rounds.iter().flat_map(Round::names).chain(chains.names().cloned());
    create_namespaces(testbed, trees.chain(plain.iter().cloned()).collect()).await?;

    let (mut limits, mut changes) = (Vec::new(), Vec::new());
    for (number, round) in rounds.iter().enumerate() {
        let patches =
            |tried: usize| limit::label_patches(&plain, PATCHES * count, &format!("r{number}-{tried}"));
        for turn in limit::turns(number) {
            match turn {
                Turn::Limit => {
                    let raw = async |calls, parallel| testbed.raw(calls, parallel).await;
                    limits.push(limit::round(raw, scale, &limits, "patch", patches).await?);
                }
                Turn::Product => changes.push(round.measure(testbed).await?),
            }
        }
    }
    let mut all: Vec<Change> = changes.into_iter().reduce(combine_all).into_iter().flatten().collect();
    all.push(set_chains(testbed, &chains).await?);
    Ok(all.into_iter().map(|change| outcome(change, &limits)).collect())
}

/// The trees of one round. Each round has its own namespaces, whose parents are set for the first time.
struct Round {
    wide: Shape,
    full: Shape,
    /// The parents between which the root of `full` is moved.
    parents: [String; 2],
}

impl Round {
    fn new(number: usize, count: usize) -> Self {
        let name = |what: &str| format!("tree-{what}{number}");
        Self {
            wide: Shape::wide(&name("wide"), count),
            full: Shape::tree(&name("full"), count, CHILDREN),
            parents: ["old", "new"].map(name),
        }
    }

    fn names(&self) -> impl Iterator<Item = String> {
        self.wide.names().chain(self.full.names()).chain(&self.parents).cloned()
    }

    async fn measure(&self, testbed: &mut Testbed<'_>) -> anyhow::Result<[Change; 3]> {
        let wide = set(testbed, "wide", &self.wide).await?;
        let full = set(testbed, "full", &self.full).await?;
        Ok([wide, full, moved(testbed, &self.full, &self.parents).await?])
    }
}

/// Combines the changes of two rounds.
fn combine_all([wide, full, moved]: [Change; 3], later: [Change; 3]) -> [Change; 3] {
    let [later_wide, later_full, later_moved] = later;
    [wide.combine(later_wide), full.combine(later_full), moved.combine(later_moved)]
}

async fn create_namespaces(testbed: &mut Testbed<'_>, names: Vec<String>) -> anyhow::Result<()> {
    say(&format!("creating {} namespaces", names.len()));
    testbed.create_namespaces(&names).await
}

/// Sets all parents of a shape.
async fn set(testbed: &mut Testbed<'_>, name: &'static str, shape: &Shape) -> anyhow::Result<Change> {
    let calls: Vec<Call> = shape.edges.iter().map(|(child, parent)| set_parent(child, parent)).collect();
    let asked = calls.len();
    let seen = change(testbed, calls).await?;
    say(&format!("{name}: {asked} parents in {:.2} s", seen.wall));
    verify(testbed, shape).await?;
    // The labels of each namespace, the label of the roots, which have children now, and the list of children in each
    // parent's status. Other parents are marked together with their labels.
    let needed = shape.edges.len() + shape.roots.len() + shape.parents();
    Ok(Change { name, what: format!("{asked} parents"), seen, asked, needed, depths: None })
}

/// Like [`set`], with the time of each depth.
async fn set_chains(testbed: &mut Testbed<'_>, shape: &Shape) -> anyhow::Result<Change> {
    let mut change = set(testbed, "skewer", shape).await?;
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
async fn moved(testbed: &mut Testbed<'_>, shape: &Shape, [old, new]: &[String; 2]) -> anyhow::Result<Change> {
    let root = &shape.roots[0];
    change(testbed, vec![set_parent(root, old)]).await?;
    let seen = change(testbed, vec![set_parent(root, new)]).await?;
    say(&format!("move: {:.2} s", seen.wall));
    let mut edges = vec![(root.clone(), new.clone())];
    edges.extend(shape.edges.iter().cloned());
    verify(testbed, &Shape { edges, roots: vec![new.clone()] }).await?;
    let size = shape.edges.len() + 1;
    // The labels of each namespace, in one write because nothing is inherited; the label and the list of children of
    // both parents.
    let needed = size + 4;
    Ok(Change { name: "move", what: format!("a tree of {size}"), seen, asked: 1, needed, depths: None })
}

/// Makes a change and waits until it has no further effects; the time is that of the last label.
async fn change(testbed: &mut Testbed<'_>, calls: Vec<Call>) -> anyhow::Result<Measurement> {
    testbed.rest().await?;
    let mut window = testbed.open()?;
    testbed.client.send(calls, FILLING).await?;
    testbed.wait_settled(&mut window, is_label).await
}

fn is_label(record: &Record) -> bool {
    record.who == "controller" && record.resource == "namespaces" && record.is_write() && record.succeeded()
}

/// Checks that every namespace of the shape has exactly its tree labels.
async fn verify(testbed: &Testbed<'_>, shape: &Shape) -> anyhow::Result<()> {
    let mut wanted = shape.labels();
    for namespace in testbed.list("/api/v1/namespaces").await? {
        let metadata = &namespace["metadata"];
        let name = metadata["name"].as_str().unwrap_or_default();
        let Some(path) = wanted.remove(name) else { continue };
        let labels = metadata["labels"].as_object().into_iter().flatten();
        let found: BTreeMap<String, usize> = labels
            .filter_map(|(key, depth)| {
                Some((tree_label_namespace(key)?.to_owned(), depth.as_str()?.parse().ok()?))
            })
            .collect();
        ensure!(found == path, "{name} has the tree labels {found:?} instead of {path:?}");
    }
    ensure!(wanted.is_empty(), "{} namespaces are missing", wanted.len());
    Ok(())
}

/// Sets a parent, whether or not the hierarchy configuration exists.
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
    let what = if depths.is_none() { format!("{} times {what}", limits.len()) } else { what };
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
