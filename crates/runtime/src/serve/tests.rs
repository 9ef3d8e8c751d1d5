use axum::{
    body::{Body, Bytes},
    routing::{get, post},
};
use http::{Request, Response, StatusCode};
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use prometheus::Registry;
use rustls::pki_types::ServerName;
use tempfile::TempDir;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    sync::{Notify, Semaphore},
    task::JoinHandle,
};

use super::*;
use crate::{
    shutdown::Shutdown,
    tls::{
        ServingCertificate,
        tests::{Pair, eventually},
    },
};
use hns_cluster::readiness::Readiness;

const HTTP1: &[&[u8]] = &[b"http/1.1"];
const NONE: &[&[u8]] = &[];

const SHORT: Limits = Limits {
    connections: 100,
    handshake: Duration::from_millis(300),
    first_request: Duration::from_millis(300),
    idle: Duration::from_millis(900),
    stalled: Duration::from_millis(600),
};

const GRACE: Grace = Grace { delay: Duration::ZERO, timeout: Duration::from_secs(5) };

trait Io: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Io for T {}

/// A running server: `/` answers at once, `/slow` when notified, `/body` when it has the whole body, and `/panic` panics.
struct Running {
    port: u16,
    pair: Option<Pair>,
    shutdown: Shutdown,
    finish: Arc<Notify>,
    begun: Arc<Semaphore>,
    serving: JoinHandle<usize>,
    _directory: TempDir,
}

impl Running {
    async fn https(limits: Limits, grace: Grace) -> Self {
        Self::start(limits, grace, true).await
    }

    async fn start(limits: Limits, grace: Grace, with_tls: bool) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (server, pair) = if with_tls {
            let pair = Pair::new();
            pair.write(directory.path());
            let path = directory.path().to_owned();
            let certificate = ServingCertificate::new(&Registry::new()).unwrap();
            let condition = Readiness::new().condition("certificate", "");
            let following = certificate.clone();
            tokio::spawn(async move { following.follow_directory(&path, condition).await });
            certificate.loaded().await;
            let tls = certificate.server_config(None).unwrap();
            (Server::https(listener, tls, limits), Some(pair))
        } else {
            (Server::plain(listener, limits), None)
        };
        let finish = Arc::new(Notify::new());
        let begun = Arc::new(Semaphore::new(0));
        let shutdown = Shutdown::new();
        let draining = shutdown.clone();
        let router = router(finish.clone(), begun.clone());
        let serving = tokio::spawn(async move { server.serve(router, draining.begun(), grace).await });
        Self { port, pair, shutdown, finish, begun, serving, _directory: directory }
    }

    async fn tcp(&self) -> io::Result<TcpStream> {
        TcpStream::connect(("127.0.0.1", self.port)).await
    }

    async fn connect(&self, alpn: &[&[u8]]) -> io::Result<Box<dyn Io>> {
        let stream = self.tcp().await?;
        let Some(pair) = &self.pair else {
            return Ok(Box::new(stream));
        };
        let name = ServerName::try_from("localhost").unwrap();
        Ok(Box::new(pair.connector(alpn).connect(name, stream).await?))
    }

    async fn client(&self) -> Client {
        Client::new(self.connect(HTTP1).await.unwrap()).await
    }

    /// Waits until a request to `/slow` has reached its handler.
    async fn slow_begun(&self) {
        let begun = tokio::time::timeout(Duration::from_secs(10), self.begun.acquire());
        begun.await.expect("never reached its handler").unwrap().forget();
    }
}

fn router(finish: Arc<Notify>, begun: Arc<Semaphore>) -> Router {
    let slow = async move || {
        begun.add_permits(1);
        finish.notified().await;
        "slow"
    };
    Router::new()
        .route("/", get(|| async { "quick" }))
        .route("/slow", get(slow))
        .route("/body", post(|body: Bytes| async move { body.len().to_string() }))
        .route("/panic", get(panics))
}

async fn panics() -> &'static str {
    panic!("on purpose")
}

struct Client {
    sender: http1::SendRequest<Body>,
    connection: JoinHandle<()>,
}

impl Client {
    async fn new(stream: Box<dyn Io>) -> Self {
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        let connection = tokio::spawn(async move { drop(connection.await) });
        Self { sender, connection }
    }

    async fn get(&mut self, path: &str) -> hyper::Result<(StatusCode, String)> {
        let request = Request::get(format!("https://localhost{path}"));
        let request = request.header("host", "localhost").body(Body::empty()).unwrap();
        let response: Response<Incoming> = self.sender.send_request(request).await?;
        let status = response.status();
        let body = Body::new(response.into_body());
        let bytes = axum::body::to_bytes(body, 1 << 20).await.unwrap();
        Ok((status, String::from_utf8(bytes.to_vec()).unwrap()))
    }
}

fn quick() -> (StatusCode, String) {
    (StatusCode::OK, "quick".to_owned())
}

/// How long until the server hangs up.
async fn until_closed(mut stream: impl AsyncRead + Unpin) -> Duration {
    let start = Instant::now();
    let mut sink = Vec::new();
    let closed = tokio::time::timeout(Duration::from_secs(10), stream.read_to_end(&mut sink));
    // An error is an end too: a server that has no time left says no TLS goodbye.
    let _ = closed.await.expect("never closed");
    start.elapsed()
}

fn assert_about(what: &str, took: Duration, limit: Duration) {
    let range = limit.saturating_sub(Duration::from_millis(50))..limit + Duration::from_secs(2);
    assert!(range.contains(&took), "{what}: {took:?}, limit {limit:?}");
    println!("{what}: closed after {took:?}");
}

#[test]
fn clients_may_be_silent_for_ten_seconds() {
    assert!(Limits::WEBHOOK.handshake <= Duration::from_secs(10));
    assert!(Limits::WEBHOOK.first_request <= Duration::from_secs(10));
    assert!(Limits::WEBHOOK.idle > Duration::from_secs(90));
}

#[tokio::test]
async fn a_client_without_handshake_is_closed() {
    let server = Running::https(SHORT, GRACE).await;
    assert_about("no handshake", until_closed(server.tcp().await.unwrap()).await, SHORT.handshake);
    let mut half = server.tcp().await.unwrap();
    half.write_all(&[0x16, 3, 1]).await.unwrap();
    assert_about("half a handshake", until_closed(half).await, SHORT.handshake);
}

#[tokio::test]
async fn a_client_that_says_nothing_after_the_handshake_is_closed() {
    let server = Running::https(SHORT, GRACE).await;
    for (name, alpn) in [("http/1.1", HTTP1), ("no ALPN", NONE)] {
        let stream = server.connect(alpn).await.unwrap();
        assert_about(name, until_closed(stream).await, SHORT.first_request);
    }
    let plain = Running::start(SHORT, GRACE, false).await;
    let stream = plain.connect(NONE).await.unwrap();
    assert_about("plain", until_closed(stream).await, SHORT.first_request);
}

#[tokio::test]
async fn a_client_that_only_begins_is_closed() {
    let server = Running::https(SHORT, GRACE).await;
    let table = [
        ("half a request line", HTTP1, "GET / HT"),
        ("half a head", HTTP1, "GET / HTTP/1.1\r\nHost: localhost\r\n"),
        ("half a request line without ALPN", NONE, "GET / HT"),
    ];
    for (name, alpn, bytes) in table {
        let mut stream = server.connect(alpn).await.unwrap();
        stream.write_all(bytes.as_bytes()).await.unwrap();
        assert_about(name, until_closed(stream).await, SHORT.first_request);
    }
}

#[tokio::test]
async fn a_client_that_drips_its_head_is_closed() {
    let server = Running::https(SHORT, GRACE).await;
    let (reader, mut writer) = tokio::io::split(server.connect(HTTP1).await.unwrap());
    let dripping = tokio::spawn(async move {
        writer.write_all(b"GET / HTTP/1.1\r\nX: ").await?;
        loop {
            writer.write_all(b"x").await?;
            writer.flush().await?;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        #[expect(unreachable_code, reason = "names the type of the block")]
        Ok::<(), io::Error>(())
    });
    assert_about("dripping", until_closed(reader).await, SHORT.first_request);
    dripping.abort();
}

#[tokio::test]
async fn a_body_that_does_not_arrive_ends_the_connection() {
    let server = Running::https(SHORT, GRACE).await;
    let mut stream = server.connect(HTTP1).await.unwrap();
    stream
        .write_all(b"POST /body HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n123")
        .await
        .unwrap();
    assert_about("stalled", until_closed(stream).await, SHORT.stalled);
}

#[tokio::test]
async fn an_idle_client_is_kept_for_longer_and_then_closed() {
    let server = Running::https(SHORT, GRACE).await;
    for (name, alpn) in [("http/1.1", HTTP1), ("no ALPN", NONE)] {
        let mut client = Client::new(server.connect(alpn).await.unwrap()).await;
        assert_eq!(client.get("/").await.unwrap(), quick(), "{name}");
        tokio::time::sleep(SHORT.first_request + Duration::from_millis(200)).await;
        assert_eq!(client.get("/").await.unwrap(), quick(), "{name}: kept alive");
        let start = Instant::now();
        let closed = tokio::time::timeout(Duration::from_secs(10), client.connection);
        closed.await.expect("never closed").unwrap();
        assert_about(name, start.elapsed(), SHORT.idle);
    }
}

#[tokio::test]
async fn a_drain_answers_what_is_in_flight_and_accepts_nothing_new() {
    let server = Running::https(Limits::WEBHOOK, GRACE).await;
    let mut client = server.client().await;
    let idle = server.client().await;
    let in_flight = tokio::spawn(async move { client.get("/slow").await });
    server.slow_begun().await;
    server.shutdown.begin();
    eventually("refusal of new connections", || async { server.tcp().await.is_err() }).await;
    assert!(!server.serving.is_finished(), "it did not wait");
    server.finish.notify_one();
    let answer = in_flight.await.unwrap().unwrap();
    assert_eq!(answer, (StatusCode::OK, "slow".to_owned()));
    drop(idle);
    assert_eq!(server.serving.await.unwrap(), 0);
}

#[tokio::test]
async fn idle_connections_do_not_delay_a_drain() {
    let server = Running::https(Limits::WEBHOOK, GRACE).await;
    let mut client = server.client().await;
    client.get("/").await.unwrap();
    server.shutdown.begin();
    let ended = tokio::time::timeout(Duration::from_secs(2), server.serving);
    assert_eq!(ended.await.expect("it was delayed").unwrap(), 0);
}

#[tokio::test]
async fn a_drain_ends_at_its_deadline() {
    let grace = Grace { delay: Duration::from_millis(200), timeout: Duration::from_millis(700) };
    let server = Running::https(Limits::WEBHOOK, grace).await;
    let mut client = server.client().await;
    let in_flight = tokio::spawn(async move { client.get("/slow").await });
    server.slow_begun().await;
    let start = Instant::now();
    server.shutdown.begin();
    assert_eq!(server.serving.await.unwrap(), 1);
    assert_about("drain", start.elapsed(), grace.timeout);
    in_flight.await.unwrap().unwrap_err();
}

#[tokio::test]
async fn new_connections_are_served_during_the_delay() {
    let grace = Grace { delay: Duration::from_millis(700), timeout: Duration::from_secs(5) };
    let server = Running::https(Limits::WEBHOOK, grace).await;
    server.shutdown.begin();
    let start = Instant::now();
    while start.elapsed() < grace.delay / 2 {
        let mut client = server.client().await;
        assert_eq!(client.get("/").await.unwrap(), quick());
    }
    eventually("refusal of new connections", || async { server.tcp().await.is_err() }).await;
    assert!(start.elapsed() >= grace.delay);
    assert_eq!(server.serving.await.unwrap(), 0);
}

/// A request that is sent while the server closes its connection is lost.
#[tokio::test]
async fn during_the_delay_clients_are_asked_to_close_before_they_are_closed() {
    let grace = Grace { delay: Duration::from_secs(30), timeout: Duration::from_secs(31) };
    let server = Running::https(Limits::WEBHOOK, grace).await;
    let mut client = server.client().await;
    for _ in 0..2 {
        assert_eq!(client.get("/").await.unwrap(), quick());
    }
    server.shutdown.begin();
    let start = Instant::now();
    loop {
        assert_eq!(client.get("/").await.unwrap(), quick());
        if tokio::time::timeout(Duration::from_millis(500), &mut client.connection).await.is_ok() {
            break;
        }
        assert!(start.elapsed() < grace.delay / 2, "it was never asked to close");
    }
    let mut another = server.client().await;
    assert_eq!(another.get("/").await.unwrap(), quick());
}

#[tokio::test]
async fn with_more_clients_than_slots_the_longest_idle_is_closed() {
    let limits = Limits { connections: 2, ..Limits::WEBHOOK };
    let server = Running::https(limits, GRACE).await;
    let mut clients = Vec::new();
    for _ in 0..2 {
        let mut client = server.client().await;
        assert_eq!(client.get("/").await.unwrap(), quick());
        clients.push(client);
    }
    assert_eq!(clients[0].get("/").await.unwrap(), quick(), "it is not the longest idle any more");
    let start = Instant::now();
    let mut third = server.client().await;
    assert_eq!(third.get("/").await.unwrap(), quick());
    assert!(start.elapsed() < Duration::from_secs(2), "it waited for {:?}", start.elapsed());
    let closed = tokio::time::timeout(Duration::from_secs(5), clients.remove(1).connection);
    closed.await.expect("the longest idle is closed").unwrap();
    assert_eq!(clients[0].get("/").await.unwrap(), quick());
}

#[tokio::test]
async fn silent_clients_take_no_slot_from_others() {
    let limits = Limits { connections: 8, ..Limits::WEBHOOK };
    let server = Running::https(limits, GRACE).await;
    let mut silent = Vec::new();
    for number in 0..20 {
        silent.push(server.tcp().await.unwrap());
        if number % 5 == 0 {
            assert_eq!(server.client().await.get("/").await.unwrap(), quick());
        }
    }
}

#[tokio::test]
async fn a_client_waits_while_all_others_are_busy() {
    let limits = Limits { connections: 2, ..Limits::WEBHOOK };
    let server = Running::https(limits, GRACE).await;
    let mut busy = Vec::new();
    for _ in 0..2 {
        let mut client = server.client().await;
        busy.push(tokio::spawn(async move { client.get("/slow").await }));
        server.slow_begun().await;
    }
    let connecting = server.connect(HTTP1);
    let mut connecting = pin!(connecting);
    let early = tokio::time::timeout(Duration::from_millis(300), &mut connecting).await;
    assert!(early.is_err(), "it was served before a slot was free");
    server.finish.notify_one();
    let mut third = Client::new(connecting.await.unwrap()).await;
    assert_eq!(third.get("/").await.unwrap(), quick());
    server.finish.notify_waiters();
    for busy in busy {
        assert_eq!(busy.await.unwrap().unwrap(), (StatusCode::OK, "slow".to_owned()));
    }
}

#[tokio::test]
async fn a_panic_ends_one_request_only() {
    let server = Running::https(Limits::WEBHOOK, GRACE).await;
    let mut client = server.client().await;
    let (status, _) = client.get("/panic").await.unwrap();
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(client.get("/").await.unwrap(), quick(), "same connection");
}
