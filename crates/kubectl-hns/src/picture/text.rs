//! Draws trees as text, byte for byte as HNC does, because scripts compare it.

use super::{Health, Node};
use crate::lines::Lines;
use crate::object_states::ObjectState;
use crate::terminal::{Ink, Paint};

/// The trees, the legend for subnamespaces if there are any, and the footnotes with conditions and with the reasons for the
/// states of an object.
pub(crate) fn draw(trees: &[Node], paint: Paint) -> String {
    let mut drawing =
        Drawing { paint, lines: String::new(), conditions: Vec::new(), reasons: Vec::new(), marked: false };
    for tree in trees {
        let label = drawing.label(tree, false);
        drawing.lines.line(label);
        drawing.below(tree, "");
    }
    drawing.finish()
}

struct Drawing {
    paint: Paint,
    lines: String,
    /// The texts of conditions; the first has the number 1.
    conditions: Vec<String>,
    /// Why an object is there or not, numbered in the same way.
    reasons: Vec<String>,
    marked: bool,
}

impl Drawing {
    fn below(&mut self, node: &Node, indent: &str) {
        let last = node.children.len().saturating_sub(1);
        for (place, child) in node.children.iter().enumerate() {
            let (branch, more) =
                if place == last { ("└── ", "    ") } else { ("├── ", "│   ") };
            let label = self.label(child, true);
            self.lines.line(format!("{indent}{branch}{label}"));
            self.below(child, &format!("{indent}{more}"));
        }
    }

    /// The name with its mark and footnotes; the root of a tree has no mark.
    fn label(&mut self, node: &Node, marked: bool) -> String {
        let marked = marked && node.is_sub();
        self.marked |= marked;
        let mark = if marked { self.paint.ink(Ink::Faint, "[s]") + " " } else { String::new() };
        let name = format!("{mark}{}", node.title());
        let object = node.object.as_ref().map(|it| self.object(it)).unwrap_or_default();
        let ink = match node.health() {
            Health::Well => return name + &object,
            Health::Complaining => Ink::Warning,
            Health::Halted => Ink::Bad,
        };
        let mut numbers: Vec<usize> =
            node.conditions.iter().map(|it| number(&mut self.conditions, &it.line())).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
        let notes = self.paint.ink(ink, &format!("({})", numbers.join(",")));
        format!("{name} {notes}{object}")
    }

    /// The state of the object, and the number of its reason unless it is obvious.
    fn object(&mut self, mark: &ObjectState) -> String {
        let label = self.paint.ink(mark.ink(), &mark.label());
        match &mark.why {
            Some(why) if mark.needs_a_reason() => format!(" [{label}] [{}]", number(&mut self.reasons, why)),
            _ => format!(" [{label}]"),
        }
    }

    fn finish(self) -> String {
        let mut text = self.lines;
        if self.marked {
            text.line(format!("\n{} indicates subnamespaces", self.paint.ink(Ink::Faint, "[s]")));
        }
        let blocks = [("\nConditions:", "", ")", self.conditions), ("\nReasons:", "[", "]", self.reasons)];
        for (heading, open, close, notes) in blocks.iter().filter(|(_, _, _, notes)| !notes.is_empty()) {
            text.line(heading);
            for (number, note) in (1..).zip(notes) {
                text.line(format!("{open}{number}{close} {note}"));
            }
        }
        text
    }
}

/// The number of a footnote; a new text gets the next number.
fn number(notes: &mut Vec<String>, text: &str) -> usize {
    let place = notes.iter().position(|it| it == text).unwrap_or_else(|| {
        notes.push(text.to_owned());
        notes.len() - 1
    });
    place + 1
}

#[cfg(test)]
mod tests {
    use super::super::{build, build_with_object};
    use super::*;
    use crate::object_states::tests::object_states;
    use crate::structure::tests::sketch;

    fn drawn(lines: &[&str], roots: &[&str]) -> String {
        let roots: Vec<_> = roots.iter().map(|root| (*root).into()).collect();
        draw(&build(&sketch(lines), &roots), Paint::NONE)
    }

    #[test]
    fn the_drawing_equals_that_of_hnc() {
        let missing = "ActivitiesHalted (ParentMissing): gone";
        let anchor = "BadConfiguration (SubnamespaceAnchorMissing): none";
        let text = drawn(
            &[
                &format!("acme-org ! {missing}"),
                "team-a < acme-org",
                &format!("[s] service-1 < team-a ! {missing}; {anchor}"),
                "[s] team-b < acme-org",
            ],
            &["acme-org"],
        );
        let wanted = "\
acme-org (1)
├── team-a
│   └── [s] service-1 (1,2)
└── [s] team-b

[s] indicates subnamespaces

Conditions:
1) ActivitiesHalted (ParentMissing): gone
2) BadConfiguration (SubnamespaceAnchorMissing): none
";
        assert_eq!(text, wanted);
    }

    #[test]
    fn legend_and_conditions_are_printed_only_if_needed() {
        assert_eq!(drawn(&["a", "b < a"], &["a"]), "a\n└── b\n");
        assert_eq!(drawn(&["a", "[s] b < a"], &["b"]), "b\n", "no mark on a root, so no legend");
        assert_eq!(drawn(&["a", "b"], &["b", "a"]), "b\na\n", "in the order asked for");
    }

    #[test]
    fn footnotes_are_numbered_by_first_appearance() {
        let text = drawn(
            &["a", "b < a ! Y (Y): y", "c < a ! X (X): x; Y (Y): y", "d < a ! X (X): x; X (X): x"],
            &["a"],
        );
        assert_eq!(text, "a\n├── b (1)\n├── c (1,2)\n└── d (2)\n\nConditions:\n1) Y (Y): y\n2) X (X): x\n");
    }

    #[test]
    fn colours_do_not_change_the_text() {
        let structure = sketch(&["a", "[s] b < a ! ActivitiesHalted (X): x"]);
        let trees = build(&structure, &["a".into()]);
        let coloured = draw(&trees, Paint { on: true });
        assert!(coloured.contains("\x1b[31m(1)\x1b[0m") && coloured.contains("\x1b[2m[s]\x1b[0m b"));
        let mut plain = coloured;
        for code in ["\x1b[31m", "\x1b[2m", "\x1b[0m"] {
            plain = plain.replace(code, "");
        }
        assert_eq!(plain, draw(&trees, Paint::NONE));
    }

    #[test]
    fn an_object_is_shown_where_it_exists_and_where_it_is_blocked() {
        let lines = [
            "acme",
            "dev < acme ! BadConfiguration (X): x",
            "[s] web < dev",
            "off < acme",
            "old < acme",
            "other",
        ];
        let all = object_states(&lines, &[("acme", "", "!old, !off"), ("dev", "acme", "")]);
        let text = draw(&build_with_object(&all, &["acme".into(), "other".into()]), Paint::NONE);
        let wanted = "\
acme [source]
├── dev (1) [copy of acme]
│   └── [s] web [not there yet] [1]
├── off [not copied] [2]
└── old [not copied] [2]
other

[s] indicates subnamespaces

Conditions:
1) BadConfiguration (X): x

Reasons:
[1] the one in acme is copied here, because its kind is in mode Propagate and its annotation \
propagate.hnc.x-k8s.io/treeSelect lets it through
[2] the one in acme is not copied here, because its annotation propagate.hnc.x-k8s.io/treeSelect does not select the namespace
";
        assert_eq!(text, wanted);
    }
}
