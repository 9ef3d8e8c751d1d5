//! How rules are tried: a dialogue of exactly the questions that a rule has to ask, and what comes of it.

use super::Answer::{self, Failed, Yes};
use super::{Answers, Denial, DenialKind, Question, User, Verdict, WaitFor};
use crate::dialects::Forest;
use crate::hnc::configuration::rights::Right;

/// Who asks in the tables.
pub(super) const USER: &str = "jane";

pub(super) fn jane() -> User {
    User { name: USER.into(), groups: vec!["staff".into()] }
}

pub(super) fn failed() -> Answer {
    Failed("connection refused".into())
}

/// A question in words.
fn words(question: &Question) -> String {
    match question {
        Question::IsAdmin(name) => format!("admin {name}"),
        Question::MayCreateNamespace(name) => format!("create {name}"),
        Question::MayConfigure(name) => format!("hierarchy {name}"),
        Question::Has(right) => format!("{} {} in {}", right.verb, right.resource, right.namespace),
        Question::Namespace(name) => format!("live {name}"),
        Question::Account(Right { account, verb, resource, .. }) => {
            format!("{} {verb} {resource}", account.name())
        }
        Question::Await(WaitFor::Objects(kind)) => format!("await {}", kind.group_resource()),
        Question::Await(WaitFor::Namespace(name)) => format!("await {name}"),
        Question::Await(WaitFor::TreeLabels(name)) => format!("await labels of {name}"),
        Question::Await(WaitFor::NoNamespace(name)) => format!("await no {name}"),
        Question::Await(WaitFor::Parent(name, parent)) => {
            format!("await {name} below {}", parent.as_deref().unwrap_or("nothing"))
        }
    }
}

/// Asks the rule until it decides. It has to ask exactly what `dialogue` answers, in this order, and nothing twice.
/// Where an answer is that the forest came to know something, `learn` lets it.
pub(super) fn judge(
    forest: &mut Forest,
    review: impl Fn(&Forest, &Answers) -> Verdict,
    dialogue: &[(&str, Answer)],
    mut learn: impl FnMut(&mut Forest),
) -> Verdict {
    let mut answers = Answers::new();
    let mut expected = dialogue.iter();
    loop {
        let questions = match review(forest, &answers) {
            Verdict::Ask(questions) => questions,
            verdict => {
                assert_eq!(expected.next(), None, "not asked before {verdict:?}");
                return verdict;
            }
        };
        assert!(!questions.is_empty(), "a question is missing");
        for question in questions {
            let asked = words(&question);
            let (text, answer) =
                expected.next().unwrap_or_else(|| panic!("{asked:?} is asked beyond {dialogue:?}"));
            assert_eq!(asked, *text, "of {dialogue:?}");
            if matches!(question, Question::Await(_)) && *answer == Yes {
                learn(forest);
            }
            let earlier = answers.insert(question, answer.clone());
            assert_eq!(earlier, None, "{asked:?} is asked twice");
        }
    }
}

#[derive(Debug)]
pub(super) enum Expected {
    Allowed,
    /// Allowed, with one warning that names all this.
    Warned(&'static [&'static str]),
    /// With what the message must name.
    Denied(DenialKind, &'static [&'static str]),
}

pub(super) fn check(what: &str, verdict: &Verdict, expected: &Expected) {
    match (verdict, expected) {
        (Verdict::Allow { warnings, .. }, Expected::Allowed) => {
            assert!(warnings.is_empty(), "{what}: {warnings:?}");
        }
        (Verdict::Allow { warnings, .. }, Expected::Warned(names)) => {
            let [warning] = &warnings[..] else { panic!("{what}: {warnings:?}") };
            check_names(what, warning, names);
        }
        (Verdict::Deny(Denial { kind, message, causes }), Expected::Denied(wanted, names)) => {
            assert_eq!(kind, wanted, "{what}: {message}");
            assert_eq!(causes.is_empty(), *kind != DenialKind::Invalid, "{what}: {causes:?}");
            check_names(what, message, names);
        }
        _ => panic!("{what}: {verdict:?}, not {expected:?}"),
    }
}

fn check_names(what: &str, message: &str, names: &[&str]) {
    for name in names {
        assert!(message.contains(name), "{what}: {name:?} is not in {message:?}");
    }
}
