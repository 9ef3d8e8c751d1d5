//! Row 7: which objects a source would overwrite in the namespaces below. Only namespaces count to which it did not propagate
//! before.

use std::collections::BTreeSet;

use super::{Request, Review, State};
use crate::accurate::keys::FROM;
use crate::core::destination::{goes_somewhere, goes_to};
use crate::core::kind::{Kind, KindId, KindSettings, ObjectKey, OnConflict};
use crate::core::name::Name;
use crate::core::stream::{Stream, StreamState};
use crate::core::text::shown;
use crate::core::tree::Id;
use crate::dialects::Forest;
use crate::hnc::exceptions::{Exceptions, Unparsable};
use crate::hnc::exclusion::{Traits, exclusion};
use crate::hnc::plan::wanted_labels;
use crate::hnc::rules::hierarchy::structure_is_known;
use crate::hnc::rules::{Check, Denial, Operation, Question, Verdict, WaitFor};
use crate::hnc::words::{listed, way_out};

/// The parts of an object that decide where it propagates.
#[derive(Debug, PartialEq)]
struct Traffic {
    excluded: Option<String>,
    exceptions: Option<Result<Exceptions, Unparsable>>,
}

impl Traffic {
    fn of(forest: &Forest, kind: KindId, name: &str, state: &State<'_>) -> Self {
        let label = |key: &str| state.labels.get(key);
        let annotation = |key: &str| state.annotations.get(key);
        let secret_type = state.body.get("type");
        let traits = Traits {
            kind: forest.kind(kind),
            name,
            secret_type: secret_type.as_ref().and_then(serde_json::Value::as_str),
            has_finalizers: !state.finalizers.is_empty(),
            is_terminating: state.terminating,
            label: &label,
            annotation: &annotation,
        };
        let accurate = forest.accurate_settings().filter(|accurate| accurate.watches(traits.kind));
        let is_copy = accurate.is_some() && annotation(FROM).is_some_and(|from| !from.is_empty());
        let of_accurate = is_copy.then(|| "it is a copy of Accurate's API".to_owned());
        Self {
            excluded: exclusion(forest.settings(), &traits).or(of_accurate),
            exceptions: Exceptions::of(state.annotations.iter()),
        }
    }

    /// Whether any namespace is possible to which it propagates.
    fn goes_somewhere(&self, kind: &KindSettings, name: &str) -> bool {
        goes_somewhere(kind, name, self.excluded.as_deref(), self.exceptions.as_ref()).is_ok()
    }

    /// Whether it propagates to this namespace below.
    fn goes_to(&self, forest: &Forest, kind: &KindSettings, name: &str, below: Id) -> bool {
        let label = wanted_labels(forest, below);
        goes_to(kind, name, self.excluded.as_deref(), self.exceptions.as_ref(), &label).is_ok()
    }
}

impl Review<'_> {
    /// Denies when the object would overwrite a source below; where the kind is set to keep those, returns warnings. If the
    /// objects below are not known, the request must wait, but only if they matter: an object that propagates nowhere, has no
    /// namespace below, or propagated to the same namespaces before, does not wait. An object that is being deleted propagates
    /// nowhere.
    pub(super) fn overwrites_nothing(
        &self,
        kind: Option<(KindId, &KindSettings)>,
        new: &State<'_>,
    ) -> Check<Vec<String>> {
        let Request { namespace, name, .. } = self.request;
        if new.terminating {
            return Ok(Vec::new());
        }
        let Some((id, kind)) = kind else { return self.has_nothing_below() };
        let traffic = Traffic::of(self.forest, id, name, new);
        let before = self.traffic_before(id);
        if name.is_empty() || before.as_ref() == Some(&traffic) || !traffic.goes_somewhere(kind, name) {
            return Ok(Vec::new());
        }
        let on_conflict = self.forest.settings().on_conflict(kind);
        if let Err(unknown) = self.all_is_known(id) {
            return if on_conflict.refuses() { Err(unknown) } else { Ok(Vec::new()) };
        }
        let Some(source) = self.forest.id(namespace) else { return Ok(Vec::new()) };
        let key = ObjectKey { kind: id, name: name.clone() };
        let comes_newly = |holder: &Id| {
            let goes = |traffic: &Traffic| traffic.goes_to(self.forest, kind, name, *holder);
            goes(&traffic) && !before.as_ref().is_some_and(goes)
        };
        let holders = self.forest.holders_below(&key, source).into_iter().filter(comes_newly);
        let found: BTreeSet<&Name> = holders.map(|holder| self.forest.name(holder)).collect();
        self.conclude((on_conflict, &kind.kind), &found)
    }

    fn conclude(
        &self,
        (on_conflict, kind): (OnConflict, &Kind),
        found: &BTreeSet<&Name>,
    ) -> Check<Vec<String>> {
        if found.is_empty() {
            return Ok(Vec::new());
        }
        let Request { kind: what, name, .. } = self.request;
        let (name, places) = (shown(name), listed(found));
        if !on_conflict.refuses() {
            return Ok(vec![format!(
                "namespaces below have a {what} {name:?} of their own, which stays as it is: {places}"
            )]);
        }
        Err(Denial::conflict(format!(
            "namespaces below have a {what} {name:?} of their own, which is in the way: {places}; {}",
            way_out([kind])
        ))
        .into())
    }

    /// Whether everything is known that the answer needs: the structure, and, where a namespace is below, the objects of the
    /// kind. Waits a moment for the first list of a kind.
    fn all_is_known(&self, kind: KindId) -> Check {
        structure_is_known(self.forest)?;
        let state = self.forest.stream(Stream::Kind(kind));
        if state.is_synced() || !self.is_a_parent() {
            return Ok(());
        }
        let question = Question::Await(WaitFor::Objects(self.forest.kind(kind).clone()));
        if state == StreamState::Waiting && !self.answers.contains_key(&question) {
            return Err(Verdict::Ask(vec![question]));
        }
        let resource = self.forest.kind(kind).group_resource();
        Err(Denial::unavailable(format!(
            "it cannot be known what this would overwrite in the namespaces below, because the {resource} of the cluster \
             cannot be relied on: {state}; see that the service account of hns-webhook may list and watch {resource}, or \
             wait and try again"
        ))
        .into())
    }

    /// For a kind that may or may not be propagated.
    fn has_nothing_below(&self) -> Check<Vec<String>> {
        structure_is_known(self.forest)?;
        if self.is_a_parent() {
            return Err(Denial::unavailable("it is not known yet which kinds are propagated").into());
        }
        Ok(Vec::new())
    }

    fn is_a_parent(&self) -> bool {
        let forest = self.forest;
        forest.id(&self.request.namespace).is_some_and(|id| !forest.downstream(id).is_empty())
    }

    /// Where the object propagated before the request.
    fn traffic_before(&self, kind: KindId) -> Option<Traffic> {
        let Request { operation, name, old, .. } = self.request;
        let old = old.as_ref().filter(|_| *operation == Operation::Update)?;
        Some(Traffic::of(self.forest, kind, name, old))
    }
}
