//! `hrq.hnc.x-k8s.io`: which limits a `HierarchicalResourceQuota` may have (section 12.4 of docs/compatibility.md).
//!
//! HNC asks the API server by a dry run whether it would accept such a `ResourceQuota`. The webhook has no right to create one, so
//! this rule knows what the API server accepts ([`resource`]).

use super::{Cause, Denial, Verdict};
use crate::core::name::Name;
use crate::core::quantity::Quantity;
use crate::dialects::Forest;
use crate::hnc::quota::{Resources, full_name, resource};

/// The derived quota has the limits of all quotas above, and must fit into an object.
const MOST_LIMITS: usize = 256;

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
        Ok(hard) => Verdict::warn(warnings(forest, request, &hard)),
        Err(causes) => Denial::invalid(causes).into(),
    }
}

/// The limits, or what is wrong with them.
pub fn limits(hard: &[(String, String)]) -> Result<Resources, Vec<Cause>> {
    let (mut limits, mut causes) = (Resources::new(), Vec::new());
    if hard.len() > MOST_LIMITS {
        let most = format!("there may be at most {MOST_LIMITS} limits");
        causes.push(Cause::invalid("spec.hard", &hard.len().to_string(), &most));
    }
    for (name, text) in hard {
        let limit = text.parse::<Quantity>().map_err(|error| error.to_string());
        let fault =
            |limit: Quantity| resource::fault(name, limit).map_or(Ok(limit), |why| Err(why.to_owned()));
        match limit.and_then(fault) {
            Ok(limit) => drop(limits.insert(name.as_str().into(), limit)),
            Err(why) => causes.push(Cause::invalid(format!("spec.hard[{name}]"), text, &why)),
        }
    }
    if causes.is_empty() { Ok(limits) } else { Err(causes) }
}

/// A limit above that is lower has the effect, and so has a limit here that is exceeded already.
fn warnings(forest: &Forest, request: &Request, hard: &Resources) -> Vec<String> {
    let Some(id) = forest.id(&request.namespace) else { return Vec::new() };
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
        Some(format!("{name}: {used} are used already, more than the limit of {limit}; nothing is removed, but no more is allowed"))
    });
    lower.chain(exceeded).collect()
}
