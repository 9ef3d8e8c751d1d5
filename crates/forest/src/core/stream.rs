//! What the forest knows of its own completeness: which lists have arrived.
//!
//! Nothing may be deleted, and nothing that depends on absence may be allowed, before the streams that tell of it have
//! delivered a complete list.

use std::fmt;

use super::kind::KindId;

/// A list and a watch that tell of all objects of one resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stream {
    /// A resource that the structure or the configuration rests on: its plural and group. A dialect names its own.
    Resource(&'static str),
    /// All objects of one propagated kind.
    Kind(KindId),
}

impl Stream {
    /// All namespaces.
    pub const NAMESPACES: Self = Self::Resource("namespaces");
}

impl fmt::Display for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Resource(resource) => resource,
            Self::Kind(_) => "objects of a propagated kind",
        })
    }
}

/// How far a stream is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum StreamState {
    /// The first complete list has not arrived.
    #[default]
    Waiting,
    /// A complete list has arrived and changes follow.
    Synced,
    /// The list cannot be had; the text says why.
    Lost(Box<str>),
}

impl StreamState {
    /// Whether answers may rest on this stream.
    pub fn is_synced(&self) -> bool {
        *self == Self::Synced
    }
}

impl fmt::Display for StreamState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Waiting => f.write_str("its first complete list has not arrived yet"),
            Self::Synced => f.write_str("synced"),
            Self::Lost(why) => f.write_str(why),
        }
    }
}
