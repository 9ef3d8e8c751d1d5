//! What a quota shows: the usage of the subtree, one line for people, and whether its limits are enforced and exceeded.

use std::collections::HashSet;

use super::{MOST_QUOTAS, QuotaCondition, QuotaFact, QuotaStatus, Resources, full_name, resource};
use crate::core::name::Name;
use crate::core::text::{MESSAGE, limited};
use crate::core::tree::Id;
use crate::dialects::Forest;

/// The condition that every derived quota has the limits in force.
pub const ENFORCED: &str = "Enforced";
const EXCEEDED: &str = "Exceeded";

/// The number of namespaces that a message names.
const NAMED: usize = 3;

/// The status that a quota in the namespace `id` should have.
pub(crate) fn status(forest: &Forest, id: Id, quota: &QuotaFact) -> QuotaStatus {
    let hard = quota.hard.clone();
    let used = forest.usage_below(id, &hard);
    let summary = |of_limits: bool| -> Box<str> {
        let named = hard.iter().filter(|(name, _)| name.starts_with("limits.") == of_limits);
        let parts = named
            .map(|(name, limit)| format!("{name}: {}/{limit}", used.get(name).copied().unwrap_or_default()));
        parts.collect::<Vec<_>>().join(", ").into()
    };
    // That other limits are enforced is news, for which the controller prepares the ledger.
    let shown_of_these_limits =
        if quota.status.hard == hard { &quota.status.conditions[..] } else { Default::default() };
    QuotaStatus {
        requests_summary: summary(false),
        limits_summary: summary(true),
        conditions: vec![
            since_shown(enforced(forest, id, quota), shown_of_these_limits),
            since_shown(exceeded(&hard, &used), &quota.status.conditions),
        ],
        hard,
        used,
    }
}

/// The quotas that `child`, with all namespaces below it, would exceed as a child of `parent`, one sentence each. Only the usage of
/// resources that are limited where it is now is known. An orphan below it may count there already.
pub(crate) fn exceeded_by_move(forest: &Forest, parent: &Name, child: &Name) -> Vec<String> {
    let (Some(parent), Some(id)) = (forest.id(parent), forest.id(child)) else { return Vec::new() };
    let (above, moving) = (forest.place(id), forest.at_and_below(id));
    let quotas = forest.quotas_above(parent).into_iter().filter(|(at, _)| !above.contains(at));
    let sentences = quotas.flat_map(|(at, quota)| {
        let counted = forest.at_and_below(at);
        let known: HashSet<&Id> = counted.iter().collect();
        let new: Vec<Id> = moving.iter().filter(|it| !known.contains(it)).copied().collect();
        let [moved, used] = [&new, &counted].map(|namespaces| forest.usage_of(namespaces, &quota.hard));
        let exceeded = quota.hard.iter().filter_map(move |(name, limit)| {
            let (moved, total) = (moved[name], moved[name] + used[name]);
            let name_of_quota = full_name(forest.name(at), &quota.name);
            (!moved.is_zero() && total > *limit).then(|| {
                format!(
                    "{child:?} and the namespaces below it use {name}={moved}; with them, {name}={total} is used of the quota \
                     {name_of_quota}, which allows {limit}: nothing is removed, but no more is allowed"
                )
            })
        });
        exceeded.collect::<Vec<_>>()
    });
    sentences.collect()
}

fn enforced(forest: &Forest, id: Id, quota: &QuotaFact) -> QuotaCondition {
    if !quota.faults.is_empty() {
        let message = format!("These limits are invalid and not enforced: {}", quota.faults.join("; "));
        return condition(ENFORCED, false, "InvalidLimits", &message);
    }
    if !forest.quotas_above(id).iter().any(|(at, it)| *at == id && it.name == quota.name) {
        let message = format!(
            "This quota has no effect: this namespace and those above it have too many quotas (at most {MOST_QUOTAS}) or limits; \
             remove some of them"
        );
        return condition(ENFORCED, false, "TooManyLimits", &message);
    }
    let limited = forest.limited_by(id);
    let waits = |it: &&Id| !forest.is_derived_in_force(**it);
    let mut waiting: Vec<&str> = limited.iter().filter(waits).map(|it| &**forest.name(*it)).collect();
    waiting.sort_unstable();
    let uncounted = uncounted(forest, &limited, &quota.hard);
    if waiting.is_empty() && !uncounted.is_empty() {
        return condition(ENFORCED, false, "LimitsNotCounted", &not_counted(&uncounted));
    }
    if waiting.is_empty() {
        return condition(
            ENFORCED,
            true,
            "LimitsInForce",
            "All namespaces of the subtree have the limits in force",
        );
    }
    let mut names = waiting.iter().take(NAMED).map(|it| format!("{it:?}")).collect::<Vec<_>>().join(", ");
    if waiting.len() > NAMED {
        names = format!("{names} and {} more", waiting.len() - NAMED);
    }
    let message = format!(
        "The ResourceQuota {} is not in force (status.hard equals spec.hard) in {names}; if this does not change, check that \
         kube-controller-manager runs its resourcequota controller",
        super::keys::DERIVED_QUOTA
    );
    condition(ENFORCED, false, "LimitsNotInForce", &message)
}

/// The limited resources that the quota controller does not count in one of these namespaces: it knows no usage of them.
fn uncounted<'a>(forest: &Forest, limited: &[Id], hard: &'a Resources) -> Vec<&'a str> {
    let is_counted = |name: &str| {
        limited.iter().all(|id| forest.derived_quota(*id).is_some_and(|it| it.used.contains_key(name)))
    };
    hard.keys().map(|name| &**name).filter(|name| !is_counted(name)).collect()
}

fn not_counted(names: &[&str]) -> String {
    let hints = names.iter().map(|name| match resource::never_counted(name) {
        Some(hint) => format!("{name} (its limit has no effect: {hint})"),
        None => format!(
            "{name} (check that a kind of this name is served; if it is new, its objects are refused until Kubernetes counts them: wait \
             about five minutes, or change the limit when the kind has been served for half a minute)"
        ),
    });
    let hints: Vec<String> = hints.collect();
    format!("Kubernetes does not count these resources: {}", hints.join(", "))
}

fn exceeded(hard: &Resources, used: &Resources) -> QuotaCondition {
    let over = hard.iter().filter_map(|(name, limit)| {
        let used = used.get(name).filter(|used| *used > limit)?;
        Some(format!("{name}: {used} used, {limit} allowed"))
    });
    let over: Vec<String> = over.collect();
    if over.is_empty() {
        return condition(EXCEEDED, false, "WithinLimits", "");
    }
    let message = format!("The subtree uses more than allowed and cannot use more: {}", over.join(", "));
    condition(EXCEEDED, true, "UsageExceedsLimits", &message)
}

fn condition(type_: &str, holds: bool, reason: &str, message: &str) -> QuotaCondition {
    QuotaCondition {
        type_: type_.into(),
        holds,
        reason: reason.into(),
        message: limited(message, MESSAGE).into(),
        since: None,
    }
}

/// Keeps the time of a condition that holds as before.
fn since_shown(new: QuotaCondition, shown: &[QuotaCondition]) -> QuotaCondition {
    let old = shown.iter().find(|it| it.type_ == new.type_ && it.holds == new.holds);
    QuotaCondition { since: old.and_then(|it| it.since.clone()), ..new }
}
