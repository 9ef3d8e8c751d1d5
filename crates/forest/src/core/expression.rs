//! Regular expressions that users write: what is wrong with one, in one line.
//!
//! Some are also read by Go: by the API server, which has those of the settings in its conditions, or by Accurate.

use std::fmt::Display;

use regex::Regex;
use regex_syntax::ast::{
    self, AssertionKind, Ast, ClassSetBinaryOp, ClassSetItem, Flag, Flags, FlagsItemKind, GroupKind,
    HexLiteralKind, Literal, LiteralKind, RepetitionKind, RepetitionRange,
};

/// The expression that matches a whole text if `pattern` does: `^(?:PATTERN)$`.
///
/// # Errors
/// What is wrong with the pattern, as a clause.
pub fn whole(pattern: &str) -> Result<Regex, String> {
    // On its own first: "a)|(b" is no pattern, but would become one between our parentheses.
    Regex::new(pattern).and_then(|_| Regex::new(&format!("^(?:{pattern})$"))).map_err(|error| fault(&error))
}

/// What is wrong with an expression, as a clause: the library's text also draws it, over several lines.
pub fn fault(error: &impl Display) -> String {
    let text = error.to_string();
    let last = text.lines().last().unwrap_or_default().trim();
    format!("it is no regular expression: {}", last.trim_start_matches("error: "))
}

/// Compiles a regular expression, if Go compiles it too and means the same.
///
/// # Errors
/// What is wrong with the pattern, as a clause.
pub fn compile_as_in_go(pattern: &str) -> Result<Regex, String> {
    let parsed = ast::parse::Parser::new().parse(pattern).map_err(|error| fault(&error))?;
    ast::visit(&parsed, OnlyAsInGo::default())?;
    Regex::new(pattern).map_err(|error| fault(&error))
}

/// Refuses what Go refuses, and what it reads as other characters: operations on classes, classes in classes, and edges of words with
/// `<`, `>` or `{`.
#[derive(Default)]
struct OnlyAsInGo {
    /// The counts of the repetitions around the present part.
    counts: Vec<u32>,
}

impl OnlyAsInGo {
    const MOST: u64 = 1000;
    const UNICODE: &str = "Go knows other classes '\\p'; write the characters";
    const CLASS: &str = "in a class of characters, '[', '&&', '--' and '~~' mean something else in Go; write '\\' before each of \
                         these characters";

    fn literal(literal: &Literal) -> Result<(), &'static str> {
        match literal.kind {
            LiteralKind::HexFixed(HexLiteralKind::UnicodeShort | HexLiteralKind::UnicodeLong)
            | LiteralKind::HexBrace(HexLiteralKind::UnicodeShort | HexLiteralKind::UnicodeLong) => {
                Err("Go does not know '\\u' and '\\U'; write '\\x{' instead")
            }
            _ => Ok(()),
        }
    }

    fn flags(flags: &Flags) -> Result<(), &'static str> {
        let unknown = [Flag::Unicode, Flag::CRLF, Flag::IgnoreWhitespace].map(FlagsItemKind::Flag);
        if flags.items.iter().any(|item| unknown.contains(&item.kind)) {
            return Err("of the flags, Go knows only 'i', 'm', 's' and 'U'");
        }
        Ok(())
    }

    fn repetition(&mut self, repetition: &ast::Repetition) -> Result<(), &'static str> {
        if matches!(*repetition.ast, Ast::Repetition(_)) {
            return Err("Go does not repeat a repetition; write '(?:' before it and ')' after it");
        }
        self.counts.push(match repetition.op.kind {
            RepetitionKind::Range(
                RepetitionRange::Exactly(count)
                | RepetitionRange::AtLeast(count)
                | RepetitionRange::Bounded(_, count),
            ) => count.max(1),
            _ => 1,
        });
        let product = self.counts.iter().fold(1_u64, |all, count| all.saturating_mul(u64::from(*count)));
        if product > Self::MOST {
            Err("Go repeats a part at most 1000 times, all repetitions around it multiplied")
        } else {
            Ok(())
        }
    }
}

impl ast::Visitor for OnlyAsInGo {
    type Output = ();
    type Err = &'static str;

    fn finish(self) -> Result<(), Self::Err> {
        Ok(())
    }

    fn visit_pre(&mut self, ast: &Ast) -> Result<(), Self::Err> {
        match ast {
            Ast::Repetition(repetition) => self.repetition(repetition),
            Ast::Literal(literal) => Self::literal(literal),
            Ast::ClassUnicode(_) => Err(Self::UNICODE),
            Ast::Flags(set) => Self::flags(&set.flags),
            Ast::Group(group) => match &group.kind {
                GroupKind::NonCapturing(flags) => Self::flags(flags),
                GroupKind::CaptureName { name, .. }
                    if !name.name.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_') =>
                {
                    Err("in Go, the name of a group has only letters, digits and '_'")
                }
                _ => Ok(()),
            },
            Ast::Assertion(assertion) => match assertion.kind {
                AssertionKind::WordBoundaryStart
                | AssertionKind::WordBoundaryEnd
                | AssertionKind::WordBoundaryStartAngle
                | AssertionKind::WordBoundaryEndAngle
                | AssertionKind::WordBoundaryStartHalf
                | AssertionKind::WordBoundaryEndHalf => {
                    Err("'\\<', '\\>' and '\\b{' mean something else in Go")
                }
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn visit_post(&mut self, ast: &Ast) -> Result<(), Self::Err> {
        if matches!(ast, Ast::Repetition(_)) {
            self.counts.pop();
        }
        Ok(())
    }

    fn visit_class_set_item_pre(&mut self, item: &ClassSetItem) -> Result<(), Self::Err> {
        match item {
            ClassSetItem::Bracketed(_) => Err(Self::CLASS),
            ClassSetItem::Unicode(_) => Err(Self::UNICODE),
            ClassSetItem::Literal(literal) => Self::literal(literal),
            ClassSetItem::Range(range) => Self::literal(&range.start).and(Self::literal(&range.end)),
            _ => Ok(()),
        }
    }

    fn visit_class_set_binary_op_pre(&mut self, _: &ClassSetBinaryOp) -> Result<(), Self::Err> {
        Err(Self::CLASS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_one_line() {
        assert!(whole("a|b").unwrap().is_match("b"));
        assert!(!whole("a|b").unwrap().is_match("ab"));
        for (pattern, why) in
            [("(", "unclosed group"), ("a)|(b", "unopened group"), ("[z-a]", "invalid character class range")]
        {
            let fault = whole(pattern).unwrap_err();
            assert!(fault.starts_with(&format!("it is no regular expression: {why}")), "{fault}");
            assert!(!fault.contains('\n'));
        }
    }

    /// The answers of Go 1.26.
    #[test]
    fn what_go_refuses_or_reads_otherwise_is_refused() {
        // Go reads these otherwise.
        for pattern in ["[a&&b]", "[a--b]", "[a~~b]", "[[a]b]", r"\<a", r"a\>", r"\b{start}", "(([^[a]]))"] {
            assert!(compile_as_in_go(pattern).is_err(), "{pattern}");
        }
        // Go refuses these.
        for pattern in [
            "x{1,2000}",
            "x{1001}",
            "x{1001,}",
            "(?:x{100}){11}",
            "(?:(?:x{3})*){334}",
            "a**",
            "a{2}{3}",
            r"\u0041",
            r"[\u{41}]",
            r"[\x41-\U00000042]",
            "(?x)a",
            "(?-u:a)",
            "(?R)a",
            "(?P<a.b>x)",
            r"\p{Alphabetic}",
            r"[\p{Alphabetic}_]",
        ] {
            assert!(compile_as_in_go(pattern).is_err(), "{pattern}");
            assert!(Regex::new(pattern).is_ok(), "{pattern}: not because of Go");
        }
        // Go understands these, and the crate does not: they are refused too, and never read in another way.
        for pattern in [r"\Qa.b\E", "a{,2}", "a{", "[[a]", r"\07"] {
            assert!(compile_as_in_go(pattern).is_err(), "{pattern}");
        }
        for pattern in [
            "",
            "a--b",
            "[[:alpha:]]",
            r"[\[a]",
            r"\ba\B",
            "[^]a]",
            "[a-z0-9-]+",
            r"\d\w\s",
            "(?i:A)",
            "^a$",
            "x{1000}",
            "x{999,1000}",
            "(?:x{100}){10}",
            "x{500}y{501}",
            "(?:a*)*",
            "a*?",
            r"\x41[\x{41}]",
            "(?im-sU)a",
            "(?P<a_1>x)",
            "(?<a>x)",
        ] {
            compile_as_in_go(pattern).unwrap_or_else(|reason| panic!("{pattern}: {reason}"));
        }
    }
}
