//! Draws trees as SVG: boxes from left to right, readable on light and dark backgrounds, without scripts.

use std::collections::BTreeSet;

use super::Node;
use crate::lines::Lines;

/// The width of a letter of the monospaced font, and the other sizes, in pixels.
const LETTER: f64 = 7.8;
const PADDING: f64 = 10.0;
const HEIGHT: f64 = 24.0;
const ROW: f64 = 32.0;
const GAP: f64 = 44.0;
const MARGIN: f64 = 12.0;

const STYLE: &str = "\
text{font:13px ui-monospace,monospace;fill:#1f2328}\
rect{fill:#f6f8fa;stroke:#57606a}\
.sub{stroke-dasharray:4 3}\
.complaining{fill:#fff3cd;stroke:#997404}\
.halted{fill:#f8d7da;stroke:#b02a37}\
path{fill:none;stroke:#8c959f}\
@media(prefers-color-scheme:dark){text{fill:#e6edf3}rect{fill:#161b22;stroke:#8b949e}\
.complaining{fill:#332701;stroke:#ffda6a}.halted{fill:#2c0b0e;stroke:#ea868f}path{stroke:#6e7681}}";

/// The style of boxes that show an object.
const MARKS: &str = "\
.source{fill:#cfe2ff;stroke:#0a58ca}.copy{fill:#d1e7dd;stroke:#146c43}\
@media(prefers-color-scheme:dark){.source{fill:#031633;stroke:#6ea8fe}.copy{fill:#051b11;stroke:#75b798}}";

/// The meaning of the styles of boxes.
const LEGEND: [(&str, &str); 5] = [
    ("sub", "subnamespace"),
    ("source", "has the source"),
    ("copy", "has a copy"),
    ("complaining", "needs attention"),
    ("halted", "halted: nothing is propagated"),
];

/// One picture with all trees below each other, and a legend of the styles that it uses.
pub(crate) fn draw(trees: &[Node]) -> String {
    let mut widths = Vec::new();
    for tree in trees {
        measure(tree, 0, &mut widths);
    }
    let mut left = MARGIN;
    let columns: Vec<(f64, f64)> = widths
        .iter()
        .map(|width| {
            let column = (left, *width);
            left += width + GAP;
            column
        })
        .collect();
    let mut layout = Layout { columns, boxes: String::new(), lines: String::new(), rows: 0.0 };
    for tree in trees {
        layout.place(tree, 0);
    }
    let legend_width = layout.legend(trees);
    let width = (left - GAP).max(MARGIN + legend_width) + MARGIN;
    let height = layout.rows * ROW + 2.0 * MARGIN - (ROW - HEIGHT);
    let marks = if trees.iter().flat_map(Node::all).any(|it| it.object.is_some()) { MARKS } else { "" };
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" aria-label=\"hierarchy of namespaces\">\n\
         <style>{STYLE}{marks}</style>\n{}{}</svg>\n",
        layout.lines, layout.boxes
    )
}

fn label(node: &Node) -> String {
    let mark = node.object.as_ref().map(|mark| format!(": {}", mark.label())).unwrap_or_default();
    let sub = if node.is_sub() { "[s] " } else { "" };
    format!("{sub}{}{mark}", node.title())
}

fn box_width(label: &str) -> f64 {
    f64::from(u32::try_from(label.chars().count()).unwrap_or(u32::MAX)) * LETTER + 2.0 * PADDING
}

/// The style classes of a node.
fn classes(node: &Node) -> Vec<&'static str> {
    node.is_sub().then_some("sub").into_iter().chain(node.class()).collect()
}

/// The width of each column: that of its widest box.
fn measure(node: &Node, depth: usize, widths: &mut Vec<f64>) {
    let width = box_width(&label(node));
    if widths.len() <= depth {
        widths.push(0.0);
    }
    widths[depth] = widths[depth].max(width);
    for child in &node.children {
        measure(child, depth + 1, widths);
    }
}

struct Layout {
    columns: Vec<(f64, f64)>,
    boxes: String,
    lines: String,
    rows: f64,
}

impl Layout {
    /// Draws a tree and returns the vertical middle of its root's box: the middle of its children, or the next free
    /// row.
    fn place(&mut self, node: &Node, depth: usize) -> f64 {
        let children: Vec<f64> = node.children.iter().map(|child| self.place(child, depth + 1)).collect();
        let middle = if let (Some(first), Some(last)) = (children.first(), children.last()) {
            f64::midpoint(*first, *last)
        } else {
            self.rows += 1.0;
            MARGIN + (self.rows - 1.0) * ROW + HEIGHT / 2.0
        };
        let (left, width) = self.columns[depth];
        for child in children {
            let (from, to) = (left + width, self.columns[depth + 1].0);
            let half = f64::midpoint(from, to);
            self.lines.line(format!(
                "<path d=\"M{from:.1} {middle:.1}C{half:.1} {middle:.1} {half:.1} {child:.1} {to:.1} {child:.1}\"/>"
            ));
        }
        self.draw_box(node, left, width, middle);
        middle
    }

    fn draw_box(&mut self, node: &Node, left: f64, width: f64, middle: f64) {
        let titles: Vec<String> = node.remarks().iter().map(|it| escaped(it)).collect();
        let title =
            if titles.is_empty() { String::new() } else { format!("<title>{}</title>", titles.join("\n")) };
        self.draw_text_box(&title, &classes(node), &label(node), (left, width, middle));
    }

    fn draw_text_box(
        &mut self,
        title: &str,
        classes: &[&str],
        label: &str,
        (left, width, middle): (f64, f64, f64),
    ) {
        let class =
            if classes.is_empty() { String::new() } else { format!(" class=\"{}\"", classes.join(" ")) };
        let (top, text_left, text_top) = (middle - HEIGHT / 2.0, left + PADDING, middle + 4.5);
        self.boxes.line(format!(
            "<g>{title}<rect{class} x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{HEIGHT:.0}\" rx=\"5\"/>\
             <text x=\"{text_left:.1}\" y=\"{text_top:.1}\">{}</text></g>",
            escaped(label)
        ));
    }

    /// Draws a box for each style in use, one row below the trees. Returns the width of the widest.
    fn legend(&mut self, trees: &[Node]) -> f64 {
        let used: BTreeSet<&str> = trees.iter().flat_map(Node::all).flat_map(classes).collect();
        let mut widest = 0.0_f64;
        for (class, meaning) in LEGEND.iter().filter(|(class, _)| used.contains(class)) {
            let (width, gap) = (box_width(meaning), if widest == 0.0 { 1.0 } else { 0.0 });
            self.rows += 1.0 + gap;
            widest = widest.max(width);
            let middle = MARGIN + (self.rows - 1.0) * ROW + HEIGHT / 2.0;
            self.draw_text_box("", &[class], meaning, (MARGIN, width, middle));
        }
        widest
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::super::{build, build_with_object};
    use super::*;
    use crate::object_states::tests::object_states;
    use crate::structure::tests::sketch;

    #[test]
    fn every_namespace_has_a_box_and_every_edge_a_line() {
        let structure = sketch(&["a", "[s] b < a", "c < a ! ActivitiesHalted (X): <&>", "d < c", "lone"]);
        let text = draw(&build(&structure, &["a".into(), "lone".into()]));
        assert_eq!(text.matches("<rect").count(), 5 + 2, "and two boxes of the legend");
        assert!(
            text.contains(">subnamespace</text>") && text.contains(">halted: nothing is propagated</text>")
        );
        assert!(!text.contains("has a copy"), "the legend has only the styles in use");
        assert_eq!(text.matches("<path").count(), 3);
        assert!(text.contains(">[s] b</text>") && text.contains("class=\"sub\""));
        assert!(text.contains("<title>ActivitiesHalted (X): &lt;&amp;&gt;</title>"));
        assert!(text.starts_with("<svg ") && text.ends_with("</svg>\n"));
    }

    #[test]
    fn boxes_of_a_column_do_not_overlap() {
        let structure = sketch(&["a", "b < a", "c < b", "d < b", "e < a", "f < e", "g < e", "h < a"]);
        let text = draw(&build(&structure, &["a".into()]));
        let numbers = |name: &str| {
            let key = format!(" {name}=\"");
            let rects = text.split("<rect").skip(1);
            let found =
                rects.filter_map(move |it| it.split_once(&key)?.1.split_once('"')?.0.parse::<f64>().ok());
            found.collect::<Vec<_>>()
        };
        let mut boxes: Vec<(f64, f64)> = numbers("x").into_iter().zip(numbers("y")).collect();
        assert_eq!(boxes.len(), 8);
        boxes.sort_by(|one, other| one.partial_cmp(other).unwrap());
        for pair in boxes.windows(2) {
            let same_column = (pair[0].0 - pair[1].0).abs() < 0.1;
            assert!(!same_column || pair[1].1 - pair[0].1 >= HEIGHT, "{pair:?}");
        }
    }

    #[test]
    fn an_object_is_named_in_the_boxes() {
        let all = object_states(&["a", "b < a"], &[("a", "", "!b")]);
        let text = draw(&build_with_object(&all, &["a".into()]));
        assert!(text.contains("class=\"source\"") && text.contains(">a: source</text>"), "{text}");
        assert!(
            text.contains("<title>the one in a is not copied here") && text.contains(">b: not copied</text>")
        );
        assert!(
            !draw(&build(&sketch(&["a"]), &["a".into()])).contains(".source"),
            "unused styles are omitted"
        );
    }
}
