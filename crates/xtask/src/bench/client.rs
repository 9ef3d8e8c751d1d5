//! The plain client: as many connections as asked for, each sending one request after another, answers read and thrown away.
//! What it reaches is the limit that the product is held against, so it does nothing that a program could leave out.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use http::{HeaderValue, Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::task::{JoinSet, LocalSet};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::usage;

/// A request, ready to be sent.
#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) body: Bytes,
    /// Whether a patch is one of server-side apply, instead of a merge.
    pub(crate) apply: bool,
}

impl Call {
    /// A request with a JSON body.
    pub(crate) fn new(method: Method, path: impl Into<String>, body: impl Into<Bytes>) -> Self {
        Self { method, path: path.into(), body: body.into(), apply: false }
    }

    fn content_type(&self) -> &'static str {
        match (self.method == Method::PATCH, self.apply) {
            (true, true) => "application/apply-patch+yaml",
            (true, false) => "application/merge-patch+json",
            _ => "application/json",
        }
    }
}

/// What sending many requests took.
#[derive(Clone)]
pub(crate) struct Sent {
    /// From the first request to the last answer, connections being there already.
    pub(crate) wall: Duration,
    /// The processor's time in the sending thread.
    pub(crate) cpu: Duration,
    /// How often the API server, or a webhook, wanted to be asked again.
    pub(crate) repeated: usize,
    /// From each request to its answer, the shortest first.
    pub(crate) waits: Vec<Duration>,
}

/// One user of one API server.
#[derive(Clone)]
pub(crate) struct Client {
    address: SocketAddr,
    tls: Arc<ClientConfig>,
    authorization: HeaderValue,
}

impl Client {
    /// A client of the API server at `url` that shows this token.
    pub(crate) fn new(url: &str, ca_pem: &str, token: &str) -> anyhow::Result<Self> {
        let address = url.strip_prefix("https://").context("an https address")?.parse()?;
        let tls = trusting(ca_pem)?;
        let mut authorization = HeaderValue::try_from(format!("Bearer {}", token.trim()))?;
        authorization.set_sensitive(true);
        Ok(Self { address, tls: Arc::new(tls), authorization })
    }

    /// Sends all requests over `parallel` connections, on a thread of its own. An error when one is refused.
    pub(crate) async fn send(&self, calls: Vec<Call>, parallel: usize) -> anyhow::Result<Sent> {
        self.send_once_connected(calls, parallel, || {}).await
    }

    /// The same; calls `connected` when all connections are there and the first request has yet to be sent.
    pub(crate) async fn send_once_connected(
        &self,
        calls: Vec<Call>,
        parallel: usize,
        connected: impl FnOnce() + Send + 'static,
    ) -> anyhow::Result<Sent> {
        let client = self.clone();
        tokio::task::spawn_blocking(move || {
            // A thread of its own, so that its processor time is that of these requests.
            let sender = thread::spawn(move || client.send_all(calls, parallel, connected));
            sender.join().map_err(|_| anyhow::anyhow!("the client's thread panicked"))?
        })
        .await?
    }

    /// Sends one request and gives the answer's body. An error when it is refused.
    pub(crate) async fn ask(&self, call: Call) -> anyhow::Result<Bytes> {
        let mut connection = self.connect().await?;
        let (status, body) = exchange(&mut connection, self.request(&call)?).await?;
        ensure!(status.is_success(), "{} {}: {status}: {}", call.method, call.path, shown(&body));
        Ok(body)
    }

    fn send_all(&self, calls: Vec<Call>, parallel: usize, connected: impl FnOnce()) -> anyhow::Result<Sent> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let local = LocalSet::new();
        local.block_on(&runtime, async {
            let mut connections = Vec::with_capacity(parallel);
            for _ in 0..parallel.min(calls.len()) {
                connections.push(self.connect().await?);
            }
            let calls = Arc::new(calls);
            let next = Arc::new(AtomicUsize::new(0));
            let mut workers = JoinSet::new();
            connected();
            let (clock, cpu) = (Instant::now(), usage::of_this_thread()?);
            for connection in connections {
                let (client, calls, next) = (self.clone(), Arc::clone(&calls), Arc::clone(&next));
                workers.spawn_local(async move { client.work(connection, &calls, &next).await });
            }
            let (mut repeated, mut waits) = (0, Vec::with_capacity(calls.len()));
            while let Some(worker) = workers.join_next().await {
                let worked = worker??;
                repeated += worked.repeated;
                waits.extend(worked.waits);
            }
            let (wall, cpu) = (clock.elapsed(), usage::of_this_thread()?.saturating_sub(cpu));
            waits.sort_unstable();
            Ok(Sent { wall, cpu, repeated, waits })
        })
    }

    /// Sends what is next until nothing is left.
    async fn work(
        &self,
        mut connection: Connection,
        calls: &[Call],
        next: &AtomicUsize,
    ) -> anyhow::Result<Worked> {
        let mut worked = Worked::default();
        while let Some(call) = calls.get(next.fetch_add(1, Ordering::Relaxed)) {
            let clock = Instant::now();
            while !self.once(&mut connection, call).await? {
                worked.repeated += 1;
                tokio::time::sleep(PAUSE).await;
            }
            worked.waits.push(clock.elapsed());
        }
        Ok(worked)
    }

    /// Whether it was done; not, when it is to be repeated.
    async fn once(&self, connection: &mut Connection, call: &Call) -> anyhow::Result<bool> {
        let mut answer = connection.send_request(self.request(call)?).await?;
        let status = answer.status();
        if !status.is_success() {
            let body = answer.into_body().collect().await?.to_bytes();
            let later = matches!(status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS);
            ensure!(later, "{} {}: {status}: {}", call.method, call.path, shown(&body));
            return Ok(false);
        }
        while let Some(frame) = answer.body_mut().frame().await {
            frame?;
        }
        Ok(true)
    }

    fn request(&self, call: &Call) -> anyhow::Result<Request<Full<Bytes>>> {
        let mut request = Request::builder().method(call.method.clone()).uri(call.path.as_str());
        if let Some(headers) = request.headers_mut() {
            headers.insert(header::HOST, HeaderValue::from_static("kubernetes"));
            headers.insert(header::AUTHORIZATION, self.authorization.clone());
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(call.content_type()));
            let accept = if call.method == Method::GET { METADATA } else { "application/json" };
            headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
        }
        Ok(request.body(Full::new(call.body.clone()))?)
    }

    async fn connect(&self) -> anyhow::Result<Connection> {
        let name = ServerName::from(self.address.ip());
        let stream = connect(self.address, name, Arc::clone(&self.tls)).await?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        // It ends with its sender; what goes wrong on it, the sender is told.
        tokio::spawn(connection);
        Ok(sender)
    }
}

/// A client's side of TLS that trusts these authorities (PEM) and nobody else.
pub(crate) fn trusting(ca_pem: &str) -> anyhow::Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(ca_pem.as_bytes()) {
        roots.add(certificate?)?;
    }
    Ok(ClientConfig::builder().with_root_certificates(roots).with_no_client_auth())
}

/// Connects with TLS to the server of this name.
pub(crate) async fn connect(
    address: SocketAddr,
    name: ServerName<'static>,
    tls: Arc<ClientConfig>,
) -> anyhow::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(address).await.with_context(|| format!("connecting to {address}"))?;
    stream.set_nodelay(true)?;
    Ok(TlsConnector::from(tls).connect(name, stream).await?)
}

/// What came of one connection.
#[derive(Default)]
struct Worked {
    repeated: usize,
    waits: Vec<Duration>,
}

/// Before a request is repeated.
const PAUSE: Duration = Duration::from_millis(5);

/// What is looked up is looked up by metadata.
const METADATA: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

type Connection = SendRequest<Full<Bytes>>;

async fn exchange(
    connection: &mut Connection,
    request: Request<Full<Bytes>>,
) -> anyhow::Result<(StatusCode, Bytes)> {
    let answer = connection.send_request(request).await?;
    let status = answer.status();
    Ok((status, answer.into_body().collect().await?.to_bytes()))
}

fn shown(body: &Bytes) -> String {
    String::from_utf8_lossy(body).chars().take(500).collect()
}
