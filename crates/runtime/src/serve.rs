//! An HTTP server for an axum router, with or without TLS, that no client can hold on to.
//!
//! It bounds how many connections there are, how long one may say nothing, and how long a shutdown
//! takes. It knows nothing of what the router answers, and sets no limit on a handler's time.

mod activity;
mod connection;
mod gathered;
mod places;
mod streams;

#[cfg(test)]
mod tests;

use std::{
    io,
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
    sync::{OwnedSemaphorePermit, watch},
    task::{JoinError, JoinSet},
    time::Instant,
};

use self::{connection::Connection, places::Places};
use crate::telemetry::panic_message;

/// How long and how much a server bears with its clients.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at a time; when one more comes, one that is idle is closed.
    pub connections: usize,
    /// From the TCP connection to the end of the TLS handshake.
    pub handshake: Duration,
    /// From the handshake to the first complete request head.
    pub first_request: Duration,
    /// Without a request under way. Longer than the 90 s after which Go's client gives up its own
    /// idle connections: if this side closed first, a review just sent over HTTP/1.1 could be lost,
    /// and Go does not repeat a POST.
    pub idle: Duration,
    /// With requests under way of which none begins or ends: a body that does not arrive.
    pub stalled: Duration,
}

impl Limits {
    /// For webhooks. An API server has 200 changes under way at a time by default, and a connection with nothing to do gives its
    /// place up.
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

/// Where a request comes from; every request has this among its extensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer(pub IpAddr);

/// How a server ends once it is told to.
#[derive(Clone, Copy, Debug)]
pub struct Grace {
    /// How long to go on accepting connections.
    pub delay: Duration,
    /// When it is over at the latest, the delay included.
    pub timeout: Duration,
}

impl Grace {
    /// Ends at once.
    pub const NONE: Self = Self { delay: Duration::ZERO, timeout: Duration::ZERO };
}

/// A server that has its socket and serves nothing yet.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    limits: Limits,
}

impl Server {
    /// A server without TLS: HTTP/1.1 only.
    pub fn plain(listener: TcpListener, limits: Limits) -> Self {
        Self { listener, tls: None, limits }
    }

    /// A server with TLS: HTTP/2 where client and `tls` agree on it by ALPN, else HTTP/1.1.
    pub fn https(listener: TcpListener, tls: Arc<ServerConfig>, limits: Limits) -> Self {
        Self { listener, tls: Some(tls), limits }
    }

    /// Serves `router` until `draining` completes, then ends within `grace`: goes on for the delay, in
    /// which each answer over HTTP/1.1 asks the client to open another connection for its next request,
    /// then accepts no more connections, lets the requests under way finish, and cuts off at the
    /// deadline. Returns how many connections were cut off.
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
            places: Places::new(self.limits),
            accepted: None,
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

/// How far a server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Serving,
    /// It closes before long.
    Draining,
    Closing,
}

struct Connections {
    listener: TcpListener,
    places: Arc<Places>,
    /// A client that has no place yet.
    accepted: Option<(TcpStream, SocketAddr)>,
    connection: Connection,
    tasks: JoinSet<()>,
}

impl Connections {
    async fn accept_until<T>(&mut self, stop: impl Future<Output = T>) -> T {
        let mut stop = pin!(stop);
        loop {
            let next = async {
                if self.accepted.is_none() {
                    self.accepted = Some(self.listener.accept().await?);
                }
                // Meanwhile the kernel lets others wait.
                Ok(self.places.room().await)
            };
            tokio::select! {
                stopped = &mut stop => return stopped,
                Some(ended) = self.tasks.join_next() => report(ended),
                room = next => match room {
                    Ok(room) => self.spawn(room),
                    Err(error) => pause_after(&error).await,
                },
            }
        }
    }

    /// Clients that the kernel has already let in believe that they are connected: dropping the
    /// listener would reset them.
    fn accept_waiting(&mut self) {
        while let Some(room) = self.places.try_room() {
            if self.accepted.is_none() {
                self.accepted = self.listener.accept().now_or_never().and_then(Result::ok);
            }
            if self.accepted.is_none() {
                return;
            }
            self.spawn(room);
        }
    }

    /// Serves the client that has no place yet.
    fn spawn(&mut self, room: OwnedSemaphorePermit) {
        let Some((stream, peer)) = self.accepted.take() else { return };
        let connection = self.connection.clone();
        // The same client, by whichever protocol it has come.
        let (place, activity) = self.places.take(room, peer.ip().to_canonical());
        self.tasks.spawn(async move {
            connection.run(stream, peer, activity).await;
            drop(place);
        });
    }
}

/// An error of one client is nothing to wait for; one of the process (too many open files) would
/// come back at once.
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
        tracing::error!(reason = panic_message(&*panic), "connection ended by a panic");
    }
}
