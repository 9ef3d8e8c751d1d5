//! The real decision, from what the model keeps.

use forest::Name;
use forest::Version;
use forest::hnc::quota::Resources;
use forest::hnc::quota::ledger::{Decision, Increase, Known, Ledger, Limits, Reservation, State};

use crate::system::{At, LIMIT, Quota, Request, Revision, View};

const NAMES: [&str; 2] = ["first", "second"];

/// The value of the annotation by which derived quotas name the quota.
fn sources(is_limited: bool) -> &'static str {
    if is_limited { "top/all@0" } else { "" }
}

/// A ledger as the model keeps it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Kept {
    pub(crate) floor: Revision,
    pub(crate) reserved: Vec<Reserved>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Reserved {
    pub(crate) at: At,
    pub(crate) life: u8,
    pub(crate) version: Revision,
    pub(crate) amount: u8,
}

impl Kept {
    pub(crate) fn each_version(&mut self, visit: &mut impl FnMut(&mut Revision)) {
        visit(&mut self.floor);
        self.reserved.iter_mut().for_each(|it| visit(&mut it.version));
    }
}

impl From<&Kept> for Ledger {
    fn from(kept: &Kept) -> Self {
        let reservation = |it: &Reserved| Reservation {
            namespace: NAMES[it.at].into(),
            uid: uid(it.life),
            version: it.version.into(),
            increase: pods(it.amount),
        };
        Self { floor: kept.floor.into(), reservations: kept.reserved.iter().map(reservation).collect() }
    }
}

impl From<&Ledger> for Kept {
    fn from(ledger: &Ledger) -> Self {
        let number = |number: u64| Revision::try_from(number).expect("the versions are few");
        let reserved = |it: &Reservation| Reserved {
            at: at(&it.namespace),
            life: it.uid.parse().expect("it is a number"),
            version: number(it.version),
            amount: it.increase["pods"].to_string().parse().expect("it is a number"),
        };
        Self { floor: number(ledger.floor), reserved: ledger.reservations.iter().map(reserved).collect() }
    }
}

fn at(namespace: &str) -> At {
    NAMES.iter().position(|it| *it == namespace).expect("there are no others")
}

fn uid(life: u8) -> Box<str> {
    life.to_string().into()
}

fn pods(amount: u8) -> Resources {
    [("pods".into(), amount.to_string().parse().expect("a number is a quantity"))].into()
}

/// What a replica knows, as the ledger asks for it.
struct Knowledge {
    reported: u64,
    quotas: [Option<(Box<str>, u64, Resources)>; 2],
    /// The namespaces whose derived quota names the quota.
    members: Vec<&'static str>,
    hard: Resources,
}

impl Known for Knowledge {
    fn reported(&self) -> u64 {
        self.reported
    }

    fn state(&self, namespace: &str) -> Option<State<'_>> {
        let (uid, version, _) = self.quotas[at(namespace)].as_ref()?;
        Some(State { uid, version: *version })
    }

    fn used(&self, namespace: &str) -> Option<&Resources> {
        self.quotas[at(namespace)].as_ref().map(|(_, _, used)| used)
    }

    fn limits(&self, _: &str, named: &str) -> Option<Vec<Limits<'_>>> {
        // What a replica knows of the tree need not be what the controller knew.
        Some(if named == sources(true) { vec![self.quota()] } else { Vec::new() })
    }
}

impl Knowledge {
    fn of(view: &View) -> Self {
        let quota = |quota: &Quota| (uid(quota.life), quota.version.into(), pods(quota.used));
        let is_member = |at: &At| view.quotas[*at].is_some_and(|it| it.is_limited);
        Self {
            reported: view.reported.into(),
            quotas: [0, 1].map(|at| view.quotas[at].as_ref().map(quota)),
            members: [0, 1].into_iter().filter(is_member).map(|at| NAMES[at]).collect(),
            hard: pods(LIMIT),
        }
    }

    fn quota(&self) -> Limits<'_> {
        Limits { namespace: "top", name: "all", hard: &self.hard, members: self.members.clone() }
    }
}

/// Decides with the ledger. A replica that ignores the floor claims to know everything.
pub(crate) fn decide(kept: &mut Kept, view: &View, ignores_floor: bool, request: &Request) -> Decision {
    let mut known = Knowledge::of(view);
    if ignores_floor {
        known.reported = u64::MAX;
    }
    let increase = Increase {
        namespace: Name::from(NAMES[request.at]),
        version: Version { uid: uid(request.life), resource_version: request.version.to_string().into() },
        amounts: pods(request.amount),
        sources: sources(request.is_limited).into(),
        is_recount: request.is_recount,
    };
    let mut ledger = Ledger::from(&*kept);
    let decision = ledger.decide(&known, &increase);
    *kept = Kept::from(&ledger);
    decision
}

/// What the ledger must be before the limits are reported as enforced, if that may be.
pub(crate) fn enforce(kept: &Kept, view: &View) -> Option<Kept> {
    let known = Knowledge::of(view);
    let mut ledger = Ledger::from(kept);
    ledger.enforce(&known, &known.quota()).ok()?;
    Some(Kept::from(&ledger))
}
