//! Five hundred random operations while the controller is killed again and again: what comes of it is what the
//! rules say, and nothing was lost on the way.
//!
//! What the rules say is written once more in [`chaos::specification`], from docs/compatibility.md and without the product; how a
//! loss is told from what has to be, in [`chaos::history`]. Each seed has a cluster of its own, since modes are the
//! whole cluster's. The seed decides the operations, their order and the pauses, and when the controller is killed; what it
//! does in between is up to the machine.

#[cfg(test)]
mod chaos {
    pub(crate) mod comparison;
    pub(crate) mod diary;
    pub(crate) mod history;
    pub(crate) mod kind;
    pub(crate) mod observer;
    pub(crate) mod operation;
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
