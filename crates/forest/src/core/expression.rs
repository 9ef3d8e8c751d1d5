//! Regular expressions that users write: what is wrong with one, in one line.

use std::fmt::Display;

use regex::Regex;

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
}
