//! Texts in CEL: literals, lists, and several expressions joined. It never knows what they are about.

/// The text as a literal, whatever is in it.
pub(super) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\\', r"\\").replace('\'', r"\'"))
}

/// A list of literals.
pub(super) fn list<S: AsRef<str>>(texts: &[S]) -> String {
    let literals: Vec<String> = texts.iter().map(|text| literal(text.as_ref())).collect();
    format!("[{}]", literals.join(", "))
}

/// One alternative per line, as people read them.
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

    /// A name cannot end its literal and go on as an expression.
    #[test]
    fn literals_are_escaped() {
        assert_eq!(literal("plain"), "'plain'");
        assert_eq!(literal(r"it's \ there"), r"'it\'s \\ there'");
        assert_eq!(list(&["a", "b'"]), r"['a', 'b\'']");
        assert_eq!(list::<&str>(&[]), "[]");
    }
}
