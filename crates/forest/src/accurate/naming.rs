//! Naming policies: which names sub-namespaces may have, depending on the name of their root (section 7.4 of Accurate's contract).
//!
//! A policy has a regular expression for the root's name and a template of one for the sub-namespace's name, in which `$1` and
//! `${name}` stand for what the groups of the first matched. Neither is anchored. If the first matches several times, the template
//! is expanded for each match, and the results are one after the other.
//!
//! Both are Go's. The templates are expanded here, because those of the crate `regex` differ: there, `${a.b}` is a name, a letter
//! beyond ASCII ends one, and `01` is the number 1. A regular expression with a part that the crate understands otherwise than Go is
//! refused; one stays, a range that begins with `]`, as in `[]-a]`. It was found by comparing all short texts of the characters that
//! have a meaning.

use std::fmt;

use regex::{Captures, Regex};

use crate::expression::compile_as_in_go as compile;

/// A naming policy.
#[derive(Debug, Clone)]
pub struct NamingPolicy {
    root: Regex,
    matches: String,
}

impl fmt::Display for NamingPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "root={} match={}", self.root, self.matches)
    }
}

/// What stands for the groups of a root's name, to check a template before there is a root: nothing, a number, and a letter.
const SAMPLES: [&str; 3] = ["", "1", "a"];

/// The verdict of a policy about a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fit {
    /// It is not for this root, or the name matches.
    Fits,
    /// The name does not match.
    Misfits,
    /// The expanded template is not a regular expression; the text says why.
    Broken(String),
}

impl NamingPolicy {
    /// The policy for roots in whose name `root` matches. Below them, `matches`, expanded, must match in the name of a
    /// sub-namespace.
    ///
    /// # Errors
    /// The key of the faulty one, `root` or `match`, and what is wrong with it. A template is faulty if it is no regular expression with
    /// any of the [`SAMPLES`].
    pub fn new(root: &str, matches: &str) -> Result<Self, (&'static str, String)> {
        let at = |key, text: &str, reason| (key, format!("{text:?}: {reason}"));
        let compiled = compile(root).map_err(|reason| at("root", root, reason))?;
        let with = |sample| compile(&expand(matches, |_| sample)).map(drop);
        let checked = SAMPLES.into_iter().map(with).reduce(Result::or).unwrap_or(Ok(()));
        checked.map_err(|reason| at("match", matches, reason))?;
        Ok(Self { root: compiled, matches: matches.to_owned() })
    }

    /// Whether a sub-namespace of this name is allowed below this root.
    pub(super) fn judge(&self, root: &str, name: &str) -> Fit {
        let mut found = self.root.captures_iter(root).peekable();
        if found.peek().is_none() {
            return Fit::Fits;
        }
        let wanted: String =
            found.map(|captures| expand(&self.matches, |name| group(&captures, name))).collect();
        match compile(&wanted) {
            Ok(wanted) if wanted.is_match(name) => Fit::Fits,
            Ok(_) => Fit::Misfits,
            Err(reason) => Fit::Broken(reason),
        }
    }
}

/// The template with the text of `group` for each group that it names, as Go's `Regexp.Expand`: `$$` is one `$`; a `$` without a name
/// stays.
fn expand<'a>(template: &str, group: impl Fn(&str) -> &'a str) -> String {
    let (mut to, mut rest) = (String::new(), template);
    while let Some((before, after)) = rest.split_once('$') {
        to.push_str(before);
        if let Some(after) = after.strip_prefix('$') {
            to.push('$');
            rest = after;
        } else if let Some((name, after)) = name(after) {
            to.push_str(group(name));
            rest = after;
        } else {
            to.push('$');
            rest = after;
        }
    }
    to.push_str(rest);
    to
}

/// What the group matched: nothing, if it did not match or does not exist.
fn group<'a>(captures: &Captures<'a>, name: &str) -> &'a str {
    let group = match number(name) {
        Some(number) => captures.get(number),
        None => captures.name(name),
    };
    group.map_or("", |group| group.as_str())
}

/// The name of a group after a `$`, as long as possible, and what follows.
fn name(text: &str) -> Option<(&str, &str)> {
    let (braced, text) = match text.strip_prefix('{') {
        Some(text) => (true, text),
        None => (false, text),
    };
    let end = text.find(|it: char| !it.is_alphanumeric() && it != '_').unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let rest = if braced { rest.strip_prefix('}')? } else { rest };
    (!name.is_empty()).then_some((name, rest))
}

/// The number of a group. A name with a leading zero is none.
fn number(name: &str) -> Option<usize> {
    let is_number = name.bytes().all(|it| it.is_ascii_digit()) && (name == "0" || !name.starts_with('0'));
    is_number.then(|| name.parse().unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answers of Go 1.26.
    #[test]
    fn templates_are_expanded_as_in_go() {
        for (pattern, template, text, expected) in [
            ("^app-(?P<team>.*)", "^app-${team}-.*", "app-team1", "^app-team1-.*"),
            ("^app-(?P<team>.*)", "^app-$team-.*", "app-team1", "^app-team1-.*"),
            ("^app-(?P<team>.*)", "^app-$team_x", "app-team1", "^app-"),
            ("^app-(?P<team>.*)", "^app-${team}_x", "app-team1", "^app-team1_x"),
            ("(a)(b)", "$1$2|$3|$0", "ab", "ab||ab"),
            ("(a)(b)", "$1x|${1}x", "ab", "|ax"),
            ("(a)(b)", "$01|${01}|${1 }|$", "ab", "||${1 }|$"),
            ("(a)(b)", "$$1|$$$1|$$", "ab", "$1|$a|$"),
            ("(a)(b)", "${|${}|${1|$-|$ |$1$", "ab", "${|${}|${1|$-|$ |a$"),
            ("(a)(b)", "${a.b}|${1.}", "ab", "${a.b}|${1.}"),
            ("(a)|(b)", "<$1><$2>", "b", "<><b>"),
            ("(?P<x>a)", "$xé|${x}é", "a", "|aé"),
            ("(?P<x>a)", "$1é|$1_|$100000000|$1000000000|$18446744073709551617", "a", "||||"),
            ("a", "x$", "aaa", "x$x$x$"),
            ("b*", "<$0>", "abc", "<><b><>"),
            ("(?P<x>a)|(?P<y>b)", "$x$y.", "ab", "a.b."),
            ("(a)", "$1a $1_a $1-a $1.a ${1}a", "a", "  a-a a.a aa"),
            ("(?<a>x)(?P<b>y)", "$a$b", "xy", "xy"),
            ("(?P<a>x)", "$٣|$٣a", "x", "|"),
        ] {
            let compiled = Regex::new(pattern).unwrap();
            let expanded = |captures: Captures<'_>| expand(template, |name| group(&captures, name));
            let found: String = compiled.captures_iter(text).map(expanded).collect();
            assert_eq!(found, expected, "{pattern} {template}");
        }
    }

    /// Where the crate's own templates differ, so that they cannot be used.
    #[test]
    fn the_templates_of_the_crate_are_others() {
        let captures = Regex::new("(?P<x>a)").unwrap().captures("a").unwrap();
        for (template, go, crates) in [("$01", "", "a"), ("${1.}", "${1.}", ""), ("$xé", "", "aé")] {
            let (ours, mut theirs) = (expand(template, |name| group(&captures, name)), String::new());
            captures.expand(template, &mut theirs);
            assert_eq!((ours.as_str(), theirs.as_str()), (go, crates), "{template}");
        }
    }

    fn judge(root: &str, matches: &str, [at, name]: [&str; 2]) -> Fit {
        NamingPolicy::new(root, matches).unwrap().judge(at, name)
    }

    #[test]
    fn names_are_judged_by_the_policies_for_their_root() {
        use Fit::{Fits, Misfits};
        let app = "^app-(?P<team>.*)";
        for (root, matches, names, wanted) in [
            ("^other$", "nothing", ["app-a", "x"], Fits),
            ("^app$", "^app-", ["app", "app-1"], Fits),
            ("^app$", "^app-", ["app", "x-app-1"], Misfits),
            // Neither is anchored.
            ("app", "sub", ["my-app", "a-sub-b"], Fits),
            (app, "^app-${team}-.+", ["app-a", "app-a-child"], Fits),
            (app, "^app-${team}-.+", ["app-a", "app-b-child"], Misfits),
            ("^(.*)-(.*)$", "^$2-$1$", ["a-b", "b-a"], Fits),
            // A group that is not used.
            (app, "^app-sub$", ["app-x", "app-sub"], Fits),
            // Each match adds an expansion.
            ("[ab]", "x$0", ["a-b", "xaxb"], Fits),
            ("[ab]", "x$0", ["a-b", "xbxa"], Misfits),
            ("^a", "", ["a-b", "anything"], Fits),
            // A template for no root of this name need not be right.
            ("^(no)$", "x{$1}", ["app-a", "x"], Fits),
        ] {
            assert_eq!(judge(root, matches, names), wanted, "{root} {matches} {names:?}");
        }
        let broken = judge(app, "x{${team}}", ["app-a", "x"]);
        assert!(matches!(broken, Fit::Broken(_)), "{broken:?}");
    }

    #[test]
    fn a_faulty_expression_is_refused_with_its_key() {
        for (root, matches, key, reason) in [
            ("[", "", "root", "\"[\": it is no regular expression: unclosed character class"),
            ("a", "(", "match", "\"(\": it is no regular expression: unclosed group"),
            ("a", "^(a$", "match", "\"^(a$\": it is no regular expression: unclosed group"),
            ("(a)", "($1", "match", "\"($1\": it is no regular expression: unclosed group"),
            ("a", "[a&&b]", "match", "mean something else in Go"),
            ("a", r"\Qa\E", "match", "it is no regular expression"),
        ] {
            let (found, text) = NamingPolicy::new(root, matches).unwrap_err();
            assert!(found == key && text.contains(reason), "{matches}: {found}: {text}");
        }
        // Each of these is right for some names of roots.
        for matches in [
            "a{$1}",
            "a{$1,$2}",
            "[$1-z]",
            "[0-$1]",
            "(?P<$1>x)",
            r"\$1",
            "x($1)?",
            "(?:$1|$2)",
            "^$1$",
            "$$",
            "$",
        ] {
            NamingPolicy::new("(.)-(.)", matches).unwrap_or_else(|(_, reason)| panic!("{reason}"));
        }
    }
}
