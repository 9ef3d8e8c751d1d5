//! The slots of connections, and which connection is closed for a new one when all slots are taken.
//!
//! Of the address with the most connections, the one that has been idle the longest is closed, so a client that opens many
//! connections loses its own. If none is idle, one is closed that has been busy for longer than a review takes. Closes nothing
//! itself.

use std::{
    cmp::Reverse,
    collections::HashMap,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore},
    time::{Instant, sleep_until},
};

use super::{Limits, activity::Activity};

/// How long a connection may be busy while others wait for a slot. By default the API server waits no longer for a response.
const BUSY: Duration = Duration::from_secs(5);

/// All slots of a server.
#[derive(Debug)]
pub(super) struct Slots {
    permits: Arc<Semaphore>,
    taken: Mutex<HashMap<u64, Taken>>,
    next: AtomicU64,
    /// Notified when a connection becomes idle.
    idle: Arc<Notify>,
    limits: Limits,
}

#[derive(Debug)]
struct Taken {
    address: IpAddr,
    activity: Arc<Activity>,
}

/// A slot, free again when dropped.
#[derive(Debug)]
pub(super) struct Slot {
    slots: Arc<Slots>,
    id: u64,
    _permit: OwnedSemaphorePermit,
}

impl Slots {
    pub(super) fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self {
            permits: Arc::new(Semaphore::new(limits.connections)),
            taken: Mutex::default(),
            next: AtomicU64::new(0),
            idle: Arc::default(),
            limits,
        })
    }

    /// Waits for a free slot, and has a connection closed if there is none. Call it when a client is waiting.
    pub(super) async fn free(&self) -> OwnedSemaphorePermit {
        loop {
            let again = match self.permits.clone().try_acquire_owned() {
                Ok(permit) => return permit,
                Err(_) => self.close_one(Instant::now()),
            };
            tokio::select! {
                Ok(permit) = self.permits.clone().acquire_owned() => return permit,
                () = self.idle.notified() => {}
                () = sleep_until(again) => {}
            }
        }
    }

    /// The same without waiting.
    pub(super) fn try_free(&self) -> Option<OwnedSemaphorePermit> {
        self.permits.clone().try_acquire_owned().ok()
    }

    /// Takes a slot for a connection from this address.
    pub(super) fn take(
        self: &Arc<Self>,
        permit: OwnedSemaphorePermit,
        address: IpAddr,
    ) -> (Slot, Arc<Activity>) {
        let activity = Activity::new(self.limits, self.idle.clone());
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        self.taken.lock().insert(id, Taken { address, activity: activity.clone() });
        (Slot { slots: self.clone(), id, _permit: permit }, activity)
    }

    /// Requests one connection to close, unless one is closing already. Returns when to look again.
    fn close_one(&self, now: Instant) -> Instant {
        let taken = self.taken.lock();
        let mut of_address: HashMap<IpAddr, usize> = HashMap::new();
        for it in taken.values() {
            *of_address.entry(it.address).or_default() += 1;
        }
        if taken.values().any(|it| it.activity.is_close_requested()) {
            return now + BUSY;
        }
        let may_close = |it: &&Taken| it.activity.is_idle() || it.activity.since() + BUSY <= now;
        let chosen = taken.values().filter(may_close).max_by_key(|it| {
            let connections = of_address.get(&it.address).copied();
            (it.activity.is_idle(), connections, Reverse(it.activity.since()))
        });
        if let Some(chosen) = chosen {
            chosen.activity.request_close();
            return now + BUSY;
        }
        let first = taken.values().map(|it| it.activity.since() + BUSY).min();
        first.unwrap_or(now + BUSY)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.taken.lock().remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn address(last: u8) -> IpAddr {
        Ipv4Addr::new(10, 0, 0, last).into()
    }

    /// Takes slots for these addresses, one a second.
    async fn taken(slots: &Arc<Slots>, addresses: &[u8]) -> Vec<(Slot, Arc<Activity>)> {
        let mut all = Vec::new();
        for last in addresses {
            let permit = slots.try_free().expect("a free slot");
            all.push(slots.take(permit, address(*last)));
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        all
    }

    /// Which of them are requested to close when one more connection comes.
    fn closing(slots: &Slots, all: &[(Slot, Arc<Activity>)]) -> Vec<usize> {
        slots.close_one(Instant::now());
        (0..all.len()).filter(|at| all[*at].1.is_close_requested()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_idle_is_closed_and_one_at_a_time() {
        let slots = Slots::new(Limits { connections: 4, ..Limits::WEBHOOK });
        let mut all = taken(&slots, &[1, 1, 1, 1]).await;
        // The first has had a request meanwhile.
        drop(all[0].1.begin());
        assert_eq!(closing(&slots, &all), [1]);
        assert_eq!(closing(&slots, &all), [1], "it is not closed yet");
        drop(all.remove(1));
        assert_eq!(closing(&slots, &all), [1], "the former third");
    }

    #[tokio::test(start_paused = true)]
    async fn the_address_with_most_connections_loses_one() {
        let slots = Slots::new(Limits { connections: 4, ..Limits::WEBHOOK });
        let all = taken(&slots, &[7, 1, 1, 8]).await;
        assert_eq!(closing(&slots, &all), [1]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_busy_connection_is_closed_last_and_not_at_once() {
        let slots = Slots::new(Limits { connections: 3, ..Limits::WEBHOOK });
        let all = taken(&slots, &[1, 1, 1]).await;
        let _requests: Vec<_> = all.iter().map(|(_, activity)| activity.begin()).collect();
        let begun = Instant::now();
        assert_eq!(closing(&slots, &all), [0; 0]);
        assert_eq!(slots.close_one(Instant::now()), begun + BUSY, "then one may be closed");
        tokio::time::advance(BUSY).await;
        assert_eq!(closing(&slots, &all).len(), 1);
    }
}
