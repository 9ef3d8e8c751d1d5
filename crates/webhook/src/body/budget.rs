//! How many bytes of bodies are held at once, over all connections.
//!
//! The bodies from one address together may have at most as many bytes as are still free. So there is always room for another
//! address. A body that needs more bytes waits. When bytes become free, the smallest waiting body gets them first. While a body waits,
//! another body may be *given up*: one that has been arriving for too long. If there are several, the address with the most
//! bytes loses one first. This module only counts; `body.rs` reads the bodies.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// The limit for all bodies together. The container's limit is 300 MiB, of which the hierarchy of a large cluster needs a third.
const MOST: usize = 64 * 1024 * 1024;

/// After this time a body that has not arrived is given up if others wait. The API server sends one in milliseconds.
const SLOW: Duration = Duration::from_millis(500);

/// How long a body waits for others.
const PATIENCE: Duration = Duration::from_secs(2);

/// The bodies of all requests in flight.
#[derive(Debug, Default)]
pub struct Bodies {
    state: Mutex<State>,
    /// Notified when bytes are free again.
    released: Notify,
}

#[derive(Debug, Default)]
struct State {
    total: usize,
    of_address: HashMap<IpAddr, usize>,
    bodies: HashMap<u64, Body>,
    next: u64,
    /// The waiting bodies, by the size that they need.
    waiting: BTreeSet<(usize, u64)>,
}

#[derive(Debug)]
struct Body {
    address: IpAddr,
    bytes: usize,
    since: Instant,
    has_arrived: bool,
    is_given_up: bool,
    give_up: Arc<Notify>,
}

/// The place of one body in the count. The bytes are free again when it is dropped.
#[derive(Debug)]
pub(crate) struct BodyGuard {
    bodies: Arc<Bodies>,
    id: u64,
    give_up: Arc<Notify>,
}

/// There is no room for more of a body.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Full;

impl Bodies {
    /// Begins a body from this address.
    pub(super) fn begin(self: &Arc<Self>, address: IpAddr) -> BodyGuard {
        let mut state = self.state.lock();
        let id = state.next;
        state.next += 1;
        let give_up = Arc::new(Notify::new());
        let body = Body {
            address,
            bytes: 0,
            since: Instant::now(),
            has_arrived: false,
            is_given_up: false,
            give_up: give_up.clone(),
        };
        state.bodies.insert(id, body);
        BodyGuard { bodies: self.clone(), id, give_up }
    }
}

impl State {
    /// Lets the body have this many bytes, or returns when to ask again.
    fn resize(&mut self, id: u64, bytes: usize, now: Instant) -> Result<(), Instant> {
        let Some(body) = self.bodies.get(&id) else { return Ok(()) };
        let more = bytes.saturating_sub(body.bytes);
        let own = self.of_address.get(&body.address).copied().unwrap_or_default();
        let left = MOST.saturating_sub(self.total + more);
        let is_next = self.waiting.first().is_none_or(|first| (bytes, id) <= *first);
        if more > 0 && !(is_next && own + more <= left) {
            self.waiting.insert((bytes, id));
            return Err(self.give_up_one(id, now));
        }
        self.waiting.remove(&(bytes, id));
        self.set(id, bytes);
        Ok(())
    }

    fn set(&mut self, id: u64, bytes: usize) {
        let Some(body) = self.bodies.get_mut(&id) else { return };
        let own = self.of_address.entry(body.address).or_default();
        *own = *own + bytes - body.bytes;
        self.total = self.total + bytes - body.bytes;
        if *own == 0 {
            self.of_address.remove(&body.address);
        }
        body.bytes = bytes;
    }

    /// Gives up a slow body for another one, unless that has just been done. Returns when to ask again.
    fn give_up_one(&mut self, other: u64, now: Instant) -> Instant {
        let later = now + PATIENCE;
        if self.bodies.values().any(|body| body.is_given_up) {
            return later;
        }
        let Self { bodies, of_address, .. } = self;
        let others = bodies.iter_mut().filter(|(id, _)| **id != other).map(|(_, body)| body);
        let arriving: Vec<&mut Body> = others.filter(|body| !body.has_arrived && body.bytes > 0).collect();
        let next = arriving.iter().map(|body| body.since + SLOW).min();
        let slow = arriving.into_iter().filter(|body| body.since + SLOW <= now);
        match slow.max_by_key(|body| (of_address.get(&body.address), Reverse(body.since))) {
            Some(body) => {
                body.is_given_up = true;
                body.give_up.notify_one();
                later
            }
            None => next.unwrap_or(later),
        }
    }
}

impl BodyGuard {
    /// Waits until the body may have this many bytes.
    pub(super) async fn grow(&self, bytes: usize) -> Result<(), Full> {
        let deadline = Instant::now() + PATIENCE;
        let _waiting = Waiting { held: self, bytes };
        loop {
            let mut released = pin!(self.bodies.released.notified());
            released.as_mut().enable();
            let again = match self.bodies.state.lock().resize(self.id, bytes, Instant::now()) {
                Ok(()) => return Ok(()),
                Err(again) => again,
            };
            if Instant::now() >= deadline {
                return Err(Full);
            }
            tokio::select! {
                () = released => {}
                () = sleep_until(again.min(deadline)) => {}
            }
        }
    }

    /// The body holds no bytes any more.
    pub(super) fn shrink_to_nothing(&self) {
        self.bodies.state.lock().set(self.id, 0);
        self.bodies.released.notify_waiters();
    }

    /// The body has arrived.
    pub(super) fn has_arrived(&self) {
        if let Some(body) = self.bodies.state.lock().bodies.get_mut(&self.id) {
            body.has_arrived = true;
        }
    }

    /// Waits until the body is given up for others.
    pub(super) async fn given_up(&self) {
        self.give_up.notified().await;
    }
}

impl Drop for BodyGuard {
    fn drop(&mut self) {
        let mut state = self.bodies.state.lock();
        state.set(self.id, 0);
        state.bodies.remove(&self.id);
        drop(state);
        self.bodies.released.notify_waiters();
    }
}

/// A waiting body, until dropped. Then the next one may have its turn.
struct Waiting<'a> {
    held: &'a BodyGuard,
    bytes: usize,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let bodies = &self.held.bodies;
        let mut state = bodies.state.lock();
        let was_waiting = state.waiting.remove(&(self.bytes, self.held.id));
        let others_wait = !state.waiting.is_empty();
        drop(state);
        if was_waiting || others_wait {
            bodies.released.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1024 * 1024;

    async fn held(bodies: &Arc<Bodies>, from: u8, bytes: usize) -> Result<BodyGuard, Full> {
        let held = bodies.begin(IpAddr::from([10, 0, 0, from]));
        held.grow(bytes).await.map(|()| held)
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_holds_as_much_as_is_free_besides() {
        let bodies = Arc::<Bodies>::default();
        let mut all = Vec::new();
        for from in 1..=20 {
            let mut count = 0;
            while let Ok(body) = held(&bodies, from, MIB).await {
                body.has_arrived();
                all.push(body);
                count += 1;
            }
            let free = MOST / MIB - all.len();
            assert!(count <= free && free <= count + 1, "{from}: {count} MiB, {free} MiB are free");
        }
        assert!(held(&bodies, 99, 1024).await.is_ok(), "there is room for another address");
        all.clear();
        let state = bodies.state.lock();
        assert!(state.total == 0 && state.of_address.is_empty(), "{state:?}");
        assert!(state.waiting.is_empty() && state.bodies.is_empty(), "{state:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_body_is_given_up_when_another_needs_room() {
        let bodies = Arc::<Bodies>::default();
        let mut slow = Vec::new();
        for _ in 0..4 {
            slow.push(held(&bodies, 1, 8 * MIB).await.unwrap());
            tokio::time::advance(Duration::from_millis(10)).await;
        }
        let first = slow.remove(0);
        tokio::spawn(async move {
            first.given_up().await;
            drop(first);
        });
        let began = Instant::now();
        assert!(held(&bodies, 1, 1024).await.is_ok());
        assert!(began.elapsed() <= SLOW, "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn what_has_arrived_is_not_given_up_and_who_waits_is_refused_in_the_end() {
        let bodies = Arc::<Bodies>::default();
        let whole = held(&bodies, 1, MOST / 2).await.unwrap();
        whole.has_arrived();
        tokio::time::advance(SLOW).await;
        let began = Instant::now();
        assert_eq!(held(&bodies, 1, 1024).await.unwrap_err(), Full);
        assert!(began.elapsed() >= PATIENCE);
        drop(whole);
        assert!(held(&bodies, 1, 1024).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn small_bodies_have_their_turn_first() {
        let bodies = Arc::<Bodies>::default();
        let whole = held(&bodies, 1, MOST / 2).await.unwrap();
        whole.has_arrived();
        let order = Arc::new(Mutex::new(Vec::new()));
        let tasks: Vec<_> = [8 * MIB, MIB, 1024]
            .into_iter()
            .map(|bytes| {
                let (all, order) = (bodies.clone(), order.clone());
                tokio::spawn(async move {
                    let held = held(&all, 1, bytes).await.unwrap();
                    order.lock().push(bytes);
                    held
                })
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(100)).await;
        drop(whole);
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(*order.lock(), [1024, MIB, 8 * MIB]);
    }
}
