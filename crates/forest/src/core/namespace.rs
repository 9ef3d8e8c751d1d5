//! A namespace as it is observed and as it is kept.

use std::collections::BTreeSet;

use super::labels::Labels;
use super::name::Name;
use super::tree::Packed;
use super::version::{CompactVersion, Version};

/// A namespace as the API server shows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamespaceFact {
    /// Its name.
    pub name: Name,
    /// The state seen.
    pub version: Version,
    /// All its labels.
    pub labels: Labels,
    /// All its annotations. The forest keeps those that its dialects read.
    pub annotations: Labels,
    /// Which of these another field manager has set.
    pub foreign: Foreign,
    /// It has a `deletionTimestamp`.
    pub terminating: bool,
}

/// Keys of labels and annotations that another field manager has set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Foreign {
    /// Keys of labels.
    pub labels: BTreeSet<Box<str>>,
    /// Keys of annotations.
    pub annotations: BTreeSet<Box<str>>,
}

/// A namespace as last observed.
#[derive(Debug)]
pub(crate) struct Namespace {
    pub(crate) version: CompactVersion,
    /// Read through the tree.
    pub(super) labels: Packed,
    /// Those that a dialect reads.
    pub(crate) annotations: Labels,
    /// `None` when there are none, as in most namespaces.
    pub(super) foreign: Option<Box<Foreign>>,
    pub(crate) terminating: bool,
}

impl Namespace {
    /// The labels and annotations that another field manager has set, as far as a dialect reads them.
    pub(crate) fn foreign(&self) -> &Foreign {
        static NONE: Foreign = Foreign { labels: BTreeSet::new(), annotations: BTreeSet::new() };
        self.foreign.as_deref().unwrap_or(&NONE)
    }
}
