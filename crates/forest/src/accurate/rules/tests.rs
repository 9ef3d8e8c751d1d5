//! The messages of sections 7 and 16 of Accurate's contract, and what is stricter here.

mod namespaces;
mod sub_namespaces;

use crate::core::verdict::{Answer, Answers, Question, Verdict};

/// The verdict in words: `ok`, the message, or the questions. `yes` are the rights that the user has, as `VERB RESOURCE NAMESPACE`;
/// what the forest does not know does not exist.
pub(super) fn decide(yes: &[&str], review: impl Fn(&Answers) -> Verdict) -> String {
    let mut answers = Answers::new();
    loop {
        match review(&answers) {
            Verdict::Allow { .. } => return "ok".into(),
            Verdict::Deny(denial) => {
                let (code, _) = denial.kind.code_and_reason();
                let code = if code == 403 { String::new() } else { format!("{code}: ") };
                return format!("{code}{}", denial.message);
            }
            Verdict::Ask(questions) => {
                for question in questions {
                    let answer = match &question {
                        Question::Has(right) => {
                            let right = format!("{} {} {}", right.verb, right.resource, right.namespace);
                            if yes.contains(&&*right) { Answer::Yes } else { Answer::No }
                        }
                        Question::Namespace(_) => Answer::No,
                        other => panic!("{other}"),
                    };
                    assert_eq!(answers.insert(question, answer), None, "asked twice");
                }
            }
        }
    }
}
