//! What all programs of an installation must agree on, and how each comes to know it.
//!
//! The `ConfigMap` `hns-config` has a document ([`SharedSettings`]). The leading controller checks it, puts its flags over it, and
//! writes what comes of that to the `ConfigMap` `hnc-settings`. Every program runs with what stands there
//! ([`Follower`]), and follows it. Both are in the namespace of the installation.

mod data;
mod document;
mod follow;
pub mod values;

pub use self::data::{DOCUMENT, Data, REFUSED, VERSION, in_force, refused, version};
pub use self::document::{InitialAdmin, Invalid, Propagation, SharedSettings, Version};
pub use self::follow::{Follower, InForce, Seen, watch_config_map};
