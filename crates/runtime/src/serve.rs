//! An HTTP/1.1 server for an axum router, with or without TLS, that no client can block.
//!
//! It limits how many connections there are, how long one may be silent, and how long a shutdown takes. It sets no limit on a
//! handler's time.

mod activity;
mod connection;
mod slots;

#[cfg(test)]
mod tests;

use std::{
    collections::{HashSet, VecDeque},
    io, mem,
    net::{IpAddr, SocketAddr},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use axum::Router;
use futures::FutureExt as _;
use rustls::ServerConfig;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::{JoinError, JoinSet},
    time::{Instant, sleep_until},
};

use self::{connection::Connection, slots::Slots};
use crate::telemetry::panic_message;

/// How many connections a server accepts, and how long each may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at a time. When one more comes, an idle one is closed.
    pub connections: usize,
    /// From the TCP connection to the end of the TLS handshake.
    pub handshake: Duration,
    /// From the handshake to the first complete request head.
    pub first_request: Duration,
    /// Without a request in flight. Longer than the 90 s after which Go's client closes its own idle connections: if the server
    /// closed first, a review just sent could be lost, and Go does not repeat a POST.
    pub idle: Duration,
    /// For one request, for example one whose body does not arrive.
    pub stalled: Duration,
}

impl Limits {
    /// For webhooks. By default an API server has at most 200 writes in flight, each on a connection of its own.
    pub const WEBHOOK: Self = Self {
        connections: 512,
        handshake: Duration::from_secs(10),
        first_request: Duration::from_secs(10),
        idle: Duration::from_secs(120),
        stalled: Duration::from_secs(60),
    };

    /// For probes and metrics.
    pub const ADMIN: Self = Self { connections: 64, ..Self::WEBHOOK };
}

/// The address that a request comes from; an extension of every request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer(pub IpAddr);

/// How a server shuts down.
#[derive(Clone, Copy, Debug)]
pub struct Grace {
    /// How long it continues to accept connections.
    pub delay: Duration,
    /// How long the shutdown takes at most, the delay included.
    pub timeout: Duration,
}

impl Grace {
    /// No delay: connections are cut off.
    pub const NONE: Self = Self { delay: Duration::ZERO, timeout: Duration::ZERO };
}

/// A server that has its socket and does not serve yet.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    limits: Limits,
}

impl Server {
    /// A server without TLS.
    pub fn plain(listener: TcpListener, limits: Limits) -> Self {
        Self { listener, tls: None, limits }
    }

    /// A server with TLS.
    pub fn https(listener: TcpListener, tls: Arc<ServerConfig>, limits: Limits) -> Self {
        Self { listener, tls: Some(tls), limits }
    }

    /// Serves `router` until `draining` completes, then shuts down within `grace`. During the delay it continues to serve, and
    /// each response asks the client to use another connection for its next request. Then it accepts no more connections, waits
    /// for requests in flight, and cuts off what is left at the deadline. Returns how many connections were cut off.
    ///
    /// A handler that panics is logged and answered with 500; nothing else is affected.
    pub async fn serve(self, router: Router, draining: impl Future<Output = ()>, grace: Grace) -> usize {
        let (stage, watching) = watch::channel(Stage::Serving);
        let stop = async {
            draining.await;
            stage.send_replace(Stage::Draining);
            let deadline = Instant::now() + grace.timeout;
            tokio::time::sleep(grace.delay.min(grace.timeout)).await;
            deadline
        };
        let connection =
            Connection { router, tls: self.tls.map(Into::into), limits: self.limits, stage: watching };
        let mut connections = Connections {
            listener: self.listener,
            slots: Slots::new(self.limits),
            waiting: VecDeque::new(),
            connection,
            tasks: JoinSet::new(),
        };
        let deadline = connections.accept_until(stop).await;
        connections.accept_waiting();
        let Connections { mut tasks, listener, .. } = connections;
        drop(listener);
        stage.send_replace(Stage::Closing);
        let all = async {
            while let Some(ended) = tasks.join_next().await {
                report(ended);
            }
        };
        let in_time = tokio::time::timeout_at(deadline, all).await;
        let cut_off = tasks.len();
        if in_time.is_err() {
            tracing::warn!(connections = cut_off, "connections cut off at the end of the shutdown");
        }
        tasks.shutdown().await;
        cut_off
    }
}

/// What a server is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Serving,
    /// It serves, and closes soon.
    Draining,
    Closing,
}

struct Connections {
    listener: TcpListener,
    slots: Arc<Slots>,
    /// Clients that have no slot yet, at most as many as there are slots.
    waiting: VecDeque<(TcpStream, SocketAddr)>,
    connection: Connection,
    tasks: JoinSet<()>,
}

impl Connections {
    async fn accept_until<T>(&mut self, stop: impl Future<Output = T>) -> T {
        let mut stop = pin!(stop);
        loop {
            let again = self.serve_waiting();
            let later = async {
                match again {
                    Some(again) => sleep_until(again).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                stopped = &mut stop => return stopped,
                Some(ended) = self.tasks.join_next() => report(ended),
                // A client that waits holds up no client of another address.
                accepted = self.listener.accept() => match accepted {
                    Ok(client) => self.waits(client),
                    Err(error) => pause_after(&error).await,
                },
                () = self.slots.idle() => {}
                () = later => {}
            }
        }
    }

    /// Accepts the clients in the kernel's queue: they are connected already, and dropping the listener would reset them.
    fn accept_waiting(&mut self) {
        while self.serve_waiting().is_none()
            && let Some(Ok(client)) = self.listener.accept().now_or_never()
        {
            self.waits(client);
        }
    }

    fn waits(&mut self, client: (TcpStream, SocketAddr)) {
        self.waiting.push_back(client);
        if self.waiting.len() > self.connection.limits.connections {
            self.waiting.pop_front();
        }
    }

    /// Serves the clients that get a slot, and returns when others may get one.
    fn serve_waiting(&mut self) -> Option<Instant> {
        let mut again: Option<Instant> = None;
        let mut refused = HashSet::new();
        for (stream, peer) in mem::take(&mut self.waiting) {
            // A client has the same address over IPv4 and over IPv4 mapped to IPv6.
            let address = peer.ip().to_canonical();
            if !refused.contains(&address) {
                match self.slots.take(address) {
                    Ok((slot, activity)) => {
                        let connection = self.connection.clone();
                        self.tasks.spawn(async move {
                            connection.run(stream, peer, activity).await;
                            drop(slot);
                        });
                        continue;
                    }
                    Err(at) => {
                        again = Some(again.map_or(at, |again| again.min(at)));
                        refused.insert(address);
                    }
                }
            }
            self.waiting.push_back((stream, peer));
        }
        again
    }
}

/// Waits after an error of the process, such as too many open files, which would recur at once. An error of one client needs no
/// pause.
async fn pause_after(error: &io::Error) {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    if !matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted) {
        tracing::warn!(%error, "cannot accept connections");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

fn report(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        let panic = error.into_panic();
        tracing::error!(reason = panic_message(&*panic), "a connection task panicked");
    }
}
