//! Builds text line by line.

/// A text to which lines are appended.
pub(crate) trait Lines {
    /// Appends `line` and a line break.
    fn line(&mut self, line: impl AsRef<str>);
}

impl Lines for String {
    fn line(&mut self, line: impl AsRef<str>) {
        self.push_str(line.as_ref());
        self.push('\n');
    }
}
