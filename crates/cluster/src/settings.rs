//! The settings that all programs of an installation share, and how each program reads them.
//!
//! The administrator writes a document into the `ConfigMap` `hns-config` ([`SharedSettings`]). The leading controller checks the
//! document, applies its own flags to it, and writes the result to the `ConfigMap` `hnc-settings`. Every program runs with the
//! settings in `hnc-settings`, and follows their changes ([`Follower`]). Both are in the namespace of the installation.

pub mod accurate;
mod data;
mod document;
mod follow;
mod section;
pub mod values;

pub use self::data::{
    DELETED, DOCUMENT, Data, FLAGS, REFUSED, SOURCE, VERSION, in_force, is_deleted, refusal,
    refusal_of_document, refused, version,
};
pub use self::document::{
    FailurePolicy, HierarchicalQuotas, InitialAdmin, Invalid, Propagation, SharedSettings, Version,
};
pub use self::follow::{Follower, InForce, Seen, watch_config_map};
