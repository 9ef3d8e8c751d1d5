//! `resourcesquotasstatus.hnc.x-k8s.io`: may the usage in the status of a derived quota increase? (section 12.5 of
//! docs/compatibility.md)
//!
//! The increase is compared with what the ledger and the forest know ([`ledger`]). This module reads the request, and words the
//! answer.

use super::{Denial, DenialKind};
use crate::core::name::Name;
use crate::core::tree::Id;
use crate::core::version::Version;
use crate::dialects::Forest;
use crate::hnc::quota::ledger::{Excess, Increase, Known, Limits, Pending, State};
use crate::hnc::quota::{QuotaFact, Resources, full_name};

/// The identity of the API server's own requests. Its quota admission stores the usage of new objects.
pub const API_SERVER: &str = "system:apiserver";

/// A change of the status of a derived quota.
#[derive(Debug, Clone)]
pub struct Request {
    /// Its namespace.
    pub namespace: Name,
    /// The state that the request changes.
    pub version: Version,
    /// The annotation that names its sources.
    pub sources: Box<str>,
    /// `status.used` before.
    pub old: Resources,
    /// The same afterwards.
    pub new: Resources,
    /// The name of the user.
    pub user: String,
}

impl Request {
    /// The increase to decide on; `None` if nothing increases.
    pub fn increase(&self) -> Option<Increase> {
        let more = self.new.iter().filter_map(|(name, new)| {
            let amount = *new - self.old.get(name).copied().unwrap_or_default();
            (!amount.is_zero() && !amount.is_negative()).then(|| (name.clone(), amount))
        });
        let amounts: Resources = more.collect();
        (!amounts.is_empty()).then(|| Increase {
            namespace: self.namespace.clone(),
            version: self.version.clone(),
            amounts,
            sources: self.sources.clone(),
            is_recount: self.user != API_SERVER,
        })
    }
}

/// The denial of an increase. The text is HNC's.
pub fn exceeded(excess: &Excess) -> Denial {
    let amounts: Vec<String> = excess
        .amounts
        .iter()
        .map(|(name, [requested, used, limited])| {
            format!("requested: {name}={requested}, used: {name}={used}, limited: {name}={limited}")
        })
        .collect();
    let (at, quota) = &excess.quota;
    Denial::forbidden(format!(
        "exceeded hierarchical quota in namespace {at:?}: {quota:?}, {}",
        amounts.join(", ")
    ))
}

/// The denial of an increase that could not be decided in time.
pub fn undecided(namespace: &str, pending: Pending) -> Denial {
    let lasting = match pending {
        // The controller may not run, or the definition of the quotas was deleted.
        Pending::LimitsUnknown => "; if this lasts, `kubectl hns doctor` says what to do",
        _ => "",
    };
    Denial::unavailable(format!(
        "the hierarchical quota of namespace {namespace:?} could not be checked: {pending}; try again in a moment{lasting}"
    ))
}

/// The denial of an increase that the API server would not store.
pub fn outdated(namespace: &str) -> Denial {
    Denial::new(
        DenialKind::Conflict,
        format!("the usage of namespace {namespace:?} has changed in the meantime; try again"),
    )
}

impl Known for Forest {
    fn reported(&self) -> u64 {
        self.hnc().quotas().reported()
    }

    fn state(&self, namespace: &str) -> Option<State<'_>> {
        let quota = self.derived_quota(self.id(namespace)?)?;
        Some(State { uid: &quota.version.uid, version: quota.number() })
    }

    fn used(&self, namespace: &str) -> Option<&Resources> {
        self.counted_usage(self.id(namespace)?)
    }

    fn limits(&self, namespace: &str, sources: &str) -> Option<Vec<Limits<'_>>> {
        let id = self.id(namespace)?;
        let quotas = self.quotas_above(id);
        if *self.sources(&quotas) != *sources {
            return None;
        }
        Some(quotas.into_iter().map(|(at, quota)| limits_of(self, at, quota)).collect())
    }
}

impl Forest {
    /// The limits of a quota, with the namespaces that it limits at present.
    pub fn limits_of_quota(&self, namespace: &str, name: &str) -> Option<Limits<'_>> {
        let id = self.id(namespace)?;
        let quota = self.quotas_at(id).find(|it| *it.name == *name)?;
        Some(limits_of(self, id, quota))
    }
}

fn limits_of<'a>(forest: &'a Forest, at: Id, quota: &'a QuotaFact) -> Limits<'a> {
    let name = full_name(forest.name(at), &quota.name);
    let members = forest.hnc().quotas().members(&name).map(|it| &**forest.name(it)).collect();
    Limits { namespace: forest.name(at), name: &quota.name, hard: &quota.hard, members }
}
