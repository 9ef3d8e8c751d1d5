//! Draws trees as a Mermaid flowchart.

use std::collections::{BTreeMap, BTreeSet};

use super::Node;
use crate::lines::Lines;

/// A flowchart with one node per namespace and one arrow from each parent to each child.
pub(crate) fn draw(trees: &[Node]) -> String {
    let mut chart = Chart::default();
    for tree in trees {
        chart.add(tree);
    }
    let mut text = String::from("flowchart LR\n");
    text.push_str(&chart.nodes);
    for (parent, child) in &chart.edges {
        text.line(format!("  {parent} --> {child}"));
    }
    text.push_str("  classDef sub stroke-dasharray: 4 3\n");
    text.push_str("  classDef complaining fill:#fff3cd,stroke:#997404\n");
    text.push_str("  classDef halted fill:#f8d7da,stroke:#b02a37\n");
    if chart.marked {
        text.push_str("  classDef source fill:#cfe2ff,stroke:#0a58ca\n");
        text.push_str("  classDef copy fill:#d1e7dd,stroke:#146c43\n");
    }
    text
}

#[derive(Default)]
struct Chart<'a> {
    nodes: String,
    /// Node identifiers are numbers, because a name may be a keyword of Mermaid.
    ids: BTreeMap<&'a str, String>,
    edges: BTreeSet<(String, String)>,
    /// Whether a node shows an object.
    marked: bool,
}

impl<'a> Chart<'a> {
    fn add(&mut self, node: &'a Node) -> String {
        let id = self.id(node);
        for child in &node.children {
            let child = self.add(child);
            self.edges.insert((id.clone(), child));
        }
        id
    }

    fn id(&mut self, node: &'a Node) -> String {
        if let Some(id) = self.ids.get(&*node.name) {
            return id.clone();
        }
        let id = format!("n{}", self.ids.len() + 1);
        let sub = if node.is_sub() { ":::sub" } else { "" };
        let mark = node.object.as_ref().map(|mark| format!("<br/>{}", mark.label())).unwrap_or_default();
        self.nodes.line(format!("  {id}[\"{}{mark}\"]{sub}", node.title()));
        if let Some(class) = node.class() {
            self.marked |= node.object.is_some();
            self.nodes.line(format!("  class {id} {class}"));
        }
        self.ids.insert(&node.name, id.clone());
        id
    }
}

#[cfg(test)]
mod tests {
    use super::super::{build, build_with_object};
    use super::*;
    use crate::object_states::tests::object_states;
    use crate::structure::tests::sketch;

    #[test]
    fn a_chart_of_a_tree() {
        let structure = sketch(&["a ! Bad (X): x", "[s] end < a", "c < end"]);
        let text = draw(&build(&structure, &["a".into()]));
        let wanted = "\
flowchart LR
  n1[\"a\"]
  class n1 complaining
  n2[\"end\"]:::sub
  n3[\"c\"]
  n1 --> n2
  n2 --> n3
";
        assert!(text.starts_with(wanted), "{text}");
    }

    #[test]
    fn an_object_is_named_in_the_nodes() {
        let lines = ["a", "b < a", "c < b", "d < a"];
        let all = object_states(&lines, &[("a", "", "!c"), ("b", "a", ""), ("d", "", "")]);
        let text = draw(&build_with_object(&all, &["a".into()]));
        for line in [
            "n1[\"a<br/>source\"]",
            "class n2 copy",
            "n3[\"c<br/>not copied\"]",
            "class n4 complaining",
            "classDef copy ",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
        assert!(!text.contains("class n3"), "an exception needs no attention: {text}");
    }
}
