//! One connection, from accept to close.
//!
//! Passes requests to the router. Closes when the client does, when a time limit is reached, when another connection needs the
//! slot, or when the server stops.

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
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite, BufReader},
    net::TcpStream,
    sync::watch,
    time::{Instant, timeout},
};
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt as _;

use super::{
    Limits, Peer, Stage,
    activity::{Activity, Phase},
};
use crate::telemetry::panic_message;

/// How long an idle client may take to close the connection after the server has shut it down.
const SHUTDOWN: Duration = Duration::from_secs(5);

/// The most bytes of a request head, and of a body at a time, that a connection buffers.
const HTTP_BUFFER: usize = 64 * 1024;

/// The buffer between TCP and TLS. rustls reads 4 KiB at a time, which is two system calls for most reviews.
const TLS_BUFFER: usize = 32 * 1024;

/// What all connections of a server have in common.
#[derive(Clone)]
pub(super) struct Connection {
    pub(super) router: Router,
    pub(super) tls: Option<TlsAcceptor>,
    pub(super) limits: Limits,
    pub(super) stage: watch::Receiver<Stage>,
}

impl Connection {
    /// Serves one client. Failures are logged at debug level, since every client that reaches the port can cause them.
    pub(super) async fn run(self, stream: TcpStream, peer: SocketAddr, activity: Arc<Activity>) {
        let ended = self.serve(stream, peer, activity).await;
        if let Err(reason) = ended {
            if is_about_client_certificates(&reason) && may_warn() {
                tracing::warn!(%peer, %reason, "refused a client without an accepted certificate (logged once a minute)");
            }
            tracing::debug!(%peer, %reason, "connection failed");
        }
    }

    async fn serve(self, stream: TcpStream, peer: SocketAddr, activity: Arc<Activity>) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let Some(tls) = &self.tls else {
            return self.serve_http(stream, peer, activity).await;
        };
        let stream = BufReader::with_capacity(TLS_BUFFER, stream);
        let stream = tokio::select! {
            accepted = timeout(self.limits.handshake, tls.accept(stream)) => accepted??,
            _ = activity.close_requested() => return Err(displaced()),
        };
        activity.handshake_done();
        self.serve_http(stream, peer, activity).await
    }

    async fn serve_http(
        mut self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        peer: SocketAddr,
        activity: Arc<Activity>,
    ) -> io::Result<()> {
        let service = {
            let (router, activity, stage) = (self.router, activity.clone(), self.stage.clone());
            service_fn(move |request| {
                let answer = answer(router.clone(), activity.clone(), peer, request);
                let stage = stage.clone();
                async move {
                    let mut response = answer.await;
                    if *stage.borrow() != Stage::Serving {
                        close_after(&mut response);
                    }
                    Ok::<_, Infallible>(response)
                }
            })
        };
        let mut builder = http1::Builder::new();
        // hyper's own time limit also runs while a connection is idle; `Activity` distinguishes the two.
        builder.max_buf_size(HTTP_BUFFER).header_read_timeout(None);
        let mut http = pin!(builder.serve_connection(TokioIo::new(stream), service));
        let mut closing = false;
        loop {
            tokio::select! {
                ended = &mut http => return ended.map_err(io::Error::other),
                phase = activity.expired() => {
                    if phase == Phase::Idle {
                        http.as_mut().graceful_shutdown();
                        return timeout(SHUTDOWN, http).await?.map_err(io::Error::other);
                    }
                    return Err(io::Error::new(io::ErrorKind::TimedOut, format!("{phase:?} for too long")));
                }
                within = activity.close_requested() => {
                    if !activity.is_idle() {
                        return Err(displaced());
                    }
                    http.as_mut().graceful_shutdown();
                    return timeout(within, http).await?.map_err(io::Error::other);
                }
                () = closes(&mut self.stage), if !closing => {
                    http.as_mut().graceful_shutdown();
                    closing = true;
                }
            }
        }
    }
}

/// Whether a client presented no accepted certificate. An API server that is not configured to present one looks like any other
/// client, and its administrator needs to see the reason.
fn is_about_client_certificates(error: &io::Error) -> bool {
    use rustls::Error::{InvalidCertificate, NoCertificatesPresented};
    let error = error.get_ref().and_then(|error| error.downcast_ref());
    matches!(error, Some(NoCertificatesPresented | InvalidCertificate(_)))
}

/// Whether a minute has passed since the last warning: every client that reaches the port can cause one.
fn may_warn() -> bool {
    static LAST: Mutex<Option<Instant>> = Mutex::new(None);
    let mut last = LAST.lock();
    let is_due = last.is_none_or(|last| last.elapsed() >= Duration::from_secs(60));
    if is_due {
        *last = Some(Instant::now());
    }
    is_due
}

fn displaced() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "another connection needs the slot")
}

async fn closes(stage: &mut watch::Receiver<Stage>) {
    // An error means that the server is gone: closing as well.
    let _ = stage.wait_for(|stage| *stage == Stage::Closing).await;
}

/// Makes this the last response on its connection. A client that keeps the connection could send its next request at the
/// moment when the server closes it, and would get no response.
fn close_after(response: &mut Response) {
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
}

async fn answer(
    router: Router,
    activity: Arc<Activity>,
    peer: SocketAddr,
    mut request: Request<Incoming>,
) -> Response {
    let _in_flight = activity.begin();
    request.extensions_mut().insert(Peer(peer.ip().to_canonical()));
    let answered = AssertUnwindSafe(router.oneshot(request.map(Body::new))).catch_unwind().await;
    match answered {
        Ok(Ok(response)) => response,
        Err(panic) => {
            let reason = panic_message(&*panic);
            tracing::error!(%peer, reason, "a request handler panicked");
            (StatusCode::INTERNAL_SERVER_ERROR, "internal error").into_response()
        }
    }
}
