//! The API of the Hierarchical Namespace Controller: its objects, its keys, what it refuses, what it has written and what it
//! says about it.

pub(crate) mod anchor;
pub(crate) mod condition;
pub mod configuration;
pub mod exceptions;
pub mod exclusion;
pub(crate) mod fact;
pub mod keys;
pub mod plan;
pub mod preview;
pub mod rules;
pub(crate) mod settings;
pub(crate) mod survey;
pub(crate) mod tracking;
pub mod why;
