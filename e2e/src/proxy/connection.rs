//! One client connection of the proxy, with one connection to the API server behind it. Never retries.

use std::convert::Infallible;
use std::sync::Arc;

use anyhow::{Context, bail};
use http::{Request, Response, header};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::SendRequest;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio_rustls::TlsConnector;

use super::plan::{self, Admission};
use super::{Fault, Shared};

type Body = BoxBody<Bytes, hyper::Error>;

/// The API server's address and its trusted certificate.
pub(super) struct Upstream {
    address: String,
    name: ServerName<'static>,
    connector: TlsConnector,
}

impl Upstream {
    pub(super) fn new(url: &str, ca_pem: &str) -> anyhow::Result<Self> {
        let uri: http::Uri = url.parse()?;
        let host = uri.host().context("the API server's address has no host")?;
        let port = uri.port_u16().context("the API server's address has no port")?;
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(ca_pem.as_bytes()) {
            roots.add(certificate?)?;
        }
        let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        Ok(Self {
            address: format!("{host}:{port}"),
            name: ServerName::try_from(host.to_owned())?,
            connector: TlsConnector::from(Arc::new(config)),
        })
    }

    async fn connect(&self) -> anyhow::Result<SendRequest<Incoming>> {
        let stream = TcpStream::connect(&self.address).await?;
        stream.set_nodelay(true)?;
        let stream = self.connector.connect(self.name.clone(), stream).await?;
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        // It ends with its sender, which the client's connection owns.
        tokio::spawn(connection);
        Ok(sender)
    }
}

/// Serves a client until it leaves, an error occurs, or all connections are cut.
pub(super) async fn serve(stream: TcpStream, shared: Arc<Shared>) {
    let mut cuts = shared.cuts.subscribe();
    let _ = stream.set_nodelay(true);
    let exchange = Exchange { shared, upstream: Mutex::default() };
    let service = service_fn(|request| exchange.answer(request));
    let connection =
        hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        // An error is a connection closed by a fault or by the client.
        _ = connection => {}
        _ = cuts.changed() => {}
    }
}

struct Exchange {
    shared: Arc<Shared>,
    /// Requests of one HTTP/1.1 connection are sequential, so this lock is never contended.
    upstream: Mutex<Option<SendRequest<Incoming>>>,
}

impl Exchange {
    /// An error closes the client's connection without a response.
    async fn answer(&self, request: Request<Incoming>) -> anyhow::Result<Response<Body>> {
        let (parts, body) = request.into_parts();
        let fault = self.shared.fault(&parts);
        match fault {
            Some(Fault::Answer(code)) => return refusal(code, None),
            Some(Fault::RetryAfter(seconds)) => return refusal(429, Some(seconds)),
            Some(Fault::Delay(time)) => tokio::time::sleep(time).await,
            Some(Fault::Hold) => {
                // An error means that the proxy has ended.
                let _ = self.shared.releases.subscribe().changed().await;
            }
            Some(Fault::Cut) => bail!("cut by a rule"),
            Some(Fault::LoseAnswer) | None => {}
        }
        let admitted = if plan::is_write(&parts) { Some(self.admit().await?) } else { None };
        let response = self.forward(Request::from_parts(parts, body)).await?;
        if admitted.is_some_and(Admitted::answered) {
            self.stop();
        }
        if self.shared.plan().is_refusing() || fault == Some(Fault::LoseAnswer) {
            bail!("the answer is lost");
        }
        Ok(response.map(BodyExt::boxed))
    }

    /// Returns when the write may pass.
    async fn admit(&self) -> anyhow::Result<Admitted<'_>> {
        loop {
            // Created first, so that no change between the decision and the wait is missed.
            let abandoned = self.shared.abandoned.notified();
            let admission = self.shared.plan().admit();
            match admission {
                Admission::Pass => return Ok(Admitted { shared: &self.shared, answered: false }),
                // The last planned write cuts this connection when it is answered.
                Admission::Wait => abandoned.await,
                Admission::Stop => {
                    self.stop();
                    bail!("refused");
                }
            }
        }
    }

    fn stop(&self) {
        let hook = self.shared.plan().refuse();
        if let Some(hook) = hook {
            hook();
        }
        self.shared.cut();
    }

    async fn forward(&self, request: Request<Incoming>) -> anyhow::Result<Response<Incoming>> {
        let mut upstream = self.upstream.lock().await;
        let mut sender = match upstream.take() {
            Some(sender) if !sender.is_closed() => sender,
            _ => self.shared.upstream.connect().await?,
        };
        sender.ready().await?;
        let response = sender.send_request(request).await?;
        *upstream = Some(sender);
        Ok(response)
    }
}

/// A write in flight. If it is dropped before its response (its client or the API server disconnects), it no longer counts.
struct Admitted<'a> {
    shared: &'a Shared,
    answered: bool,
}

impl Admitted<'_> {
    /// Counts the response; returns whether it was the last of the plan.
    fn answered(mut self) -> bool {
        self.answered = true;
        self.shared.plan().answer()
    }
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.shared.plan().abandon();
            self.shared.abandoned.notify_waiters();
        }
    }
}

fn refusal(code: u16, retry_after: Option<u32>) -> anyhow::Result<Response<Body>> {
    let status = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
        "message": format!("the proxy answers {code}"),
    });
    let mut response = Response::builder().status(code).header(header::CONTENT_TYPE, "application/json");
    if let Some(seconds) = retry_after {
        response = response.header(header::RETRY_AFTER, seconds);
    }
    let body = Full::from(status.to_string()).map_err(|never: Infallible| match never {});
    Ok(response.body(body.boxed())?)
}
