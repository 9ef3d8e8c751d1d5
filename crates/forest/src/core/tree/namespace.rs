//! A namespace as the forest keeps it.

use std::collections::BTreeSet;

use super::packed::Packed;
use crate::core::labels::Labels;
use crate::core::namespace::Foreign;
use crate::core::version::CompactVersion;

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
    /// The labels and annotations that another field manager has set, limited to those that a dialect reads.
    pub(crate) fn foreign(&self) -> &Foreign {
        static NONE: Foreign = Foreign { labels: BTreeSet::new(), annotations: BTreeSet::new() };
        self.foreign.as_deref().unwrap_or(&NONE)
    }
}
