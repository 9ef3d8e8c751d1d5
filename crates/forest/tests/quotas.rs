//! Hierarchical quotas against a specification of a page: whatever happens, in whatever order it is told, carrying out the plans leads
//! to the derived quotas and the statuses that follow from the tree, the quotas and what there is.

#[cfg(test)] // Which it is anyhow; Clippy has to be told.
#[allow(dead_code, reason = "each of the tests that share it uses a part")]
#[path = "support/cluster.rs"]
mod cluster;
#[cfg(test)] // Which it is anyhow; Clippy has to be told.
#[allow(dead_code, reason = "each of the tests that share it uses a part")]
#[path = "support/naive.rs"]
mod naive;
#[cfg(test)] // Which it is anyhow; Clippy has to be told.
#[allow(dead_code, reason = "each of the tests that share it uses a part")]
#[path = "support/op.rs"]
mod op;
#[cfg(test)] // Which it is anyhow; Clippy has to be told.
mod quotas {
    mod cases;
    pub(crate) mod decisions;
    mod run;
    mod spec;
    mod story;
}
