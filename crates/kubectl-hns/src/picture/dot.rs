//! The trees as a graph for Graphviz.

use std::collections::BTreeSet;

use super::{Health, Node};
use crate::lines::Lines;

/// A digraph: one node a namespace, one edge from each parent to each child.
pub(crate) fn draw(trees: &[Node]) -> String {
    let mut text = String::from(
        "digraph hierarchy {\n  rankdir=LR;\n  node [shape=box, style=\"rounded,filled\", fillcolor=\"#ffffff\", fontname=\"monospace\"];\n",
    );
    let (mut seen, mut edges) = (BTreeSet::new(), BTreeSet::new());
    for tree in trees {
        add(tree, &mut seen, &mut edges, &mut text);
    }
    for (parent, child) in edges {
        text.line(format!("  {parent:?} -> {child:?};"));
    }
    text.push_str("}\n");
    text
}

fn add<'a>(
    node: &'a Node,
    seen: &mut BTreeSet<&'a str>,
    edges: &mut BTreeSet<(&'a str, &'a str)>,
    text: &mut String,
) {
    if seen.insert(&node.name) {
        let style = if node.subnamespace { ", style=\"rounded,filled,dashed\"" } else { "" };
        let fill = match node.health() {
            Health::Well => "",
            Health::Complaining => ", fillcolor=\"#fff3cd\"",
            Health::Halted => ", fillcolor=\"#f8d7da\"",
        };
        let tooltip: Vec<String> = node.conditions.iter().map(super::Shown::line).collect();
        let tooltip =
            if tooltip.is_empty() { String::new() } else { format!(", tooltip={:?}", tooltip.join("; ")) };
        text.line(format!("  {:?} [label={:?}{style}{fill}{tooltip}];", node.name, node.name));
    }
    for child in &node.children {
        edges.insert((&node.name, &child.name));
        add(child, seen, edges, text);
    }
}

#[cfg(test)]
mod tests {
    use super::super::grow;
    use super::*;
    use crate::evidence::tests::sketch;

    #[test]
    fn nodes_and_edges_stand_once() {
        let evidence = sketch(&["a", "[s] b < a", "x < y ! ActivitiesHalted (InCycle): \"q\"", "y < x"]);
        let text = draw(&grow(&evidence, &["a".into(), "x".into(), "y".into()]));
        for (line, times) in [
            ("  \"a\" [label=\"a\"];\n", 1),
            ("  \"b\" [label=\"b\", style=\"rounded,filled,dashed\"];\n", 1),
            ("tooltip=\"ActivitiesHalted (InCycle): \\\"q\\\"\"", 1),
            ("  \"a\" -> \"b\";\n", 1),
            ("  \"x\" -> \"y\";\n", 1),
            ("  \"y\" -> \"x\";\n", 1),
        ] {
            assert_eq!(text.matches(line).count(), times, "{line}\n{text}");
        }
    }
}
