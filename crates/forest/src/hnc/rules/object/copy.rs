//! Copies: they follow their sources, and only the controller changes them.
//!
//! Any user may make changes that do not affect that: write the status, and remove what another tool has added to a copy.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Request, Review, State};
use crate::core::kind::restricts;
use crate::hnc::keys::INHERITED_FROM;
use crate::hnc::rules::all_answered;
use crate::hnc::rules::{Answer, Check, Denial, Fields, Operation, Pairs, Question, Verdict};

impl Review<'_> {
    /// Judges a copy. `before` and `after` are the values of the label; at least one exists.
    pub(super) fn copy(&self, before: Option<&str>, after: Option<&str>) -> Check {
        let Request { operation, old, new, .. } = self.request;
        match (operation, old, new) {
            (Operation::Create, ..) => self.is_restored(),
            (Operation::Delete, ..) => self.namespace_is_terminating(before.unwrap_or_default()),
            (Operation::Update, Some(old), Some(new)) => {
                stays_what_it_is(before, after)?;
                self.content_stays(before.unwrap_or_default(), old, new)?;
                gains_no_owner_or_finalizer(old, new)
            }
            (Operation::Update, ..) => {
                Err(Denial::internal("an update without the old or the new object").into())
            }
        }
    }

    /// An identity that restores backups creates copies, too; the controller corrects what is out of date.
    fn is_restored(&self) -> Check {
        if self.request.user.is_any_of(&self.forest.settings().restore_identities) {
            return Ok(());
        }
        Err(forbidden(format!(
            "an object with the label {INHERITED_FROM} is a copy, which nobody can create by hand; leave the label out, or \
             create the object in a namespace above, from where it is propagated"
        )))
    }

    /// Everyone may delete copies in a namespace that is being deleted, but for restrictions: pods may still run there, and the
    /// namespace controller, which is not judged, deletes `NetworkPolicies` after them. The cache is enough to allow the request.
    /// Before the rule denies it, it reads the namespace live.
    fn namespace_is_terminating(&self, source: &str) -> Check {
        let Request { namespace, group, kind, .. } = self.request;
        if restricts(group, kind) {
            return Err(forbidden(format!(
                "this object is a copy from namespace {source:?} that restricts this namespace; it goes with its source, or with this \
                 namespace after its pods"
            )));
        }
        let forest = self.forest;
        let seen = forest.id(namespace).and_then(|id| forest.namespace(id));
        if seen.is_some_and(|seen| seen.terminating) {
            return Ok(());
        }
        let question = Question::Namespace(namespace.clone());
        all_answered(std::slice::from_ref(&question), self.answers)?;
        if matches!(self.answers[&question], Answer::No | Answer::Terminating) {
            return Ok(());
        }
        Err(forbidden(format!(
            "this object is a copy from namespace {source:?} and goes with its source; delete it there, or keep it from coming \
             here by an annotation on it"
        )))
    }

    fn content_stays(&self, source: &str, old: &State<'_>, new: &State<'_>) -> Check {
        let changed = if body_differs(&old.body, &new.body) {
            "its content".to_owned()
        } else if let Some(key) = self.changed_key(&old.labels, &new.labels) {
            format!("the label {key}")
        } else if let Some(key) = self.changed_key(&old.annotations, &new.annotations) {
            format!("the annotation {key}")
        } else {
            return Ok(());
        };
        Err(forbidden(format!(
            "this object is a copy from namespace {source:?}, and {changed} follows its source; change that one instead"
        )))
    }

    /// The first key that is set, changed or removed. Keys that are neither copied nor compared may be removed.
    fn changed_key<'a>(&self, old: &'a Pairs<'_>, new: &'a Pairs<'_>) -> Option<&'a str> {
        let settings = self.forest.settings();
        let set = new.iter().filter(|(key, value)| old.get(key) != Some(*value));
        let removed = old.iter().filter(|(key, _)| !new.contains_key(key) && !settings.is_ignored_key(key));
        set.chain(removed).map(|(key, _)| key).next()
    }
}

/// The label cannot be added, changed or removed. An empty value counts as a value: with an empty label, a user could otherwise
/// turn a source into a copy, and the controller would delete it.
fn stays_what_it_is(before: Option<&str>, after: Option<&str>) -> Check {
    let how = match (before, after) {
        (Some(before), Some(after)) if before == after => return Ok(()),
        (Some(_), Some(_)) => "changed",
        (Some(_), None) => "removed",
        (None, _) => "added",
    };
    Err(forbidden(format!(
        "the label {INHERITED_FROM} says whose copy an object is and cannot be {how}; for an object of your own, create one \
         under another name"
    )))
}

fn body_differs(old: &Fields<'_>, new: &Fields<'_>) -> bool {
    let counts = |name: &&str| !matches!(*name, "apiVersion" | "kind" | "metadata" | "status");
    let is_set = new.names().filter(counts).any(|name| !new.has_the_same(name, old));
    is_set || old.names().filter(counts).any(|name| !old.has_the_same(name, new))
}

/// Users cannot add finalizers and owners: a finalizer could delay the deletion of the copy, and an owner could cause it.
fn gains_no_owner_or_finalizer(old: &State<'_>, new: &State<'_>) -> Check {
    let known: BTreeSet<&str> = old.finalizers.iter().map(|it| &**it).collect();
    if let Some(finalizer) = new.finalizers.iter().find(|it| !known.contains(&***it)) {
        return Err(forbidden(format!(
            "this object is a copy, and the finalizer {finalizer:?} would keep it when its source goes; finalizers can only be \
             removed from it"
        )));
    }
    if old.owner_references == new.owner_references {
        return Ok(());
    }
    let known: BTreeSet<String> = old.owner_references.iter().flat_map(no_more_than).collect();
    let is_new = |owner: &&Value| !known.contains(&owner.to_string());
    match new.owner_references.iter().find(is_new) {
        None => Ok(()),
        Some(owner) => Err(forbidden(format!(
            "this object is a copy and belongs to its source alone, so {} cannot own it; owner references can only be removed \
             from it",
            owner.get("name").unwrap_or(&Value::Null)
        ))),
    }
}

/// The owner references that `known` may become, as texts: itself, or without `blockOwnerDeletion`, which the garbage collector
/// removes.
fn no_more_than(known: &Value) -> Vec<String> {
    const BLOCKS: &str = "blockOwnerDeletion";
    let mut reference = known.clone();
    let mut texts = vec![reference.to_string()];
    if let Some(fields) = reference.as_object_mut() {
        fields.insert(BLOCKS.to_owned(), Value::Bool(false));
        texts.push(Value::from(fields.clone()).to_string());
        fields.remove(BLOCKS);
        texts.push(reference.to_string());
    }
    texts
}

fn forbidden(message: String) -> Verdict {
    Denial::forbidden(message).into()
}
