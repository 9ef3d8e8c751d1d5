//! A webhook that allows everything and writes down what it was asked, and two that are of no use: one that nothing listens
//! for, and one that takes every connection and never says anything.
//!
//! They live in a thread of their own, since every test has a runtime of its own.

use std::convert::Infallible;
use std::fs;
use std::net::{Ipv4Addr, TcpListener as StdListener};
use std::path::Path;
use std::sync::{Arc, Mutex};

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// One review.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// The entry that it came through, by the path that the tests give each.
    pub(crate) entry: String,
    /// The `request` of the review.
    pub(crate) request: Value,
}

/// The three webhooks, by their ports on loopback.
pub(crate) struct Recorder {
    pub(crate) alive: u16,
    pub(crate) dead: u16,
    pub(crate) hanging: u16,
    calls: Arc<Mutex<Vec<Call>>>,
}

impl Recorder {
    /// Starts all of them; the living one serves with `tls.crt` and `tls.key` of `certificates`.
    pub(crate) fn start(certificates: &Path) -> Self {
        let [alive, dead, hanging] = [(); 3].map(|()| StdListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
        let port = |listener: &StdListener| listener.local_addr().unwrap().port();
        let calls = Arc::default();
        let recorder = Self {
            alive: port(&alive),
            dead: port(&dead),
            hanging: port(&hanging),
            calls: Arc::clone(&calls),
        };
        // The port stays free: nobody else asks for one while the tests run, or asks for this one by chance.
        drop(dead);
        let tls = acceptor(certificates);
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async { tokio::join!(answer(alive, tls, calls), keep_waiting(hanging)) });
        });
        recorder
    }

    /// What it was asked since this was called last.
    pub(crate) fn take(&self) -> Vec<Call> {
        std::mem::take(&mut self.calls.lock().unwrap())
    }
}

fn acceptor(certificates: &Path) -> TlsAcceptor {
    let read = |name: &str| fs::read(certificates.join(name)).unwrap();
    let chain: Vec<_> = CertificateDer::pem_slice_iter(&read("tls.crt")).collect::<Result<_, _>>().unwrap();
    let key = PrivateKeyDer::from_pem_slice(&read("tls.key")).unwrap();
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key).unwrap();
    TlsAcceptor::from(Arc::new(config))
}

async fn answer(listener: StdListener, tls: TlsAcceptor, calls: Arc<Mutex<Vec<Call>>>) {
    let listener = tokio_listener(listener);
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        tokio::spawn(serve(stream, tls.clone(), Arc::clone(&calls)));
    }
}

async fn serve(stream: TcpStream, tls: TlsAcceptor, calls: Arc<Mutex<Vec<Call>>>) {
    let Ok(stream) = tls.accept(stream).await else { return };
    let service = service_fn(|request| review(request, &calls));
    // The API server closes connections as it pleases.
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn review(
    request: Request<Incoming>,
    calls: &Mutex<Vec<Call>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let entry = request.uri().path().trim_start_matches('/').to_owned();
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let review: Value = serde_json::from_slice(&body).unwrap();
    let answer = json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": { "uid": review["request"]["uid"], "allowed": true },
    });
    calls.lock().unwrap().push(Call { entry, request: review["request"].clone() });
    Ok(Response::new(Full::new(answer.to_string().into())))
}

async fn keep_waiting(listener: StdListener) {
    let listener = tokio_listener(listener);
    let mut taken = Vec::new();
    loop {
        taken.push(listener.accept().await.unwrap());
    }
}

fn tokio_listener(listener: StdListener) -> TcpListener {
    listener.set_nonblocking(true).unwrap();
    TcpListener::from_std(listener).unwrap()
}
