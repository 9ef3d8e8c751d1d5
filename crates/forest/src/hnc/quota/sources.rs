//! The annotations of a derived quota: from which quotas it is derived, for programs, and what limits what, for people.
//!
//! The first one is a precondition: a webhook replica decides about a namespace only if it knows the same quotas with the same
//! limits. So a replica that is behind does not decide by old limits once the controller has reported a quota as enforced.

use std::fmt::Write as _;

use super::{Placed, QuotaFact, Resources, full_name};
use crate::core::quantity::Quantity;
use crate::core::tree::Id;
use crate::dialects::Forest;

impl Forest {
    /// The value that the annotation for programs should have under these quotas: `NAMESPACE/NAME@DIGEST` of each.
    pub(crate) fn sources(&self, quotas: &[Placed<'_>]) -> Box<str> {
        let mut text = String::new();
        for (at, quota) in quotas {
            let separator = if text.is_empty() { "" } else { "," };
            // Writing to a text cannot fail.
            let _ = write!(text, "{separator}{}/{}@{:016x}", self.name(*at), quota.name, digest(&quota.hard));
        }
        text.into()
    }
}

/// The quotas that the annotation names, as `NAMESPACE/NAME`.
pub fn names(sources: &str) -> impl Iterator<Item = &str> {
    sources.split(',').filter_map(|source| Some(source.split_once('@')?.0))
}

/// FNV-1a of the limits in their canonical form: the same in every version of the programs.
fn digest(hard: &Resources) -> u64 {
    let limits: Vec<String> = hard.iter().map(|(name, limit)| format!("{name}={limit};")).collect();
    let bytes = limits.iter().flat_map(|limit| limit.bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// What is left of a resource may differ from what is shown by less than this many hundredths: a derived quota is written for each
/// namespace of a subtree, so small changes must not be shown.
const SLACK: i64 = 10;

/// What is left of a resource, in steps of half the slack; 0 if nothing is left.
fn steps(quota: &QuotaFact, name: &str, limit: Quantity) -> i32 {
    let percent = left(quota, name, limit).percent_of(limit).clamp(0, 100);
    let steps = if percent > 0 { 1 + percent / (SLACK / 2) } else { 0 };
    i32::try_from(steps).unwrap_or_default()
}

/// Whether a new status changes what [`limits_text`] shows, or nearly does.
pub(super) fn shows_other_limits(old: &QuotaFact, new: &QuotaFact) -> bool {
    let all = |quota: &QuotaFact| -> Vec<i32> {
        quota.hard.iter().map(|(name, limit)| steps(quota, name, *limit)).collect()
    };
    all(old) != all(new)
}

/// The value that the annotation for people should have: for each resource the quota that has about the least left, of several such
/// the one with the smallest limit, and how much that is, according to its status. `hard` has the limited resources. An entry of
/// `shown` that is nearly right stays.
pub(crate) fn limits_text(forest: &Forest, quotas: &[Placed<'_>], hard: &Resources, shown: &str) -> Box<str> {
    let mut text = String::new();
    for name in hard.keys() {
        let limits = quotas.iter().filter_map(|(at, quota)| Some((*at, *quota, *quota.hard.get(name)?)));
        // Like everything that is shown, this changes with the steps alone.
        let rest = |(_, quota, limit): &(Id, &QuotaFact, Quantity)| {
            (limit.as_f64() * f64::from(steps(quota, name, *limit)), limit.as_f64())
        };
        let least = limits.min_by(|one, other| {
            let (one, other) = (rest(one), rest(other));
            one.0.total_cmp(&other.0).then(one.1.total_cmp(&other.1))
        });
        let Some((at, quota, limit)) = least else { continue };
        let percent = left(quota, name, limit).percent_of(limit).max(0);
        let beginning = format!("{name}: {}, ", full_name(forest.name(at), &quota.name));
        let end = format!("% of {limit} left");
        let entry = |entry: &str| entry.strip_prefix(&beginning)?.strip_suffix(&end)?.parse::<i64>().ok();
        let is_near = |other: &i64| (other - percent).abs() < SLACK && (*other == 0) == (percent == 0);
        let percent = shown.split("; ").find_map(entry).filter(is_near).unwrap_or(percent);
        let separator = if text.is_empty() { "" } else { "; " };
        // Writing to a text cannot fail.
        let _ = write!(text, "{separator}{beginning}{percent}{end}");
    }
    text.into()
}

/// What is left according to the status.
fn left(quota: &QuotaFact, name: &str, limit: Quantity) -> Quantity {
    limit - quota.status.used.get(name).copied().unwrap_or_default()
}
