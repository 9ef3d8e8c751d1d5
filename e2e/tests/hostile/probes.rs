//! Many connections from one address to the ports for probes and metrics. A kubelet waits one second for an answer.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::future::join_all;
use hns_e2e::http::get;
use http::StatusCode;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use super::fixture::{install, unharmed};

const ATTACKER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// How long a kubelet waits by default.
const PROBE: Duration = Duration::from_secs(1);

const PROBES: usize = 20;

/// More than there are slots.
const CONNECTIONS: usize = 1_000;

/// What the attacker sends on each connection: nothing, half a request, and a request after which the connection is idle.
const ATTACKS: [&str; 3] =
    ["", "GET /readyz HTTP/1.1\r\nHost: local", "GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_connections_of_one_address_delay_no_probe_of_another() -> Result<()> {
    let product = install().await?;
    let replicas = [product.start_webhook().await?, product.start_controller().await?];
    for replica in &replicas {
        for (port, path) in [(replica.health_port(), "/readyz"), (replica.metrics_port(), "/metrics")] {
            for sent in ATTACKS {
                let what = format!("{} {path}, {} bytes on each connection", replica.pod_name(), sent.len());
                attack(port, path, sent).await.context(what)?;
            }
        }
        unharmed(replica)?;
    }
    Ok(())
}

async fn attack(port: u16, path: &str, sent: &'static str) -> Result<()> {
    let attacker = tokio::spawn(join_all((0..CONNECTIONS).map(move |_| connect(port, sent))));
    let mut slowest = Duration::ZERO;
    for number in 0..PROBES {
        // The first probes come while the attacker connects, the others when all its connections are there.
        while number >= PROBES / 2 && !attacker.is_finished() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let asked = Instant::now();
        let (status, _) =
            timeout(PROBE, get(port, path)).await.with_context(|| format!("probe {number}"))??;
        ensure!(status == StatusCode::OK, "{status}");
        slowest = slowest.max(asked.elapsed());
    }
    let connected = attacker.await?.into_iter().collect::<Result<Vec<_>>>()?;
    println!(
        "{path}: the slowest of {PROBES} probes took {slowest:.1?} with {} connections",
        connected.len()
    );
    Ok(())
}

/// Connects and sends these bytes; returns the connection, which the server may have closed.
async fn connect(port: u16, sent: &'static str) -> Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((ATTACKER, 0).into())?;
    let mut stream = socket.connect((Ipv4Addr::LOCALHOST, port).into()).await?;
    // An error says that the server has closed the connection.
    let _ = stream.write_all(sent.as_bytes()).await;
    Ok(stream)
}
