//! Free ports on loopback. Reserves none: a caller that starts a server must handle a clash.

use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, TcpListener};

use anyhow::bail;

/// Below the range from which systems take ports for outgoing connections, so that the port of a stopped server stays free.
const FIRST: u16 = 15_000;
const COUNT: u16 = 15_000;

/// `N` different ports on which no program listens at this moment.
pub fn free<const N: usize>() -> anyhow::Result<[u16; N]> {
    let mut found = [0; N];
    for index in 0..N {
        found[index] = one_except(&found[..index])?;
    }
    Ok(found)
}

fn one_except(taken: &[u16]) -> anyhow::Result<u16> {
    for attempt in 0..1000_u32 {
        // The standard library's only randomness; concurrent clusters must not try the same ports in the same order.
        let random = RandomState::new().hash_one(attempt);
        let port = FIRST + u16::try_from(random % u64::from(COUNT))?;
        if !taken.contains(&port) && TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no free port on 127.0.0.1 between {FIRST} and {}", FIRST + COUNT);
}
