//! The API of Accurate (`accurate.cybozu.com`): its keys, settings and objects, its rules, and its plans.
//!
//! A namespace names its upstream namespace by a label, `parent` or `template`. Labels of the namespace, and objects that say so,
//! go from there to the next namespaces, hop by hop. Nothing here is stored or evaluated in a forest without Accurate's settings
//! ([`crate::Forest::with_accurate`]).

pub mod content;
pub mod fact;
pub mod generated;
pub mod glob;
pub mod keys;
pub mod naming;
pub(crate) mod place;
pub mod plan;
pub mod rules;
pub mod settings;
pub(crate) mod state;
mod streams;
pub mod why;
#[cfg(test)]
pub(crate) mod world;

pub use fact::{Fact, Stalled, SubNamespaceFact, SubNamespaceStatus};
pub use place::has_edge;
pub use plan::AccurateAction;
pub use settings::Settings;
