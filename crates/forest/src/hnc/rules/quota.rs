//! `hrq.hnc.x-k8s.io`: which limits a `HierarchicalResourceQuota` may have (section 12.4 of docs/compatibility.md).
//!
//! HNC asks the API server by a dry run whether it would accept such a `ResourceQuota`. The webhook has no right to create one, so
//! this rule knows what the API server accepts ([`resource`]).

use super::{Cause, Denial, Verdict};
use crate::core::name::Name;
use crate::core::quantity::Quantity;
use crate::core::tree::Id;
use crate::dialects::Forest;
use crate::hnc::quota::{MOST_QUOTAS, Resources, Room, full_name, resource};

/// A request that creates or changes a quota.
#[derive(Debug, Clone)]
pub struct Request {
    /// Its namespace.
    pub namespace: Name,
    /// Its name.
    pub name: Name,
    /// `spec.hard` afterwards, as texts.
    pub hard: Vec<(String, String)>,
}

/// Judges `request`.
pub fn review(forest: &Forest, request: &Request) -> Verdict {
    match limits(&request.hard) {
        Ok(hard) if !has_room(forest, request, &hard) => Denial::invalid(vec![no_room(hard.len())]).into(),
        Ok(hard) => Verdict::warn(warnings(forest, request, &hard)),
        Err(causes) => Denial::invalid(causes).into(),
    }
}

/// Whether all quotas that limit the namespace have room with these limits. A quota that does not grow may stay.
fn has_room(forest: &Forest, request: &Request, hard: &Resources) -> bool {
    let above = forest.id(&request.namespace).map(|id| forest.all_quotas_above(id)).unwrap_or_default();
    let is_same = |namespace: &Name, name: &Name| (namespace, name) == (&request.namespace, &request.name);
    let (mut room, mut before) = (Room::default(), 0);
    let others_fit = above.iter().fold(true, |fit, (at, quota)| {
        if is_same(forest.name(*at), &quota.name) {
            before = Room::bytes(&request.namespace, &request.name, &quota.hard);
            return fit;
        }
        room.takes(forest.name(*at), &quota.name, &quota.hard) && fit
    });
    let fits = room.takes(&request.namespace, &request.name, hard) && others_fit;
    fits || Room::bytes(&request.namespace, &request.name, hard) <= before
}

fn no_room(limits: usize) -> Cause {
    let why = format!(
        "this namespace and those above it would have too many quotas (at most {MOST_QUOTAS}) or limits; remove some of them"
    );
    Cause::invalid("spec.hard", &format!("{limits} limits"), &why)
}

/// The limits, or what is wrong with them.
pub fn limits(hard: &[(String, String)]) -> Result<Resources, Vec<Cause>> {
    let (mut limits, mut causes) = (Resources::new(), Vec::new());
    for (name, text) in hard {
        let mut invalid = |value: &str, why: &str| {
            causes.push(Cause::invalid(format!("spec.hard[{name}]"), value, why));
        };
        match (resource::name_fault(name), text.parse::<Quantity>()) {
            (Some(why), _) => invalid(name, why),
            (None, Err(error)) => invalid(text, &error.to_string()),
            (None, Ok(limit)) => match resource::limit_fault(name, limit) {
                Some(why) => invalid(text, why),
                None => drop(limits.insert(name.as_str().into(), limit.in_thousandths())),
            },
        }
    }
    if causes.is_empty() { Ok(limits) } else { Err(causes) }
}

/// What the user may not expect: a quota outside trees, limits that nothing counts, lower ones above, and those
/// that are exceeded already.
fn warnings(forest: &Forest, request: &Request, hard: &Resources) -> Vec<String> {
    let excluded = forest.settings().unmanaged(&request.namespace).map(|why| {
        let name = &request.namespace;
        let limited = if forest.children(name).is_empty() {
            "that namespace alone"
        } else {
            "that namespace, and those that are still below it"
        };
        format!("namespace {name:?} {why}, so this quota limits {limited}")
    });
    let uncounted = hard.keys().filter_map(|name| {
        Some(format!("the limit of {name} has no effect: {}", resource::never_counted(name)?))
    });
    let known = forest.id(&request.namespace).map(|id| effects(forest, id, hard));
    excluded.into_iter().chain(uncounted).chain(known.into_iter().flatten()).collect()
}

/// Lower limits above, and limits that are exceeded already.
fn effects(forest: &Forest, id: Id, hard: &Resources) -> Vec<String> {
    let above = forest.quotas_above(id).into_iter().filter(|(at, _)| *at != id);
    let lower = above.flat_map(|(at, quota)| {
        let binding = hard.iter().filter_map(move |(name, limit)| {
            let other = quota.hard.get(name).filter(|other| *other < limit)?;
            Some(format!(
                "the limit {name}={limit} has no effect: the quota {} allows {other}",
                full_name(forest.name(at), &quota.name)
            ))
        });
        binding.collect::<Vec<_>>()
    });
    let used = forest.usage_below(id, hard);
    let exceeded = hard.iter().filter_map(|(name, limit)| {
        let used = used.get(name).filter(|used| *used > limit)?;
        Some(format!("{name}: {used} used already, more than the limit of {limit}; nothing is removed, but no more is allowed"))
    });
    lower.chain(exceeded).collect()
}
