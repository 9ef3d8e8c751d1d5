//! Replaces a Service: spreads connections to one port over several backends.

use std::net::Ipv4Addr;
use std::sync::Arc;

use anyhow::Result;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Ends when dropped, and with it the listening; connections end by themselves.
#[derive(Debug)]
pub struct Balancer(JoinHandle<()>);

impl Balancer {
    /// Passes every connection to `port` on to the next of `backends` that accepts connections. A backend that is stopped still
    /// accepts them, as it would behind a Service until its readiness probe has failed.
    pub async fn start(port: u16, backends: Vec<u16>) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let backends: Arc<[u16]> = backends.into();
        Ok(Self(tokio::spawn(async move {
            for first in (0..backends.len()).cycle() {
                // A failed accept concerns one client, which will retry.
                let Ok((client, _)) = listener.accept().await else { continue };
                tokio::spawn(pass_on(client, Arc::clone(&backends), first));
            }
        })))
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn pass_on(mut client: TcpStream, backends: Arc<[u16]>, first: usize) {
    for backend in backends.iter().cycle().skip(first).take(backends.len()) {
        let Ok(mut server) = TcpStream::connect((Ipv4Addr::LOCALHOST, *backend)).await else { continue };
        // An error ends the connection, which both sides notice.
        let _ = client.set_nodelay(true).and_then(|()| server.set_nodelay(true));
        let _ = copy_bidirectional(&mut client, &mut server).await;
        return;
    }
}
