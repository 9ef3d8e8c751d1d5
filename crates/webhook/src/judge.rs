//! Putting a rule to the forest until it decides: judge, ask what it wants to know, judge again.
//!
//! The forest may change between two rounds; each round judges the one of its moment. A change of parent that is allowed is
//! looked at once more: the links that the judgement rests on are read past every cache, and no other change that touches
//! them may be on its way. A rule that is not done at the deadline is answered for with "try again", never with "yes".

use std::net::IpAddr;
use std::time::Duration;

use forest::rules::adoption::{Adoption, Link};
use forest::rules::{Answers, Denial, DenialKind, Verdict};
use forest::{Forest, Version};
use futures::future::join_all;
use tokio::time::Instant;
use tracing::Instrument as _;

use crate::pending::{Held, Pending};
use crate::questions::Asker;

/// More rounds than any rule has questions one after the other.
const ROUNDS: usize = 24;

/// How long a change waits for another one that is in its way.
const PATIENCE: Duration = Duration::from_secs(1);

/// The decision on one request.
#[derive(Debug)]
pub(crate) enum Decision {
    Allow { warnings: Vec<String> },
    Deny(Denial),
}

/// What of a request matters to letting it through, beside what the rule knows.
#[derive(Debug, Clone)]
pub(crate) struct Envelope {
    /// Nothing is changed in the end.
    pub(crate) dry_run: bool,
    /// The state that the request changes, as the API server sent it: it may be older than the one that the forest has, and
    /// is then refused and sent again.
    pub(crate) over: Option<Version>,
    /// Where it comes from.
    pub(crate) source: IpAddr,
}

/// What decides on a request.
pub(crate) trait Rule {
    /// Judges the request as far as the answers go.
    fn judge(&self, forest: &Forest, answers: &Answers) -> Verdict;

    /// The change of parent that the request makes, if it makes one.
    fn adoption(&self, _forest: &Forest) -> Option<Adoption> {
        None
    }
}

/// Judges by `rule` until it decides.
pub(crate) async fn judge(
    asker: &Asker<'_>,
    pending: &Pending,
    envelope: &Envelope,
    rule: &impl Rule,
) -> Decision {
    let mut answers = Answers::new();
    let mut looked_at: Vec<Link> = Vec::new();
    for _ in 0..ROUNDS {
        if Instant::now() >= asker.deadline {
            break;
        }
        let (verdict, adoption) = asker.forest.read(|forest| {
            let verdict = rule.judge(forest, &answers);
            let is_allowed = matches!(verdict, Verdict::Allow { .. });
            (verdict, if is_allowed { adoption(rule, envelope, forest) } else { None })
        });
        let warnings = match verdict {
            Verdict::Deny(denial) => return Decision::Deny(denial),
            Verdict::Ask(questions) => {
                let replies = join_all(questions.iter().map(|question| asker.ask(question)));
                let replies = replies.instrument(asker.span()).await;
                answers.extend(questions.into_iter().zip(replies));
                continue;
            }
            Verdict::Allow { warnings } => warnings,
        };
        let Some(adoption) = adoption else { return Decision::Allow { warnings } };
        if looked_at != adoption.links {
            if let Err(denial) = asker.look_at(&adoption.links).instrument(asker.span()).await {
                return Decision::Deny(denial);
            }
            looked_at.clone_from(&adoption.links);
            continue;
        }
        match admit(asker, pending, envelope, rule, &answers, &looked_at) {
            Some(Ok(())) => return Decision::Allow { warnings },
            Some(Err(Held::Full)) => {
                return Decision::Deny(busy("too many parents are being changed at once"));
            }
            Some(Err(Held::Crossing)) => {
                let deadline = asker.deadline.min(Instant::now() + PATIENCE);
                let free = |forest: &Forest| !pending.is_in_the_way(forest, &adoption);
                if !asker.forest.until_that(free, deadline).await {
                    return Decision::Deny(busy(
                        "the parent of a namespace that this rests on is just being changed",
                    ));
                }
            }
            // The forest has moved on since the links were looked at.
            None => {}
        }
    }
    Decision::Deny(busy("the request could not be judged in time"))
}

/// The last word: the rule on the forest of this moment, with the same links as were looked at, and no other change let
/// through in between.
fn admit(
    asker: &Asker<'_>,
    pending: &Pending,
    envelope: &Envelope,
    rule: &impl Rule,
    answers: &Answers,
    looked_at: &[Link],
) -> Option<Result<(), Held>> {
    asker.forest.read(|forest| {
        let judge = || match (rule.judge(forest, answers), adoption(rule, envelope, forest)) {
            (Verdict::Allow { .. }, Some(adoption)) if adoption.links == looked_at => Ok(Some(adoption)),
            _ => Err(()),
        };
        pending.admit(forest, judge, envelope.dry_run, envelope.source).ok()
    })
}

fn adoption(rule: &impl Rule, envelope: &Envelope, forest: &Forest) -> Option<Adoption> {
    rule.adoption(forest).map(|adoption| Adoption { over: envelope.over.clone(), ..adoption })
}

fn busy(why: &str) -> Denial {
    Denial::new(DenialKind::Unavailable, format!("{why}; try again"))
}
