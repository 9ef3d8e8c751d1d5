//! The real decision, from what the model keeps.

use forest::Name;
use forest::Version;
use forest::hnc::quota::Resources;
use forest::hnc::quota::ledger::{Decision, Increase, Known, Ledger, Limits, Reservation, State};

use crate::system::{At, LIMIT, Quota, Request, Revision, View};

const NAMES: [&str; 2] = ["first", "second"];

/// The value of the annotation by which derived quotas name the quota.
const SOURCES: &str = "top/all@0";

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
    hard: Resources,
}

impl Known for Knowledge {
    fn reported(&self) -> u64 {
        self.reported
    }

    fn state(&self, namespace: &str) -> Option<State<'_>> {
        let (uid, version, used) = self.quotas[at(namespace)].as_ref()?;
        Some(State { uid, version: *version, used })
    }

    fn limits(&self, _: &str, sources: &str) -> Option<Vec<Limits<'_>>> {
        assert_eq!(sources, SOURCES);
        let members = NAMES.into_iter().filter(|it| self.quotas[at(it)].is_some()).collect();
        Some(vec![Limits { namespace: "top", name: "all", hard: &self.hard, members }])
    }
}

/// Decides with the ledger. A replica that ignores the floor claims to know everything.
pub(crate) fn decide(kept: &mut Kept, view: &View, ignores_floor: bool, request: &Request) -> Decision {
    let quota = |quota: &Quota| (uid(quota.life), quota.version.into(), pods(quota.used));
    let known = Knowledge {
        reported: if ignores_floor { u64::MAX } else { view.reported.into() },
        quotas: [0, 1].map(|at| view.quotas[at].as_ref().map(quota)),
        hard: pods(LIMIT),
    };
    let increase = Increase {
        namespace: Name::from(NAMES[request.at]),
        version: Version { uid: uid(request.life), resource_version: request.version.to_string().into() },
        amounts: pods(request.amount),
        sources: SOURCES.into(),
        is_recount: request.is_recount,
    };
    let mut ledger = Ledger::from(&*kept);
    let decision = ledger.decide(&known, &increase);
    *kept = Kept::from(&ledger);
    decision
}
