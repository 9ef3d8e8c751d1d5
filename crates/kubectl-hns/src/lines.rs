//! Builds text line by line.

use std::borrow::Cow;

/// A text to which lines are appended.
pub(crate) trait Lines {
    /// Appends `line` and a line break.
    fn line(&mut self, line: impl AsRef<str>);
}

/// The text as it can be shown in a terminal. Names and messages that users choose can contain line breaks and escape sequences,
/// which would forge or hide lines: a text with such characters is escaped as in Rust.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    let is_plain = |it: char| matches!(it, '"' | '\'' | '\\') || it.escape_debug().len() == 1;
    if text.chars().all(is_plain) { text.into() } else { text.escape_debug().to_string().into() }
}

impl Lines for String {
    fn line(&mut self, line: impl AsRef<str>) {
        self.push_str(line.as_ref());
        self.push('\n');
    }
}

/// The first `most` of these names, and the number of the others.
pub(crate) fn first(names: &[String], most: usize) -> String {
    let shown = names.iter().take(most).cloned().collect::<Vec<_>>().join(", ");
    if names.len() > most { format!("{shown} and {} more", names.len() - most) } else { shown }
}

/// The number with the noun, in the plural unless it is one.
pub(crate) fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::printable;

    #[test]
    fn characters_that_a_terminal_acts_on_are_escaped() {
        for plain in ["a:b", "on call", "it's \"quoted\" \\", "größer", ""] {
            assert_eq!(printable(plain), plain);
        }
        assert_eq!(printable("x\nlow ok"), "x\\nlow ok");
        assert_eq!(printable("\u{1b}[8m\u{7}\u{9b}\u{202e}"), "\\u{1b}[8m\\u{7}\\u{9b}\\u{202e}");
    }
}
