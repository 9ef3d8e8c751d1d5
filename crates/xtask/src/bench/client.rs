//! The plain client: each connection sends one request after another and discards the answers. Its throughput is the
//! limit for the product, so it does no unnecessary work.

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

/// A prepared request.
#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) body: Bytes,
    /// Whether a patch is a server-side apply instead of a merge patch.
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

/// The measurements of many requests.
#[derive(Clone)]
pub(crate) struct Sent {
    /// From the first request to the last answer; connections are opened before.
    pub(crate) wall: Duration,
    /// The processor time of the sending thread.
    pub(crate) cpu: Duration,
    /// How often the API server or a webhook asked for a retry.
    pub(crate) repeated: usize,
    /// The duration of each request, the shortest first.
    pub(crate) waits: Vec<Duration>,
}

/// A user of an API server.
#[derive(Clone)]
pub(crate) struct Client {
    address: SocketAddr,
    tls: Arc<ClientConfig>,
    authorization: HeaderValue,
}

impl Client {
    /// A client of the API server at `url` with this token.
    pub(crate) fn new(url: &str, ca_pem: &str, token: &str) -> anyhow::Result<Self> {
        let address = url.strip_prefix("https://").context("an https address")?.parse()?;
        let tls = trusting(ca_pem)?;
        let mut authorization = HeaderValue::try_from(format!("Bearer {}", token.trim()))?;
        authorization.set_sensitive(true);
        Ok(Self { address, tls: Arc::new(tls), authorization })
    }

    /// Sends all requests over `parallel` connections, on a separate thread. Fails if one is refused.
    pub(crate) async fn send(&self, calls: Vec<Call>, parallel: usize) -> anyhow::Result<Sent> {
        self.send_once_connected(calls, parallel, || {}).await
    }

    /// Like [`Self::send`]; calls `connected` when all connections are open, before the first request.
    pub(crate) async fn send_once_connected(
        &self,
        calls: Vec<Call>,
        parallel: usize,
        connected: impl FnOnce() + Send + 'static,
    ) -> anyhow::Result<Sent> {
        let client = self.clone();
        tokio::task::spawn_blocking(move || {
            // A separate thread, so that its processor time is that of these requests.
            let sender = thread::spawn(move || client.send_all(calls, parallel, connected));
            sender.join().map_err(|_| anyhow::anyhow!("the client's thread panicked"))?
        })
        .await?
    }

    /// Sends one request and returns the body of the answer. Fails if it is refused.
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
                let result = worker??;
                repeated += result.repeated;
                waits.extend(result.waits);
            }
            let (wall, cpu) = (clock.elapsed(), usage::of_this_thread()?.saturating_sub(cpu));
            waits.sort_unstable();
            Ok(Sent { wall, cpu, repeated, waits })
        })
    }

    /// Sends requests until none is left.
    async fn work(
        &self,
        mut connection: Connection,
        calls: &[Call],
        next: &AtomicUsize,
    ) -> anyhow::Result<WorkerResult> {
        let mut result = WorkerResult::default();
        while let Some(call) = calls.get(next.fetch_add(1, Ordering::Relaxed)) {
            let clock = Instant::now();
            while !self.once(&mut connection, call).await? {
                result.repeated += 1;
                tokio::time::sleep(PAUSE).await;
            }
            result.waits.push(clock.elapsed());
        }
        Ok(result)
    }

    /// Whether it was accepted; `false` if it must be repeated.
    async fn once(&self, connection: &mut Connection, call: &Call) -> anyhow::Result<bool> {
        let mut answer = connection.send_request(self.request(call)?).await?;
        let status = answer.status();
        if !status.is_success() {
            let body = answer.into_body().collect().await?.to_bytes();
            let shown = shown(&body);
            // The API server's quota admission gives up after some conflicts with itself.
            let later = matches!(status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS)
                || (status == StatusCode::CONFLICT && shown.contains("the object has been modified"));
            ensure!(later, "{} {}: {status}: {shown}", call.method, call.path);
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
        // The connection ends with its sender, which gets its errors.
        tokio::spawn(connection);
        Ok(sender)
    }
}

/// A TLS client configuration that trusts only these authorities (PEM).
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

/// The results of one connection.
#[derive(Default)]
struct WorkerResult {
    repeated: usize,
    waits: Vec<Duration>,
}

/// The delay before a request is repeated.
const PAUSE: Duration = Duration::from_millis(5);

/// Reads request metadata only.
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
