//! What a rule says of a request, what it has to ask before it can decide, and what an allowed change rests on.

use std::collections::HashMap;

use super::denial::Denial;
use super::kind::Kind;
use super::name::Name;
use super::stream::Stream;

/// What a rule says of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// It may happen.
    Allow {
        /// Shown to the user, one sentence each.
        warnings: Vec<String>,
        /// The change of parent that the request makes, if it makes one: to be verified with live reads before it is
        /// admitted.
        change: Option<ParentChange>,
    },
    /// It may not happen.
    Deny(Denial),
    /// It cannot be decided before these are answered. Never empty, and never a question that was answered already.
    Ask(Vec<Question>),
}

/// How a rule that is a sequence of checks leaves early: with a verdict that is not "go on".
pub(crate) type Check<T = ()> = Result<T, Verdict>;

impl Verdict {
    /// Allowed, with nothing more to say.
    pub fn allow() -> Self {
        Self::warn(Vec::new())
    }

    /// Allowed, with these warnings.
    pub(crate) fn warn(warnings: Vec<String>) -> Self {
        Self::Allow { warnings, change: None }
    }

    /// The same, which rests on `change` if it allows.
    #[must_use]
    pub(crate) fn resting_on(self, change: impl FnOnce() -> Option<ParentChange>) -> Self {
        match self {
            Self::Allow { warnings, .. } => Self::Allow { warnings, change: change() },
            verdict => verdict,
        }
    }
}

impl From<Denial> for Verdict {
    fn from(denial: Denial) -> Self {
        Self::Deny(denial)
    }
}

/// A change of a namespace's parent.
///
/// A rule judges by a forest that is slightly behind. Two changes that are each allowed by it can make a cycle together, or take
/// a namespace away from the admin who was asked. So the links that the verdict rests on are read live, and the changes that
/// were just allowed are remembered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParentChange {
    /// Whose parent changes.
    pub child: Name,
    /// The stream of the object that names the parent.
    pub stated_by: Stream,
    /// What the verdict rests on: the ancestry of the present and of the new parent.
    pub links: Vec<Link>,
}

/// A namespace and its parent, as the forest knows it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Link {
    /// The namespace.
    pub namespace: Name,
    /// Its parent; `None` for a root.
    pub parent: Option<Name>,
    /// The stream of the object that names the parent.
    pub stated_by: Stream,
}

impl ParentChange {
    /// Whether this changes, or rests on, the parent of `namespace`.
    pub fn concerns(&self, namespace: &str) -> bool {
        *self.child == *namespace || self.links.iter().any(|link| *link.namespace == *namespace)
    }
}

/// A question to the API server, or a wait.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Question {
    /// Is the requesting user admin of this namespace, by the right that the dialect goes by? A `SubjectAccessReview`.
    IsAdmin(Name),
    /// May the requesting user `create` a namespace of this name?
    MayCreateNamespace(Name),
    /// May the requesting user give this namespace, which need not exist, its configuration?
    MayConfigure(Name),
    /// Does this namespace exist now, and is it being deleted? A live read.
    Namespace(Name),
    /// Has one of the two service accounts this right in all namespaces? A `SubjectAccessReview`.
    Account(Right),
    /// Will the forest know this within the time that a request can wait?
    Await(Awaited),
}

/// What a forest may come to know, as its streams deliver what has already happened.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Awaited {
    /// The namespace exists.
    Namespace(Name),
    /// The namespace does not exist.
    NoNamespace(Name),
    /// The namespace's configured parent is this one (`None`: it has none).
    Parent(Name, Option<Name>),
    /// Either all objects of the kind, or that they cannot be had.
    Objects(Kind),
}

/// What came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Yes; of a namespace: it exists and stays.
    Yes,
    /// No; of a namespace: there is none.
    No,
    /// The namespace exists and is being deleted.
    Terminating,
    /// The question could not be answered; the text says why.
    Failed(String),
}

/// The answers so far.
pub type Answers = HashMap<Question, Answer>;

/// One of the two programs, as RBAC knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Account {
    /// `hns-webhook`, which only looks.
    Webhook,
    /// `hns-controller`, which writes copies.
    Controller,
}

/// A right, in all namespaces.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Right {
    /// Whose.
    pub account: Account,
    /// To do what.
    pub verb: &'static str,
    /// With objects of this API group.
    pub group: Box<str>,
    /// And of this plural.
    pub resource: Box<str>,
}

/// The requesting user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct User {
    /// The name.
    pub name: String,
    /// The groups.
    pub groups: Vec<String>,
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
