//! The next writes, and their order. Pure.
//!
//! Four kinds of writes do not wait: certificates to trust, because without them every review fails; webhook configurations that
//! are missing, because without them nothing is reviewed; awaited names, because a user may take them; and the kinds whose sources
//! are reviewed, because no policy judges sources. As long as policies are not enforced, the webhook reviews all requests: policies
//! and bindings are written before the webhook is sent fewer requests, and the webhook is sent more requests before they are
//! deleted. Two objects cannot change in one write, and API servers need up to a second to enforce a policy.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use serde_json::Value;

use super::followed;
use super::objects::{Kind, Required, Target};
use super::repair::{self, Context};
use crate::certificates::Registered;

/// The state of an object in the cluster.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Observed {
    /// The API server refuses the watch, with this message.
    Unreadable(String),
    Absent,
    Present(Value),
}

/// The state of all objects, and what else plans depend on.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) observed: BTreeMap<Target, Observed>,
    /// What was last sent, and how the API server answered. A newer API server may add or change a field; the same write would have
    /// the same answer again.
    pub(super) answered: BTreeMap<Target, (Value, Value)>,
    /// What objects were when nothing was left to do, or when they were written since.
    pub(super) known: BTreeMap<Target, Value>,
    /// Whether the last write of a policy failed. The webhook then reviews all requests.
    pub(super) policies_failed: bool,
    pub(super) context: Context,
    /// Whether only certificates are written.
    pub(super) only_bundle: bool,
    /// Whether API servers may not enforce the latest policies yet, or the awaited names are not known yet.
    pub(super) paused: bool,
}

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Write {
    Create(Target, Value),
    Replace(Target, Value),
    Delete(Target),
}

/// Writes that may follow one another at once.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Plan {
    pub(super) writes: Vec<Write>,
    /// Whether API servers need time to enforce these writes before the next ones.
    pub(super) settle: bool,
    /// Why other writes are not possible.
    pub(super) problems: Vec<String>,
}

impl State {
    pub(super) fn of(&self, target: &Target) -> &Observed {
        self.observed.get(target).unwrap_or(&Observed::Absent)
    }

    /// Remembers all objects as they are: nothing is left to do.
    pub(super) fn settle(&mut self) {
        let present = self.observed.iter().filter_map(|(target, observed)| match observed {
            Observed::Present(found) => Some((target.clone(), repair::content(found))),
            Observed::Absent | Observed::Unreadable(_) => None,
        });
        self.known = present.collect();
    }

    /// Whether another client has changed the object: it is not as it was when nothing was left to do.
    pub(super) fn is_changed_by_others(&self, target: &Target) -> bool {
        let Observed::Present(found) = self.of(target) else { return false };
        self.known.get(target).is_some_and(|known| *known != repair::content(found))
    }

    /// Whether a required object does not exist.
    pub(super) fn lacks_one(&self, required: &Required) -> bool {
        required.targets().any(|target| *self.of(target) == Observed::Absent)
    }

    /// The kinds that the webhook is registered for, if any.
    pub(super) fn registered_kinds(&self) -> Option<Vec<(String, String)>> {
        let target = Target::new(Kind::Validating, hns_api::names::VALIDATING_WEBHOOK_CONFIGURATION);
        let Observed::Present(validating) = self.of(&target) else { return None };
        Some(followed::registered(validating)).filter(|kinds| !kinds.is_empty())
    }

    /// The certificates that our webhooks trust.
    pub(super) fn registered(&self, required: &Required) -> Registered {
        let mut registered = Registered::Nowhere;
        for (target, required) in &required.webhooks_alone {
            let found = match self.observed.get(target) {
                Some(Observed::Present(found)) => found,
                Some(Observed::Absent) => continue,
                Some(Observed::Unreadable(_)) | None => return Registered::Unclear,
            };
            for bundle in repair::bundles(found, required) {
                let Ok(ByteString(text)) = serde_json::from_value(bundle.clone()) else {
                    return Registered::Unclear;
                };
                match &registered {
                    Registered::Everywhere(other) if *other != text => return Registered::Unclear,
                    _ => registered = Registered::Everywhere(text),
                }
            }
        }
        registered
    }

    /// The write of the changed object, unless it was sent before and the API server answered with the observed one.
    fn replacement(&self, target: &Target, found: &Value, changed: Option<Value>) -> Option<Write> {
        let object = changed?;
        let is_answered = self.answered.get(target).is_some_and(|(sent, answer)| {
            *sent == repair::content(&object) && *answer == repair::content(found)
        });
        (!is_answered).then(|| Write::Replace(target.clone(), object))
    }
}

/// The next writes; none if everything is as required, or cannot be.
///
/// The caller must know the state of every object, and plan again after it has carried out a plan.
pub(super) fn plan(required: &Required, state: &State) -> Plan {
    let context = &state.context;
    let bundles = urgent(required, state, |found, required| {
        repair::trusting(found, required, context.bundle.as_ref()?)
    });
    if state.only_bundle || !bundles.is_empty() {
        return Plan { writes: bundles, ..Plan::default() };
    }
    let mut first = urgent(required, state, |found, required| {
        repair::awaiting(found, required, context).or_else(|| repair::judging(found, required))
    });
    let policies = if state.policies_failed { Plan::default() } else { corrected(&required.policies, state) };
    let exist = required.policies.keys().all(|it| matches!(state.of(it), Observed::Present(_)));
    let enforced = exist && !state.paused && !state.policies_failed && policies.writes.is_empty();
    let webhooks = corrected(if enforced { &required.webhooks } else { &required.webhooks_alone }, state);
    first.extend(webhooks.writes.iter().filter(|it| matches!(it, Write::Create(..))).cloned());
    if !first.is_empty() {
        return Plan { writes: first, ..Plan::default() };
    }
    if !policies.writes.is_empty() {
        return Plan { settle: true, ..policies };
    }
    let problems = [policies.problems, webhooks.problems].concat();
    if state.paused {
        return Plan { problems, ..Plan::default() };
    }
    let surplus = surplus(required, state);
    if webhooks.writes.is_empty() {
        return Plan { writes: surplus, settle: false, problems };
    }
    Plan { writes: webhooks.writes, settle: !surplus.is_empty(), problems }
}

/// Changes one respect of the webhook configurations that exist: `change` has the observed and the required object.
fn urgent(
    required: &Required,
    state: &State,
    change: impl Fn(&Value, &Value) -> Option<Value>,
) -> Vec<Write> {
    let present = required.webhooks_alone.iter().filter_map(|(target, required)| match state.of(target) {
        Observed::Present(found) => state.replacement(target, found, change(found, required)),
        Observed::Absent | Observed::Unreadable(_) => None,
    });
    present.collect()
}

/// Creates and corrects objects, in the order of their kinds.
fn corrected(required: &BTreeMap<Target, Value>, state: &State) -> Plan {
    let mut plan = Plan::default();
    for (target, required) in required {
        match state.of(target) {
            Observed::Unreadable(why) => plan.problems.push(format!("{target} cannot be read: {why}")),
            Observed::Absent if state.context.owner.is_none() => plan.problems.push(format!(
                "{target} does not exist and is not created: without its owner, the ClusterRole {:?}, it would stay after an \
                 uninstallation",
                hns_api::names::CONTROLLER_CLUSTER_ROLE
            )),
            Observed::Absent => {
                plan.writes.push(Write::Create(target.clone(), repair::complete(required, &state.context)));
            }
            Observed::Present(found) => {
                let object = repair::repaired(found, required, &state.context);
                plan.writes.extend(state.replacement(target, found, object));
            }
        }
    }
    plan
}

/// Deletes policies that the settings disable. Bindings are first: a policy without a binding has no effect.
fn surplus(required: &Required, state: &State) -> Vec<Write> {
    let ours = state.observed.iter().filter(|(target, _)| target.kind.is_of_policies());
    let present = ours.filter(|(_, observed)| matches!(observed, Observed::Present(_)));
    let mut surplus: Vec<Target> = present
        .map(|(target, _)| target)
        .filter(|target| !required.policies.contains_key(*target))
        .cloned()
        .collect();
    surplus.sort_by_key(|target| std::cmp::Reverse(target.kind));
    surplus.into_iter().map(Write::Delete).collect()
}

#[cfg(test)]
mod tests;
