//! `hrq --tree`: how much of a quota is used, and by which namespaces below.

use std::collections::BTreeMap;

use forest::hnc::quota::Resources;
use forest::{Name, Quantity, Settings};
use hns_api::HierarchicalResourceQuota;
use hns_cluster::ingest::quotas::amounts;
use serde_json::json;
use unicode_width::UnicodeWidthStr;

use crate::lines::Lines;
use crate::picture::{Node, build};
use crate::published;
use crate::quotas;
use crate::session::Session;
use crate::structure::{self, Extent, Structure};
use crate::table::aligned;
use crate::terminal::{Ink, Paint};
use crate::{Failure, Terminal};

/// The width of a bar in characters.
const BAR: i64 = 20;

/// A quota with the usage of each namespace that it limits.
struct View {
    namespace: String,
    name: String,
    /// The limits in force.
    hard: Resources,
    /// Those of `spec`.
    wanted: Resources,
    used: Resources,
    /// What the conditions say, one line each.
    conditions: Vec<(Ink, String)>,
    tree: Node,
    /// The namespaces that count too, although their parent does not exist.
    orphans: Vec<Node>,
    /// What each namespace uses itself; namespaces that cannot be read are missing.
    usage: BTreeMap<Name, Resources>,
}

/// Draws each quota.
pub(super) async fn show(
    quotas: &[HierarchicalResourceQuota],
    session: &Session,
    terminal: &Terminal,
) -> Result<(), Failure> {
    let mut roots: Vec<String> = quotas.iter().filter_map(|it| it.metadata.namespace.clone()).collect();
    roots.dedup();
    let structure = structure::read(session, Extent::Below(&roots)).await?;
    let (settings, _) = published::settings(session).await;
    let everywhere = match quotas::usage(session).await {
        Ok(all) => Some(all.into_iter().map(|(namespace, quota)| (namespace, quota.used)).collect()),
        Err(problem) if problem.is_forbidden() => None,
        Err(problem) => return Err(Failure::because("resourcequotas cannot be listed", &problem)),
    };
    let mut views = Vec::new();
    let mut unread = Vec::new();
    for quota in quotas {
        let mut view = View::new(quota, &structure, &settings);
        match &everywhere {
            Some(all) => view.take_usage(all),
            None => unread.extend(view.read_usage(session).await?),
        }
        views.push(view);
    }
    let drawn: Vec<String> = views.iter().map(|view| view.text(terminal.paint)).collect();
    terminal.print(&drawn.join("\n"));
    unread.sort();
    unread.dedup();
    if !unread.is_empty() {
        terminal.note(&format!(
            "you may not read resourcequotas in {}; their usage is not shown",
            unread.join(", ")
        ));
    }
    structure.notes.iter().for_each(|note| terminal.note(note));
    Ok(())
}

impl View {
    fn new(quota: &HierarchicalResourceQuota, structure: &Structure, settings: &Settings) -> Self {
        let namespace = quota.metadata.namespace.clone().unwrap_or_default();
        let status = quota.status.clone().unwrap_or_default();
        let conditions = status.conditions.iter().flatten();
        let conditions = conditions.filter_map(|it| match (&*it.type_, &*it.status) {
            ("Enforced", "True") => Some((Ink::Good, "enforced".to_owned())),
            ("Enforced", _) => Some((
                Ink::Warning,
                format!("{} ({}): {}", quotas::not_enforced(&it.reason), it.reason, it.message),
            )),
            ("Exceeded", "True") => Some((Ink::Bad, format!("exceeded: {}", it.message))),
            _ => None,
        });
        let mut tree = build(structure, &[namespace.as_str().into()]).remove(0);
        // A quota limits no excluded namespace, and none below one.
        tree.each(&mut |node| node.children.retain(|it| settings.is_managed(&it.name)));
        let mut orphans = structure.forest().orphans_below(&namespace);
        orphans.retain(|it| settings.is_managed(it));
        let orphans = build(structure, &orphans);
        Self {
            name: quota.metadata.name.clone().unwrap_or_default(),
            hard: amounts(&json!(status.hard)),
            wanted: amounts(&json!(quota.spec.hard)),
            used: amounts(&json!(status.used)),
            conditions: conditions.collect(),
            tree,
            orphans,
            usage: BTreeMap::new(),
            namespace,
        }
    }

    /// A namespace without a derived quota uses nothing that is counted.
    fn take_usage(&mut self, all: &BTreeMap<Name, Resources>) {
        let used = |node: &Node| all.get(&*node.name).cloned().unwrap_or_default();
        self.usage = self.nodes().map(|node| (node.name.as_str().into(), used(node))).collect();
    }

    fn nodes(&self) -> impl Iterator<Item = &Node> {
        std::iter::once(&self.tree).chain(&self.orphans).flat_map(Node::all)
    }

    /// Reads the usage of each namespace; returns those that may not be read.
    async fn read_usage(&mut self, session: &Session) -> Result<Vec<String>, Failure> {
        let mut unread = Vec::new();
        let names: Vec<String> = self.nodes().map(|node| node.name.clone()).collect();
        for name in names {
            match quotas::derived_in(session, &name).await {
                Ok(derived) => {
                    let used = derived.map(|it| it.used).unwrap_or_default();
                    self.usage.insert(name.as_str().into(), used);
                }
                Err(problem) if problem.is_forbidden() => unread.push(name),
                Err(problem) => return Err(Failure::because("resourcequotas cannot be read", &problem)),
            }
        }
        Ok(unread)
    }

    fn text(&self, paint: Paint) -> String {
        let mut text = String::new();
        text.line(format!("{} in namespace {}", self.name, self.namespace));
        for (ink, line) in &self.conditions {
            text.line(paint.ink(*ink, line));
        }
        if self.hard.is_empty() {
            text.line(self.not_in_force());
            return text;
        }
        text.push('\n');
        let (mut bars, mut rows) = (self.bars(), self.rows());
        same_width(&mut bars, &mut rows);
        text.push_str(&aligned(&bars, 2));
        text.push('\n');
        text.push_str(&aligned(&rows, 2));
        for orphan in &self.orphans {
            text.line(format!(
                "{} counts too: its parent does not exist, and it is still limited",
                orphan.name
            ));
        }
        text
    }

    /// The limits of a quota of which none is in force.
    fn not_in_force(&self) -> String {
        if self.wanted.is_empty() {
            return "no limits".to_owned();
        }
        let limits: Vec<String> = self.wanted.iter().map(|(name, limit)| format!("{name} {limit}")).collect();
        format!("limits, not in force: {}", limits.join(", "))
    }

    /// Each limit with a bar.
    fn bars(&self) -> Vec<Vec<String>> {
        let lines = self.hard.iter().map(|(name, hard)| {
            let used = self.used.get(name).copied().unwrap_or_default();
            let percent = used.percent_of(*hard);
            vec![name.to_string(), bar(percent), format!("{used}/{hard}"), format!("{percent}%")]
        });
        lines.collect()
    }

    /// The tree, with what each namespace and all below it use.
    fn rows(&self) -> Vec<Vec<String>> {
        let names = self.hard.keys().map(ToString::to_string);
        let mut rows = vec![std::iter::once("NAMESPACE".to_owned()).chain(names).collect()];
        for root in std::iter::once(&self.tree).chain(&self.orphans) {
            self.row(root, "", "", &mut rows);
        }
        rows
    }

    fn row(&self, node: &Node, own: &str, below: &str, rows: &mut Vec<Vec<String>>) {
        let mark = if node.is_sub() && !own.is_empty() { "[s] " } else { "" };
        let cells = self.hard.keys().map(|name| self.total(node, name));
        rows.push(std::iter::once(format!("{own}{mark}{}", node.title())).chain(cells).collect());
        let last = node.children.len().saturating_sub(1);
        for (place, child) in node.children.iter().enumerate() {
            let (branch, more) =
                if place == last { ("└── ", "    ") } else { ("├── ", "│   ") };
            self.row(child, &format!("{below}{branch}"), &format!("{below}{more}"), rows);
        }
    }

    /// What the namespace itself uses, if that is known.
    fn own(&self, node: &Node, name: &str) -> Option<Quantity> {
        self.usage.get(&*node.name).map(|used| used.get(name).copied().unwrap_or_default())
    }

    /// What the namespace and all below it use, if that is known.
    fn sum(&self, node: &Node, name: &str) -> Option<Quantity> {
        let all: Option<Vec<Quantity>> = node.all().into_iter().map(|node| self.own(node, name)).collect();
        all.map(|all| all.into_iter().sum())
    }

    /// What the namespace and all below it use, and what it uses itself if that differs.
    fn total(&self, node: &Node, name: &str) -> String {
        match (self.sum(node, name), self.own(node, name)) {
            (Some(total), Some(own)) => {
                if total == own {
                    total.to_string()
                } else {
                    format!("{total} (own {own})")
                }
            }
            (None, Some(own)) => format!("? (own {own})"),
            _ => "?".to_owned(),
        }
    }
}

/// Makes the first columns of both tables equally wide.
fn same_width(one: &mut [Vec<String>], other: &mut [Vec<String>]) {
    let width = |rows: &[Vec<String>]| rows.iter().map(|row| row[0].width()).max().unwrap_or(0);
    let wanted = width(one).max(width(other));
    for row in [one.first_mut(), other.first_mut()].into_iter().flatten() {
        let missing = wanted - row[0].width();
        row[0].push_str(&" ".repeat(missing));
    }
}

fn bar(percent: i64) -> String {
    let full = usize::try_from((percent.clamp(0, 100) * BAR + 50) / 100).unwrap_or_default();
    let whole = usize::try_from(BAR).unwrap_or_default();
    format!("{}{}", "█".repeat(full), "░".repeat(whole - full))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::structure::settings;
    use crate::structure::tests::sketch;

    #[test]
    fn an_orphan_that_counts_is_shown_below_the_tree() {
        let quota = serde_json::from_value(json!({
            "metadata": { "name": "team", "namespace": "a" },
            "status": { "hard": { "pods": "4" }, "used": { "pods": "3" } },
        }))
        .unwrap();
        let mut structure = sketch(&["a", "b < a", "x < gone", "y < x", "other < gone", "hnc-system < gone"]);
        let place = [("a.tree.hnc.x-k8s.io/depth", "2"), ("x.tree.hnc.x-k8s.io/depth", "0")];
        for name in ["x", "hnc-system"] {
            structure.namespaces.get_mut(name).unwrap().labels = place.into_iter().collect();
        }
        let mut view = View::new(&quota, &structure, &settings());
        let used = |pods: &str| amounts(&json!({ "pods": pods }));
        view.usage =
            [("a", "0"), ("b", "1"), ("x", "0"), ("y", "2")].map(|(name, it)| (name.into(), used(it))).into();
        let wanted = "\
team in namespace a

pods       ███████████████░░░░░  3/4  75%

NAMESPACE  pods
a          1 (own 0)
└── b      1
x          2 (own 0)
└── y      2
x counts too: its parent does not exist, and it is still limited
";
        assert_eq!(view.text(Paint::NONE), wanted);
    }

    #[test]
    fn limits_that_are_not_in_force_are_named() {
        for (spec, said) in [
            (json!({}), "no limits"),
            (
                json!({ "hard": { "pods": "4", "limits.cpu": "2" } }),
                "limits, not in force: limits.cpu 2, pods 4",
            ),
        ] {
            let metadata = json!({ "name": "team", "namespace": "a" });
            let quota = serde_json::from_value(json!({ "metadata": metadata, "spec": spec })).unwrap();
            let text = View::new(&quota, &sketch(&["a"]), &settings()).text(Paint::NONE);
            assert_eq!(text, format!("team in namespace a\n{said}\n"));
        }
    }

    #[test]
    fn a_quota_is_drawn_with_its_bars_and_the_usage_of_its_subtree() {
        let quota = serde_json::from_value(json!({
            "metadata": { "name": "team", "namespace": "a" },
            "status": {
                "hard": { "pods": "4", "limits.memory": "1Gi" }, "used": { "pods": "3", "limits.memory": "0" },
                "conditions": [
                    { "type": "Enforced", "status": "True", "reason": "LimitsInForce", "message": "x", "lastTransitionTime": "2026-01-01T00:00:00Z" },
                    { "type": "Exceeded", "status": "False", "reason": "WithinLimits", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z" },
                ],
            },
        }))
        .unwrap();
        let mut view = View::new(
            &quota,
            // hnc-system and what is below it are in no tree.
            &sketch(&["a", "[s] b < a", "c < b", "d < a", "hnc-system < a", "e < hnc-system"]),
            &settings(),
        );
        let used = |pods: &str| amounts(&json!({ "pods": pods }));
        view.usage = [("a", "0"), ("b", "1"), ("c", "2")].map(|(name, it)| (name.into(), used(it))).into();
        let wanted = "\
team in namespace a
enforced

limits.memory  ░░░░░░░░░░░░░░░░░░░░  0/1Gi  0%
pods           ███████████████░░░░░  3/4    75%

NAMESPACE      limits.memory  pods
a              ? (own 0)      ? (own 0)
├── [s] b      0              3 (own 1)
│   └── c      0              2
└── d          ?              ?
";
        assert_eq!(view.text(Paint::NONE), wanted);
        view.usage.insert("d".into(), used("1"));
        let text = view.text(Paint::NONE);
        assert!(
            text.contains("3/4    75%") && text.contains("a              0              4 (own 0)"),
            "{text}"
        );
    }
}
