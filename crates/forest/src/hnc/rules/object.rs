//! `objects.hnc.x-k8s.io`: what may happen to an object of a propagated kind (section 7.5 of docs/compatibility.md).
//!
//! Serves requests for a resource and for its `status` alike: labels and annotations can be written through both. An object
//! that bears the label `hnc.x-k8s.io/inherited-from` before or afterwards is judged as a copy (`object/copy.rs`), any other
//! as a source: what its annotations say (`object/annotations.rs`), and what it would overwrite below
//! (`object/conflict.rs`). Kinds that are not propagated, and namespaces that are not managed, are none of its business.

mod annotations;
mod conflict;
mod copy;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use serde_json::Value;

use super::{Answers, Check, Denial, Fields, Operation, Pairs, User, Verdict};
use crate::core::kind::{KindId, KindSettings};
use crate::core::name::Name;
use crate::dialects::Forest;
use crate::hnc::keys;

/// An object that is to be created, changed or deleted.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// Create, update or delete; what happens to a subresource is an update.
    pub operation: Operation,
    /// The requesting user.
    pub user: User,
    /// Where the object is; empty for one that is in no namespace.
    pub namespace: Name,
    /// The API group of its kind; empty for core.
    pub group: String,
    /// Its kind, as objects spell it.
    pub kind: String,
    /// Its name; empty where that has yet to be made up.
    pub name: Name,
    /// Before; `None` when it is created.
    pub old: Option<State<'a>>,
    /// Afterwards; `None` when it is deleted.
    pub new: Option<State<'a>>,
}

/// What of an object is judged.
#[derive(Debug, Clone)]
pub struct State<'a> {
    /// All its labels.
    pub labels: Pairs<'a>,
    /// All its annotations.
    pub annotations: Pairs<'a>,
    /// All its finalizers.
    pub finalizers: Vec<Cow<'a, str>>,
    /// All its owner references, as objects write them.
    pub owner_references: Vec<Value>,
    /// It has a `deletionTimestamp`.
    pub terminating: bool,
    /// All its top-level fields; metadata and status may be left out.
    pub body: Fields<'a>,
}

impl State<'_> {
    /// The namespace that it is a copy from, if it is one. It is one by the label alone, whatever its value.
    fn inherited_from(&self) -> Option<&str> {
        self.labels.get(keys::INHERITED_FROM)
    }

    /// The value of an annotation; one that is absent is as good as an empty one.
    fn annotation(&self, key: &str) -> &str {
        self.annotations.get(key).unwrap_or_default()
    }
}

/// Judges `request` as far as `answers` go.
///
/// While it is not known which kinds are propagated, nothing is refused for good: what would be if its kind were, has to
/// wait.
pub fn review(forest: &Forest, request: &Request<'_>, answers: &Answers) -> Verdict {
    match (Review { forest, request, answers }.judge()) {
        Ok(warnings) => Verdict::warn(warnings),
        Err(Verdict::Deny(_)) if !forest.is_configured() => Denial::unavailable(
            "it is not known yet which kinds are propagated (HNCConfiguration \"config\"), and so whether this may happen; \
             try again in a moment",
        )
        .into(),
        Err(verdict) => verdict,
    }
}

struct Review<'a> {
    forest: &'a Forest,
    request: &'a Request<'a>,
    answers: &'a Answers,
}

impl Review<'_> {
    /// The warnings with which it is allowed.
    fn judge(&self) -> Check<Vec<String>> {
        let Request { namespace, old, new, operation, .. } = self.request;
        if namespace.is_empty() || !self.forest.settings().is_managed(namespace) {
            return Ok(Vec::new());
        }
        let kind = self.propagated_kind();
        if kind.is_none() && self.forest.is_configured() {
            return Ok(Vec::new());
        }
        let before = old.as_ref().and_then(State::inherited_from);
        let after = new.as_ref().and_then(State::inherited_from);
        if before.is_some() || after.is_some() {
            return self.copy(before, after).map(|()| Vec::new());
        }
        match new {
            Some(new) if *operation != Operation::Delete => {
                self.annotations(new)?;
                self.overwrites_nothing(kind, new)
            }
            _ => Ok(Vec::new()),
        }
    }

    /// The kind by group and name, whatever the version, if there is anything to judge of it.
    fn propagated_kind(&self) -> Option<(KindId, &KindSettings)> {
        let id = self.forest.kind_named(&self.request.group, &self.request.kind)?;
        let settings = self.forest.kind_settings(id)?;
        settings.mode.propagates().then_some((id, settings))
    }
}
