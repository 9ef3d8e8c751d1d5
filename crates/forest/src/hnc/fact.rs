//! What is observed of HNC's own objects. Facts carry no decisions.

use super::condition::Condition;
use crate::core::labels::Labels;
use crate::core::name::Name;
use crate::core::version::Version;

/// The `HierarchyConfiguration` of a namespace as the API server shows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HierarchyFact {
    /// The state seen.
    pub version: Version,
    /// `spec.parent`; absent and empty both mean a root.
    pub parent: Option<Name>,
    /// `spec.allowCascadingDeletion`.
    pub allow_cascading_deletion: bool,
    /// `spec.labels`, whether or not their keys are managed.
    pub labels: Labels,
    /// `spec.annotations`, whether or not their keys are managed.
    pub annotations: Labels,
    /// `metadata.finalizers`, all of them.
    pub finalizers: Vec<Box<str>>,
    /// It has a `deletionTimestamp`.
    pub terminating: bool,
    /// `status`, as last written.
    pub status: HierarchyStatus,
    /// The object exists but its content could not be understood; the text says why. Its namespace is frozen: what is
    /// not understood is not acted upon.
    pub unreadable: Option<Box<str>>,
}

/// The status of a `HierarchyConfiguration`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HierarchyStatus {
    /// Direct children, sorted.
    pub children: Vec<Name>,
    /// The conditions, in the order in which they are shown.
    pub conditions: Vec<Condition>,
}

impl HierarchyStatus {
    /// Whether there is nothing to say.
    pub fn is_empty(&self) -> bool {
        self.children.is_empty() && self.conditions.is_empty()
    }
}

/// A `SubnamespaceAnchor` as the API server shows it. It is in the parent and has the name of the child.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AnchorFact {
    /// The child's name.
    pub name: Name,
    /// The state seen.
    pub version: Version,
    /// `spec.labels`.
    pub labels: Labels,
    /// `spec.annotations`.
    pub annotations: Labels,
    /// Who is to be the first administrator of the subnamespace: the annotation `hnc.x-k8s.io/initial-admin`.
    pub initial_admin: Option<Box<str>>,
    /// `status.status`, as last written, by whomever.
    pub state: Option<Box<str>>,
    /// `metadata.finalizers`, all of them.
    pub finalizers: Vec<Box<str>>,
    /// It has a `deletionTimestamp`.
    pub terminating: bool,
}

/// The state of the CRDs of `HierarchyConfiguration` and `SubnamespaceAnchor`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Definition {
    /// They exist.
    Here,
    /// One is being deleted, or gone. Its objects go with it, which says nothing about what users want.
    Going,
}

/// What is told of HNC's own objects.
#[derive(Debug, Clone)]
pub enum Fact {
    /// The `HierarchyConfiguration` of a namespace was seen.
    Hierarchy(Name, HierarchyFact),
    /// The `HierarchyConfiguration` of a namespace is gone; of one with another uid nothing is said.
    HierarchyGone(Name, Box<str>),
    /// These are all the `HierarchyConfigurations` there are.
    Hierarchies(Vec<(Name, HierarchyFact)>),
    /// An anchor was seen in this namespace.
    Anchor(Name, AnchorFact),
    /// An anchor is gone: its namespace, its name, its uid. Of one with another uid nothing is said.
    AnchorGone(Name, Name, Box<str>),
    /// These are all the anchors there are, with their namespaces.
    Anchors(Vec<(Name, AnchorFact)>),
    /// The CRDs were read live, after everything told so far.
    Definitions(Definition),
}

impl Fact {
    /// The state of the object that was seen, if this is about one.
    pub(crate) fn seen(&self) -> Option<&Version> {
        match self {
            Self::Hierarchy(_, seen) => Some(&seen.version),
            Self::Anchor(_, seen) => Some(&seen.version),
            _ => None,
        }
    }
}
