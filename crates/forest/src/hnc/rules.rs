//! Admission: may this happen?
//!
//! One file per webhook. A rule is a function of a forest, a request and the answers that are known so far; it allows,
//! denies, or says what it must ask the API server first. It is called again with the answers, on the forest as it is
//! by then, until it decides. A rule never waits, never asks itself, and what it does not understand it denies.

pub mod adoption;
pub mod anchor;
pub mod configuration;
pub mod hierarchy;
pub mod namespace;
pub mod object;

mod managed_keys;
#[cfg(test)]
mod tests;

pub use crate::core::denial::{Cause, Denial, DenialKind, FieldFault};
pub(crate) use crate::core::question;
pub use crate::core::question::{Answer, Answers, Awaited, Question};
pub use crate::core::shown::{Fields, Pairs};

/// What a rule says of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// It may happen; the warnings are shown to the user.
    Allow {
        /// One sentence each.
        warnings: Vec<String>,
    },
    /// It may not happen.
    Deny(Denial),
    /// It cannot be decided before these are answered. Never empty, and never a question that was answered already.
    Ask(Vec<Question>),
}

impl Verdict {
    /// Allowed, with nothing more to say.
    pub fn allow() -> Self {
        Self::Allow { warnings: Vec::new() }
    }
}

impl From<Denial> for Verdict {
    fn from(denial: Denial) -> Self {
        Self::Deny(denial)
    }
}

/// How a rule that is a sequence of checks leaves early: with a verdict that is not "go on".
pub(crate) type Check<T = ()> = Result<T, Verdict>;

/// Who asks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct User {
    /// The name.
    pub name: String,
    /// The groups.
    pub groups: Vec<String>,
}

impl User {
    /// Whether this user is one of `identities`.
    pub(crate) fn is_any_of<'a>(
        &self,
        identities: impl IntoIterator<Item = &'a crate::settings::Identity>,
    ) -> bool {
        identities.into_iter().any(|identity| identity.is(&self.name, &self.groups))
    }
}

/// What operation a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// A new object.
    Create,
    /// A changed object.
    Update,
    /// A removed object, alone or as one of a collection.
    Delete,
}
