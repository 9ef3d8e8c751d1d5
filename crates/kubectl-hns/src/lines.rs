//! Text that is made line by line.

/// Text that lines are added to.
pub(crate) trait Lines {
    /// Adds `line` and the end of a line.
    fn line(&mut self, line: impl AsRef<str>);
}

impl Lines for String {
    fn line(&mut self, line: impl AsRef<str>) {
        self.push_str(line.as_ref());
        self.push('\n');
    }
}
