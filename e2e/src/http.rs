//! One plain HTTP request on loopback, like a probe's. Never follows redirects, never uses TLS.

use std::net::Ipv4Addr;

use anyhow::Context;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// GETs `http://127.0.0.1:PORT{path}`.
pub async fn get(port: u16, path: &str) -> anyhow::Result<(StatusCode, String)> {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))
        .await
        .with_context(|| format!("connecting to port {port}"))?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let request = Request::get(path).header(header::HOST, "127.0.0.1").body(Empty::<Bytes>::new())?;
    let exchange = async {
        let response = sender.send_request(request).await?;
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        drop(sender);
        anyhow::Ok((status, String::from_utf8_lossy(&body).into_owned()))
    };
    // The connection is driven here rather than in a task, so no task outlives the call.
    let (outcome, _) = tokio::join!(exchange, connection);
    outcome.with_context(|| format!("GET {path} on port {port}"))
}
