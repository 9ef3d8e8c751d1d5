//! Five hundred random operations while the controller is killed again and again: the result must follow the rules, and nothing
//! may be lost on the way.
//!
//! The rules are those of the naive model that the property tests use ([`chaos::specification`]); [`chaos::history`] tells a loss
//! from an intended deletion. Now and then the plugin explains an object ([`chaos::plugin`]). Each seed has a cluster of its own,
//! because modes are cluster-wide. The seed decides the operations, their order and the pauses, and when the controller is
//! killed; the timing in between depends on the machine.

#[cfg(test)]
#[allow(dead_code, reason = "a part of it is used here")]
#[path = "../../crates/forest/tests/support/cluster.rs"]
mod cluster;
#[cfg(test)]
#[allow(dead_code, reason = "a part of it is used here")]
#[path = "../../crates/forest/tests/support/naive.rs"]
mod naive;

#[cfg(test)]
mod chaos {
    pub(crate) mod comparison;
    pub(crate) mod diary;
    pub(crate) mod history;
    pub(crate) mod kind;
    pub(crate) mod observer;
    pub(crate) mod operation;
    pub(crate) mod plugin;
    pub(crate) mod run;
    pub(crate) mod specification;
    pub(crate) mod user;
}

use anyhow::Result;

use self::chaos::run::run;

#[tokio::test]
async fn the_first_seed_loses_nothing_and_leaves_nothing() -> Result<()> {
    run(0x5eed_0001_dead_beef).await
}

#[tokio::test]
async fn the_second_seed_loses_nothing_and_leaves_nothing() -> Result<()> {
    run(0x5eed_0002_cafe_babe).await
}

#[tokio::test]
async fn the_third_seed_loses_nothing_and_leaves_nothing() -> Result<()> {
    run(0x5eed_0003_face_feed).await
}
