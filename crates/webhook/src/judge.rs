//! Running a rule until it decides: judge, ask the rule's questions, judge again.
//!
//! The forest may change between two rounds; each round uses the forest of its moment. An allowed change of parent is verified:
//! the links that the verdict depends on are read live, and no change in flight may change one of them. The naming of a missing parent
//! and the creation of an anchor also meet in a stored list ([`crate::namings`]). A request that is not decided at the deadline is
//! denied with "try again".

use std::time::Duration;

use forest::hnc::naming::Naming;
use forest::rules::{Answers, Denial, DenialKind, Link, ParentChange, Question, Verdict};
use forest::{Forest, Name};
use futures::future::join_all;
use tokio::time::Instant;
use tracing::Instrument as _;

use crate::in_flight::{Blocked, InFlight, Origin, is_ahead, is_repeated};
use crate::namings::{OtherSide, has_other_side, is_known, still_unknown};
use crate::questions::Asker;
use crate::webhooks::Rule;

/// The most rounds; no rule asks that many questions in sequence.
const ROUNDS: usize = 24;

/// How long a change waits for another one that blocks it.
const PATIENCE: Duration = Duration::from_secs(1);

/// The decision on one request.
#[derive(Debug)]
pub(crate) enum Decision {
    Allow { warnings: Vec<String> },
    Deny(Denial),
}

/// The result of one round.
enum Round {
    Decided(Decision),
    /// The rule needs answers.
    Ask(Vec<Question>),
    /// The verdict depends on links that are not verified yet.
    Verify(Vec<Link>),
    /// The other side of a missing parent must be looked for.
    Meet(Box<ParentChange>),
    /// Another change in flight blocks this one.
    Wait(Box<ParentChange>),
    /// The request changes a state that the forest does not know yet.
    Behind(Box<ParentChange>),
    /// The request creates an object that the forest still knows.
    Repeated(Box<ParentChange>),
}

/// What was found out beside the answers to the questions of the rule.
#[derive(Default)]
struct Checked {
    /// The links that were read live.
    links: Vec<Link>,
    /// The other side of a missing parent, if it was looked for.
    consenting: Option<Vec<Name>>,
}

/// Runs `rule` until it decides.
pub(crate) async fn judge(
    asker: &Asker<'_>,
    in_flight: &InFlight,
    origin: &Origin,
    rule: &Rule<'_>,
) -> Decision {
    let mut naming = None;
    let decision = decide(asker, in_flight, origin, rule, &mut naming).await;
    if let (Decision::Deny(_), Some(naming)) = (&decision, &naming) {
        asker.retract(naming).instrument(asker.span()).await;
    }
    decision
}

/// `naming` becomes what the list of namings contains for this request.
async fn decide(
    asker: &Asker<'_>,
    in_flight: &InFlight,
    origin: &Origin,
    rule: &Rule<'_>,
    naming: &mut Option<Naming>,
) -> Decision {
    let mut answers = Answers::new();
    let mut checked = Checked::default();
    for _ in 0..ROUNDS {
        if Instant::now() >= asker.deadline {
            break;
        }
        let round = |forest: &Forest| round(forest, rule(forest, &answers), &checked, in_flight, origin);
        match asker.forest.read(round) {
            Round::Decided(decision) => return decision,
            Round::Ask(questions) => {
                let replies = join_all(questions.iter().map(|question| asker.ask(question)));
                let replies = replies.instrument(asker.span()).await;
                answers.extend(questions.into_iter().zip(replies));
            }
            Round::Verify(links) => {
                if let Err(denial) = asker.verify(&links).instrument(asker.span()).await {
                    return Decision::Deny(denial);
                }
                checked.links = links;
            }
            Round::Meet(change) => {
                let unknown = match asker.meet(&change, naming).instrument(asker.span()).await {
                    Err(denial) => return Decision::Deny(denial),
                    Ok(OtherSide::Unknown(unknown)) => unknown,
                    Ok(OtherSide::Known) => {
                        checked.consenting = Some(change.consenting);
                        if change.missing_parent.is_some() {
                            // It may have been created before the naming was in the list.
                            answers.retain(|question, _| !matches!(question, Question::Namespace(_)));
                        }
                        continue;
                    }
                };
                let deadline = asker.deadline.min(Instant::now() + PATIENCE);
                let is_known = |forest: &Forest| is_known(forest, &change, &unknown);
                if !asker.forest.until_that(is_known, deadline).await {
                    return Decision::Deny(still_unknown(&change, &unknown));
                }
            }
            Round::Behind(change) => {
                let deadline = asker.deadline.min(Instant::now() + PATIENCE);
                let is_known = |forest: &Forest| !is_ahead(forest, &change, origin);
                if !asker.forest.until_that(is_known, deadline).await {
                    return Decision::Deny(busy("the object that this changes is newer than the cache"));
                }
            }
            Round::Repeated(change) => {
                let deadline = asker.deadline.min(Instant::now() + PATIENCE);
                let is_gone = |forest: &Forest| !is_repeated(forest, &change, origin);
                if !asker.forest.until_that(is_gone, deadline).await {
                    let why = "the object already exists";
                    return Decision::Deny(Denial::new(DenialKind::AlreadyExists, why));
                }
            }
            Round::Wait(change) => {
                let deadline = asker.deadline.min(Instant::now() + PATIENCE);
                let is_free = |forest: &Forest| !in_flight.blocks(forest, &change);
                if !asker.forest.until_that(is_free, deadline).await {
                    let why =
                        "the parent of a namespace that this rests on is being changed by another request";
                    return Decision::Deny(busy(why));
                }
            }
        }
    }
    Decision::Deny(busy("the request could not be judged in time"))
}

/// Admits an allowed change of parent under the same lock of the forest that the rule used.
fn round(
    forest: &Forest,
    verdict: Verdict,
    checked: &Checked,
    in_flight: &InFlight,
    origin: &Origin,
) -> Round {
    let (warnings, change) = match verdict {
        Verdict::Deny(denial) => return Round::Decided(Decision::Deny(coded(forest, denial))),
        Verdict::Ask(questions) => return Round::Ask(questions),
        Verdict::Allow { warnings, change } => (warnings, change),
    };
    let Some(change) = change else { return Round::Decided(Decision::Allow { warnings }) };
    if change.links != checked.links {
        return Round::Verify(change.links);
    }
    if is_ahead(forest, &change, origin) {
        return Round::Behind(change);
    }
    if is_repeated(forest, &change, origin) {
        return Round::Repeated(change);
    }
    let is_met = checked.consenting.as_ref() == Some(&change.consenting);
    if !origin.changes_nothing && has_other_side(&change) && !is_met {
        let waits = in_flight.blocks(forest, &change);
        return if waits { Round::Wait(change) } else { Round::Meet(change) };
    }
    match in_flight.admit(forest, &change, origin) {
        Ok(()) => Round::Decided(Decision::Allow { warnings }),
        Err(Blocked::Full) => {
            Round::Decided(Decision::Deny(busy("too many parents are being changed at once")))
        }
        Err(Blocked::Crossing) => Round::Wait(change),
    }
}

/// HNC answers 401 where a user has no authority, and kubectl then prints that the user must log in. A setting replaces the code.
fn coded(forest: &Forest, denial: Denial) -> Denial {
    if denial.kind == DenialKind::Unauthorized && forest.settings().refuse_with_403 {
        return Denial { kind: DenialKind::Forbidden, ..denial };
    }
    denial
}

fn busy(why: &str) -> Denial {
    Denial::new(DenialKind::Unavailable, format!("{why}; try again"))
}
