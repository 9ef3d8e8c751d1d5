//! `objects.hnc.x-k8s.io`: which changes of objects of a propagated kind are allowed (section 7.5 of docs/compatibility.md).
//!
//! "Row N" is a row of the first table in that section, here and in the files of `object/`.
//!
//! Serves requests for a resource and for its `status` alike: labels and annotations can be written through both. An object with
//! the label `hnc.x-k8s.io/inherited-from` before or afterwards is judged as a copy (`object/copy.rs`), any other as a source:
//! its annotations (`object/annotations.rs`), and what it would overwrite below (`object/conflict.rs`). Objects of kinds that are
//! not propagated, or in namespaces that are not managed, are not judged.

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

/// A request that creates, changes or deletes an object.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// Create, update or delete; a change of a subresource is an update.
    pub operation: Operation,
    /// The requesting user.
    pub user: User,
    /// Its namespace; empty for a cluster-scoped object.
    pub namespace: Name,
    /// The API group of its kind; empty for core.
    pub group: String,
    /// Its kind.
    pub kind: String,
    /// Its name; empty if the API server still has to generate it.
    pub name: Name,
    /// Before; `None` when it is created.
    pub old: Option<State<'a>>,
    /// Afterwards; `None` when it is deleted.
    pub new: Option<State<'a>>,
}

/// The parts of an object that the rule reads.
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
    /// The namespace of its source, if it is a copy. The label alone makes it a copy, with any value.
    fn inherited_from(&self) -> Option<&str> {
        self.labels.get(keys::INHERITED_FROM)
    }

    /// The value of an annotation; an absent one counts as empty.
    fn annotation(&self, key: &str) -> &str {
        self.annotations.get(key).unwrap_or_default()
    }
}

/// Judges `request` with the `answers` so far.
///
/// While it is not known which kinds are propagated, no request is denied permanently: one that would be denied for a propagated
/// kind must be repeated later.
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
    /// The warnings, if the request is allowed.
    fn judge(&self) -> Check<Vec<String>> {
        let Request { namespace, old, new, operation, .. } = self.request;
        if namespace.is_empty() || !self.forest.settings().is_managed(namespace) {
            return Ok(Vec::new());
        }
        let is_configured = self.forest.is_configured();
        let kind = self.kind();
        if kind.is_none_or(|(_, settings)| !settings.mode.protects()) && is_configured {
            return Ok(Vec::new());
        }
        let before = old.as_ref().and_then(State::inherited_from);
        let after = new.as_ref().and_then(State::inherited_from);
        if before.is_some() || after.is_some() {
            return self.copy(before, after).map(|()| Vec::new());
        }
        let kind = kind.filter(|(_, settings)| settings.mode.propagates());
        if kind.is_none() && is_configured {
            return Ok(Vec::new());
        }
        match new {
            Some(new) if *operation != Operation::Delete => {
                self.annotations(new)?;
                self.overwrites_nothing(kind, new)
            }
            _ => Ok(Vec::new()),
        }
    }

    /// The kind by group and name, in any version, if it is configured.
    fn kind(&self) -> Option<(KindId, &KindSettings)> {
        let id = self.forest.kind_named(&self.request.group, &self.request.kind)?;
        Some((id, self.forest.kind_settings(id)?))
    }
}
