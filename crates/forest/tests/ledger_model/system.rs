//! Two namespaces below a quota, two replicas of the webhook, the API server, the quota controller, and the controller.

use std::collections::BTreeSet;

use forest::hnc::quota::ledger::{Decision, Pending};
use stateright::{Model, Property};

use crate::decide::{self, Kept};
use crate::explore::{BLOCKED, BOTH, EXCEEDED, USED_UP};

/// The limit on the sum of both namespaces.
pub(crate) const LIMIT: u8 = 2;

/// A namespace, or a replica: the first or the second.
pub(crate) type At = usize;

/// A resource version. Only the order counts, so states are compared with the versions numbered anew.
pub(crate) type Revision = u8;

/// The derived quota of a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Quota {
    /// Its uid: the how manieth of its name it is.
    pub(crate) life: u8,
    pub(crate) version: Revision,
    pub(crate) used: u8,
    /// Whether it names the quota.
    pub(crate) is_limited: bool,
}

/// What a replica knows of the derived quotas.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct View {
    /// Everything up to this version.
    pub(crate) reported: Revision,
    pub(crate) quotas: [Option<Quota>; 2],
}

/// A change of a derived quota, or its deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Event {
    version: Revision,
    at: At,
    now: Option<Quota>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Replica {
    view: View,
    /// What its watch has not told yet.
    unseen: Vec<Event>,
    /// Its copy of the ledger, and whether that is the latest version.
    ledger: Option<(Kept, bool)>,
}

/// A request to store more usage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Request {
    pub(crate) at: At,
    pub(crate) life: u8,
    pub(crate) version: Revision,
    pub(crate) amount: u8,
    pub(crate) is_recount: bool,
    pub(crate) is_limited: bool,
}

/// How far a request is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Progress {
    /// The replica has it.
    Asked(At),
    /// It is allowed, and the replica is about to replace the ledger by this one; and whether the ledger is still what the decision
    /// was made with.
    Decided(At, Kept, bool),
    /// The same, but the replica has crashed since it sent this write.
    Orphaned(Kept, bool),
    /// It is allowed, and the API server will hear of it, or not.
    Allowed,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Task {
    request: Request,
    progress: Progress,
}

/// How often each of these may still happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Budget {
    pub(crate) requests: u8,
    pub(crate) raising_recounts: u8,
    pub(crate) lowering_recounts: u8,
    pub(crate) touches: u8,
    pub(crate) crashes: u8,
    pub(crate) deletions: u8,
}

/// What is broken, to show that the model finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// A replica decides although it does not know everything up to the floor.
    FloorIgnored,
    /// The ledger is written without a comparison.
    PlainWrite,
    /// Reservations are dropped after some time.
    ReservationsExpire,
    /// The limits are reported as enforced although increases are pending.
    PendingIgnored,
}

pub(crate) struct System {
    pub(crate) fault: Fault,
    pub(crate) budget: Budget,
    /// The most that a request adds.
    pub(crate) most: u8,
    /// The usage of the second namespace, if it is limited only later.
    pub(crate) joins_with: Option<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct State {
    now: Revision,
    quotas: [Option<Quota>; 2],
    lives: [u8; 2],
    replicas: [Replica; 2],
    ledger: Kept,
    tasks: Vec<Task>,
    left: Budget,
    /// Whether the limits are reported as enforced.
    enforced: bool,
    /// An update of the API server has taken the sum over the limit, although it is reported as enforced.
    pub(crate) exceeded: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Action {
    /// The API server asks a replica to allow more usage.
    Ask {
        at: At,
        replica: At,
        amount: u8,
    },
    /// So does the quota controller, which has counted more than the quota shows.
    AskRecount {
        at: At,
        replica: At,
    },
    /// The quota controller has counted less.
    Lower(At),
    /// The controller changes a quota.
    Touch(At),
    Delete(At),
    Create(At),
    /// The watch of a replica tells of a change.
    Tell(At),
    ReadLedger(At),
    /// The replica decides.
    Decide(Task),
    /// The replica replaces the ledger, and answers if that succeeds.
    WriteLedger(Task),
    /// The API server, or the quota controller, stores what was allowed.
    Store(Request),
    Crash(At),
    /// The controller makes the quota limit the namespace.
    Limit(At),
    /// The controller, which knows what a replica knows, reports that the limits are enforced.
    Enforce(At),
    /// A reservation is dropped from the ledger.
    Expire(usize),
}

impl Model for System {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let quota = Quota { life: 1, version: 1, used: 0, is_limited: true };
        let other = self.joins_with.map_or(quota, |used| Quota { used, is_limited: false, ..quota });
        let quotas = [Some(quota), Some(other)];
        let replica = Replica { view: View { reported: 1, quotas }, unseen: Vec::new(), ledger: None };
        vec![State {
            now: 1,
            quotas,
            lives: [1, 1],
            replicas: [replica.clone(), replica],
            ledger: Kept::default(),
            tasks: Vec::new(),
            left: self.budget,
            enforced: self.joins_with.is_none(),
            exceeded: false,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.exceeded {
            return;
        }
        for at in [0, 1] {
            self.changes_of(state, at, actions);
            let replica = &state.replicas[at];
            if !replica.unseen.is_empty() {
                actions.push(Action::Tell(at));
            }
            let is_asked = state.tasks.iter().any(|task| task.progress == Progress::Asked(at));
            if is_asked && replica.ledger.as_ref().is_none_or(|(_, is_latest)| !is_latest) {
                actions.push(Action::ReadLedger(at));
            }
            let is_fresh = replica.unseen.is_empty() && replica.ledger.is_none();
            if state.left.crashes > 0 && !is_fresh {
                actions.push(Action::Crash(at));
            }
            if !state.enforced {
                actions.push(Action::Enforce(at));
            }
        }
        for task in &state.tasks {
            actions.push(match task.progress {
                Progress::Asked(_) => Action::Decide(task.clone()),
                Progress::Decided(..) | Progress::Orphaned(..) => Action::WriteLedger(task.clone()),
                Progress::Allowed => Action::Store(task.request),
            });
        }
        if self.fault == Fault::ReservationsExpire {
            actions.extend((0..state.ledger.reserved.len()).map(Action::Expire));
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        self.act(&mut next, action)?;
        next.normalize();
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(EXCEEDED, |_, state: &State| !state.exceeded),
            Property::always(BLOCKED, |system: &Self, state: &State| {
                system.fault != Fault::None || [0, 1].iter().all(|replica| state.decides(*replica))
            }),
            Property::sometimes(USED_UP, |_, state: &State| state.used() == LIMIT),
            Property::sometimes(BOTH, |_, state: &State| {
                let allow = |it: At| {
                    state
                        .tasks
                        .iter()
                        .any(|task| matches!(task.progress, Progress::Decided(by, ..) if by == it))
                };
                allow(0) && allow(1)
            }),
        ]
    }
}

impl System {
    /// What may happen to the quota of a namespace.
    fn changes_of(&self, state: &State, at: At, actions: &mut Vec<Action>) {
        let left = &state.left;
        let Some(quota) = state.quotas[at] else { return actions.push(Action::Create(at)) };
        // The namespaces are alike at first, and so are the replicas: the first request is about the first one, and goes to the
        // first one.
        let is_first = left.requests == self.budget.requests && self.joins_with.is_none();
        for replica in [0, 1] {
            if left.requests > 0 && (!is_first || (at, replica) == (0, 0)) {
                actions.extend((1..=self.most).map(|amount| Action::Ask { at, replica, amount }));
            }
            if left.raising_recounts > 0 {
                actions.push(Action::AskRecount { at, replica });
            }
        }
        if left.lowering_recounts > 0 && quota.used > 0 {
            actions.push(Action::Lower(at));
        }
        if left.touches > 0 {
            actions.push(Action::Touch(at));
        }
        if left.deletions > 0 {
            actions.push(Action::Delete(at));
        }
        if !quota.is_limited {
            actions.push(Action::Limit(at));
        }
    }

    fn act(&self, state: &mut State, action: Action) -> Option<()> {
        match action {
            Action::Ask { at, replica, amount } => {
                state.left.requests -= 1;
                state.ask(at, replica, amount, false)?;
            }
            Action::AskRecount { at, replica } => {
                state.left.raising_recounts -= 1;
                state.ask(at, replica, 1, true)?;
            }
            Action::Lower(at) => {
                state.left.lowering_recounts -= 1;
                state.change(at, |quota| quota.used -= 1);
            }
            Action::Touch(at) => {
                state.left.touches -= 1;
                state.change(at, |_| ());
            }
            Action::Delete(at) => {
                state.left.deletions -= 1;
                state.put(at, None);
            }
            Action::Create(at) => {
                state.lives[at] += 1;
                let version = state.now + 1;
                state.put(at, Some(Quota { life: state.lives[at], version, used: 0, is_limited: true }));
            }
            Action::Tell(at) => {
                let replica = &mut state.replicas[at];
                let Event { version, at, now } = replica.unseen.remove(0);
                replica.view.reported = version;
                replica.view.quotas[at] = now;
            }
            Action::ReadLedger(at) => state.replicas[at].ledger = Some((state.ledger.clone(), true)),
            Action::Decide(task) => return self.decide(state, &task),
            Action::WriteLedger(task) => self.write_ledger(state, task),
            Action::Store(request) => state.store(request),
            Action::Crash(at) => {
                state.left.crashes -= 1;
                state.crash(at);
            }
            Action::Limit(at) => state.change(at, |quota| quota.is_limited = true),
            Action::Enforce(at) => return self.enforce(state, at),
            Action::Expire(at) => {
                let mut ledger = state.ledger.clone();
                ledger.reserved.remove(at);
                state.replace_ledger(ledger);
            }
        }
        Some(())
    }

    fn decide(&self, state: &mut State, task: &Task) -> Option<()> {
        let Progress::Asked(by) = task.progress else { return None };
        let replica = &state.replicas[by];
        let (ledger, is_latest) = replica.ledger.as_ref()?;
        let mut new = ledger.clone();
        let ignores_floor = self.fault == Fault::FloorIgnored;
        let progress = match decide::decide(&mut new, &replica.view, ignores_floor, &task.request) {
            Decision::Wait(_) => return None,
            Decision::Deny(_) | Decision::Outdated => None,
            // What the known ledger contains already is not written again.
            Decision::Allow if new.reserved == ledger.reserved => Some(Progress::Allowed),
            Decision::Allow => Some(Progress::Decided(by, new, *is_latest)),
        };
        state.forget(task);
        state.tasks.extend(progress.map(|progress| Task { progress, ..task.clone() }));
        Some(())
    }

    /// Reads the ledger and replaces it, and then reports.
    fn enforce(&self, state: &mut State, by: At) -> Option<()> {
        let view = &state.replicas[by].view;
        if !view.quotas.iter().flatten().all(|quota| quota.is_limited) {
            return None;
        }
        let ledger = if self.fault == Fault::PendingIgnored {
            let newest = view.quotas.iter().flatten().map(|quota| quota.version).max()?;
            Kept { floor: newest.max(state.ledger.floor), ..state.ledger.clone() }
        } else {
            decide::enforce(&state.ledger, view)?
        };
        if ledger != state.ledger {
            state.replace_ledger(ledger);
        }
        state.enforced = true;
        Some(())
    }

    fn write_ledger(&self, state: &mut State, task: Task) {
        state.forget(&task);
        let (by, ledger, is_latest) = match task.progress {
            Progress::Decided(by, ledger, is_latest) => (Some(by), ledger, is_latest),
            Progress::Orphaned(ledger, is_latest) => (None, ledger, is_latest),
            Progress::Asked(_) | Progress::Allowed => return,
        };
        let succeeds = is_latest || self.fault == Fault::PlainWrite;
        if succeeds {
            state.replace_ledger(ledger);
        }
        let Some(by) = by else { return };
        state.replicas[by].ledger = Some((state.ledger.clone(), true));
        let progress = if succeeds { Progress::Allowed } else { Progress::Asked(by) };
        state.tasks.push(Task { progress, ..task });
    }
}

impl State {
    /// The sum of the usages that are stored and limited.
    fn used(&self) -> u8 {
        self.quotas.iter().flatten().filter(|quota| quota.is_limited).map(|quota| quota.used).sum()
    }

    fn put(&mut self, at: At, now: Option<Quota>) {
        self.now += 1;
        self.quotas[at] = now;
        let event = Event { version: self.now, at, now };
        self.replicas.iter_mut().for_each(|replica| replica.unseen.push(event));
    }

    fn change(&mut self, at: At, change: impl FnOnce(&mut Quota)) {
        if let Some(mut quota) = self.quotas[at] {
            change(&mut quota);
            quota.version = self.now + 1;
            self.put(at, Some(quota));
        }
    }

    fn ask(&mut self, at: At, replica: At, amount: u8, is_recount: bool) -> Option<()> {
        let Quota { life, version, is_limited, .. } = self.quotas[at]?;
        let request = Request { at, life, version, amount, is_recount, is_limited };
        let task = Task { request, progress: Progress::Asked(replica) };
        if self.tasks.contains(&task) {
            return None;
        }
        self.tasks.push(task);
        Some(())
    }

    fn forget(&mut self, task: &Task) {
        let at = self.tasks.iter().position(|it| it == task);
        at.map(|at| self.tasks.remove(at));
    }

    /// Every copy of the ledger is older then.
    fn replace_ledger(&mut self, ledger: Kept) {
        self.ledger = ledger;
        self.replicas.iter_mut().filter_map(|it| it.ledger.as_mut()).for_each(|it| it.1 = false);
        for task in &mut self.tasks {
            if let Progress::Decided(_, _, is_latest) | Progress::Orphaned(_, is_latest) = &mut task.progress
            {
                *is_latest = false;
            }
        }
    }

    /// The API server stores an update only if the quota has the version that it is about.
    fn store(&mut self, request: Request) {
        self.forget(&Task { request, progress: Progress::Allowed });
        if self.quotas[request.at].is_some_and(|quota| quota.version == request.version) {
            self.change(request.at, |quota| quota.used += request.amount);
            let counts = self.enforced && !request.is_recount;
            self.exceeded = counts && self.used() > LIMIT;
        }
    }

    /// The replica starts again, and lists the quotas. A write that it has sent may still arrive.
    fn crash(&mut self, at: At) {
        let view = View { reported: self.now, quotas: self.quotas };
        self.replicas[at] = Replica { view, unseen: Vec::new(), ledger: None };
        self.tasks.retain(|task| task.progress != Progress::Asked(at));
        for task in &mut self.tasks {
            if let Progress::Decided(by, ledger, is_latest) = &task.progress
                && *by == at
            {
                task.progress = Progress::Orphaned(ledger.clone(), *is_latest);
            }
        }
    }

    /// Forgets what can have no effect any more, and numbers the versions anew.
    fn normalize(&mut self) {
        let quotas = self.quotas;
        self.tasks.retain(|task| match &task.progress {
            Progress::Allowed => quotas[task.request.at].is_some_and(|it| it.version == task.request.version),
            Progress::Orphaned(_, is_latest) => *is_latest,
            Progress::Asked(_) | Progress::Decided(..) => true,
        });
        let mut versions = BTreeSet::new();
        self.each_version(&mut |version| {
            versions.insert(*version);
        });
        versions.remove(&0);
        let mut numbers = [0; 256];
        for (number, version) in (1..).zip(versions) {
            numbers[usize::from(version)] = number;
        }
        self.each_version(&mut |version| *version = numbers[usize::from(*version)]);
        self.tasks.sort();
        self.tasks.dedup();
    }

    fn each_version(&mut self, visit: &mut impl FnMut(&mut Revision)) {
        visit(&mut self.now);
        self.quotas.iter_mut().flatten().for_each(|quota| visit(&mut quota.version));
        self.ledger.each_version(visit);
        for replica in &mut self.replicas {
            visit(&mut replica.view.reported);
            replica.view.quotas.iter_mut().flatten().for_each(|quota| visit(&mut quota.version));
            for event in &mut replica.unseen {
                visit(&mut event.version);
                event.now.iter_mut().for_each(|quota| visit(&mut quota.version));
            }
            replica.ledger.iter_mut().for_each(|(ledger, _)| ledger.each_version(visit));
        }
        for task in &mut self.tasks {
            visit(&mut task.request.version);
            if let Progress::Decided(_, ledger, _) | Progress::Orphaned(ledger, _) = &mut task.progress {
                ledger.each_version(visit);
            }
        }
    }

    /// Whether this replica, if it knows everything, decides rightly, or waits for an increase that may still be stored.
    fn decides(&self, replica: At) -> bool {
        let Replica { view, unseen, ledger: Some((ledger, true)) } = &self.replicas[replica] else {
            return true;
        };
        let decides_on = |at: At| {
            let Some(Quota { life, version, is_limited, .. }) = self.quotas[at] else { return true };
            let request = Request { at, life, version, amount: 1, is_recount: false, is_limited };
            match decide::decide(&mut ledger.clone(), view, false, &request) {
                Decision::Allow => true,
                Decision::Deny(_) => self.used() + 1 > LIMIT,
                Decision::Wait(Pending::OthersPending) => {
                    let other = self.quotas[1 - at].map(|it| it.version);
                    ledger.reserved.iter().any(|it| Some(it.version) == other)
                }
                Decision::Wait(_) | Decision::Outdated => false,
            }
        };
        !unseen.is_empty() || (decides_on(0) && decides_on(1))
    }
}
