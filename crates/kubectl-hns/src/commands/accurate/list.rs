//! `list`, `sub list` and `template list`: draw the trees that the labels of namespaces make.

use std::collections::{BTreeMap, BTreeSet};

use clap::Args;
use hns_api::accurate::labels::{PARENT, TEMPLATE, TYPE};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::ListParams;

use super::place::Place;
use super::{failed, note_on_place};
use crate::commands::tree::{Form, drawn};
use crate::failure::Done;
use crate::lines::{self, Lines};
use crate::picture::Node;
use crate::published;
use crate::session::Session;
use crate::{Failure, Terminal};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The namespace at the top. Without it, all trees are drawn.
    #[arg(value_name = "NAMESPACE", value_parser = crate::flags::namespace)]
    root: Option<String>,

    /// Output format.
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Form>,
}

/// One sort of edges between namespaces.
#[derive(Debug, Clone, Copy)]
pub(super) struct Edges {
    /// The label that names the namespace above.
    pub(super) label: &'static str,
    /// The type of a namespace at the top.
    pub(super) top: &'static str,
}

pub(super) async fn run(arguments: &Arguments, edges: Edges, session: &Session, terminal: &Terminal) -> Done {
    let listed = session.list_metadata(&session.all::<Namespace>(), &ListParams::default()).await;
    let listed = listed.map_err(|problem| failed("namespaces cannot be listed", &problem))?;
    let namespaces: Vec<ObjectMeta> = listed.into_iter().map(|it| it.metadata).collect();
    let mut trees = trees(&namespaces, edges, arguments.root.as_deref())?;
    if session.names_installation {
        super::describe::installed(session).await?;
    }
    let settings = published::settings_beside_accurate(session).await;
    if let Some(settings) = &settings {
        for tree in &mut trees {
            tree.exclude(settings);
        }
    }
    if trees.is_empty() {
        let only = if edges.label == TEMPLATE { " without a template of its own" } else { "" };
        terminal.note(&format!("no namespace has the label {TYPE}={}{only}", edges.top));
    }
    let (templates, lost) =
        if arguments.root.is_none() { left_out(&namespaces, edges, &trees) } else { Default::default() };
    match arguments.output {
        None => terminal.print(&text(&trees)),
        form => terminal.print(&drawn(&trees, form, terminal)?),
    }
    if let Some(template) = templates.first() {
        terminal.note(&format!(
            "sub-namespaces that others name as their template are not shown: {}; `kubectl accurate template list {template}` shows the instances of {template}",
            lines::first(&templates, 5)
        ));
    }
    if !lost.is_empty() {
        terminal.note(&format!(
            "not shown, because no tree begins above them: {}; `kubectl accurate doctor` checks the trees",
            lines::first(&lost, 5)
        ));
    }
    if let Some(name) = arguments.root.as_deref()
        && let Some(root) = namespaces.iter().find(|it| it.name.as_deref() == Some(name))
    {
        let mut place = Place::of(root);
        place.look_into_hnc(session, name).await;
        if let Some(note) = note_on_place(name, &place, settings.as_ref()) {
            terminal.note(&note);
        }
    }
    Ok(())
}

/// The sub-namespaces that are templates, if they are in none of all trees; and the namespaces with a label of these edges that are neither
/// in one nor below such a template.
fn left_out(namespaces: &[ObjectMeta], edges: Edges, drawn: &[Node]) -> (Vec<String>, Vec<String>) {
    let mut shown: BTreeSet<String> = drawn.iter().flat_map(Node::all).map(|it| it.name.clone()).collect();
    let is_sub = |it: &&ObjectMeta| edges.label == TEMPLATE && label(it, PARENT).is_some();
    let subs = namespaces.iter().filter(is_sub).filter_map(|it| it.name.as_deref());
    let templates: Vec<Node> = subs
        .filter(|name| !shown.contains(*name))
        .flat_map(|name| trees(namespaces, edges, Some(name)).unwrap_or_default())
        .filter(|tree| !tree.children.is_empty())
        .collect();
    shown.extend(templates.iter().flat_map(Node::all).map(|it| it.name.clone()));
    let has_edge = |it: &&ObjectMeta| label(it, edges.label).is_some();
    let names = namespaces.iter().filter(has_edge).filter_map(|it| it.name.clone());
    let lost = names.filter(|name| !shown.contains(name)).collect();
    (templates.into_iter().map(|it| it.name).collect(), lost)
}

/// A label that is not empty.
fn label(namespace: &ObjectMeta, key: &str) -> Option<String> {
    namespace.labels.as_ref()?.get(key).filter(|it| !it.is_empty()).cloned()
}

/// The tree below `root`, or all trees.
fn trees(namespaces: &[ObjectMeta], edges: Edges, root: Option<&str>) -> Result<Vec<Node>, Failure> {
    let all = Namespaces {
        known: namespaces.iter().filter_map(|it| Some((it.name.as_deref()?, it))).collect(),
        above: namespaces
            .iter()
            .filter_map(|it| Some((it.name.as_deref()?, label(it, edges.label)?)))
            .collect(),
    };
    let is_top = |name: &str| {
        let kind = all.known.get(name).and_then(|it| label(it, TYPE));
        kind.as_deref() == Some(edges.top) && (edges.label == PARENT || !all.above.contains_key(name))
    };
    match root {
        Some(root) if all.known.contains_key(root) => Ok(vec![all.node(root, &mut Vec::new())]),
        Some(root) => Err(Failure::new(format!(
            "Error: namespace {root} not found. ensure the namespace exists and is correctly labeled"
        ))
        .with_hint("`kubectl get namespaces` shows all namespaces.")),
        None => {
            let tops = all.known.keys().filter(|name| is_top(name));
            Ok(tops.map(|name| all.node(name, &mut Vec::new())).collect())
        }
    }
}

struct Namespaces<'a> {
    /// All, by name.
    known: BTreeMap<&'a str, &'a ObjectMeta>,
    /// The name in the label of those that have one.
    above: BTreeMap<&'a str, String>,
}

impl<'a> Namespaces<'a> {
    /// A member of a cycle is repeated where the cycle closes, without the nodes below it.
    fn node(&self, name: &'a str, path: &mut Vec<&'a str>) -> Node {
        let mut children = Vec::new();
        if !path.contains(&name) {
            path.push(name);
            let below = self.above.iter().filter(|(_, above)| *above == name);
            children.extend(below.map(|(child, _)| self.node(child, path)));
            path.pop();
        }
        let seen = self.known.get(name);
        let labels = seen.and_then(|it| it.labels.as_ref());
        Node {
            name: name.to_owned(),
            subnamespace: Some(labels.is_some_and(|it| it.contains_key(PARENT))),
            excluded: false,
            external_manager: None,
            terminating: seen.is_some_and(|it| it.deletion_timestamp.is_some()),
            conditions: Vec::new(),
            object: None,
            omitted: 0,
            children,
        }
    }
}

/// The trees as Accurate's plugin draws them: the namespaces at the top have branches, too.
fn text(trees: &[Node]) -> String {
    fn level(nodes: &[Node], indent: &str, text: &mut String) {
        let last = nodes.len().saturating_sub(1);
        for (place, node) in nodes.iter().enumerate() {
            let (branch, more) =
                if place == last { ("└── ", "    ") } else { ("├── ", "│   ") };
            text.line(format!("{indent}{branch}{}", node.title()));
            level(&node.children, &format!("{indent}{more}"), text);
        }
    }
    let mut text = String::new();
    level(trees, "", &mut text);
    text
}

#[cfg(test)]
mod tests {
    use forest::Settings;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use k8s_openapi::jiff::Timestamp;

    use super::super::{OF_ROOTS, OF_TEMPLATES};
    use super::*;

    /// Namespaces from words: the name, then its labels without their prefix.
    fn namespaces(lines: &[&str]) -> Vec<ObjectMeta> {
        let namespace = |line: &&str| {
            let mut words = line.split_whitespace();
            let name = words.next().map(str::to_owned);
            let pair = |word: &str| {
                let (key, value) = word.split_once('=').unwrap();
                (format!("accurate.cybozu.com/{key}"), value.to_owned())
            };
            ObjectMeta { name, labels: Some(words.map(pair).collect()), ..ObjectMeta::default() }
        };
        lines.iter().map(namespace).collect()
    }

    fn drawing(lines: &[&str], edges: Edges, root: Option<&str>) -> String {
        trees(&namespaces(lines), edges, root).map_or_else(|failure| failure.text, |it| text(&it))
    }

    const WORLD: [&str; 8] = [
        "b type=root template=t",
        "a type=root",
        "a-2 parent=a",
        "a-1 parent=a",
        "a-1-x parent=a-1",
        "t type=template",
        "u type=template template=t",
        "plain parent=",
    ];

    #[test]
    fn all_roots_are_drawn_sorted_and_with_branches() {
        let wanted = "├── a\n│   ├── a-1\n│   │   └── a-1-x\n│   └── a-2\n└── b\n";
        assert_eq!(drawing(&WORLD, OF_ROOTS, None), wanted);
        assert_eq!(drawing(&WORLD, OF_TEMPLATES, None), "└── t\n    ├── b\n    └── u\n");
        assert_eq!(drawing(&[], OF_ROOTS, None), "");
    }

    #[test]
    fn namespaces_that_are_excluded_or_being_deleted_are_marked() {
        let settings = Settings::new("home", ["a-1"], "[^b].*").unwrap();
        let mut namespaces = namespaces(&WORLD);
        namespaces[2].deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        let mut trees = trees(&namespaces, OF_ROOTS, None).unwrap();
        for tree in &mut trees {
            tree.exclude(&settings);
        }
        let wanted =
            "├── a\n│   ├── a-1 [excluded]\n│   │   └── a-1-x\n│   └── a-2 [terminating]\n└── b [excluded]\n";
        assert_eq!(text(&trees), wanted);
        let data = serde_json::to_value(&trees).unwrap();
        assert_eq!(data[0]["children"][0]["excluded"], true);
        assert_eq!(data[0].get("excluded"), None);
    }

    #[test]
    fn what_is_in_no_tree_is_named() {
        let left_out = |lines: &[&str], edges| {
            let namespaces = namespaces(lines);
            left_out(&namespaces, edges, &trees(&namespaces, edges, None).unwrap())
        };
        let nothing = (Vec::<String>::new(), Vec::<String>::new());
        assert_eq!(left_out(&WORLD, OF_ROOTS), nothing);
        assert_eq!(left_out(&WORLD, OF_TEMPLATES), nothing);
        let lost = [
            "r type=root",
            "a parent=r",
            "n",
            "o parent=gone",
            "p parent=o",
            "q parent=n",
            "x parent=y",
            "y parent=x",
        ];
        assert_eq!(left_out(&lost, OF_ROOTS).1, ["o", "p", "q", "x", "y"]);
        assert_eq!(left_out(&["i template=gone", "n"], OF_TEMPLATES).1, ["i"]);
        let instance = ["r type=root", "s parent=r", "other parent=r", "i template=s", "j template=i"];
        assert_eq!(left_out(&instance, OF_ROOTS), nothing);
        assert_eq!(left_out(&instance, OF_TEMPLATES), (vec!["s".to_owned()], Vec::new()));
        let shown = ["r type=root", "s parent=r type=template", "i template=s"];
        assert_eq!(left_out(&shown, OF_TEMPLATES), nothing);
    }

    #[test]
    fn any_namespace_can_be_at_the_top() {
        assert_eq!(drawing(&WORLD, OF_ROOTS, Some("a-1")), "└── a-1\n    └── a-1-x\n");
        assert_eq!(drawing(&WORLD, OF_TEMPLATES, Some("u")), "└── u\n");
        assert_eq!(
            drawing(&WORLD, OF_ROOTS, Some("gone")),
            "Error: namespace gone not found. ensure the namespace exists and is correctly labeled"
        );
        let cycle = ["x parent=y", "y parent=x"];
        assert_eq!(drawing(&cycle, OF_ROOTS, Some("x")), "└── x\n    └── y\n        └── x\n");
    }
}
