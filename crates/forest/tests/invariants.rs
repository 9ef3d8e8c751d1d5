//! What must always hold (`docs/concepts.md`), in random worlds and after random requests: users with RBAC, namespaces, trees,
//! anchors in every state, annotations, selectors and configurations; every way to ask. RBAC decides whether a request can be sent
//! at all, the admission rules judge it, and the plans are carried out until nothing is left to do.
//!
//! `HNS_INVARIANTS_SEED` and `HNS_INVARIANTS_REQUESTS` ask for other requests, and for more.

#[cfg(test)] // Which it is anyhow; Clippy has to be told.
#[allow(dead_code, reason = "each of the tests that share it uses a part")]
#[path = "support/cluster.rs"]
mod cluster;
#[cfg(test)] // Which it is anyhow; Clippy has to be told.
mod invariants {
    mod access;
    mod ask;
    mod check;
    mod draw;
    mod judge;
    mod places;
    pub(crate) mod run;
    mod story;
    mod world;
}
#[cfg(test)] // Which it is anyhow; Clippy has to be told.
#[allow(dead_code, reason = "each of the tests that share it uses a part")]
#[path = "support/naive.rs"]
mod naive;
