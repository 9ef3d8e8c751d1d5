//! Putting a rule to the forest until it decides: judge, ask what it wants to know, judge again.
//!
//! The forest may change between two rounds; each round judges the one of its moment. A rule that is not done at the
//! deadline is answered for with "try again", never with "yes".

use std::time::Instant as Clock;

use forest::Forest;
use forest::rules::{Answers, Denial, DenialKind, Verdict};
use futures::future::join_all;
use tokio::time::Instant;

use crate::questions::Asker;

/// More rounds than any rule has questions one after the other.
const ROUNDS: usize = 16;

/// The decision on one request.
#[derive(Debug)]
pub(crate) enum Decision {
    Allow { warnings: Vec<String> },
    Deny(Denial),
}

/// Judges by `rule` until it decides.
pub(crate) async fn judge(asker: &Asker<'_>, rule: impl Fn(&Forest, &Answers) -> Verdict) -> Decision {
    let started = Clock::now();
    let mut answers = Answers::new();
    for _ in 0..ROUNDS {
        let questions = match asker.forest.read(|forest| rule(forest, &answers)) {
            Verdict::Allow { warnings } => return Decision::Allow { warnings },
            Verdict::Deny(denial) => return Decision::Deny(denial),
            Verdict::Ask(questions) => questions,
        };
        if Instant::now() >= asker.deadline {
            break;
        }
        let replies = join_all(questions.iter().map(|question| asker.ask(question))).await;
        answers.extend(questions.into_iter().zip(replies));
    }
    let took = started.elapsed();
    Decision::Deny(Denial::new(
        DenialKind::Unavailable,
        format!("the request could not be judged within {} ms; try again", took.as_millis()),
    ))
}
