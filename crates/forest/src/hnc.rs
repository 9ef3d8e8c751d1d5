//! The API of the Hierarchical Namespace Controller: its objects and keys, its rules, its plans, and its explanations.

pub mod anchor;
pub mod condition;
pub mod configuration;
mod content;
pub mod exceptions;
pub mod exclusion;
pub mod fact;
pub(crate) mod hierarchy;
pub mod keys;
pub(crate) mod limits;
pub mod naming;
pub mod plan;
pub mod quota;
pub mod rules;
pub mod settings;
pub(crate) mod state;
mod streams;
pub mod tracking;
pub(crate) mod tree_limit;
mod view;
pub mod why;
pub mod words;

pub use fact::Fact;
pub use plan::HncAction;
pub use state::external_manager;
pub(crate) use state::{LAYOUT, State};
