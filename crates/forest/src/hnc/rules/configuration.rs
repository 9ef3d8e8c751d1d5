//! `hncconfigurations.hnc.x-k8s.io`: which kinds may be propagated (section 7.7 of docs/compatibility.md).
//!
//! "Row N" is item N of the list in that section, here and in `configuration/conflict.rs`.
//!
//! RBAC decides who may change the configuration; this rule decides whether it is valid and what it would overwrite. "New" means:
//! not in the request's old object. Conflicts are known for kinds that are already configured, also in mode `Ignore`, and for those that
//! Accurate's API watches; for another kind a warning says that they are not known.

use super::{Answer, Answers, Question, WaitFor};
use super::{Cause, Check, Denial, FieldFault, Operation, Verdict, hierarchy};
use crate::core::kind::{KindId, KindSettings, Mode};
use crate::core::name::{Name, is_namespace_name};
use crate::core::stream::{Stream, StreamState};
use crate::dialects::Forest;
use crate::hnc::configuration::rights::{Right, lacks, needed};
use crate::hnc::configuration::{Entry, Fault, Finding, Resolution, Served, resolve};
use crate::hnc::tree_limit::{TreeFault, TreeLimit};

mod conflict;
#[cfg(test)]
mod tests;

/// The end of the warning that objects of a kind were not checked, for programs that check them.
pub const LISTED_BY_PLAN: &str = "before a change, `kubectl hns plan config set-resource` lists them";

/// The name of the only configuration.
pub(crate) const CONFIG: &str = "config";

/// A request that creates, changes or deletes an `HNCConfiguration`.
#[derive(Debug, Clone)]
pub struct Request {
    /// Create, update or delete.
    pub operation: Operation,
    /// Its name.
    pub name: Name,
    /// `spec.resources` before; empty for a new object. An entry that cannot be read is given as the reason.
    pub old: Vec<Result<Entry, String>>,
    /// The same afterwards; empty for a deleted object.
    pub new: Vec<Result<Entry, String>>,
    /// `spec.trees` before and afterwards.
    pub trees: [Vec<Result<TreeLimit, TreeFault>>; 2],
    /// What the API server serves now, or why that is not known.
    pub served: Result<Served, String>,
}

/// Judges `request` with the `answers` so far.
pub fn review(forest: &Forest, request: &Request, answers: &Answers) -> Verdict {
    judge(forest, request, answers).unwrap_or_else(|verdict| verdict)
}

fn judge(forest: &Forest, request: &Request, answers: &Answers) -> Check<Verdict> {
    if request.operation == Operation::Delete {
        return if *request.name == *CONFIG { Err(stays()) } else { Ok(Verdict::allow()) };
    }
    let [old_trees, new_trees] = &request.trees;
    if request.operation == Operation::Update && request.old == request.new && old_trees == new_trees {
        return Ok(Verdict::allow());
    }
    let served = request.served.as_ref().map_err(|why| unknown(why))?;
    let (old, new) = (resolve(&request.old, served), resolve(&request.new, served).with_trees(new_trees));
    // Of two kinds that are served no more, one entry can be removed before the other.
    let mut before = request.old.iter();
    let only_removes = request.operation == Operation::Update
        && old_trees == new_trees
        && request.new.iter().all(|entry| before.any(|it| it == entry));
    let mut warnings = makes_sense(&new.findings, only_removes)?;
    let is_new = |limit: &&TreeLimit| !old_trees.iter().any(|it| it.as_ref() == Ok(*limit));
    let new_limits: Vec<&TreeLimit> = new.limits.iter().filter(is_new).collect();
    warnings.extend(new_limits.iter().filter(|it| it.limits_nothing()).map(|it| limits_nothing(it)));
    warnings.extend(missing_roots(forest, &new_limits));
    warnings.extend(overwrites_nothing(forest, &old, &new, answers)?);
    warnings.extend(rights(&old, &new, answers)?);
    Ok(Verdict::warn(warnings))
}

fn stays() -> Verdict {
    Denial::forbidden(
        "the configuration of the cluster is not deleted; to propagate nothing but roles and role bindings, empty \
         spec.resources",
    )
    .into()
}

fn unknown(why: &str) -> Verdict {
    Denial::unavailable(format!("it cannot be known which resources there are: {why}; try again in a moment"))
        .into()
}

/// Row 1. If nothing is known about an entry at the moment, or others are only removed, the user gets a warning and no denial.
fn makes_sense(findings: &[Finding], only_removes: bool) -> Check<Vec<String>> {
    let (in_doubt, faults): (Vec<&Finding>, Vec<&Finding>) =
        findings.iter().partition(|finding| only_removes || finding.fault == Fault::Unavailable);
    if faults.is_empty() {
        return Ok(in_doubt.into_iter().map(Finding::to_string).collect());
    }
    let cause = |finding: &Finding| {
        let fault =
            if finding.fault == Fault::Duplicate { FieldFault::Duplicate } else { FieldFault::Invalid };
        Cause::of(fault, finding.field(), &finding.subject, &finding.why)
    };
    Err(Denial::invalid(faults.into_iter().map(cause).collect()).into())
}

fn limits_nothing(limit: &TreeLimit) -> String {
    format!(
        "spec.trees: the entry for {:?} limits nothing; set maxNamespaces, maxDepth or namePattern, or remove the entry",
        limit.root()
    )
}

/// The new limits below namespaces that do not exist, or are not managed: the name may be wrong.
fn missing_roots(forest: &Forest, new: &[&TreeLimit]) -> Vec<String> {
    if hierarchy::structure_is_known(forest).is_err() {
        return Vec::new();
    }
    let is_missing = |limit: &&&TreeLimit| !forest.exists(limit.root());
    let warn = |limit: &&TreeLimit| {
        let root = limit.root();
        match forest.settings().unmanaged(root) {
            Some(why) => format!("spec.trees: namespace {root:?} {why}; its limit has no effect"),
            None if !is_namespace_name(root) => {
                format!("spec.trees: no namespace can have the name {root:?}; its limit has no effect")
            }
            None => {
                format!("spec.trees: there is no namespace {root:?}; its limit has no effect until it exists")
            }
        }
    };
    new.iter().filter(is_missing).map(warn).collect()
}

/// Row 2.
fn overwrites_nothing(
    forest: &Forest,
    old: &Resolution,
    new: &Resolution,
    answers: &Answers,
) -> Check<Vec<String>> {
    let before = |kind: &KindSettings| old.of_kind(&kind.kind).map(|before| &before.settings);
    let wider: Vec<&KindSettings> =
        new.settings().filter(|kind| may_conflict(forest, kind, before(kind))).collect();
    if wider.is_empty() {
        return Ok(Vec::new());
    }
    hierarchy::structure_is_known(forest)?;
    let mut warnings = Vec::new();
    let mut found = Vec::new();
    for kind in wider {
        match known(forest, kind, before(kind).is_some(), answers)? {
            Ok(id) => found.extend(conflict::conflicts(forest, id, kind, before(kind))),
            Err(why) => warnings.push(why),
        }
    }
    if found.is_empty() { Ok(warnings) } else { Err(conflict::denial(&found)) }
}

/// Whether conflicts of the kind are possible and denied, where none was possible before.
fn may_conflict(forest: &Forest, kind: &KindSettings, before: Option<&KindSettings>) -> bool {
    let is_wider = |before: &KindSettings| {
        !before.mode.propagates()
            || (kind.mode == Mode::Propagate && before.mode == Mode::AllowPropagate)
            || kind.excluded_names != before.excluded_names
            || conflict::replaces_newly(forest, kind, before)
    };
    kind.mode.propagates() && forest.settings().on_conflict(kind).refuses() && before.is_none_or(is_wider)
}

/// The kind in the forest, if its objects are known; else a warning that they are not. For a kind that was configured before,
/// waits until they are known.
fn known(
    forest: &Forest,
    kind: &KindSettings,
    was_configured: bool,
    answers: &Answers,
) -> Check<Result<KindId, String>> {
    let resource = kind.kind.group_resource();
    let id = forest.kind_named(&kind.kind.group, &kind.kind.kind);
    match id.map(|id| (id, forest.stream(Stream::Kind(id)))) {
        Some((id, StreamState::Synced)) => Ok(Ok(id)),
        Some((_, StreamState::Lost(why))) => Ok(Err(format!(
            "it has not been checked what this overwrites, because {resource} cannot be listed: {why}"
        ))),
        None if !was_configured => Ok(Err(format!(
            "{resource} were not configured until this change, so it was not checked which of them have the name of a source above them: \
             these are {}; {LISTED_BY_PLAN}",
            if forest.settings().on_conflict(kind).replaces() {
                "overwritten, each with an event ObjectOverwritten"
            } else {
                "kept, and `kubectl hns doctor` lists them"
            }
        ))),
        None | Some((_, StreamState::Waiting)) => {
            let question = Question::Await(WaitFor::Objects(kind.kind.clone()));
            if !answers.contains_key(&question) {
                return Err(Verdict::Ask(vec![question]));
            }
            Err(Denial::unavailable(format!(
                "it cannot be known yet what would be overwritten, because not all {resource} have been listed; try again in a \
                 moment"
            ))
            .into())
        }
    }
}

/// A missing right gives a warning and no denial, because it may be granted later.
fn rights(old: &Resolution, new: &Resolution, answers: &Answers) -> Check<Vec<String>> {
    let is_new = |kind: &&KindSettings| {
        old.of_kind(&kind.kind).is_none_or(|before| needed(&before.settings) != needed(kind))
    };
    let changed: Vec<&KindSettings> = new.settings().filter(is_new).collect();
    let questions: Vec<Question> =
        changed.iter().flat_map(|kind| needed(kind)).map(Question::Account).collect();
    let open: Vec<Question> = questions.iter().filter(|it| !answers.contains_key(it)).cloned().collect();
    if !open.is_empty() {
        return Err(Verdict::Ask(open));
    }
    let has = |right: &Right| match &answers[&Question::Account(right.clone())] {
        Answer::Yes => Some(true),
        Answer::No => Some(false),
        Answer::Failed(_) | Answer::Terminating => None,
    };
    let unanswered = questions.iter().find_map(|question| match &answers[question] {
        Answer::Failed(why) => Some(format!("could not check {question}: {why}")),
        _ => None,
    });
    let lacks = lacks(changed, has);
    Ok(lacks.iter().map(ToString::to_string).chain(unanswered).collect())
}
