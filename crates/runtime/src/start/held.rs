//! Keeps the allocator from giving back, after each burst of requests, the memory that the next one is read into.
//!
//! HTTP/2 reads each body into a buffer of its own. mimalloc keeps buffers of a size together on pages, and what is free is given
//! back at once (`MIMALLOC_PURGE_DELAY=0`, which keeps a program small that has just read everything): when the
//! requests of a burst have been answered, their pages are empty and go, and for the next burst the kernel has to find
//! and clear others. A page with one buffer that is never given back stays; what is held is not written to. `BENCHMARKS.md`
//! says what it gains ("What is read into"). Where the allocator were another one, this would gain nothing and cost half a MiB.

use std::hint::black_box;

const KIB: usize = 1024;

/// What a request of up to 8 KiB is read into, the most common by far.
const SMALL: usize = 8 * KIB;

/// So many are on their way in a large burst.
const AT_ONCE: usize = 64;

/// Of such buffers a page (64 KiB) holds seven, so of those that are held at least one lies on each.
const EVERY: usize = 4;

/// The other sizes that the allocator tells apart, up to a frame of HTTP/2; a page holds all of a burst.
const LARGER: [usize; 5] = [10 * KIB, 12 * KIB, 14 * KIB, 16 * KIB, 20 * KIB];

thread_local! {
    static HELD: Vec<Vec<u8>> = {
        let small: Vec<Vec<u8>> = (0..AT_ONCE).map(|_| black_box(Vec::with_capacity(SMALL))).collect();
        small.into_iter().step_by(EVERY).chain(LARGER.map(Vec::with_capacity)).collect()
    };
}

/// Holds them for as long as this thread lives.
pub(super) fn hold() {
    HELD.with(|held| {
        black_box(held);
    });
}
