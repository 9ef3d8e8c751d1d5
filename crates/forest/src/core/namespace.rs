//! A namespace as the API server shows it.

use std::collections::BTreeSet;

use super::labels::Labels;
use super::name::Name;
use super::version::Version;

/// A namespace as the API server shows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamespaceFact {
    /// Its name.
    pub name: Name,
    /// The observed version.
    pub version: Version,
    /// All its labels.
    pub labels: Labels,
    /// All its annotations. The forest keeps those that a dialect reads.
    pub annotations: Labels,
    /// Which of these another field manager has set.
    pub foreign: Foreign,
    /// Those that the dialect of hop by hop propagation has applied, with its own field manager.
    pub applied: Applied,
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

/// Keys of labels and annotations that a dialect has applied.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Applied {
    /// Keys of labels.
    pub labels: BTreeSet<Box<str>>,
    /// Keys of annotations.
    pub annotations: BTreeSet<Box<str>>,
    /// Those of the labels that others have also set: they stay when they are not applied any more.
    pub shared_labels: BTreeSet<Box<str>>,
    /// The same of annotations.
    pub shared_annotations: BTreeSet<Box<str>>,
}
