//! Naming policies: how the name of a root limits the names of its sub-namespaces (section 7.4 of Accurate's contract).

use regex::{Captures, Regex};

/// A policy. Regular expressions match anywhere in a name; a policy anchors them itself if it wants that. Their syntax is that of
/// Rust, which differs from Go's in rare cases: a brace that begins no repetition must be escaped.
#[derive(Debug, Clone)]
pub struct NamingPolicy {
    /// The roots that the policy is for.
    pub root: Regex,
    /// The pattern for names of sub-namespaces. `$name`, `${name}` and `$1` stand for what `root` captured.
    pub matches: String,
}

/// The verdict of a policy about a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fit {
    /// It is not for this root, or the name matches.
    Fits,
    /// The name does not match.
    Misfits,
    /// The expanded pattern is not a regular expression; the text says why.
    Broken(String),
}

impl NamingPolicy {
    /// Whether a sub-namespace of this name is allowed below this root. The expansions of several matches are concatenated.
    pub(super) fn judge(&self, root: &str, name: &str) -> Fit {
        let mut pattern = String::new();
        let mut is_for_root = false;
        for captures in self.root.captures_iter(root) {
            is_for_root = true;
            expand(&self.matches, &captures, &mut pattern);
        }
        match Regex::new(&pattern) {
            _ if !is_for_root => Fit::Fits,
            Err(error) => Fit::Broken(error.to_string()),
            Ok(pattern) if pattern.is_match(name) => Fit::Fits,
            Ok(_) => Fit::Misfits,
        }
    }
}

/// Appends the template with its references replaced, as Go does: the longest name counts, an unknown one stands for nothing, `$$`
/// is a dollar sign, and any other dollar sign stays.
fn expand(template: &str, captures: &Captures<'_>, to: &mut String) {
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('$') {
        to.push_str(before);
        if let Some(after) = after.strip_prefix('$') {
            to.push('$');
            rest = after;
        } else if let Some((name, after)) = reference(after) {
            to.push_str(captured(name, captures));
            rest = after;
        } else {
            to.push('$');
            rest = after;
        }
    }
    to.push_str(rest);
}

/// The name of a reference after its dollar sign, and what follows it.
fn reference(text: &str) -> Option<(&str, &str)> {
    let inner = text.strip_prefix('{');
    let text = inner.unwrap_or(text);
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(text.len());
    let (name, after) = text.split_at(end);
    let after = if inner.is_some() { after.strip_prefix('}')? } else { after };
    (!name.is_empty()).then_some((name, after))
}

fn captured<'a>(name: &str, captures: &Captures<'a>) -> &'a str {
    let is_number = name.bytes().all(|c| c.is_ascii_digit()) && (name == "0" || !name.starts_with('0'));
    let found = match name.parse().ok().filter(|_| is_number) {
        Some(number) => captures.get(number),
        None => captures.name(name),
    };
    found.map_or("", |found| found.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(root: &str, matches: &str, names: [&str; 2]) -> Fit {
        NamingPolicy { root: Regex::new(root).unwrap(), matches: matches.into() }.judge(names[0], names[1])
    }

    #[test]
    fn names_are_judged_by_the_policies_for_their_root() {
        use Fit::{Fits, Misfits};
        let app = "^app-(?P<team>.*)";
        for (root, matches, names, wanted) in [
            ("^other$", "nothing", ["app-a", "x"], Fits),
            (app, "^app-${team}-.+", ["app-a", "app-a-child"], Fits),
            (app, "^app-$team-.+", ["app-a", "app-a-child"], Fits),
            (app, "^app-$team-.+", ["app-a", "app-b-child"], Misfits),
            // The longest name counts, and an unknown one stands for nothing.
            (app, "^app-$team_x-.+", ["app-a", "app--child"], Fits),
            (app, "^app-$1-.+", ["app-a", "app-a-child"], Fits),
            (app, "^app-$01-.+", ["app-a", "app--child"], Fits),
            (app, "child", ["app-a", "any-child-of-mine"], Fits),
            (app, "^a$$", ["app-a", "a"], Fits),
            (app, "^a$", ["app-a", "a"], Fits),
            ("(.)-(.)", "^$2$1$$", ["a-b", "ba"], Fits),
            // Two matches: the expansions are concatenated.
            ("[ab]", "x$0", ["a-b", "xaxb"], Fits),
            ("[ab]", "x$0", ["a-b", "xbxa"], Misfits),
            ("^a", "", ["a-b", "anything"], Fits),
        ] {
            assert_eq!(judge(root, matches, names), wanted, "{root} {matches} {names:?}");
        }
        assert!(matches!(judge(app, "(", ["app-a", "x"]), Fit::Broken(_)));
        assert_eq!(judge("^no$", "(", ["app-a", "x"]), Fits);
    }
}
