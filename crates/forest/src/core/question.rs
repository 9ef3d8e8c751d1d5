//! What a rule has to know from elsewhere before it can decide.

use std::collections::HashMap;
use std::fmt;

use crate::configuration::rights::Right;
use crate::rules::{Check, Denial, Verdict};
use crate::{Forest, Kind, Name, Stream, StreamState};

/// A question to the API server, or to time.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Question {
    /// Is the requesting user admin of this namespace, that is: may they `update` `hierarchyconfigurations` of
    /// `hnc.x-k8s.io` in it? A `SubjectAccessReview`.
    IsAdmin(Name),
    /// May the requesting user `create` a namespace of this name?
    MayCreateNamespace(Name),
    /// May the requesting user `create` a `hierarchyconfigurations` of `hnc.x-k8s.io` in this namespace?
    MayCreateHierarchy(Name),
    /// Does this namespace exist now, and is it going away? A read past every cache.
    Namespace(Name),
    /// Has one of the two service accounts this right in all namespaces? A `SubjectAccessReview`.
    Account(Right),
    /// Will the forest come to know this within the time that a request can wait?
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

impl Awaited {
    /// Whether `forest` knows it by now.
    pub fn is_known(&self, forest: &Forest) -> bool {
        match self {
            Self::Namespace(name) => forest.exists(name),
            Self::NoNamespace(name) => !forest.exists(name),
            Self::Parent(name, parent) => forest.parent(name) == parent.as_ref(),
            Self::Objects(kind) => forest
                .kind_named(&kind.group, &kind.kind)
                .is_some_and(|id| forest.stream(Stream::Kind(id)) != StreamState::Waiting),
        }
    }
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

/// Asks all of `questions` that are open, at once, and refuses when one of them could not be answered: what cannot be
/// found out is neither a yes nor a no.
pub(crate) fn all_answered(questions: &[Question], answers: &Answers) -> Check {
    let open: Vec<Question> = questions.iter().filter(|it| !answers.contains_key(it)).cloned().collect();
    if !open.is_empty() {
        return Err(Verdict::Ask(open));
    }
    let failed = questions.iter().find_map(|question| match &answers[question] {
        Answer::Failed(why) => Some(Denial::internal(format!("it could not be found out {question}: {why}"))),
        Answer::Yes | Answer::No | Answer::Terminating => None,
    });
    failed.map_or(Ok(()), |denial| Err(denial.into()))
}

/// As a clause: "whether you are …".
impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::IsAdmin(name) => write!(f, "whether you are an admin of {name:?}"),
            Self::MayCreateNamespace(name) => write!(f, "whether you may create the namespace {name:?}"),
            Self::MayCreateHierarchy(name) => {
                write!(f, "whether you may create a HierarchyConfiguration in namespace {name:?}")
            }
            Self::Namespace(name) | Self::Await(Awaited::Namespace(name)) => {
                write!(f, "whether namespace {name:?} exists")
            }
            Self::Account(Right { account, verb, resource, .. }) => {
                write!(f, "whether the service account {} may {verb} {resource}", account.cluster_role())
            }
            Self::Await(Awaited::Objects(kind)) => write!(f, "which {} there are", kind.group_resource()),
            Self::Await(Awaited::NoNamespace(name)) => write!(f, "whether namespace {name:?} is gone"),
            Self::Await(Awaited::Parent(name, _)) => write!(f, "what the parent of namespace {name:?} is"),
        }
    }
}
