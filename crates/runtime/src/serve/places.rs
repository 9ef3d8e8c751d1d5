//! The places that connections take, and which connection gives its place up when all are taken.
//!
//! Of the address with the most connections, the one that has been idle the longest has to go: a client that opens many
//! closes its own. Where none is idle, one goes that has been busy for longer than a review takes. Closes nothing itself.

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

/// How long a connection may be busy when others wait for its place. The API server waits for an answer no longer by default.
const BUSY: Duration = Duration::from_secs(5);

/// All places of a server.
#[derive(Debug)]
pub(super) struct Places {
    free: Arc<Semaphore>,
    taken: Mutex<HashMap<u64, Taken>>,
    next: AtomicU64,
    /// Told when a connection has become idle.
    idle: Arc<Notify>,
    limits: Limits,
}

#[derive(Debug)]
struct Taken {
    address: IpAddr,
    activity: Arc<Activity>,
}

/// A place, until dropped.
#[derive(Debug)]
pub(super) struct Place {
    places: Arc<Places>,
    id: u64,
    _permit: OwnedSemaphorePermit,
}

impl Places {
    pub(super) fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self {
            free: Arc::new(Semaphore::new(limits.connections)),
            taken: Mutex::default(),
            next: AtomicU64::new(0),
            idle: Arc::default(),
            limits,
        })
    }

    /// Waits until there is room for one more connection, and has one closed where there is none. To be called when a client is
    /// there.
    pub(super) async fn room(&self) -> OwnedSemaphorePermit {
        loop {
            let again = match self.free.clone().try_acquire_owned() {
                Ok(permit) => return permit,
                Err(_) => self.make_room(Instant::now()),
            };
            tokio::select! {
                Ok(permit) = self.free.clone().acquire_owned() => return permit,
                () = self.idle.notified() => {}
                () = sleep_until(again) => {}
            }
        }
    }

    /// The same without waiting for anything.
    pub(super) fn try_room(&self) -> Option<OwnedSemaphorePermit> {
        self.free.clone().try_acquire_owned().ok()
    }

    /// Takes a place for a connection of this address.
    pub(super) fn take(
        self: &Arc<Self>,
        permit: OwnedSemaphorePermit,
        address: IpAddr,
    ) -> (Place, Arc<Activity>) {
        let activity = Activity::new(self.limits, self.idle.clone());
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        self.taken.lock().insert(id, Taken { address, activity: activity.clone() });
        (Place { places: self.clone(), id, _permit: permit }, activity)
    }

    /// Asks one connection to go, unless one is going already. Returns when to look again.
    fn make_room(&self, now: Instant) -> Instant {
        let taken = self.taken.lock();
        let mut of_address: HashMap<IpAddr, usize> = HashMap::new();
        for it in taken.values() {
            *of_address.entry(it.address).or_default() += 1;
        }
        if taken.values().any(|it| it.activity.has_to_go()) {
            return now + BUSY;
        }
        let may_go = |it: &&Taken| it.activity.is_idle() || it.activity.since() + BUSY <= now;
        let chosen = taken.values().filter(may_go).max_by_key(|it| {
            let connections = of_address.get(&it.address).copied();
            (it.activity.is_idle(), connections, Reverse(it.activity.since()))
        });
        if let Some(chosen) = chosen {
            chosen.activity.leave();
            return now + BUSY;
        }
        let first = taken.values().map(|it| it.activity.since() + BUSY).min();
        first.unwrap_or(now + BUSY)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.taken.lock().remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn address(last: u8) -> IpAddr {
        Ipv4Addr::new(10, 0, 0, last).into()
    }

    /// Takes places for these addresses, one a second.
    async fn taken(places: &Arc<Places>, addresses: &[u8]) -> Vec<(Place, Arc<Activity>)> {
        let mut all = Vec::new();
        for last in addresses {
            let permit = places.try_room().expect("there is room");
            all.push(places.take(permit, address(*last)));
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        all
    }

    /// Which of them are asked to go when one more comes.
    fn asked(places: &Places, all: &[(Place, Arc<Activity>)]) -> Vec<usize> {
        places.make_room(Instant::now());
        (0..all.len()).filter(|at| all[*at].1.has_to_go()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_idle_goes_and_one_at_a_time() {
        let places = Places::new(Limits { connections: 4, ..Limits::WEBHOOK });
        let mut all = taken(&places, &[1, 1, 1, 1]).await;
        // The first has been asked something meanwhile.
        drop(all[0].1.begin());
        assert_eq!(asked(&places, &all), [1]);
        assert_eq!(asked(&places, &all), [1], "it has not left yet");
        drop(all.remove(1));
        assert_eq!(asked(&places, &all), [1], "the former third");
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_most_connections_closes_its_own() {
        let places = Places::new(Limits { connections: 4, ..Limits::WEBHOOK });
        let all = taken(&places, &[7, 1, 1, 8]).await;
        assert_eq!(asked(&places, &all), [1]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_busy_goes_last_and_not_at_once() {
        let places = Places::new(Limits { connections: 3, ..Limits::WEBHOOK });
        let all = taken(&places, &[1, 1, 1]).await;
        let _requests: Vec<_> = all.iter().map(|(_, activity)| activity.begin()).collect();
        let begun = Instant::now();
        assert_eq!(asked(&places, &all), [0; 0]);
        assert_eq!(places.make_room(Instant::now()), begun + BUSY, "and then one may have to go");
        tokio::time::advance(BUSY).await;
        assert_eq!(asked(&places, &all).len(), 1);
    }
}
