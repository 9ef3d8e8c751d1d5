//! The uids of deleted objects, for as long as facts about them may still arrive.
//!
//! The response to a write is applied as a fact, and the watch may already have reported the deletion. Without this, the late
//! response would restore the object in the forest permanently.

use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};

/// How many uids are kept. A response is late by milliseconds; this covers seconds of deletions.
const MEMORY: usize = 16_384;

/// The uids of the last deleted objects, each as eight bytes. A uid is never reused.
#[derive(Debug, Clone, Default)]
pub(super) struct Departed {
    fingerprint: RandomState,
    known: HashSet<u64>,
    order: VecDeque<u64>,
}

impl Departed {
    pub(super) fn add(&mut self, uid: &str) {
        let uid = self.fingerprint.hash_one(uid);
        if !self.known.insert(uid) {
            return;
        }
        self.order.push_back(uid);
        if self.order.len() > MEMORY
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    pub(super) fn contains(&self, uid: &str) -> bool {
        !self.known.is_empty() && self.known.contains(&self.fingerprint.hash_one(uid))
    }

    /// A complete list shows these, so they exist even if they were reported as deleted: storage may have been restored.
    pub(super) fn are_here<'a>(&mut self, uids: impl Iterator<Item = &'a str>) {
        if self.known.is_empty() {
            return;
        }
        for uid in uids {
            let uid = self.fingerprint.hash_one(uid);
            if self.known.remove(&uid) {
                self.order.retain(|other| *other != uid);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_are_remembered_and_no_more() {
        let mut departed = Departed::default();
        assert!(!departed.contains("0"));
        for uid in 0..=MEMORY {
            departed.add(&uid.to_string());
            departed.add(&uid.to_string());
        }
        assert!(!departed.contains("0") && departed.contains("1") && departed.contains(&MEMORY.to_string()));
        assert_eq!((departed.known.len(), departed.order.len()), (MEMORY, MEMORY));
        departed.are_here(["1", "other"].into_iter());
        assert!(!departed.contains("1") && departed.contains("2"));
        assert_eq!((departed.known.len(), departed.order.len()), (MEMORY - 1, MEMORY - 1));
    }
}
