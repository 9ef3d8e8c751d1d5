//! How many quotas can limit one namespace.
//!
//! The derived quota has the limits of all quotas above it and names them, and must fit into an object. The webhook checks all of
//! them for each increase of usage. Editors of a namespace create quotas there, so their number must not hinder others: the quotas
//! above come first, and those for which no room is left have no effect.

use super::Resources;
use crate::core::name::Name;

/// The most quotas that limit one namespace.
pub(crate) const MOST_QUOTAS: usize = 64;

/// The most bytes of their text. With the annotations it is a part of what an object may have (256 KiB).
const MOST_BYTES: usize = 32 * 1024;

/// What an annotation says of each limit, and of each quota, beside the names.
const WORDS: usize = 48;

/// The room that the quotas of one namespace have taken.
#[derive(Debug, Default)]
pub(crate) struct Room {
    quotas: usize,
    bytes: usize,
}

impl Room {
    /// Takes the room for a quota. Returns false if there is not enough.
    pub(crate) fn takes(&mut self, namespace: &Name, name: &Name, hard: &Resources) -> bool {
        self.quotas += 1;
        self.bytes += Self::bytes(namespace, name, hard);
        self.quotas <= MOST_QUOTAS && self.bytes <= MOST_BYTES
    }

    /// The bytes that a quota needs.
    pub(crate) fn bytes(namespace: &Name, name: &Name, hard: &Resources) -> usize {
        let own = namespace.len() + name.len() + WORDS;
        own + hard.keys().map(|limit| limit.len() + own).sum::<usize>()
    }
}
