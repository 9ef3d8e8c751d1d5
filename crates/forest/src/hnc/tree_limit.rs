//! The limits of one tree, as they are configured.

use regex::Regex;

use crate::core::expression::whole;
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

/// Why an entry of `spec.trees` cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeFault {
    /// The field of the entry; empty for the whole entry.
    pub field: &'static str,
    /// Its value as written.
    pub value: String,
    /// What is wrong with it, as a clause.
    pub why: String,
}

impl From<String> for TreeFault {
    fn from(why: String) -> Self {
        Self { field: "", value: "?".to_owned(), why }
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
    ) -> Result<Self, TreeFault> {
        let compiled = |pattern: &str| {
            let fault = |why| TreeFault { field: "namePattern", value: pattern.to_owned(), why };
            whole(pattern).map_err(fault)
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

    /// Whether it has no part.
    pub(crate) fn limits_nothing(&self) -> bool {
        self.max_namespaces.is_none() && self.max_depth.is_none() && self.names.is_none()
    }

    /// The namespace below which it holds.
    pub fn root(&self) -> &Name {
        &self.root
    }
}
