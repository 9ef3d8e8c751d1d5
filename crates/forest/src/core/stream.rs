//! How complete the forest's knowledge is: which lists have arrived.
//!
//! Nothing is deleted, and nothing that depends on an object's absence is allowed, before the streams concerned have delivered a
//! complete list.

use std::fmt;

use super::kind::KindId;

/// A list and a watch of all objects of one resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stream {
    /// A resource of the structure or the configuration: its plural and group. A dialect defines its own.
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

/// The state of a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum StreamState {
    /// The first complete list has not arrived yet.
    #[default]
    Waiting,
    /// A complete list has arrived and changes follow.
    Synced,
    /// The list cannot be read; the text says why.
    Lost(Box<str>),
}

impl StreamState {
    /// Whether answers may use this stream.
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
