//! Propagation from a namespace to the next ones only: hop by hop.
//!
//! A copy made in this way can itself be a source for the next namespaces, so an object has both properties at the same time. In
//! the other way, the top-most source reaches all namespaces below (`core/destination.rs`). A dialect reads from its own keys what
//! an object says.

use super::content::Digest;
use super::name::Name;
use super::object::KnownContent;

/// How a source is copied to the next namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HopMode {
    /// A copy is created where no object of that name exists, and is then left alone.
    Create,
    /// Copies are kept equal to their source.
    Update,
    /// The object asks for an unknown mode. It is not copied.
    Unknown,
}

/// What an object says about its propagation hop by hop.
#[derive(Debug, Clone)]
pub struct Hop {
    /// How it is copied to the next namespaces, if it is.
    pub mode: Option<HopMode>,
    /// The namespace of its source, if it is marked as a copy.
    pub from: Option<Name>,
    /// Whether it has everything that marks a copy.
    pub marked: bool,
    /// Whether it has nothing that is not copied, beside the marks of a copy. Such a copy can be replaced whole.
    pub bare: bool,
    /// The content of its copies; `None` from streams that carry metadata only. A copy has the content of its own copies.
    pub content: Option<KnownContent>,
    /// The digest of the content that the API server was given when it stored this copy.
    pub(crate) accepted: Option<Digest>,
}

impl Hop {
    /// What an object says; the content may follow.
    pub fn new(
        mode: Option<HopMode>,
        from: Option<Name>,
        marked: bool,
        content: Option<KnownContent>,
    ) -> Self {
        Self { mode, from, marked, bare: false, content, accepted: None }
    }

    /// Whether it is copied to the next namespaces.
    pub(crate) fn is_source(&self) -> bool {
        matches!(self.mode, Some(HopMode::Create | HopMode::Update))
    }

    /// Whether it is a copy that is kept equal to its source, and deleted without one.
    pub(crate) fn is_followed(&self) -> bool {
        self.from.is_some() && self.mode == Some(HopMode::Update)
    }

    /// Whether it counts as a copy even if the annotation that names its source has been removed.
    pub(crate) fn is_tampered(&self) -> bool {
        self.marked && self.mode == Some(HopMode::Update)
    }

    /// Whether this is the result of writing that source, which is in `namespace`.
    pub(crate) fn is_of(&self, namespace: &Name, source: &Self) -> bool {
        let wanted = source.digest();
        let is_same = self.marked && self.digest() == wanted;
        self.from.as_ref() == Some(namespace) && (is_same || (wanted.is_some() && self.accepted == wanted))
    }

    /// The same, but labels and annotations may differ.
    pub(crate) fn has_the_body_of(&self, namespace: &Name, source: &Self) -> bool {
        let body = |hop: &Self| hop.content.as_ref().map(|content| content.body_digest);
        self.from.as_ref() == Some(namespace) && body(self) == body(source) || self.is_of(namespace, source)
    }

    /// The digest of the content of its copies.
    pub(crate) fn digest(&self) -> Option<Digest> {
        self.content.as_ref().map(|content| content.digest)
    }

    /// Whether both lead to the same copies.
    pub(crate) fn propagates_as(&self, other: &Self) -> bool {
        self.mode == other.mode && self.digest() == other.digest()
    }
}
