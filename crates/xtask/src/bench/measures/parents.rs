//! Parents set and changed, until every tree label is right: against a plain client that makes as many patches as that needs.

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
use crate::bench::stage::{FILLING, Seen, Stage};
use crate::bench::{Scale, say};

const CHILDREN: usize = 10;

/// How many patches for each parent that is set the limit is measured with. More than are compared, for garbage is collected only
/// now and then.
const PATCHES: usize = 5;

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

impl Change {
    /// Both as one, of two rounds.
    fn and(self, later: Self) -> Self {
        Self {
            seen: self.seen.and(later.seen),
            asked: self.asked + later.asked,
            needed: self.needed + later.needed,
            ..self
        }
    }
}

pub(crate) async fn measure(stage: &mut Stage<'_>, scale: &Scale) -> anyhow::Result<Vec<Outcome>> {
    let count = scale.namespaces;
    let rounds: Vec<Round> = (0..scale.trees).map(|number| Round::new(number, count)).collect();
    let skewers = Shape::skewers("tree-skewer", count, scale.depth);
    let plain: Vec<String> = (0..count).map(|number| format!("plain-{number:04}")).collect();
    let trees = rounds.iter().flat_map(Round::names).chain(skewers.names().cloned());
    plant(stage, trees.chain(plain.iter().cloned()).collect()).await?;

    let (mut limits, mut changes) = (Vec::new(), Vec::new());
    for (number, round) in rounds.iter().enumerate() {
        let patches =
            |tried: usize| limit::label_patches(&plain, PATCHES * count, &format!("r{number}-{tried}"));
        for turn in limit::turns(number) {
            match turn {
                Turn::Limit => limits.push(limit::round(stage, scale, &limits, "patch", patches).await?),
                Turn::Product => changes.push(round.measure(stage).await?),
            }
        }
    }
    let mut all: Vec<Change> = changes.into_iter().reduce(together).into_iter().flatten().collect();
    all.push(skewered(stage, &skewers).await?);
    Ok(all.into_iter().map(|change| outcome(change, &limits)).collect())
}

/// What one round is made with. Each has namespaces of its own, whose parents are set for the first time.
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

    async fn measure(&self, stage: &mut Stage<'_>) -> anyhow::Result<[Change; 3]> {
        let wide = set(stage, "wide", &self.wide).await?;
        let full = set(stage, "full", &self.full).await?;
        Ok([wide, full, moved(stage, &self.full, &self.parents).await?])
    }
}

/// The changes of two rounds, each with its like.
fn together([wide, full, moved]: [Change; 3], later: [Change; 3]) -> [Change; 3] {
    let [later_wide, later_full, later_moved] = later;
    [wide.and(later_wide), full.and(later_full), moved.and(later_moved)]
}

async fn plant(stage: &mut Stage<'_>, names: Vec<String>) -> anyhow::Result<()> {
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
async fn moved(stage: &mut Stage<'_>, shape: &Shape, [old, new]: &[String; 2]) -> anyhow::Result<Change> {
    let root = &shape.roots[0];
    change(stage, vec![set_parent(root, old)]).await?;
    let seen = change(stage, vec![set_parent(root, new)]).await?;
    say(&format!("move: {:.2} s", seen.wall));
    let mut edges = vec![(root.clone(), new.clone())];
    edges.extend(shape.edges.iter().cloned());
    verify(stage, &Shape { edges, roots: vec![new.clone()] }).await?;
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
