//! A TLS client that trusts the webhook's certificate and sends over HTTP/1.1 what it is given. It follows, repeats and corrects
//! nothing.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use hns_e2e::Product;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

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

    fn request(self) -> Result<Request<Full<Bytes>>> {
        let mut request =
            Request::builder().method(self.method).uri(self.path).header(header::HOST, "localhost");
        if let Some(content_type) = self.content_type {
            request = request.header(header::CONTENT_TYPE, content_type);
        }
        Ok(request.body(Full::new(self.body))?)
    }
}

/// The address of the webhook and the certificate to trust. Clones share no connection.
#[derive(Clone)]
pub(super) struct Client {
    /// The address to connect from.
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

    /// The same from another loopback address.
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

    /// A connection on which nothing has been sent after the handshake.
    pub(super) async fn tls(&self) -> Result<TlsStream<TcpStream>> {
        let mut config = self.config.clone();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let name = ServerName::try_from("localhost")?;
        Ok(TlsConnector::from(Arc::new(config)).connect(name, self.tcp().await?).await?)
    }

    /// Sends one request on a connection of its own. Returns the status and the body of the response.
    pub(super) async fn ask(&self, sent: Sent) -> Result<(StatusCode, String)> {
        Session::new(self.clone()).ask(sent).await
    }
}

/// A pool of connections for many requests at a time. Clones share the connections.
#[derive(Clone)]
pub(super) struct Session {
    client: Client,
    idle: Arc<Mutex<Vec<SendRequest<Full<Bytes>>>>>,
}

impl Session {
    pub(super) fn new(client: Client) -> Self {
        Self { client, idle: Arc::default() }
    }

    /// Sends one request on an idle connection, or on a new one. Returns the status and the body of the response.
    pub(super) async fn ask(&self, sent: Sent) -> Result<(StatusCode, String)> {
        let idle = self.idle.lock().expect("no test panics with it").pop();
        let mut sender = match idle {
            Some(sender) => sender,
            None => self.connect().await?,
        };
        sender.ready().await?;
        let response = sender.send_request(sent.request()?).await?;
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        self.idle.lock().expect("no test panics with it").push(sender);
        Ok((status, String::from_utf8_lossy(&body).into_owned()))
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>> {
        let (sender, connection) = http1::handshake(TokioIo::new(self.client.tls().await?)).await?;
        tokio::spawn(connection);
        Ok(sender)
    }
}
