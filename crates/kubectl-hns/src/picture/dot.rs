//! Draws trees as a graph for Graphviz.

use std::collections::BTreeSet;

use super::Node;
use crate::lines::Lines;

/// A digraph with one node per namespace and one edge from each parent to each child.
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
        let style = if node.is_sub() { ", style=\"rounded,filled,dashed\"" } else { "" };
        let fill = match node.class() {
            None => "",
            Some("halted") => ", fillcolor=\"#f8d7da\"",
            Some("source") => ", fillcolor=\"#cfe2ff\"",
            Some("copy") => ", fillcolor=\"#d1e7dd\"",
            Some(_) => ", fillcolor=\"#fff3cd\"",
        };
        let remarks = node.remarks();
        let tooltip =
            if remarks.is_empty() { String::new() } else { format!(", tooltip={:?}", remarks.join("; ")) };
        let mark = node.object.as_ref().map(|mark| format!("\n{}", mark.label())).unwrap_or_default();
        let label = format!("{}{mark}", node.title());
        text.line(format!("  {:?} [label={label:?}{style}{fill}{tooltip}];", node.name));
    }
    for child in &node.children {
        edges.insert((&node.name, &child.name));
        add(child, seen, edges, text);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{build, build_with_object};
    use super::*;
    use crate::object_states::tests::object_states;
    use crate::structure::tests::sketch;

    #[test]
    fn nodes_and_edges_are_not_repeated() {
        let structure = sketch(&["a", "[s] b < a", "x < y ! ActivitiesHalted (InCycle): \"q\"", "y < x"]);
        let text = draw(&build(&structure, &["a".into(), "x".into(), "y".into()]));
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

    #[test]
    fn an_object_is_named_in_the_nodes() {
        let all = object_states(&["a", "b < a", "c < a"], &[("a", "", "!b"), ("c", "", "")]);
        let text = draw(&build_with_object(&all, &["a".into()]));
        assert!(text.contains("  \"a\" [label=\"a\\nsource\", fillcolor=\"#cfe2ff\"];\n"), "{text}");
        let excluded = "[label=\"b\\nnot copied\", tooltip=\"the one in a is not copied here";
        let conflict = "[label=\"c\\nconflict\", fillcolor=\"#fff3cd\", tooltip=\"it is not a copy";
        assert!(text.contains(excluded) && text.contains(conflict), "{text}");
    }
}
