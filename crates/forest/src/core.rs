//! What all dialects have in common: namespaces and the edges between them, objects and their content, what a fact touches,
//! verdicts and questions, and plans as ordered steps.
//!
//! It knows no key, no condition and no message of a dialect, and imports none.

pub mod change;
pub mod content;
pub mod denial;
pub mod destination;
pub mod fields;
pub mod kind;
pub mod labels;
pub mod managed;
pub mod name;
pub(crate) mod namespace;
pub(crate) mod object;
pub mod patterns;
pub mod plan;
pub mod selector;
pub mod store;
pub mod stream;
pub mod text;
pub(crate) mod tree;
pub mod verdict;
pub mod version;
