//! A TLS client that trusts the webhook's certificate and sends whatever it is told, in either protocol. Never follows,
//! repeats or corrects anything.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use hns_e2e::Product;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Which HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    Http1,
    Http2,
}

pub(super) const PROTOCOLS: [Protocol; 2] = [Protocol::Http1, Protocol::Http2];

/// One request.
#[derive(Debug, Clone)]
pub(super) struct Sent {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) content_type: Option<&'static str>,
    pub(super) body: Bytes,
}

impl Sent {
    /// A review as the API server sends it.
    pub(super) fn json(path: &str, body: impl Into<Bytes>) -> Self {
        Self {
            method: Method::POST,
            path: path.to_owned(),
            content_type: Some("application/json"),
            body: body.into(),
        }
    }

    fn request(self, protocol: Protocol) -> Result<Request<Full<Bytes>>> {
        let uri = match protocol {
            Protocol::Http1 => self.path,
            Protocol::Http2 => format!("https://localhost{}", self.path),
        };
        let mut request = Request::builder().method(self.method).uri(uri);
        if protocol == Protocol::Http1 {
            request = request.header(header::HOST, "localhost");
        }
        if let Some(content_type) = self.content_type {
            request = request.header(header::CONTENT_TYPE, content_type);
        }
        Ok(request.body(Full::new(self.body))?)
    }
}

/// Where the webhook is and how it is trusted. Clones share nothing that could break.
#[derive(Clone)]
pub(super) struct Client {
    /// Where it connects from.
    address: Ipv4Addr,
    port: u16,
    roots: RootCertStore,
    config: ClientConfig,
}

impl Client {
    pub(super) fn new(product: &Product<'_>) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(product.ca_pem().as_bytes()) {
            roots.add(certificate?)?;
        }
        let config = ClientConfig::builder().with_root_certificates(roots.clone()).with_no_client_auth();
        Ok(Self { address: Ipv4Addr::LOCALHOST, port: product.webhook_port(), roots, config })
    }

    /// The same from another address of loopback.
    pub(super) fn from(self, address: Ipv4Addr) -> Self {
        Self { address, ..self }
    }

    /// The same for another webhook.
    pub(super) fn at(self, port: u16) -> Self {
        Self { port, ..self }
    }

    /// The same with the certificate and the key in these files.
    pub(super) fn with_certificate(self, [certificate, key]: &[PathBuf; 2]) -> Result<Self> {
        let chain = vec![CertificateDer::from_pem_file(certificate)?];
        let key = PrivateKeyDer::from_pem_file(key)?;
        let config = ClientConfig::builder().with_root_certificates(self.roots.clone());
        Ok(Self { config: config.with_client_auth_cert(chain, key)?, ..self })
    }

    pub(super) async fn tcp(&self) -> Result<TcpStream> {
        let socket = TcpSocket::new_v4()?;
        socket.bind((self.address, 0).into())?;
        socket.connect((Ipv4Addr::LOCALHOST, self.port).into()).await.context("connecting")
    }

    /// A connection on which nothing has been said but the handshake.
    pub(super) async fn tls(&self, protocol: Protocol) -> Result<TlsStream<TcpStream>> {
        let mut config = self.config.clone();
        config.alpn_protocols = vec![match protocol {
            Protocol::Http1 => b"http/1.1".to_vec(),
            Protocol::Http2 => b"h2".to_vec(),
        }];
        let name = ServerName::try_from("localhost")?;
        let stream = TlsConnector::from(Arc::new(config)).connect(name, self.tcp().await?).await?;
        if protocol == Protocol::Http2 {
            ensure!(stream.get_ref().1.alpn_protocol() == Some(b"h2"), "it does not speak HTTP/2");
        }
        Ok(stream)
    }

    /// Sends one request on a connection of its own; the status and the body of the answer.
    pub(super) async fn ask(&self, protocol: Protocol, sent: Sent) -> Result<(StatusCode, String)> {
        let stream = TokioIo::new(self.tls(protocol).await?);
        let request = sent.request(protocol)?;
        match protocol {
            Protocol::Http1 => {
                let (mut sender, connection) = http1::handshake(stream).await?;
                let driver = tokio::spawn(connection);
                let answer = read(sender.send_request(request).await?).await;
                driver.abort();
                answer
            }
            Protocol::Http2 => {
                let (mut sender, connection) = http2::handshake(TokioExecutor::new(), stream).await?;
                let driver = tokio::spawn(connection);
                let answer = read(sender.send_request(request).await?).await;
                driver.abort();
                answer
            }
        }
    }
}

/// A connection for many requests at once.
#[derive(Clone)]
pub(super) struct Session(http2::SendRequest<Full<Bytes>>);

impl Client {
    /// Connects for as long as the session or a clone of it is kept.
    pub(super) async fn session(&self) -> Result<Session> {
        let stream = TokioIo::new(self.tls(Protocol::Http2).await?);
        let (sender, connection) = http2::handshake(TokioExecutor::new(), stream).await?;
        tokio::spawn(connection);
        Ok(Session(sender))
    }
}

impl Session {
    /// Sends one request beside the others; the status and the body of the answer.
    pub(super) async fn ask(&self, sent: Sent) -> Result<(StatusCode, String)> {
        let mut sender = self.0.clone();
        sender.ready().await?;
        read(sender.send_request(sent.request(Protocol::Http2)?).await?).await
    }
}

async fn read(response: http::Response<Incoming>) -> Result<(StatusCode, String)> {
    let status = response.status();
    let body = response.into_body().collect().await?.to_bytes();
    Ok((status, String::from_utf8_lossy(&body).into_owned()))
}
