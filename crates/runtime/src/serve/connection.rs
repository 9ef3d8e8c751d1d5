//! One connection, from the TCP handshake to its end.
//!
//! Chooses the protocol, hands requests to the router, and ends when the client does, when its time
//! is up, or when the server closes.

use std::{
    convert::Infallible, io, net::SocketAddr, panic::AssertUnwindSafe, pin::pin, sync::Arc, time::Duration,
};

use axum::{
    Router,
    body::Body,
    response::{IntoResponse as _, Response},
};
use futures::FutureExt as _;
use http::{HeaderValue, Request, StatusCode, header::CONNECTION};
use hyper::{
    body::{Body as _, Incoming},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::conn::auto,
};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite, BufReader},
    net::TcpStream,
    sync::watch,
    time::{Instant, timeout},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::task::AbortOnDropHandle;
use tower::ServiceExt as _;

use super::{
    Limits, Peer, Stage,
    activity::{Activity, Phase},
    gathered::Gathered,
    streams::{Begun, WithStreams},
};
use crate::telemetry::panic_message;

/// How often an HTTP/2 client is asked whether it is still there, and how long it may take to say so.
const PING_EVERY: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// How long an idle client may take to agree that the connection ends.
const GOODBYE: Duration = Duration::from_secs(5);

/// The same of one whose place another client needs; a request that has just arrived is answered in that time.
const HURRIED_GOODBYE: Duration = Duration::from_millis(100);

/// The most of a request's head, and of a body at a time, that HTTP/1.1 keeps for a connection.
const HTTP1_BUFFER: usize = 64 * 1024;

/// Requests at a time on one HTTP/2 connection; Go's client opens another one beyond that.
const STREAMS: u32 = 250;

/// The most of all bodies of a connection that HTTP/2 keeps until they are read.
const WINDOW: u32 = 128 * 1024;

/// So many bytes are taken from the kernel at a time.
const READ_AT_ONCE: usize = 32 * 1024;

/// A request of more bytes, or of nobody knows how many, takes long enough to be a task of its own.
const SHORT: u64 = 64 * 1024;

/// What all connections of a server have in common.
#[derive(Clone)]
pub(super) struct Connection {
    pub(super) router: Router,
    pub(super) tls: Option<TlsAcceptor>,
    pub(super) limits: Limits,
    pub(super) stage: watch::Receiver<Stage>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Http1,
    Http2,
}

impl Connection {
    /// Serves one client. Its failures are its own: they are logged at debug level, since anyone who
    /// can reach the port can cause them.
    pub(super) async fn run(self, stream: TcpStream, peer: SocketAddr, activity: Arc<Activity>) {
        let ended = self.serve(stream, peer, activity).await;
        if let Err(reason) = ended {
            if is_about_client_certificates(&reason) && say_again() {
                tracing::warn!(%peer, %reason, "a client without an accepted certificate was refused (told once a minute)");
            }
            tracing::debug!(%peer, %reason, "connection failed");
        }
    }

    async fn serve(self, stream: TcpStream, peer: SocketAddr, activity: Arc<Activity>) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let Some(tls) = &self.tls else {
            return self.serve_http(stream, peer, activity, Protocol::Http1).await;
        };
        // TLS asks for 4 KiB at a time, which would be two calls of the kernel for many a review.
        let stream = BufReader::with_capacity(READ_AT_ONCE, stream);
        let stream = tokio::select! {
            accepted = timeout(self.limits.handshake, tls.accept(stream)) => accepted??,
            () = activity.asked_to_leave() => return Err(displaced()),
        };
        activity.is_open();
        // By ALPN alone: to wait and see how a client begins would be one more state to hang in.
        let protocol = match stream.get_ref().1.alpn_protocol() {
            Some(b"h2") => Protocol::Http2,
            _ => Protocol::Http1,
        };
        self.serve_http(Gathered(stream), peer, activity, protocol).await
    }

    async fn serve_http(
        mut self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        peer: SocketAddr,
        activity: Arc<Activity>,
        protocol: Protocol,
    ) -> io::Result<()> {
        let service = {
            let (router, activity, stage) = (self.router, activity.clone(), self.stage.clone());
            service_fn(move |request| {
                let answered = answer(router.clone(), activity.clone(), peer, request);
                let stage = stage.clone();
                async move {
                    let mut response = answered.await?;
                    if protocol == Protocol::Http1 && *stage.borrow() != Stage::Serving {
                        part(&mut response);
                    }
                    Ok::<_, Infallible>(response)
                }
            })
        };
        let begun = Begun::default();
        let builder = builder(protocol, begun.clone());
        let http = pin!(builder.serve_connection(TokioIo::new(stream), service));
        let mut http = WithStreams::new(http, begun);
        let mut closing = false;
        loop {
            tokio::select! {
                ended = &mut http => return ended.map_err(io::Error::other),
                phase = activity.expired() => {
                    if phase == Phase::Idle {
                        http.connection().graceful_shutdown();
                        // Whether it says goodbye or not, it is over.
                        return timeout(GOODBYE, http).await?.map_err(io::Error::other);
                    }
                    return Err(io::Error::new(io::ErrorKind::TimedOut, format!("{phase:?} for too long")));
                }
                () = activity.asked_to_leave() => {
                    if !activity.is_idle() {
                        return Err(displaced());
                    }
                    http.connection().graceful_shutdown();
                    return timeout(HURRIED_GOODBYE, http).await?.map_err(io::Error::other);
                }
                () = closes(&mut self.stage), if !closing => {
                    http.connection().graceful_shutdown();
                    closing = true;
                }
            }
        }
    }
}

/// An API server that is not configured to present a certificate looks like anybody else; its administrator has to see why.
fn is_about_client_certificates(error: &io::Error) -> bool {
    use rustls::Error::{InvalidCertificate, NoCertificatesPresented};
    let error = error.get_ref().and_then(|error| error.downcast_ref());
    matches!(error, Some(NoCertificatesPresented | InvalidCertificate(_)))
}

/// Whether a minute has passed since the last time: anyone who can reach the port can cause it.
fn say_again() -> bool {
    static LAST: Mutex<Option<Instant>> = Mutex::new(None);
    let mut last = LAST.lock();
    let is_due = last.is_none_or(|last| last.elapsed() >= Duration::from_secs(60));
    if is_due {
        *last = Some(Instant::now());
    }
    is_due
}

fn displaced() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "its place was needed for another connection")
}

async fn closes(stage: &mut watch::Receiver<Stage>) {
    // An error means that the server is gone: closing as well.
    let _ = stage.wait_for(|stage| *stage == Stage::Closing).await;
}

fn builder(protocol: Protocol, begun: Begun) -> auto::Builder<Begun> {
    let mut builder = auto::Builder::new(begun);
    builder
        .http1()
        .timer(TokioTimer::new())
        .max_buf_size(HTTP1_BUFFER)
        // hyper's own timer runs while a connection is idle too; ours tells the two apart.
        .header_read_timeout(None);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_TIMEOUT)
        .initial_connection_window_size(WINDOW)
        .initial_stream_window_size(WINDOW)
        .max_concurrent_streams(STREAMS);
    match protocol {
        Protocol::Http1 => builder.http1_only(),
        Protocol::Http2 => builder.http2_only(),
    }
}

/// Makes this the last answer on its connection. A client that may go on using one could be sending its next request at the
/// moment when we close it, and would get no answer; this one opens another, or has one to somebody else.
fn part(response: &mut Response) {
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
}

async fn answer(
    router: Router,
    activity: Arc<Activity>,
    peer: SocketAddr,
    mut request: Request<Incoming>,
) -> Result<Response, Infallible> {
    let _under_way = activity.begin();
    request.extensions_mut().insert(Peer(peer.ip().to_canonical()));
    let is_short = request.body().size_hint().upper().is_some_and(|bytes| bytes <= SHORT);
    let answer = router.oneshot(request.map(Body::new));
    let answered = if is_short {
        AssertUnwindSafe(answer).catch_unwind().await.map_err(|panic| panic_message(&*panic).to_owned())
    } else {
        // Dropped with this, as all that is under way on a connection is.
        AbortOnDropHandle::new(tokio::spawn(answer)).await.map_err(|panic| panic.to_string())
    };
    answered.unwrap_or_else(|reason| {
        tracing::error!(%peer, reason, "request ended by a panic");
        Ok((StatusCode::INTERNAL_SERVER_ERROR, "internal error").into_response())
    })
}
