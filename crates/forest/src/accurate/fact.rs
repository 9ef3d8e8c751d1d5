//! Facts about Accurate's own objects. Facts carry no decisions.

use crate::core::labels::Labels;
use crate::core::name::Name;
use crate::core::version::Version;

/// A `SubNamespace` as the API server shows it. Its namespace is the parent, and its name is the child's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SubNamespaceFact {
    /// The child's name.
    pub name: Name,
    /// The observed version.
    pub version: Version,
    /// `metadata.generation`.
    pub generation: i64,
    /// `spec.labels`.
    pub labels: Labels,
    /// `spec.annotations`.
    pub annotations: Labels,
    /// `metadata.finalizers`, all of them.
    pub finalizers: Vec<Box<str>>,
    /// It has a `deletionTimestamp`.
    pub terminating: bool,
    /// `status`, as last written.
    pub status: SubNamespaceStatus,
}

/// The status of a `SubNamespace`. The writer of the condition sets its time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SubNamespaceStatus {
    /// The generation that it is about.
    pub observed_generation: i64,
    /// The condition of type `Stalled` with status `True`, if there is one.
    pub stalled: Option<Stalled>,
}

/// Why a `SubNamespace` is stalled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stalled {
    /// The reason, one `CamelCase` word.
    pub reason: Box<str>,
    /// One sentence.
    pub message: Box<str>,
    /// The condition's `observedGeneration`.
    pub observed_generation: i64,
}

/// A fact about Accurate's own objects.
#[derive(Debug, Clone)]
pub enum Fact {
    /// A `SubNamespace` was seen in this namespace.
    SubNamespace(Name, SubNamespaceFact),
    /// A `SubNamespace` was deleted: its namespace, its name, its uid. Ignored if its uid is another.
    SubNamespaceGone(Name, Name, Box<str>),
    /// These are all the `SubNamespaces` there are, with their namespaces.
    SubNamespaces(Vec<(Name, SubNamespaceFact)>),
    /// Whether the CRD of `SubNamespace` is being deleted. Its objects are deleted with it, without a user's intent.
    CrdIsBeingDeleted(bool),
}

impl Fact {
    /// The version of the object that was seen, if the fact is about one.
    pub(crate) fn seen(&self) -> Option<&Version> {
        match self {
            Self::SubNamespace(_, seen) => Some(&seen.version),
            _ => None,
        }
    }
}
