//! What all dialects share: namespaces and the edges between them, objects and their content, changes, verdicts and questions,
//! and plans as ordered steps.
//!
//! The core knows no key, condition or message of a dialect, and imports no dialect.

pub mod change;
pub mod content;
pub mod denial;
pub mod destination;
pub mod expression;
pub mod fields;
pub mod hop;
pub(crate) mod key_syntax;
pub mod kind;
pub mod labels;
pub mod managed;
pub mod name;
pub(crate) mod namespace;
pub(crate) mod object;
pub mod patterns;
pub mod plan;
pub mod quantity;
pub mod selector;
pub mod store;
pub mod stream;
pub mod text;
pub(crate) mod tree;
pub mod verdict;
pub mod version;
