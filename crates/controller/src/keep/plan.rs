//! What to write next, in which order. Pure.
//!
//! The authority of the webhook's certificate comes before everything else, where it is kept: without it every request that is
//! registered for fails.
//!
//! Make before break: a policy and its binding stand before the webhook is sent less, and the webhook is sent more before
//! they go. Nothing can change both at once, and the API server takes up to a second to enforce a policy.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use serde_json::Value;

use super::objects::{Kind, Target, Wanted};
use super::{diff, kinds, ownership};
use crate::certificates::Registered;

/// What is known of one object.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Seen {
    /// The API server does not say.
    Refused(String),
    /// There is none.
    Absent,
    /// As the API server has it.
    Present(Value),
}

/// Everything that is known.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) seen: BTreeMap<Target, Seen>,
    /// What was sent last, and what the API server made of it: it may have an opinion of its own about a field, and writing
    /// the same again would be answered with the same again.
    pub(super) answered: BTreeMap<Target, (Value, Value)>,
    /// Whether a policy could not be written. The webhook is sent everything then.
    pub(super) policies_failed: bool,
    /// The authorities of the webhook's certificate, as in `caBundle`; none as long as that field is somebody else's.
    pub(super) authority: Option<Value>,
    /// Whether the authorities are all that is kept.
    pub(super) only_authority: bool,
}

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Write {
    Create(Target, Value),
    Replace(Target, Value),
    /// Changes nothing but who is on record for its fields.
    Release(Target, Value),
    Delete(Target),
}

/// Writes that may follow one another at once.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Plan {
    pub(super) writes: Vec<Write>,
    /// Whether the API server must be given time to enforce what was written before anything else is.
    pub(super) settle: bool,
    /// What cannot be done, in words.
    pub(super) impossible: Vec<String>,
}

impl State {
    fn seen(&self, target: &Target) -> &Seen {
        self.seen.get(target).unwrap_or(&Seen::Absent)
    }

    /// The kinds that the API server asks the webhook about, if any.
    pub(super) fn registered_kinds(&self) -> Option<Vec<(String, String)>> {
        let validating = self.seen.iter().find(|(target, _)| target.kind == Kind::Validating);
        let Some((_, Seen::Present(validating))) = validating else { return None };
        Some(kinds::registered(validating)).filter(|kinds| !kinds.is_empty())
    }

    /// Which authorities our entries name.
    pub(super) fn registered(&self, wanted: &Wanted) -> Registered {
        let mut registered = Registered::Nowhere;
        for (target, wanted) in &wanted.webhooks_alone {
            let found = match self.seen.get(target) {
                Some(Seen::Present(found)) => found,
                Some(Seen::Absent) => continue,
                Some(Seen::Refused(_)) | None => return Registered::Unclear,
            };
            for authority in diff::authorities(found, wanted) {
                let Ok(ByteString(text)) = serde_json::from_value(authority.clone()) else {
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

    fn is_answered(&self, target: &Target, found: &Value, object: &Value) -> bool {
        let known = self.answered.get(target);
        known.is_some_and(|(sent, answer)| *sent == diff::content(object) && *answer == diff::content(found))
    }
}

/// The next writes; none when everything is as wanted, or cannot be.
///
/// To be asked only when every object is known, and again after each plan that was carried out.
pub(super) fn plan(wanted: &Wanted, state: &State) -> Plan {
    let urgent = urgent(wanted, state);
    if state.only_authority || !urgent.writes.is_empty() {
        return urgent;
    }
    let policies = if state.policies_failed { Plan::default() } else { policies(wanted, state) };
    if !policies.writes.is_empty() {
        return policies;
    }
    let refused = wanted.policies.keys().any(|target| matches!(state.seen(target), Seen::Refused(_)));
    let in_force = !state.policies_failed && !refused;
    let surplus = surplus(wanted, state);
    let mut plan = webhooks(if in_force { &wanted.webhooks } else { &wanted.webhooks_alone }, state);
    plan.impossible.extend(policies.impossible);
    if plan.writes.is_empty() {
        let writes = if surplus.is_empty() { released(state) } else { surplus };
        return Plan { writes, ..plan };
    }
    plan.settle = !surplus.is_empty();
    plan
}

/// The writes that cannot wait for anything: the authorities, then the names that others wait for.
fn urgent(wanted: &Wanted, state: &State) -> Plan {
    let mut plan = authorities(wanted, state);
    if state.only_authority || !plan.writes.is_empty() {
        return plan;
    }
    for (target, wanted) in &wanted.webhooks_alone {
        let Seen::Present(found) = state.seen(target) else { continue };
        let object = diff::awaited(found, wanted, state.authority.as_ref());
        let object = object.filter(|object| !state.is_answered(target, found, object));
        plan.writes.extend(object.map(|object| Write::Replace(target.clone(), object)));
    }
    plan
}

fn authorities(wanted: &Wanted, state: &State) -> Plan {
    let mut plan = Plan::default();
    let Some(authority) = &state.authority else { return plan };
    for (target, wanted) in &wanted.webhooks_alone {
        match state.seen(target) {
            Seen::Refused(why) => plan.impossible.push(format!("{target} cannot be read: {why}")),
            Seen::Absent => {}
            Seen::Present(found) => {
                let object = diff::authority(found, wanted, authority);
                let object = object.filter(|object| !state.is_answered(target, found, object));
                plan.writes.extend(object.map(|object| Write::Replace(target.clone(), object)));
            }
        }
    }
    plan
}

/// The writes that need not wait until the API server enforces earlier ones: new kinds must be guarded at once.
pub(super) fn in_a_pause(wanted: &Wanted, state: &State) -> Plan {
    let urgent = urgent(wanted, state);
    if state.only_authority || state.policies_failed || !urgent.writes.is_empty() {
        return urgent;
    }
    let policies = policies(wanted, state);
    if policies.writes.is_empty() { urgent } else { policies }
}

/// Policies first, then bindings, as [`Target`]s are ordered.
fn policies(wanted: &Wanted, state: &State) -> Plan {
    let mut plan = Plan { settle: true, ..Plan::default() };
    for (target, wanted) in &wanted.policies {
        match state.seen(target) {
            Seen::Refused(why) => plan.impossible.push(format!("{target} cannot be read: {why}")),
            Seen::Absent => plan.writes.push(Write::Create(target.clone(), wanted.clone())),
            Seen::Present(found) => {
                let object = diff::spec(found, wanted);
                let object = object.filter(|object| !state.is_answered(target, found, object));
                plan.writes.extend(object.map(|object| Write::Replace(target.clone(), object)));
            }
        }
    }
    plan
}

fn webhooks(wanted: &BTreeMap<Target, Value>, state: &State) -> Plan {
    let mut plan = Plan::default();
    for (target, wanted) in wanted {
        match state.seen(target) {
            Seen::Refused(why) => plan.impossible.push(format!("{target} cannot be read: {why}")),
            Seen::Absent => plan.impossible.push(format!(
                "{target} is missing and cannot be created, since the authority of the webhook's certificate is not known \
                 here; apply the manifests again"
            )),
            Seen::Present(found) => {
                let repair = diff::webhooks(found, wanted, state.authority.as_ref());
                let object = repair.object.filter(|object| !state.is_answered(target, found, object));
                plan.writes.extend(object.map(|object| Write::Replace(target.clone(), object)));
                plan.impossible.extend(repair.impossible.into_iter().map(|entry| {
                    format!(
                        "the webhook {entry} is missing from {target} and cannot be added, since the authority of its \
                         certificate is not known here; apply the manifests again"
                    )
                }));
            }
        }
    }
    plan
}

/// What was put right goes back to whoever applies the manifests, once all is as wanted.
fn released(state: &State) -> Vec<Write> {
    let present = state.seen.iter().filter_map(|(target, seen)| match seen {
        Seen::Present(found) => Some((target, found)),
        Seen::Refused(_) | Seen::Absent => None,
    });
    present
        .filter_map(|(target, found)| Some(Write::Release(target.clone(), ownership::released(found)?)))
        .collect()
}

/// Policies of ours that nobody wants any more. Bindings first: without one a policy does nothing.
fn surplus(wanted: &Wanted, state: &State) -> Vec<Write> {
    let ours = state.seen.iter().filter(|(target, _)| matches!(target.kind, Kind::Policy | Kind::Binding));
    let present = ours.filter(|(_, seen)| matches!(seen, Seen::Present(_))).map(|(target, _)| target);
    let mut surplus: Vec<Target> =
        present.filter(|target| !wanted.policies.contains_key(*target)).cloned().collect();
    surplus.sort_by_key(|target| std::cmp::Reverse(target.kind));
    surplus.into_iter().map(Write::Delete).collect()
}

#[cfg(test)]
mod tests;
