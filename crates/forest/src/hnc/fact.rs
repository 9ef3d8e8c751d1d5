//! What can be told to a forest: observed objects, their disappearance, complete lists, and the fate of writes.
//!
//! Facts carry no decisions. Ingest (in the runtime crate) makes them from API objects; the model in the property tests
//! makes them from nothing.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::content::{Canonical, Digest};
use crate::exceptions::{Exceptions, Unparsable};
use crate::store::Unmatched;
use crate::{Condition, KindId, KindSettings, Labels, Name, ObjectKey, Stream};

/// Which state of which object was observed; the precondition of every later write to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Version {
    /// `metadata.uid`.
    pub uid: Box<str>,
    /// `metadata.resourceVersion`.
    pub resource_version: Box<str>,
}

impl Version {
    /// Whether `self` is an earlier state of the same object than `other`. Resource versions of one resource compare as
    /// integers; where one is no integer, nothing is known to be older.
    pub fn is_older_than(&self, other: &Self) -> bool {
        let number = |version: &Self| version.resource_version.parse::<u64>().ok();
        self.uid == other.uid
            && matches!((number(self), number(other)), (Some(mine), Some(theirs)) if mine < theirs)
    }

    /// Whether `self` is an earlier state of the same object than `other`, or the same state. A write that changes nothing
    /// leaves the state as it was, and must not be a reason to look again.
    pub(crate) fn is_no_news_after(&self, other: &Self) -> bool {
        self.is_older_than(other) || (self == other && !self.resource_version.is_empty())
    }
}

/// A namespace as the API server shows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamespaceFact {
    /// Its name.
    pub name: Name,
    /// The state seen.
    pub version: Version,
    /// All its labels.
    pub labels: Labels,
    /// All its annotations. The forest keeps those that mean something to it.
    pub annotations: Labels,
    /// Which of these somebody else than HNC or this controller has set.
    pub foreign: Foreign,
    /// It has a `deletionTimestamp`.
    pub terminating: bool,
}

/// Keys of labels and annotations that are somebody else's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Foreign {
    /// Keys of labels.
    pub labels: BTreeSet<Box<str>>,
    /// Keys of annotations.
    pub annotations: BTreeSet<Box<str>>,
}

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

/// What has become of a definition that the structure rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Definition {
    /// It is there and stays.
    Here,
    /// It is being deleted, or gone. What it defined goes with it and says nothing about what anybody wants.
    Going,
}

/// An object of a propagated kind as the API server shows it.
#[derive(Debug, Clone)]
pub struct ObjectFact {
    /// Where it is.
    pub namespace: Name,
    /// Its name.
    pub name: Name,
    /// The state seen.
    pub version: Version,
    /// The label `hnc.x-k8s.io/inherited-from`: its presence alone makes the object a copy.
    pub inherited_from: Option<Name>,
    /// It has a `deletionTimestamp`.
    pub terminating: bool,
    /// Why it does not propagate whatever the hierarchy says, if so ([`crate::exclusion::exclusion`]).
    pub excluded: Option<Box<str>>,
    /// What its annotations ask for; `None` when they say nothing about propagation.
    pub exceptions: Option<Box<Result<Exceptions, Unparsable>>>,
    /// What is copied and compared; `None` from streams that carry metadata only.
    pub content: Option<Content>,
    /// The Role of its own namespace that a `RoleBinding` refers to; `None` where it refers to a `ClusterRole`, for other kinds,
    /// and from streams that carry metadata only.
    pub role: Option<Name>,
}

/// What is known of an object's content.
#[derive(Debug, Clone)]
pub struct Content {
    /// Of all of it.
    pub digest: Digest,
    /// Of the body alone.
    pub body: Digest,
    /// All of it, where it may have to be copied. Whoever tells the fact may leave it out; it is asked for when needed
    /// ([`crate::plan::Plan::unread`]).
    pub canonical: Option<Arc<Canonical>>,
    /// Whether the cluster has put it in force. A `ResourceQuota` may not be, anything else always is.
    pub in_force: bool,
}

impl Content {
    /// What is known when everything is.
    pub fn whole(canonical: Canonical) -> Self {
        let (digest, body) = (canonical.digest(), canonical.body_digest());
        Self { digest, body, canonical: Some(Arc::new(canonical)), in_force: true }
    }

    /// The same without what it was made of.
    #[must_use]
    pub fn digests(self) -> Self {
        Self { canonical: None, ..self }
    }
}

/// Something to tell a forest.
#[derive(Debug, Clone)]
pub enum Fact {
    /// A namespace was seen.
    Namespace(NamespaceFact),
    /// A namespace is gone; of an object with another uid nothing is said.
    NamespaceGone(Name, Box<str>),
    /// These are all the namespaces there are.
    Namespaces(Vec<NamespaceFact>),
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
    /// The definitions of `HierarchyConfiguration` and `SubnamespaceAnchor` were looked at, past every cache, after
    /// everything told so far.
    Definitions(Definition),
    /// These kinds are propagated, each as said; others are so no more.
    Kinds(Vec<KindSettings>),
    /// An object was seen.
    Object(KindId, ObjectFact),
    /// An object is gone: namespace, name, uid. Of one with another uid nothing is said.
    ObjectGone(KindId, Name, Name, Box<str>),
    /// These are all the objects of the kind there are.
    Objects(KindId, Vec<ObjectFact>),
    /// The structure is as new as these complete lists: its streams have told what a list of it showed that was read after them.
    Matched(Unmatched),
    /// A list cannot be had.
    StreamLost(Stream, Box<str>),
    /// A copy in this namespace could not be written or removed; the text is the API server's.
    WriteFailed(Name, ObjectKey, Box<str>),
    /// An object in this namespace is left alone though one from above should be in its place; the text says why.
    Conflict(Name, ObjectKey, Box<str>),
    /// A copy in this namespace was written or removed, or need not be any more.
    WriteSettled(Name, ObjectKey),
    /// The API server was given content with this digest to write, and made this state of the copy of it: nothing is to be
    /// written because of the difference. If another state is known by then, somebody has changed it, and nothing is said.
    Accepted(Name, ObjectKey, Version, Digest),
}
