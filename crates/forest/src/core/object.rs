//! An object of a propagated kind as the API server shows it. `object/state.rs` defines what the forest keeps of it, and
//! `object/index.rs` finds it.

mod index;
mod state;

use std::sync::Arc;

use super::content::{Canonical, Digest};
use super::destination::{Exceptions, Unparsable};
use super::hop::Hop;
use super::name::Name;
use super::version::Version;

pub use index::Counts;
pub(crate) use index::Objects;
pub(crate) use state::{Copy, Knowledge, Object, Source};

/// An object of a propagated kind as the API server shows it.
#[derive(Debug, Clone)]
pub struct ObjectFact {
    /// Its namespace.
    pub namespace: Name,
    /// Its name.
    pub name: Name,
    /// The observed version.
    pub version: Version,
    /// The namespace of its source, if the object is marked as a copy.
    pub inherited_from: Option<Name>,
    /// It has a `deletionTimestamp`.
    pub terminating: bool,
    /// Why it never propagates, if so.
    pub excluded: Option<Box<str>>,
    /// What its annotations ask for; `None` when it has no propagation annotations.
    pub exceptions: Option<Box<Result<Exceptions, Unparsable>>>,
    /// What is copied and compared; `None` from streams that carry metadata only.
    pub content: Option<KnownContent>,
    /// The Role of its own namespace that a `RoleBinding` refers to; `None` if it refers to a `ClusterRole`, for other kinds, and
    /// from streams that carry metadata only.
    pub role: Option<Name>,
    /// What it says about its propagation hop by hop, if anything. Its content is known as well as `content`.
    pub hop: Option<Box<Hop>>,
}

impl ObjectFact {
    /// An object that is no copy and has no propagation annotations, from a stream that carries metadata only.
    pub fn new(namespace: Name, name: Name, version: Version) -> Self {
        Self {
            namespace,
            name,
            version,
            inherited_from: None,
            terminating: false,
            excluded: None,
            exceptions: None,
            content: None,
            role: None,
            hop: None,
        }
    }
}

/// What is known of an object's content.
#[derive(Debug, Clone)]
pub struct KnownContent {
    /// The digest of the whole content.
    pub digest: Digest,
    /// The digest of the body: all content except labels and annotations.
    pub body_digest: Digest,
    /// All of it, if it may have to be copied. A fact may leave it out; it is read when needed ([`super::plan::Plan::unread`]).
    pub canonical: Option<Arc<Canonical>>,
    /// Whether it is in force in the cluster. A `ResourceQuota` may not be yet; everything else always is.
    pub in_force: bool,
}

impl KnownContent {
    /// All of the content is known.
    pub fn whole(canonical: Canonical) -> Self {
        let (digest, body_digest) = (canonical.digest(), canonical.body_digest());
        Self { digest, body_digest, canonical: Some(Arc::new(canonical)), in_force: true }
    }

    /// The same without the canonical form.
    #[must_use]
    pub fn digests(self) -> Self {
        Self { canonical: None, ..self }
    }
}

/// The most bytes of a name that is copied. In a URL, an encoded name takes three times as many bytes, and a proxy before an API
/// server may refuse URLs of more than 4,096 bytes. A copy with a longer name could be created, because the name is then in the
/// body, but never deleted.
pub const LONGEST_NAME: usize = 1_024;

/// Stands for bytes that are no text: names that differ in such bytes are equal in JSON.
pub(crate) const REPLACEMENT: char = char::REPLACEMENT_CHARACTER;

/// Whether an object of this name is never copied, because of its length or because another object can have the same name.
pub(crate) fn is_name_unfit(name: &str) -> bool {
    name.len() > LONGEST_NAME || name.contains(REPLACEMENT)
}
