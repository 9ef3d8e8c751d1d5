//! The slots of connections, and which connection is closed for a new one when all slots are taken.
//!
//! An address may have as many connections as are free. When all slots are taken, a new client gets the slot of an address that has
//! at least as many as its own: of the connection that has been idle the longest. If none is idle, of one that has been busy for
//! longer than a review takes, or that belongs to an address with more than twice as many. So one address with many connections
//! does not keep another one out. Closes nothing itself.

use std::{
    cmp::Reverse,
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Weak},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};

use super::{Limits, activity::Activity};

/// How long a connection may be busy while others wait for a slot. By default the API server waits no longer for a response.
const BUSY: Duration = Duration::from_secs(5);

/// How long an idle connection may take to close when another one needs the slot. A request that has just arrived is answered in
/// that time.
const CLOSING: Duration = Duration::from_millis(100);

/// All slots of a server.
#[derive(Debug)]
pub(super) struct Slots {
    state: Mutex<State>,
    /// Notified when a connection becomes idle.
    idle: Arc<Notify>,
    limits: Limits,
}

#[derive(Debug, Default)]
struct State {
    taken: HashMap<u64, Taken>,
    next: u64,
    /// Connections that have lost their slot and are not closed yet.
    closing: usize,
}

#[derive(Debug)]
struct Taken {
    address: IpAddr,
    activity: Arc<Activity>,
}

/// A slot, free again when dropped.
#[derive(Debug)]
pub(super) struct Slot {
    slots: Weak<Slots>,
    id: u64,
}

impl Slots {
    pub(super) fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), idle: Arc::default(), limits })
    }

    /// Waits until a connection has become idle.
    pub(super) async fn idle(&self) {
        self.idle.notified().await;
    }

    /// Takes a slot for a connection from this address. If none is free, another connection loses its slot and is requested to
    /// close.
    ///
    /// # Errors
    /// No connection may be closed for this address yet: when to try again, unless one becomes idle or ends before.
    pub(super) fn take(self: &Arc<Self>, address: IpAddr) -> Result<(Slot, Arc<Activity>), Instant> {
        let mut state = self.state.lock();
        if state.taken.len() >= self.limits.connections {
            let id = to_close(&state.taken, address, Instant::now())?;
            if let Some(closed) = state.taken.remove(&id) {
                // Connections without a slot are no more than those with one.
                let has_time = state.closing < self.limits.connections;
                closed.activity.request_close(if has_time { CLOSING } else { Duration::ZERO });
                state.closing += 1;
            }
        }
        let activity = Activity::new(self.limits, self.idle.clone());
        let id = state.next;
        state.next += 1;
        state.taken.insert(id, Taken { address, activity: activity.clone() });
        Ok((Slot { slots: Arc::downgrade(self), id }, activity))
    }
}

/// Which of these connections is closed for one from this address, or when one may be.
fn to_close(taken: &HashMap<u64, Taken>, address: IpAddr, now: Instant) -> Result<u64, Instant> {
    let mut connections: HashMap<IpAddr, usize> = HashMap::from([(address, 1)]);
    for it in taken.values() {
        *connections.entry(it.address).or_default() += 1;
    }
    let of = |address| connections.get(&address).copied().unwrap_or_default();
    let new = of(address);
    let candidates = || taken.iter().filter(|(_, it)| of(it.address) >= new);
    let may_close =
        |it: &Taken| it.activity.is_idle() || of(it.address) > 2 * new || it.activity.since() + BUSY <= now;
    let chosen = candidates()
        .filter(|(_, it)| may_close(it))
        .max_by_key(|(_, it)| (it.activity.is_idle(), of(it.address), Reverse(it.activity.since())));
    let first = || candidates().map(|(_, it)| it.activity.since() + BUSY).min();
    chosen.map(|(id, _)| *id).ok_or_else(|| first().unwrap_or(now + BUSY))
}

impl Drop for Slot {
    fn drop(&mut self) {
        let Some(slots) = self.slots.upgrade() else { return };
        let mut state = slots.state.lock();
        if state.taken.remove(&self.id).is_none() {
            state.closing -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn address(last: u8) -> IpAddr {
        Ipv4Addr::new(10, 0, 0, last).into()
    }

    fn slots(connections: usize) -> Arc<Slots> {
        Slots::new(Limits { connections, ..Limits::WEBHOOK })
    }

    /// Takes slots for these addresses, one a second.
    async fn taken(slots: &Arc<Slots>, addresses: &[u8]) -> Vec<(Slot, Arc<Activity>)> {
        let mut all = Vec::new();
        for last in addresses {
            all.push(slots.take(address(*last)).expect("a slot"));
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        all
    }

    /// Which of them are requested to close.
    fn closing(all: &[(Slot, Arc<Activity>)]) -> Vec<usize> {
        (0..all.len()).filter(|at| all[*at].1.time_to_close().is_some()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_idle_is_closed() {
        let slots = slots(4);
        let mut all = taken(&slots, &[1, 1, 1, 1]).await;
        // The first has had a request meanwhile.
        drop(all[0].1.begin());
        all.extend(taken(&slots, &[1]).await);
        assert_eq!(closing(&all), [1]);
        all.extend(taken(&slots, &[2]).await);
        assert_eq!(closing(&all), [1, 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_address_with_most_connections_loses_one() {
        let slots = slots(4);
        let mut all = taken(&slots, &[7, 1, 1, 8]).await;
        all.extend(taken(&slots, &[1]).await);
        assert_eq!(closing(&all), [1]);
        all.extend(taken(&slots, &[8]).await);
        assert_eq!(closing(&all), [1, 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_busy_connection_is_closed_last_and_not_at_once() {
        let slots = slots(3);
        let mut all = taken(&slots, &[1, 1, 1]).await;
        let _requests: Vec<_> = all.iter().map(|(_, activity)| activity.begin()).collect();
        let begun = Instant::now();
        assert_eq!(slots.take(address(1)).map(drop), Err(begun + BUSY), "then one may be closed");
        assert_eq!(closing(&all), [0; 0]);
        tokio::time::advance(BUSY).await;
        all.extend(taken(&slots, &[1]).await);
        assert_eq!(closing(&all).len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_of_which_all_are_busy_takes_no_slot_of_another_and_gives_one() {
        let slots = slots(4);
        let mut all = taken(&slots, &[1, 1, 1, 2]).await;
        let _requests: Vec<_> = all[..3].iter().map(|(_, activity)| activity.begin()).collect();
        slots.take(address(1)).map(drop).expect_err("the other one is idle");
        all.extend(taken(&slots, &[3]).await);
        assert_eq!(closing(&all), [3], "idle ones go first");
        all.extend(taken(&slots, &[2]).await);
        assert_eq!(closing(&all), [3, 4]);
    }

    #[tokio::test(start_paused = true)]
    async fn few_connections_close_at_a_time() {
        let slots = slots(2);
        let all = taken(&slots, &[1; 6]).await;
        let given: Vec<_> = all[..4].iter().map(|(_, activity)| activity.time_to_close()).collect();
        assert_eq!(given, [CLOSING, CLOSING, Duration::ZERO, Duration::ZERO].map(Some));
        drop(all);
        assert_eq!(slots.state.lock().closing, 0);
    }
}
