//! The derived quota of a namespace, and the status of its hierarchical quotas (section 12 of docs/compatibility.md).

use super::{Action, HncAction};
use crate::core::tree::Id;
use crate::dialects::Forest;
use crate::hnc::quota::{
    DerivedQuotaFact, Placed, Resources, derived_limits, full_name, limits_text, names_of_sources, status,
};

/// The writes that a namespace needs.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// The derived quota. It is a restriction: bindings wait for it.
    pub(super) derived: Vec<Action>,
    /// What only shows something, which nothing waits for: the statuses, and the annotation for people of the derived quota.
    pub(super) statuses: Vec<Action>,
}

pub(super) fn changes(forest: &Forest, id: Id) -> Changes {
    if !forest.knows_quotas() {
        return Changes::default();
    }
    let mut changes =
        Changes { derived: Vec::new(), statuses: statuses(forest, id).map(Action::from).collect() };
    if let Some(action) = derived(forest, id) {
        let kind = if only_shows(forest, id, &action) { &mut changes.statuses } else { &mut changes.derived };
        kind.push(action.into());
    }
    changes
}

/// Whether the write changes nothing but the annotation for people.
fn only_shows(forest: &Forest, id: Id, action: &HncAction) -> bool {
    let HncAction::WriteDerivedQuota { hard, sources, .. } = action else { return false };
    forest.derived_quota(id).is_some_and(|known| is_derived_from(known, hard, sources))
}

fn is_derived_from(known: &DerivedQuotaFact, hard: &Resources, sources: &str) -> bool {
    known.hard == *hard && known.is_marked && *known.sources == *sources
}

/// Nothing can be created in a namespace that is being deleted, and its quota is deleted with it.
fn derived(forest: &Forest, id: Id) -> Option<HncAction> {
    forest.lasting_namespace(id)?;
    let known = forest.derived_quota(id);
    let mut quotas = forest.quotas_above(id);
    // Others do not wait for them: users may write the status of their own quotas.
    quotas.retain(|quota| !known.is_some_and(|known| brings_usage(forest, *quota, known)));
    let hard = derived_limits(&quotas);
    if let Some(known) = known.filter(|known| known.terminating) {
        return Some(HncAction::FreeDerivedQuota { version: known.version.clone() });
    }
    let version = known.map(|known| known.version.clone());
    // One with scopes is created anew: they cannot be changed.
    if hard.is_empty() || known.is_some_and(|known| known.has_scopes) {
        return Some(HncAction::DeleteDerivedQuota { version: version? });
    }
    let sources = forest.sources(&quotas);
    let limits = limits_text(forest, &quotas, &hard, known.map_or("", |known| &known.limits));
    let is_right =
        |known: &DerivedQuotaFact| is_derived_from(known, &hard, &sources) && *known.limits == *limits;
    if known.is_some_and(is_right) {
        return None;
    }
    let dropped =
        known.into_iter().flat_map(|known| known.hard.keys()).filter(|name| !hard.contains_key(*name));
    let dropped = dropped.cloned().collect();
    Some(HncAction::WriteDerivedQuota { version, hard, dropped, sources, limits })
}

/// Whether a quota that says it is enforced would now also limit usage that there is. It must first say that it is not: the webhook
/// may have allowed increases without knowing of this usage.
fn brings_usage(forest: &Forest, (at, quota): Placed<'_>, known: &DerivedQuotaFact) -> bool {
    let has_usage = |name: &str| known.used.get(name).is_some_and(|used| !used.is_zero());
    quota.status.says_enforced()
        && quota.hard.keys().any(|name| has_usage(name))
        && !names_of_sources(&known.sources).any(|it| *it == *full_name(forest.name(at), &quota.name))
}

fn statuses(forest: &Forest, id: Id) -> impl Iterator<Item = HncAction> {
    forest.quotas_at(id).filter_map(move |quota| {
        let status = status(forest, id, quota);
        if status == quota.status {
            return None;
        }
        Some(HncAction::UpdateQuotaStatus {
            name: quota.name.clone(),
            version: quota.version.clone(),
            dropped: quota
                .status
                .hard
                .keys()
                .chain(quota.status.used.keys())
                .filter(|it| !quota.hard.contains_key(*it))
                .cloned()
                .collect(),
            status,
        })
    })
}
