//! The limits of one tree, as they are configured.

use regex::Regex;

use crate::core::name::Name;

/// One of `spec.trees`.
#[derive(Debug, Clone)]
pub struct TreeLimit {
    pub(super) root: Name,
    pub(super) max_namespaces: Option<usize>,
    pub(super) max_depth: Option<usize>,
    /// Matched against whole names.
    pub(super) names: Option<Regex>,
    /// The pattern as written.
    pub(super) pattern: String,
}

impl PartialEq for TreeLimit {
    fn eq(&self, other: &Self) -> bool {
        fn fields(it: &TreeLimit) -> (&Name, Option<usize>, Option<usize>, &str) {
            (&it.root, it.max_namespaces, it.max_depth, &it.pattern)
        }
        fields(self) == fields(other)
    }
}

impl TreeLimit {
    /// A limit below `root`; an absent part limits nothing.
    ///
    /// # Errors
    /// The pattern is not a regular expression.
    pub fn new(
        root: Name,
        max_namespaces: Option<usize>,
        max_depth: Option<usize>,
        name_pattern: Option<&str>,
    ) -> Result<Self, String> {
        let compiled = |pattern| {
            Regex::new(&format!("^(?:{pattern})$")).map_err(|error| format!("namePattern: {error}"))
        };
        let names = name_pattern.map(compiled).transpose()?;
        Ok(Self {
            root,
            max_namespaces,
            max_depth,
            names,
            pattern: name_pattern.unwrap_or_default().to_owned(),
        })
    }

    /// The namespace below which it holds.
    pub fn root(&self) -> &Name {
        &self.root
    }
}
