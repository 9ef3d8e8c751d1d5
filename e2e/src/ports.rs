//! Free ports on loopback. No other test process gets them while this one runs; other programs can still take them.

use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, TcpListener};
#[cfg(target_os = "linux")]
use std::os::{
    linux::net::SocketAddrExt as _,
    unix::net::{SocketAddr, UnixListener},
};
#[cfg(target_os = "linux")]
use std::sync::Mutex;

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
        let is_free = || TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
        if !taken.contains(&port) && is_free() && reserve(port) {
            return Ok(port);
        }
    }
    bail!("no free port on 127.0.0.1 between {FIRST} and {}", FIRST + COUNT);
}

/// Keeps the port for this process, by a socket without a file that the kernel closes when the process ends. False if a test process
/// has the port already.
#[cfg(target_os = "linux")]
fn reserve(port: u16) -> bool {
    static RESERVED: Mutex<Vec<UnixListener>> = Mutex::new(Vec::new());
    let address = SocketAddr::from_abstract_name(format!("hns-e2e-port-{port}"));
    let Ok(socket) = address.and_then(|address| UnixListener::bind_addr(&address)) else { return false };
    RESERVED.lock().is_ok_and(|mut reserved| {
        reserved.push(socket);
        true
    })
}

/// Elsewhere a clash is possible.
#[cfg(not(target_os = "linux"))]
fn reserve(_: u16) -> bool {
    true
}
