//! May the usage of a namespace increase? The decision, and the ledger that makes it safe with any number of webhook replicas.
//!
//! The API server asks before it stores more usage in the status of a derived quota. It stores the new status only if the quota
//! still has the version that the question names. So at most one of the increases that are allowed at one version is stored. Each
//! allowed increase is a *reservation* at its version. It counts until the quota is seen at a later version: then it is stored, and
//! part of the usage, or it can never be stored.
//!
//! All reservations are in the ledger, one object that a replica replaces by compare-and-swap before it allows an increase. A
//! replica that makes a reservation raises the *floor* to its version, and one that drops an ended reservation to the version at
//! which it saw the quota. Another replica decides only when it knows everything up to the floor, so it knows each namespace with a
//! reservation, and the usage of which an ended one became part. Without the compare-and-swap, or without the floor, limits can be
//! exceeded (`tests/ledger_model.rs` explores all orders of events).
//!
//! The quota controller counts anew from time to time. A count that is higher than the usage is an increase too. It cannot be
//! refused, so it waits until no reservation is pending that it would push over a limit.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use super::Resources;
use crate::core::name::Name;
use crate::core::quantity::Quantity;
use crate::core::version::Version;

/// The most bytes of all reservations. An object of 1 MiB can be stored. An ordinary reservation has about 300 bytes, so there is
/// room for the changes that an API server stores in a few seconds.
pub const MOST_BYTES: usize = 512 * 1024;

/// A reservation with more bytes takes at most half of the room, so it does not hinder those of others.
const LARGE: usize = 2 * 1024;

/// The reservations of all replicas.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Ledger {
    /// A replica decides only if it knows all states of derived quotas up to this resource version.
    pub floor: u64,
    /// The allowed increases that may not be stored yet. One for each version of a quota.
    pub reservations: Vec<Reservation>,
}

/// Allowed increases of one derived quota at one version, of which at most one is stored.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Reservation {
    /// The namespace of the quota.
    pub namespace: Name,
    /// The uid of the quota.
    pub uid: Box<str>,
    /// The resource version at which the increases were allowed.
    pub version: u64,
    /// The greatest of the increases, for each resource.
    pub increase: Resources,
}

/// A request to store more usage.
#[derive(Debug, Clone)]
pub struct Increase {
    /// The namespace of the derived quota.
    pub namespace: Name,
    /// The state that the request changes.
    pub version: Version,
    /// The new usage minus the old one, where that is more than zero.
    pub amounts: Resources,
    /// The annotation of the quota that names its sources.
    pub sources: Box<str>,
    /// Whether this is a new count of what exists, not a new object.
    pub is_recount: bool,
}

/// What a replica knows.
pub trait Known {
    /// All states of derived quotas up to this resource version are known.
    fn reported(&self) -> u64;
    /// The derived quota of a namespace.
    fn state(&self, namespace: &str) -> Option<State<'_>>;
    /// What a namespace uses. Without a derived quota it may have objects that are not deleted yet.
    fn used(&self, namespace: &str) -> Option<&Resources>;
    /// The limits for a namespace, the root's first, or `None` if these are not the quotas that the derived quota names.
    fn limits(&self, namespace: &str, sources: &str) -> Option<Vec<Limits<'_>>>;
}

/// The known state of a derived quota.
#[derive(Debug, Clone, Copy)]
pub struct State<'a> {
    /// Its uid.
    pub uid: &'a str,
    /// Its resource version.
    pub version: u64,
}

/// The limits of one quota.
#[derive(Debug)]
pub struct Limits<'a> {
    /// The namespace of the quota.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// The limits.
    pub hard: &'a Resources,
    /// The namespaces that it limits.
    pub members: Vec<&'a str>,
}

/// The decision on an increase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It is allowed once the ledger, which contains it now, is stored.
    Allow,
    /// It exceeds these limits.
    Deny(Excess),
    /// It cannot be decided yet: the replica is behind, or other increases are pending.
    Wait(Pending),
    /// The quota has a later version, so the API server will not store this.
    Outdated,
}

/// The limits that an increase exceeds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excess {
    /// The namespace and the name of the quota.
    pub quota: (Name, Name),
    /// For each resource: the increase, the usage, the limit.
    pub amounts: BTreeMap<Box<str>, [Quantity; 3]>,
}

/// Why an increase waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Pending {
    /// This replica does not know the latest states of derived quotas.
    StatesUnknown,
    /// This replica does not know the quotas from which the derived quota was made, or knows other limits.
    LimitsUnknown,
    /// Other increases that were allowed are not stored yet, and may leave no room.
    OthersPending,
    /// The ledger is full.
    Full,
}

/// A clause.
impl fmt::Display for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::StatesUnknown => "this replica does not know the present usage yet",
            Self::LimitsUnknown => "the derived quota does not have the present limits yet",
            Self::OthersPending => "other increases are being stored, and may leave no room",
            Self::Full => "too many increases are being stored at once",
        })
    }
}

/// The usage of one namespace, and its pending increases.
struct Member<'a> {
    namespace: &'a str,
    used: &'a Resources,
    pending: Option<&'a Resources>,
}

impl Ledger {
    /// Decides on an increase. If it is allowed, the ledger contains it afterwards.
    pub fn decide(&mut self, known: &impl Known, request: &Increase) -> Decision {
        if known.reported() < self.floor {
            return Decision::Wait(Pending::StatesUnknown);
        }
        self.drop_ended(known);
        let version = request.version.resource_version.parse().unwrap_or_default();
        match known.state(&request.namespace) {
            Some(state) if *state.uid == *request.version.uid && state.version == version => {}
            Some(state) if state.version > version => return Decision::Outdated,
            _ => return Decision::Wait(Pending::StatesUnknown),
        }
        let Some(limits) = known.limits(&request.namespace, &request.sources) else {
            return Decision::Wait(Pending::LimitsUnknown);
        };
        let is_limited = |name: &str| limits.iter().any(|it| it.hard.contains_key(name));
        let limited = request.amounts.iter().filter(|(name, _)| is_limited(name));
        let amounts: Resources = limited.map(|(name, amount)| (name.clone(), *amount)).collect();
        if amounts.is_empty() {
            return Decision::Allow;
        }
        let pending = self.pending();
        for limits in &limits {
            match check(known, &pending, request, limits) {
                Decision::Allow => {}
                decision => return decision,
            }
        }
        self.reserve(request, version, amounts)
    }

    /// Before the controller reports that the limits of a quota are enforced: raises the floor, so that a replica that decides from
    /// now on knows all members and their usage. The report must wait for increases that were allowed before by replicas that did
    /// not know that, unless there is room for them.
    ///
    /// # Errors
    /// The report must wait.
    pub fn enforce(&mut self, known: &impl Known, limits: &Limits<'_>) -> Result<(), Pending> {
        if known.reported() < self.floor {
            return Err(Pending::StatesUnknown);
        }
        self.drop_ended(known);
        let members = members(known, &self.pending(), limits);
        for (name, limit) in limits.hard {
            let used: Quantity = members.iter().map(|it| amount(it.used, name)).sum();
            let pending: Quantity = members.iter().filter_map(|it| Some(amount(it.pending?, name))).sum();
            if !pending.is_zero() && used + pending > *limit {
                return Err(Pending::OthersPending);
            }
        }
        let versions = limits.members.iter().filter_map(|it| Some(known.state(it)?.version));
        self.floor = versions.max().unwrap_or_default().max(self.floor);
        Ok(())
    }

    /// Drops the reservations whose quotas were seen at a later version, or deleted.
    fn drop_ended(&mut self, known: &impl Known) {
        let mut floor = self.floor;
        self.reservations.retain(|it| match known.state(&it.namespace) {
            Some(state) if *state.uid == *it.uid => {
                let has_ended = state.version > it.version;
                if has_ended {
                    floor = floor.max(state.version);
                }
                !has_ended
            }
            // It was deleted: everything up to the version of the reservation is known.
            _ => false,
        });
        self.floor = floor;
    }

    fn reserve(&mut self, request: &Increase, version: u64, amounts: Resources) -> Decision {
        let known = self.reservations.iter().position(|it| it.namespace == request.namespace);
        let mut new = known.map_or_else(
            || Reservation {
                namespace: request.namespace.clone(),
                uid: request.version.uid.clone(),
                version,
                increase: Resources::new(),
            },
            |at| self.reservations[at].clone(),
        );
        for (name, amount) in amounts {
            let greatest = new.increase.entry(name).or_default();
            *greatest = (*greatest).max(amount);
        }
        if !self.has_room(&new) {
            return Decision::Wait(Pending::Full);
        }
        // A replica that has not seen this state may not know the namespace as one of those that are limited.
        self.floor = self.floor.max(version);
        match known {
            Some(at) => self.reservations[at] = new,
            None => self.reservations.push(new),
        }
        Decision::Allow
    }

    fn has_room(&self, new: &Reservation) -> bool {
        let others = self.reservations.iter().filter(|it| it.namespace != new.namespace);
        let most = if new.bytes() > LARGE { MOST_BYTES / 2 } else { MOST_BYTES };
        others.map(Reservation::bytes).sum::<usize>() + new.bytes() <= most
    }

    /// The pending increases, by namespace.
    fn pending(&self) -> HashMap<&str, &Resources> {
        self.reservations.iter().map(|it| (&*it.namespace, &it.increase)).collect()
    }
}

impl Reservation {
    /// About the bytes that it needs in the object: a name or a number is between other characters.
    fn bytes(&self) -> usize {
        let increase: usize = self.increase.keys().map(|name| name.len() + 32).sum();
        self.namespace.len() + self.uid.len() + 96 + increase
    }
}

fn check(
    known: &impl Known,
    pending: &HashMap<&str, &Resources>,
    request: &Increase,
    limits: &Limits<'_>,
) -> Decision {
    let limited =
        request.amounts.iter().filter_map(|(name, amount)| Some((name, *amount, *limits.hard.get(name)?)));
    let limited: Vec<_> = limited.collect();
    if limited.is_empty() {
        return Decision::Allow;
    }
    let members = members(known, pending, limits);
    let (mut excess, mut waits) = (BTreeMap::new(), false);
    for (name, increase, limit) in limited {
        let (mut used, mut others, mut mine) =
            (Quantity::default(), Quantity::default(), Quantity::default());
        for member in &members {
            used = used + amount(member.used, name);
            let pending = member.pending.map(|it| amount(it, name)).unwrap_or_default();
            if *member.namespace == *request.namespace {
                mine = pending;
            } else {
                others = others + pending;
            }
        }
        if used + others + increase.max(mine) <= limit {
            continue;
        }
        if request.is_recount {
            waits |= !others.is_zero();
        } else if used + increase > limit {
            excess.insert(name.clone(), [increase, used, limit]);
        } else {
            waits = true;
        }
    }
    if !excess.is_empty() {
        let quota = (limits.namespace.into(), limits.name.into());
        return Decision::Deny(Excess { quota, amounts: excess });
    }
    if waits { Decision::Wait(Pending::OthersPending) } else { Decision::Allow }
}

/// The usage of the namespaces, with their pending increases.
fn members<'a>(
    known: &'a impl Known,
    pending: &HashMap<&str, &'a Resources>,
    limits: &Limits<'a>,
) -> Vec<Member<'a>> {
    let member = |namespace: &&'a str| {
        let used = known.used(namespace)?;
        Some(Member { namespace, used, pending: pending.get(namespace).copied() })
    };
    limits.members.iter().filter_map(member).collect()
}

fn amount(of: &Resources, name: &str) -> Quantity {
    of.get(name).copied().unwrap_or_default()
}
