//! What every dialect has in common: names, namespaces and the edges between them, objects and their content, what a change
//! touches, verdicts and questions. Knows no key, no condition and no message of a dialect.

pub(crate) mod change;
pub(crate) mod content;
pub(crate) mod denial;
pub(crate) mod kind;
pub(crate) mod labels;
pub(crate) mod object;
pub(crate) mod patterns;
pub(crate) mod question;
pub(crate) mod shown;
pub(crate) mod store;
pub(crate) mod stream;
pub mod text;
pub(crate) mod tree;
pub(crate) mod version;
