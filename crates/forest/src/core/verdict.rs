//! The verdict of a rule, the questions that it asks first, and the links that an allowed change depends on.

use std::collections::HashMap;

use super::denial::Denial;
use super::kind::Kind;
use super::name::Name;
use super::store::Store;
use super::stream::{Stream, StreamState};

/// The verdict of a rule.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// The request is allowed.
    Allow {
        /// Shown to the user, one sentence each.
        warnings: Vec<String>,
        /// The change of parent that the request makes, if any: live reads verify it before it is admitted.
        change: Option<Box<ParentChange>>,
    },
    /// The request is denied.
    Deny(Denial),
    /// The rule needs these questions answered first. Never empty, and never an answered question.
    Ask(Vec<Question>),
}

/// The result of one check of a rule: `Err` ends the rule with a verdict.
pub(crate) type Check<T = ()> = Result<T, Verdict>;

impl Verdict {
    /// Allowed without warnings.
    pub fn allow() -> Self {
        Self::warn(Vec::new())
    }

    /// Allowed, with these warnings.
    pub(crate) fn warn(warnings: Vec<String>) -> Self {
        Self::Allow { warnings, change: None }
    }

    /// The verdict of two rules about the same request. The second is asked if the first allows it; then the warnings of the first
    /// count, and the change of either: a request changes one hierarchy.
    #[must_use]
    pub fn and(self, second: impl FnOnce() -> Self) -> Self {
        match self {
            Self::Allow { warnings, change } => match second() {
                Self::Allow { change: other, .. } => Self::Allow { warnings, change: change.or(other) },
                other => other,
            },
            other => other,
        }
    }

    /// The same verdict. If it allows the request, it carries `change`: the change of parent that the request makes.
    #[must_use]
    pub(crate) fn with_change(self, change: impl FnOnce() -> Option<ParentChange>) -> Self {
        match self {
            Self::Allow { warnings, .. } => Self::Allow { warnings, change: change().map(Box::new) },
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
/// A rule uses a forest that is slightly behind. Two changes that are both allowed could together make a cycle, or move a
/// namespace away from the admin who consented. So the links of the verdict are read live, and changes that were just allowed are
/// remembered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParentChange {
    /// The namespace whose parent changes.
    pub child: Name,
    /// The stream of the object that names the parent of `child`.
    pub parent_is_in: Stream,
    /// The links that the verdict depends on: the ancestry of the present and of the new parent.
    pub links: Vec<Link>,
    /// The new parent, if it does not exist.
    pub missing_parent: Option<Name>,
    /// The trees with a limited number of namespaces that `child` is added to. Several such changes could exceed the limit
    /// together. Empty for an anchor: the controller creates no more namespaces than there is room for.
    pub added_to: Vec<Addition>,
    /// The namespace of the anchor, if an anchor for `child` is created or deleted, or a `SubNamespace` is deleted.
    pub anchor_in: Option<Name>,
    /// Whether that is deleted, and `child` with it. Nothing may come to be below `child` meanwhile.
    pub deletes: bool,
    /// Whether it decides what can be below `child`: namespaces of which hierarchy, or none. Nothing may come to be below `child`
    /// meanwhile.
    pub decides_below: bool,
    /// The other side of a missing parent, as far as it is known; it has consented. For a missing parent, the namespaces of the
    /// anchors that wait for its name; for an anchor, the namespaces that name `child` as their parent.
    pub consenting: Vec<Name>,
}

/// Namespaces that a change adds to a tree with a limited number of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addition {
    /// The root that the limit is for.
    pub root: Name,
    /// How many namespaces the change adds.
    pub count: usize,
    /// For how many there is room, as far as the forest knows.
    pub room: usize,
}

/// A namespace and its parent, as the forest knows it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Link {
    /// The namespace.
    pub namespace: Name,
    /// Its parent; `None` for a root.
    pub parent: Option<Name>,
    /// The stream of the object that names the parent.
    pub parent_is_in: Stream,
}

impl ParentChange {
    /// Whether this change must wait, because it and the `others` together could exceed a limit of namespaces.
    pub fn exceeds_with<'a>(&self, others: &(impl Iterator<Item = &'a Self> + Clone)) -> bool {
        self.added_to.iter().any(|addition| {
            let to_the_same = others.clone().flat_map(|other| &other.added_to);
            let pending: usize = to_the_same.filter(|it| it.root == addition.root).map(|it| it.count).sum();
            pending > 0 && pending + addition.count > addition.room
        })
    }

    /// Whether this changes the parent of `namespace`, or depends on that parent.
    pub fn concerns(&self, namespace: &str) -> bool {
        *self.child == *namespace || self.links.iter().any(|link| *link.namespace == *namespace)
    }

    /// Whether this creates an anchor.
    pub fn is_new_anchor(&self) -> bool {
        self.anchor_in.is_some() && !self.deletes
    }

    /// Whether this puts a namespace below the one that `other` changes.
    fn is_below(&self, other: &Self) -> bool {
        self.anchor_in.as_ref() == Some(&other.child)
            || self.links.iter().any(|link| link.namespace == other.child)
    }

    /// Whether this change must wait for `other`: it depends on a parent that `other` changes, or `other` on what this one decides, or one of
    /// the two creates the missing parent that the other one names. Anchors of different namespaces do not wait for each other, because a user can send as many
    /// as they want that are never stored: of two for one name, the controller puts the second in conflict.
    pub fn is_blocked_by(&self, other: &Self) -> bool {
        if self.deletes || other.deletes {
            return self.child == other.child || self.is_below(other) || other.is_below(self);
        }
        let are_rivals =
            self.anchor_in.is_some() && other.anchor_in.is_some() && self.anchor_in != other.anchor_in;
        if are_rivals {
            return false;
        }
        (self.decides_below && other.is_below(self))
            || (other.decides_below && self.is_below(other))
            || self.concerns(&other.child)
            || other.missing_parent.as_ref() == Some(&self.child)
            || self.missing_parent.as_ref() == Some(&other.child)
    }
}

/// A question to the API server, or a wait.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Question {
    /// Is the requesting user admin of this namespace, by the right that the dialect defines? A `SubjectAccessReview`.
    IsAdmin(Name),
    /// May the requesting user `create` a namespace of this name?
    MayCreateNamespace(Name),
    /// May the requesting user write the configuration of this namespace, which need not exist?
    MayConfigure(Name),
    /// Has the requesting user this right in a namespace? A `SubjectAccessReview`.
    Has(NamespacedRight),
    /// Does this namespace exist now, and is it being deleted? A live read.
    Namespace(Name),
    /// Has one of the two service accounts this right in all namespaces? A `SubjectAccessReview`.
    Account(Right),
    /// Waits until the forest knows this, for as long as a request can wait.
    Await(WaitFor),
}

/// What a request can wait for: something that has already happened, but that the streams have not delivered yet.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum WaitFor {
    /// The namespace exists.
    Namespace(Name),
    /// The namespace does not exist.
    NoNamespace(Name),
    /// The namespace's configured parent is this one (`None`: it has none).
    Parent(Name, Option<Name>),
    /// The tree labels of the namespace name its parent in force.
    TreeLabels(Name),
    /// The objects of the kind are all known, or cannot be listed.
    Objects(Kind),
}

/// The answer to a question.
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

/// How many of many questions are asked at first.
const FIRST_QUESTIONS: usize = 8;

/// The answers so far.
pub type Answers = HashMap<Question, Answer>;

/// One of the two service accounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Account {
    /// `hns-webhook`, which only reads.
    Webhook,
    /// `hns-controller`, which writes copies.
    Controller,
}

/// A right, in all namespaces.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Right {
    /// The account.
    pub account: Account,
    /// The verb.
    pub verb: &'static str,
    /// The API group.
    pub group: Box<str>,
    /// The plural name of the resource.
    pub resource: Box<str>,
}

/// A right in one namespace or in all, on all objects of a resource.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NamespacedRight {
    /// The namespace; all of them if it is empty.
    pub namespace: Name,
    /// The verb.
    pub verb: &'static str,
    /// The API group.
    pub group: &'static str,
    /// The plural name of the resource.
    pub resource: &'static str,
}

impl NamespacedRight {
    /// The namespace of a right in all namespaces.
    pub(crate) const ALL: &'static str = "";

    /// Where the right is needed, after "in".
    pub(crate) fn place(&self) -> String {
        match &*self.namespace {
            Self::ALL => "all namespaces".to_owned(),
            namespace => format!("namespace {namespace:?}"),
        }
    }
}

/// The requesting user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct User {
    /// The name.
    pub name: String,
    /// The groups.
    pub groups: Vec<String>,
}

/// The operation of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// A new object.
    Create,
    /// A changed object.
    Update,
    /// A removed object, alone or in a `deletecollection`.
    Delete,
}

/// Asks all of `questions` that are unanswered, at once, and denies when one could not be answered: an unknown answer is neither
/// a yes nor a no.
pub(crate) fn all_answered(questions: &[Question], answers: &Answers) -> Check {
    let open: Vec<Question> = questions.iter().filter(|it| !answers.contains_key(it)).cloned().collect();
    if !open.is_empty() {
        return Err(Verdict::Ask(open));
    }
    let failed = questions.iter().find_map(|question| match &answers[question] {
        Answer::Failed(why) => Some(Denial::internal(format!("could not check {question}: {why}"))),
        Answer::Yes | Answer::No | Answer::Terminating => None,
    });
    failed.map_or(Ok(()), |denial| Err(denial.into()))
}

/// The position of the first question whose answer is not yes. Users can bring about thousands of questions of one request. So a few
/// are asked at first, in each further round four times as many as in all before, and none after such an answer.
pub(crate) fn first_refused(questions: &[Question], answers: &Answers) -> Check<Option<usize>> {
    let (mut begin, mut end) = (0, FIRST_QUESTIONS);
    while begin < questions.len() {
        let part = &questions[begin..end.min(questions.len())];
        all_answered(part, answers)?;
        if let Some(at) = part.iter().position(|question| answers[question] != Answer::Yes) {
            return Ok(Some(begin + at));
        }
        (begin, end) = (end, end * 5);
    }
    Ok(None)
}

/// Waits until the forest knows `awaited`, and denies the request if that takes too long.
pub(crate) fn wait_for(answers: &Answers, awaited: WaitFor, otherwise: impl FnOnce() -> String) -> Check {
    let question = Question::Await(awaited);
    if answers.contains_key(&question) {
        Err(Denial::unavailable(otherwise()).into())
    } else {
        Err(Verdict::Ask(vec![question]))
    }
}

/// Denies because a stream of the structure is incomplete. One that is lost may stay so: the definition of its resource is missing,
/// or a right.
pub(crate) fn unreliable(stream: Stream, state: &StreamState) -> Verdict {
    let lasting = match state {
        StreamState::Lost(_) => {
            "; if this lasts, a definition (CRD) of hns is missing or being deleted, or the webhook lacks a right: `kubectl hns doctor` \
             says what to do"
        }
        StreamState::Waiting | StreamState::Synced => "",
    };
    let message =
        format!("the hierarchy cannot be relied on ({stream}: {state}); try again in a moment{lasting}");
    Denial::unavailable(message).into()
}

/// Whether a namespace exists.
pub(crate) enum Presence {
    /// It does, and the forest knows it.
    Here,
    /// It does not.
    Absent,
}

/// Whether a namespace exists, by a live read if the forest does not know it.
pub(crate) fn presence(store: &Store, name: &Name, answers: &Answers) -> Check<Presence> {
    if store.exists(name) {
        return Ok(Presence::Here);
    }
    let question = Question::Namespace(name.clone());
    match answers.get(&question) {
        None => Err(Verdict::Ask(vec![question])),
        Some(Answer::No) => Ok(Presence::Absent),
        Some(Answer::Failed(why)) => {
            Err(Denial::internal(format!("could not check whether namespace {name:?} exists: {why}")).into())
        }
        Some(Answer::Yes | Answer::Terminating) => {
            wait_for(answers, WaitFor::Namespace(name.clone()), || {
                format!("namespace {name:?} is not in the cache yet; try again in a moment")
            })
            .map(|()| Presence::Here)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Users decide how many namespaces wait for a name.
    #[test]
    fn many_questions_are_asked_in_growing_numbers_until_one_is_refused() {
        let questions: Vec<Question> =
            (0..1_000).map(|at| Question::IsAdmin(Name::from(format!("n{at}").as_str()))).collect();
        for refused in [Some(0), Some(7), Some(8), Some(999), None] {
            let (mut answers, mut rounds) = (Answers::new(), Vec::new());
            let decided = loop {
                match first_refused(&questions, &answers) {
                    Ok(decided) => break decided,
                    Err(Verdict::Ask(open)) => {
                        rounds.push(open.len());
                        let answer = |it| {
                            if refused.is_some_and(|at| questions[at] == it) {
                                (it, Answer::No)
                            } else {
                                (it, Answer::Yes)
                            }
                        };
                        answers.extend(open.into_iter().map(answer));
                    }
                    Err(other) => unreachable!("{other:?}"),
                }
            };
            assert_eq!(decided, refused);
            let expected = match refused {
                Some(0..8) => &[8][..],
                Some(8..40) => &[8, 32],
                _ => &[8, 32, 160, 800],
            };
            assert_eq!(rounds, expected, "{refused:?}");
        }
    }
}
