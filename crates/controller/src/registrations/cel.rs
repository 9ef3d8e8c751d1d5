//! CEL texts: literals, lists, and joined expressions.

/// Any text as a literal.
pub(super) fn literal(text: &str) -> String {
    let escaped = text.replace('\\', r"\\").replace('\'', r"\'");
    format!("'{}'", escaped.replace('\n', r"\n").replace('\r', r"\r"))
}

/// A list of literals.
pub(super) fn list<S: AsRef<str>>(texts: &[S]) -> String {
    let literals: Vec<String> = texts.iter().map(|text| literal(text.as_ref())).collect();
    format!("[{}]", literals.join(", "))
}

/// One alternative per line.
pub(super) fn any_of<S: AsRef<str>>(alternatives: &[S]) -> String {
    joined(alternatives, " ||\n")
}

/// One requirement per line.
pub(super) fn all_of<S: AsRef<str>>(requirements: &[S]) -> String {
    joined(requirements, " &&\n")
}

fn joined<S: AsRef<str>>(parts: &[S], by: &str) -> String {
    let parts: Vec<_> = parts.iter().map(AsRef::as_ref).collect();
    parts.join(by)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name cannot end its literal.
    #[test]
    fn literals_are_escaped() {
        assert_eq!(literal("plain"), "'plain'");
        assert_eq!(literal(r"it's \ there"), r"'it\'s \\ there'");
        assert_eq!(literal("a\r\nb"), r"'a\r\nb'");
        assert_eq!(list(&["a", "b'"]), r"['a', 'b\'']");
        assert_eq!(list::<&str>(&[]), "[]");
    }
}
